/* containers_tfrecord_keys.c - collects what the keys of Examples hold, and declares their columns.
 *
 * In: the features of each record, in the first pass. Out: columns, sorted by the bytes of the
 * keys, because the order in a map has no meaning.
 *
 * A list with exactly one value in each record becomes a number, any other list an array. The type
 * of bytes is guessed from the first value. features.json of TFDS overrules both. */
#include "containers/tfrecord/containers_tfrecord_int.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "containers"
enum { KEYS_MAX = 4096, PROBES = 16, TEXT_MAX_NBYTES = PSTI_WIRE_NBYTES };

enum pst_status psti_containers_tf_bad_key(const struct psti_tf *tf, const char *key,
                                           int64_t offset, enum pst_status status, const char *what)
{
    return psti_fail_at(tf->err, status, ROOM, tf->source->path, offset, "the key \"%.100s\" %s",
                        key, what);
}

/* Makes room for one more key. */
static enum pst_status grow(struct psti_tf *tf)
{
    if (tf->names.n < tf->capacity)
        return PST_OK;
    size_t capacity = 2 * tf->capacity + 32;
    struct psti_tf_key *keys = psti_realloc(tf->keys, capacity * sizeof *keys);
    if (keys != NULL)
        tf->keys = keys;
    uint32_t *here = psti_realloc(tf->here, capacity * sizeof *here);
    if (here != NULL)
        tf->here = here;
    if (keys == NULL || here == NULL)
        return psti_fail(tf->err, PST_ERROR_MEMORY, ROOM, "out of memory for keys");
    tf->capacity = capacity;
    return PST_OK;
}

enum pst_status psti_containers_tf_key(struct psti_tf *tf, const char *name,
                                       struct psti_tf_key **key)
{
    uint32_t number = 0;
    bool is_new = false;
    enum pst_status status = grow(tf);
    if (status == PST_OK)
        status =
            psti_containers_names_add(&tf->names, name, strlen(name), &number, &is_new, tf->err);
    if (status != PST_OK)
        return status;
    if (is_new && number == KEYS_MAX)
        return psti_fail_at(tf->err, PST_ERROR_LIMIT, ROOM, tf->source->path,
                            (int64_t)tf->data.begin, "the records have more than %d keys",
                            KEYS_MAX);
    *key = &tf->keys[number];
    if (is_new)
        **key = (struct psti_tf_key){
            .several_at = UINT64_MAX, .is_text = true, .i_field = PSTI_COLUMN_LEFT_OUT};
    if ((*key)->record != tf->i + 1)
        tf->here[tf->n_here++] = number;
    (*key)->record = tf->i + 1;
    return PST_OK;
}

/* Reads the first bytes of a value, to guess the key's type. */
static enum pst_status probe(struct psti_tf *tf, struct psti_tf_key *key)
{
    const uint8_t *bytes = NULL;
    uint64_t nbytes = key->now.nbytes;
    bool is_first = key->n_probed == 0;
    size_t n = nbytes < TEXT_MAX_NBYTES ? (size_t)nbytes : PSTI_GUESS_NBYTES;
    if (key->n_probed == PROBES || (!is_first && !key->is_text))
        return PST_OK;
    enum pst_status status = psti_containers_wire_get(&tf->wire, key->now.offset, n, &bytes);
    if (status != PST_OK)
        return status;
    if (is_first) {
        key->first_nbytes = nbytes;
        key->guess = psti_containers_guess(bytes, n);
    }
    key->is_text = key->is_text && nbytes < TEXT_MAX_NBYTES && psti_containers_guess_text(bytes, n);
    key->n_probed++;
    return PST_OK;
}

enum pst_status psti_containers_tf_learn(struct psti_tf *tf)
{
    for (uint32_t i = 0; i < tf->n_here; i++) {
        struct psti_tf_key *key = &tf->keys[tf->here[i]];
        const char *name = psti_containers_names_text(&tf->names, tf->here[i]);
        if (key->now.kind == PSTI_FEATURE_NONE)
            continue;
        if (key->kind == PSTI_FEATURE_NONE)
            key->kind = key->now.kind;
        if (key->kind != key->now.kind)
            return psti_containers_tf_bad_key(tf, name, (int64_t)tf->data.begin, PST_ERROR_CORRUPT,
                                              "holds a list of another type than in records "
                                              "before it");
        key->is_list |= key->now.n != 1;
        if (key->now.n > 1 && key->several_at == UINT64_MAX)
            key->several_at = tf->data.begin;
        if (key->kind == PSTI_FEATURE_BYTES && key->now.n == 1) {
            enum pst_status status = probe(tf, key);
            if (status != PST_OK)
                return status;
        }
    }
    return PST_OK;
}

