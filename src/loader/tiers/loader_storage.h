/* loader_storage.h - reads of a row's items from storage. The storage is the last tier;
 * loader_tier.h has the operations of tiers. */
#ifndef PST_LOADER_LOADER_STORAGE_H
#define PST_LOADER_LOADER_STORAGE_H

#include "loader/loader_source.h"
#include "storage/storage.h"

struct psti_loader_worker;

/* Submits prepared reads. Each calls items->done when it has ended, so the reads may be freed
 * before this function returns. Any thread. */
void psti_loader_storage_submit(pst_loader *loader, struct psti_read **reads, uint32_t n);
/* Submits items->reads, the reads of a later round of the row. The lock must not be held. The row
 * no longer belongs to the caller. */
void psti_loader_storage_submit_more(pst_loader *loader, struct psti_loader_items *items);
/* Performs the reads of worker->items in this thread, one after the other, until one fails. Reads
 * that already have data are skipped. */
void psti_loader_storage_read_here(struct psti_loader_worker *worker);

#endif
