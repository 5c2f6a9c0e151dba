/* loader_counters.h - counters and times of a loader, for pst_loader_stats. */
#ifndef PST_LOADER_LOADER_COUNTERS_H
#define PST_LOADER_LOADER_COUNTERS_H

#include "stall/stall_meter.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

/* loader_times.c; the lock must be held. */
/* The reads of a task are about to be submitted; the reads of a task have completed. */
void psti_loader_times_read_begins(pst_loader *loader);
void psti_loader_times_read_ends(pst_loader *loader);
/* Nanoseconds, up to now, in which at least one task's reads were under way. */
uint64_t psti_loader_times_reading(const pst_loader *loader, int64_t now_ns);
/* A worker waits for work. The lock is released meanwhile. */
void psti_loader_times_wait_for_work(pst_loader *loader, struct psti_meter_thread *thread);

/* loader_fallback.c */
void psti_loader_fell_back(pst_loader *loader, enum pst_fallback kind, uint64_t n);
/* Fills in `fallbacks` and `cpu_rooms`. The other members are set already. */
void psti_loader_fallbacks(const pst_loader *loader, const struct psti_storage_stats *storage,
                           struct pst_loader_stats *stats);
/* Writes the level of each room's kernels as text. Returns how many rooms have a level below
 * AVX-512 because a part of it is missing. */
uint32_t psti_loader_cpu_rooms(uint32_t features, char *text, size_t nbytes);

#endif
