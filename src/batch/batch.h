/* batch.h - the public interface of src/batch: memory for batches, reference counts, and the budget
 * of host memory.
 *
 * A pool makes slots of one layout, as many as the budget allows, and reuses a slot when its batch
 * is released. A slot has one owner at a time: the loader while it is filled, then whoever holds
 * references to the batch. The pool lives until its last batch is released, even after its loader
 * was closed. The loader uses the pool's lock and condition variable for its own state, too. */
#ifndef PST_BATCH_BATCH_H
#define PST_BATCH_BATCH_H

#include <penstock/loader.h>

#include <pthread.h>

struct psti_pool;

/* How the rows of a field are combined if they differ in shape (batch_collate.c). */
struct psti_slot_ragged {
    enum pst_ragged kind;
    bool planar;           /* true: a row of pixels is CHW; false: HWC */
    uint32_t multiple;     /* >= 1; PADDED pixels: pad sides to multiples */
    unsigned char fill[8]; /* PADDED: the bytes of the element that fills gaps */
    /* Number of axes of a row, for a batch in which no row has elements. */
    uint32_t ndim;
    int64_t shape[PST_MAX_NDIM];
};

/* One field of a batch. If all rows have `shape`, they lie in one array (N, shape...), aligned to
 * 64 bytes. If rows may differ (may_differ), each row has separate memory. With may_differ and
 * has_array, there is an array too, which takes the rows that have `shape`; a batch whose rows all
 * lie in it is not ragged. */
struct psti_slot_field {
    char name[64];
    enum pst_field_type type;
    enum pst_dtype dtype;
    bool has_array;
    bool may_differ;
    bool carried;  /* slots on a GPU: rows that may differ are carried to the GPU */
    /* True for an array that a GPU makes. If slots lie on a GPU, it lies there alone, as the arrays
     * of images and masks do. Not together with may_differ. */
    bool gpu_makes;
    uint32_t ndim; /* number of axes of a row in the array */
    int64_t shape[PST_MAX_NDIM];
    struct psti_slot_ragged ragged;
    /* Loose rows: bytes among the slot's numbers that the loader has for each row, a multiple of
     * 8. */
    uint32_t note_nbytes;
};

/* Opens a pool. `fields` are copied. */
enum pst_status psti_batch_pool_open(const struct psti_slot_field *fields, uint32_t n_fields,
                                     uint32_t batch_size, uint64_t host_memory,
                                     struct psti_pool **out, struct pst_error *err);
/* Opens a pool of another layout that shares the lock, the condition variable and the budget of
 * `other`. Held batches of both pools are counted together. */
enum pst_status psti_batch_pool_open_beside(struct psti_pool *other,
                                            const struct psti_slot_field *fields, uint32_t n_fields,
                                            uint32_t batch_size, struct psti_pool **out,
                                            struct pst_error *err);
/* Closes the loader's access to the pool. Free slots are freed now; the pool itself is freed with
 * its last batch. The caller must not hold the pool's lock. */
void psti_batch_pool_close(struct psti_pool **pool);

/* Slots whose arrays lie on a GPU. src/batch has no code for GPUs, so the loader allocates their
 * memory through these functions. The index and all arrays lie on the GPU, last those of pixels and
 * others that a GPU makes. Host memory has a copy of everything before these, at the same offsets.
 * Rows with separate memory lie in host memory, except loose rows (see psti_loose). Those of
 * carried fields are put together there by psti_batch_collate, in one block that the loader uploads
 * as a whole. */
