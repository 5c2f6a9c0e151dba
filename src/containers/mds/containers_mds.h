/* containers_mds.h - walks over a shard of MosaicML Streaming in the format MDS, version 2.
 *
 * The specification is streaming/base/format/mds. A shard has these parts, little-endian:
 *   u32 n                  number of samples
 *   u32 offsets[n + 1]     offset in the file of each sample; the last one is the file's end
 *   JSON                   the columns: names, encodings, sizes (null: they vary)
 *   samples                u32 size of each column whose sizes vary, then the bytes of all columns
 * So a shard can be read without index.json. If index.json has an entry for it, both must agree.
 *
 * Offsets have 32 bits. Older versions of Streaming wrote shards of more than 4 GiB without an
 * error, with offsets that overflowed; such a shard is refused. docs/table-fields.md states
 * which types the encodings become. */
#ifndef PST_CONTAINERS_MDS_CONTAINERS_MDS_H
#define PST_CONTAINERS_MDS_CONTAINERS_MDS_H

#include "containers/table/containers_columns.h"

/* Walks over an MDS shard, as psti_table_walk describes. notes: an index.json, whose entry for this
 * shard is compared with the shard; a missing one is fine. Hashes in index.json are not checked,
 * because that would need every byte.
 *
 * All offsets, and the sizes in the first sample, are checked before a row is given.
 *
 * PST_ERROR_CORRUPT: the shard contradicts itself, index.json or the size of its file.
 * PST_ERROR_TRUNCATED: the file ends early; the message names the last whole sample.
 * PST_ERROR_UNSUPPORTED: the shard is compressed as a whole; or an encoding is code (pkl), several
 *     images or a number that no field can hold, and no user's rule leaves it out or takes it as
 *     bytes.
 * PST_ERROR_LIMIT: too many columns or dimensions. */
enum pst_status psti_containers_mds_walk(const struct psti_walk_source *source,
                                         const struct psti_table_notes *notes,
                                         struct psti_containers_columns *columns,
                                         struct psti_walk_counts *counts, struct pst_error *err);

#endif
