/* containers_example.c - parses the wire format of protocol buffers, as far as an Example needs it.
 *
 * In: a record through a window. Out: keys, kinds of lists and locations of values. There is no
 * recursion: each of the five nested message types has its own function. */
#include "containers/tfrecord/containers_example.h"

#include "base/bits.h"
#include "base/fail.h"
#include "base/codings/varint.h"
#include "format/format_dataset.h"

#include <string.h>

#define ROOM "containers"
enum { CHUNK_NBYTES = 256 }; /* bytes that are requested from the window at a time */

/* Wire types of protocol buffers. */
enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

/* A field of a message, as it was parsed. */
struct field {
    uint32_t number, type;
    uint64_t value;        /* value, if the field is a varint */
    struct psti_span span; /* the bytes of the field's content */
};

static enum pst_status corrupt(const struct psti_wire *wire, uint64_t at, const char *what)
{
    return psti_fail_at(wire->err, PST_ERROR_CORRUPT, ROOM, wire->window->source->path, (int64_t)at,
                        "the record is no tf.train.Example: %s", what);
}

enum pst_status psti_containers_wire_get(struct psti_wire *wire, uint64_t at, size_t n,
                                         const uint8_t **bytes)
{
    if (at < wire->at || at - wire->at > wire->n || n > wire->n - (at - wire->at)) {
        size_t chunk = wire->end - at < CHUNK_NBYTES ? (size_t)(wire->end - at) : CHUNK_NBYTES;
        chunk = chunk < n ? n : chunk;
        wire->n = 0;
        enum pst_status status =
            psti_containers_window_get(wire->window, at, chunk, &wire->bytes, wire->err);
        if (status != PST_OK)
            return status;
        wire->at = at;
        wire->n = chunk;
    }
    *bytes = wire->bytes + (at - wire->at);
    return PST_OK;
}

/* Reads a varint of the message that ends at `end`. */
static enum pst_status read_varint(struct psti_wire *wire, uint64_t *at, uint64_t end,
                                   uint64_t *value)
{
    const uint8_t *bytes = NULL;
    size_t n = end - *at < PSTI_VARINT_NBYTES_MAX ? (size_t)(end - *at) : PSTI_VARINT_NBYTES_MAX;
    enum pst_status status = psti_containers_wire_get(wire, *at, n, &bytes);
    *value = 0;
    size_t n_read = status == PST_OK ? psti_varint(bytes, n, value) : 0;
    if (status == PST_OK && n_read == 0)
        status = corrupt(wire, *at, "a number does not end, or has over 64 bits");
    *at += n_read;
    return status;
}

/* Reads a field's tag and number or length, and moves *at behind the field. */
static enum pst_status read_field(struct psti_wire *wire, uint64_t *at, uint64_t end,
                                  struct field *field)
{
    uint64_t tag = 0, length = 0, begin = *at;
    enum pst_status status = read_varint(wire, at, end, &tag);
    if (status != PST_OK)
        return status;
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return corrupt(wire, begin, "a field has no legal number");
    *field = (struct field){.number = (uint32_t)(tag >> 3), .type = (uint32_t)tag & 7};
    if (field->type == VARINT)
        return read_varint(wire, at, end, &field->value);
    if (field->type == LENGTH)
        status = read_varint(wire, at, end, &length);
    else if (field->type == FIXED32 || field->type == FIXED64)
        length = field->type == FIXED32 ? 4 : 8;
    else
        return corrupt(wire, begin, "it has groups, or a field of no known type");
    if (status == PST_OK && length > end - *at)
        return corrupt(wire, begin, "a field is longer than what holds it");
    field->span = (struct psti_span){*at, *at + length};
    *at += length;
    return status;
}

