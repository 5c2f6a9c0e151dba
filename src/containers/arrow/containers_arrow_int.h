/* containers_arrow_int.h - declarations that the source files of the Arrow walk share. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_INT_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_INT_H

#include "containers/arrow/containers_arrow.h"
#include "containers/arrow/containers_flat.h"
#include "containers/table/containers_hub.h"

#include "base/codings/codings.h"

enum {
    PSTI_ARROW_MAX_FIELDS = 1 << 16, /* maximum number of fields of a schema, with their children */
    PSTI_ARROW_MAX_DEPTH = 32,
    PSTI_ARROW_PART_NBYTES = 64 << 10, /* bytes of each part, for a buffer that is read in parts */
    PSTI_ARROW_LOAD_NBYTES = 16 << 20, /* a dictionary's buffer up to this length is read whole */
    PSTI_ARROW_V4 = 3,                 /* versions of the metadata, as the file numbers them */
    PSTI_ARROW_V5 = 4,
};

/* Types, with the numbers of Schema.fbs. */
enum psti_arrow_type {
    PSTI_ARROW_NULL = 1,
    PSTI_ARROW_INT = 2,
    PSTI_ARROW_FLOAT = 3,
    PSTI_ARROW_BINARY = 4,
    PSTI_ARROW_UTF8 = 5,
    PSTI_ARROW_BOOL = 6,
    PSTI_ARROW_DECIMAL = 7,
    PSTI_ARROW_DATE = 8,
    PSTI_ARROW_TIME = 9,
    PSTI_ARROW_TIMESTAMP = 10,
    PSTI_ARROW_INTERVAL = 11,
    PSTI_ARROW_LIST = 12,
    PSTI_ARROW_STRUCT = 13,
    PSTI_ARROW_UNION = 14,
    PSTI_ARROW_FIXED_BINARY = 15,
    PSTI_ARROW_FIXED_LIST = 16,
    PSTI_ARROW_MAP = 17,
    PSTI_ARROW_DURATION = 18,
    PSTI_ARROW_LARGE_BINARY = 19,
    PSTI_ARROW_LARGE_UTF8 = 20,
    PSTI_ARROW_LARGE_LIST = 21,
    PSTI_ARROW_RUN_END = 22,
    PSTI_ARROW_BINARY_VIEW = 23,
    PSTI_ARROW_UTF8_VIEW = 24,
    PSTI_ARROW_LIST_VIEW = 25,
    PSTI_ARROW_LARGE_LIST_VIEW = 26,
};

/* A field of the schema. Fields are in pre-order: the children of field i begin at i + 1. */
struct psti_arrow_field {
    const char *name; /* NUL-terminated */
    enum psti_arrow_type type;
    uint8_t bits;      /* bits of a value (INT, FLOAT, dates and times) */
    bool is_signed;    /* signed INT; true also for dates and times, which are read as integers */
    bool is_dense;     /* UNION */
    uint32_t size;     /* FIXED_BINARY: bytes of a value; FIXED_LIST: elements of a value */
    uint32_t end;      /* index of the first field behind this field and its children */
    uint32_t n_inside; /* number of children */
    bool has_dictionary;
    int64_t dictionary; /* number of the field's dictionary in the file */
    uint8_t index_bits;
    bool index_is_signed, is_ordered;
    const char *extension;      /* name of the extension type; "" if there is none */
    const char *extension_json; /* JSON metadata of the extension type, extension_nbytes bytes */
    size_t extension_nbytes;
};

/* A schema. All members zero is an empty one. */
struct psti_arrow_schema {
    struct psti_arrow_field *fields;
    uint32_t n, capacity;
    int version;     /* PSTI_ARROW_V4 or V5 */
    const char *hub; /* features of `datasets`, a text within the message; NULL: none */
    size_t hub_nbytes;
};

/* Parses a schema. The schema points into the buffer behind `table`, which must not change while
 * the schema is used. The caller frees the schema, after a failure too. */
enum pst_status psti_containers_arrow_schema(const struct psti_flat_table *table, int version,
                                             const char *path, struct psti_arrow_schema *schema,
                                             struct pst_error *err);
void psti_containers_arrow_schema_free(struct psti_arrow_schema *schema);
/* Returns the name of a field's type, for messages. */
const char *psti_containers_arrow_type_name(const struct psti_arrow_field *field);

/* The file, and the decoder for its compressed buffers. */
struct psti_arrow_file {
    const struct psti_walk_source *source;
    struct psti_codings *codings; /* NULL until the first buffer is decoded */
};

