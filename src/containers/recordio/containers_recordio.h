/* containers_recordio.h - the samples of an MXNet RecordIO file (".rec"), as a table of images and
 * labels.
 *
 * A record that im2rec, MXNet's pack and insightface write begins with a header of 24 bytes: a u32
 * flag, an f32 label, two u64 numbers. If the flag is not 0, so many f32 labels follow. Then comes
 * the image. Records of other programs are bytes. docs/table-fields.md states the fields. */
#ifndef PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_H
#define PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_H

#include "containers/table/containers_columns.h"

/* See psti_table_walk. The whole file is looked at before the first row is given: 24 bytes of
 * memory for each record. notes: the file's ".idx", of which it is only said whether it fits.
 *
 * PST_ERROR_CORRUPT: the file is none, or damaged; a record is not of the first one's kind; some
 * records have one label, and others several; a label is 2^24 or more, where floats are rounded.
 * PST_ERROR_TRUNCATED: the file ends early; the text names the last whole record. */
enum pst_status psti_containers_recordio_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err);

/* Says in the log whether an ".idx" (lines of a key, a tab and an offset) names each record once.
 * starts: where the n records begin; they rise. Returns true if it fits. */
bool psti_containers_recordio_index_fits(const struct psti_table_notes *notes, const char *path,
                                         const uint64_t *starts, uint64_t n);

#endif
