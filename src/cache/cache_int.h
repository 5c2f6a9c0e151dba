/* cache_int.h - a cache, its sets, and the memory of one set. */
#ifndef PST_CACHE_CACHE_INT_H
#define PST_CACHE_CACHE_INT_H

#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define PSTI_CACHE_NBYTES_MIN ((uint64_t)1 << 20) /* of a cache */

/* What an entry of a table may be besides the address of an item. */
#define PSTI_CACHE_NOT_HERE 0
#define PSTI_CACHE_RESERVED 1
#define PSTI_CACHE_DECLINED 2
#define PSTI_CACHE_FIRST PSTI_CACHE_ALIGNMENT /* all addresses of items are multiples of it */

/* At the beginning of a shared set's memory. */
struct psti_cache_store_head {
    atomic_uint_fast64_t n_items;   /* that the set holds */
    atomic_uint_fast64_t n_waiting; /* of these, those that wait to be replaced */
};

/* True if the item may be one of nbytes as the data set stores it. In another form it has any
 * length. */
static inline bool psti_cache_item_fits(const struct psti_cache_item *item, uint64_t nbytes)
{
    return item->form != PSTI_CACHE_AS_STORED || item->nbytes == nbytes;
}

/* A range of addresses whose memory is claimed from the front as it is needed. It is private to
 * this process, or a store (base/files/sealed.h) that others read. */
struct psti_cache_memory {
    char *bytes;
    int fd;                /* of the store; -1: private */
    size_t capacity;       /* number of addresses, in bytes */
    atomic_size_t claimed; /* bytes from the front that may be touched */
    pthread_mutex_t lock;  /* guards the claiming of more memory */
};

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       bool shared, struct pst_error *err);
void psti_cache_memory_close(struct psti_cache_memory *memory);
/* Makes bytes [0, end) usable. Returns false if the system has no more memory. */
bool psti_cache_memory_claim(struct psti_cache_memory *memory, size_t end);
/* Claims the next nbytes after *end, and moves it. Returns their place, or SIZE_MAX if the system
 * has no more memory. */
size_t psti_cache_memory_place(struct psti_cache_memory *memory, atomic_size_t *end, size_t nbytes);

/* Items that lie one after the other, and that nobody sees yet. */
struct psti_cache_run {
    size_t place, nbytes; /* in the memory of the extent */
};

/* Items that were read from a file. Those of a private set lie in memory of their own. Those of a
 * shared one lie in the set's, among other items, so that readers find them by one mapping. */
struct psti_cache_extent {
    struct psti_cache_extent *next; /* next extent of the set; guarded by the cache's lock */
    struct psti_cache_set *set;
    struct psti_cache_memory own;
    atomic_size_t own_end;            /* end of the used part of `own` */
    struct psti_cache_memory *memory; /* `own`, or that of the set */
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
    /* value of pst_cache.tick when the set was closed last; guarded by the cache's lock */
    uint64_t closed;
    /* [n_samples * n_items] entries, one for each item. 0: the set does not hold the item. 1: space
     * is reserved for it. 2: of a shared set, it found no room. Otherwise the entry is the address
     * of the psti_cache_item, in `memory` or in an extent, less `origin`. */
    atomic_uint_fast64_t *table;
    uintptr_t origin; /* 0; of a shared set, the address of `memory` */
    int table_fd;     /* of the store that the table is; -1: the table is private */
    struct psti_cache_memory memory;
    atomic_size_t end; /* end of the used part of `memory` */
    /* Places before `end` where no item lies: of a shared set, because loading a file failed or
     * others were faster; of another one, because an item was replaced. They are guarded by the
     * lock of `memory`. Their bytes stay taken from the budget: hole_nbytes of them are taken for
     * no item yet, and items take those first. The others are those of items that have taken them,
     * and lie elsewhere or have no place yet. */
    struct psti_cache_run *holes; /* [n_holes] */
    atomic_size_t n_holes;
    size_t holes_cap;
    atomic_uint_fast64_t holes_nbytes; /* of all of them */
    atomic_uint_fast64_t hole_nbytes;
    struct psti_cache_extent *extents;
    /* cache_later.c: items to be replaced, and the readers of items; NULL: none is replaced. */
    _Atomic(struct psti_cache_queue *) queue;
    atomic_uint turn, n_readers[2];
    atomic_bool is_frozen; /* psti_cache_later_freeze */
    /* bytes taken from the cache's budget, for table, items and reservations */
    atomic_uint_fast64_t nbytes;
    atomic_uint_fast64_t n_items; /* items that the set holds */
};

struct pst_cache {
    /* NULL, or the cache is another process's: then only these two members are used, and the lock
     * with n_owners. */
    const struct psti_cache_remote_ops *remote;
    void *remote_ctx;
    pthread_mutex_t lock; /* guards the list, owners and tick */
    struct psti_cache_set *sets;
    /* one for the caller that opened the cache, and one for each opening of a set */
    uint64_t n_owners;
    uint64_t tick;
    uint64_t limit;
    bool shared;               /* tables and items lie in stores */
    atomic_uint_fast64_t used; /* bytes taken from the budget; at most `limit` */
    atomic_uint_fast64_t n_refused;
    atomic_uint n_closed; /* closed sets; changed only with the lock */
    atomic_uint n_queues; /* sets whose items are replaced */
};

