/* containers_arrow_values.c - reads values from buffers laid out as Columnar.rst says.
 *
 * In: buffers. Out: numbers, locations, and which values are missing.
 *
 * The validity buffer has one bit for each value, from the lowest bit on. It may be empty if no
 * value is missing. Values of bytes are delimited by two offsets, or located by a 16-byte view. */
#include "containers/arrow/containers_arrow_values.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

#define ROOM "containers"

enum { VALIDITY = 0, VALUES = 1, OFFSETS = 1, DATA = 2, VIEWS = 1 }; /* numbers of a field's
                                                                      * buffers */
enum { VIEW_NBYTES = 16, VIEW_INLINE_MAX = 12 };

static enum pst_status corrupt(const struct psti_arrow_leaf *leaf, uint64_t i, const char *what,
                               struct pst_error *err)
{
    uint64_t at = leaf->n_buffers > 0 ? leaf->buffers[leaf->n_buffers - 1].at : 0;
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, leaf->file->source->path, (int64_t)at,
                        "value %" PRIu64 " of a batch of the column '%.100s' %s", i,
                        leaf->field->name, what);
}

bool psti_containers_arrow_is_text(enum psti_arrow_type type)
{
    return type == PSTI_ARROW_UTF8 || type == PSTI_ARROW_LARGE_UTF8 || type == PSTI_ARROW_UTF8_VIEW;
}

bool psti_containers_arrow_is_bytes(enum psti_arrow_type type)
{
    return type == PSTI_ARROW_BINARY || type == PSTI_ARROW_LARGE_BINARY ||
           type == PSTI_ARROW_BINARY_VIEW || type == PSTI_ARROW_FIXED_BINARY ||
           psti_containers_arrow_is_text(type);
}

static bool is_large(enum psti_arrow_type type)
{
    return type == PSTI_ARROW_LARGE_BINARY || type == PSTI_ARROW_LARGE_UTF8 ||
           type == PSTI_ARROW_LARGE_LIST;
}

static bool is_view(enum psti_arrow_type type)
{
    return type == PSTI_ARROW_BINARY_VIEW || type == PSTI_ARROW_UTF8_VIEW;
}

static uint32_t int_bits(const struct psti_arrow_leaf *leaf)
{
    if (leaf->is_index)
        return leaf->field->index_bits;
    return leaf->field->type == PSTI_ARROW_BOOL ? 1 : leaf->field->bits;
}

/* Returns the bytes that the second buffer of a field must have. */
static uint64_t needed_nbytes(const struct psti_arrow_leaf *leaf)
{
    const struct psti_arrow_field *field = leaf->field;
    uint64_t n = leaf->n, nbytes = UINT64_MAX; /* n < 2^63 */
    uint64_t bits = 0;
    if (leaf->is_index || field->bits > 0 || field->type == PSTI_ARROW_BOOL)
        bits = int_bits(leaf);
    else if (is_view(field->type))
        bits = 8 * VIEW_NBYTES;
    else if (field->type == PSTI_ARROW_FIXED_BINARY)
        bits = 8 * (uint64_t)field->size;
    else if (n > 0 && (psti_containers_arrow_is_bytes(field->type) ||
                       field->type == PSTI_ARROW_LIST || field->type == PSTI_ARROW_LARGE_LIST))
        return psti_mul_u64(n + 1, is_large(field->type) ? 8 : 4, &nbytes) ? nbytes : UINT64_MAX;
    if (bits == 1)
        return n / 8 + (n % 8 != 0);
    return psti_mul_u64(n, bits / 8, &nbytes) ? nbytes : UINT64_MAX;
}

