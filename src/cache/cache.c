/* cache.c - a cache: its budget of bytes, and the sets that share it. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/machine/memory_limit.h"
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

static enum pst_status check_limit(uint64_t nbytes, struct pst_error *err)
{
    uint64_t most = psti_memory_limit();
    if (nbytes < PSTI_CACHE_NBYTES_MIN)
        return psti_fail(err, PST_ERROR_ARGUMENT, "cache",
                         "a cache of %" PRIu64 " bytes: at least 1 MiB is needed", nbytes);
    if (nbytes > most)
        return psti_fail(err, PST_ERROR_LIMIT, "cache",
                         "a cache of %" PRIu64 " bytes: this process may have %" PRIu64
                         " bytes of memory",
                         nbytes, most);
    return PST_OK;
}

static enum pst_status make(uint64_t nbytes, bool shared, pst_cache **out, struct pst_error *err)
{
    pst_cache *cache = psti_calloc(1, sizeof *cache);
    if (!cache)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for a cache");
    pthread_mutex_init(&cache->lock, NULL);
    cache->limit = nbytes;
    cache->shared = shared;
    cache->n_owners = 1;
    *out = cache;
    return PST_OK;
}

enum pst_status pst_cache_open(const struct pst_cache_options *options, pst_cache **out,
                               struct pst_error *err)
{
    struct pst_cache_options full;
    if (!out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "cache", "out is NULL");
    *out = NULL;
    enum pst_status status = psti_options_copy(&full, sizeof full, options, "cache", err);
    if (status == PST_OK)
        status = check_limit(full.nbytes, err);
    if (status != PST_OK)
        return status;
    return make(full.nbytes, false, out, err);
}

enum pst_status psti_cache_open_shared(uint64_t nbytes, pst_cache **out, struct pst_error *err)
{
    *out = NULL;
    enum pst_status status = check_limit(nbytes, err);
    return status == PST_OK ? make(nbytes, true, out, err) : status;
}

enum pst_status psti_cache_open_remote(const struct psti_cache_remote_ops *ops, void *ctx,
                                       pst_cache **out, struct pst_error *err)
{
    enum pst_status status = make(0, false, out, err);
    if (status != PST_OK)
        return status;
    (*out)->remote = ops;
    (*out)->remote_ctx = ctx;
    return PST_OK;
}

void *psti_cache_remote(const pst_cache *cache) { return cache->remote ? cache->remote_ctx : NULL; }

/* Removes one owner of the cache, and releases the lock, which the caller holds. The last owner
 * frees the cache. */
static void let_go(pst_cache *cache)
{
    bool last = --cache->n_owners == 0;
    pthread_mutex_unlock(&cache->lock);
    if (!last)
        return;
    if (cache->remote)
        cache->remote->close(cache->remote_ctx);
    while (cache->sets) {
        struct psti_cache_set *set = cache->sets;
        cache->sets = set->next;
        psti_cache_set_free(set);
    }
    pthread_mutex_destroy(&cache->lock);
    psti_free(cache);
}

void pst_cache_close(pst_cache **cache_ptr)
{
    pst_cache *cache = cache_ptr ? *cache_ptr : NULL;
    if (!cache)
        return;
    *cache_ptr = NULL;
    pthread_mutex_lock(&cache->lock);
    let_go(cache);
}

/* Returns the open or closed set with this shape, or NULL. The lock must be held. */
static struct psti_cache_set *look(pst_cache *cache, const struct psti_cache_shape *shape)
{
    struct psti_cache_set *set = cache->sets;
    while (set &&
           (memcmp(set->shape.identity, shape->identity, sizeof shape->identity) != 0 ||
            set->shape.n_samples != shape->n_samples || set->shape.n_items != shape->n_items ||
            set->shape.forms != shape->forms || set->shape.lacks_sums != shape->lacks_sums))
        set = set->next;
    return set;
}

/* Finds a set like `look`, and adds an owner to it. */
static struct psti_cache_set *find_set(pst_cache *cache, const struct psti_cache_shape *shape)
{
    struct psti_cache_set *set = look(cache, shape);
    if (!set)
        return NULL;
    if (set->n_owners++ == 0)
        atomic_fetch_sub(&cache->n_closed, 1);
    cache->n_owners++;
    return set;
}

/* Adds a new set to the list, unless another thread has added one with this shape meanwhile. */
static struct psti_cache_set *add_set(pst_cache *cache, struct psti_cache_set *made)
{
    pthread_mutex_lock(&cache->lock);
    struct psti_cache_set *set = find_set(cache, &made->shape);
    if (!set) {
        made->n_owners = 1;
        made->next = cache->sets;
        cache->sets = set = made;
        cache->n_owners++;
    }
    pthread_mutex_unlock(&cache->lock);
    if (set != made)
        psti_cache_set_free(made);
    return set;
}

/* Opens the set with that shape. A new set's table is charged to the budget by `take`. */
static enum pst_status open_set(pst_cache *cache, const struct psti_cache_shape *shape,
                                bool (*take)(struct psti_cache_set *set, uint64_t nbytes),
                                struct psti_cache_set **out, struct pst_error *err)
{
    struct psti_cache_set *made;
    pthread_mutex_lock(&cache->lock);
    *out = find_set(cache, shape);
    pthread_mutex_unlock(&cache->lock);
    if (*out)
        return PST_OK;
    /* This runs without the lock, because closed sets may have to be freed for the table. */
    enum pst_status status = psti_cache_set_make(cache, shape, take, &made, err);
    if (status == PST_OK)
        *out = add_set(cache, made);
    return status;
}

