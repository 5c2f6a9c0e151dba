/* loader_times.h - measures waiting: when reads were under way, and how workers spent their time.
 * All functions need the lock to be held. */
#ifndef PST_LOADER_LOADER_TIMES_H
#define PST_LOADER_LOADER_TIMES_H

#include "stall/stall_meter.h"

#include <penstock/loader.h>

/* Call the first function before a task's reads are submitted, the second when they are
 * complete. */
void psti_loader_times_read_begins(pst_loader *loader);
void psti_loader_times_read_ends(pst_loader *loader);
/* Returns the nanoseconds, up to now, in which at least one task's reads were under way. */
uint64_t psti_loader_times_reading(const pst_loader *loader, int64_t now_ns);
/* Makes a worker wait for work. The lock is released meanwhile. */
void psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread);

#endif
