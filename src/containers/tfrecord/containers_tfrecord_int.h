/* containers_tfrecord_int.h - the walk over a TFRecord file, between the files of this folder. */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_INT_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_INT_H

#include "containers/containers_names.h"
#include "containers/list/containers_tree.h"
#include "containers/table/containers_guess.h"
#include "containers/tfrecord/containers_example.h"
#include "containers/tfrecord/containers_tfrecord.h"

/* What features.json says of a key. */
enum psti_tfds_kind {
    PSTI_TFDS_NONE = 0, /* nothing */
    PSTI_TFDS_IMAGE,
    PSTI_TFDS_MASK,
    PSTI_TFDS_TEXT,
    PSTI_TFDS_SCALAR, /* a number of the dtype */
    PSTI_TFDS_ARRAY,  /* numbers in lists */
    PSTI_TFDS_RAW,    /* an array as the bytes of its elements */
    PSTI_TFDS_AUDIO,
    PSTI_TFDS_ODD, /* `problem` says why it cannot be read */
};
struct psti_tfds_spec {
    enum psti_tfds_kind kind;
    enum pst_dtype dtype;
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM]; /* 0: unknown */
    int64_t n_classes;
    const char *problem; /* completes a sentence that begins with the key */
};

/* A key of the file. */
struct psti_tf_key {
    /* Of the record that is being read. */
    uint64_t record;         /* 1 + its number, if it has the key */
    struct psti_feature now; /* the last value of it */
    size_t kept, n_kept;     /* bytes of the value in the arena */
    bool is_kept;
    /* Of the file, by the first walk. */
    enum psti_feature_kind kind;
    bool is_list;          /* a record has no value or several */
    uint64_t several_at;   /* offset of a record with several values; UINT64_MAX: there is none */
    uint64_t first_nbytes; /* of the first value */
    uint32_t n_probed;     /* values whose beginning was read */
    bool is_text;          /* as far as they were */
    enum pst_field_type guess; /* by the first value */
    /* Of the field. */
    struct psti_tfds_spec spec;
    uint32_t i_field;
    enum pst_field_type type;
    enum pst_dtype dtype; /* of an array */
};

struct psti_tf {
    const struct psti_walk_source *source;
    struct psti_containers_columns *columns;
    struct psti_window window;
    struct psti_wire wire;
    struct psti_walk_names names; /* of the keys */
    struct psti_tf_key *keys;
    size_t capacity;
    uint32_t *here; /* [capacity] keys of the record */
    uint32_t n_here;
    uint64_t n_records;
    bool is_known, is_example; /* is_known: a record that is not empty was there */
    bool gives_rows;           /* the second walk */
    /* The record that is being read. */
    uint64_t i, header;
    struct psti_span data;
    uint32_t crc; /* of the data, as the file has it */
    /* Values of a row that lie in memory. */
    uint8_t *arena;
    size_t n_arena, arena_capacity;
    struct psti_feature_room room;
    struct psti_container_value *values; /* [capacity + 1] */
    /* The field of whole records. */
    uint32_t i_field;
    enum pst_field_type type;
    struct psti_tree notes;
    struct pst_error *err;
};

/* Finds what the tree of a features.json says of a key. */
void psti_containers_tfds_spec(const struct psti_tree *tree, const char *key,
                               struct psti_tfds_spec *spec);

/* Fills in an error about a key, at an offset; -1: none. Returns the status. */
enum pst_status psti_containers_tf_bad_key(const struct psti_tf *tf, const char *key,
                                           int64_t offset, enum pst_status status,
                                           const char *what);
/* Finds the key of a feature of the record that is being read. *key: valid until the next call. */
enum pst_status psti_containers_tf_key(struct psti_tf *tf, const char *name,
                                       struct psti_tf_key **key);
/* Learns from a record that was read. */
enum pst_status psti_containers_tf_learn(struct psti_tf *tf);
/* Declares the columns, after the first walk. */
enum pst_status psti_containers_tf_declare(struct psti_tf *tf);

/* Takes a feature in the second walk: psti_example_take with the walk. */
enum pst_status psti_containers_tf_take(void *context, const char *name, struct psti_span span);
/* Gives the row of the record that was read. */
enum pst_status psti_containers_tf_give(struct psti_tf *tf);

#endif