/* Appends a value to `room` after checking that it fits. Does nothing if `room` is NULL. */
static enum pst_status put(struct psti_wire *wire, struct psti_feature_room *room, uint64_t at,
                           const void *value, size_t nbytes)
{
    if (room == NULL)
        return PST_OK;
    if (nbytes > room->capacity - room->nbytes)
        return psti_fail_at(wire->err, PST_ERROR_LIMIT, ROOM, wire->window->source->path,
                            (int64_t)at, "a list has more values than can be kept");
    memcpy(room->bytes + room->nbytes, value, nbytes);
    room->nbytes += nbytes;
    return PST_OK;
}

/* Takes a value of an Int64List. */
static enum pst_status take_int(struct psti_wire *wire, uint64_t at, uint64_t value,
                                struct psti_feature_room *room, struct psti_feature *feature)
{
    feature->int_value = (int64_t)value;
    feature->n++;
    return put(wire, room, at, &feature->int_value, 8);
}

/* Takes contiguous floats. */
static enum pst_status take_floats(struct psti_wire *wire, struct psti_span span,
                                   struct psti_feature_room *room, struct psti_feature *feature)
{
    const uint8_t *bytes = NULL;
    uint64_t n = (span.end - span.begin) / 4;
    enum pst_status status = PST_OK;
    float value = 0;
    if ((span.end - span.begin) % 4 != 0)
        return corrupt(wire, span.begin, "floats do not fill their field");
    if (n == 0)
        return PST_OK;
    feature->offset = span.begin;
    feature->nbytes = 4 * n;
    feature->n_runs++;
    feature->n += n;
    /* Without a room the values are not kept, and only the value of a list of one float is
     * needed. */
    uint64_t at = room == NULL && n > 1 ? span.end : span.begin;
    for (; at < span.end && status == PST_OK; at += 4) {
        status = psti_containers_wire_get(wire, at, 4, &bytes);
        if (status == PST_OK)
            memcpy(&value, bytes, 4);
        if (status == PST_OK)
            status = put(wire, room, at, &value, 4);
    }
    feature->float_value = (double)value;
    return status;
}

/* Reads a BytesList, FloatList or Int64List. */
static enum pst_status read_list(struct psti_wire *wire, struct psti_span span,
                                 struct psti_feature_room *room, struct psti_feature *feature)
{
    enum pst_status status = PST_OK;
    struct field field;
    for (uint64_t at = span.begin; at < span.end && status == PST_OK;) {
        uint64_t begin = at;
        status = read_field(wire, &at, span.end, &field);
        if (status != PST_OK || field.number != 1)
            continue;
        if (feature->kind == PSTI_FEATURE_BYTES && field.type == LENGTH) {
            feature->offset = field.span.begin;
            feature->nbytes = field.span.end - field.span.begin;
            feature->n++;
        } else if (feature->kind == PSTI_FEATURE_FLOATS &&
                   (field.type == LENGTH || field.type == FIXED32)) {
            status = take_floats(wire, field.span, room, feature);
        } else if (feature->kind == PSTI_FEATURE_INTS && field.type == VARINT) {
            status = take_int(wire, begin, field.value, room, feature);
        } else if (feature->kind == PSTI_FEATURE_INTS && field.type == LENGTH) {
            uint64_t value = 0;
            for (uint64_t i = field.span.begin;
                 i < field.span.end && status == PST_OK && (room != NULL || feature->n < 2);) {
                status = read_varint(wire, &i, field.span.end, &value);
                if (status == PST_OK)
                    status = take_int(wire, i, value, room, feature);
            }
        } else {
            status = corrupt(wire, begin, "a list has values of another type");
        }
    }
    return status;
}

enum pst_status psti_containers_feature_read(struct psti_wire *wire, struct psti_span span,
                                             struct psti_feature_room *room,
                                             struct psti_feature *feature)
{
    enum pst_status status = PST_OK;
    struct field field;
    *feature = (struct psti_feature){0};
    if (room != NULL)
        room->nbytes = 0;
    for (uint64_t at = span.begin; at < span.end && status == PST_OK;) {
        uint64_t begin = at;
        status = read_field(wire, &at, span.end, &field);
        if (status != PST_OK || field.number > 3)
            continue;
        if (field.type != LENGTH)
            return corrupt(wire, begin, "a list is no message");
        /* If a Feature has the same kind of list twice, the second continues the first; a list of
         * another kind replaces it. */
        if ((uint32_t)feature->kind != field.number) {
            *feature = (struct psti_feature){.kind = (enum psti_feature_kind)field.number};
            if (room != NULL)
                room->nbytes = 0;
        }
        status = read_list(wire, field.span, room, feature);
    }
    return status;
}

