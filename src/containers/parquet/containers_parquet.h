/* containers_parquet.h - the walk over the rows of a Parquet file.
 *
 * It reads the footer and the pages of the columns that become fields, and nothing else. Of images
 * and other long uncompressed values it reads only the lengths. docs/table-fields.md says which
 * columns become which fields.
 *
 * Memory: the footer, and for each leaf that is read a window, its current page and its
 * dictionary. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_H

#include "containers/table/containers_columns.h"

/* Walks over a Parquet file, as psti_table_walk describes; notes are not used.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the file is damaged.
 * PST_ERROR_UNSUPPORTED: a column that becomes a field has an unsupported codec, encoding or type,
 *     or its values lie in another file. */
enum pst_status psti_containers_parquet_walk(const struct psti_walk_source *source,
                                             const struct psti_table_notes *notes,
                                             struct psti_containers_columns *columns,
                                             struct psti_walk_counts *counts,
                                             struct pst_error *err);
#endif