/* Bytes of a table of n entries. */
static inline size_t psti_cache_table_nbytes(uint64_t n)
{
    return (size_t)(n ? n : 1) * sizeof(uint_fast64_t);
}

/* cache_budget.c: takes bytes of the cache's budget for the set. Frees closed sets if the budget
 * has too little. */
bool psti_cache_take(struct psti_cache_set *set, uint64_t nbytes);
/* The same, but frees no set and counts no refusal. */
bool psti_cache_take_free(struct psti_cache_set *set, uint64_t nbytes);
/* Takes bytes that holes of the set have taken already. */
bool psti_cache_take_from_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Adds at most nbytes to what holes have taken for no item, as far as items took of that. Returns
 * how many that were. */
uint64_t psti_cache_give_to_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Gives bytes back: to holes whose bytes were taken, as long as there are such, else to the budget.
 */
void psti_cache_return(struct psti_cache_set *set, uint64_t nbytes);
/* Takes bytes for an item that found no hole although it may have taken the bytes of one. Returns
 * false if the budget has too little. */
bool psti_cache_pay_for_holes(struct psti_cache_set *set, uint64_t nbytes);
/* Frees the set that has been closed for the longest time. Returns false if every set is still
 * open. The caller does not hold the lock. */
bool psti_cache_free_closed(pst_cache *cache);
/* Frees a set, which no list has any more, and gives its bytes back. */
void psti_cache_set_free(struct psti_cache_set *set);

/* cache_queue.c: the set holds the item with that number from now on. */
void psti_cache_later_note(struct psti_cache_set *set, uint64_t number);
/* The set is being freed. */
void psti_cache_later_close(struct psti_cache_set *set);

/* cache_advise.c: pst_cache_advise for a machine with that memory and that many ranks. */
struct pst_cache_advice psti_cache_advise(uint64_t dataset_nbytes, uint64_t available_nbytes,
                                          unsigned n_ranks);
/* cache.c: as psti_cache_set_open, but frees no set: PST_ERROR_LIMIT if the table does not fit into
 * what is left of the budget. */
enum pst_status psti_cache_set_open_free(pst_cache *cache, const struct psti_cache_shape *shape,
                                         struct psti_cache_set **out, struct pst_error *err);
/* Holds the set that follows `set` in the cache's list (NULL: the first one), so that it is not
 * freed. Returns NULL after the last. The caller holds `set` and calls psti_cache_set_drop. */
struct psti_cache_set *psti_cache_set_next(pst_cache *cache, struct psti_cache_set *set);
/* Gives up such a hold, which does not count as a use of the set. NULL is allowed. */
void psti_cache_set_drop(struct psti_cache_set *set);

/* cache_set.c: makes a set with that take function for its table. */
enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    bool (*take)(struct psti_cache_set *set, uint64_t nbytes),
                                    struct psti_cache_set **out, struct pst_error *err);
/* Finds a place for nbytes in the memory of a set, claimed. `pays`: where no hole is large enough,
 * what was taken from holes is taken from the budget instead. SIZE_MAX: there is no more memory. */
size_t psti_cache_set_place(struct psti_cache_set *set, size_t nbytes, bool pays);
/* Takes nbytes from the beginning of the first hole before `before` that is large enough. Returns
 * its place, or SIZE_MAX if there is no such hole. */
size_t psti_cache_set_take_hole(struct psti_cache_set *set, size_t nbytes, size_t before);
/* Remembers that no item lies there, so that others may. The caller has taken `kept` of its bytes
 * for items. False: there is no memory for that, and the place stays unused. */
bool psti_cache_set_add_hole(struct psti_cache_set *set, const struct psti_cache_run *hole,
                             uint64_t kept);
/* Returns the item with that number, or NULL if the set does not hold it. */
const struct psti_cache_item *psti_cache_set_item(struct psti_cache_set *set, uint64_t number);
/* True if the set neither holds the item nor has space reserved for it. */
bool psti_cache_set_lacks(struct psti_cache_set *set, uint64_t number);
/* Makes an item visible, which lies in memory of the set. Returns false if the set holds one with
 * its number already, or reads it. */
bool psti_cache_set_publish(struct psti_cache_set *set, const struct psti_cache_item *item);
/* Makes the items of the extent visible to readers, but for those that the set holds meanwhile. The
 * set owns the extent from then on. Adds the number and bytes of the items to *n and *nbytes. */
void psti_cache_set_adopt(struct psti_cache_set *set, struct psti_cache_extent *extent, uint64_t *n,
                          uint64_t *nbytes);
/* Opens an extent of the set for at most `capacity` bytes of items. */
enum pst_status psti_cache_extent_open(struct psti_cache_set *set, size_t capacity,
                                       struct psti_cache_extent **out, struct pst_error *err);
/* Returns memory for the extent's next items, or NULL if the system has no more. The items become
 * the extent's by psti_cache_extent_add, after their bytes are there. */
char *psti_cache_extent_room(struct psti_cache_extent *extent, size_t nbytes);
/* Returns false if there is no memory. */
bool psti_cache_extent_add(struct psti_cache_extent *extent, const char *items, size_t nbytes);
/* Closes an extent that was not adopted. Returns the bytes of its items that cannot be freed before
 * the set is: other items of a shared set may follow them. They have become holes of the set. NULL
 * is allowed. */
size_t psti_cache_extent_drop(struct psti_cache_extent *extent);

#endif
