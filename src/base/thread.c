/* thread.c - starts threads, and returns how many cores to use. */
#include "base/thread.h"

#include "base/alloc.h"
#include "base/machine/cores.h"
#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct start {
    void (*fn)(void *);
    void *arg;
};

static void *run(void *memory)
{
    struct start start = *(struct start *)memory;
    psti_free(memory);
    start.fn(start.arg);
    return NULL;
}

enum pst_status psti_thread_start(pthread_t *thread, const char *name, void (*fn)(void *),
                                  void *arg, struct pst_error *err)
{
    struct start *start = psti_alloc(sizeof *start);
    if (!start)
        return psti_fail(err, PST_ERROR_MEMORY, "base", "no memory to start thread '%s'", name);
    *start = (struct start){fn, arg};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int os_error =
        psti_fault(PSTI_FAULT_THREAD) ? EAGAIN : pthread_create(thread, NULL, run, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (os_error) {
        psti_free(start);
        psti_fail_os(err, os_error, "base", NULL, -1, "cannot start thread '%s'", name);
        if (err)
            /* EAGAIN: the system's limit on threads is reached */
            err->status = PST_ERROR_LIMIT;
        return PST_ERROR_LIMIT;
    }
    char full_name[16];
    snprintf(full_name, sizeof full_name, "pst-%.10s", name);
    pthread_setname_np(*thread, full_name);
    return PST_OK;
}

void psti_thread_join(pthread_t thread) { pthread_join(thread, NULL); }

unsigned psti_thread_cores(void)
{
    const char *wanted = getenv("PENSTOCK_NUM_THREADS");
    long given = wanted ? strtol(wanted, NULL, 10) : 0;
    if (given > 0 && given <= 4096)
        return (unsigned)given;
    return psti_cores();
}

void psti_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

int psti_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                             .tv_nsec = (long)(deadline_ns % 1000000000)};
    return pthread_cond_timedwait(cond, lock, &until);
}