/* A buffer of a batch: its location in the file, and a part of its decoded bytes. */
struct psti_arrow_buffer {
    uint64_t at, nbytes;     /* location of the stored bytes in the file */
    uint64_t decoded_nbytes; /* valid once is_settled is true */
    enum psti_coding coding;
    bool is_settled; /* false: the decoded length, before the stored bytes, is not read yet */
    bool has_page;
    uint64_t i_page;
    uint8_t *memory; /* holds the decoded bytes [from, from + n) */
    size_t capacity, n;
    uint64_t from;
};

/* Settles a buffer: reads the decoded length that stands before a compressed buffer. Other
 * functions need a settled buffer. */
enum pst_status psti_containers_arrow_settle(struct psti_arrow_file *file,
                                             struct psti_arrow_buffer *buffer,
                                             struct pst_error *err);
/* Returns n <= PSTI_ARROW_PART_NBYTES decoded bytes of a settled buffer. They belong to the buffer
 * and are valid until the next call. PST_ERROR_CORRUPT: the buffer ends before them. */
enum pst_status psti_containers_arrow_get(struct psti_arrow_file *file,
                                          struct psti_arrow_buffer *buffer, uint64_t offset,
                                          size_t n, const uint8_t **bytes, struct pst_error *err);
/* Reads or decodes a whole buffer into its memory. The buffer must be settled: its decoded length
 * is known. */
enum pst_status psti_containers_arrow_load(struct psti_arrow_file *file,
                                           struct psti_arrow_buffer *buffer, struct pst_error *err);
void psti_containers_arrow_buffer_free(struct psti_arrow_buffer *buffer);

/* The values of one field in a batch, and which buffers hold them. */
struct psti_arrow_array {
    uint64_t n;
    bool has_nulls; /* the batch's metadata states that values are missing */
    uint32_t first, n_buffers;
};

/* A batch. All members zero is an empty batch. The same struct may be filled again and again. */
struct psti_arrow_batch {
    uint64_t n_rows;
    uint32_t first; /* index of the first field that the batch holds */
    uint32_t n_arrays;
    struct psti_arrow_array *arrays; /* arrays of the fields from `first` on */
    struct psti_arrow_buffer *buffers;
    uint32_t n_buffers, capacity;
};

/* A message of the file: its kind and location. */
struct psti_arrow_frame {
    uint64_t at;     /* offset of the message's metadata */
    uint32_t nbytes; /* length of the message's metadata */
    uint64_t body, body_nbytes;
    bool is_dictionary, is_delta;
    int64_t dictionary; /* number of the dictionary, if is_dictionary */
    uint64_t n_rows;
};

/* Reads which buffers a batch has and where they lie. `record` is the table RecordBatch of the
 * frame. A batch of rows holds all fields, and `first` is 0. A batch of a dictionary holds the
 * values of the field `first`. */
enum pst_status psti_containers_arrow_batch(const char *path,
                                            const struct psti_arrow_schema *schema,
                                            const struct psti_flat_table *record,
                                            const struct psti_arrow_frame *frame, uint32_t first,
                                            bool is_dictionary, struct psti_arrow_batch *batch,
                                            struct pst_error *err);
void psti_containers_arrow_batch_free(struct psti_arrow_batch *batch);

/* The messages of a file. All members zero means that there are none. */
struct psti_arrow_frames {
    uint8_t *message; /* metadata of the message that was read last */
    size_t capacity;
    struct psti_arrow_frame *at; /* messages of dictionaries and of batches, in order */
    size_t n, at_capacity;
    uint64_t n_rows;
    uint8_t *schema_message; /* metadata of the schema message; the schema points into it */
    bool has_no_end;
};

/* Finds all messages of the file, and parses the schema. */
enum pst_status psti_containers_arrow_frames(const struct psti_walk_source *source,
                                             struct psti_arrow_frames *frames,
                                             struct psti_arrow_schema *schema,
                                             struct pst_error *err);
/* Reads the metadata of frame i again, and returns its table RecordBatch. */
enum pst_status psti_containers_arrow_frame(const struct psti_walk_source *source,
                                            struct psti_arrow_frames *frames, size_t i,
                                            struct psti_flat *flat, struct psti_flat_table *record,
                                            struct pst_error *err);
void psti_containers_arrow_frames_free(struct psti_arrow_frames *frames);

#endif
