/* queue.h - a queue of pointers with a fixed capacity and one lock, for any number of producers and
 * consumers.
 *
 * The capacity is fixed at init, so pushing never allocates. After close, push fails, and pop
 * returns the items that are left. */
#ifndef PST_BASE_QUEUE_H
#define PST_BASE_QUEUE_H

#include <penstock/status.h>

#include <pthread.h>
#include <stdbool.h>

struct psti_queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    void **items; /* `lock` guards this member and all below */
    size_t capacity, head, n;
    bool closed;
};

enum pst_status psti_queue_init(struct psti_queue *queue, size_t capacity, struct pst_error *err);
void psti_queue_destroy(struct psti_queue *queue); /* no thread may use the queue any more */
bool psti_queue_push(struct psti_queue *queue, void *item); /* waits while full; false if closed */
void *psti_queue_pop(struct psti_queue *queue); /* waits while empty; NULL if closed and empty */
void *psti_queue_try_pop(struct psti_queue *queue); /* NULL if empty */
void psti_queue_close(struct psti_queue *queue);    /* wakes all waiting threads; idempotent */

#endif
