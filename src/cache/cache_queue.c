/* cache_queue.c - items of a set in the order in which they were kept, for cache_later.c.
 *
 * In: numbers of items, from any thread that keeps one. Out: the same numbers, each once. */
#include "cache/cache_queue.h"

#include "base/alloc.h"
#include "cache/cache.h"

struct psti_cache_queue *psti_cache_queue_of(struct psti_cache_set *set)
{
    return atomic_load_explicit(&set->queue, memory_order_acquire);
}

void psti_cache_queue_note(struct psti_cache_queue *queue, uint64_t number)
{
    if (queue->n_noted == queue->n_numbers)
        return;
    queue->numbers[queue->n_noted++] = number;
    atomic_fetch_add_explicit(&queue->n_left, 1, memory_order_relaxed);
}

void psti_cache_later_note(struct psti_cache_set *set, uint64_t number)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    psti_cache_queue_note(queue, number);
    pthread_mutex_unlock(&queue->lock);
}

void psti_cache_later_close(struct psti_cache_set *set)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    if (!queue)
        return;
    pthread_mutex_destroy(&queue->lock);
    psti_free(queue->numbers);
    psti_free(queue);
}

uint64_t psti_cache_later_count(struct psti_cache_set *set)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    return queue ? atomic_load_explicit(&queue->n_left, memory_order_relaxed) : 0;
}
