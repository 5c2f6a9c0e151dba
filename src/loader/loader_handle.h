/* loader_handle.h - the loader itself.
 *
 * How a batch comes about: the pump (whichever thread finds work for it) starts a job per batch, in
 * order, and claims its slot; then it looks up each row's items and starts their reads into the
 * arena (a task per row). Workers take tasks whose bytes are there, or rows straight away where all
 * files are in memory, and fill slot rows. The worker that finishes a job's last row closes the
 * batch; pst_loader_next hands jobs out in order. */
#ifndef PST_LOADER_LOADER_HANDLE_H
#define PST_LOADER_LOADER_HANDLE_H

#include "batch/batch.h"
#include "order/order.h"
#include "loader/loader_arena.h"
#include "loader/loader_files.h"
#include "loader/loader_job.h"
#include "loader/loader_plan.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_placement.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <stdatomic.h>

struct pst_loader {
    /* Set by pst_loader_open before a worker is started, and constant from then on; what they point
     * to looks after itself. */
    struct psti_pool *pool;
    /* The lock of all that is marked below, of jobs, and of the placement's memory for slots. It is
     * the pool's: a slot that comes back is work for somebody, so both are waited for at once. */
    pthread_mutex_t *lock;
    pthread_cond_t *work; /* the pool's: something to do for a worker, or a slot came back */
    pthread_cond_t done;  /* a job is whole, or a thread has come to rest; with the lock */
    pst_dataset *dataset;
    struct pst_loader_options options; /* pointers in it are cleared, zeros replaced by defaults */
    struct psti_loader_plan plan;
    struct psti_order *order;
    struct psti_storage *storage;
    struct psti_placement placement;
    bool in_memory;            /* every item is at hand without reading */
    uint64_t block_nbytes_max; /* a row's items larger than this are PST_ERROR_LIMIT */
    uint64_t scratch_max;      /* of a decoder, and of a run */
    uint64_t memory_nbytes;    /* charged for files in memory, and tables */
    uint64_t n_small_pages;    /* of the process at open */
    uint32_t n_workers, n_started;

    /* With locks of their own, or none: */
    struct psti_loader_files files;
    atomic_uint_fast64_t grant_max;  /* the largest that any worker came to */
    atomic_uint_fast64_t wanted_max; /* and of a decoder's, with what makes it faster */
    /* Held by the one worker that uses the reserve, from its first charge to the end of its row. It
     * is taken without `lock`; who has it may take `lock`, the files' or a card's for a moment. */
    pthread_mutex_t reserve_lock;
    atomic_uchar *verified; /* a bit per (sample, item): MEMORY storage checks each item once */
    atomic_bool cancelled;  /* written with the lock, read without it by workers, between rows */
    atomic_uint_fast64_t fallbacks[PST_FALLBACKS_MAX]; /* counted by any thread */

    /* Each of one thread: a worker's own, the mender and the fetcher of the caller's. */
    struct psti_loader_worker
        *workers; /* [n_workers]; num_workers 0: one, used by the caller's thread */
    struct psti_loader_worker mender;  /* makes rows again; only where placement.ops->remakes */
    struct psti_loader_worker fetcher; /* pst_loader_fetch, pst_loader_replay */
    struct psti_loader_job fetch_job;
    bool fetcher_is_open;
    pst_interrupt_fn interrupt; /* of fetch and replay; may be NULL */
    void *interrupt_ctx;

    /* Guarded by `lock`: */
    struct psti_loader_arena arena;
    struct psti_loader_task *tasks; /* [n_tasks] */
    uint32_t n_tasks;
    /* A task is in one of these lists, or under way: then its reader or its worker has it alone. */
    struct psti_loader_task *free_tasks, *ready, *ready_last, *pending;
    uint32_t n_ready, n_reading, n_busy;
    uint32_t n_kept;              /* batches that the caller held when it asked for the next one */
    struct psti_loader_job *ring; /* [options.prefetch], by step */
    uint32_t ahead;               /* jobs that may be under way, <= prefetch */
    bool closing, running, begun, parked, failed;
    bool pumping;    /* a thread pumps: it alone changes `pending` and starts jobs, also while it
                        lets the lock go */
    bool pump_again; /* the lock was let go: something may have changed */
    struct pst_error failure;
    enum pst_status claim_status;
    struct psti_ranks ranks;      /* of the epoch under way */
    struct psti_ranks next_ranks; /* of the next one */
    uint64_t epoch, start, step_base, n_steps;
    uint64_t next_step, issue_step, row_step; /* to deliver, to start, whose rows are given out */
    uint64_t hinted_window;
    uint64_t epoch_bad, epoch_good; /* samples of the epoch under way */
    struct pst_error last_bad;      /* of an epoch without a good sample so far */
    struct pst_error *quarantine;   /* [quarantine_cap] */
    uint32_t n_quarantined, quarantine_cap;
    struct pst_loader_stats stats;
    struct pst_loader_state state; /* written and read by the caller's thread alone */
    int64_t reading_since_ns;      /* since n_reading is > 0 */
    uint64_t reading_ns;           /* before that */
};

/* The error of use in a forked child. */
enum pst_status psti_loader_fail_forked(struct pst_error *err);

/* loader_options.c */
/* Makes complete `options` of this library's size out of `given`, and refuses what cannot be.
 * `*fields` (NULL before): a block that holds options->fields and their operations, to be freed by
 * psti_free, after an error too. */
enum pst_status psti_loader_take_options(const struct pst_loader_options *given,
                                         struct pst_loader_options *options, void **fields,
                                         struct pst_error *err);

#endif
