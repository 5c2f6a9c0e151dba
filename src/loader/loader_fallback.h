/* loader_fallback.h - counters of fall-backs, for pst_loader_stats. */
#ifndef PST_LOADER_LOADER_FALLBACK_H
#define PST_LOADER_LOADER_FALLBACK_H

#include "storage/storage.h"

#include <penstock/penstock.h>

void psti_loader_fell_back(pst_loader *loader, enum pst_fallback kind, uint64_t n);
/* Sets stats->fallbacks and stats->cpu_rooms. The other members are set already. */
void psti_loader_fallbacks(const pst_loader *loader, const struct psti_storage_stats *storage,
                           struct pst_loader_stats *stats);
/* Writes for each room the vector level of its kernels as text. Returns how many rooms are below
 * AVX-512 because the CPU lacks a part of it. */
uint32_t psti_loader_cpu_rooms(uint32_t features, char *text, size_t nbytes);

#endif
