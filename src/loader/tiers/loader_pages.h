/* loader_pages.h - decoded pages of tables that stay for the next items in them. */
#ifndef PST_LOADER_LOADER_PAGES_H
#define PST_LOADER_LOADER_PAGES_H

#include "loader/loader.h"

struct pst_item;

/* Keeps a copy of a page that a worker has decoded, if there is room. item: an item in this page,
 * as the data set gave it. If it lies in no compressed page, nothing is done. decoded: the bytes of
 * the page. Any worker. */
void psti_loader_pages_keep(pst_loader *loader, const struct pst_item *item, const void *decoded);
/* Frees all pages that no row points into. From then on pages take at most half of what they could
 * take before, so that a caller who tries again ends. False: there was none. Any thread. */
bool psti_loader_pages_shrink(pst_loader *loader);

#endif
