/* fleet_fill.c - makes copies of offered items for a server.
 *
 * In: bytes of an item, which the caller needs back at once. Out: a copy in the set's ring, in the
 * queue of its server. */
#include "fleet/fleet_int.h"
#include "fleet/fleet_item.h"
#include "fleet/fleet_ring.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"

#include <string.h>

#define CROWDED_TIMEOUTS 10

enum psti_fleet_taken psti_fleet_offer(struct psti_fleet_set *set,
                                       const struct psti_fleet_offer *offer)
{
    const pst_fleet *fleet = set->fleet;
    const struct psti_fleet_name name =
        psti_fleet_set_name(set, offer->i_shape, offer->sample, offer->i_item);
    uint64_t key_hash = psti_format_fleet_hash(&name);
    struct psti_fleet_server *server = fleet->servers[psti_fleet_choose(fleet, key_hash)];
    if (!psti_fleet_server_wants(server))
        return PSTI_FLEET_REFUSED;
    struct psti_fleet_fill *fill = psti_fleet_fill_make(set, key_hash, offer);
    if (!fill) {
        atomic_fetch_add(&set->fleet->n_dropped, 1);
        return PSTI_FLEET_BUSY;
    }
    psti_fleet_server_fill(server, fill);
    psti_fleet_watch(set->fleet);
    return PSTI_FLEET_TAKEN;
}

bool psti_fleet_is_crowded(struct psti_fleet_set *set)
{
    pthread_mutex_lock(&set->lock);
    int64_t now = psti_clock_ns();
    if (set->used <= set->capacity / 2)
        set->crowded_ns = 0;
    else if (set->crowded_ns == 0)
        set->crowded_ns = now;
    bool crowded =
        set->crowded_ns && now - set->crowded_ns <= CROWDED_TIMEOUTS * set->fleet->timeout_ns;
    pthread_mutex_unlock(&set->lock);
    return crowded;
}

bool psti_fleet_settle(struct psti_fleet_set *set, int64_t deadline_ns)
{
    int late = 0;
    pthread_mutex_lock(&set->lock);
    while (set->n_offers > 0 && !late)
        late = psti_cond_wait_until(&set->changed, &set->lock, deadline_ns);
    bool settled = set->n_offers == 0;
    pthread_mutex_unlock(&set->lock);
    return settled;
}

enum pst_status psti_fleet_set_open(pst_fleet *fleet, const struct psti_cache_shape *shapes,
                                    uint32_t n_shapes, uint64_t fill_nbytes,
                                    struct psti_fleet_set **out, struct pst_error *err)
{
    *out = NULL;
    struct psti_fleet_set *set = psti_calloc(1, sizeof *set);
    size_t unit = sizeof(struct psti_fleet_fill);
    size_t capacity = fill_nbytes < SIZE_MAX ? (size_t)fill_nbytes / unit * unit : 0;
    if (set)
        set->shapes = psti_alloc_array(n_shapes, sizeof *set->shapes);
    if (set && set->shapes && capacity)
        set->ring = psti_alloc_aligned(PSTI_CACHE_LINE, capacity);
    if (!set || !set->shapes || (capacity && !set->ring)) {
        if (set)
            psti_free(set->shapes);
        psti_free(set);
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for %zu bytes of items",
                         capacity);
    }
    set->fleet = fleet;
    memcpy(set->shapes, shapes, n_shapes * sizeof *shapes);
    set->part_nbytes = fleet->part_nbytes;
    set->capacity = capacity;
    pthread_mutex_init(&set->lock, NULL);
    psti_cond_init(&set->changed);
    atomic_fetch_add(&fleet->n_owners, 1);
    *out = set;
    return PST_OK;
}

void psti_fleet_set_close(struct psti_fleet_set **set_ptr)
{
    struct psti_fleet_set *set = *set_ptr;
    if (!set)
        return;
    *set_ptr = NULL;
    pst_fleet *fleet = set->fleet;
    for (uint32_t i = 0; i < fleet->n_servers; i++)
        psti_fleet_server_drop(fleet->servers[i], set);
    psti_fleet_settle(set, INT64_MAX); /* ends, because each offer has a deadline */
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->lock);
    psti_free(set->ring);
    psti_free(set->shapes);
    psti_free(set);
    pst_fleet_close(&fleet);
}
