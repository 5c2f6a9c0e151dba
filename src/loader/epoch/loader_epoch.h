/* loader_epoch.h - the place of a loader in its sequence of batches, and whether it runs. */
#ifndef PST_LOADER_LOADER_EPOCH_H
#define PST_LOADER_LOADER_EPOCH_H

#include "order/order.h"

#include <penstock/loader.h>

/* loader_begin.c sets it, and loader_next.c moves it on. The loader's lock guards it, where nothing
 * else is said. */
struct psti_loader_epoch {
    uint64_t number, start;        /* the epoch under way, and its position at which it began */
    uint64_t step_base, n_steps;   /* steps of the epoch before `start`, and behind it */
    /* Steps of the queue are counted on from epoch to epoch while the loader runs: first_step is
     * the first one of the epoch under way. */
    uint64_t first_step;
    uint64_t next_step; /* of the queue: to deliver next */
    uint64_t issue_end; /* first step of the queue that must not be started */
    uint64_t n_early;   /* steps of the next epoch that may be started in this one; 0: none */
    uint32_t n_followed; /* epochs that have followed each other, number by number */
    bool is_led;         /* set at open: somebody else says how far the loader may go */
    uint32_t ahead;                /* number of jobs that may be under way, <= prefetch */
    struct psti_ranks ranks;       /* ranks of the epoch under way */
    struct psti_ranks next_ranks;  /* ranks of the next epoch */
    struct pst_loader_state state; /* only the caller's thread writes and reads it */
    uint32_t n_kept;             /* batches that the caller held when it called for the next one */
    uint64_t n_bad, n_good;      /* samples of the epoch so far */
    struct pst_error last_bad;   /* set while an epoch has no good sample */
    bool begun, running, parked; /* if parked: it waits for its group's answer */
    bool ended;                  /* pst_loader_next has returned PST_END; the caller's thread */
    bool closing;                /* the loader is being closed */
    bool failed;                 /* `failure` says why; the next epoch may begin */
    bool broken; /* pst_loader_set lost its memory: it can only be closed. The caller's thread */
    struct pst_error failure;
};

/* The first step of the queue behind the epoch under way. An endless epoch has none. */
static inline uint64_t psti_loader_epoch_end(const struct psti_loader_epoch *epoch)
{
    uint64_t left = UINT64_MAX - epoch->first_step;
    return epoch->n_steps < left ? epoch->first_step + epoch->n_steps : UINT64_MAX;
}

#endif
