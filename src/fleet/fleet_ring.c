/* fleet_ring.c - copies of offered items in the ring buffer of their set.
 *
 * The ring bounds the memory; no thread waits for space in it. Copies may be freed in any order,
 * and the tail advances over those that are free. Any thread may call these functions. */
#include "fleet/fleet_ring.h"

#include "fleet/fleet_int.h"

#include <string.h>

static uint8_t *bytes_of(const struct psti_fleet_fill *fill)
{
    return (uint8_t *)(uintptr_t)(fill + 1);
}

/* Allocates `room` bytes in the ring, or returns NULL. If the space up to the end of the ring is
 * too small, it is skipped and counted as used. The set's lock is held. */
static struct psti_fleet_fill *place(struct psti_fleet_set *set, size_t room, size_t *taken)
{
    size_t to_end = set->capacity - set->head;
    size_t skipped = room > to_end ? to_end : 0;
    if (room > set->capacity || room + skipped > set->capacity - set->used)
        return NULL;
    if (skipped) { /* the skipped space holds a header with its size; it fits, as all sizes are
                      multiples of the header's */
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

struct psti_fleet_fill *psti_fleet_fill_make(struct psti_fleet_set *set, uint64_t key_hash,
                                             const struct psti_fleet_offer *offer)
{
    uint64_t each = set->part_nbytes;
    uint64_t n_parts = psti_format_fleet_n_parts(offer->nbytes, each);
    size_t taken;
    if (offer->nbytes > set->capacity || n_parts > UINT32_MAX)
        return NULL;
    /* The size of each copy is a multiple of the header's size, and so is the size of the ring. */
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
    pthread_mutex_unlock(&set->lock); /* if no copy is left, another thread may free the set after
                                         this */
}
