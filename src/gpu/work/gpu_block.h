/* gpu_block.h - what the files of a block share: where its memory goes. Not a door.
 *
 *     gpu_field.c  chain, options -> field     gpu_block.c  memory, claims
 *     gpu_rows.c   an item -> its row          gpu_work.c   rows -> lists, launches
 *
 * Upload memory, the same in pinned memory and on the card:
 *
 *     statuses, counters | what rows claimed | lists        | nothing |  temporary
 *     0                  fixed_nbytes        upload_used    work.upload_nbytes   temporary_end
 *
 * Rows claim from the front what goes up as it is (bytes, tables, pixels), and from the back, for
 * the host only, their entries of lists, which the work copies behind the last claim in the order
 * of the launches: so these count twice; and files, which somebody else reads there. */
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

#define PSTI_GPU_ROOM "cuda"
enum {
    PSTI_GPU_ALIGN = 256,      /* of what claims get, and of lists */
    PSTI_GPU_BLOCK_WARPS = 32, /* at most, of any kernel */
    /* Scratch of psti_gpu_coefs with which all of a card's warps may run. */
    PSTI_GPU_COEFS_SCRATCH_NBYTES = 128 << 20,
    /* Of a field: kernels of units, two of JPEGs, two for each pass, and copies. */
    PSTI_GPU_LAUNCHES_MAX = PSTI_GPU_N_UNITS_LISTS + 2 + 2 * PSTI_GPU_MAX_PASSES + 1,
    PSTI_GPU_LISTS_MAX = PSTI_GPU_LAUNCHES_MAX + 2 /* and images of either kind */
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
    PSTI_GPU_ROW_UNITS,   /* PLI of pixels; pictures that somebody else decodes */
    PSTI_GPU_ROW_JPEG,    /* JPEG kept as PLI */
    PSTI_GPU_ROW_PICTURE, /* pixels of the region, uploaded */
    PSTI_GPU_ROW_FINISHED /* as the slot wants it, uploaded */
};

/* What there is of a row, for the host. Pointers are to temporary memory. */
struct psti_gpu_row {
    enum psti_gpu_row_kind kind;
    enum psti_gpu_row_kind claimed;     /* what it will be when it is done */
    uint64_t at;                        /* on the card: FINISHED */
    const struct psti_gpu_pass *passes; /* `to` of the last is for the work to set */
    uint32_t n_passes;
    uint32_t index; /* of its image in the launches: set by the work */
    union {
        struct {
            struct psti_gpu_image image; /* all but `at` of a sink that finishes */
            uint32_t counts[PSTI_GPU_N_UNITS_LISTS];
            const struct psti_gpu_unit *entries; /* list after list */
        } units;
        struct {
            struct psti_gpu_jpeg_image image;
            uint32_t n_units, n_tiles, n_places;
            const struct psti_gpu_jpeg_unit *units;
            const struct psti_gpu_jpeg_tile *tiles;
        } jpeg;
    };
};

/* All that claims get begins at a multiple of PSTI_GPU_ALIGN. */
struct psti_gpu_claim {
    size_t upload_nbytes;
    size_t temporary_nbytes; /* and once more in lists */
    size_t list_nbytes;      /* in lists alone */
    size_t file_nbytes;      /* in temporary memory alone, aligned */
    size_t pictures_nbytes;
    size_t scratch_nbytes;
    /* Of psti_gpu_coefs: scratch of a warp, which all units of a field share; units. */
    size_t coefs_nbytes;
    uint32_t n_coefs;
};
struct psti_gpu_claimed {
    void *host;    /* where the upload lies now */
    uint64_t card; /* and where then */
    void *temporary, *file;
    uint64_t scratch, pictures;
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
    pthread_mutex_t lock; /* guards the next lines */
    size_t upload_used, list_used, temporary_used, scratch_used, pictures_used;
    size_t coefs_nbytes; /* most of any claim */
    uint64_t n_coefs;
    /* Of the last work: */
    struct psti_gpu_launch *launches; /* [n_fields * PSTI_GPU_LAUNCHES_MAX] */
    union psti_gpu_args *args;        /* of each */
    uint32_t n_launches;
};

/* False: no room. Takes the lock. */
bool psti_gpu_block_claim(struct psti_gpu_block *block, const struct psti_gpu_claim *claim,
                          struct psti_gpu_claimed *claimed);
/* What of the upload is in front of rows: a status for each, and a counter for each field. */
size_t psti_gpu_block_fixed_nbytes(uint32_t n_fields, uint32_t n_rows);
/* What lists may need besides their entries: each begins at a multiple of PSTI_GPU_ALIGN. */
size_t psti_gpu_block_slack_nbytes(uint32_t n_fields);

static inline struct psti_gpu_row *psti_gpu_row(const struct psti_gpu_block *block,
                                                uint32_t i_field, uint32_t row)
{
    return &block->rows[(size_t)i_field * block->n_rows_max + row];
}
/* Offsets in the upload: of a row's status, of a field's counter. */
static inline size_t psti_gpu_block_status(const struct psti_gpu_block *block, uint32_t i_field,
                                           uint32_t row)
{
    return ((size_t)i_field * block->n_rows_max + row) * sizeof(uint32_t);
}
static inline size_t psti_gpu_block_counter(const struct psti_gpu_block *block, uint32_t i_field)
{
    return psti_gpu_block_status(block, block->n_fields, 0) + i_field * sizeof(uint32_t);
}

/* Where built-in tables are on the card. */
uint64_t psti_gpu_constants_lz(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_wave(const struct psti_gpu_block *block);
uint64_t psti_gpu_constants_jpeg(const struct psti_gpu_block *block);

#endif
