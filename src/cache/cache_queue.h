/* cache_queue.h - the queue of a set's items that are replaced in another form later
 * (cache_later.c). */
#ifndef PST_CACHE_CACHE_QUEUE_H
#define PST_CACHE_CACHE_QUEUE_H

#include "cache/cache_int.h"

#include <pthread.h>
#include <stdatomic.h>

#define PSTI_CACHE_RETIRED 128  /* replaced items that readers may still have, at most */
#define PSTI_CACHE_AGAIN_MAX 16 /* items that found no place, and are tried again */

/* Bytes of a replaced item. */
struct psti_cache_retired {
    char *bytes;
    size_t nbytes;
};

struct psti_cache_queue {
    pthread_mutex_t lock; /* guards the rest, but for *n_left as it is read */
    uint64_t *numbers;    /* [n_numbers] those of items, in the order in which they were kept */
    uint64_t n_numbers;   /* items that the set may have */
    uint64_t *noted; /* a bit for each number that was noted, so that none is noted twice */
    uint64_t n_noted, n_next; /* in `numbers`; the next to be given out */
    uint64_t again[PSTI_CACHE_AGAIN_MAX]; /* [n_again] numbers to be given out again */
    uint32_t n_again, n_out; /* n_out: items that were given out and did not come back yet */
    uint64_t spare, spare_max; /* bytes of the budget that no item has been promised */
    /* [turn][n_retired[turn]] */
    struct psti_cache_retired retired[2][PSTI_CACHE_RETIRED];
    uint32_t n_retired[2];
    char *swept, *swept_end; /* retired bytes outside the set's memory, in one run */
    /* Shared sets: rounds among readers in other processes that have begun, that have ended, and
     * that must have ended before items replaced in the last turn are free. */
    uint64_t n_begun, n_ended, n_needed;
    bool is_frozen; /* nothing is replaced, and no replaced item is freed any more */
    /* Items that are in the queue: `own_left`, or where the readers of a shared set see it. */
    atomic_uint_fast64_t *n_left, own_left;
};

/* The set's queue, or NULL. Any thread. */
struct psti_cache_queue *psti_cache_queue_of(struct psti_cache_set *set);
/* Bytes of a queue for n items. */
static inline uint64_t psti_cache_queue_nbytes(uint64_t n)
{
    return sizeof(struct psti_cache_queue) + (n + n / 64 + 2) * sizeof(uint64_t);
}
/* Makes a queue for n items. n_left: where readers see their number; NULL: nowhere. Returns NULL if
 * there is no memory. */
struct psti_cache_queue *psti_cache_queue_make(uint64_t n, atomic_uint_fast64_t *n_left);
/* NULL is allowed. */
void psti_cache_queue_free(struct psti_cache_queue *queue);
/* Adds an item that is not there yet. The queue's lock is held. */
void psti_cache_queue_note(struct psti_cache_queue *queue, uint64_t number);

#endif
