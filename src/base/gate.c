/* gate.c - counts the threads that are inside a gate, and makes others wait. */
#include "base/gate.h"

void psti_gate_open(struct psti_gate *gate, uint32_t limit)
{
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->room, NULL);
    gate->limit = limit;
    gate->n_inside = 0;
}

void psti_gate_close(struct psti_gate *gate)
{
    pthread_cond_destroy(&gate->room);
    pthread_mutex_destroy(&gate->lock);
}

void psti_gate_set_limit(struct psti_gate *gate, uint32_t limit)
{
    pthread_mutex_lock(&gate->lock);
    gate->limit = limit;
    pthread_cond_broadcast(&gate->room);
    pthread_mutex_unlock(&gate->lock);
}

void psti_gate_enter(struct psti_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->n_inside >= gate->limit)
        pthread_cond_wait(&gate->room, &gate->lock);
    gate->n_inside++;
    pthread_mutex_unlock(&gate->lock);
}

void psti_gate_leave(struct psti_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->n_inside--;
    pthread_cond_signal(&gate->room);
    pthread_mutex_unlock(&gate->lock);
}
