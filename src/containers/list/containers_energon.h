/* containers_energon.h - data sets that Megatron-Energon prepared: a folder .nv-meta beside tars.
 *
 * These files are read, by Energon's own description (docs/source/basic/data_prep.md):
 *   .info.json or .info.yaml    shard_counts: names of shards and their sample counts, in order
 *   split.yaml or split.json    split_parts: names of shards for each split; exclude: shards, or
 *                               samples as "SHARD/KEY"
 *   dataset.yaml                field_map: names of fields and the suffixes that hold them
 * The shards of a split are in the order in which split.yaml names them, as in Energon. Shards that
 * a wildcard matches, and all shards if no split is taken, are in the order of shard_counts.
 *
 * dataset.yaml also names Python modules, classes and functions. They are never run. Modules and
 * classes only say how Energon represents samples. Functions change the content of samples, so a
 * data set with sample_loader or part_filter is refused. index.sqlite is not read, because the
 * tars contain all that it states. */
#ifndef PST_CONTAINERS_CONTAINERS_ENERGON_H
#define PST_CONTAINERS_CONTAINERS_ENERGON_H

#include "containers/list/containers_list.h"

/* True if the folder is a data set that Energon prepared. */
bool psti_containers_energon_is(const char *folder);
/* Adds the shards of a split (see psti_containers_list_open), excluded samples and fields. *done:
 * false if the folder has no splits; then the names of the shards tell their splits.
 *
 * PST_ERROR_CORRUPT: a file of .nv-meta is not what Energon writes.
 * PST_ERROR_NOT_FOUND: a shard or the split is missing.
 * PST_ERROR_UNSUPPORTED: a shard lies outside of the folder, or the data set needs code to be
 *     run. */
enum pst_status psti_containers_energon_add(struct psti_container_list *list, const char *folder,
                                            const char *split, bool *done, struct pst_error *err);

#endif
