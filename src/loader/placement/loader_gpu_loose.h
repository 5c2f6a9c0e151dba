/* loader_gpu_loose.h - rows of pixels that differ in size, in batches on a GPU: their state in a
 * slot, and the functions of loader_gpu_loose.c. */
#ifndef PST_LOADER_LOADER_GPU_LOOSE_H
#define PST_LOADER_LOADER_GPU_LOOSE_H

#include "batch/batch.h"
#include "gpu/gpu.h"
#include "loader/placement/loader_gpu_arena.h"

struct psti_image;
struct psti_loader_gpu;
struct psti_loader_gpu_slot;
struct psti_loader_worker;

/* Pinned memory for one finished row that is larger than a whole block. */
struct psti_loader_gpu_large {
    void *memory;           /* NULL: there is no such row */
    struct psti_pool *pool; /* to whose budget of host memory it is charged */
    size_t nbytes;
    uint32_t row;
};

/* State of a slot. All zero: no field has loose rows. */
struct psti_loader_gpu_loose {
    struct psti_loader_gpu_arena arena; /* memory of rows and padded arrays */
    struct psti_loose *fields;          /* [gpu->n_loose] */
    size_t *offsets;                    /* [gpu->n_loose][n_rows_max] */
    /* [gpu->n_loose] A row of each field, while a round makes a row that fits in no block. */
    struct psti_loader_gpu_large *large;
};

/* Allocates a slot's state for n_rows rows, and memory for rows of the expected size. */
enum pst_status psti_loader_gpu_loose_open(struct psti_loader_gpu *gpu,
                                           struct psti_loader_gpu_loose *loose, uint32_t n_rows,
                                           struct pst_error *err);
/* Frees it. No work may use the memory. */
void psti_loader_gpu_loose_close(struct psti_loader_gpu *gpu, struct psti_loader_gpu_loose *loose);
/* Records the size of an image's finished row, which this part makes, before the row is made. */
void psti_loader_gpu_loose_note(struct psti_loader_gpu *gpu, const struct psti_image *image,
                                uint32_t i_part);
/* Returns pinned memory for a finished row of the part that fits in no block. If host_memory does
 * not hold it, the worker is starved. */
enum pst_status psti_loader_gpu_loose_large(struct psti_loader_worker *worker,
                                            struct psti_loader_gpu_slot *slot, uint32_t i_part,
                                            uint32_t row, size_t nbytes, void **data,
                                            struct pst_error *err);
/* Frees that memory after a round. */
void psti_loader_gpu_loose_end_round(struct psti_loader_gpu *gpu,
                                     struct psti_loader_gpu_slot *slot);

/* Gives the batch's rows their places in the arena, which may grow, and tells the block. Rows that
 * are there already are moved if need be. The stream's lock must not be held. PST_ERROR_LIMIT: the
 * GPU has no memory for them. */
enum pst_status psti_loader_gpu_loose_place(struct psti_loader_gpu *gpu, pst_batch *batch,
                                            uint32_t n_rows, const uint8_t *bad,
                                            struct pst_error *err);
/* Submits the uploads of rows that were too large for the block. If `complete`, all rows of the
 * batch are made, and the launches that pad rows are submitted, too. The numbers must be submitted
 * before. The stream's lock must be held. */
enum pst_status psti_loader_gpu_loose_submit(struct psti_loader_gpu *gpu, pst_batch *batch,
                                             bool complete, struct pst_error *err);

#endif
