/* loader_handle.h - the loader itself.
 *
 * The pump is whichever thread finds work for it. It starts a job per batch, in order, and claims
 * the job's slot. Then it looks up each row's items and starts their reads into the arena, a task
 * per row. Workers take tasks whose bytes are there, or rows at once if all files are in memory,
 * and fill slot rows. The worker that finishes a job's last row closes the batch. pst_loader_next
 * hands jobs out in order. */
#ifndef PST_LOADER_LOADER_HANDLE_H
#define PST_LOADER_LOADER_HANDLE_H

#include "base/gate.h"
#include "batch/batch.h"
#include "cache/cache.h"
#include "order/order.h"
#include "loader/loader_arena.h"
#include "loader/loader_files.h"
#include "loader/loader_forms.h"
#include "loader/loader_mix.h"
#include "loader/loader_job.h"
#include "loader/loader_plan.h"
#include "loader/loader_tier.h"
#include "loader/loader_worker.h"
#include "loader/placement/loader_placement.h"
#include "stall/stall_meter.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <stdatomic.h>

/* Lengths of the loader's queues, summed over the calls for a batch. */
struct psti_loader_queues {
    uint64_t n_asked, rows_reading, rows_ready, batches_running, batches_ready;
};

struct pst_loader {
    /* pst_loader_open sets these before a worker is started. They are constant from then on, but
     * for what pst_loader_set changes while no worker runs: pool, options.batch_size, plan,
     * placement, training, cache, and what loader_shape.c makes. The objects they point to have
     * their own locks. */
    struct psti_pool *pool;
    /* Guards the members marked below, jobs, and the placement's memory for slots. It is the pool's
     * lock: a slot that comes back is work for a thread, so threads wait for both at once. */
    pthread_mutex_t *lock;
    pthread_cond_t
        *work; /* the pool's: there is something to do for a worker, or a slot came back */
    pthread_cond_t done; /* a job is whole, or a thread has stopped; used with the lock */
    pthread_cond_t runs; /* the loader begins to run, or closes; for workers of one that shares */
    pst_dataset *dataset;
    struct pst_loader_options options; /* pointers in it are NULL, zeros are replaced by defaults */
    /* What options.fields was: [options.n_fields]. pst_loader_set changes sizes in it. */
    struct pst_field_output *fields;
    struct psti_loader_plan plan;
    struct psti_order *order;
    /* Where items come from, in the order in which these are asked. The last is the storage. */
    const struct psti_loader_tier_ops *tier_ops[PSTI_LOADER_TIERS];
    uint32_t n_tiers;
    struct psti_storage *storage;
    struct psti_cache_set *cache; /* of this data set; NULL: none */
    /* The session with the host cache, or NULL. It is exchanged between epochs, with the lock, when
     * no worker has work. */
    struct psti_share_cache *host;
    char *host_path;                      /* of the service's socket; NULL: no host cache */
    bool host_strict;                     /* pst_cache_host_options.strict */
    char host_reason[256];                /* why the host cache is not used; under the lock */
    struct psti_fleet_set *fleet;         /* the same in servers; NULL: none */
    struct psti_cache_shape shape;        /* of them all */
    uint32_t cache_items[PST_MAX_FIELDS]; /* number in the cache of each field's first variant */
    uint64_t recode_key;            /* fields that are re-coded whole, and how (psti_recode_key) */
    struct psti_training *training; /* fields that are kept at the training size; NULL: none */
    uint64_t cache_key;             /* of the cache's set: recode_key, or training->key */
    uint8_t *cache_plan;            /* [n_samples] not 0: the cache admits the sample; NULL: all */
    uint64_t recode_nbytes;         /* memory of each thread for re-coding */
    struct psti_placement placement;
    struct psti_gate *gate; /* limits how many workers fill rows at a time; NULL: there is none */
    struct psti_loader_share *share; /* NULL: the loader does not share */
    struct psti_loader_forms forms;  /* over which rows are divided */
    struct psti_loader_mix mix;
    struct psti_shelf *shelf;  /* NULL: it is no member of one */
    uint32_t i_member;         /* of the shelf */
    bool in_memory;            /* no item needs a read */
    uint64_t block_nbytes_max; /* a row's items larger than this are PST_ERROR_LIMIT */
    uint64_t scratch_max;      /* largest scratch of a decoder, and of a run */
    uint64_t memory_nbytes;    /* bytes charged for files in memory and for tables */
    uint64_t jobs_nbytes;      /* of these: for tables of tasks and jobs */
    uint64_t n_small_pages;    /* count of the process at open */
    uint32_t n_workers, n_started;
    struct psti_trace *trace; /* NULL: none is written */

