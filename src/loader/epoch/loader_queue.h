/* loader_queue.h - the work of a loader that is under way: jobs, the tasks of their rows, and
 * gatherings.
 *
 * The pump (loader_pump.c) fills the queue, workers (loader_run.c) empty it, and loader_shape.c
 * creates it. The loader's lock guards all members for which nothing else is said. */
#ifndef PST_LOADER_LOADER_QUEUE_H
#define PST_LOADER_LOADER_QUEUE_H

#include "loader/epoch/loader_arena.h"
#include "loader/epoch/loader_job.h"

#include <stdatomic.h>

struct psti_loader_queue {
    struct psti_loader_arena arena;
    struct psti_loader_task *tasks; /* [n_tasks] */
    uint32_t n_tasks, n_free_tasks;
    /* Bytes of read buffers that rows under way may take before further rows wait. It grows when
     * workers wait for storage. */
    size_t ahead_nbytes;
    uint64_t starved_ns; /* how long workers have waited since it grew */
    /* A task is in one of these lists or in the `parked` list of its job, or it is being read or
     * filled. Then it belongs to its reader or its worker alone. */
    struct psti_loader_task *free_tasks, *ready, *ready_last, *pending;
    uint32_t n_ready, n_reading, n_busy; /* numbers of tasks: already read (without parked ones),
                                            being read, being filled by workers */
    uint32_t n_later;                    /* number of workers that re-code items; n_busy counts
                                            them, too */
    struct psti_loader_job *ring;        /* [n_jobs], indexed by step of the queue */
    uint32_t n_jobs;                     /* options.prefetch, and with gatherings those for all rows
                                            that may be under way */
    uint64_t issue_step, row_step;       /* step to start next; step whose rows are looked up now */
    uint64_t list_step;                  /* step to be listed next, not below issue_step */
    uint64_t hinted_window;              /* window of the order for which the kernel last got a
                                            hint */
    atomic_bool cancelled;               /* workers read it without the lock, between rows */
    bool pumping;    /* a thread pumps; only that thread changes `pending` and starts jobs, even
                        while it has released the lock */
    bool crowded;    /* reads of further rows wait, because a tier has too many requests */
    bool pump_again; /* the lock was released while pumping, so the state may have
                        changed */
    enum pst_status claim_status; /* why the pump got no slot for a batch; PST_OK: it got a slot */
};

/* A gathering, which PST_ORDER_PAGES uses. The pump looks up many rows first. Then it submits all
 * their reads together, so that neighbouring samples share a read. The batches of these rows need
 * no slots yet. So a gathering can be as large as a window of the order, even if few batches are
 * prepared ahead. */
struct psti_loader_gather {
    struct psti_read **reads; /* [n_rows_max * n_items], used by the pump; NULL: the loader never
                                 gathers */
    uint32_t n_rows;          /* largest number of rows in one part of a window */
    uint32_t n_rows_max;      /* largest number of rows in a whole window or its rest */
    uint32_t n_left;          /* number of rows that the gathering under way may still take */
    bool pays;                /* true if reads are so slow that gathering the reads of many rows
                                 saves time */
    uint32_t n_tasks_alone;   /* largest number of tasks in use while rows are not gathered */
    size_t nbytes_left;       /* bytes of the arena that the present gathering of reads may still
                                 take */
};

#endif
