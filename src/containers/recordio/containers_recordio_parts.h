/* containers_recordio_parts.h - iterates over the records of an MXNet RecordIO file (".rec";
 * dmlc-core's recordio.h).
 *
 * A part is a magic number, a u32 with flag (3 bits) and length (29 bits), the data, and padding to
 * 4 bytes. Most records are one part. If a record's data contains the magic number at a multiple of
 * 4 bytes, the writer cuts the data there and leaves the number out. Such a record has several
 * parts, and the reader must put the number back between them. */
#ifndef PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_PARTS_H
#define PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_PARTS_H

#include "containers/containers_window.h"

#define PSTI_RECORDIO_MAGIC 0xced7230au

enum { PSTI_RECORDIO_PART_HEAD = 8 };

struct psti_recordio_record {
    uint64_t at;     /* offset of the first part's header */
    uint64_t stored; /* bytes of all parts, with headers and padding */
    uint64_t nbytes; /* bytes of the joined data; below 2^31 */
    bool is_joined;  /* the record has several parts */
};

/* State of the iteration. With an open window and all other members zero it is at the file's
 * beginning. */
struct psti_record_walk {
    struct psti_window window;
    uint64_t at; /* offset of the next record */
    uint64_t n_records;
    uint64_t last; /* offset of the last whole record */
};

/* Returns the next record. *has: false at the end. No call may follow an error.
 *
 * PST_ERROR_CORRUPT: no record begins where one must, or its parts do not fit together.
 * PST_ERROR_TRUNCATED: the file ends within a record; the message names the last whole one.
 * PST_ERROR_LIMIT: a record has 2 GiB or more. */
enum pst_status psti_containers_record_next(struct psti_record_walk *walk,
                                            struct psti_recordio_record *record, bool *has,
                                            struct pst_error *err);

/* Copies n bytes of a record's joined data, from offset `from` on. The caller has checked that they
 * lie within the data. */
enum pst_status psti_containers_record_copy(struct psti_window *window,
                                            const struct psti_recordio_record *record,
                                            uint64_t from, size_t n, uint8_t *out,
                                            struct pst_error *err);

#endif
