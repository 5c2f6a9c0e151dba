/* queue.c - a ring buffer of pointers, guarded by one lock. */
#include "base/queue.h"

#include "base/alloc.h"
#include "base/fail.h"

enum pst_status psti_queue_init(struct psti_queue *queue, size_t capacity, struct pst_error *err)
{
    *queue = (struct psti_queue){.capacity = capacity};
    queue->items = psti_alloc_array(capacity ? capacity : 1, sizeof *queue->items);
    if (!queue->items)
        return psti_fail(err, PST_ERROR_MEMORY, "base", "no memory for a queue of %zu", capacity);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->not_empty, NULL);
    pthread_cond_init(&queue->not_full, NULL);
    return PST_OK;
}

void psti_queue_destroy(struct psti_queue *queue)
{
    if (!queue->items)
        return;
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->lock);
    psti_free(queue->items);
    queue->items = NULL;
}

/* Adds an item. The caller holds the lock and has checked that the ring is not full. */
static void put(struct psti_queue *queue, void *item)
{
    queue->items[(queue->head + queue->n) % queue->capacity] = item;
    queue->n++;
    pthread_cond_signal(&queue->not_empty);
}

/* Removes the oldest item. The caller holds the lock and has checked that there is an item. */
static void *take(struct psti_queue *queue)
{
    void *item = queue->items[queue->head];
    queue->head = (queue->head + 1) % queue->capacity;
    queue->n--;
    pthread_cond_signal(&queue->not_full);
    return item;
}

bool psti_queue_push(struct psti_queue *queue, void *item)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->closed && queue->n == queue->capacity)
        pthread_cond_wait(&queue->not_full, &queue->lock);
    bool pushed = !queue->closed;
    if (pushed)
        put(queue, item);
    pthread_mutex_unlock(&queue->lock);
    return pushed;
}

void *psti_queue_pop(struct psti_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->closed && queue->n == 0)
        pthread_cond_wait(&queue->not_empty, &queue->lock);
    void *item = queue->n ? take(queue) : NULL;
    pthread_mutex_unlock(&queue->lock);
    return item;
}

void *psti_queue_try_pop(struct psti_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    void *item = queue->n ? take(queue) : NULL;
    pthread_mutex_unlock(&queue->lock);
    return item;
}

void psti_queue_close(struct psti_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
    pthread_mutex_unlock(&queue->lock);
}
