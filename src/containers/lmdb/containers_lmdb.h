/* containers_lmdb.h - the samples of an LMDB data file, as a table of values and labels.
 *
 * The main database alone is read, in the order of its keys, which are the names of the samples.
 * docs/table-fields.md states what values can be. */
#ifndef PST_CONTAINERS_LMDB_CONTAINERS_LMDB_H
#define PST_CONTAINERS_LMDB_CONTAINERS_LMDB_H

#include "containers/table/containers_columns.h"

/* See psti_table_walk. There are no notes.
 *
 * PST_ERROR_UNSUPPORTED: values are pickles; a Datum's floats lie apart; the database has names of
 *     databases alone, keys with several values, or another layout (containers_lmdb_tree.h).
 * PST_ERROR_CORRUPT: the tree is damaged, or a value is not of the kind of the first one.
 * PST_ERROR_TRUNCATED: the file ends early; the text names the last whole entry.
 * PST_ERROR_BUSY: it was written twice while it was read. */
enum pst_status psti_containers_lmdb_walk(const struct psti_walk_source *source,
                                          const struct psti_table_notes *notes,
                                          struct psti_containers_columns *columns,
                                          struct psti_walk_counts *counts, struct pst_error *err);

#endif
