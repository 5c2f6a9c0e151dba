/* containers_beton.h - reads the samples of an FFCV file (".beton") as a table of its fields.
 * docs/table-fields.md states what each type of field becomes. */
#ifndef PST_CONTAINERS_BETON_CONTAINERS_BETON_H
#define PST_CONTAINERS_BETON_CONTAINERS_BETON_H

#include "containers/table/containers_columns.h"

/* Walks over an FFCV file, as psti_table_walk describes; there are no notes. All metadata is
 * checked before the first row is given.
 *
 * PST_ERROR_CORRUPT: the file is no FFCV file, or contradicts itself.
 * PST_ERROR_TRUNCATED: the writer did not finish the file, or it was cut.
 * PST_ERROR_UNSUPPORTED: another version, a field of a user-defined class, an image field with both
 *     JPEGs and pixels, or an array of an element type that Penstock lacks.
 * PST_ERROR_LIMIT: there are 2^32 samples or more. */
enum pst_status psti_containers_beton_walk(const struct psti_walk_source *source,
                                           const struct psti_table_notes *notes,
                                           struct psti_containers_columns *columns,
                                           struct psti_walk_counts *counts, struct pst_error *err);

#endif