/* Copies a key and adds a NUL. */
static enum pst_status read_key(struct psti_wire *wire, struct psti_span span,
                                char key[PSTI_EXAMPLE_KEY_CAP])
{
    const uint8_t *bytes = NULL;
    uint64_t n = span.end - span.begin;
    if (n >= PSTI_EXAMPLE_KEY_CAP)
        return psti_fail_at(wire->err, PST_ERROR_LIMIT, ROOM, wire->window->source->path,
                            (int64_t)span.begin, "a key has %d bytes or more",
                            PSTI_EXAMPLE_KEY_CAP);
    enum pst_status status = psti_containers_wire_get(wire, span.begin, (size_t)n, &bytes);
    if (status != PST_OK)
        return status;
    if (n == 0 || memchr(bytes, '\0', (size_t)n) != NULL || !psti_format_is_utf8(bytes, (size_t)n))
        return corrupt(wire, span.begin, "a key is empty, or no UTF-8");
    memcpy(key, bytes, (size_t)n);
    key[n] = '\0';
    return PST_OK;
}

/* Reads an entry of the map: a key and its Feature. */
static enum pst_status read_entry(struct psti_wire *wire, struct psti_span span,
                                  psti_example_take *take, void *context)
{
    char key[PSTI_EXAMPLE_KEY_CAP];
    struct psti_span value = {span.end, span.end};
    enum pst_status status = PST_OK;
    bool has_value = false;
    struct field field;
    key[0] = '\0';
    for (uint64_t at = span.begin; at < span.end && status == PST_OK;) {
        uint64_t begin = at;
        status = read_field(wire, &at, span.end, &field);
        if (status != PST_OK || field.number > 2)
            continue;
        if (field.type != LENGTH || (field.number == 2 && has_value))
            return corrupt(wire, begin, "a feature has its value twice, or none of a known type");
        if (field.number == 1) {
            status = read_key(wire, field.span, key);
        } else {
            has_value = true;
            value = field.span;
        }
    }
    if (status == PST_OK && key[0] == '\0')
        return corrupt(wire, span.begin, "a feature has no key");
    return status == PST_OK ? take(context, key, value) : status;
}

/* Reads the map of all features. */
static enum pst_status read_features(struct psti_wire *wire, struct psti_span span,
                                     psti_example_take *take, void *context)
{
    enum pst_status status = PST_OK;
    struct field field;
    for (uint64_t at = span.begin; at < span.end && status == PST_OK;) {
        uint64_t begin = at;
        status = read_field(wire, &at, span.end, &field);
        if (status != PST_OK || field.number != 1)
            continue;
        status = field.type == LENGTH ? read_entry(wire, field.span, take, context)
                                      : corrupt(wire, begin, "a feature is no message");
    }
    return status;
}

enum pst_status psti_containers_example_read(struct psti_wire *wire, struct psti_span span,
                                             psti_example_take *take, void *context,
                                             struct psti_example_facts *facts)
{
    enum pst_status status = PST_OK;
    struct field field;
    *facts = (struct psti_example_facts){false, false};
    for (uint64_t at = span.begin; at < span.end && status == PST_OK;) {
        uint64_t begin = at;
        status = read_field(wire, &at, span.end, &field);
        if (status != PST_OK || field.number > 2)
            continue;
        if (field.type != LENGTH)
            return corrupt(wire, begin, "its features are no message");
        facts->is_sequence |= field.number == 2;
        facts->has_features |= field.number == 1;
        if (field.number == 1)
            status = read_features(wire, field.span, take, context);
    }
    return status;
}
