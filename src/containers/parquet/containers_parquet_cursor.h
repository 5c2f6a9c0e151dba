/* containers_parquet_cursor.h - goes through the values of one leaf in one row group, in their
 * order.
 *
 * An entry is a value or its absence, with its levels: the repetition level is 0 where a row
 * begins, and the definition level says how much of the entry's path is there.
 *
 * Values are told by their places. A page that is not compressed and has long values is not read
 * whole: only their lengths are, through a window. Any other page is in memory while its entries
 * are taken, so that a cursor holds one page and the dictionary of the chunk.
 *
 * One thread uses the cursors of a file. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_CURSOR_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_CURSOR_H

#include "containers/parquet/containers_parquet_meta.h"
#include "containers/parquet/containers_parquet_runs.h"
#include "containers/table/containers_columns.h"

#include "base/buffer.h"
#include "base/codings/codings.h"

/* How values of a page are written, as Parquet numbers it. */
enum psti_parquet_encoding {
    PSTI_ENCODING_PLAIN = 0,
    PSTI_ENCODING_PLAIN_DICTIONARY = 2,
    PSTI_ENCODING_RLE = 3,
    PSTI_ENCODING_BIT_PACKED = 4,
    PSTI_ENCODING_DELTA_BINARY_PACKED = 5,
    PSTI_ENCODING_DELTA_LENGTH_BYTE_ARRAY = 6,
    PSTI_ENCODING_DELTA_BYTE_ARRAY = 7,
    PSTI_ENCODING_RLE_DICTIONARY = 8,
    PSTI_ENCODING_BYTE_STREAM_SPLIT = 9,
};

/* What all cursors of a file have together. */
struct psti_parquet_file {
    const struct psti_parquet_meta *meta;
    struct psti_codings *codings;
    struct psti_containers_columns *columns; /* gets the pages */
    struct psti_buffer stored;               /* a page as it is stored */
};

/* The bytes of a page, or of its values: of the file itself, or of what decoding gives. */
struct psti_parquet_area {
    struct psti_buffer buffer;
    const uint8_t *bytes; /* the first n_loaded of them */
    size_t n_loaded, nbytes;
    uint64_t header; /* offset of the page's header, for messages */
    uint64_t offset; /* in the file, unless they are decoded */
    bool is_decoded;
    struct psti_container_page page; /* that they are decoded from */
    uint64_t i_page;                 /* PSTI_PAGE_NONE: the columns do not have it yet */
    uint32_t crc;                    /* 0: there is none */
};

/* Where a value of a dictionary lies in its page. */
struct psti_parquet_span {
    uint32_t at, nbytes;
};

struct psti_parquet_cursor {
    struct psti_parquet_file *file;
    const struct psti_parquet_node *leaf;
    const char *name; /* of its column, for messages */
    struct psti_window window;
    /* Of the chunk. */
    enum psti_coding coding;
    uint64_t at;     /* of the next page's header */
    uint64_t n_left; /* entries behind this page */
    bool has_dictionary;
    struct psti_parquet_area dictionary;
    struct psti_buffer spans; /* struct psti_parquet_span of a dictionary of byte arrays */
    uint32_t n_dictionary;
    /* Of the page. */
    struct psti_parquet_area area;
    struct psti_buffer levels; /* where they are not in the area */
    enum psti_parquet_encoding encoding;
    uint64_t n_page_left; /* entries */
    size_t value_at;      /* of the next value in the area */
    uint64_t i_value;     /* number of the next value in the page */
    size_t first_at;      /* where the values begin */
    struct psti_parquet_runs reps, defs, numbers;
    struct psti_parquet_deltas deltas;
    struct psti_buffer lengths; /* u32, of a page with DELTA_LENGTH_BYTE_ARRAY */
    uint32_t n_lengths;
    /* Of the next entry. */
    bool has_levels;
    uint32_t rep, def;
};

struct psti_parquet_entry {
    uint32_t rep, def;
    bool is_null;    /* nothing below is set */
    bool has_number; /* the value is `number`, and has no place */
    bool is_plain;   /* in the page, behind the value before it */
    const struct psti_parquet_area *area;
    size_t at; /* in the area */
    uint32_t nbytes;
    uint64_t number; /* its bits */
};

/* Makes a cursor ready for chunks of a leaf. name and leaf must outlive it. */
enum pst_status psti_containers_cursor_open(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_file *file,
                                            const struct psti_parquet_node *leaf, const char *name,
                                            struct pst_error *err);
/* A cursor of zeros may be closed. */
void psti_containers_cursor_close(struct psti_parquet_cursor *cursor);
/* Refuses a chunk that cannot be read at all: by its codec, its encryption, or its file. */
enum pst_status psti_containers_cursor_check(const struct psti_parquet_file *file,
                                             const struct psti_parquet_chunk *chunk,
                                             const char *name, struct pst_error *err);
/* Goes to the beginning of a chunk, which was checked. */
void psti_containers_cursor_begin(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk);

/* Reads the levels of the next entry into cursor->rep and ->def. *has: there is one. */
enum pst_status psti_containers_cursor_peek(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err);
/* Takes the next entry. Its area is valid until the next page is reached, by either function.
 *
 * PST_ERROR_CORRUPT: there is none. */
enum pst_status psti_containers_cursor_take(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_entry *entry,
                                            struct pst_error *err);
/* The bits of a number of at most 8 bytes. */
enum pst_status psti_containers_cursor_number(struct psti_parquet_cursor *cursor,
                                              const struct psti_parquet_entry *entry,
                                              uint64_t *number, struct pst_error *err);
/* The first `nbytes` of a value, which are the cursor's until its next call. nbytes: at most
 * PSTI_WINDOW_NBYTES. */
enum pst_status psti_containers_cursor_bytes(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry, size_t nbytes,
                                             const uint8_t **bytes, struct pst_error *err);
/* Sets the place of nbytes from the entry's value on. */
enum pst_status psti_containers_cursor_place(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry,
                                             uint64_t nbytes, struct psti_container_value *value,
                                             struct pst_error *err);
/* Fills an error that names the column, at an offset of the file. Returns `status`. */
enum pst_status psti_containers_cursor_fail(const struct psti_parquet_cursor *cursor,
                                            enum pst_status status, uint64_t offset,
                                            struct pst_error *err, const char *format, ...)
    PST_PRINTF(5, 6);
/* The kinds of pages as Parquet numbers them. */
enum {
    PSTI_PAGE_DATA = 0,
    PSTI_PAGE_INDEX = 1,
    PSTI_PAGE_DICTIONARY = 2,
    PSTI_PAGE_DATA_2 = 3, /* the second version, with its levels in front */
};

struct psti_parquet_head {
    uint32_t kind, nbytes, decoded_nbytes;
    uint32_t n_values, encoding, def_encoding, rep_encoding;
    uint32_t def_nbytes, rep_nbytes; /* of the second version */
    bool is_stored;                  /* the values are not compressed, whatever the codec is */
    uint32_t crc;
    bool has_crc, has_data, has_data_2, has_dictionary;
    uint64_t header, body; /* offsets */
};

/* For containers_parquet_page.c: reads the header at cursor->at. */
enum pst_status psti_containers_cursor_head(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_head *head, struct pst_error *err);
/* For containers_parquet_cursor.c: opens the next data page. *has: there is one. */
enum pst_status psti_containers_cursor_page(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err);

#endif
