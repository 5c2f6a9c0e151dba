/* gpu_block.h - declarations that the files of a block share: the layout of its memory. It is not a
 * door.
 *
 *     gpu_field.c  chain, options -> field     gpu_block.c  memory, claims
 *     gpu_rows.c   an item -> its row          gpu_work.c   rows -> lists, launches
 *
 * Upload memory, the same in pinned memory and on the GPU:
 *
 *     statuses, counters | what rows claimed | lists        | nothing |  temporary
 *     0                  fixed_nbytes        upload_used    work.upload_nbytes   temporary_end
 *
 * Rows claim data for the upload (bytes, tables, pixels) from the front. From the back they claim
 * host memory for their entries of lists. The work copies entries past the last claim in the order
 * of the launches, so entries count twice. */
#ifndef PST_GPU_GPU_BLOCK_H
#define PST_GPU_GPU_BLOCK_H

#include "gpu/gpu.h"
#include "gpu/work/gpu_copy.h"
#include "gpu/work/gpu_jpeg.h"
#include "gpu/work/gpu_kernels.h"
#include "gpu/work/gpu_prepare.h"
#include "gpu/work/gpu_tables.h"
#include "gpu/work/gpu_units.h"

#include <pthread.h>

#define PSTI_GPU_ROOM "gpu"
enum {
    PSTI_GPU_ALIGN = 256,      /* alignment of claims and lists */
    PSTI_GPU_BLOCK_WARPS = 32, /* largest number of warps of any kernel's block */
    /* Scratch of psti_gpu_coefs that is enough for all warps of a GPU. */
    PSTI_GPU_COEFS_SCRATCH_NBYTES = 128 << 20,
    /* The most launches of a field: kernels of units, two of JPEGs, those of each pass, and
     * copies. */
    PSTI_GPU_PASS_LISTS_MAX = PSTI_GPU_N_PASS_KERNELS * PSTI_GPU_MAX_PASSES,
    PSTI_GPU_LAUNCHES_MAX = PSTI_GPU_N_UNITS_LISTS + 2 + PSTI_GPU_PASS_LISTS_MAX + 1,
    /* The most lists besides those of passes: those of launches, and the lists of images of both
     * kinds. */
    PSTI_GPU_LISTS_MAX = PSTI_GPU_LAUNCHES_MAX - PSTI_GPU_PASS_LISTS_MAX + 2,
    PSTI_GPU_PASS_ALIGN = 64 /* alignment of lists of passes, which are many and short */
};

struct psti_gpu_field {
    const struct psti_chain *chain;
    struct pst_decode_options decode;
    struct psti_chain_output output;
    size_t row_nbytes;
    struct psti_gpu_finish finish;
};

enum psti_gpu_row_kind {
    PSTI_GPU_ROW_EMPTY,
    PSTI_GPU_ROW_UNITS,   /* a PLI of pixels */
    PSTI_GPU_ROW_JPEG,    /* a JPEG kept as PLI */
    PSTI_GPU_ROW_PICTURE, /* pixels of the region, which are uploaded */
    PSTI_GPU_ROW_FINISHED /* the finished row, which is uploaded */
};

/* A row as the host knows it. Pointers are to temporary memory. */
struct psti_gpu_row {
    enum psti_gpu_row_kind kind;
    enum psti_gpu_row_kind claimed;     /* the kind that the row will have when it is done */
    uint64_t at;                        /* FINISHED: address of the row on the GPU */
    const struct psti_gpu_pass *passes; /* the work sets `to` of passes that finish a row */
    uint32_t n_passes;
    uint32_t index; /* number of the row's image in the launches, which the work sets */
    union {
        struct {
            struct psti_gpu_image image; /* all but `at` of a sink that finishes rows is set */
            uint32_t counts[PSTI_GPU_N_UNITS_LISTS];
            const struct psti_gpu_unit *entries; /* entries of units, one list after the other */
        } units;
        struct {
            struct psti_gpu_jpeg_image image;
            uint32_t n_units, n_tiles, n_places;
            const struct psti_gpu_jpeg_unit *units;
            const struct psti_gpu_jpeg_tile *tiles;
        } jpeg;
    };
};

/* Every claim begins at a multiple of PSTI_GPU_ALIGN. */
struct psti_gpu_claim {
    size_t upload_nbytes;
    size_t temporary_nbytes; /* bytes of temporary memory; as many in lists */
    size_t list_nbytes;      /* bytes that are only in lists */
    size_t scratch_nbytes;
    /* For psti_gpu_coefs: scratch of a warp, which all units of a field share, and the number of
     * units. */
    size_t coefs_nbytes;
    uint32_t n_coefs;
};
struct psti_gpu_claimed {
    void *host;   /* address in pinned memory */
    uint64_t gpu; /* address on the GPU */
    void *temporary;
    uint64_t scratch;
};

union psti_gpu_args {
    struct psti_gpu_units_args units;
    struct psti_gpu_jpeg_args jpeg;
    struct psti_gpu_prepare_args prepare;
    struct psti_gpu_copy_args copy;
};

struct psti_gpu_block {
    const struct psti_gpu_field **fields; /* [n_fields] */
    uint32_t n_fields, n_rows_max;
    struct psti_gpu_memory memory;
    struct psti_gpu_row *rows; /* [n_fields][n_rows_max] */
    size_t fixed_nbytes, temporary_end;
    pthread_mutex_t lock; /* guards the members up to n_coefs */
    size_t upload_used, list_used, temporary_used, scratch_used;
    size_t coefs_nbytes; /* the largest of all claims */
    uint64_t n_coefs;
    /* Results of the last psti_gpu_block_work: */
    struct psti_gpu_launch *launches; /* [n_fields * PSTI_GPU_LAUNCHES_MAX] */
    union psti_gpu_args *args;        /* arguments of each launch */
    uint32_t n_launches;
};

/* Claims memory, under the lock. Returns false if there is not enough. */
bool psti_gpu_block_claim(struct psti_gpu_block *block, const struct psti_gpu_claim *claim,
                          struct psti_gpu_claimed *claimed);
/* Returns the bytes of the upload before what rows claim: a status for each row, and a counter for
 * each field. */
size_t psti_gpu_block_fixed_nbytes(uint32_t n_fields, uint32_t n_rows);
/* Returns the bytes that lists may need besides their entries, because each list is aligned. */
size_t psti_gpu_block_slack_nbytes(uint32_t n_fields);

static inline struct psti_gpu_row *psti_gpu_row(const struct psti_gpu_block *block,
                                                uint32_t i_field, uint32_t row)
{
    return &block->rows[(size_t)i_field * block->n_rows_max + row];
}
/* These functions return the offsets of a row's status and of a field's counter in the upload. */
static inline size_t psti_gpu_block_status(const struct psti_gpu_block *block, uint32_t i_field,
                                           uint32_t row)
{
    return ((size_t)i_field * block->n_rows_max + row) * sizeof(uint32_t);
}
static inline size_t psti_gpu_block_counter(const struct psti_gpu_block *block, uint32_t i_field)
{
    return psti_gpu_block_status(block, block->n_fields, 0) + i_field * sizeof(uint32_t);
}

/* These functions return the addresses of the built-in tables on the GPU. */
uint64_t psti_gpu_constants_lz(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_wave(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_jpeg(const struct psti_gpu_block *block);

#endif
