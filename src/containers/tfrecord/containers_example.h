/* containers_example.h - reads tf.train.Example from the wire format of protocol buffers.
 *
 * The specification is tensorflow/core/example/example.proto and feature.proto:
 *   Example { Features features = 1 }    Features { map<string, Feature> feature = 1 }
 *   Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 }
 * The values of a list are its field 1, repeated. Floats and ints may be packed into one field.
 * Entries of a map are messages of a key (1) and a value (2), in any order. If a key occurs twice,
 * the last entry counts. Unknown fields are skipped; groups are refused.
 *
 * Values of bytes are reported by their location and not read, so a record's images are never
 * read. */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_EXAMPLE_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_EXAMPLE_H

#include "containers/containers_window.h"

enum {
    PSTI_EXAMPLE_KEY_CAP = 1024, /* longest key, with its NUL */
    PSTI_WIRE_NBYTES = 4096,     /* maximum number of bytes of a large record that are read at
                                  * once */
};

/* A record that is read piece by piece. */
struct psti_wire {
    struct psti_window *window;
    const uint8_t *bytes; /* n bytes of the window, from offset `at` of the file on */
    uint64_t at, n;
    uint64_t end; /* offset of the record's end */
    struct pst_error *err;
};

struct psti_span {
    uint64_t begin, end; /* offsets in the file */
};

enum psti_feature_kind {
    PSTI_FEATURE_NONE = 0, /* the Feature has no list */
    PSTI_FEATURE_BYTES = 1,
    PSTI_FEATURE_FLOATS = 2,
    PSTI_FEATURE_INTS = 3,
};

struct psti_feature {
    enum psti_feature_kind kind;
    uint64_t n;              /* number of values; if they were parsed without a buffer, 2 means two
                              * or more ints */
    uint64_t n_runs;         /* number of contiguous ranges of the file that hold floats */
    uint64_t offset, nbytes; /* location of the last value of bytes, or of the last range of
                              * floats */
    int64_t int_value;       /* the last int that was read */
    double float_value;
};

/* Memory for the numbers of a list: i64 or f32, in order. */
struct psti_feature_room {
    uint8_t *bytes;
    size_t nbytes, capacity;
};

/* Returns n bytes of the record at offset `at`, valid until the next call for this wire. n: at most
 * PSTI_WIRE_NBYTES, unless they are in memory already. */
enum pst_status psti_containers_wire_get(struct psti_wire *wire, uint64_t at, size_t n,
                                         const uint8_t **bytes);

/* Receives a feature of an Example. key: NUL-terminated. value: the Feature's bytes, empty if it
 * has none. */
typedef enum pst_status psti_example_take(void *context, const char *key, struct psti_span value);

/* Facts about a message that may be an Example. */
struct psti_example_facts {
    bool has_features;
    bool is_sequence; /* the message has lists of features, so it is a SequenceExample */
};

/* Parses an Example, and passes each feature to `take`.
 * PST_ERROR_CORRUPT: the bytes are no Example. PST_ERROR_LIMIT: a key is too long. Errors of `take`
 *     are returned as they are. */
enum pst_status psti_containers_example_read(struct psti_wire *wire, struct psti_span span,
                                             psti_example_take *take, void *context,
                                             struct psti_example_facts *facts);
/* Parses a Feature. room: receives the values of floats or ints; may be NULL.
 *
 * PST_ERROR_CORRUPT: the bytes are no Feature. PST_ERROR_LIMIT: `room` is full. */
enum pst_status psti_containers_feature_read(struct psti_wire *wire, struct psti_span span,
                                             struct psti_feature_room *room,
                                             struct psti_feature *feature);

#endif
