/* loader_cache.h - the loader's use of a cache of its process (loader_cache.c), and the choice of
 * what any cache keeps. */
#ifndef PST_LOADER_LOADER_CACHE_H
#define PST_LOADER_LOADER_CACHE_H

#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Looks for the item in the cache. Sets data and is_cached, or is_wanted, or neither. If the cache
 * has the item re-coded, sets its form and length too. */
void psti_loader_cache_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                           struct psti_loader_source *source);
/* Offers the items of a row that was filled to the fleet, and keeps those that are wanted.
 * Re-codes those that options.cache_form is for. */
void psti_loader_cache_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources);
/* Gives up the reservations of a row's items that are still wanted. */
void psti_loader_cache_give_up(pst_loader *loader, struct psti_loader_source *sources);

#endif
