/* cache_extent.c - extents: memory for items that are read from a file, until they become visible
 * to readers.
 *
 * The thread that loads the file owns the extent until the set adopts it or it is dropped. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#define FIRST_RUNS 16

enum pst_status psti_cache_extent_open(struct psti_cache_set *set, size_t capacity,
                                       struct psti_cache_extent **out, struct pst_error *err)
{
    struct psti_cache_extent *extent = psti_calloc(1, sizeof *extent);
    *out = NULL;
    if (!extent)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory for the items of a file");
    extent->set = set;
    extent->memory = set->cache->shared ? &set->memory : &extent->own;
    extent->end = set->cache->shared ? &set->end : &extent->own_end;
    enum pst_status status = PST_OK;
    if (!set->cache->shared)
        status = psti_cache_memory_open(&extent->own, capacity, false, err);
    if (status == PST_OK)
        *out = extent;
    else
        psti_free(extent);
    return status;
}

char *psti_cache_extent_room(struct psti_cache_extent *extent, size_t nbytes)
{
    size_t place = extent->memory == &extent->own
                       ? psti_cache_memory_place(extent->memory, extent->end, nbytes)
                       : psti_cache_set_place(extent->set, nbytes, false);
    return place == SIZE_MAX ? NULL : extent->memory->bytes + place;
}

bool psti_cache_extent_add(struct psti_cache_extent *extent, const char *items, size_t nbytes)
{
    size_t place = (size_t)(items - extent->memory->bytes);
    struct psti_cache_run *last = extent->n_runs ? &extent->runs[extent->n_runs - 1] : NULL;
    if (last && last->place + last->nbytes == place) {
        last->nbytes += nbytes;
        return true;
    }
    if (extent->n_runs == extent->runs_cap) {
        size_t cap = extent->runs_cap ? 2 * extent->runs_cap : FIRST_RUNS;
        struct psti_cache_run *runs = psti_alloc(cap * sizeof *runs);
        if (!runs)
            return false;
        for (size_t i = 0; i < extent->n_runs; i++)
            runs[i] = extent->runs[i];
        psti_free(extent->runs);
        extent->runs = runs;
        extent->runs_cap = cap;
    }
    extent->runs[extent->n_runs++] = (struct psti_cache_run){place, nbytes};
    return true;
}

size_t psti_cache_extent_drop(struct psti_cache_extent *extent)
{
    size_t lost = 0;
    if (!extent)
        return 0;
    while (extent->n_runs > 0 && extent->memory != &extent->own) {
        const struct psti_cache_run *run = &extent->runs[--extent->n_runs];
        size_t end = run->place + run->nbytes;
        if (atomic_compare_exchange_strong(extent->end, &end, run->place))
            continue;
        (void)psti_cache_set_add_hole(extent->set, run, 0);
        lost += run->nbytes;
    }
    psti_cache_memory_close(&extent->own);
    psti_free(extent->runs);
    psti_free(extent);
    return lost;
}

/* Makes the items of one run visible to readers. */
static void publish(struct psti_cache_extent *extent, const struct psti_cache_run *run, uint64_t *n,
                    uint64_t *nbytes)
{
    uint64_t room = 0;
    for (size_t at = 0; at < run->nbytes; at += room) {
        const struct psti_cache_item *item =
            (const void *)(extent->memory->bytes + run->place + at);
        uint64_t item_nbytes = item->nbytes; /* read before the item becomes visible, because it may
                                              * be replaced then */
        psti_format_cache_room(item_nbytes, &room);
        if (!psti_cache_set_publish(extent->set, item)) {
            const struct psti_cache_run hole = {run->place + at, room};
            if (extent->memory != &extent->own)
                (void)psti_cache_set_add_hole(extent->set, &hole, 0);
            continue;
        }
        *n += 1;
        *nbytes += item_nbytes;
    }
}

void psti_cache_set_adopt(struct psti_cache_set *set, struct psti_cache_extent *extent, uint64_t *n,
                          uint64_t *nbytes)
{
    pthread_mutex_lock(&set->cache->lock);
    extent->next = set->extents;
    set->extents = extent;
    pthread_mutex_unlock(&set->cache->lock);
    for (size_t i = 0; i < extent->n_runs; i++)
        publish(extent, &extent->runs[i], n, nbytes);
}
