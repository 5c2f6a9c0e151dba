/* loader_times.h - times of waiting: when reads were under way, and how workers spent their time.
 * The lock must be held in all functions. */
#ifndef PST_LOADER_LOADER_TIMES_H
#define PST_LOADER_LOADER_TIMES_H

#include "stall/stall_meter.h"

#include <penstock/loader.h>

/* The reads of a task are about to be submitted; the reads of a task have completed. */
void psti_loader_times_read_begins(pst_loader *loader);
void psti_loader_times_read_ends(pst_loader *loader);
/* Nanoseconds, up to now, in which at least one task's reads were under way. */
uint64_t psti_loader_times_reading(const pst_loader *loader, int64_t now_ns);
/* A worker waits for work. The lock is released meanwhile. */
void psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread);

#endif
