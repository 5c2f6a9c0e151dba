/* batch.h - the door of batch: contiguous memory for batches, its owners, and the budget of host
 * memory.
 *
 * A pool makes slots of one layout, as many as the budget allows, and takes them back for the next
 * batch. A slot has exactly one owner at a time: the loader while it is filled, then the holders of
 * references to the batch. The pool outlives its loader until the last batch is released. The
 * loader uses the pool's lock and condition as its own. */
#ifndef PST_BATCH_BATCH_H
#define PST_BATCH_BATCH_H

#include <penstock/loader.h>

#include <pthread.h>

struct psti_pool;

/* How rows that may differ are put together (batch_collate.c). */
struct psti_slot_ragged {
    enum pst_ragged kind;
    bool planar;           /* true: rows of pixels are CHW */
    uint32_t multiple;     /* >= 1; for PADDED, and pixels */
    unsigned char fill[8]; /* for PADDED: the bytes of one element */
    uint32_t ndim;         /* dimensions of a row, for batches in which no row has elements */
    int64_t shape[PST_MAX_NDIM];
};

/* One field of a batch. Either every row has `shape`, and all lie in one array (N, shape...),
 * 64-byte aligned. Or rows may differ (may_differ), and each has memory of its own. If there is an
 * array all the same (has_array), rows that happen to have `shape` go there; a batch whose rows all
 * lie there is not ragged. */
struct psti_slot_field {
    char name[64];
    enum pst_field_type type;
    enum pst_dtype dtype;
    bool has_array;
    bool may_differ;
    uint32_t ndim; /* dimensions of a row in the array */
    int64_t shape[PST_MAX_NDIM];
    struct psti_slot_ragged ragged;
};

/* Opens a pool. `fields` are copied. */
enum pst_status psti_batch_pool_open(const struct psti_slot_field *fields, uint32_t n_fields,
                                     uint32_t batch_size, uint64_t host_memory,
                                     struct psti_pool **out, struct pst_error *err);
/* Opens a pool of another layout with the lock, the condition and the budget of `other`. Batches of
 * either pool that are held count for both. */
enum pst_status psti_batch_pool_open_beside(struct psti_pool *other,
                                            const struct psti_slot_field *fields, uint32_t n_fields,
                                            uint32_t batch_size, struct psti_pool **out,
                                            struct pst_error *err);
/* Closes the loader's access to the pool. Free slots are freed now, the pool itself with its last
 * batch. The caller must not hold the lock. */
void psti_batch_pool_close(struct psti_pool **pool);

/* Slots whose arrays lie on a GPU. This room has no code for GPUs: the loader makes the memory and
 * manages it. Index and all arrays lie on the GPU, those of pixels last. The numbers before the
 * pixels lie in host memory too, at the same offsets. Rows with memory of their own lie in host
 * memory only. */
struct psti_slot_part {
    void *numbers;  /* address in host memory, aligned to 4096 bytes */
    uint64_t array; /* address on the GPU, aligned to 256 bytes */
    void *own;      /* other data that the maker keeps with a slot */
};
struct psti_slot_gpu {
    void *ctx;
    int32_t device; /* number of the device, for tensors */
    /* Returns how many bytes of host memory `make` takes for n_rows rows, without those of
     * `numbers`. */
    uint64_t (*nbytes)(void *ctx, uint32_t n_rows);
    /* Makes a slot's memory, without error text. The pool's lock is held. */
    enum pst_status (*make)(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part);
    /* Frees the memory of a slot. The pool's lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* `stream` is going to read the batch: notes it as a reader until `released`, and lets it wait
     * until the batch may be read. One thread at a time for each part. */
    enum pst_status (*await)(void *ctx, struct psti_slot_part *part, uint64_t stream,
                             struct pst_error *err);
    /* Called when nobody holds the batch any more. Returns false if its memory must not be used
     * again. */
    bool (*released)(void *ctx, struct psti_slot_part *part);
    /* Called after the last slot was freed. */
    void (*close)(void *ctx);
};
/* Tells the pool how slots on a GPU are made. Must be called before the first slot is made. `gpu`
 * is copied; its `close` is called when the pool is freed. */
