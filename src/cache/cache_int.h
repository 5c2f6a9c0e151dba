/* cache_int.h - internal declarations: a cache, its sets, and the memory of one set. */
#ifndef PST_CACHE_CACHE_INT_H
#define PST_CACHE_CACHE_INT_H

#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define PSTI_CACHE_NBYTES_MIN ((uint64_t)1 << 20) /* smallest size of a cache */

/* Values of an entry in the set's table that stand for states, instead of the address of an
 * item. */
#define PSTI_CACHE_NOT_HERE 0
#define PSTI_CACHE_RESERVED 1
#define PSTI_CACHE_DECLINED 2
#define PSTI_CACHE_FIRST PSTI_CACHE_ALIGNMENT /* smallest address of an item: addresses are
                                                 multiples of the alignment above 0 */

/* Header at the beginning of a shared set's memory. */
struct psti_cache_store_head {
    atomic_uint_fast64_t n_items;   /* number of items that the set holds */
    atomic_uint_fast64_t n_waiting; /* number of them that wait to be replaced */
};

/* True if the item can be one that the data set stores with nbytes bytes. Re-coded items may have
 * any length. */
static inline bool psti_cache_item_fits(const struct psti_cache_item *item, uint64_t nbytes)
{
    return item->form != PSTI_CACHE_AS_STORED || item->nbytes == nbytes;
}

/* A range of addresses whose memory is claimed from the front when it is needed. It is private to
 * this process, or a store (base/files/sealed.h) that other processes read. */
struct psti_cache_memory {
    char *bytes;
    int fd;                /* descriptor of the store; -1: the memory is private */
    size_t capacity;       /* number of addresses, in bytes */
    atomic_size_t claimed; /* number of bytes from the start that may be touched */
    pthread_mutex_t lock;  /* guards the claiming of more memory */
};

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       bool shared, struct pst_error *err);
void psti_cache_memory_close(struct psti_cache_memory *memory);
/* Makes bytes [0, end) usable. False: the system has no more memory. */
bool psti_cache_memory_claim(struct psti_cache_memory *memory, size_t end);
/* Claims the nbytes bytes after *end, and advances *end. Returns their offset, or SIZE_MAX if the
 * system has no more memory. */
size_t psti_cache_memory_place(struct psti_cache_memory *memory, atomic_size_t *end, size_t nbytes);

/* Neighbouring items that no reader can see yet. */
struct psti_cache_run {
    size_t place, nbytes; /* offset and bytes in the memory of the extent */
};

/* Items that were read from a file. Those of a private set lie in separate memory. Those of a
 * shared set lie in the set's memory among other items, because readers map only that. */
struct psti_cache_extent {
    struct psti_cache_extent *next; /* next extent of the set; guarded by the cache's lock */
    struct psti_cache_set *set;
    struct psti_cache_memory own;
    atomic_size_t own_end;            /* end of the used part of `own` */
    struct psti_cache_memory *memory; /* `own`, or the set's memory */
    atomic_size_t *end;
    struct psti_cache_run *runs; /* [n_runs] */
    size_t n_runs, runs_cap;
};

struct psti_cache_queue;

struct psti_cache_set {
    struct psti_cache_set *next; /* next set of the cache; guarded by the cache's lock */
    pst_cache *cache;
    struct psti_cache_shape shape;
    uint64_t n_owners; /* guarded by the cache's lock */
    /* value of pst_cache.tick when the set was last closed; guarded by the cache's lock */
    uint64_t closed;
    /* [n_samples * n_items] an entry for each item. 0: the set does not hold the item. 1: space is
     * reserved for it. 2: in a shared set, it found no space. Otherwise the entry is the address of
     * the psti_cache_item, in `memory` or in an extent, minus `origin`. */
    atomic_uint_fast64_t *table;
    uintptr_t origin; /* 0; in a shared set, the address of `memory` */
    int table_fd;     /* descriptor of the table's store; -1: the table is private */
    struct psti_cache_memory memory;
    atomic_size_t end; /* end of the used part of `memory` */
    /* Holes: parts of `memory` before `end` without an item. In a shared set they are left when
     * loading a file fails or other threads were faster; otherwise, when an item is replaced. The
     * lock of `memory` guards the list. The budget still counts the bytes of holes. hole_nbytes of
     * them belong to no item, and new items take those first. The other bytes belong to items that
     * lie elsewhere, or have no place yet. */
    struct psti_cache_run *holes; /* [n_holes] */
    atomic_size_t n_holes;
    size_t holes_cap;
    atomic_uint_fast64_t holes_nbytes; /* bytes of all holes */
    atomic_uint_fast64_t hole_nbytes;
    struct psti_cache_extent *extents;
    /* cache_later.c: the queue of items to replace, and the counts of readers. queue NULL: nothing
     * is replaced. */
    _Atomic(struct psti_cache_queue *) queue;
    atomic_uint turn, n_readers[2];
    atomic_bool is_frozen; /* set by psti_cache_later_freeze */
    /* bytes of the cache's budget used for table, items and reservations */
    atomic_uint_fast64_t nbytes;
    atomic_uint_fast64_t n_items; /* number of items that the set holds */
};

struct pst_cache {
    /* NULL, or another process owns the cache. Then only these two members, the lock and n_owners
     * are used. */
    const struct psti_cache_remote_ops *remote;
    void *remote_ctx;
    pthread_mutex_t lock; /* guards the list of sets, owners and tick */
    struct psti_cache_set *sets;
    /* the caller that opened the cache, and each opening of a set, count as an owner */
    uint64_t n_owners;
    uint64_t tick;
    uint64_t limit;
    bool shared;               /* tables and items lie in stores */
    atomic_uint_fast64_t used; /* bytes taken from the budget; at most `limit` */
    atomic_uint_fast64_t n_refused;
    atomic_uint n_closed; /* closed sets; changed only with the lock */
    atomic_uint n_queues; /* number of sets whose items are replaced */
};