static bool is_float(enum pst_dtype dtype)
{
    return dtype == PST_DTYPE_F16 || dtype == PST_DTYPE_BF16 || dtype == PST_DTYPE_F32 ||
           dtype == PST_DTYPE_F64;
}

/* Describes the column of a key that features.json does not mention. */
static void guess(const struct psti_tf_key *key, struct psti_column *column)
{
    column->is_guess = true;
    if (key->kind == PSTI_FEATURE_INTS || key->kind == PSTI_FEATURE_FLOATS) {
        bool is_int = key->kind == PSTI_FEATURE_INTS;
        column->dtype = is_int ? PST_DTYPE_I64 : PST_DTYPE_F32;
        column->type = key->is_list ? PST_FIELD_ARRAY : is_int ? PST_FIELD_INT : PST_FIELD_FLOAT;
        return;
    }
    column->type = key->guess != 0 ? key->guess : PST_FIELD_BYTES;
    if (column->type == PST_FIELD_IMAGE && psti_containers_guess_mask(column->name))
        column->type = PST_FIELD_MASK;
    if (column->type == PST_FIELD_BYTES && key->is_text && key->n_probed > 0)
        column->type = PST_FIELD_TEXT;
}

/* Describes the column of a key by features.json. Returns NULL, or what is wrong. Then too the
 * column is valid, because a user's rule may leave it out. */
static const char *take_spec(const struct psti_tf_key *key, struct psti_column *column)
{
    const struct psti_tfds_spec *spec = &key->spec;
    bool are_bytes = key->kind == PSTI_FEATURE_BYTES;
    guess(key, column);
    column->is_guess = spec->kind == PSTI_TFDS_NONE || spec->kind >= PSTI_TFDS_AUDIO;
    switch (spec->kind) {
    case PSTI_TFDS_IMAGE:
    case PSTI_TFDS_MASK:
        if (!are_bytes || (key->n_probed > 0 && key->guess != PST_FIELD_IMAGE))
            return "is an image by features.json, and its first value is none that can be read";
        column->type = spec->kind == PSTI_TFDS_MASK ? PST_FIELD_MASK : PST_FIELD_IMAGE;
        return NULL;
    case PSTI_TFDS_TEXT:
        column->type = PST_FIELD_TEXT;
        return are_bytes ? NULL : "is a text by features.json, and holds no bytes";
    case PSTI_TFDS_SCALAR:
        column->type = is_float(spec->dtype) ? PST_FIELD_FLOAT : PST_FIELD_INT;
        column->dtype = is_float(spec->dtype) ? PST_DTYPE_F32 : PST_DTYPE_I64;
        column->n_classes = spec->n_classes;
        if (key->is_list)
            return "is one number by features.json, and a record has another number of them";
        return (key->kind == PSTI_FEATURE_FLOATS) == is_float(spec->dtype) && !are_bytes
                   ? NULL
                   : "holds another kind of numbers than features.json says";
    case PSTI_TFDS_RAW:
    case PSTI_TFDS_ARRAY: {
        bool is_raw = spec->kind == PSTI_TFDS_RAW;
        column->type = PST_FIELD_ARRAY;
        column->dtype = !is_raw && is_float(spec->dtype) ? PST_DTYPE_F32 : spec->dtype;
        column->ndim = spec->ndim;
        memcpy(column->shape, spec->shape, sizeof column->shape);
        for (uint8_t i = 0; i < spec->ndim; i++)
            if (spec->shape[i] == 0)
                column->ndim = 0;
        if (column->ndim == 0)
            memset(column->shape, 0, sizeof column->shape);
        if (is_raw)
            return are_bytes ? NULL : "is an array as bytes by features.json, and holds no bytes";
        return (key->kind == PSTI_FEATURE_FLOATS) == is_float(spec->dtype) && !are_bytes
                   ? NULL
                   : "holds another kind of numbers than features.json says";
    }
    default:
        return NULL;
    }
}

