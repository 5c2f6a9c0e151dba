/* cache_queue.h - the queue of a set's items that are replaced in another form later
 * (cache_later.c). */
#ifndef PST_CACHE_CACHE_QUEUE_H
#define PST_CACHE_CACHE_QUEUE_H

#include "cache/cache_int.h"

#include <pthread.h>
#include <stdatomic.h>

#define PSTI_CACHE_RETIRED 128  /* maximum number of replaced items that wait for their readers */
#define PSTI_CACHE_AGAIN_MAX 16 /* maximum number of items that found no space and are tried
                                   again */

/* The bytes of an item that was replaced. */
struct psti_cache_retired {
    char *bytes;
    size_t nbytes;
};

struct psti_cache_queue {
    pthread_mutex_t lock; /* guards the other members; *n_left may be read without it */
    uint64_t *numbers;    /* [n_numbers] numbers of items, in the order in which they were kept */
    uint64_t n_numbers;   /* maximum number of items that the set may have */
    uint64_t *noted; /* a bit for each noted number, to avoid noting it twice */
    uint64_t n_noted, n_next; /* entries in `numbers`; index of the next one to give out */
    uint64_t again[PSTI_CACHE_AGAIN_MAX]; /* [n_again] numbers to give out again */
    uint32_t n_again, n_out; /* n_out: items given out and not put back yet */
    uint64_t spare, spare_max; /* bytes of the budget reserved for the queue, not taken by an
                                  item */
    /* [turn][n_retired[turn]] replaced items that readers may still use */
    struct psti_cache_retired retired[2][PSTI_CACHE_RETIRED];
    uint32_t n_retired[2];
    char *swept, *swept_end; /* range of replaced items in loaded files whose pages are being
                                returned */
    /* Shared sets: rounds among readers in other processes. Number of rounds that have begun, that
     * have ended, and that must have ended before items replaced in the last turn are free. */
    uint64_t n_begun, n_ended, n_needed;
    bool is_frozen; /* true: no item is replaced any more, and no replaced item is freed */
    /* Number of items in the queue. It lies in `own_left`, or where readers of a shared set see
     * it. */
    atomic_uint_fast64_t *n_left, own_left;
};

/* Returns the set's queue, or NULL. Any thread. */
struct psti_cache_queue *psti_cache_queue_of(struct psti_cache_set *set);
/* Returns the bytes of a queue for n items. */
static inline uint64_t psti_cache_queue_nbytes(uint64_t n)
{
    return sizeof(struct psti_cache_queue) + (n + n / 64 + 2) * sizeof(uint64_t);
}
/* Makes a queue for n items. n_left: where readers see the number of waiting items; NULL: nowhere.
 * Returns NULL if out of memory. */
struct psti_cache_queue *psti_cache_queue_make(uint64_t n, atomic_uint_fast64_t *n_left);
/* NULL is allowed. */
void psti_cache_queue_free(struct psti_cache_queue *queue);
/* Adds an item, unless it was added before. The queue's lock is held. */
void psti_cache_queue_note(struct psti_cache_queue *queue, uint64_t number);

#endif