struct psti_slot_part {
    void *numbers;  /* copy in host memory, aligned to 4096 bytes */
    uint64_t array; /* arrays on the GPU, address aligned to 256 bytes */
    /* Data of the loader that belongs to this slot. */
    void *own;
};
struct psti_slot_gpu {
    void *ctx;
    int32_t device; /* number of the device, for tensors */
    /* Returns the bytes of host memory that `make` takes for n_rows rows, besides `numbers`. */
    uint64_t (*nbytes)(void *ctx, uint32_t n_rows);
    /* Allocates a slot's memory. It writes no error text. The pool's lock is held. */
    enum pst_status (*make)(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part);
    /* Frees the memory of a slot. The pool's lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* Allocates host memory for the block of carried rows of a slot, and as much on the GPU. The
     * bytes are charged to host_memory already. The thread that has the slot calls it. */
    enum pst_status (*make_rows)(void *ctx, struct psti_slot_part *part, size_t nbytes, void **rows,
                                 struct pst_error *err);
    /* Frees both, after a wait for the streams that read them. The thread that has the slot calls
     * it, or one with the pool's lock while nobody has the slot. */
    void (*unmake_rows)(void *ctx, struct psti_slot_part *part, void *rows, size_t nbytes);
    /* Makes the CUDA stream `stream` wait until the batch may be read, and records it as a reader
     * until `released`. One thread at a time for each part. */
    enum pst_status (*await)(void *ctx, struct psti_slot_part *part, uint64_t stream,
                             struct pst_error *err);
    /* Called when the last reference to the batch is released. Returns false if the memory must not
     * be reused. */
    bool (*released)(void *ctx, struct psti_slot_part *part);
    /* Called after the last slot was freed. */
    void (*close)(void *ctx);
};
/* Tells the pool how slots on a GPU are made. Must be called before the first slot is made. `gpu`
 * is copied; its `close` is called when the pool is freed. */
void psti_batch_pool_set_gpu(struct psti_pool *pool, const struct psti_slot_gpu *gpu);
/* Computes the bytes of host memory that a slot takes, without rows that have separate memory.
 * Returns false if they exceed size_t. */
bool psti_batch_pool_slot_nbytes(const struct psti_pool *pool, uint32_t n_rows, size_t *nbytes);
/* Gives a field's offset and row size as psti_batch_place_of does, for slots of the pool's
 * batch_size. */
bool psti_batch_pool_place_of(const struct psti_pool *pool, uint32_t i_field, size_t *offset,
                              size_t *row_nbytes);
/* Sets the most bytes that the separately stored rows of a batch take, so each slot allocates them
 * at once. Must be called before the first slot is made. Without this call, the size of the largest
 * batch so far is used. */
void psti_batch_pool_set_rows(struct psti_pool *pool, size_t nbytes);
/* Sets the most bytes that the block of carried rows takes, so each slot on a GPU allocates it at
 * once. Must be called before the first slot is made. Without this call, the size of the largest
 * block so far is used. */
void psti_batch_pool_set_carried(struct psti_pool *pool, size_t nbytes);

/* Slots in host memory that the loader allocates. It may be page-locked memory, which a GPU's
 * streams may still read after the batch was released. A pool has either this or psti_slot_gpu.
 * `part` has `numbers`, where all arrays lie, and `own`. */
struct psti_slot_host {
    void *ctx;
    /* Allocates nbytes > 0. If it returns PST_OK with `own` NULL, the pool allocates ordinary
     * memory. It writes no error text. The pool's lock is held. */
    enum pst_status (*make)(void *ctx, size_t nbytes, struct psti_slot_part *part);
    /* Waits until nobody reads the memory, and frees it. The pool's lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* Called when the last reference to the batch is released. Returns false if the memory must not
     * be reused. */
    bool (*released)(void *ctx, struct psti_slot_part *part);
    /* Returns true if the memory may be overwritten. With `wait` the thread sleeps until it may.
     * The pool's lock is held. NULL: it always may. */
    bool (*is_writable)(void *ctx, struct psti_slot_part *part, bool wait);
    /* Returns the priority of a free slot: the slot with the lowest number is reused. UINT32_MAX:
     * prefer making a new slot. If no new slot can be made, it is called again for each slot with
     * n_free UINT32_MAX. n_free: number of free slots. The pool's lock is held. NULL: the slot
     * released last is reused. Not together with is_writable. */
    uint32_t (*order)(void *ctx, const struct psti_slot_part *part, uint32_t n_free);
    /* Called when a slot is taken for a batch. The pool's lock is held. May be NULL. */
    void (*taken)(void *ctx, const struct psti_slot_part *part);
    /* Called after the last slot was freed. */
    void (*close)(void *ctx);
};
/* Tells the pool how slots in host memory are made. Must be called before the first slot is made;
 * `host` is copied, and its `close` is called when the pool is freed. */
