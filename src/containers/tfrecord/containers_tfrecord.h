/* containers_tfrecord.h - walks over a TFRecord file, whose records are tf.train.Example as a rule.
 *
 * The law is tensorflow/docs, python_io.md ("TFRecords format details"): a record is a u64 length,
 * the masked CRC-32C of these 8 bytes, the data, and the masked CRC-32C of the data. A length is
 * believed after its checksum.
 *
 * A file is walked twice. The first walk checks that every record is there and is an Example, and
 * learns what its keys hold. The second one gives the rows. Both read the heads of records, and of
 * values what a field needs. So data are compared with their checksum only in records of at most
 * PSTI_TFRECORD_SMALL_NBYTES, which are read whole; a row's facts have the checksum of each record.
 *
 * docs/table-fields.md states which fields keys become. Records that are no Example, and such as
 * are a SequenceExample, are given whole, as the field "record". */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_H

#include "containers/table/containers_columns.h"

enum { PSTI_TFRECORD_SMALL_NBYTES = 16 << 10 };

/* A psti_table_walk. notes: a features.json of TFDS, which states types, or none.
 *
 * PST_ERROR_CORRUPT: the file is no TFRecord, a checksum is wrong, a record is no Example and those
 *     before it are, a key holds several kinds, or what notes do not say of it.
 * PST_ERROR_TRUNCATED: the file ends early; the text names the last whole record.
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole, or a key that no rule leaves out holds
 *     what no field can hold. PST_ERROR_LIMIT: too many keys, or too long a list. */
enum pst_status psti_containers_tfrecord_walk(const struct psti_walk_source *source,
                                              const struct psti_table_notes *notes,
                                              struct psti_containers_columns *columns,
                                              struct psti_walk_counts *counts,
                                              struct pst_error *err);

#endif
