/* containers_wids.h - reads the index of the Python package wids: a JSON file with shards and
 * sample counts.
 *
 * Its form: {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 100}, ...]}. Other
 * entries are ignored, except "datasets" and "base", which refer to other indexes or locations and
 * are refused. */
#ifndef PST_CONTAINERS_CONTAINERS_WIDS_H
#define PST_CONTAINERS_CONTAINERS_WIDS_H

#include "containers/list/containers_list.h"
#include "containers/list/containers_tree.h"

/* Adds the shards of the index at `path`, in its order.
 *
 * PST_ERROR_UNSUPPORTED: a shard does not lie below the index's folder, or the index refers to
 *     others.
 * PST_ERROR_CORRUPT: the file is no index of wids.
 * PST_ERROR_NOT_FOUND: a shard is missing. */
enum pst_status psti_containers_wids_add(struct psti_container_list *list, const char *path,
                                         struct pst_error *err);
/* Receives one shard of an index. `url` belongs to the tree. */
typedef enum pst_status (*psti_wids_take)(void *context, const char *url, int64_t n_samples,
                                          struct pst_error *err);
/* Passes each shard of an index to `take`, without opening the shards. n_samples is -1 if the index
 * does not state it. */
enum pst_status psti_containers_wids_read(const struct psti_tree *tree, psti_wids_take take,
                                          void *context, struct pst_error *err);

#endif
