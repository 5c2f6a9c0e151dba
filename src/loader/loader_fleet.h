/* loader_fleet.h - items that servers of a fleet keep. */
#ifndef PST_LOADER_LOADER_FLEET_H
#define PST_LOADER_LOADER_FLEET_H

#include "cache/cache.h"
#include "loader/loader_plan.h"
#include "loader/loader_source.h"

struct psti_loader_worker;

/* Decides if the fleet is asked for a located item that the cache does not have. */
void psti_loader_fleet_consider(pst_loader *loader, const struct psti_loader_plan_field *field,
                                struct psti_loader_source *source);
/* Prepares items->requests for those that the fleet is to be asked for, after
 * psti_loader_row_reads. Returns how many. The caller sets `done` and `user`. */
uint32_t psti_loader_fleet_requests(pst_loader *loader, struct psti_loader_items *items);
/* The request has ended. True: its read is done, with the item's bytes. False: it must be read. */
bool psti_loader_fleet_take(struct psti_loader_request *request);
/* Asks in this thread for the worker's sources, and waits. */
void psti_loader_fleet_ask_here(struct psti_loader_worker *worker);
/* Offers an item to the fleet, with the source's reservation in the cache. False: the fleet does
 * not take it, and the reservation stays the caller's. A re-coded item is shorter than the stored
 * one. */
bool psti_loader_fleet_offer(pst_loader *loader, struct psti_loader_source *source, uint32_t i_item,
                             const struct psti_cache_span *item);

#endif
