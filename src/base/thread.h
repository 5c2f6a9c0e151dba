/* thread.h - threads; locks are plain pthread mutexes and conditions. */
#ifndef PST_BASE_THREAD_H
#define PST_BASE_THREAD_H

#include <penstock/status.h>

#include <pthread.h>

/* Starts a thread that runs fn(arg), named "pst-<name>" (name: at most 10 characters). All signals
 * are blocked in it, so that they reach the host program's threads. */
enum pst_status psti_thread_start(pthread_t *thread, const char *name, void (*fn)(void *),
                                  void *arg, struct pst_error *err);
void psti_thread_join(pthread_t thread);
/* psti_cores; PENSTOCK_NUM_THREADS overrides. */
unsigned psti_thread_cores(void);
/* Waits on `cond` until `deadline_ns` of psti_clock_ns; the condition was made by psti_cond_init.
 * Returns 0 or ETIMEDOUT. */
int psti_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns);
/* A condition that counts by the monotonic clock. */
void psti_cond_init(pthread_cond_t *cond);

#endif