enum pst_status psti_containers_arrow_leaf(struct psti_arrow_file *file,
                                           const struct psti_arrow_schema *schema,
                                           const struct psti_arrow_batch *batch, uint32_t i_field,
                                           bool is_dictionary, struct psti_arrow_leaf *leaf,
                                           struct pst_error *err)
{
    const struct psti_arrow_array *array = &batch->arrays[i_field - batch->first];
    *leaf = (struct psti_arrow_leaf){
        .file = file,
        .field = &schema->fields[i_field],
        .buffers = batch->buffers + array->first,
        .n_buffers = array->n_buffers,
        .n = array->n,
        .has_nulls = array->has_nulls,
        .is_index = schema->fields[i_field].has_dictionary && !is_dictionary,
    };
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < leaf->n_buffers && status == PST_OK; i++)
        status = psti_containers_arrow_settle(file, &leaf->buffers[i], err);
    if (status != PST_OK || leaf->n_buffers == 0)
        return status;
    uint64_t validity = leaf->buffers[VALIDITY].decoded_nbytes;
    if (validity < leaf->n / 8 + (leaf->n % 8 != 0) && (validity > 0 || leaf->has_nulls))
        return corrupt(leaf, leaf->n, "and those before it have no bits that say which are missing",
                       err);
    if (leaf->n_buffers > 1 && leaf->buffers[VALUES].decoded_nbytes < needed_nbytes(leaf))
        return corrupt(leaf, leaf->n, "and those before it do not fit into their buffer", err);
    return PST_OK;
}

static enum pst_status get(struct psti_arrow_leaf *leaf, uint32_t i_buffer, uint64_t offset,
                           size_t n, const uint8_t **bytes, struct pst_error *err)
{
    return psti_containers_arrow_get(leaf->file, &leaf->buffers[i_buffer], offset, n, bytes, err);
}

enum pst_status psti_containers_arrow_is_null(struct psti_arrow_leaf *leaf, uint64_t i,
                                              bool *is_null, struct pst_error *err)
{
    const uint8_t *bits = NULL;
    *is_null = leaf->field->type == PSTI_ARROW_NULL;
    if (leaf->n_buffers == 0 || leaf->buffers[VALIDITY].decoded_nbytes == 0)
        return PST_OK;
    enum pst_status status = get(leaf, VALIDITY, i / 8, 1, &bits, err);
    if (status == PST_OK)
        *is_null = (*bits >> (i % 8) & 1) == 0;
    return status;
}

enum pst_status psti_containers_arrow_has_null(struct psti_arrow_leaf *leaf, uint64_t i, uint64_t n,
                                               bool *has, struct pst_error *err)
{
    const uint8_t *bits = NULL;
    enum pst_status status = PST_OK;
    *has = false;
    if (leaf->n_buffers == 0 || leaf->buffers[VALIDITY].decoded_nbytes == 0)
        return PST_OK;
    for (uint64_t end = i + n; i < end && !*has && status == PST_OK;) {
        uint64_t n_here = 8 - i % 8 < end - i ? 8 - i % 8 : end - i;
        uint32_t mask = ((1U << n_here) - 1) << (i % 8);
        status = get(leaf, VALIDITY, i / 8, 1, &bits, err);
        if (status == PST_OK)
            *has = (*bits & mask) != mask;
        i += n_here;
    }
    return status;
}

enum pst_status psti_containers_arrow_int(struct psti_arrow_leaf *leaf, uint64_t i, int64_t *out,
                                          struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    uint32_t bits = int_bits(leaf), nbytes = bits / 8;
    bool is_signed = leaf->is_index ? leaf->field->index_is_signed : leaf->field->is_signed;
    *out = 0;
    if (bits == 1) {
        enum pst_status status = get(leaf, VALUES, i / 8, 1, &bytes, err);
        if (status == PST_OK)
            *out = *bytes >> (i % 8) & 1;
        return status;
    }
    enum pst_status status = get(leaf, VALUES, i * nbytes, nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    uint64_t value = 0;
    memcpy(&value, bytes, nbytes);
    if (is_signed && bits < 64 && value >> (bits - 1) != 0)
        value |= UINT64_MAX << bits;
    if (!is_signed && value > INT64_MAX)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, leaf->file->source->path, -1,
                            "the column '%.100s' has the number %" PRIu64
                            ", and 2^63 - 1 is the largest that is read: leave the column out, as "
                            "in fields={\"%.60s\": None}",
                            leaf->field->name, value, leaf->field->name);
    *out = (int64_t)value;
    return PST_OK;
}

