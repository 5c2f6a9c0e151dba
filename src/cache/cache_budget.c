/* cache_budget.c - takes bytes from the cache's budget for sets, and frees closed sets if too few
 * are left. Any thread; the counters need no lock. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/files/sealed.h"

#include <unistd.h>

static bool take_if_free(pst_cache *cache, uint64_t nbytes)
{
    uint_fast64_t used = atomic_load_explicit(&cache->used, memory_order_relaxed);
    do {
        if (nbytes > cache->limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&cache->used, &used, used + nbytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

bool psti_cache_take_from_holes(struct psti_cache_set *set, uint64_t nbytes)
{
    uint_fast64_t left = atomic_load_explicit(&set->hole_nbytes, memory_order_relaxed);
    do {
        if (nbytes > left)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&set->hole_nbytes, &left, left - nbytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

bool psti_cache_take_free(struct psti_cache_set *set, uint64_t nbytes)
{
    /* If items are replaced, bytes come from the budget first, so that holes stay free for the new
     * items. */
    bool later = atomic_load_explicit(&set->queue, memory_order_relaxed) != NULL;
    if (!later && psti_cache_take_from_holes(set, nbytes))
        return true;
    if (!take_if_free(set->cache, nbytes))
        return later && psti_cache_take_from_holes(set, nbytes);
    atomic_fetch_add_explicit(&set->nbytes, nbytes, memory_order_relaxed);
    return true;
}

uint64_t psti_cache_set_room(struct psti_cache_set *set)
{
    uint64_t used = atomic_load_explicit(&set->cache->used, memory_order_relaxed);
    return set->cache->limit - used +
           atomic_load_explicit(&set->hole_nbytes, memory_order_relaxed);
}

uint64_t psti_cache_give_to_holes(struct psti_cache_set *set, uint64_t nbytes)
{
    uint64_t all = atomic_load_explicit(&set->holes_nbytes, memory_order_relaxed), given;
    uint_fast64_t left = atomic_load_explicit(&set->hole_nbytes, memory_order_relaxed);
    do {
        given = all > left ? all - left : 0;
        given = given < nbytes ? given : nbytes;
    } while (given > 0 &&
             !atomic_compare_exchange_weak_explicit(&set->hole_nbytes, &left, left + given,
                                                    memory_order_relaxed, memory_order_relaxed));
    return given;
}

bool psti_cache_pay_for_holes(struct psti_cache_set *set, uint64_t nbytes)
{
    uint64_t given = psti_cache_give_to_holes(set, nbytes);
    if (given == 0)
        return true;
    if (take_if_free(set->cache, given)) {
        atomic_fetch_add_explicit(&set->nbytes, given, memory_order_relaxed);
        return true;
    }
    /* If another item was faster to take these bytes, it pays for them in the same way. */
    (void)psti_cache_take_from_holes(set, given);
    return false;
}

void psti_cache_return(struct psti_cache_set *set, uint64_t nbytes)
{
    nbytes -= psti_cache_give_to_holes(set, nbytes);
    atomic_fetch_sub_explicit(&set->nbytes, nbytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&set->cache->used, nbytes, memory_order_relaxed);
}

static void free_table(struct psti_cache_set *set)
{
    uint64_t n = 0;
    if (set->table_fd < 0) {
        psti_free(set->table);
        return;
    }
    psti_format_cache_numbers(&set->shape, &n);
    psti_sealed_unmap(set->table, psti_cache_table_nbytes(n));
    close(set->table_fd);
}

void psti_cache_set_free(struct psti_cache_set *set)
{
    psti_cache_return(set, atomic_load(&set->nbytes));
    while (set->extents) {
        struct psti_cache_extent *extent = set->extents;
        set->extents = extent->next;
        psti_cache_memory_close(&extent->own);
        psti_free(extent->runs);
        psti_free(extent);
    }
    psti_free(set->holes);
    psti_cache_later_close(set);
    psti_cache_memory_close(&set->memory);
    free_table(set);
    psti_free(set);
}

bool psti_cache_free_closed(pst_cache *cache)
{
    struct psti_cache_set **oldest = NULL, *set;
    pthread_mutex_lock(&cache->lock);
    for (struct psti_cache_set **at = &cache->sets; *at; at = &(*at)->next)
        if ((*at)->n_owners == 0 && (!oldest || (*at)->closed < (*oldest)->closed))
            oldest = at;
    set = oldest ? *oldest : NULL;
    if (set) {
        *oldest = set->next;
        atomic_fetch_sub(&cache->n_closed, 1);
    }
    pthread_mutex_unlock(&cache->lock);
    if (set)
        psti_cache_set_free(set);
    return set != NULL;
}

bool psti_cache_take(struct psti_cache_set *set, uint64_t nbytes)
{
    pst_cache *cache = set->cache;
    while (!psti_cache_take_free(set, nbytes))
        if (!atomic_load_explicit(&cache->n_closed, memory_order_relaxed) ||
            !psti_cache_free_closed(cache)) {
            atomic_fetch_add_explicit(&cache->n_refused, 1, memory_order_relaxed);
            return false;
        }
    return true;
}
