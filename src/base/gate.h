/* gate.h - a gate (counting semaphore): at most `limit` threads are inside it at a time. The limit
 * may change at any time. Any thread. */
#ifndef PST_BASE_GATE_H
#define PST_BASE_GATE_H

#include <pthread.h>
#include <stdint.h>

struct psti_gate {
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t room;
    uint32_t limit, n_inside;
};
void psti_gate_open(struct psti_gate *gate, uint32_t limit);
void psti_gate_close(struct psti_gate *gate);
/* Sets the limit, at least 1. Threads that are already inside go on even if the new limit is
 * lower. */
void psti_gate_set_limit(struct psti_gate *gate, uint32_t limit);
/* Waits until fewer threads than the limit are inside, then enters. A thread must leave again, and
 * its work inside must end without waiting for other threads at the gate. */
void psti_gate_enter(struct psti_gate *gate);
void psti_gate_leave(struct psti_gate *gate);

#endif
