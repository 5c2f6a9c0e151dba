/* loader_begin.h - places in the sequence of batches. */
#ifndef PST_LOADER_LOADER_BEGIN_H
#define PST_LOADER_LOADER_BEGIN_H

#include <penstock/loader.h>

/* Goes on behind the batch that was delivered last, with batches of another size, if an epoch is
 * under way. Nothing runs. The lock must be held. */
void psti_loader_go_on(pst_loader *loader);

#endif
