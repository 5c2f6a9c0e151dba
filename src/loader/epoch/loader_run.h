/* loader_run.h - the threads of an epoch: workers, which pump, take rows and fill them. The lock
 * must be held in all functions but psti_loader_run_worker. */
#ifndef PST_LOADER_LOADER_RUN_H
#define PST_LOADER_LOADER_RUN_H

#include "loader/epoch/loader_job.h"

/* Starts work at that step. */
void psti_loader_run_start(pst_loader *loader, uint64_t step);
/* Drops all work under way, and waits for work that cannot be dropped. */
void psti_loader_run_cancel(pst_loader *loader);
/* A worker's thread, until the loader closes. It takes the lock. */
void psti_loader_run_worker(void *worker);
/* Makes one row of the next job in the caller's thread (num_workers 0), and waits for the
 * throttle's time. The wait ends at `deadline` and continues at the next call. */
void psti_loader_run_row_here(pst_loader *loader, struct psti_loader_job *job, int64_t deadline);

#endif