    /* With locks of their own, or atomic: */
    struct psti_latency tiers[PST_TIER_STORAGE + 1];
    struct psti_loader_files files;
    atomic_uint_fast64_t grant_max;  /* largest grant of any worker so far */
    atomic_uint_fast64_t wanted_max; /* largest scratch of a decoder so far, with the part that only
                                        makes it faster */
    /* Held by the one worker that uses the reserve, from its first charge to the end of its row. It
     * is taken without `lock`. Its holder may take `lock`, the files' lock or a GPU's for a moment.
     */
    pthread_mutex_t reserve_lock;
    atomic_uchar *verified; /* a bit per (sample, item): MEMORY storage checks each item once */
    atomic_bool cancelled;  /* written with the lock, read without it by workers, between rows */
    atomic_uint_fast64_t fallbacks[PST_FALLBACKS_MAX]; /* any thread counts */
    atomic_uint_fast64_t n_cache_hits, n_cache_training_hits, nbytes_cache_hit, n_cache_misses;
    atomic_uint_fast64_t n_cache_recoded, nbytes_cache_saved;
    atomic_uint_fast64_t n_cache_fetched, nbytes_cache_fetched;

    /* Each belongs to one thread: workers to their own, the repair worker and the fetcher to the
     * caller's. */
    struct psti_loader_worker
        *workers; /* [n_workers]; num_workers 0: one, which the caller's thread uses */
    /* The repair worker, which makes rows again; only if placement.ops->remakes. */
    struct psti_loader_worker repairer;
    struct psti_loader_worker fetcher; /* for pst_loader_fetch and pst_loader_replay */
    struct psti_loader_job fetch_job;
    bool fetcher_is_open;
    pst_interrupt_fn interrupt; /* may be NULL */
    void *interrupt_ctx;

    /* Guarded by `lock`: */
    struct psti_loader_arena arena;
    struct psti_loader_task *tasks; /* [n_tasks] */
    uint32_t n_tasks, n_free_tasks;
    /* PST_ORDER_PAGES: so that neighbours are read together, rows are looked up in gatherings of
     * many, and the reads of each are submitted at once. */
    struct psti_read **gathered; /* [n_gather_max * n_items] of the pump; NULL: no gatherings */
    uint32_t n_gather;           /* rows of a part of a window, at most */
    uint32_t n_gather_max;       /* rows of a whole window, or of its rest, at most */
    uint32_t gather_left;        /* rows that the one under way may still take */
    bool gather_pays;            /* requests cost so much that rows are gathered now */
    uint32_t n_tasks_alone;      /* tasks in use, at most, where rows are not gathered */
    size_t gather_nbytes;        /* bytes of the arena that it may still take */
    /* A task is in one of these lists, or under way. Under way it belongs to its reader or its
     * worker alone. */
    struct psti_loader_task *free_tasks, *ready, *ready_last, *pending;
    uint32_t n_ready, n_reading, n_busy;
    uint32_t n_kept;              /* batches that the caller held when it called for the next one */
    struct psti_loader_job *ring; /* [options.prefetch], by step */
    uint32_t ahead;               /* number of jobs that may be under way, <= prefetch */
    uint64_t issue_end;           /* first step that must not be started */
    bool closing, running, begun, parked, failed;
    bool broken;  /* pst_loader_set lost its memory: it can only be closed. The caller's thread */
    bool pumping; /* a thread pumps; it alone changes `pending` and starts jobs, also while it has
                     released the lock */
    bool crowded; /* reads wait for copies on their way to the fleet */
    bool pump_again; /* the lock was released, so something may have changed */
    struct pst_error failure;
    enum pst_status claim_status;
    struct psti_ranks ranks;      /* ranks of the epoch under way */
    struct psti_ranks next_ranks; /* ranks of the next epoch */
    uint64_t epoch, start, step_base, n_steps;
    uint64_t next_step, issue_step,
        row_step; /* step to deliver next, to start next, whose rows are handed out */
    uint64_t hinted_window;
    uint64_t epoch_bad, epoch_good; /* counts of samples in the epoch under way */
    struct pst_error last_bad;      /* set while an epoch has no good sample */
    struct pst_error *quarantine;   /* [quarantine_cap] */
    uint32_t n_quarantined, quarantine_cap;
    struct pst_loader_stats stats;
    struct pst_loader_state state; /* only the caller's thread writes and reads it */
    int64_t settle_until_ns;  /* the same: loader_fleet.c; 0: no epoch has ended since one began */
    int64_t reading_since_ns; /* time at which n_reading became > 0 */
    uint64_t reading_ns;      /* time of reading before that */
    struct psti_meter_steps steps;
    struct psti_meter_stall stall;
    struct psti_meter_sums epoch_sums; /* of all workers when the epoch began */
    uint64_t pump_ns;                  /* time of pumping */
    uint64_t upload_wait_ns;           /* time of the caller in waiting for the placement */
    uint64_t ready_wait_ns; /* time of whole batches until they were handed out, summed */
    struct psti_loader_queues queues;
};

#endif
