/* loader_run.h - the worker threads of an epoch: they pump, take rows and fill them. All functions
 * but psti_loader_run_worker need the lock to be held. */
#ifndef PST_LOADER_LOADER_RUN_H
#define PST_LOADER_LOADER_RUN_H

#include "loader/epoch/loader_job.h"

/* Starts the workers at `step` of the queue. */
void psti_loader_run_start(pst_loader *loader, uint64_t step);
/* Drops all queued work, and waits for work under way that cannot be dropped. */
void psti_loader_run_cancel(pst_loader *loader);
/* The body of a worker's thread, which runs until the loader closes. It takes the lock. */
void psti_loader_run_worker(void *worker);
/* Makes one row of the next job in the caller's thread (num_workers 0), and waits if the throttle
 * asks for it. The wait ends at `deadline`, and the next call continues it. */
void psti_loader_run_row_here(pst_loader *loader, struct psti_loader_job *job, int64_t deadline);

#endif
