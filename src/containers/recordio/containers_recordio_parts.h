/* containers_recordio_parts.h - the records of an MXNet RecordIO file (".rec"), one after the other
 * (dmlc-core's recordio.h).
 *
 * A part is a magic number, its flag and length (u32: 3 bits and 29), its data, and padding to 4
 * bytes. A record is one part as a rule. Where its data had the magic number at a multiple of 4
 * bytes they were cut there, and the number was left out: such a record has several parts, and the
 * number has to be put back between them. */
#ifndef PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_PARTS_H
#define PST_CONTAINERS_RECORDIO_CONTAINERS_RECORDIO_PARTS_H

#include "containers/containers_window.h"

#define PSTI_RECORDIO_MAGIC 0xced7230au

enum { PSTI_RECORDIO_PART_HEAD = 8 };

struct psti_recordio_record {
    uint64_t at;     /* of the first part's header */
    uint64_t stored; /* bytes of all parts, with headers and padding */
    uint64_t nbytes; /* of its data, joined; below 2^31 */
    bool is_joined;  /* it has several parts */
};

/* All zero but for an open window: at the file's beginning. */
struct psti_record_walk {
    struct psti_window window;
    uint64_t at; /* of the next record */
    uint64_t n_records;
    uint64_t last; /* where the last whole record begins */
};

/* Gives the next record. *has: false at the end. After an error the walk is over.
 *
 * PST_ERROR_CORRUPT: no record begins where one must, or its parts do not fit each other.
 * PST_ERROR_TRUNCATED: the file ends within a record; the text has the last whole one.
 * PST_ERROR_LIMIT: a record has 2 GiB or more. */
enum pst_status psti_containers_record_next(struct psti_record_walk *walk,
                                            struct psti_recordio_record *record, bool *has,
                                            struct pst_error *err);

/* Copies n bytes of a record's joined data, from the offset `from` on. The caller has checked that
 * the data has them. */
enum pst_status psti_containers_record_copy(struct psti_window *window,
                                            const struct psti_recordio_record *record,
                                            uint64_t from, size_t n, uint8_t *out,
                                            struct pst_error *err);

#endif
