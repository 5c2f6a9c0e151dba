/* loader_storage.h - reads of a row's items from storage, besides its operations as a tier. */
#ifndef PST_LOADER_LOADER_STORAGE_H
#define PST_LOADER_LOADER_STORAGE_H

#include "loader/loader_source.h"
#include "storage/storage.h"

struct psti_loader_worker;

/* Submits reads that were prepared with their row. Each that ends calls items->done. They may be
 * gone when this returns. Any thread. */
void psti_loader_storage_submit(pst_loader *loader, struct psti_read **reads, uint32_t n);
/* Submits items->reads of a later state of the row. The lock must not be held. The caller gives up
 * the row. */
void psti_loader_storage_submit_more(pst_loader *loader, struct psti_loader_items *items);
/* Does those of worker->items in this thread, one after the other, until one fails. Those that have
 * data are done already. */
void psti_loader_storage_read_here(struct psti_loader_worker *worker);

#endif
