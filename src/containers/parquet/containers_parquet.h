/* containers_parquet.h - the walk over the rows of a Parquet file.
 *
 * It reads the footer, the pages of columns that are taken, and nothing else. Images and other long
 * values that are not compressed are not read: their lengths are. docs/table-fields.md says which
 * columns become which fields.
 *
 * Memory: the footer, and for each leaf that is taken a window, its current page and its
 * dictionary. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_H

#include "containers/table/containers_columns.h"

/* A psti_table_walk. notes are not used.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the file is damaged. PST_ERROR_UNSUPPORTED: a column that
 * is taken has a codec, an encoding or a type that is not read, or a value outside of the file. */
enum pst_status psti_containers_parquet_walk(const struct psti_walk_source *source,
                                             const struct psti_table_notes *notes,
                                             struct psti_containers_columns *columns,
                                             struct psti_walk_counts *counts,
                                             struct pst_error *err);
#endif
