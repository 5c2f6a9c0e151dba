/* gpu_block.h - internal declarations for the source files of a block, and the layout of a block's
 * memory. To claim memory means to reserve a part of it for a row.
 *
 *     gpu_field.c  chain, options -> field     gpu_block.c  memory, claims
 *     gpu_rows.c   an item -> its row          gpu_work.c   rows -> lists, launches
 *     gpu_sound.c  the same for sound: field, row and launches
 *
 * The upload memory is laid out alike in pinned memory and on the GPU:
 *
 *     statuses, counters | what rows claimed | lists        | nothing |  temporary
 *     0                  fixed_nbytes        upload_used    work.upload_nbytes   temporary_end
 *
 * Rows claim memory for bytes, tables and pixels from the front. From the back they claim temporary
 * host memory for their list entries. psti_gpu_block_work copies these entries, in the order of the
 * launches, to the lists after the last claim. So every entry needs memory twice. */
#ifndef PST_GPU_GPU_BLOCK_H
#define PST_GPU_GPU_BLOCK_H

#include "gpu/gpu.h"
#include "gpu/work/gpu_copy.h"
#include "gpu/work/gpu_jpeg.h"
#include "gpu/work/gpu_kernels.h"
#include "gpu/work/gpu_prepare.h"
#include "gpu/work/gpu_sound.h"
#include "gpu/work/gpu_tables.h"
#include "gpu/work/gpu_units.h"

#include <pthread.h>

#define PSTI_GPU_ROOM "gpu"
enum {
    PSTI_GPU_ALIGN = 256,      /* alignment in bytes of claims and lists */
    PSTI_GPU_BLOCK_WARPS = 32, /* the most warps in a block of any kernel */
    PSTI_GPU_COUNTERS = 2,     /* of a field, for psti_gpu_coefs */
    /* Bytes of scratch for psti_gpu_coefs that are enough for all warps that a GPU runs at a
     * time. */
    PSTI_GPU_COEFS_SCRATCH_NBYTES = 128 << 20,
    /* Most launches of a field: kernels of units, two kernels of JPEGs, kernels of each turn of
     * passes, and copies. */
    PSTI_GPU_PASS_LISTS_MAX = PSTI_GPU_N_PASS_KERNELS * PSTI_GPU_MAX_TURNS,
    PSTI_GPU_LAUNCHES_MAX = PSTI_GPU_N_UNITS_LISTS + 2 + PSTI_GPU_PASS_LISTS_MAX + 1,
    /* Most lists except those of passes: those of launches, and the lists of images of both
     * kinds. */
    PSTI_GPU_LISTS_MAX = PSTI_GPU_LAUNCHES_MAX - PSTI_GPU_PASS_LISTS_MAX + 2,
    PSTI_GPU_PASS_ALIGN = 64 /* of lists of passes, which are many and short */
};

struct psti_gpu_field {
    const struct psti_chain *chain;
    struct pst_decode_options decode;
    struct psti_chain_output output;
    size_t row_nbytes, row_step_nbytes; /* of a row, and from one row to the next */
    bool may_differ;                    /* rows have any size; row_nbytes is typical */
    struct psti_gpu_finish finish;
    struct psti_gpu_sound *sound; /* how features are made; NULL: the field has pixels */
};

enum psti_gpu_row_kind {
    PSTI_GPU_ROW_EMPTY,
    PSTI_GPU_ROW_UNITS,   /* a PLI of pixels, decoded on the GPU */
    PSTI_GPU_ROW_JPEG,    /* a JPEG kept as PLI, decoded on the GPU */
    PSTI_GPU_ROW_PICTURE, /* decoded pixels of the region, which are uploaded */
    PSTI_GPU_ROW_WAVES,   /* waveforms, which are uploaded */
    PSTI_GPU_ROW_FINISHED /* a finished row, which is uploaded */
};

