/* cache_queue.c - a queue of the items of a set in the order in which they were kept, for
 * cache_later.c.
 *
 * In: numbers of items, from any thread that keeps an item. Out: the same numbers, each once. */
#include "cache/cache_queue.h"

#include "base/alloc.h"
#include "cache/cache.h"

struct psti_cache_queue *psti_cache_queue_of(struct psti_cache_set *set)
{
    return atomic_load(&set->queue); /* sequentially consistent with is_frozen, see
                                        psti_cache_later_freeze */
}

struct psti_cache_queue *psti_cache_queue_make(uint64_t n, atomic_uint_fast64_t *n_left)
{
    struct psti_cache_queue *queue = psti_calloc(1, sizeof *queue);
    if (!queue)
        return NULL;
    pthread_mutex_init(&queue->lock, NULL);
    queue->n_numbers = n;
    queue->n_left = n_left ? n_left : &queue->own_left;
    queue->numbers = psti_alloc_array((size_t)n + 1, sizeof *queue->numbers);
    queue->noted = psti_calloc((size_t)(n / 64 + 1), sizeof *queue->noted);
    if (queue->numbers && queue->noted)
        return queue;
    psti_cache_queue_free(queue);
    return NULL;
}

void psti_cache_queue_free(struct psti_cache_queue *queue)
{
    if (!queue)
        return;
    pthread_mutex_destroy(&queue->lock);
    psti_free(queue->numbers);
    psti_free(queue->noted);
    psti_free(queue);
}

void psti_cache_queue_note(struct psti_cache_queue *queue, uint64_t number)
{
    /* The bit avoids noting an item twice: a thread that lists the set's items may see an item
     * before the thread that keeps it has noted it. */
    uint64_t bit = (uint64_t)1 << (number % 64);
    if (queue->is_frozen || queue->n_noted == queue->n_numbers ||
        (queue->noted[number / 64] & bit))
        return;
    queue->noted[number / 64] |= bit;
    queue->numbers[queue->n_noted++] = number;
    atomic_fetch_add_explicit(queue->n_left, 1, memory_order_relaxed);
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
    if (queue)
        atomic_fetch_sub(&set->cache->n_queues, 1);
    psti_cache_queue_free(queue);
}

uint64_t psti_cache_later_count(struct psti_cache_set *set)
{
    struct psti_cache_queue *queue = psti_cache_queue_of(set);
    return queue ? atomic_load_explicit(queue->n_left, memory_order_relaxed) : 0;
}
