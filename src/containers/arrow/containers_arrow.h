/* containers_arrow.h - walks over files of Apache Arrow's IPC format, and gives their rows.
 *
 * Both forms are read: the file, which begins with ARROW1 and ends with a footer, and the stream,
 * which `datasets` of Hugging Face writes into its cache and by save_to_disk. The law is
 * docs/source/format/Columnar.rst and format/ of apache/arrow, versions V4 and V5 of the metadata,
 * little-endian. docs/table-fields.md states what becomes of each type.
 *
 * The first pass reads what the file says of its batches, the second one their rows. Of large
 * values only the places are read. Memory is at most 64 KiB for each buffer that is read in parts,
 * and the decoded bytes of each compressed buffer of a batch that is looked into. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_H

#include "containers/table/containers_columns.h"

/* Walks over one file: see psti_table_walk. notes: dataset_info.json of `datasets`, for files whose
 * schema has no features.
 *
 * PST_ERROR_CORRUPT: it is no such file, or contradicts itself. PST_ERROR_TRUNCATED: it ends early.
 * PST_ERROR_UNSUPPORTED: big-endian data, metadata before V4, Feather's first version, a type that
 *     is newer than this; an image or sound whose bytes lie in another file; no column that can be
 *     read. PST_ERROR_LIMIT: the metadata of one message has more than 256 MiB, a compressed buffer
 *     2 GiB. And what the columns return. */
psti_table_walk psti_containers_arrow_walk;

#endif
