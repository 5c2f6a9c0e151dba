/* loader_kept.h - what a cache or the fleet has of an item, for all tiers that keep items. */
#ifndef PST_LOADER_LOADER_KEPT_H
#define PST_LOADER_LOADER_KEPT_H

#include "cache/cache.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"

/* The item's number in the sample, for cache, host cache and fleet. */
uint32_t psti_loader_kept_number(const pst_loader *loader, uint32_t i_field, uint32_t variant);
/* True if a sample's items may be admitted by a cache: options.cache_plan. */
bool psti_loader_kept_admits(const pst_loader *loader, uint64_t sample);
/* Points the source to what a cache or the fleet has. False: the item cannot be this loader's. */
bool psti_loader_kept_take(const pst_loader *loader, const struct psti_loader_plan_field *field,
                           const struct psti_cache_span *span, struct psti_loader_source *source);
/* A cache had the item that the source points to, of nbytes. */
void psti_loader_kept_count_hit(pst_loader *loader, const struct psti_loader_source *source,
                                uint64_t nbytes);

#endif
