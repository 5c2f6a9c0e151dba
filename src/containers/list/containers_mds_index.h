/* containers_mds_index.h - reads which shards the index of MosaicML Streaming names
 * (streaming/base/format/mds, version 2): "index.json" in the folder of the shards or above it. */
#ifndef PST_CONTAINERS_CONTAINERS_MDS_INDEX_H
#define PST_CONTAINERS_CONTAINERS_MDS_INDEX_H

#include "containers/list/containers_list.h"

#define PSTI_MDS_INDEX_NAME "index.json"

/* True if the folder has such an index: JSON with "version" and "shards". */
bool psti_containers_mds_index_is(const char *folder);
/* Adds its shards, in its order, with their numbers of samples. *is_index: false, with PST_OK, if
 * the file is none. may_be_other: so it is if it cannot be read, or is no JSON.
 *
 * PST_ERROR_CORRUPT: it is such an index, and wrong. PST_ERROR_UNSUPPORTED: another version, shards
 * of another format than MDS, or shards that are compressed as a whole and lie there so only.
 * PST_ERROR_NOT_FOUND: it names a shard that is not there. */
enum pst_status psti_containers_mds_index_add(struct psti_container_list *list, const char *folder,
                                              int32_t i_split, bool may_be_other, bool *is_index,
                                              struct pst_error *err);

#endif
