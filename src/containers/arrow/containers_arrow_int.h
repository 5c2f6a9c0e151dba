/* containers_arrow_int.h - what the parts of the walk over Arrow's files know of each other. */
#ifndef PST_CONTAINERS_ARROW_CONTAINERS_ARROW_INT_H
#define PST_CONTAINERS_ARROW_CONTAINERS_ARROW_INT_H

#include "containers/arrow/containers_arrow.h"
#include "containers/arrow/containers_flat.h"
#include "containers/table/containers_hub.h"

#include "base/codings/codings.h"

enum {
    PSTI_ARROW_MAX_FIELDS = 1 << 16, /* of a schema, with those within others */
    PSTI_ARROW_MAX_DEPTH = 32,
    PSTI_ARROW_PART_NBYTES = 64 << 10, /* of a buffer that is read in parts */
    PSTI_ARROW_LOAD_NBYTES = 16 << 20, /* of a dictionary's buffer that is read whole */
    PSTI_ARROW_V4 = 3,                 /* versions of the metadata, as they are written */
    PSTI_ARROW_V5 = 4,
};

/* Types as Schema.fbs numbers them. */
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
    uint8_t bits;      /* INT, FLOAT, dates and times: of a value */
    bool is_signed;    /* INT; true of dates and times, which are read as such */
    bool is_dense;     /* UNION */
    uint32_t size;     /* FIXED_BINARY: bytes, FIXED_LIST: elements of a value */
    uint32_t end;      /* number of the first field behind this one and what is within it */
    uint32_t n_inside; /* children */
    bool has_dictionary;
    int64_t dictionary; /* its number in the file */
    uint8_t index_bits;
    bool index_is_signed, is_ordered;
    const char *extension;      /* name of the extension type; "" */
    const char *extension_json; /* what it says of itself; extension_nbytes of them */
    size_t extension_nbytes;
};

/* All zero is an empty schema. */
struct psti_arrow_schema {
    struct psti_arrow_field *fields;
    uint32_t n, capacity;
    int version;     /* PSTI_ARROW_V4 or V5 */
    const char *hub; /* the features of `datasets`, within the message; NULL: none */
    size_t hub_nbytes;
};

/* Reads a schema. `flat` must stay as it is while the schema is used. The schema is freed by the
 * caller, also after a failure. */
enum pst_status psti_containers_arrow_schema(const struct psti_flat_table *table, int version,
                                             const char *path, struct psti_arrow_schema *schema,
                                             struct pst_error *err);
void psti_containers_arrow_schema_free(struct psti_arrow_schema *schema);
/* The name of a field's type, for messages. */
const char *psti_containers_arrow_type_name(const struct psti_arrow_field *field);

/* The file, and what decodes its compressed buffers. */
struct psti_arrow_file {
    const struct psti_walk_source *source;
    struct psti_codings *codings; /* NULL until the first one is decoded */
};

/* A buffer of a batch, as it lies in the file, and some of its decoded bytes. */
struct psti_arrow_buffer {
    uint64_t at, nbytes;     /* of the stored bytes */
    uint64_t decoded_nbytes; /* once it is settled */
    enum psti_coding coding;
    bool is_settled; /* false: the stored bytes begin with the length of the decoded ones */
    bool has_page;
    uint64_t i_page;
    uint8_t *memory; /* the decoded bytes [from, from + n) */
    size_t capacity, n;
    uint64_t from;
};

/* Settles a buffer: reads how many bytes a compressed one gives. */
enum pst_status psti_containers_arrow_settle(struct psti_arrow_file *file,
                                             struct psti_arrow_buffer *buffer,
                                             struct pst_error *err);
/* Gives n <= PSTI_ARROW_PART_NBYTES decoded bytes of a settled buffer, which are the buffer's until
 * the next call. PST_ERROR_CORRUPT: it has no such bytes. */
enum pst_status psti_containers_arrow_get(struct psti_arrow_file *file,
                                          struct psti_arrow_buffer *buffer, uint64_t offset,
                                          size_t n, const uint8_t **bytes, struct pst_error *err);
/* Reads a settled buffer whole. */
enum pst_status psti_containers_arrow_load(struct psti_arrow_file *file,
                                           struct psti_arrow_buffer *buffer, struct pst_error *err);
void psti_containers_arrow_buffer_free(struct psti_arrow_buffer *buffer);

/* The values of one field in a batch. */
struct psti_arrow_array {
    uint64_t n;
    bool has_nulls; /* as the batch states */
    uint32_t first, n_buffers;
};

/* A batch. All zero is an empty one, and one may be read anew. */
struct psti_arrow_batch {
    uint64_t n_rows;
    uint32_t first; /* number of the first field that it holds */
    uint32_t n_arrays;
    struct psti_arrow_array *arrays; /* of the fields from the first one on */
    struct psti_arrow_buffer *buffers;
    uint32_t n_buffers, capacity;
};

/* A message of the file: its kind, and where it lies. */
struct psti_arrow_frame {
    uint64_t at;     /* of the message's metadata */
    uint32_t nbytes; /* of it */
    uint64_t body, body_nbytes;
    bool is_dictionary, is_delta;
    int64_t dictionary; /* its number */
    uint64_t n_rows;
};

/* Reads the places of a batch's buffers. `record` is the table RecordBatch of the frame. A batch of
 * rows holds all fields, and i_field is 0; one of a dictionary holds the values of i_field. */
enum pst_status psti_containers_arrow_batch(const char *path,
                                            const struct psti_arrow_schema *schema,
                                            const struct psti_flat_table *record,
                                            const struct psti_arrow_frame *frame, uint32_t first,
                                            bool is_dictionary, struct psti_arrow_batch *batch,
                                            struct pst_error *err);
void psti_containers_arrow_batch_free(struct psti_arrow_batch *batch);

/* The messages of a file. All zero is none. */
struct psti_arrow_frames {
    uint8_t *message; /* metadata of the last message that was read */
    size_t capacity;
    struct psti_arrow_frame *at; /* dictionaries and batches */
    size_t n, at_capacity;
    uint64_t n_rows;
    uint8_t *schema_message; /* that the schema points into */
    bool has_no_end;
};

/* Reads what the file says of its messages, and the schema. */
enum pst_status psti_containers_arrow_frames(const struct psti_walk_source *source,
                                             struct psti_arrow_frames *frames,
                                             struct psti_arrow_schema *schema,
                                             struct pst_error *err);
/* Reads the metadata of a frame anew, and gives its table RecordBatch. */
enum pst_status psti_containers_arrow_frame(const struct psti_walk_source *source,
                                            struct psti_arrow_frames *frames, size_t i,
                                            struct psti_flat *flat, struct psti_flat_table *record,
                                            struct pst_error *err);
void psti_containers_arrow_frames_free(struct psti_arrow_frames *frames);

#endif
