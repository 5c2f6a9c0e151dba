/* fleet_ring.h - copies of offered items in the ring of their set. */
#ifndef PST_FLEET_FLEET_RING_H
#define PST_FLEET_FLEET_RING_H

#include "fleet/fleet.h"

/* A copy of an offered item in its set's ring: this, and the bytes. */
struct psti_fleet_fill {
    struct psti_fleet_fill *next; /* in the server's queue or, on their way, in its talk */
    struct psti_fleet_set *set;
    size_t room; /* bytes of the ring, this included */
    bool freed;  /* guarded by the set's lock */
    uint64_t key_hash;
    uint32_t n_parts;
    struct psti_fleet_offer offer; /* its bytes are the copy's */
    /* On their way: */
    uint32_t n_sent, n_open; /* parts sent; requests not answered yet */
    uint32_t n_removed;      /* parts whose removal was sent */
    bool is_added, is_full;  /* the server took a part; it refused one */
    bool removes;            /* parts that it took are removed */
};

/* Copies the offer into the ring. NULL: there is no room now. */
struct psti_fleet_fill *psti_fleet_fill_make(struct psti_fleet_set *set, uint64_t key_hash,
                                             const struct psti_fleet_offer *offer);
/* Calls the offer's `done` and frees the copy. No lock is held. */
void psti_fleet_fill_end(struct psti_fleet_fill *fill, enum psti_fleet_outcome outcome);

#endif
