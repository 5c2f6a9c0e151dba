/* thread.h - starts threads, and helps with conditions. Locks are plain pthread mutexes. */
#ifndef PST_BASE_THREAD_H
#define PST_BASE_THREAD_H

#include <penstock/status.h>

#include <pthread.h>

/* Starts a thread that runs fn(arg). It is named "pst-<name>"; `name` has at most 10 characters.
 * All signals are blocked in it, so that the host program's threads receive them. */
enum pst_status psti_thread_start(pthread_t *thread, const char *name, void (*fn)(void *),
                                  void *arg, struct pst_error *err);
void psti_thread_join(pthread_t thread);
/* Returns the value of PENSTOCK_NUM_THREADS if it is in 1..4096, otherwise psti_cores(). */
unsigned psti_thread_cores(void);
/* Waits on `cond`, made by psti_cond_init, until it is signalled or psti_clock_ns reaches
 * `deadline_ns`. Returns 0 or ETIMEDOUT. */
int psti_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
/* Creates a condition whose deadlines are times of the monotonic clock. */
void psti_cond_init(pthread_cond_t *cond);

#endif