void psti_batch_pool_set_gpu(struct psti_pool *pool, const struct psti_slot_gpu *gpu);
/* Computes the bytes of host memory that a slot of this pool takes, besides rows with memory of
 * their own. Returns false if they exceed size_t. */
bool psti_batch_pool_slot_nbytes(const struct psti_pool *pool, uint32_t n_rows, size_t *nbytes);
/* Does as psti_batch_place_of, for slots of the pool's batch_size. */
bool psti_batch_pool_place_of(const struct psti_pool *pool, uint32_t i_field, size_t *offset,
                              size_t *row_nbytes);
/* Says that the own rows of a batch take at most `nbytes`, so that each slot gets as much from the
 * start. Must be called before the first slot is made. Without this call, the largest batch so far
 * decides. */
void psti_batch_pool_set_rows(struct psti_pool *pool, size_t nbytes);

/* Slots in host memory that the loader makes, such as page-locked memory, which a GPU's streams may
 * still read when nobody holds the batch any more. It excludes psti_slot_gpu. `part` has `numbers`,
 * where all arrays lie, and `own`. */
struct psti_slot_host {
    void *ctx;
    /* Makes memory of nbytes > 0. If it returns PST_OK and leaves `own` NULL, the slot gets plain
     * memory. It writes no error text. The pool's lock is held. */
    enum pst_status (*make)(void *ctx, size_t nbytes, struct psti_slot_part *part);
    /* Waits until nobody reads the memory, and frees it. The lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* Called when nobody holds the batch any more. Returns false if its memory must not be used
     * again. */
    bool (*released)(void *ctx, struct psti_slot_part *part);
    /* Returns whether the memory may be written again. With `wait` the thread sleeps until it may.
     * The lock is held. NULL: it always may. */
    bool (*is_writable)(void *ctx, struct psti_slot_part *part, bool wait);
    /* Returns a free slot's rank: the slot with the least one is taken. UINT32_MAX: a new slot is
     * to be made rather than this one taken. If none can be made, it is called again for each slot,
     * with n_free UINT32_MAX. n_free: number of free slots. The lock is held. NULL: the slot that
     * came back last is taken. Not together with is_writable. */
    uint32_t (*order)(void *ctx, const struct psti_slot_part *part, uint32_t n_free);
    /* Called when the slot is taken for a batch. The lock is held. May be NULL. */
    void (*taken)(void *ctx, const struct psti_slot_part *part);
    /* Called after the last slot was freed. */
    void (*close)(void *ctx);
};
/* Tells the pool how `host` makes slots, under the conditions of psti_batch_pool_set_gpu. */
void psti_batch_pool_set_host(struct psti_pool *pool, const struct psti_slot_host *host);

/* Makes each array begin at a multiple of `alignment` bytes, a power of two of at least 64. Must be
 * called before the first slot is made. */
void psti_batch_pool_set_alignment(struct psti_pool *pool, size_t alignment);

pthread_mutex_t *psti_batch_pool_lock(struct psti_pool *pool);
pthread_cond_t *psti_batch_pool_changed(
    struct psti_pool *pool); /* is signalled when a slot comes back */
/* Returns true in a forked child of the process that opened the pool. The pool's locks must not be
 * touched there. */
bool psti_batch_pool_is_forked(const struct psti_pool *pool);

/* These functions charge the budget and give back to it. Any thread may call them, without a lock.
 * `reserve` bytes are kept for charges with from_reserve. */
bool psti_batch_pool_charge(struct psti_pool *pool, uint64_t nbytes, bool from_reserve);
void psti_batch_pool_uncharge(struct psti_pool *pool, uint64_t nbytes);
void psti_batch_pool_set_reserve(struct psti_pool *pool, uint64_t nbytes);

struct psti_batch_pool_stats {
    uint64_t limit, used, peak;
    uint32_t n_slots, n_held;
    uint32_t n_others; /* held batches of other pools with this budget */
};
/* Gives counters of the pool. The caller must hold the lock. */
void psti_batch_pool_stats(const struct psti_pool *pool, struct psti_batch_pool_stats *stats);

