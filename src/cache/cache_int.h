/* cache_int.h - a cache, its sets, and the memory of one set. */
#ifndef PST_CACHE_CACHE_INT_H
#define PST_CACHE_CACHE_INT_H

#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#define PSTI_CACHE_NBYTES_MIN ((uint64_t)1 << 20) /* of a cache */

/* A range of addresses whose memory is claimed from the front as it is needed. */
struct psti_cache_memory {
    char *bytes;
    size_t capacity;       /* number of addresses, in bytes */
    atomic_size_t claimed; /* bytes from the front that may be touched */
    pthread_mutex_t lock;  /* guards the claiming of more memory */
};

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       struct pst_error *err);
void psti_cache_memory_close(struct psti_cache_memory *memory);
/* Makes bytes [0, end) usable. Returns false if the system has no more memory. */
bool psti_cache_memory_claim(struct psti_cache_memory *memory, size_t end);

/* The header of an item in a set's memory. The item's bytes follow it. */
struct psti_cache_item {
    uint64_t nbytes;
    uint64_t unused; /* padding, so that the item's bytes begin at a multiple of 16 */
};

struct psti_cache_set {
    struct psti_cache_set *next; /* next set of the cache; guarded by the cache's lock */
    pst_cache *cache;
    struct psti_cache_shape shape;
    uint64_t n_owners; /* guarded by the cache's lock */
    /* value of pst_cache.tick when the last owner closed the set; guarded by the cache's lock */
    uint64_t closed;
    /* [n_samples * n_items] entries, one for each item. 0: the set does not hold the item. 1: space
     * is reserved for it. Otherwise the entry is 2 + the offset of the psti_cache_item in `memory`.
     */
    atomic_uint_fast64_t *table;
    struct psti_cache_memory memory;
    atomic_size_t end; /* end of the used part of `memory` */
    /* bytes taken from the cache's budget, for table, items and reservations */
    atomic_uint_fast64_t nbytes;
    atomic_uint_fast64_t n_items; /* items that the set holds */
};

struct pst_cache {
    pthread_mutex_t lock; /* guards the list, owners and tick */
    struct psti_cache_set *sets;
    /* one for the caller that opened the cache, and one for each opening of a set */
    uint64_t n_owners;
    uint64_t tick;
    uint64_t limit;
    atomic_uint_fast64_t used; /* bytes taken from the budget; at most `limit` */
    atomic_uint_fast64_t n_refused;
    atomic_uint n_closed; /* closed sets; changed only with the lock */
};

/* cache.c: takes bytes of the cache's budget for the set. Frees closed sets if the budget has too
 * little. */
bool psti_cache_take(struct psti_cache_set *set, uint64_t nbytes);
void psti_cache_return(struct psti_cache_set *set, uint64_t nbytes);
/* cache_advise.c: pst_cache_advise for a machine with that memory and that many ranks. */
struct pst_cache_advice psti_cache_advise(uint64_t dataset_nbytes, uint64_t available_nbytes,
                                          unsigned n_ranks);
/* cache_set.c */
enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err);
void psti_cache_set_free(struct psti_cache_set *set);

#endif
