/* containers_recordio.h - reads the records of an MXNet RecordIO file (".rec") as a table of images
 * and labels.
 *
 * A record written by im2rec, MXNet's pack or insightface begins with a header of 24 bytes: a
 * u32 flag, an f32 label, two u64 numbers. If the flag is not 0, it is the number of f32 labels
 * that follow. Then comes the image. Records of other programs become bytes.
 * docs/table-fields.md states the fields. */
#ifndef PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_H
#define PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_H

#include "containers/table/containers_columns.h"

/* Walks over a RecordIO file, as psti_table_walk describes. All records are examined before the
 * first row is given; that takes 24 bytes of memory for each. notes: the file's ".idx", which is
 * only compared; the log says if it differs.
 *
 * PST_ERROR_CORRUPT: the file is no RecordIO file or is damaged; a record is of another kind than
 *     the first one; some records have one label and others several; or a label is 2^24 or more,
 *     where floats are rounded.
 * PST_ERROR_TRUNCATED: the file ends early; the message names the last whole record. */
enum pst_status psti_containers_recordio_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err);

/* Checks whether an ".idx" (lines of key, tab, offset) names each record once; if not, says so in
 * the log. starts: rising offsets of the n records. Returns true if the index fits. */
bool psti_containers_recordio_index_fits(const struct psti_table_notes *notes, const char *path,
                                         const uint64_t *starts, uint64_t n);

#endif
