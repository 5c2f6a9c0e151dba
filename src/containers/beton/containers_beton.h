/* containers_beton.h - the samples of an FFCV file (".beton"), as a table of its fields.
 * docs/table-fields.md states what becomes of each type of field. */
#ifndef PST_CONTAINERS_BETON_CONTAINERS_BETON_H
#define PST_CONTAINERS_BETON_CONTAINERS_BETON_H

#include "containers/table/containers_columns.h"

/* See psti_table_walk. There are no notes. All that the file says of its samples is looked at
 * before the first row is given.
 *
 * PST_ERROR_CORRUPT: the file is none, or contradicts itself.
 * PST_ERROR_TRUNCATED: the writer did not finish it, or it was cut.
 * PST_ERROR_UNSUPPORTED: another version; a field of a class of the user's own; an image field with
 *     JPEGs and pixels; an array of elements that Penstock does not have.
 * PST_ERROR_LIMIT: there are 2^32 samples or more. */
enum pst_status psti_containers_beton_walk(const struct psti_walk_source *source,
                                           const struct psti_table_notes *notes,
                                           struct psti_containers_columns *columns,
                                           struct psti_walk_counts *counts, struct pst_error *err);

#endif
