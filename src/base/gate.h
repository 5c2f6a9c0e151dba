/* gate.h - lets at most so many threads work at a time, of however many there are. The limit may
 * change at any time. Any thread. */
#ifndef PST_BASE_GATE_H
#define PST_BASE_GATE_H

#include <pthread.h>
#include <stdint.h>

struct psti_gate {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t room;
    uint32_t limit, n_inside;
};
void psti_gate_open(struct psti_gate *gate, uint32_t limit);
void psti_gate_close(struct psti_gate *gate);
/* limit: at least 1. Threads that are inside stay there. */
void psti_gate_set_limit(struct psti_gate *gate, uint32_t limit);
/* Waits for room. Each thread that entered leaves again, after work that ends by itself. */
void psti_gate_enter(struct psti_gate *gate);
void psti_gate_leave(struct psti_gate *gate);

#endif