/* Declares the column of a key. */
static enum pst_status declare(struct psti_tf *tf, const char *name, struct psti_tf_key *key)
{
    static const enum pst_field_type of_bytes[] = {PST_FIELD_IMAGE, PST_FIELD_MASK, PST_FIELD_AUDIO,
                                                   PST_FIELD_BYTES, PST_FIELD_TEXT, PST_FIELD_JSON};
    static const enum pst_field_type of_ints[] = {PST_FIELD_ARRAY, PST_FIELD_INT};
    static const enum pst_field_type of_floats[] = {PST_FIELD_ARRAY, PST_FIELD_FLOAT};
    const enum pst_field_type *others = key->kind == PSTI_FEATURE_BYTES  ? of_bytes
                                        : key->kind == PSTI_FEATURE_INTS ? of_ints
                                                                         : of_floats;
    /* Other types that a rule or an earlier file may ask for: bytes may be six types, a number also
     * an array, and an array a number if no record has several values. */
    uint32_t n = key->kind == PSTI_FEATURE_BYTES ? 6 : key->is_list ? 1 : 2;
    struct psti_column column = {.name = name};
    psti_containers_tfds_spec(&tf->notes, name, &key->spec);
    const char *problem = take_spec(key, &column);
    bool is_odd = key->spec.kind == PSTI_TFDS_ODD || key->several_at != UINT64_MAX;
    if (key->kind == PSTI_FEATURE_BYTES && is_odd)
        /* Such a key is readable only if a rule declares it as bytes. It is declared as JSON here.
         * So if its type is still JSON after the rules, there is no such rule. */
        column = (struct psti_column){.name = name, .type = PST_FIELD_JSON, .is_guess = true};
    if (key->spec.kind != PSTI_TFDS_NONE && key->spec.kind < PSTI_TFDS_AUDIO)
        n = 0; /* features.json states the type, so no other is allowed */
    enum pst_status status =
        psti_containers_guess_add(tf->columns, &column, others, n, &key->i_field, tf->err);
    if (status != PST_OK || key->i_field == PSTI_COLUMN_LEFT_OUT)
        return status;
    key->type = psti_containers_columns_type(tf->columns, key->i_field);
    key->dtype = column.dtype;
    if (problem != NULL)
        return psti_containers_tf_bad_key(tf, name, -1, PST_ERROR_CORRUPT, problem);
    if (key->kind == PSTI_FEATURE_BYTES && key->several_at != UINT64_MAX)
        return psti_containers_tf_bad_key(
            tf, name, (int64_t)key->several_at, PST_ERROR_UNSUPPORTED,
            "holds several values of bytes in a record, which no field can hold: leave it out by "
            "None");
    if (key->spec.kind == PSTI_TFDS_ODD && key->type != PST_FIELD_BYTES)
        return psti_containers_tf_bad_key(tf, name, -1, PST_ERROR_UNSUPPORTED, key->spec.problem);
    return PST_OK;
}

/* A key and its number, for sorting. */
struct named {
    const char *name;
    uint32_t number;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

enum pst_status psti_containers_tf_declare(struct psti_tf *tf)
{
    uint32_t n = 0, n_names = tf->names.n;
    enum pst_status status = PST_OK;
    struct named *sorted = psti_alloc_array((size_t)n_names + 1, sizeof *sorted);
    tf->values = psti_alloc_array((size_t)n_names + 1, sizeof *tf->values);
    if (sorted == NULL || tf->values == NULL) {
        psti_free(sorted);
        return psti_fail(tf->err, PST_ERROR_MEMORY, ROOM, "out of memory for keys");
    }
    for (uint32_t i = 0; i < n_names; i++)
        tf->keys[i].record = 0; /* the second pass counts records from 0 again */
    for (uint32_t i = 0; i < n_names; i++)
        if (tf->keys[i].kind != PSTI_FEATURE_NONE)
            sorted[n++] = (struct named){psti_containers_names_text(&tf->names, i), i};
    if (n > 1)
        qsort(sorted, n, sizeof *sorted, by_name);
    if (n == 0)
        status = psti_fail_at(tf->err, PST_ERROR_UNSUPPORTED, ROOM, tf->source->path, -1,
                              "the Examples of the file hold no values");
    for (uint32_t i = 0; i < n && status == PST_OK; i++)
        status = declare(tf, sorted[i].name, &tf->keys[sorted[i].number]);
    psti_free(sorted);
    return status;
}
