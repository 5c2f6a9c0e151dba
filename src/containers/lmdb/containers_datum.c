/* containers_datum.c - parses a Datum, a message of protobuf, from its wire format.
 *
 * In: a range of a file. Out: the kind of Datum, its shape, and where its numbers lie.
 *
 * All fields of a Datum have numbers below 16, so the tag of each is one byte: 8 times the field
 * number plus the wire type. If a field occurs twice, the last one counts. */
#include "containers/lmdb/containers_datum.h"

#include "containers/table/containers_guess.h"

#include "base/checked.h"
#include "base/codings/varint.h"

enum {
    CHANNELS = 1 << 3,
    HEIGHT = 2 << 3,
    WIDTH = 3 << 3,
    DATA = 4 << 3 | 2,
    LABEL = 5 << 3,
    FLOAT = 6 << 3 | 5, /* a single float */
    FLOATS = 6 << 3 | 2,
    ENCODED = 7 << 3,
    FIELD_NBYTES = 11, /* maximum number of bytes of a tag and a varint */
    MAX_FIELDS = 64,   /* maximum number of fields of a message; unpacked floats do not count */
};

/* State of the parser of one message. */
struct datum_message {
    struct psti_window *window;
    uint64_t at, end;
    uint64_t shape[3];
    uint64_t data, data_nbytes, floats, floats_nbytes, n_apart;
    int64_t label;
    uint32_t n_fields;
    bool has_data, has_floats, is_encoded;
};

/* Stores a field of the message. field: its protobuf tag byte. number: the field's value, or the
 * length of its bytes. False: a Datum has no such field, or the field does not allow this
 * number. */
static bool take_field(struct datum_message *message, uint8_t field, uint64_t number)
{
    switch (field) {
    case CHANNELS:
    case HEIGHT:
    case WIDTH:
        message->shape[(field >> 3) - 1] = number;
        return number <= INT32_MAX;
    case LABEL:
        message->label = (int32_t)(uint32_t)number;
        return true;
    case ENCODED:
        message->is_encoded = number != 0;
        return number <= 1;
    case DATA:
        message->has_data = true;
        message->data = message->at;
        message->data_nbytes = number;
        break;
    case FLOATS:
        message->has_floats = true;
        message->floats = message->at;
        message->floats_nbytes = number;
        break;
    default:
        return false;
    }
    if (number > message->end - message->at)
        return false;
    message->at += number;
    return true;
}

/* Parses the next field. *is_one: false if a Datum has no such field. */
static enum pst_status next_field(struct datum_message *message, bool *is_one,
                                  struct pst_error *err)
{
    uint64_t left = message->end - message->at, number = 0;
    size_t n = left < FIELD_NBYTES ? (size_t)left : FIELD_NBYTES;
    const uint8_t *bytes = NULL;
    *is_one = false;
    enum pst_status status =
        psti_containers_window_get(message->window, message->at, n, &bytes, err);
    if (status != PST_OK)
        return status;
    if (bytes[0] == FLOAT) {
        *is_one = n >= 5;
        message->at += 5;
        message->n_apart++;
        return PST_OK;
    }
    uint8_t field = bytes[0];
    size_t n_number = psti_varint(bytes + 1, n - 1, &number);
    if (n_number == 0 || ++message->n_fields > MAX_FIELDS)
        return PST_OK;
    message->at += 1 + n_number;
    *is_one = take_field(message, field, number);
    return PST_OK;
}

/* True if the shape has exactly n elements. */
static bool has_shape(const struct datum_message *message, uint64_t n)
{
    uint64_t product = 1;
    for (int i = 0; i < 3; i++)
        if (message->shape[i] == 0 || !psti_mul_u64(product, message->shape[i], &product))
            return false;
    return product == n;
}

/* Decides from all parsed fields what kind of Datum the value is. */
static enum pst_status decide(const struct datum_message *message, struct psti_datum *datum,
                              struct pst_error *err)
{
    enum pst_status status = PST_OK;
    datum->offset = message->data;
    datum->nbytes = message->data_nbytes;
    for (int i = 0; i < 3; i++)
        datum->shape[i] = (uint32_t)message->shape[i];
    datum->label = message->label;
    if (message->has_data && !message->is_encoded && has_shape(message, message->data_nbytes)) {
        datum->kind = PSTI_DATUM_PIXELS;
    } else if (message->has_data && message->data_nbytes > 0) {
        const uint8_t *head = NULL;
        size_t n = PSTI_GUESS_NBYTES;
        if (message->data_nbytes < n)
            n = (size_t)message->data_nbytes;
        status = psti_containers_window_get(message->window, message->data, n, &head, err);
        if (status == PST_OK && psti_containers_guess(head, n) == PST_FIELD_IMAGE)
            datum->kind = PSTI_DATUM_IMAGE;
    } else if (message->has_floats && message->n_apart == 0 && message->floats_nbytes % 4 == 0 &&
               has_shape(message, message->floats_nbytes / 4)) {
        datum->kind = PSTI_DATUM_FLOATS;
        datum->offset = message->floats;
        datum->nbytes = message->floats_nbytes;
    } else if (message->n_apart > 0 && !message->has_floats &&
               has_shape(message, message->n_apart)) {
        datum->kind = PSTI_DATUM_APART;
    }
    return status;
}

enum pst_status psti_containers_datum_read(struct psti_window *window, uint64_t offset,
                                           uint64_t nbytes, struct psti_datum *datum,
                                           struct pst_error *err)
{
    struct datum_message message = {.window = window, .at = offset, .end = offset + nbytes};
    *datum = (struct psti_datum){.kind = PSTI_DATUM_NONE};
    while (message.at < message.end) {
        bool is_one = false;
        enum pst_status status = next_field(&message, &is_one, err);
        if (status != PST_OK || !is_one)
            return status;
    }
    return decide(&message, datum, err);
}
