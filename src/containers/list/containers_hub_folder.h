/* containers_hub_folder.h - folders that `datasets` of Hugging Face, or its Hub, has made.
 *
 * There are four kinds:
 * - a Dataset saved by save_to_disk: state.json lists the files, in order;
 * - a DatasetDict saved by save_to_disk: dataset_dict.json lists the splits; each has a subfolder
 *   with a saved Dataset;
 * - a cache folder of load_dataset: files NAME-SPLIT.arrow or NAME-SPLIT-00000-of-00002.arrow
 *   beside dataset_info.json. Files cache-*.arrow beside them are results of map and filter; no
 *   file lists them, so they are ignored;
 * - a Hub repository, cloned or in the Hub's cache: README.md begins with YAML, in which "configs"
 *   assigns files to splits. Without "configs", the files in data/ are taken, and their names tell
 *   the splits: data/train-00000-of-00002.parquet.
 *
 * All files must lie below the folder, also after links are followed. In the Hub's cache, the
 * files of a repository are links into the folder "blobs" beside "snapshots", so there they must
 * lie below the repository's folder in the cache. Nothing of Python is ever run. */
#ifndef PST_CONTAINERS_CONTAINERS_HUB_FOLDER_H
#define PST_CONTAINERS_CONTAINERS_HUB_FOLDER_H

#include "containers/list/containers_list.h"

/* True if the folder is one of the four kinds above. */
bool psti_containers_hub_is(const char *folder);
/* Adds the shards of all splits with the names of their splits. If `split` names one, only that
 * split's shards are added. Shards whose split no file states get it from their names later.
 *
 * PST_ERROR_CORRUPT: a file is not what `datasets` writes.
 * PST_ERROR_NOT_FOUND: a shard is missing, or there are none.
 * PST_ERROR_ARGUMENT: README.md has several configurations and none is the default.
 * PST_ERROR_UNSUPPORTED: rows are selected by a list of indices, or a shard lies outside of the
 *     folder. */
enum pst_status psti_containers_hub_add(struct psti_container_list *list, const char *folder,
                                        const char *split, struct pst_error *err);

#endif
