/* loader_sources.h - weights of a mixture's sources. */
#ifndef PST_LOADER_LOADER_SOURCES_H
#define PST_LOADER_LOADER_SOURCES_H

#include "order/order.h"

/* Checks the loader's options about sources, and fills in those for the order. Without weights
 * mix->n_sources is 0. The caller frees *firsts by psti_free when the order is open. */
enum pst_status psti_loader_sources_read(pst_loader *loader, struct psti_order_mix *mix,
                                         uint64_t **firsts, struct pst_error *err);

#endif
