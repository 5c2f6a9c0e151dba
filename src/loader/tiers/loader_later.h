/* loader_later.h - re-codes items of the cache after they were stored there
 * (PST_CACHE_RECODE_IDLE). */
#ifndef PST_LOADER_LOADER_LATER_H
#define PST_LOADER_LOADER_LATER_H

#include "loader/loader.h"

#include <penstock/loader.h>

#include <stdbool.h>

struct psti_loader_worker;
struct psti_share_cache;
struct psti_loader_source;

/* True if the options ask to re-code images of the cache later. */
bool psti_loader_later_is_asked(const pst_loader *loader);
/* Prepares re-coding, once the cache is open. Called in the caller's thread while no worker
 * runs. */
void psti_loader_later_open(pst_loader *loader);
/* True if the item is kept as stored now and will be re-coded later. Any thread. */
bool psti_loader_later_waits(const pst_loader *loader, const struct psti_loader_source *source);
/* True if a worker that found no row may re-code an item now. The lock is held. */
bool psti_loader_later_may(const pst_loader *loader, const struct psti_loader_worker *worker);
/* Re-codes one item of the cache in the worker's thread, or asks the host service to. False: no
 * item can be re-coded now. Called without the lock. */
bool psti_loader_later_do(struct psti_loader_worker *worker);
/* Registers for the answers of a new session with the host service. */
void psti_loader_later_listen(pst_loader *loader, struct psti_share_cache *host);
/* Adds the numbers of re-coded and waiting items to *stats. Any thread. */
void psti_loader_later_stats(const pst_loader *loader, struct pst_loader_stats *stats);

#endif
