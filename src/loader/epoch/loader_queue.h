/* loader_queue.h - the work of a loader on its way: jobs, the tasks of their rows, and gatherings.
 *
 * The pump (loader_pump.c) fills the queue, workers (loader_run.c) empty it, and loader_shape.c
 * makes it. The loader's lock guards it, where nothing else is said. */
#ifndef PST_LOADER_LOADER_QUEUE_H
#define PST_LOADER_LOADER_QUEUE_H

#include "loader/epoch/loader_arena.h"
#include "loader/epoch/loader_job.h"

#include <stdatomic.h>

struct psti_loader_queue {
    struct psti_loader_arena arena;
    struct psti_loader_task *tasks; /* [n_tasks] */
    uint32_t n_tasks, n_free_tasks;
    /* A task is in one of these lists, or under way. Under way it belongs to its reader or its
     * worker alone. */
    struct psti_loader_task *free_tasks, *ready, *ready_last, *pending;
    uint32_t n_ready, n_reading, n_busy; /* tasks: read, being read, being filled */
    uint32_t n_later;                    /* workers that re-code items; n_busy has them, too */
    struct psti_loader_job *ring;        /* [options.prefetch], by step of the queue */
    uint64_t issue_step, row_step;       /* step to start next; step whose rows are handed out */
    uint64_t hinted_window;              /* window of the order whose reads were announced last */
    atomic_bool cancelled;               /* workers read it without the lock, between rows */
    bool pumping; /* a thread pumps; it alone changes `pending` and starts jobs, also while it has
                     released the lock */
    bool crowded; /* reads of further rows wait, because a tier is crowded */
    bool pump_again;              /* the lock was released, so something may have changed */
    enum pst_status claim_status; /* why the pump got no slot; PST_OK: it got one */
};

/* PST_ORDER_PAGES: so that neighbours are read together, rows are looked up in gatherings of many,
 * and the reads of each are submitted at once. */
struct psti_loader_gather {
    struct psti_read **reads; /* [n_rows_max * n_items] of the pump; NULL: no gatherings */
    uint32_t n_rows;          /* rows of a part of a window, at most */
    uint32_t n_rows_max;      /* rows of a whole window, or of its rest, at most */
    uint32_t n_left;          /* rows that the gathering under way may still take */
    bool pays;                /* requests cost so much that gathering rows saves time */
    uint32_t n_tasks_alone;   /* most tasks in use while rows are not gathered */
    size_t nbytes_left;       /* bytes of the arena that the gathering may still take */
};

#endif
