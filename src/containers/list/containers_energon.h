/* containers_energon.h - data sets that Megatron-Energon prepared: a folder .nv-meta beside tars.
 *
 * Read are, by Energon's own law (docs/source/basic/data_prep.md):
 *   .info.json or .info.yaml    shard_counts: names of shards and their samples, in order
 *   split.yaml or split.json    split_parts: names of shards for each split; exclude: shards, or
 *                               samples as "SHARD/KEY"
 *   dataset.yaml                field_map: names of fields and the suffixes that hold them
 * The shards of a split have the order in which split.yaml names them, as Energon reads them; the
 * names that wildcards match, and all shards where no split is taken, have that of shard_counts.
 *
 * dataset.yaml also names Python modules, classes and functions. They are never run. Modules and
 * classes only say how Energon holds samples; functions change what is in them, so a data set with
 * sample_loader or part_filter is refused. index.sqlite is not read: all that it says is in the
 * tars. */
#ifndef PST_CONTAINERS_CONTAINERS_ENERGON_H
#define PST_CONTAINERS_CONTAINERS_ENERGON_H

#include "containers/list/containers_list.h"

/* Is this folder one? */
bool psti_containers_energon_is(const char *folder);
/* Adds the shards of a split (as in psti_containers_list_open), excluded samples and fields. *done:
 * false if the folder has no splits, so that names decide.
 *
 * PST_ERROR_CORRUPT: a file of .nv-meta is not what Energon writes. PST_ERROR_NOT_FOUND: a shard or
 * the split is missing. PST_ERROR_UNSUPPORTED: a shard lies elsewhere, or code would be needed. */
enum pst_status psti_containers_energon_add(struct psti_container_list *list, const char *folder,
                                            const char *split, bool *done, struct pst_error *err);

#endif
