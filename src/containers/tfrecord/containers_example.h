/* containers_example.h - reads tf.train.Example from the wire format of protocol buffers.
 *
 * The law is tensorflow/core/example/example.proto and feature.proto:
 *   Example { Features features = 1 }    Features { map<string, Feature> feature = 1 }
 *   Feature { oneof: BytesList bytes_list = 1, FloatList float_list = 2, Int64List int64_list = 3 }
 * A list has its values as field 1, repeated: of floats and ints packed into one field, or each in
 * a field of its own. Entries of a map are messages of a key (1) and a value (2), in any order. Of
 * two entries with one key the last one counts. Unknown fields are passed over; groups are refused.
 *
 * Values are told by their places and not read, so that a record's images are never touched. */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_EXAMPLE_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_EXAMPLE_H

#include "containers/containers_window.h"

enum {
    PSTI_EXAMPLE_KEY_CAP = 1024, /* of a key with its NUL */
    PSTI_WIRE_NBYTES = 4096,     /* of the longest piece of a large record */
};

/* A record, of which some bytes are here. */
struct psti_wire {
    struct psti_window *window;
    const uint8_t *bytes; /* the window's: n bytes from offset `at` of the file on */
    uint64_t at, n;
    uint64_t end; /* of the record */
    struct pst_error *err;
};

struct psti_span {
    uint64_t begin, end; /* offsets in the file */
};

enum psti_feature_kind {
    PSTI_FEATURE_NONE = 0, /* no list at all */
    PSTI_FEATURE_BYTES = 1,
    PSTI_FEATURE_FLOATS = 2,
    PSTI_FEATURE_INTS = 3,
};

struct psti_feature {
    enum psti_feature_kind kind;
    uint64_t n;              /* values; without room, 2 stands for 2 and more ints */
    uint64_t n_runs;         /* pieces of the file in which floats lie without gaps */
    uint64_t offset, nbytes; /* of the last value of bytes, or of the last run of floats */
    int64_t int_value;       /* the last one that was read */
    double float_value;
};

/* Room for values: i64 or f32, as they come. */
struct psti_feature_room {
    uint8_t *bytes;
    size_t nbytes, capacity;
};

/* Gives n bytes at offset `at`, which lie in the record. They stay until the next call with this
 * wire. n: at most PSTI_WIRE_NBYTES, or such that they are here. */
enum pst_status psti_containers_wire_get(struct psti_wire *wire, uint64_t at, size_t n,
                                         const uint8_t **bytes);

/* Takes a feature of an Example, by its NUL-terminated key. value: an empty span if it has none. */
typedef enum pst_status psti_example_take(void *context, const char *key, struct psti_span value);

/* What else is in a message that may be an Example. */
struct psti_example_facts {
    bool has_features;
    bool is_sequence; /* it has lists of features, as a SequenceExample */
};

/* Reads an Example. PST_ERROR_CORRUPT: it is none. PST_ERROR_LIMIT: a key is too long. And what
 * `take` returns. */
enum pst_status psti_containers_example_read(struct psti_wire *wire, struct psti_span span,
                                             psti_example_take *take, void *context,
                                             struct psti_example_facts *facts);
/* Reads a Feature. room: NULL, or it gets the values of floats and ints.
 *
 * PST_ERROR_CORRUPT: it is none. PST_ERROR_LIMIT: the room is full. */
enum pst_status psti_containers_feature_read(struct psti_wire *wire, struct psti_span span,
                                             struct psti_feature_room *room,
                                             struct psti_feature *feature);

#endif
