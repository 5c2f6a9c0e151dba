/* containers_tfrecord_rows.c - makes the rows of a TFRecord file.
 *
 * In: the features of a record, in the second pass. Out: its row. Images, sounds and contiguous
 * floats are given by their location. Ints are varints in the file, so arrays of ints are copied
 * into the index, and so are short texts. Copies lie in an arena until the row is given. */
#include "containers/tfrecord/containers_tfrecord_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"
enum {
    ITEM_MAX_NBYTES = 1 << 16, /* maximum number of bytes of an item in the index
                                * (containers_sink.h) */
    ARENA_MAX_NBYTES = 8 << 20,
};

/* Reserves nbytes of the arena for the key's value. */
static enum pst_status reserve(struct psti_tf *tf, struct psti_tf_key *key, size_t nbytes,
                               uint8_t **out)
{
    size_t wanted = tf->n_arena + nbytes;
    if (wanted > ARENA_MAX_NBYTES)
        return psti_fail_at(
            tf->err, PST_ERROR_LIMIT, ROOM, tf->source->path, (int64_t)tf->data.begin,
            "the lists and texts of a record have more than %d bytes", ARENA_MAX_NBYTES);
    if (wanted > tf->arena_capacity || tf->arena == NULL) {
        size_t capacity = wanted < ITEM_MAX_NBYTES ? ITEM_MAX_NBYTES : 2 * wanted;
        uint8_t *arena = psti_realloc(tf->arena, capacity);
        if (arena == NULL)
            return psti_fail(tf->err, PST_ERROR_MEMORY, ROOM, "out of memory for a record");
        tf->arena = arena;
        tf->arena_capacity = capacity;
    }
    key->kept = tf->n_arena;
    key->n_kept = nbytes;
    key->is_kept = true;
    *out = tf->arena + tf->n_arena;
    tf->n_arena = wanted;
    return PST_OK;
}

/* Allocates the buffer for the numbers of an array (tf->room): as many numbers as the index can
 * hold if each takes one byte. */
static enum pst_status make_room(struct psti_tf *tf)
{
    if (tf->room.bytes != NULL)
        return PST_OK;
    tf->room.capacity = 8 * (size_t)ITEM_MAX_NBYTES;
    tf->room.bytes = psti_alloc(tf->room.capacity);
    return tf->room.bytes != NULL
               ? PST_OK
               : psti_fail(tf->err, PST_ERROR_MEMORY, ROOM, "out of memory for an array");
}

static enum pst_status too_long(const struct psti_tf *tf, const char *name)
{
    return psti_containers_tf_bad_key(tf, name, (int64_t)tf->data.begin, PST_ERROR_LIMIT,
                                      "holds a list of more than 64 KiB, which cannot be read in "
                                      "place, nor kept in the index: leave it out by None, or pack "
                                      "the data set");
}

/* Writes a number as an array element. False: the number does not fit the element type. */
static bool put_element(enum pst_dtype dtype, int64_t value, uint8_t *out)
{
    size_t nbytes = pst_dtype_nbytes(dtype);
    bool is_signed = dtype == PST_DTYPE_I8 || dtype == PST_DTYPE_I16 || dtype == PST_DTYPE_I32;
    memcpy(out, &value, nbytes);
    if (nbytes == 8)
        return true; /* TFDS stores the bits of a uint64 as an int64 */
    if (dtype == PST_DTYPE_BOOL)
        return value == 0 || value == 1;
    int64_t limit = (int64_t)1 << (8 * nbytes - is_signed);
    return value < limit && value >= (is_signed ? -limit : 0);
}

/* Copies the numbers in tf->room into the arena, as elements of an array. */
static enum pst_status keep_array(struct psti_tf *tf, const char *name, struct psti_tf_key *key)
{
    bool are_ints = key->now.kind == PSTI_FEATURE_INTS;
    size_t size = pst_dtype_nbytes(key->dtype), n = tf->room.nbytes / (are_ints ? 8 : 4);
    if (n * size > ITEM_MAX_NBYTES)
        return too_long(tf, name);
    uint8_t *out = NULL;
    enum pst_status status = reserve(tf, key, n * size, &out);
    if (status != PST_OK)
        return status;
    if (!are_ints) {
        memcpy(out, tf->room.bytes, key->n_kept);
        return PST_OK;
    }
    for (size_t i = 0; i < n; i++)
        if (!put_element(key->dtype, (int64_t)psti_load_u64(tf->room.bytes + 8 * i),
                         out + size * i))
            return psti_containers_tf_bad_key(tf, name, (int64_t)tf->data.begin, PST_ERROR_CORRUPT,
                                              "holds a number that its type does not have, which "
                                              "features.json states");
    return PST_OK;
}

/* Copies a short text into the arena. */
static enum pst_status keep_text(struct psti_tf *tf, struct psti_tf_key *key)
{
    const uint8_t *bytes = NULL;
    size_t n = (size_t)key->now.nbytes;
    enum pst_status status = psti_containers_wire_get(&tf->wire, key->now.offset, n, &bytes);
    uint8_t *out = NULL;
    if (status == PST_OK)
        status = reserve(tf, key, n, &out);
    if (status == PST_OK)
        memcpy(out, bytes, n);
    return status;
}

