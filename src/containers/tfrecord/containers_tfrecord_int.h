/* containers_tfrecord_int.h - the state of the walk over a TFRecord file, shared by the files of
 * this folder. */
#ifndef PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_INT_H
#define PST_CONTAINERS_TFRECORD_CONTAINERS_TFRECORD_INT_H

#include "containers/containers_names.h"
#include "containers/list/containers_tree.h"
#include "containers/table/containers_guess.h"
#include "containers/tfrecord/containers_example.h"
#include "containers/tfrecord/containers_tfrecord.h"

/* Kinds of keys, as features.json says. */
enum psti_tfds_kind {
    PSTI_TFDS_NONE = 0, /* nothing */
    PSTI_TFDS_IMAGE,
    PSTI_TFDS_MASK,
    PSTI_TFDS_TEXT,
    PSTI_TFDS_SCALAR, /* a number of type `dtype` */
    PSTI_TFDS_ARRAY,  /* an array, stored as lists of numbers */
    PSTI_TFDS_RAW,    /* an array, stored as the bytes of its elements */
    PSTI_TFDS_AUDIO,
    PSTI_TFDS_ODD, /* not readable; `problem` says why */
};
struct psti_tfds_spec {
    enum psti_tfds_kind kind;
    enum pst_dtype dtype;
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM]; /* 0: unknown */
    int64_t n_classes;
    const char *problem; /* completes a sentence whose subject is the key */
};

/* A key of the Examples, and all that is known of it. */
struct psti_tf_key {
    /* State of the key in the current record. */
    uint64_t record;         /* 1 + number of the last record that has the key */
    struct psti_feature now; /* the key's feature in that record */
    size_t kept, n_kept;     /* location in the arena of the value's bytes */
    bool is_kept;
    /* What the first pass has found of the key in the whole file. */
    enum psti_feature_kind kind;
    bool is_list;          /* some record has no value of the key, or several */
    uint64_t several_at;   /* offset of a record with several values; UINT64_MAX: none */
    uint64_t first_nbytes; /* bytes of the first value */
    uint32_t n_probed;     /* number of values whose first bytes were read */
    bool is_text;          /* all values that were read so far are texts */
    enum pst_field_type guess; /* type guessed from the first value */
    /* The field that the key becomes. */
    struct psti_tfds_spec spec;
    uint32_t i_field;
    enum pst_field_type type;
    enum pst_dtype dtype; /* element type of an array */
};

struct psti_tf {
    const struct psti_walk_source *source;
    struct psti_containers_columns *columns;
    struct psti_window window;
    struct psti_wire wire;
    struct psti_walk_names names; /* names of the keys */
    struct psti_tf_key *keys;
    size_t capacity;
    uint32_t *here; /* [capacity]: numbers of the keys in the current record */
    uint32_t n_here;
    uint64_t n_records;
    bool is_known, is_example; /* is_known: a non-empty record was seen, so is_example is valid */
    bool gives_rows;           /* true in the second pass */
    /* The current record: its number, and the offset of its header. */
    uint64_t i, header;
    struct psti_span data;
    uint32_t crc; /* CRC of the data, as the file states it */
    /* Memory for the values of the current row that are not given by location. */
    uint8_t *arena;
    size_t n_arena, arena_capacity;
    struct psti_feature_room room;
    struct psti_container_value *values; /* [capacity + 1] */
    /* The field "record", for records that are given whole. */
    uint32_t i_field;
    enum pst_field_type type;
    struct psti_tree notes;
    struct pst_error *err;
};

/* Finds what the tree of a features.json says of a key. */
void psti_containers_tfds_spec(const struct psti_tree *tree, const char *key,
                               struct psti_tfds_spec *spec);

/* Fills in an error about a key, at an offset of the file; -1: none. Returns the status. */
enum pst_status psti_containers_tf_bad_key(const struct psti_tf *tf, const char *key,
                                           int64_t offset, enum pst_status status,
                                           const char *what);
/* Finds or adds a key of the current record. *key: valid until the next call. */
enum pst_status psti_containers_tf_key(struct psti_tf *tf, const char *name,
                                       struct psti_tf_key **key);
/* First pass: updates what is known of the keys from the current record. */
enum pst_status psti_containers_tf_learn(struct psti_tf *tf);
/* Declares the columns, after the first pass. */
enum pst_status psti_containers_tf_declare(struct psti_tf *tf);

/* Second pass: takes a feature of the current record. It is a psti_example_take; context: the
 * struct psti_tf. */
enum pst_status psti_containers_tf_take(void *context, const char *name, struct psti_span span);
/* Second pass: gives the row of the current record. */
enum pst_status psti_containers_tf_give(struct psti_tf *tf);

#endif
