/* loader_pages.h - keeps decompressed pages of tables, because the next rows often need other items
 * of the same pages. */
#ifndef PST_LOADER_LOADER_PAGES_H
#define PST_LOADER_LOADER_PAGES_H

#include "loader/loader.h"

struct pst_item;

/* Keeps a copy of a page that a worker has decompressed, if there is space. item: an item of the
 * page, as the data set describes it; does nothing if that item lies in no compressed page.
 * decoded: the bytes of the page. Any worker. */
void psti_loader_pages_keep(pst_loader *loader, const struct pst_item *item, const void *decoded);
/* Frees all pages that no row points into, and halves the memory that pages may take from then on,
 * so that repeated calls come to an end. False: there was no such page. Any thread. */
bool psti_loader_pages_shrink(pst_loader *loader);
/* True if rows point into pages, which psti_loader_pages_shrink cannot free now. Any thread. */
bool psti_loader_pages_are_used(pst_loader *loader);

#endif
