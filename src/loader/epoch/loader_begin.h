/* loader_begin.h - positions in the sequence of batches. */
#ifndef PST_LOADER_LOADER_BEGIN_H
#define PST_LOADER_LOADER_BEGIN_H

#include <penstock/loader.h>

/* Continues the epoch under way with another batch size, after the batch delivered last. Does
 * nothing if no epoch is under way. No work may be running. The lock must be held. */
void psti_loader_go_on(pst_loader *loader);

#endif
