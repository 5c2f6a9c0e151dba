/* containers_meant.h - which entries of a folder are looked at as shards. */
#ifndef PST_CONTAINERS_CONTAINERS_MEANT_H
#define PST_CONTAINERS_CONTAINERS_MEANT_H

#include <stdbool.h>

/* For psti_containers_folder: takes shards, compressed tars, folders of splits, and the indexes of
 * Penstock and MosaicML. */
bool psti_containers_takes_shards(void *context, const char *name, bool is_folder);

#endif
