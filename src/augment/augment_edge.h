/* augment_edge.h - tells what a padded picture shows beyond its edges. */
#ifndef PST_AUGMENT_EDGE_H
#define PST_AUGMENT_EDGE_H

#include "augment/augment.h"

/* Returns the index of the source pixel that a padded picture shows at `i`, on a side of n pixels,
 * or -1 if it shows the fill. */
int64_t psti_augment_pad_index(int64_t i, uint32_t n, enum pst_pad_mode mode);
/* Writes the range [*begin, *end) of the source indices that one side of a window shows. If the
 * window shows only the fill, the range is [0, 1) and the function returns false. */
bool psti_augment_window_range(int64_t start, uint32_t n, uint32_t full, enum pst_pad_mode mode,
                               uint32_t *begin, uint32_t *end);
/* Writes the colour with which a window is filled, as samples. */
void psti_augment_fill(const struct psti_chain *chain, const struct pst_op *op, uint16_t fill[4]);

#endif
