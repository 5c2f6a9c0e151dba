/* containers_parquet_cursor.h - iterates over the values of one leaf in one row group, in order.
 *
 * An entry is a value or a missing value, with its levels. The repetition level is 0 where a row
 * begins. The definition level says how much of the entry's path is not null.
 *
 * A value is reported by its location. If a page is uncompressed and has long values, only their
 * lengths are read, through a window. Any other page is in memory while its entries are read. So a
 * cursor holds one page, and the dictionary of the chunk.
 *
 * One thread uses the cursors of a file. */
#ifndef PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_CURSOR_H
#define PST_CONTAINERS_PARQUET_CONTAINERS_PARQUET_CURSOR_H

#include "containers/parquet/containers_parquet_meta.h"
#include "containers/parquet/containers_parquet_runs.h"
#include "containers/table/containers_columns.h"

#include "base/buffer.h"
#include "base/codings/codings.h"

/* How the values of a page are encoded, with Parquet's numbers. */
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

/* State that all cursors of a file share. */
struct psti_parquet_file {
    const struct psti_parquet_meta *meta;
    struct psti_codings *codings;
    struct psti_containers_columns *columns; /* receives the pages */
    struct psti_buffer stored;               /* stored bytes of the current page */
};

/* The bytes of a page or of its values, either in the file or decoded in memory. */
struct psti_parquet_area {
    struct psti_buffer buffer;
    const uint8_t *bytes; /* the first n_loaded bytes */
    size_t n_loaded, nbytes;
    uint64_t header; /* offset of the page's header, for messages */
    uint64_t offset; /* offset in the file; not used if they are decoded */
    bool is_decoded;
    struct psti_container_page page; /* the page whose decoding gave these bytes */
    uint64_t i_page;                 /* number of that page; PSTI_PAGE_NONE: it was not added to the
                                      * columns yet */
    uint32_t crc;                    /* checksum of the page; 0: there is none */
};

/* Where a value of a dictionary lies in the dictionary's page. */
struct psti_parquet_span {
    uint32_t at, nbytes;
};

struct psti_parquet_cursor {
    struct psti_parquet_file *file;
    const struct psti_parquet_node *leaf;
    const char *name; /* name of the leaf's column, for messages */
    struct psti_window window;
    /* State of the current chunk. */
    enum psti_coding coding;
    uint64_t at;     /* offset of the next page's header */
    uint64_t n_left; /* number of entries in the pages after the current one */
    bool has_dictionary;
    struct psti_parquet_area dictionary;
    struct psti_buffer spans; /* struct psti_parquet_span for each value of a dictionary of byte
                               * arrays */
    uint32_t n_dictionary;
    /* State of the current page. */
    struct psti_parquet_area area;
    struct psti_buffer levels; /* the page's levels, if they are not in `area` */
    enum psti_parquet_encoding encoding;
    uint64_t n_page_left; /* number of entries */
    size_t value_at;      /* offset in the area of the next value */
    uint64_t i_value;     /* index of the next value in the page */
    size_t first_at;      /* offset in the area of the first value */
    struct psti_parquet_runs reps, defs, numbers;
    struct psti_parquet_deltas deltas;
    struct psti_buffer lengths; /* u32 lengths of a page with DELTA_LENGTH_BYTE_ARRAY */
    uint32_t n_lengths;
    /* Levels of the next entry; has_levels: they were read. */
    bool has_levels;
    uint32_t rep, def;
};

struct psti_parquet_entry {
    uint32_t rep, def;
    bool is_null;    /* no value: the members below are not set */
    bool has_number; /* the value is in `number`, and has no location */
    bool is_plain;   /* the value lies in the page right behind the value before it */
    const struct psti_parquet_area *area;
    size_t at; /* offset of the value in the area */
    uint32_t nbytes;
    uint64_t number; /* bits of the value, if it is a number */
};

/* Prepares a cursor for the chunks of a leaf. `name` and `leaf` must outlive it. */
enum pst_status psti_containers_cursor_open(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_file *file,
                                            const struct psti_parquet_node *leaf, const char *name,
                                            struct pst_error *err);
/* Frees the cursor's memory. A cursor whose members are all zero is fine. */
void psti_containers_cursor_close(struct psti_parquet_cursor *cursor);
/* Refuses a chunk that cannot be read because of its codec, its encryption, or because it lies in
 * another file. */
enum pst_status psti_containers_cursor_check(const struct psti_parquet_file *file,
                                             const struct psti_parquet_chunk *chunk,
                                             const char *name, struct pst_error *err);
/* Moves the cursor to the beginning of a chunk that psti_containers_cursor_check accepted. */
void psti_containers_cursor_begin(struct psti_parquet_cursor *cursor,
                                  const struct psti_parquet_chunk *chunk);

/* Reads the levels of the next entry into cursor->rep and cursor->def. *has: false at the end. */
enum pst_status psti_containers_cursor_peek(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err);
/* Reads the next entry. Its area is valid until peek or take reaches the next page.
 *
 * PST_ERROR_CORRUPT: there is no next entry. */
enum pst_status psti_containers_cursor_take(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_entry *entry,
                                            struct pst_error *err);
/* Reads a number of at most 8 bytes; *number gets its bits. */
enum pst_status psti_containers_cursor_number(struct psti_parquet_cursor *cursor,
                                              const struct psti_parquet_entry *entry,
                                              uint64_t *number, struct pst_error *err);
/* Returns the first `nbytes` bytes of a value. They belong to the cursor until its next call.
 * nbytes: at most PSTI_WINDOW_NBYTES. */
enum pst_status psti_containers_cursor_bytes(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry, size_t nbytes,
                                             const uint8_t **bytes, struct pst_error *err);
/* Sets the value's location: nbytes bytes from the beginning of the entry on. */
enum pst_status psti_containers_cursor_place(struct psti_parquet_cursor *cursor,
                                             const struct psti_parquet_entry *entry,
                                             uint64_t nbytes, struct psti_container_value *value,
                                             struct pst_error *err);
/* Fills in an error that names the column, at an offset of the file. Returns `status`. */
enum pst_status psti_containers_cursor_fail(const struct psti_parquet_cursor *cursor,
                                            enum pst_status status, uint64_t offset,
                                            struct pst_error *err, const char *format, ...)
    PST_PRINTF(5, 6);
/* The kinds of pages, with Parquet's numbers. */
enum {
    PSTI_PAGE_DATA = 0,
    PSTI_PAGE_INDEX = 1,
    PSTI_PAGE_DICTIONARY = 2,
    PSTI_PAGE_DATA_2 = 3, /* a data page of version 2, whose levels stand before the values */
};

struct psti_parquet_head {
    uint32_t kind, nbytes, decoded_nbytes;
    uint32_t n_values, encoding, def_encoding, rep_encoding;
    uint32_t def_nbytes, rep_nbytes; /* bytes of the levels; version 2 only */
    bool is_stored;                  /* the values are not compressed, although the chunk has a
                                      * codec */
    uint32_t crc;
    bool has_crc, has_data, has_data_2, has_dictionary;
    uint64_t header, body; /* offsets */
};

/* For containers_parquet_page.c: reads the page header at cursor->at. */
enum pst_status psti_containers_cursor_head(struct psti_parquet_cursor *cursor,
                                            struct psti_parquet_head *head, struct pst_error *err);
/* For containers_parquet_cursor.c: opens the next data page. *has: false at the end. */
enum pst_status psti_containers_cursor_page(struct psti_parquet_cursor *cursor, bool *has,
                                            struct pst_error *err);

#endif