void psti_batch_pool_set_host(struct psti_pool *pool, const struct psti_slot_host *host);

/* Makes each array begin at a multiple of `alignment` bytes, a power of two of at least 64. Must be
 * called before the first slot is made. */
void psti_batch_pool_set_alignment(struct psti_pool *pool, size_t alignment);

pthread_mutex_t *psti_batch_pool_lock(struct psti_pool *pool);
pthread_cond_t *psti_batch_pool_changed(
    struct psti_pool *pool); /* signalled when a slot is returned */
/* Returns true in a forked child of the process that opened the pool. The pool's locks must not be
 * touched there. */
bool psti_batch_pool_is_forked(const struct psti_pool *pool);

/* These functions take bytes from the budget and return them. Any thread may call them, without a
 * lock. `reserve` bytes can only be taken with from_reserve. */
bool psti_batch_pool_charge(struct psti_pool *pool, uint64_t nbytes, bool from_reserve);
void psti_batch_pool_uncharge(struct psti_pool *pool, uint64_t nbytes);
void psti_batch_pool_set_reserve(struct psti_pool *pool, uint64_t nbytes);

struct psti_batch_pool_stats {
    uint64_t limit, used, peak;
    uint32_t n_slots, n_held;
    uint32_t n_others; /* held batches of other pools that share this budget */
};
/* Gives counters of the pool. The caller must hold the lock. */
void psti_batch_pool_stats(const struct psti_pool *pool, struct psti_batch_pool_stats *stats);

/* The caller must hold the pool's lock for all functions from here to psti_batch_pool_make. */
/* Claims an empty slot for n_rows rows. Returns PST_ERROR_LIMIT if the budget allows no further
 * slot, or PST_ERROR_MEMORY if the system has no memory. Writes no error text. */
enum pst_status psti_batch_pool_claim(struct psti_pool *pool, uint32_t n_rows, pst_batch **out);
bool psti_batch_pool_has_free(const struct psti_pool *pool); /* true if nobody holds one of the
                                                              * slots */
void psti_batch_pool_put_back(pst_batch *batch); /* returns a slot that was never handed out */
/* Marks the slot's batch as held by the caller, with one reference. */
void psti_batch_pool_hand_out(pst_batch *batch);
/* Frees unused slots except `keep` of them. The kept slots lose the memory of separately stored
 * rows. */
void psti_batch_pool_trim(struct psti_pool *pool, uint32_t keep);
/* Makes slots in advance until there are n in all, as far as the budget allows. */
enum pst_status psti_batch_pool_make(struct psti_pool *pool, uint32_t n);

/* The functions that fill a slot. The loader's threads call them, for different rows at the same
 * time. */
int64_t *psti_batch_indices(pst_batch *batch);
uint64_t *psti_batch_draws(pst_batch *batch);
void psti_batch_set_place(pst_batch *batch, uint64_t epoch, uint64_t step);
/* Records how the images of the batch are mixed; NULL: they are not mixed. */
void psti_batch_set_mix(pst_batch *batch, const struct pst_batch_mix *mix);
/* Returns the part of a slot on a GPU, or of a slot that psti_slot_host made; NULL for other slots.
 */
struct psti_slot_part *psti_batch_part(pst_batch *batch);
/* Lets the field's array of this batch lie at `array`, until the slot is claimed again. Not for
 * slots on a GPU. */
void psti_batch_set_array(pst_batch *batch, uint32_t i_field, void *array);
/* Gives the offset of a field's array within the slot's memory, and the bytes of one of its rows.
 * Returns false if the field has no array. */
bool psti_batch_place_of(const pst_batch *batch, uint32_t i_field, size_t *offset,
                         size_t *row_nbytes);
/* Returns the address of a row in a field's array in host memory. Not for arrays that lie on a GPU
 * alone. */
