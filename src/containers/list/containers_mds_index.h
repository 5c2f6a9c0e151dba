/* containers_mds_index.h - reads the shards that an index of MosaicML Streaming lists
 * (streaming/base/format/mds, version 2): "index.json" in the shards' folder or above it. */
#ifndef PST_CONTAINERS_CONTAINERS_MDS_INDEX_H
#define PST_CONTAINERS_CONTAINERS_MDS_INDEX_H

#include "containers/list/containers_list.h"

#define PSTI_MDS_INDEX_NAME "index.json"

/* True if the folder has an index of MosaicML: index.json with "version" and "shards". */
bool psti_containers_mds_index_is(const char *folder);
/* Adds the shards of the folder's index in its order, with their sample counts. *is_index: false,
 * with PST_OK, if index.json is some other JSON file. may_be_other: do the same if it cannot be
 * read or is no JSON; else that is an error.
 *
 * PST_ERROR_CORRUPT: it is an index of MosaicML, but wrong.
 * PST_ERROR_UNSUPPORTED: another version, shards of another format than MDS, or shards that exist
 *     only in compressed form.
 * PST_ERROR_NOT_FOUND: a shard that it lists does not exist. */
enum pst_status psti_containers_mds_index_add(struct psti_container_list *list, const char *folder,
                                              int32_t i_split, bool may_be_other, bool *is_index,
                                              struct pst_error *err);

#endif
