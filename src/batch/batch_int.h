/* batch_int.h - declarations that the files of src/batch share. */
#ifndef PST_BATCH_BATCH_INT_H
#define PST_BATCH_BATCH_INT_H

#include "batch/batch.h"

#include <stdatomic.h>
#include <sys/types.h>

/* A block of memory that the separately stored rows are cut from. Chunks stay with the slot. */
struct psti_chunk {
    struct psti_chunk *next;
    size_t nbytes, used; /* bytes of memory after this header */
};

/* A recorded row of a field whose rows may differ. */
struct psti_row {
    void *data;
    uint32_t ndim;
    bool in_array;
    size_t at; /* offset of the row in the slot's block, if it is there */
    int64_t shape[PST_MAX_NDIM];
};

/* Memory of the rows that batch_collate.c combines. In slots on a GPU, psti_slot_gpu allocates
 * it. */
struct psti_block {
    void *data;                 /* NULL: there is no block */
    size_t nbytes;              /* bytes that were charged to the budget */
    size_t used;                /* bytes that the batch's rows take */
    uint64_t carried;           /* address on the GPU; 0: not known yet */
    struct psti_slot_part part; /* if its `own` is set, psti_slot_host made the memory */
};

/* The combined rows of a field (batch_collate.c), which lie in the slot's block. */
struct psti_collated {
    bool is_there;
    struct pst_tensor parts[PST_COLLATED_SHAPES + 1]; /* an entry with ndim 0 is unused */
};

struct psti_layout_field {
    struct psti_slot_field field;
    size_t row_nbytes; /* bytes of a row of the array */
    int i_rows;        /* index of the field's row list; -1: it has none */
};

/* State that the pools of one loader share. The loader has a pool for each layout in use, and an
 * old pool lives as long as somebody holds one of its batches. */
struct psti_pool_family {
    pthread_mutex_t lock; /* guards n_pools and n_held, and members of the pools */
    pthread_cond_t changed;
    uint32_t n_pools, n_held;
    /* The budget. Its members are atomic. */
    atomic_uint_fast64_t used, peak, reserve;
    /* Members that are constant after open: */
    uint64_t limit;
    pid_t owner;
};

struct psti_pool {
    struct psti_pool_family *family;
    /* Members that the family's lock guards: */
    pst_batch *free;
    uint32_t n_slots, n_held;
    bool closed;
    /* Atomic members: */
    atomic_size_t block_nbytes; /* maximum number of bytes of combined rows in a batch so far */
    atomic_size_t rows_nbytes;  /* bytes of own rows in a batch: the limit, or the most so far */
    /* Members that are constant after open: */
    bool has_gpu;
    struct psti_slot_gpu gpu;
    bool has_host;
    struct psti_slot_host host;
    size_t alignment; /* alignment of the arrays */
    uint32_t batch_size, n_fields, n_row_lists;
    struct psti_layout_field fields[];
};

struct pst_batch {
    struct psti_pool *pool;
    pst_batch *next_free;
    atomic_uint refs;
    uint32_t n_rows_max, count;
    uint64_t epoch, step;
    struct pst_batch_mix mix; /* how the batch is mixed; kind 0: it is not mixed */
    size_t nbytes;
    char *data;                     /* i64 index (n_rows_max), then the arrays; 4096-byte aligned */
    struct psti_slot_part part;     /* has_gpu: `data` is part.numbers and ends before the pixels;
                                       has_host: `data` is part.numbers if there is an `own` */
    size_t numbers_nbytes;          /* bytes of index and numbers */
    size_t *offsets;                /* [n_fields] where the arrays are now, as offsets in data */
    size_t *homes;                  /* [n_fields] the original offsets, for arrays that were
                                     * moved */
    bool *ragged;                   /* [n_fields], set by psti_batch_finish */
    uint64_t *draws;                /* [n_rows_max] */
    struct psti_row *rows;          /* [n_row_lists][n_rows_max] */
    struct psti_collated *collated; /* [n_fields] */
    struct psti_block block;
    bool is_collated;          /* psti_batch_collate has succeeded since psti_batch_finish */
    pthread_mutex_t lock;      /* guards chunks; held around gpu.await */
    struct psti_chunk *chunks; /* newest first */
};