/* The caller must hold the lock for all functions up to psti_batch_pool_make. */
/* Claims an empty slot for n_rows rows. Returns PST_ERROR_LIMIT if the budget allows no further
 * slot, or PST_ERROR_MEMORY if the system has no memory. Writes no error text. */
enum pst_status psti_batch_pool_claim(struct psti_pool *pool, uint32_t n_rows, pst_batch **out);
bool psti_batch_pool_has_free(const struct psti_pool *pool); /* a slot that nobody holds */
void psti_batch_pool_put_back(pst_batch *batch); /* puts back a slot that was never handed out */
/* Gives the slot to the caller, with one reference. */
void psti_batch_pool_hand_out(pst_batch *batch);
/* Frees the slots that nobody uses, except `keep` of them. Of these it frees the memory for own
 * rows. */
void psti_batch_pool_trim(struct psti_pool *pool, uint32_t keep);
/* Makes slots before they are needed, up to n in all, as far as the budget allows. */
enum pst_status psti_batch_pool_make(struct psti_pool *pool, uint32_t n);

/* The functions that fill a slot. The loader's threads call them, for different rows at the same
 * time. */
int64_t *psti_batch_indices(pst_batch *batch);
uint64_t *psti_batch_draws(pst_batch *batch);
void psti_batch_set_place(pst_batch *batch, uint64_t epoch, uint64_t step);
/* Notes how the images of the batch are mixed; NULL: they are not. */
void psti_batch_set_mix(pst_batch *batch, const struct pst_batch_mix *mix);
/* Returns the part of a slot that lies on a GPU or that psti_slot_host made; NULL for other
 * slots. */
struct psti_slot_part *psti_batch_part(pst_batch *batch);
/* Sets the address of the field's array in this batch to `array`, until the slot is claimed again.
 * Not for slots on a GPU. */
void psti_batch_set_array(pst_batch *batch, uint32_t i_field, void *array);
/* Gives the offset of a field's array in the part's memory, and the bytes of one of its rows.
 * Returns false if the field has no array. */
bool psti_batch_place_of(const pst_batch *batch, uint32_t i_field, size_t *offset,
                         size_t *row_nbytes);
/* Returns the address of a row in a field's array. In slots on a GPU the field must not be one of
 * pixels. */
void *psti_batch_array_row(pst_batch *batch, uint32_t i_field, uint32_t row);
/* Returns memory for a row of that shape: in the array if the row fits there, else memory of its
 * own, aligned to 64 bytes. The row is recorded with this shape. Returns NULL if budget or memory
 * is used up; *status says which. */
void *psti_batch_new_row(pst_batch *batch, uint32_t i_field, uint32_t row, uint32_t ndim,
                         const int64_t *shape, enum pst_status *status);
/* Returns the memory of a recorded row. */
void *psti_batch_row_data(const pst_batch *batch, uint32_t i_field, uint32_t row);
/* Returns the length of a recorded row along its first axis. */
int64_t psti_batch_row_length(const pst_batch *batch, uint32_t i_field, uint32_t row);
/* Makes a recorded row shorter: shape[0] = n. */
void psti_batch_shorten_row(pst_batch *batch, uint32_t i_field, uint32_t row, int64_t n);
/* Ends the filling of a batch of n_rows rows. Rows with bad[row] != 0 (NULL: none) are removed, and
 * later rows move up. */
void psti_batch_finish(pst_batch *batch, uint32_t n_rows, const uint8_t *bad);
/* Returns memory, charged to the budget, for the one thread that has a finished batch. It is valid
 * until psti_batch_collate or the next call. Returns NULL if there is none; *status says why. */
void *psti_batch_hold(pst_batch *batch, size_t nbytes, enum pst_status *status);
/* Joins the rows of a finished batch, in all fields that want it, in memory that is charged to the
 * budget. Returns PST_ERROR_LIMIT if the budget has too little, or PST_ERROR_ARGUMENT if rows do
 * not fit together. Called by one thread, once for a batch. */
enum pst_status psti_batch_collate(pst_batch *batch, struct pst_error *err);

#endif
