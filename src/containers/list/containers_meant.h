/* containers_meant.h - selects the folder entries that may be shards or indexes of shards. */
#ifndef PST_CONTAINERS_CONTAINERS_MEANT_H
#define PST_CONTAINERS_CONTAINERS_MEANT_H

#include <stdbool.h>

/* Callback for psti_containers_folder. True for shards, compressed tars, folders of splits, and the
 * indexes of Penstock and MosaicML. */
bool psti_containers_takes_shards(void *context, const char *name, bool is_folder);

#endif