static inline bool psti_batch_layout_is_pixels(const struct psti_slot_field *field)
{
    return field->type == PST_FIELD_IMAGE || field->type == PST_FIELD_MASK;
}
/* True if this field's rows are copied to the GPU as well. */
static inline bool psti_batch_is_carried(const pst_batch *batch, uint32_t i_field)
{
    return batch->pool->has_gpu && batch->pool->fields[i_field].field.carried;
}
/* Returns whether the array has no copy in host memory if slots lie on a GPU. */
static inline bool psti_batch_layout_is_gpu_alone(const struct psti_slot_field *field)
{
    return psti_batch_layout_is_pixels(field) || field->gpu_makes;
}
enum { PSTI_PIXEL_NDIM = 3 }; /* axes of a row of pixels */
/* True if the rows of this field are loose: they lie in memory of the loader on a GPU. */
static inline bool psti_batch_is_loose(const struct psti_pool *pool, uint32_t i_field)
{
    const struct psti_slot_field *field = &pool->fields[i_field].field;
    return pool->has_gpu && field->may_differ && psti_batch_layout_is_pixels(field);
}
/* Computes the offsets of the arrays for n_rows rows. Index and numbers come first and end at
 * *numbers. *total becomes the size of all. `offsets` may be NULL. */
bool psti_batch_layout_offsets(const struct psti_pool *pool, uint32_t n_rows, size_t *offsets,
                               size_t *numbers, size_t *total);
struct psti_row *psti_batch_row_record(const pst_batch *batch, uint32_t i_field, uint32_t row);
void psti_batch_fill_strides(struct pst_tensor *tensor);
/* Sets data and device of `tensor` to its place on the GPU. `at`: its offset in the block. */
void psti_batch_show_carried(const pst_batch *batch, size_t at, struct pst_tensor *tensor);
/* batch_carry.c: */
/* Gives the carried rows of lists their offsets in the block, from *at on. Returns false if the
 * block would be too large. */
bool psti_batch_place_lists(pst_batch *batch, size_t *at);
/* Copies these rows to the block. */
void psti_batch_fill_lists(pst_batch *batch);
/* Adds a chunk of at least `nbytes` (batch_memory.c); it is larger if the budget allows, for later
 * rows. Returns NULL on failure; *status says why. The caller must hold the slot's lock, or be the
 * only user of the batch. */
struct psti_chunk *psti_batch_add_chunk(pst_batch *batch, size_t nbytes, enum pst_status *status);
/* Frees all chunks and returns their bytes to the budget. The caller must be the only user of the
 * batch. */
void psti_batch_free_chunks(pst_batch *batch);
/* Gives a slot without chunks a first chunk of the pool's rows_nbytes, if the budget has plenty. */
void psti_batch_hold_rows(pst_batch *batch);
/* Gives a new slot on a GPU a block of the pool's block_nbytes, if host_memory has plenty. */
void psti_batch_hold_carried(pst_batch *batch);
/* Makes sure that the block of combined rows has at least `nbytes`, charged to the budget. A block
 * that grows loses its contents. The thread that has the finished batch calls it. Returns
 * PST_ERROR_LIMIT if the budget is too small, or another error if there is no memory. */
enum pst_status psti_batch_hold(pst_batch *batch, size_t nbytes, struct pst_error *err);
/* Frees the block and returns its bytes to the budget. The caller must hold the pool's lock, or be
 * the only user of the batch. */
void psti_batch_block_free(pst_batch *batch);
/* Frees a slot and returns its bytes to the budget (batch_pool.c). The caller must hold the pool's
 * lock, or be the only user of the batch. */
void psti_batch_free(pst_batch *batch);
void psti_batch_pool_free(struct psti_pool *pool);

#endif
