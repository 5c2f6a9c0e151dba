/* fleet_ring.h - copies of offered items in the ring of their set. */
#ifndef PST_FLEET_FLEET_RING_H
#define PST_FLEET_FLEET_RING_H

#include "fleet/fleet.h"

/* A copy of an offered item in its set's ring: this header, then the bytes. */
struct psti_fleet_fill {
    struct psti_fleet_fill *next; /* next in the server's queue, or in its list of items being
                                     added */
    struct psti_fleet_set *set;
    size_t room; /* bytes in the ring, including this header */
    bool freed;  /* the copy is not used any more; guarded by the set's lock */
    uint64_t key_hash;
    uint32_t n_parts;
    struct psti_fleet_offer offer; /* offer.bytes points to the copy */
    /* While the copy is being sent: */
    uint32_t n_sent, n_open; /* parts that were sent; requests for them that are not answered yet */
    uint32_t n_removed;      /* number of parts for which a removal was sent */
    bool is_added, is_full;  /* is_added: the server has taken a part; is_full: it has refused
                                one */
    bool removes;            /* the parts that the server took are being removed */
};

/* Copies the offer into the ring. NULL: there is no space now. */
struct psti_fleet_fill *psti_fleet_fill_make(struct psti_fleet_set *set, uint64_t key_hash,
                                             const struct psti_fleet_offer *offer);
/* Calls the offer's `done` and frees the copy. No lock is held. */
void psti_fleet_fill_end(struct psti_fleet_fill *fill, enum psti_fleet_outcome outcome);

#endif