/* Converts an IEEE 754 half-precision number. */
static double half_to_double(uint16_t half)
{
    uint64_t sign = (uint64_t)(half >> 15) << 63, fraction = half & 0x3FF,
             exponent = half >> 10 & 31;
    uint64_t bits = sign;
    double value;
    if (exponent == 31) {
        bits |= UINT64_C(0x7FF) << 52 | fraction << 42;
    } else if (exponent > 0) {
        bits |= (exponent - 15 + 1023) << 52 | fraction << 42;
    } else {
        value = (double)fraction / (1 << 24);
        return sign != 0 ? -value : value;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

enum pst_status psti_containers_arrow_float(struct psti_arrow_leaf *leaf, uint64_t i, double *out,
                                            struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    float single;
    uint32_t nbytes = leaf->field->bits / 8U;
    enum pst_status status = get(leaf, VALUES, i * nbytes, nbytes, &bytes, err);
    *out = 0;
    if (status != PST_OK)
        return status;
    if (nbytes == 2) {
        *out = half_to_double(psti_load_u16(bytes));
    } else if (nbytes == 4) {
        memcpy(&single, bytes, 4);
        *out = (double)single;
    } else {
        memcpy(out, bytes, 8);
    }
    return PST_OK;
}

enum pst_status psti_containers_arrow_offset(struct psti_arrow_leaf *leaf, uint64_t i,
                                             uint64_t *out, struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    size_t nbytes = is_large(leaf->field->type) ? 8 : 4;
    enum pst_status status = get(leaf, OFFSETS, i * nbytes, nbytes, &bytes, err);
    if (status != PST_OK)
        return status;
    *out = nbytes == 8 ? psti_load_u64(bytes) : psti_load_u32(bytes);
    return *out <= (nbytes == 8 ? (uint64_t)INT64_MAX : INT32_MAX)
               ? PST_OK
               : corrupt(leaf, i, "begins at a negative offset", err);
}

static enum pst_status place_view(struct psti_arrow_leaf *leaf, uint64_t i,
                                  struct psti_arrow_place *place, struct pst_error *err)
{
    const uint8_t *view = NULL;
    enum pst_status status = get(leaf, VIEWS, i * VIEW_NBYTES, VIEW_NBYTES, &view, err);
    if (status != PST_OK)
        return status;
    uint32_t nbytes = psti_load_u32(view), i_buffer = psti_load_u32(view + 8);
    uint32_t offset = psti_load_u32(view + 12);
    if (nbytes <= VIEW_INLINE_MAX) {
        *place = (struct psti_arrow_place){&leaf->buffers[VIEWS], i * VIEW_NBYTES + 4, nbytes};
        return PST_OK;
    }
    if (nbytes > INT32_MAX || i_buffer >= leaf->n_buffers - DATA || offset > INT32_MAX)
        return corrupt(leaf, i, "has a view that leads nowhere", err);
    *place = (struct psti_arrow_place){&leaf->buffers[DATA + i_buffer], offset, nbytes};
    return PST_OK;
}

enum pst_status psti_containers_arrow_place(struct psti_arrow_leaf *leaf, uint64_t i,
                                            struct psti_arrow_place *place, struct pst_error *err)
{
    const struct psti_arrow_field *field = leaf->field;
    uint64_t begin = 0, end = 0;
    enum pst_status status = PST_OK;
    *place = (struct psti_arrow_place){0};
    if (field->type == PSTI_ARROW_FIXED_BINARY) {
        *place = (struct psti_arrow_place){&leaf->buffers[VALUES], i * field->size, field->size};
    } else if (is_view(field->type)) {
        status = place_view(leaf, i, place, err);
    } else {
        status = psti_containers_arrow_offset(leaf, i, &begin, err);
        if (status == PST_OK)
            status = psti_containers_arrow_offset(leaf, i + 1, &end, err);
        if (status == PST_OK && end < begin)
            status = corrupt(leaf, i, "ends before it begins", err);
        if (status == PST_OK)
            *place = (struct psti_arrow_place){&leaf->buffers[DATA], begin, end - begin};
    }
    if (status == PST_OK &&
        !psti_range_fits(place->offset, place->nbytes, place->buffer->decoded_nbytes))
        status = corrupt(leaf, i, "leads out of its buffer", err);
    return status;
}
