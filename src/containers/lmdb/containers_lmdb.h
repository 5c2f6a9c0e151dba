/* containers_lmdb.h - reads the samples of an LMDB data file as a table of values and labels.
 *
 * Only the main database is read, in the order of its keys. Keys become the names of samples.
 * docs/table-fields.md states which values are supported. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_LMDB_H
#define PST_CONTAINERS_LMDB_CONTAINERS_LMDB_H

#include "containers/table/containers_columns.h"

/* Walks over an LMDB data file, as psti_table_walk describes; there are no notes.
 *
 * PST_ERROR_UNSUPPORTED: values are pickles, the floats of a Datum are unpacked, the database has
 *     only named sub-databases or keys with several values, or another layout
 *     (containers_lmdb_tree.h).
 * PST_ERROR_CORRUPT: the tree is damaged, or a value differs in kind from the first one.
 * PST_ERROR_TRUNCATED: the file ends early; the message names the last whole entry.
 * PST_ERROR_BUSY: it was written twice during the walk. */
enum pst_status psti_containers_lmdb_walk(const struct psti_walk_source *source,
                                          const struct psti_table_notes *notes,
                                          struct psti_containers_columns *columns,
                                          struct psti_walk_counts *counts, struct pst_error *err);

#endif