/* A row as the host knows it. Its pointers lead to temporary memory. */
struct psti_gpu_row {
    enum psti_gpu_row_kind kind;
    enum psti_gpu_row_kind claimed;     /* the kind that the row will have when it is done */
    uint64_t at;                        /* for a FINISHED row: address of the row on the GPU */
    uint64_t out;                       /* with may_differ: address to which the row goes */
    uint32_t size[2];                   /* height and width of the finished row */
    const struct psti_gpu_pass *passes; /* gpu_work.c sets `to` of passes that finish a row */
    uint32_t n_passes;
    uint32_t i_pass; /* gpu_work.c: the first pass that has no launch yet */
    uint32_t index;  /* number of the row's image in the launches; gpu_work.c sets it */
    union {
        struct {
            struct psti_gpu_image image; /* if the sink finishes rows, gpu_work.c sets its `at` */
            uint32_t counts[PSTI_GPU_N_UNITS_LISTS];
            const struct psti_gpu_unit *entries; /* the row's entries, grouped by list */
        } units;
        struct {
            struct psti_gpu_jpeg_image image;
            uint32_t n_units, n_tiles, n_places;
            const struct psti_gpu_jpeg_unit *units;
            const struct psti_gpu_jpeg_tile *tiles;
        } jpeg;
        const struct psti_gpu_sound_row *waves; /* gpu_work.c sets `to` of its copies */
    };
};

/* Memory that a row claims. Each part begins at a multiple of PSTI_GPU_ALIGN. */
struct psti_gpu_claim {
    size_t upload_nbytes;
    size_t temporary_nbytes; /* bytes of temporary memory, which count in lists, too */
    size_t list_nbytes;      /* bytes that are only in lists */
    size_t scratch_nbytes;
    /* Claim for psti_gpu_coefs: the scratch of a warp, which all units of a field share, and the
     * number of units. */
    size_t coefs_nbytes;
    uint32_t n_coefs;
};
struct psti_gpu_claimed {
    void *host;   /* address in pinned host memory */
    uint64_t gpu; /* the same memory's address on the GPU */
    void *temporary;
    uint64_t scratch;
};

union psti_gpu_args {
    struct psti_gpu_units_args units;
    struct psti_gpu_jpeg_args jpeg;
    struct psti_gpu_prepare_args prepare;
    struct psti_gpu_sound_args sound;
    struct psti_gpu_copy_args copy;
    struct psti_gpu_pad_args pad;
};

struct psti_gpu_block {
    const struct psti_gpu_field **fields; /* [n_fields] */
    uint32_t n_fields, n_rows_max;
    struct psti_gpu_memory memory;
    struct psti_gpu_row *rows; /* [n_fields][n_rows_max] */
    size_t fixed_nbytes, temporary_end;
    pthread_mutex_t lock; /* guards the members from upload_used to n_coefs */
    size_t upload_used, list_used, temporary_used, scratch_used;
    size_t coefs_nbytes; /* largest coefs_nbytes of all claims */
    uint64_t n_coefs;
    /* The members from here on are results of the last psti_gpu_block_work. */
    struct psti_gpu_launch *launches; /* [n_fields * PSTI_GPU_LAUNCHES_MAX] */
    union psti_gpu_args *args; /* [n_fields * PSTI_GPU_LAUNCHES_MAX], arguments of each launch */
    uint32_t n_launches;
};

/* Claims memory, under the block's lock. Returns false if there is not enough. */
bool psti_gpu_block_claim(struct psti_gpu_block *block, const struct psti_gpu_claim *claim,
                          struct psti_gpu_claimed *claimed);
/* Returns the bytes at the start of the upload, before the claims of rows: a status for each row,
 * and counters for each field. */
size_t psti_gpu_block_fixed_nbytes(uint32_t n_fields, uint32_t n_rows);
/* Returns the bytes that lists may need in addition to their entries because each list is
 * aligned. */
size_t psti_gpu_block_slack_nbytes(uint32_t n_fields);

static inline struct psti_gpu_row *psti_gpu_row(const struct psti_gpu_block *block,
                                                uint32_t i_field, uint32_t row)
{
    return &block->rows[(size_t)i_field * block->n_rows_max + row];
}
/* These functions return the offset in the upload of a row's status, and of a field's counters. */
static inline size_t psti_gpu_block_status(const struct psti_gpu_block *block, uint32_t i_field,
                                           uint32_t row)
{
    return ((size_t)i_field * block->n_rows_max + row) * sizeof(uint32_t);
}
static inline size_t psti_gpu_block_counters(const struct psti_gpu_block *block, uint32_t i_field)
{
    return psti_gpu_block_status(block, block->n_fields, 0) +
           i_field * PSTI_GPU_COUNTERS * sizeof(uint32_t);
}

/* Returns the GPU address of a field's tables. */
uint64_t psti_gpu_block_tables(const struct psti_gpu_block *block, uint32_t i_field);
/* These functions return the GPU addresses of the built-in tables. */
uint64_t psti_gpu_constants_lz(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_wave(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_jpeg(const struct psti_gpu_block *block);

#endif
