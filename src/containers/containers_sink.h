/* containers_sink.h - the interface through which walks over other programs' files output fields
 * and samples. The receiver is the writer of an index, or a test.
 *
 * Containers are of two sorts. Tars and zips have members, from which containers_fields.h makes
 * fields. Tables (Parquet, Arrow, MDS, TFRecord, LMDB, RecordIO, beton) have columns, from which
 * containers_columns.h makes fields. Both use this interface. */
#ifndef PST_CONTAINERS_CONTAINERS_SINK_H
#define PST_CONTAINERS_CONTAINERS_SINK_H

#include "containers/containers.h"

#include <penstock/dataset.h>

/* A part of a file that holds many items and is compressed as a whole, such as a Parquet page or an
 * Arrow buffer. Each item is a byte range of the decoded page. */
struct psti_container_page {
    uint64_t offset, nbytes; /* stored bytes in the file; nbytes < 2^31 */
    uint64_t decoded_nbytes; /* < 2^31 */
    enum psti_coding coding; /* never PSTI_CODING_STORED */
};

/* Page number of an item that lies in no page, but directly in the file. */
#define PSTI_PAGE_NONE UINT64_MAX

/* The value of one field in one sample. */
struct psti_container_value {
    uint32_t i_field;
    /* The value of a field with items is stored in one of three ways: */
    /* 1. `bytes` is set: nbytes bytes that the index itself holds, at most 64 KiB. */
    const void *bytes;
    /* 2. is_in_page is set: the nbytes bytes at `offset` of the decoded page number i_page, which
     * the sink's `page` returned. The coding is PSTI_CODING_STORED. */
    bool is_in_page;
    uint64_t i_page;
    /* 3. Else: nbytes bytes at `offset` of the sample's file. Decoded they are decoded_nbytes
     * bytes, which equals nbytes if they are not coded. With PSTI_CODING_PIECES, the stored bytes
     * are all parts of a RecordIO record, from the header of the first to the padding of the last.
     * The parts are joined, with the magic number between each two. The item is the last
     * decoded_nbytes bytes of the result; the record's own header before them is dropped. */
    uint64_t offset, nbytes, decoded_nbytes;
    enum psti_coding coding;
    /* PST_FIELD_ARRAY: the shape of the elements. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
    int64_t int_value;  /* PST_FIELD_INT */
    double float_value; /* PST_FIELD_FLOAT */
    /* Hashed into the identity of the bytes, besides name, field and sizes: what the container
     * states of the item, such as its checksum and time. Paths and inodes are not hashed. */
    uint64_t facts;
    /* The container states the CRC-32 of the item's decoded bytes. */
    bool has_crc32;
    uint32_t crc32;
};

struct psti_containers_writer;

/* Functions that receive fields and samples: those of containers_writer.h and their writer, or
 * those of a test. One thread at a time. */
struct psti_field_sink {
    /* Adds a field. Samples before it have no value of it. */
    enum pst_status (*field)(struct psti_containers_writer *writer, const struct pst_field *field,
                             uint32_t *i_field, struct pst_error *err);
    /* Declares a field again, with another n_classes or another shape. */
    void (*restate)(struct psti_containers_writer *writer, uint32_t i_field,
                    const struct pst_field *field);
    /* Gives an int field the names of its classes 0 to n - 1: n texts in UTF-8, each with its NUL,
     * nbytes bytes in all. At most once for each field. */
    enum pst_status (*classes)(struct psti_containers_writer *writer, uint32_t i_field,
                               const char *names, size_t nbytes, uint32_t n, struct pst_error *err);
    /* Marks an int field as optional: if a sample lacks a value, the field is left out with a line
     * in the log. For other int fields a missing value is an error. NULL: no field can be
     * optional. */
    void (*optional)(struct psti_containers_writer *writer, uint32_t i_field);
    /* Adds n cases to a notice about something that the data set does not show (format_notice.h). n
     * 0: takes the notice back. first: names the first case; NULL: the path of the current file.
     * `note` itself may be NULL: then notices are dropped. */
    void (*note)(struct psti_containers_writer *writer, enum pst_notice_kind kind, const char *name,
                 const char *why, uint64_t n, const char *first);
    /* Adds a page of the current file. */
    enum pst_status (*page)(struct psti_containers_writer *writer,
                            const struct psti_container_page *page, uint64_t *i_page,
                            struct pst_error *err);
    enum pst_status (*sample)(struct psti_containers_writer *writer, const char *name,
                              const struct psti_container_value *values, uint32_t n,
                              struct pst_error *err);
    struct psti_containers_writer *writer;
};

#endif
