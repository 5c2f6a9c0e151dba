/* loader_handle.h - the loader object.
 *
 * Any thread that finds work for the pump runs it. The pump starts a job for each batch, in order,
 * and claims the job's slot. Then it looks up the items of each row and starts their reads into the
 * arena, with a task for each row. Workers take tasks whose bytes have been read, or rows at once
 * if all files are in memory, and fill the slot's rows. The worker that finishes the last row of a
 * job closes the batch. pst_loader_next delivers jobs in order. */
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

/* Checksums of items that the loader notes for the index of other people's files (loader_noted.c).
 * The caller's thread sets and closes it while no worker has work. */
struct psti_loader_noted {
    struct psti_noted *sums; /* checksums noted so far; NULL: none are noted */
    uint64_t nbytes;         /* bytes of host_memory charged for the checksums */
    bool is_over;            /* all checksums are saved, or none will be */
};

struct pst_loader {
    /* pst_loader_open sets these members before it starts a worker. They are constant from then on,
     * except for those that pst_loader_set changes while no worker runs: pool, options.batch_size,
     * plan, placement, and what loader_shape.c makes. The objects behind the pointers have locks of
     * their own. */
    struct psti_pool *pool;
    /* Guards jobs, the placement's memory for slots, and all structs whose headers say "the
     * loader's lock". It is the pool's lock, so that workers can wait for rows to fill and for free
     * slots with one condition variable. */
    pthread_mutex_t *lock;
    pthread_cond_t
        *work; /* the pool's; signalled when a worker has something to do or a slot is free */
    pthread_cond_t done; /* signalled: a batch is complete, or a thread stopped */
    pthread_cond_t runs; /* signalled when the loader starts its workers or closes; workers of a
                            sharing loader wait for it */
    pst_dataset *dataset;
    struct pst_loader_options options; /* pointers in it are NULL, zeros are replaced by defaults */
    /* The caller's options.fields, copied: [options.n_fields]. pst_loader_set changes sizes in
     * it. */
    struct pst_field_output *fields;
    struct psti_loader_plan plan;
    struct psti_order *order;
    struct psti_storage *storage;
    struct psti_placement placement;
    struct psti_loader_share *share; /* NULL: the loader does not share */
    struct psti_loader_forms forms;  /* forms in which items are read, and the share of rows of
                                        each */
    struct psti_loader_mix mix;
    bool in_memory;             /* all items are in memory, so none needs a read */
    uint64_t block_nbytes_max;  /* limit in bytes; a row whose items are larger fails with
                                   PST_ERROR_LIMIT */
    uint64_t scratch_max;       /* largest scratch memory of a decoder or a chain's run, in bytes */
    uint64_t memory_nbytes;     /* bytes charged for files in memory and for tables */
    uint64_t jobs_nbytes;       /* part of memory_nbytes: for tables of tasks and jobs */
    pst_interrupt_fn interrupt; /* may be NULL; called in the caller's thread */
    void *interrupt_ctx;
    atomic_uchar *verified; /* a bit per (sample, item): MEMORY storage checks each item once */
    struct psti_loader_files files; /* open files; they have a lock of their own */

    /* Each of these structs is changed by one file, which its header names. */
    struct psti_loader_tiers tiers; /* where the bytes of items come from */
    struct psti_loader_kept kept;   /* what caches keep of the items */
    struct psti_loader_noted noted; /* checksums of items in other people's files, noted for
                                       their index */
    struct psti_loader_crew crew;   /* the workers */
    struct psti_loader_queue queue; /* jobs and rows under way */
    struct psti_loader_gather gather;
    struct psti_loader_epoch epoch; /* position in the sequence of batches */
    struct psti_loader_meters meters;
    struct psti_loader_quarantine quarantine;
};

#endif
