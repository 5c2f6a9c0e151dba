/* cache_int.h - a cache, its sets, and the memory of one set. */
#ifndef PST_CACHE_CACHE_INT_H
#define PST_CACHE_CACHE_INT_H

#include "cache/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

/* A range of addresses whose memory is claimed from the front as it is needed. */
struct psti_cache_memory {
    char *bytes;
    size_t capacity;       /* addresses */
    atomic_size_t claimed; /* bytes from the front that may be touched */
    pthread_mutex_t lock;  /* of claiming more */
};

enum pst_status psti_cache_memory_open(struct psti_cache_memory *memory, size_t capacity,
                                       struct pst_error *err);
void psti_cache_memory_close(struct psti_cache_memory *memory);
/* Makes bytes [0, end) usable. False: the system has no more memory. */
bool psti_cache_memory_claim(struct psti_cache_memory *memory, size_t end);

/* An item in a set's memory; its bytes follow. */
struct psti_cache_item {
    uint64_t nbytes;
    uint64_t unused; /* keeps the bytes behind at a multiple of 16 */
};

struct psti_cache_set {
    struct psti_cache_set *next; /* of the cache; guarded by its lock */
    pst_cache *cache;
    struct psti_cache_shape shape;
    uint64_t n_owners; /* guarded by the cache's lock */
    uint64_t closed;   /* when the last owner closed it, by pst_cache.tick; the same lock */
    /* [n_samples * n_items]: 0 not here; 1 room is reserved; else the place of its psti_cache_item
     * in `memory`, plus 2. */
    atomic_uint_fast64_t *table;
    struct psti_cache_memory memory;
    atomic_size_t end;            /* of what is used of memory */
    atomic_uint_fast64_t nbytes;  /* taken from the cache's budget: table, items, reservations */
    atomic_uint_fast64_t n_items; /* kept */
};

struct pst_cache {
    pthread_mutex_t lock; /* guards the list, owners and tick */
    struct psti_cache_set *sets;
    uint64_t n_owners; /* callers and open sets */
    uint64_t tick;
    uint64_t limit;
    atomic_uint_fast64_t used; /* <= limit */
    atomic_uint_fast64_t n_refused;
    atomic_uint n_closed; /* sets that nobody has open; changed with the lock */
};

/* cache.c: takes bytes of the budget for the set; sets that nobody has open give way. */
bool psti_cache_take(struct psti_cache_set *set, uint64_t nbytes);
void psti_cache_return(struct psti_cache_set *set, uint64_t nbytes);
/* cache_set.c */
enum pst_status psti_cache_set_make(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err);
void psti_cache_set_free(struct psti_cache_set *set);

#endif
