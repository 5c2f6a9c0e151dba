/* loader_counters.h - counters and times of a loader, for pst_loader_stats. */
#ifndef PST_LOADER_LOADER_COUNTERS_H
#define PST_LOADER_LOADER_COUNTERS_H

#include "storage/storage.h"

#include <penstock/penstock.h>

#define PSTI_QUARANTINE_MAX 4096

/* loader_times.c, the lock must be held */
/* A task's reads are submitted next; they have completed. */
void psti_loader_times_read_begins(pst_loader *loader);
void psti_loader_times_read_ends(pst_loader *loader);
/* Nanoseconds until now in which at least one task's reads were under way. */
uint64_t psti_loader_times_reading(const pst_loader *loader, int64_t now_ns);
/* A worker waits until there may be something to do; the lock is let go meanwhile. */
void psti_loader_times_wait_for_work(pst_loader *loader);

/* loader_fallback.c */
void psti_loader_fell_back(pst_loader *loader, enum pst_fallback kind, uint64_t n);
/* Fills `fallbacks` and `cpu_rooms`; the other members are there already. */
void psti_loader_fallbacks(const pst_loader *loader, const struct psti_storage_stats *storage,
                           struct pst_loader_stats *stats);
/* Level of each room's kernels as text; how many rooms have a lower one than AVX-512 for want of
 * some part of it. */
uint32_t psti_loader_cpu_rooms(uint32_t features, char *text, size_t nbytes);

/* loader_next.c: counts a bad sample and lists it. Takes the lock. */
void psti_loader_note_bad(pst_loader *loader, const struct pst_error *what);

#endif
