/* format_labels.c - fields whose values are class labels: integers, and arrays of integers; and
 * keypoints, whose points have names. Pure functions; any thread. Elements are little-endian, as
 * the data set stores them, and need not be aligned. */
#include "format/format_dataset.h"

#include "base/bits.h"

#include <string.h>

static bool is_whole(enum pst_dtype dtype)
{
    switch (dtype) {
    case PST_DTYPE_U8:
    case PST_DTYPE_U16:
    case PST_DTYPE_U32:
    case PST_DTYPE_U64:
    case PST_DTYPE_I8:
    case PST_DTYPE_I16:
    case PST_DTYPE_I32:
    case PST_DTYPE_I64:
        return true;
    default:
        return false;
    }
}

bool psti_format_may_have_classes(const struct pst_field *field)
{
    return field->type == PST_FIELD_INT || field->type == PST_FIELD_KEYPOINTS ||
           (field->type == PST_FIELD_ARRAY && is_whole(field->dtype));
}

uint16_t psti_format_fields_minor(const struct pst_field *fields, uint32_t n_fields)
{
    uint16_t minor = PSTI_DATASET_MINOR_PLAIN;
    for (uint32_t i = 0; i < n_fields; i++) {
        if (fields[i].type == PST_FIELD_KEYPOINTS &&
            (fields[i].n_classes > 0 || fields[i].n_pairs_plus_1 > 0))
            return PSTI_DATASET_MINOR_PAIRS;
        if (fields[i].type == PST_FIELD_ARRAY && fields[i].n_classes > 0)
            minor = PSTI_DATASET_MINOR_CLASSES;
    }
    return minor;
}

/* Returns the element as an integer, or INT64_MAX if it is larger. */
static int64_t load(enum pst_dtype dtype, const void *element)
{
    const uint8_t *p = element;
    uint64_t wide;
    switch (dtype) {
    case PST_DTYPE_U8:
        return p[0];
    case PST_DTYPE_I8:
        return (int8_t)p[0];
    case PST_DTYPE_U16:
        return psti_load_u16(p);
    case PST_DTYPE_I16:
        return (int16_t)psti_load_u16(p);
    case PST_DTYPE_U32:
        return psti_load_u32(p);
    case PST_DTYPE_I32:
        return (int32_t)psti_load_u32(p);
    case PST_DTYPE_I64:
        return (int64_t)psti_load_u64(p);
    default:
        wide = psti_load_u64(p);
        return wide > INT64_MAX ? INT64_MAX : (int64_t)wide;
    }
}

static void store(size_t nbytes, void *element, int64_t label)
{
    uint8_t all[8];
    psti_store_u64(all, (uint64_t)label); /* little-endian: the low bytes come first */
    memcpy(element, all, nbytes);
}

uint64_t psti_format_find_stranger(const struct pst_field *field, const void *elements,
                                   uint64_t nbytes, int64_t *label)
{
    const uint8_t *p = elements;
    size_t width = pst_dtype_nbytes(field->dtype);
    uint64_t n = nbytes / width;
    for (uint64_t i = 0; i < n; i++) {
        *label = load(field->dtype, p + i * width);
        if (*label < 0 || *label >= field->n_classes)
            return i;
    }
    return n;
}

bool psti_format_map_labels(const struct pst_field *field, void *elements, uint64_t nbytes,
                            const int64_t *map, int64_t n_map)
{
    uint8_t *p = elements;
    size_t width = pst_dtype_nbytes(field->dtype);
    uint64_t n = nbytes / width;
    for (uint64_t i = 0; i < n; i++) {
        int64_t label = load(field->dtype, p + i * width);
        if (label < 0 || label >= n_map)
            return false;
        store(width, p + i * width, map[label]);
        if (load(field->dtype, p + i * width) != map[label])
            return false;
    }
    return true;
}
