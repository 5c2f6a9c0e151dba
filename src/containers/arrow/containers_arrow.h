/* containers_arrow.h - walks over files of Apache Arrow's IPC format, and gives their rows.
 *
 * Both forms are read: the file form, which begins with ARROW1 and ends with a footer, and the
 * stream form, which `datasets` of Hugging Face writes into its cache and by save_to_disk. The
 * specification is docs/source/format/Columnar.rst and format/ of apache/arrow, metadata versions
 * V4 and V5, little-endian. docs/table-fields.md states what each type becomes.
 *
 * The first pass reads the metadata of all batches, the second pass gives their rows. Large values
 * are not read, only their locations. Memory: at most 64 KiB for each buffer that is read in parts,
 * and the decoded bytes of each compressed buffer whose values are needed. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_H

#include "containers/table/containers_columns.h"

/* Walks over one file, as psti_table_walk describes. notes: dataset_info.json of `datasets`; needed
 * if the file's schema has no features.
 *
 * PST_ERROR_CORRUPT: the file is no Arrow file, or contradicts itself.
 * PST_ERROR_TRUNCATED: the file ends early.
 * PST_ERROR_UNSUPPORTED: big-endian data, metadata before V4, the first version of Feather, an
 *     unknown newer type, an image or sound whose bytes lie in another file, or no readable column.
 * PST_ERROR_LIMIT: the metadata of one message has more than 256 MiB, or a compressed buffer more
 *     than 2 GiB.
 * Errors of the columns are returned as they are. */
psti_table_walk psti_containers_arrow_walk;

#endif
