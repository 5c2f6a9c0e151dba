/* containers_wids.h - the index of the Python package wids: a JSON file with shards and counts.
 *
 * Its form: {"wids_version": 1, "shardlist": [{"url": "a.tar", "nsamples": 100}, ...]}. Other
 * entries are passed over, but for "datasets" and "base", which lead to other indexes or places and
 * are refused. */
#ifndef PST_CONTAINERS_CONTAINERS_WIDS_H
#define PST_CONTAINERS_CONTAINERS_WIDS_H

#include "containers/list/containers_list.h"
#include "containers/list/containers_tree.h"

/* Adds the shards of the index at `path`, in its order.
 *
 * PST_ERROR_UNSUPPORTED: a shard lies elsewhere than below the index's folder, or the index leads
 * to others. PST_ERROR_CORRUPT: it is no such index. PST_ERROR_NOT_FOUND: a shard is missing. */
enum pst_status psti_containers_wids_add(struct psti_container_list *list, const char *path,
                                         struct pst_error *err);
/* Takes one shard of an index. `url` is the tree's. */
typedef enum pst_status (*psti_wids_take)(void *context, const char *url, int64_t n_samples,
                                          struct pst_error *err);
/* Reads the shards of an index without a look at the files. n_samples: -1 if it is not stated. */
enum pst_status psti_containers_wids_read(const struct psti_tree *tree, psti_wids_take take,
                                          void *context, struct pst_error *err);

#endif