enum pst_status psti_cache_set_open(pst_cache *cache, const struct psti_cache_shape *shape,
                                    struct psti_cache_set **out, struct pst_error *err)
{
    return open_set(cache, shape, psti_cache_take, out, err);
}

enum pst_status psti_cache_set_open_free(pst_cache *cache, const struct psti_cache_shape *shape,
                                         struct psti_cache_set **out, struct pst_error *err)
{
    return open_set(cache, shape, psti_cache_take_free, out, err);
}

/* Removes one owner of the set. If it was the last one and the set holds no item, takes the set out
 * of the list and returns it, and the caller must free it. Otherwise returns NULL. The lock must be
 * held. */
static struct psti_cache_set *disown(struct psti_cache_set *set)
{
    pst_cache *cache = set->cache;
    struct psti_cache_set **at = &cache->sets;
    if (--set->n_owners > 0)
        return NULL;
    if (atomic_load(&set->n_items) > 0) {
        atomic_fetch_add(&cache->n_closed, 1);
        return NULL;
    }
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    return set;
}

void psti_cache_set_close(struct psti_cache_set **set_ptr)
{
    struct psti_cache_set *set = *set_ptr;
    if (!set)
        return;
    *set_ptr = NULL;
    pst_cache *cache = set->cache;
    pthread_mutex_lock(&cache->lock);
    set->closed = ++cache->tick;
    pthread_mutex_unlock(&cache->lock);
    psti_cache_set_drop(set);
    pthread_mutex_lock(&cache->lock);
    let_go(cache);
}

enum pst_status psti_cache_set_exchange(struct psti_cache_set **set,
                                        const struct psti_cache_shape *shape, struct pst_error *err)
{
    const struct psti_cache_shape former = (*set)->shape;
    pst_cache *cache = (*set)->cache;
    pthread_mutex_lock(&cache->lock);
    cache->n_owners++; /* this set may be the only owner that keeps the cache open */
    pthread_mutex_unlock(&cache->lock);
    psti_cache_set_close(set); /* closed before the new set is made, which may need its memory */
    enum pst_status status = psti_cache_set_open(cache, shape, set, err);
    if (status != PST_OK && psti_cache_set_open(cache, &former, set, NULL) != PST_OK)
        *set = NULL;
    pst_cache_close(&cache);
    return status;
}

struct psti_cache_set *psti_cache_set_next(pst_cache *cache, struct psti_cache_set *set)
{
    pthread_mutex_lock(&cache->lock);
    struct psti_cache_set *next = set ? set->next : cache->sets;
    if (next && next->n_owners++ == 0)
        atomic_fetch_sub(&cache->n_closed, 1);
    pthread_mutex_unlock(&cache->lock);
    return next;
}

void psti_cache_set_drop(struct psti_cache_set *set)
{
    if (!set)
        return;
    pst_cache *cache = set->cache;
    pthread_mutex_lock(&cache->lock);
    struct psti_cache_set *empty = disown(set);
    pthread_mutex_unlock(&cache->lock);
    if (empty)
        psti_cache_set_free(empty);
}

void psti_cache_set_stats(struct psti_cache_set *set, struct pst_cache_stats *stats)
{
    pst_cache_stats(set->cache, stats, sizeof *stats);
    stats->n_items = atomic_load(&set->n_items);
}

void pst_cache_stats(pst_cache *cache, struct pst_cache_stats *stats, size_t stats_nbytes)
{
    struct pst_cache_stats full = {.nbytes = cache->limit,
                                   .nbytes_used = atomic_load(&cache->used),
                                   .n_refused = atomic_load(&cache->n_refused)};
    if (cache->remote)
        cache->remote->stats(cache->remote_ctx, &full);
    pthread_mutex_lock(&cache->lock);
    for (struct psti_cache_set *set = cache->sets; set; set = set->next) {
        full.n_datasets++;
        full.n_items += atomic_load(&set->n_items);
    }
    pthread_mutex_unlock(&cache->lock);
    psti_struct_write(stats, stats_nbytes, &full, sizeof full);
}

bool psti_cache_look(pst_cache *cache, const struct psti_cache_shape *shape,
                     struct psti_cache_use *use)
{
    pthread_mutex_lock(&cache->lock);
    struct psti_cache_set *set = look(cache, shape);
    if (set && use)
        *use = (struct psti_cache_use){.n_items = atomic_load(&set->n_items),
                                       .nbytes = atomic_load(&set->nbytes),
                                       .n_waiting = psti_cache_later_count(set),
                                       .is_open = set->n_owners > 0};
    pthread_mutex_unlock(&cache->lock);
    return set != NULL;
}

uint64_t psti_cache_clear(pst_cache *cache)
{
    uint64_t before = atomic_load(&cache->used);
    while (psti_cache_free_closed(cache))
        ;
    uint64_t after = atomic_load(&cache->used);
    return after < before ? before - after : 0;
}
