/* containers_sink.h - where the walks over other people's files put fields and samples: a writer of
 * an index, or a test.
 *
 * A container is of one of two shapes. Tars and zips have members, of which containers_fields.h
 * makes fields. Tables (Parquet, Arrow, MDS, TFRecord, LMDB, RecordIO, beton) have columns, of
 * which containers_columns.h makes fields. Both end here. */
#ifndef PST_CONTAINERS_CONTAINERS_SINK_H
#define PST_CONTAINERS_CONTAINERS_SINK_H

#include "containers/containers.h"

#include <penstock/dataset.h>

/* A piece of a file that holds the bytes of many items and is compressed as a whole, as a page of
 * Parquet or a buffer of Arrow is. Its items are parts of what it gives when it is decoded. */
struct psti_container_page {
    uint64_t offset, nbytes; /* of the stored bytes in the file; nbytes < 2^31 */
    uint64_t decoded_nbytes; /* < 2^31 */
    enum psti_coding coding; /* never PSTI_CODING_STORED */
};

/* No page: the item lies in the file itself. */
#define PSTI_PAGE_NONE UINT64_MAX

/* The value of one field of one sample. */
struct psti_container_value {
    uint32_t i_field;
    /* Fields with items: one of three places. */
    /* 1. `bytes` is set: nbytes bytes that the index itself holds, at most 64 KiB. */
    const void *bytes;
    /* 2. is_in_page: nbytes bytes from `offset` on of what the page gives when it is decoded.
     *    `i_page` is what the sink's `page` gave. Their coding is PSTI_CODING_STORED. */
    bool is_in_page;
    uint64_t i_page;
    /* 3. Else: nbytes bytes at `offset` in the sample's file. They give decoded_nbytes, which is
     *    nbytes unless they have a coding. PSTI_CODING_PIECES: the bytes are all parts of a record,
     *    from the first one's header to the last one's padding. Joined, with the magic number put
     *    back between each two of them, they give decoded_nbytes or more: the item is the last
     *    decoded_nbytes of these, as what stands before it is the record's own header. */
    uint64_t offset, nbytes, decoded_nbytes;
    enum psti_coding coding;
    /* PST_FIELD_ARRAY: the shape of the elements. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    int64_t int_value;  /* PST_FIELD_INT */
    double float_value; /* PST_FIELD_FLOAT */
    /* What goes into the identity of the bytes beside name, field and sizes: what the container
     * knows of the item, such as its checksum and its time. Paths and inodes do not. */
    uint64_t facts;
    /* The container states the CRC-32 of the item's decoded bytes. */
    bool has_crc32;
    uint32_t crc32;
};

struct psti_containers_writer;

/* Takes fields and samples: functions of containers_writer.h with their writer, or those of a
 * test. One thread. */
struct psti_field_sink {
    /* Adds a field. Samples before it have no value of it. */
    enum pst_status (*field)(struct psti_containers_writer *writer, const struct pst_field *field,
                             uint32_t *i_field, struct pst_error *err);
    /* States n_classes or the shape of a field anew. */
    void (*restate)(struct psti_containers_writer *writer, uint32_t i_field,
                    const struct pst_field *field);
    /* Gives an int field the names of its classes 0 to n - 1: n texts in UTF-8, each with its NUL,
     * behind each other in nbytes bytes. Once for each field. */
    enum pst_status (*classes)(struct psti_containers_writer *writer, uint32_t i_field,
                               const char *names, size_t nbytes, uint32_t n, struct pst_error *err);
    /* States that an int field is left out, with a line in the log, if some sample has no value of
     * it. Else that is an error. NULL: nothing is left out. */
    void (*optional)(struct psti_containers_writer *writer, uint32_t i_field);
    /* Adds n cases to a notice: what the data set does not show (format_notice.h). n 0: takes the
     * notice back. first: the first case; NULL: the path of the file whose samples are being given.
     * `note` itself may be NULL: then nobody listens. */
    void (*note)(struct psti_containers_writer *writer, enum pst_notice_kind kind, const char *name,
                 const char *why, uint64_t n, const char *first);
    /* Adds a page of the file whose samples are being given. */
    enum pst_status (*page)(struct psti_containers_writer *writer,
                            const struct psti_container_page *page, uint64_t *i_page,
                            struct pst_error *err);
    enum pst_status (*sample)(struct psti_containers_writer *writer, const char *name,
                              const struct psti_container_value *values, uint32_t n,
                              struct pst_error *err);
    struct psti_containers_writer *writer;
};

#endif
