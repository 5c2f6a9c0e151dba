/* batch.h - the door of batch: contiguous memory for batches, who holds it, and the budget of host
 * memory.
 *
 * A pool makes slots of one layout, as many as the budget allows, and takes them back for the next
 * batch. A slot has exactly one owner at a time: the loader while it is filled, then whoever holds
 * references to the batch. The pool outlives its loader until the last batch is released. Its lock
 * and its condition serve the loader too. */
#ifndef PST_BATCH_BATCH_H
#define PST_BATCH_BATCH_H

#include <penstock/loader.h>

#include <pthread.h>

struct psti_pool;

/* One field of a batch. Either every row has `shape` and lies in one array (N, shape...), 64-byte
 * aligned; or rows may differ: then each has memory of its own, but rows that happen to have
 * `shape` still go to the array if there is one (has_array), and a batch all of whose rows are
 * there is not ragged. */
struct psti_slot_field {
    char name[64];
    enum pst_field_type type;
    enum pst_dtype dtype;
    bool has_array;
    bool may_differ;
    uint32_t ndim; /* of a row in the array */
    int64_t shape[PST_MAX_NDIM];
};

/* `fields` are copied. */
enum pst_status psti_batch_pool_open(const struct psti_slot_field *fields, uint32_t n_fields,
                                     uint32_t batch_size, uint64_t host_memory,
                                     struct psti_pool **out, struct pst_error *err);
/* The loader lets go: free slots are freed now, the pool itself with its last batch. The lock must
 * not be held. */
void psti_batch_pool_close(struct psti_pool **pool);

/* Slots whose arrays lie on a card. This room knows no cards: who opens the pool makes the memory
 * and looks after it. On the card lie the index and all arrays, those of pixels last; the numbers
 * before them lie in host memory too, at the same offsets. Rows of their own: in host memory only.
 */
struct psti_slot_part {
    void *numbers;  /* host memory, 4096-byte aligned */
    uint64_t array; /* address on the card, 256-byte aligned */
    void *own;      /* whatever else the maker keeps with a slot */
};
struct psti_slot_card {
    void *ctx;
    int32_t device; /* what tensors say */
    /* Host memory that `make` takes for n_rows rows beside `numbers`. */
    uint64_t (*nbytes)(void *ctx, uint32_t n_rows);
    /* No error text. The pool's lock is held. */
    enum pst_status (*make)(void *ctx, uint32_t n_rows, size_t numbers_nbytes, size_t array_nbytes,
                            struct psti_slot_part *part);
    /* The lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* `stream` is going to read the batch. One thread at a time for each part. */
    enum pst_status (*await)(void *ctx, struct psti_slot_part *part, uint64_t stream,
                             struct pst_error *err);
    /* Nobody holds the batch any more. False: its memory must not be used again. */
    bool (*leave)(void *ctx, struct psti_slot_part *part);
    /* After the last slot. */
    void (*close)(void *ctx);
};
/* Before the first slot is made. `card` is copied; close is called when the pool is freed. */
void psti_batch_pool_set_card(struct psti_pool *pool, const struct psti_slot_card *card);
/* Bytes of host memory that a slot of this pool takes, without rows of their own. False: too many
 * for size_t. */
bool psti_batch_pool_slot_nbytes(const struct psti_pool *pool, uint32_t n_rows, size_t *nbytes);
/* Before the first slot is made: rows of their own take `nbytes` of a batch at most, so each slot
 * has them from the start. Without it the largest batch so far decides. */
void psti_batch_pool_set_rows(struct psti_pool *pool, size_t nbytes);

/* Slots in host memory that somebody else makes: page-locked memory, say, which a card's streams
 * may still read when nobody holds the batch any more. Not together with a card. `part` has
 * `numbers`, where all arrays go, and `own`. */
