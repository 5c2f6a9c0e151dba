/* loader_crew.h - the workers of a loader, and the state that they share. */
#ifndef PST_LOADER_LOADER_CREW_H
#define PST_LOADER_LOADER_CREW_H

#include "base/gate.h"
#include "loader/epoch/loader_job.h"
#include "loader/loader_worker.h"

#include <pthread.h>
#include <stdatomic.h>

/* loader_shape.c makes the crew; loader_run.c and loader_worker.c use it. Each worker belongs to
 * its own thread. The repair worker and the fetcher belong to the caller's thread. */
struct psti_loader_crew {
    /* [n] the workers; with num_workers 0 there is one, which the caller's thread uses */
    struct psti_loader_worker *workers;
    uint32_t n, n_started;
    /* Worker that makes rows again that the placement could not make; open only if
     * placement.ops->remakes. */
    struct psti_loader_worker repairer;
    struct psti_loader_worker fetcher; /* for pst_loader_fetch and pst_loader_replay */
    struct psti_loader_job fetch_job;
    bool fetcher_is_open;
    struct psti_gate *gate; /* limits how many workers fill rows at a time; NULL: there is none */
    atomic_uint_fast64_t grant_max;  /* largest scratch in bytes granted to any worker so far */
    atomic_uint_fast64_t wanted_max; /* largest scratch that a decoder wanted so far, with the
                                        part that only makes it faster */
    /* Protects the reserve memory, which one worker uses at a time, from its first charge to the
     * end of its row. Take it without the loader's lock. Its holder may take that lock, the files'
     * lock or a GPU's lock for a moment. */
    pthread_mutex_t reserve_lock;
};

#endif
