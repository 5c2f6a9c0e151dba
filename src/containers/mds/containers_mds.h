/* containers_mds.h - walks over a shard of MosaicML's streaming, of the format MDS, version 2.
 *
 * The law is streaming/base/format/mds. A shard has, little-endian:
 *   u32 n                  samples
 *   u32 offsets[n + 1]     of the samples from the file's start on; the last one is the file's end
 *   JSON                   the columns: names, encodings, sizes (null: differ)
 *   samples                u32 size of each column whose sizes differ, then all columns' bytes
 * So a shard is read without index.json. Where its entry is given, both have to agree.
 *
 * Offsets have 32 bits. Older versions of streaming wrote shards of more than 4 GiB without an
 * error, with offsets that overflowed: such a shard is refused. docs/table-fields.md has the types
 * that encodings become. */
#ifndef PST_CONTAINERS_MDS_CONTAINERS_MDS_H
#define PST_CONTAINERS_MDS_CONTAINERS_MDS_H

#include "containers/table/containers_columns.h"

/* A psti_table_walk. notes: an index.json, of which the entry of this shard is compared; others and
 * a missing one are passed over. Hashes of index.json are not checked: they need every byte.
 *
 * All offsets are checked, and the sizes of the first sample, before a row is given.
 *
 * PST_ERROR_CORRUPT: the shard contradicts itself, index.json or the size of its file.
 * PST_ERROR_TRUNCATED: the file ends early; the text names the last whole sample.
 * PST_ERROR_UNSUPPORTED: the shard is compressed as a whole; an encoding is code (pkl), holds
 *     several images, or a number that no field can hold, and no rule leaves it out or takes it as
 *     bytes. PST_ERROR_LIMIT: too many columns or dimensions. */
enum pst_status psti_containers_mds_walk(const struct psti_walk_source *source,
                                         const struct psti_table_notes *notes,
                                         struct psti_containers_columns *columns,
                                         struct psti_walk_counts *counts, struct pst_error *err);

#endif