struct psti_slot_host {
    void *ctx;
    /* Memory for nbytes > 0. PST_OK with `own` NULL: the slot gets plain memory. No error text. The
     * pool's lock is held. */
    enum pst_status (*make)(void *ctx, size_t nbytes, struct psti_slot_part *part);
    /* Waits until nobody reads the memory. The lock is held. */
    void (*unmake)(void *ctx, struct psti_slot_part *part);
    /* Nobody holds the batch any more. False: its memory must not be used again. */
    bool (*leave)(void *ctx, struct psti_slot_part *part);
    /* May the memory be written again? `wait`: this thread sleeps until it may. The lock is held.
     */
    bool (*is_left)(void *ctx, struct psti_slot_part *part, bool wait);
    /* After the last slot. */
    void (*close)(void *ctx);
};
/* As psti_batch_pool_set_card. */
void psti_batch_pool_set_host(struct psti_pool *pool, const struct psti_slot_host *host);

pthread_mutex_t *psti_batch_pool_lock(struct psti_pool *pool);
pthread_cond_t *psti_batch_pool_changed(
    struct psti_pool *pool); /* signalled when a slot comes back */
/* True in a forked child of the process that opened the pool: its locks must not be touched there.
 */
bool psti_batch_pool_is_forked(const struct psti_pool *pool);

/* The budget. Any thread, no lock. `reserve` bytes are kept back for charges with from_reserve. */
bool psti_batch_pool_charge(struct psti_pool *pool, uint64_t nbytes, bool from_reserve);
void psti_batch_pool_uncharge(struct psti_pool *pool, uint64_t nbytes);
void psti_batch_pool_set_reserve(struct psti_pool *pool, uint64_t nbytes);

struct psti_batch_pool_stats {
    uint64_t limit, used, peak;
    uint32_t n_slots, n_held;
};
/* The lock must be held. */
void psti_batch_pool_stats(const struct psti_pool *pool, struct psti_batch_pool_stats *stats);

/* All of these: the lock must be held. */
/* A slot for n_rows rows, empty. PST_ERROR_LIMIT: the budget allows no other; PST_ERROR_MEMORY. No
 * error text. */
enum pst_status psti_batch_pool_claim(struct psti_pool *pool, uint32_t n_rows, pst_batch **out);
bool psti_batch_pool_has_free(const struct psti_pool *pool); /* there is a slot that nobody holds */
void psti_batch_pool_put_back(pst_batch *batch);             /* a slot that was never handed out */
void psti_batch_pool_hand_out(pst_batch *batch); /* the caller's from now on, with one reference */
/* Frees the slots that nobody uses, all but `keep` of them, and what the kept ones have for rows of
 * their own. */
void psti_batch_pool_trim(struct psti_pool *pool, uint32_t keep);
/* Makes slots ahead of their use, up to n in all, as far as the budget goes. */
enum pst_status psti_batch_pool_make(struct psti_pool *pool, uint32_t n);

/* Filling: by the threads the loader gives rows to; different rows at the same time. */
int64_t *psti_batch_indices(pst_batch *batch);
void psti_batch_set_place(pst_batch *batch, uint64_t epoch, uint64_t step);
/* Slots on a card: its part; NULL otherwise. */
struct psti_slot_part *psti_batch_part(pst_batch *batch);
/* Offset of a field's array in it, and bytes of one of its rows. False: the field has none. */
bool psti_batch_place_of(const pst_batch *batch, uint32_t i_field, size_t *offset,
                         size_t *row_nbytes);
/* Row of a field's array. Slots on a card: not of pixels. */
void *psti_batch_array_row(pst_batch *batch, uint32_t i_field, uint32_t row);
/* Memory for a row of that shape, in the array if it fits there, else its own, 64-byte aligned;
 * NULL: the budget or memory is used up (*status says which). The row is recorded with this shape.
 */
void *psti_batch_new_row(pst_batch *batch, uint32_t i_field, uint32_t row, uint32_t ndim,
                         const int64_t *shape, enum pst_status *status);
/* Memory of a recorded row. */
void *psti_batch_row_data(const pst_batch *batch, uint32_t i_field, uint32_t row);
/* Makes a recorded row shorter: shape[0] = n. */
void psti_batch_shorten_row(pst_batch *batch, uint32_t i_field, uint32_t row, int64_t n);
/* All rows are there: n_rows of them, less those with bad[row] != 0 (NULL: none), which are closed
 * up. */
void psti_batch_finish(pst_batch *batch, uint32_t n_rows, const uint8_t *bad);

#endif
