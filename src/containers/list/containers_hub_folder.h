/* containers_hub_folder.h - folders of `datasets` of Hugging Face, and of its Hub.
 *
 * There are four:
 * - what save_to_disk of a Dataset writes: state.json lists the files, in their order;
 * - what save_to_disk of a DatasetDict writes: dataset_dict.json lists splits, each with such a
 *   folder;
 * - a folder of the cache of load_dataset: files NAME-SPLIT.arrow or
 *   NAME-SPLIT-00000-of-00002.arrow beside dataset_info.json. cache-*.arrow beside them are results
 *   of map and filter, which no list names; they are passed over;
 * - a repository of the Hub, cloned or in the Hub's cache: README.md begins with YAML whose
 *   "configs" say which files are of which split. Without them the files are those of data/, by
 *   their names: data/train-00000-of-00002.parquet.
 *
 * All files must lie below the folder, also behind links. In the Hub's cache the files of a
 * repository are links into the folder "blobs" beside "snapshots", so there it is the repository's
 * folder that they must lie below. Nothing of Python is ever run. */
#ifndef PST_CONTAINERS_CONTAINERS_HUB_FOLDER_H
#define PST_CONTAINERS_CONTAINERS_HUB_FOLDER_H

#include "containers/list/containers_list.h"

/* Is this folder one? */
bool psti_containers_hub_is(const char *folder);
/* Adds the shards of all splits, or only those of `split` where that is the name of one, with their
 * splits. Splits that no file states are left to the names.
 *
 * PST_ERROR_CORRUPT: a file is not what `datasets` writes. PST_ERROR_NOT_FOUND: a shard is missing,
 * or there are none. PST_ERROR_ARGUMENT: README.md has several configurations, none of which is the
 * default. PST_ERROR_UNSUPPORTED: rows are chosen by a list of indices; a shard lies elsewhere. */
enum pst_status psti_containers_hub_add(struct psti_container_list *list, const char *folder,
                                        const char *split, struct pst_error *err);

#endif
