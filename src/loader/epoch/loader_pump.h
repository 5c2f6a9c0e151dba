/* loader_pump.h - the pump: it claims slots, looks up rows and starts their reads. Each function
 * says whether the loader's lock must be held. */
#ifndef PST_LOADER_LOADER_PUMP_H
#define PST_LOADER_LOADER_PUMP_H

#include "loader/epoch/loader_job.h"

/* Starts the next job, if one more may be under way and a slot is free. Otherwise
 * loader->queue.claim_status says why not. The lock must be held, and is released meanwhile. */
bool psti_loader_pump_start_job(pst_loader *loader);
/* Starts as many jobs and reads as fit. now_ns: the time if it was just read, else 0. Returns the
 * time at the end, or now_ns if there was nothing to do. The lock must be held, and is released
 * meanwhile. */
int64_t psti_loader_pump(pst_loader *loader, int64_t now_ns);
/* Submits the next reads of a task whose row needs further reads. The lock must not be held. The
 * task no longer belongs to the caller. */
void psti_loader_pump_submit_more(pst_loader *loader, struct psti_loader_task *task);
/* Frees the task, and its block of the arena if it has one. The lock must be held. */
void psti_loader_pump_free_task(pst_loader *loader, struct psti_loader_task *task);

#endif
