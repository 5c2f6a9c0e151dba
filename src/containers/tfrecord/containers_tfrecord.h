/* containers_tfrecord.h - walks over a TFRecord file, whose records usually are tf.train.Example.
 *
 * Specification: tensorflow/docs, python_io.md ("TFRecords format details"). A record is a u64
 * length, the masked CRC-32C of these 8 bytes, the data, and the masked CRC-32C of the data. A
 * length is used only after its checksum was verified.
 *
 * A file is read in two passes. The first checks that all records are complete and are Examples,
 * and collects what their keys hold. The second gives the rows. Both read record headers, and only
 * those parts of values that a field needs. So the checksum of the data is verified only for
 * records of at most PSTI_TFRECORD_SMALL_NBYTES, which are read whole. Each row's facts include the
 * record's checksum.
 *
 * docs/table-fields.md states which fields keys become. Records that are no Example, or are a
 * SequenceExample, are given whole, as the field "record". */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_H

#include "containers/table/containers_columns.h"

enum { PSTI_TFRECORD_SMALL_NBYTES = 16 << 10 };

/* Walks over a TFRecord file, as psti_table_walk describes. notes: a features.json of TFDS, which
 * states types, or none.
 *
 * PST_ERROR_CORRUPT: the file is no TFRecord, a checksum is wrong, a record is no Example although
 *     earlier ones are, a key has values of several kinds or contradicts the notes.
 * PST_ERROR_TRUNCATED: the file ends early; the message names the last whole record.
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole, or a key holds values that no field can
 *     hold and no user's rule leaves it out.
 * PST_ERROR_LIMIT: too many keys, or too long a list. */
enum pst_status psti_containers_tfrecord_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err);

#endif
