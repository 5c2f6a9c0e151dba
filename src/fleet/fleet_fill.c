/* fleet_fill.c - copies of offered items on their way to a server.
 *
 * In: bytes of an item, which the caller wants back at once. Out: a copy in the set's
 * ring, in the queue of its server. The ring bounds the memory; nobody waits for room in it. Copies
 * may end in any order, and the tail follows as far as it can. */
#include "fleet/fleet_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/thread.h"

#include <string.h>

#define CROWDED_TIMEOUTS 10

static uint8_t *bytes_of(const struct psti_fleet_fill *fill)
{
    return (uint8_t *)(uintptr_t)(fill + 1);
}

/* A place of `room` bytes in the ring, or NULL. The set's lock is held. Bytes at the end of the
 * ring that are too few count as used by the copy that comes after them. */
static struct psti_fleet_fill *place(struct psti_fleet_set *set, size_t room, size_t *taken)
{
    size_t to_end = set->capacity - set->head;
    size_t skipped = room > to_end ? to_end : 0;
    if (room > set->capacity || room + skipped > set->capacity - set->used)
        return NULL;
    if (skipped) { /* a header that says how much is skipped always fits: rooms are multiples */
        struct psti_fleet_fill *gap = (void *)(set->ring + set->head);
        gap->room = skipped;
        gap->freed = true;
        set->head = 0;
    }
    struct psti_fleet_fill *fill = (void *)(set->ring + set->head);
    set->head = (set->head + room) % set->capacity;
    *taken = room + skipped;
    return fill;
}

/* Copies the offer. NULL: there is no room now. */
static struct psti_fleet_fill *copy(struct psti_fleet_set *set, uint64_t key_hash,
                                    const struct psti_fleet_offer *offer)
{
    uint64_t each = set->part_nbytes;
    uint64_t n_parts = psti_format_fleet_n_parts(offer->nbytes, each);
    size_t taken;
    if (offer->nbytes > set->capacity || n_parts > UINT32_MAX)
        return NULL;
    /* Rooms are multiples of the header's size, and so is the ring. */
    size_t unit = sizeof(struct psti_fleet_fill);
    size_t room = unit + (size_t)offer->nbytes;
    room = (room + unit - 1) / unit * unit;
    pthread_mutex_lock(&set->lock);
    struct psti_fleet_fill *fill = place(set, room, &taken);
    if (fill) {
        *fill = (struct psti_fleet_fill){.set = set,
                                         .room = room,
                                         .key_hash = key_hash,
                                         .n_parts = (uint32_t)n_parts,
                                         .offer = *offer};
        set->used += taken;
        set->n_offers++;
    }
    pthread_mutex_unlock(&set->lock);
    if (!fill)
        return NULL;
    memcpy(bytes_of(fill), offer->bytes, (size_t)offer->nbytes);
    fill->offer.bytes = bytes_of(fill);
    return fill;
}

void psti_fleet_fill_end(struct psti_fleet_fill *fill, enum psti_fleet_outcome outcome)
{
    struct psti_fleet_set *set = fill->set;
    fill->offer.done(&fill->offer, outcome);
    pthread_mutex_lock(&set->lock);
    fill->freed = true;
    while (set->used > 0) {
        struct psti_fleet_fill *last = (void *)(set->ring + set->tail);
        if (!last->freed)
            break;
        set->used -= last->room;
        set->tail = (set->tail + last->room) % set->capacity;
    }
    if (--set->n_offers == 0)
        pthread_cond_broadcast(&set->changed);
    pthread_mutex_unlock(&set->lock); /* the last one: the set may be gone now */
}

enum psti_fleet_taken psti_fleet_offer(struct psti_fleet_set *set,
                                       const struct psti_fleet_offer *offer)
{
    const pst_fleet *fleet = set->fleet;
    const struct psti_fleet_name name = psti_fleet_set_name(set, offer->sample, offer->i_item);
    uint64_t key_hash = psti_format_fleet_hash(&name);
    struct psti_fleet_server *server = fleet->servers[psti_fleet_choose(fleet, key_hash)];
    if (!psti_fleet_server_wants(server))
        return PSTI_FLEET_REFUSED;
    struct psti_fleet_fill *fill = copy(set, key_hash, offer);
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

enum pst_status psti_fleet_set_open(pst_fleet *fleet, const struct psti_cache_shape *shape,
                                    uint64_t fill_nbytes, struct psti_fleet_set **out,
                                    struct pst_error *err)
{
    *out = NULL;
    struct psti_fleet_set *set = psti_calloc(1, sizeof *set);
    size_t unit = sizeof(struct psti_fleet_fill);
    size_t capacity = fill_nbytes < SIZE_MAX ? (size_t)fill_nbytes / unit * unit : 0;
    if (set && capacity)
        set->ring = psti_alloc_aligned(PSTI_CACHE_LINE, capacity);
    if (!set || (capacity && !set->ring)) {
        psti_free(set);
        return psti_fail(err, PST_ERROR_MEMORY, "fleet", "no memory for %zu bytes of items",
                         capacity);
    }
    set->fleet = fleet;
    set->shape = *shape;
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
    psti_fleet_settle(set, INT64_MAX); /* each has a deadline */
    pthread_cond_destroy(&set->changed);
    pthread_mutex_destroy(&set->lock);
    psti_free(set->ring);
    psti_free(set);
    pst_fleet_close(&fleet);
}
