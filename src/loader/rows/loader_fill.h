/* loader_fill.h - writes a row of a batch from the bytes of its items. */
#ifndef PST_LOADER_LOADER_FILL_H
#define PST_LOADER_LOADER_FILL_H

#include "loader/loader_source.h"

struct psti_loader_worker;

/* Writes row `row` of the batch. The items' bytes must be loaded. */
enum pst_status psti_loader_row_fill(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key,
                                     struct psti_loader_source *sources, struct pst_error *err);

#endif