void *psti_batch_array_row(pst_batch *batch, uint32_t i_field, uint32_t row);
/* Returns memory for a row of this shape: in the array if the row fits there, else separate memory,
 * aligned to 64 bytes. It records the row with this shape. Returns NULL if the budget or memory is
 * exhausted; *status says which. */
void *psti_batch_new_row(pst_batch *batch, uint32_t i_field, uint32_t row, uint32_t ndim,
                         const int64_t *shape, enum pst_status *status);
/* Records a loose row with this shape. It gets its memory later. */
void psti_batch_note_row(pst_batch *batch, uint32_t i_field, uint32_t row, const int64_t shape[3]);
/* Returns the memory of a recorded row. */
void *psti_batch_row_data(const pst_batch *batch, uint32_t i_field, uint32_t row);
/* Returns the length of a recorded row along its first axis. */
int64_t psti_batch_row_length(const pst_batch *batch, uint32_t i_field, uint32_t row);
/* Makes a recorded row shorter: shape[0] = n. */
void psti_batch_shorten_row(pst_batch *batch, uint32_t i_field, uint32_t row, int64_t n);
/* Ends the filling of a batch of n_rows rows. Rows with bad[row] != 0 are removed, and later rows
 * move up. bad NULL: all rows are good. */
void psti_batch_finish(pst_batch *batch, uint32_t n_rows, const uint8_t *bad);
/* Combines the rows of a finished batch for all fields with a `ragged` setting, in memory that is
 * charged to the budget. In a slot on a GPU, it also puts the rows of the other carried fields into
 * that memory, each aligned to 64 bytes. Does nothing if it has succeeded since psti_batch_finish.
 * Returns PST_ERROR_LIMIT if the budget is too small, or PST_ERROR_ARGUMENT if rows cannot be
 * combined. One thread at a time. */
enum pst_status psti_batch_collate(pst_batch *batch, struct pst_error *err);
/* Gives the block of a collated batch that must be uploaded. Returns its bytes; 0: there are no
 * such rows with elements. */
size_t psti_batch_carried(const pst_batch *batch, const void **rows);
/* Sets the address on the GPU to which that block is uploaded, aligned to 64 bytes. */
void psti_batch_set_carried(pst_batch *batch, uint64_t address);

/* Loose rows are rows of pixels on a GPU that may differ in size. The loader has memory for them,
 * and psti_batch_collate leaves them out: the loader places the rows of a batch when their shapes
 * are known, and again if rows were made again (batch_loose.c). The caller sets the first members
 * before psti_batch_loose_place. */
struct psti_loose {
    pst_batch *batch;
    uint32_t i_field, n_rows;
    const uint8_t *bad; /* [n_rows] not 0: the row is left out; NULL: none is */
    size_t *offsets;    /* [n_rows] where each row begins in the loader's memory */
    /* Results of psti_batch_loose_place: */
    uint32_t n;               /* rows that are delivered */
    bool alike;               /* all have the shape of the field's array, and lie in one */
    int64_t most[3];          /* the padded shape */
    size_t start;             /* where the array that is delivered begins in the memory */
    size_t padded_row_nbytes; /* bytes of a padded row; 0: rows are not padded */
};
/* Places the rows in memory that the loader will have, from *at on, and sets *at to their end.
 * Returns false if they are too large. */
bool psti_batch_loose_place(struct psti_loose *loose, size_t *at);
/* Says that the placed rows lie in the memory at this address on the GPU, aligned to 256 bytes, and
 * writes the numbers of collated rows. The rows of "padded" are copied by the loader. */
void psti_batch_loose_set(struct psti_loose *loose, uint64_t memory);
/* Gives height and width of a row. Returns false if it is left out, or was not made. */
bool psti_batch_loose_size(const struct psti_loose *loose, uint32_t row, uint32_t size[2]);
/* Gives height and width of padded rows. */
void psti_batch_loose_padded_size(const struct psti_loose *loose, uint32_t size[2]);
/* Returns the loader's bytes for the slot's rows, note_nbytes for each, and their address on the
 * GPU. */
void *psti_batch_loose_notes(const pst_batch *batch, uint32_t i_field, uint64_t *address);

#endif
