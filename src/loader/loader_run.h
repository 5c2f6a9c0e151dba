/* loader_run.h - the threads of an epoch. The pump (loader_pump.c) claims slots and starts reads;
 * workers (loader_run.c) take rows and fill them. Functions say whether the loader's lock must be
 * held. */
#ifndef PST_LOADER_LOADER_RUN_H
#define PST_LOADER_LOADER_RUN_H

#include "loader/loader_job.h"

/* loader_pump.c; the lock must be held, and is released meanwhile. */
/* Starts the next job if it may be under way and gets a slot. Otherwise loader->claim_status says
 * why not. */
bool psti_loader_pump_start_job(pst_loader *loader);
/* Starts as many jobs and reads as fit. now_ns: the time if it was just read, else 0. Returns the
 * time at its end; now_ns if there was nothing to do. */
int64_t psti_loader_pump(pst_loader *loader, int64_t now_ns);
/* Submits the reads of the task's next state. The lock must not be held. The caller gives up the
 * task. */
void psti_loader_pump_submit_more(pst_loader *loader, struct psti_loader_task *task);
/* The lock must be held. */
void psti_loader_pump_free_task(pst_loader *loader, struct psti_loader_task *task);

/* loader_run.c; the lock must be held. */
void psti_loader_run_start(pst_loader *loader, uint64_t step);
/* Drops all work under way, and waits for work that cannot be dropped. */
void psti_loader_run_cancel(pst_loader *loader);
void psti_loader_run_worker(void *worker);
/* Makes one row of the next job in the caller's thread (num_workers 0), and waits for the
 * throttle's time. The wait ends at `deadline` and continues at the next call. */
void psti_loader_run_row_here(pst_loader *loader, struct psti_loader_job *job, int64_t deadline);

#endif
