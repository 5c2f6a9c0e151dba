/* loader_handle.h - the loader itself.
 *
 * The pump is whichever thread finds work for it. It starts a job per batch, in order, and claims
 * the job's slot. Then it looks up each row's items and starts their reads into the arena, a task
 * per row. Workers take tasks whose bytes are there, or rows at once if all files are in memory,
 * and fill slot rows. The worker that finishes a job's last row closes the batch. pst_loader_next
 * hands jobs out in order. */
#ifndef PST_LOADER_LOADER_HANDLE_H
#define PST_LOADER_LOADER_HANDLE_H

#include "batch/batch.h"
#include "loader/epoch/loader_crew.h"
#include "loader/epoch/loader_epoch.h"
#include "loader/tiers/loader_files.h"
#include "loader/tiers/loader_forms.h"
#include "loader/tiers/loader_kept.h"
#include "loader/epoch/loader_meter.h"
#include "loader/epoch/loader_mix.h"
#include "loader/loader_plan.h"
#include "loader/epoch/loader_quarantine.h"
#include "loader/epoch/loader_queue.h"
#include "loader/tiers/loader_tier.h"
#include "loader/placement/loader_placement.h"
#include "order/order.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

#include <pthread.h>
#include <stdatomic.h>

/* Sums of items that the loader notes for the index of other people's files (loader_noted.c). Set
 * and closed by the caller's thread, while no worker has work. */
struct psti_loader_noted {
    struct psti_noted *sums; /* NULL: none are noted */
    uint64_t nbytes;         /* charged for it */
    bool is_over;            /* nothing is to be saved any more */
};

struct pst_loader {
    /* pst_loader_open sets these before a worker is started. They are constant from then on, but
     * for what pst_loader_set changes while no worker runs: pool, options.batch_size, plan,
     * placement, and what loader_shape.c makes. The objects they point to have their own locks. */
    struct psti_pool *pool;
    /* Guards jobs, the placement's memory for slots, and all structs whose headers say "the
     * loader's lock". It is also the pool's lock: workers wait for rows to fill and for slots that
     * come back with one condition. */
    pthread_mutex_t *lock;
    pthread_cond_t
        *work; /* the pool's: there is something to do for a worker, or a slot came back */
    pthread_cond_t done; /* signalled: a batch is complete, or a thread stopped */
    pthread_cond_t runs; /* the loader begins to run, or closes; for workers of one that shares */
    pst_dataset *dataset;
    struct pst_loader_options options; /* pointers in it are NULL, zeros are replaced by defaults */
    /* What options.fields was: [options.n_fields]. pst_loader_set changes sizes in it. */
    struct pst_field_output *fields;
    struct psti_loader_plan plan;
    struct psti_order *order;
    struct psti_storage *storage;
    struct psti_placement placement;
    struct psti_loader_share *share; /* NULL: the loader does not share */
    struct psti_loader_forms forms;  /* over which rows are divided */
    struct psti_loader_mix mix;
    bool in_memory;             /* no item needs a read */
    uint64_t block_nbytes_max;  /* a row's items larger than this are PST_ERROR_LIMIT */
    uint64_t scratch_max;       /* largest scratch of a decoder, and of a run */
    uint64_t memory_nbytes;     /* bytes charged for files in memory and for tables */
    uint64_t jobs_nbytes;       /* of these: for tables of tasks and jobs */
    pst_interrupt_fn interrupt; /* may be NULL; the caller's thread */
    void *interrupt_ctx;
    atomic_uchar *verified; /* a bit per (sample, item): MEMORY storage checks each item once */
    struct psti_loader_files files; /* with a lock of its own */

    /* One file changes each of these structs. The struct's header names it. */
    struct psti_loader_tiers tiers; /* where the bytes of items come from */
    struct psti_loader_kept kept;   /* what caches keep of them */
    struct psti_loader_noted noted; /* checksums noted of items in files of others */
    struct psti_loader_crew crew;   /* the workers */
    struct psti_loader_queue queue; /* jobs and rows on their way */
    struct psti_loader_gather gather;
    struct psti_loader_epoch epoch; /* the place in the sequence of batches */
    struct psti_loader_meters meters;
    struct psti_loader_quarantine quarantine;
};

#endif
