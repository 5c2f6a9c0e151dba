/* loader_epoch.h - the loader's position in its sequence of batches, and whether it runs. */
#ifndef PST_LOADER_LOADER_EPOCH_H
#define PST_LOADER_LOADER_EPOCH_H

#include "order/order.h"

#include <penstock/loader.h>

/* loader_begin.c sets it, and loader_next.c advances it. The loader's lock guards all members for
 * which nothing else is said. */
struct psti_loader_epoch {
    uint64_t number, start;        /* number of the epoch under way, and the position at which it
                                      began */
    uint64_t step_base, n_steps;   /* steps of the epoch before `start`, and from `start` on */
    /* While the loader runs, steps of the queue are numbered on from epoch to epoch. first_step is
     * the number of the first step of the epoch under way. */
    uint64_t first_step;
    uint64_t next_step; /* step of the queue that is delivered next */
    uint64_t issue_end; /* first step of the queue that must not be started */
    uint64_t n_early;   /* number of steps of the next epoch that may be started in this one; 0:
                           none */
    uint32_t n_followed; /* number of epochs in a row whose number was that of the epoch before plus
                            1 */
    bool is_led;         /* set at open: the host service decides how far the loader may go */
    uint32_t ahead;                /* number of jobs that may be under way, <= prefetch */
    struct psti_ranks ranks;       /* ranks of the epoch under way */
    struct psti_ranks next_ranks;  /* ranks of the next epoch */
    struct pst_loader_state state; /* only the caller's thread writes and reads it */
    uint32_t n_kept;             /* number of batches that the caller held when it called for the
                                    next one */
    uint64_t n_bad, n_good;      /* bad and good samples counted in this epoch so far */
    struct pst_error last_bad;   /* error of a bad sample, kept while the epoch has no good
                                    sample */
    bool begun, running, parked; /* parked: no work runs, because the loader waits for its
                                    group's answer */
    bool ended;                  /* pst_loader_next has returned PST_END; only the caller's
                                    thread uses it */
    bool closing;                /* the loader is being closed */
    bool failed;                 /* the epoch has failed for the reason in `failure`; the next
                                    epoch may begin */
    bool broken; /* pst_loader_set ran out of memory, so the loader can only be closed; only the
                    caller's thread uses it */
    struct pst_error failure;
};

/* Returns the step of the queue after the last one of this epoch, or UINT64_MAX for an endless
 * epoch. */
static inline uint64_t psti_loader_epoch_end(const struct psti_loader_epoch *epoch)
{
    uint64_t left = UINT64_MAX - epoch->first_step;
    return epoch->n_steps < left ? epoch->first_step + epoch->n_steps : UINT64_MAX;
}

#endif