enum pst_status psti_containers_tf_take(void *context, const char *name, struct psti_span span)
{
    struct psti_tf *tf = context;
    struct psti_tf_key *key = NULL;
    struct psti_feature_room *room = NULL;
    enum pst_status status = psti_containers_tf_key(tf, name, &key);
    if (status != PST_OK || key->i_field == PSTI_COLUMN_LEFT_OUT)
        return status;
    key->is_kept = false;
    if (key->type == PST_FIELD_ARRAY && key->kind == PSTI_FEATURE_INTS) {
        status = make_room(tf);
        room = &tf->room;
    }
    if (status == PST_OK)
        status = psti_containers_feature_read(&tf->wire, span, room, &key->now);
    bool is_scattered = key->now.kind == PSTI_FEATURE_FLOATS && key->now.n_runs > 1;
    if (status == PST_OK && key->type == PST_FIELD_ARRAY && is_scattered) {
        room = &tf->room;
        status = make_room(tf);
        if (status == PST_OK)
            status = psti_containers_feature_read(&tf->wire, span, room, &key->now);
    }
    if (status == PST_ERROR_LIMIT && room != NULL)
        return too_long(tf, name);
    if (status != PST_OK)
        return status;
    if (room != NULL)
        return keep_array(tf, name, key);
    bool is_text = key->type == PST_FIELD_TEXT || key->type == PST_FIELD_JSON;
    return is_text && key->now.n == 1 && key->now.nbytes <= PSTI_TEXT_IN_INDEX_NBYTES
               ? keep_text(tf, key)
               : PST_OK;
}

/* Sets the shape of n elements by features.json; a list without a stated shape has one dimension.
 * False: n does not fit the shape. */
static bool set_shape(const struct psti_tfds_spec *spec, uint64_t n,
                      struct psti_container_value *value)
{
    uint64_t known = 1;
    uint32_t n_unknown = 0, i_unknown = 0;
    for (uint8_t i = 0; i < spec->ndim; i++) {
        if (spec->shape[i] == 0) {
            n_unknown++;
            i_unknown = i;
        } else if (!psti_mul_u64(known, spec->shape[i], &known)) {
            return false;
        }
    }
    if (n > UINT32_MAX)
        return false;
    if (spec->ndim == 0 || n_unknown > 1) {
        value->ndim = 1;
        value->shape[0] = (uint32_t)n;
        return true;
    }
    value->ndim = spec->ndim;
    memcpy(value->shape, spec->shape, sizeof value->shape);
    if (n_unknown == 0)
        return n == known;
    value->shape[i_unknown] = (uint32_t)(n / known);
    return n % known == 0;
}

/* Makes the value of an array. */
static enum pst_status array_value(const struct psti_tf *tf, const char *name,
                                   const struct psti_tf_key *key,
                                   struct psti_container_value *value)
{
    size_t size = pst_dtype_nbytes(key->dtype);
    if (!key->is_kept && key->now.n == 0) {
        value->bytes = "";
        value->offset = value->nbytes = value->decoded_nbytes = 0;
    }
    if (value->nbytes % size != 0 || !set_shape(&key->spec, value->nbytes / size, value))
        return psti_containers_tf_bad_key(tf, name, (int64_t)tf->data.begin, PST_ERROR_CORRUPT,
                                          "holds another number of elements than features.json "
                                          "says");
    return PST_OK;
}

/* Makes the value of a key in the current record. *has: false if the record has none. */
static enum pst_status key_value(const struct psti_tf *tf, const char *name,
                                 const struct psti_tf_key *key, struct psti_container_value *value,
                                 bool *has)
{
    *has = false;
    if (key->i_field == PSTI_COLUMN_LEFT_OUT || key->now.kind == PSTI_FEATURE_NONE)
        return PST_OK;
    value->i_field = key->i_field;
    value->offset = key->now.offset;
    value->nbytes = value->decoded_nbytes = key->now.nbytes;
    if (key->is_kept) {
        value->bytes = tf->arena + key->kept;
        value->nbytes = value->decoded_nbytes = key->n_kept;
    }
    if (key->type == PST_FIELD_ARRAY && key->kind != PSTI_FEATURE_BYTES) {
        *has = true;
        return array_value(tf, name, key, value);
    }
    if (key->now.n == 0)
        return PST_OK;
    *has = true;
    value->int_value = key->now.int_value;
    value->float_value = key->now.float_value;
    if (key->spec.kind == PSTI_TFDS_SCALAR && key->spec.dtype == PST_DTYPE_U64 &&
        value->int_value < 0)
        return psti_containers_tf_bad_key(tf, name, (int64_t)tf->data.begin, PST_ERROR_UNSUPPORTED,
                                          "holds a number of 2^63 or more, and int fields have "
                                          "numbers below it: leave it out by None");
    return key->type == PST_FIELD_ARRAY ? array_value(tf, name, key, value) : PST_OK;
}

enum pst_status psti_containers_tf_give(struct psti_tf *tf)
{
    uint32_t n = 0;
    uint8_t facts[4];
    psti_store_u32(facts, tf->crc);
    uint64_t hash = psti_hash64(facts, sizeof facts);
    for (uint32_t i = 0; i < tf->n_here; i++) {
        bool has = false;
        tf->values[n] = (struct psti_container_value){.facts = hash};
        enum pst_status status = key_value(tf, psti_containers_names_text(&tf->names, tf->here[i]),
                                           &tf->keys[tf->here[i]], &tf->values[n], &has);
        if (status != PST_OK)
            return status;
        n += has;
    }
    return psti_containers_columns_row(tf->columns, NULL, tf->values, n, tf->err);
}