/* Returns the bytes of a table of n entries. */
static inline size_t psti_cache_table_nbytes(uint64_t n)
{
    return (size_t)(n ? n : 1) * sizeof(uint_fast64_t);
}

/* cache_budget.c: takes bytes of the cache's budget for the set. If too few are left, frees closed
 * sets. False: that was not enough. */
bool psti_cache_take(struct psti_cache_set *set, uint64_t nbytes);
/* Takes bytes like psti_cache_take, but frees no set and counts no refusal. */
bool psti_cache_take_free(struct psti_cache_set *set, uint64_t nbytes);
/* Takes bytes that the budget already counts for holes of the set. False: too few are left. */
bool psti_cache_take_from_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Gives bytes that items took from holes back to the holes, at most nbytes. Returns how many bytes
 * that were. */
uint64_t psti_cache_give_to_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Returns bytes: to holes whose bytes items have taken, as long as there are such, otherwise to the
 * budget. */
void psti_cache_return(struct psti_cache_set *set, uint64_t nbytes);
/* Takes bytes from the budget for an item that found no hole, although it may have taken the bytes
 * of one. False: the budget has too few. */
bool psti_cache_pay_for_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Frees the set that has been closed longest. False: every set is open. The caller must not hold
 * the lock. */
bool psti_cache_free_closed(pst_cache *cache);
/* Frees a set that is in no list any more, and returns its bytes to the budget. */
void psti_cache_set_free(struct psti_cache_set *set);

/* cache_queue.c: notes that the set now holds the item with that number. */
void psti_cache_later_note(struct psti_cache_set *set, uint64_t number);
/* Frees the set's queue, when the set is freed. */
void psti_cache_later_close(struct psti_cache_set *set);

/* cache_advise.c: computes pst_cache_advise for a machine with that much memory and that many
 * ranks. */
struct pst_cache_advice psti_cache_advise(uint64_t dataset_nbytes, uint64_t available_nbytes,
                                          unsigned n_ranks);
/* cache.c: opens a set like psti_cache_set_open, but frees no other set. PST_ERROR_LIMIT: the table
 * does not fit into the rest of the budget. */
enum pst_status psti_cache_set_open_free(pst_cache *cache, const struct psti_cache_shape *shape,
                                         struct psti_cache_set **out, struct pst_error *err);
/* Returns the set after `set` in the cache's list (NULL: the first one), and holds it, so that it
 * is not freed. NULL: there are no more. The caller holds `set`, and later calls
 * psti_cache_set_drop. */
struct psti_cache_set *psti_cache_set_next(pst_cache *cache, struct psti_cache_set *set);
/* Gives up a hold of psti_cache_set_next. It does not count as a use of the set. NULL is
 * allowed. */
void psti_cache_set_drop(struct psti_cache_set *set);

/* cache_set.c: makes a set. `take` charges its table to the budget. */
enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    bool (*take)(struct psti_cache_set *set, uint64_t nbytes),
                                    struct psti_cache_set **out, struct pst_error *err);
/* Finds space for nbytes in the memory of a set, and claims it. pays: if no hole is large enough,
 * bytes that were taken from holes are taken from the budget instead. SIZE_MAX: there is no
 * memory. */
size_t psti_cache_set_place(struct psti_cache_set *set, size_t nbytes, bool pays);
/* Takes nbytes from the beginning of the first hole before offset `before` that is large enough.
 * Returns the offset, or SIZE_MAX if there is no such hole. */
size_t psti_cache_set_take_hole(struct psti_cache_set *set, size_t nbytes, size_t before);
/* Adds a hole, so that other items may use it. kept: bytes of it that the caller has taken for
 * items. False: there is no memory to note the hole, and it stays unused. */
bool psti_cache_set_add_hole(struct psti_cache_set *set, const struct psti_cache_run *hole,
                             uint64_t kept);
/* Returns the item with that number, or NULL if the set does not hold it. */
const struct psti_cache_item *psti_cache_set_item(struct psti_cache_set *set, uint64_t number);
/* True if the set neither holds the item nor has space reserved for it. */
bool psti_cache_set_lacks(struct psti_cache_set *set, uint64_t number);
/* Makes an item visible that lies in memory of the set. False: the set already holds an item with
 * its number, or space is reserved for it. */
bool psti_cache_set_publish(struct psti_cache_set *set, const struct psti_cache_item *item);
/* Makes the items of the extent visible to readers, except those that the set got meanwhile. The
 * set then owns the extent. Adds the number and bytes of the items to *n and *nbytes. */
void psti_cache_set_adopt(struct psti_cache_set *set, struct psti_cache_extent *extent, uint64_t *n,
                          uint64_t *nbytes);
/* Opens an extent of the set for at most `capacity` bytes of items. */
enum pst_status psti_cache_extent_open(struct psti_cache_set *set, size_t capacity,
                                       struct psti_cache_extent **out, struct pst_error *err);
/* Returns memory for the extent's next items, or NULL if the system has none. The caller fills it,
 * then calls psti_cache_extent_add. */
char *psti_cache_extent_room(struct psti_cache_extent *extent, size_t nbytes);
/* Adds items whose bytes are complete to the extent. False: out of memory. */
bool psti_cache_extent_add(struct psti_cache_extent *extent, const char *items, size_t nbytes);
/* Closes an extent that was not adopted. Returns the bytes of its items that cannot be freed before
 * the set is, because other items of a shared set may follow them. They have become holes of the
 * set. NULL is allowed. */
size_t psti_cache_extent_drop(struct psti_cache_extent *extent);

#endif
