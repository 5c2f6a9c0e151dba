/* format_text.c - checks names and fields by the rules of the data set format. Pure functions:
 * writers check them before they store them, readers check those that they find. Returned texts are
 * static and complete a sentence that begins with "the name ...". */
#include "format/format_dataset.h"
#include "format/format_geometry.h"

#include <string.h>

size_t psti_format_utf8_sequence(const void *bytes, size_t n, uint32_t *code)
{
    const uint8_t *p = bytes;
    uint8_t lead = p[0];
    if (lead < 0x80) {
        *code = lead;
        return 1;
    }
    size_t nbytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || nbytes > n)
        return 0;
    uint32_t value = lead & (0x7Fu >> nbytes);
    for (size_t i = 1; i < nbytes; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3F);
    }
    /* Refuses overlong forms, surrogates, and code points beyond the last plane. */
    if ((nbytes == 3 && value < 0x800) || (nbytes == 4 && value < 0x10000) || value > 0x10FFFF ||
        (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *code = value;
    return nbytes;
}

size_t psti_format_utf8_valid(const void *bytes, size_t nbytes)
{
    const uint8_t *p = bytes;
    size_t i = 0, n = 1;
    while (i < nbytes && n > 0) {
        uint64_t word = UINT64_MAX;
        uint32_t code;
        if (nbytes - i >= 8)
            memcpy(&word, p + i, 8);
        n = (word & 0x8080808080808080u) == 0 ? 8
                                              : psti_format_utf8_sequence(p + i, nbytes - i, &code);
        i += n;
    }
    return i;
}

bool psti_format_is_utf8(const void *bytes, size_t nbytes)
{
    return psti_format_utf8_valid(bytes, nbytes) == nbytes;
}

const char *psti_format_name_problem(const char *name, size_t nbytes)
{
    if (nbytes == 0)
        return "is empty";
    if (nbytes >= PSTI_NAME_LIMIT)
        return "is longer than 4095 bytes";
    const uint8_t *p = (const uint8_t *)name, *end = p + nbytes;
    while (p < end) {
        uint32_t code;
        size_t n = psti_format_utf8_sequence(p, (size_t)(end - p), &code);
        if (n == 0)
            return "is not UTF-8";
        if (code < 0x20 || (code >= 0x7F && code <= 0x9F))
            return "holds a control character";
        p += n;
    }
    return NULL;
}

const char *psti_format_field_name_problem(const char *name, size_t capacity)
{
    size_t n = strnlen(name, capacity);
    if (n == 0)
        return "has an empty name";
    if (n == capacity)
        return "has a name that is longer than 63 bytes";
    /* isalpha depends on the locale, so letters are compared directly. */
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool later = (c >= '0' && c <= '9') || c == '.' || c == '-';
        if (!letter && !(i > 0 && later))
            return "has a name that is not of the form [A-Za-z_][A-Za-z0-9_.-]*";
    }
    if (strcmp(name, "index") == 0)
        return "has the reserved name \"index\"";
    return NULL;
}

const char *psti_format_field_problem(const struct pst_field *field)
{
    const char *problem = psti_format_field_name_problem(field->name, sizeof field->name);
    if (problem != NULL)
        return problem;
    if (field->type < PST_FIELD_IMAGE || field->type > PST_FIELD_ARRAY)
        return "has an unknown type";
    if (field->n_variants < 1 || field->n_variants > PST_MAX_VARIANTS)
        return "must have 1 to 8 variants";
    if (!psti_format_has_items(field->type) && field->n_variants != 1)
        return "holds a number and can have only one variant";
    if (field->n_classes < 0 || (field->n_classes > 0 && !psti_format_may_have_classes(field)))
        return "has a number of classes that its type does not allow";
    bool has_points = field->type == PST_FIELD_KEYPOINTS;
    if (has_points && field->n_classes > PST_MAX_POINTS)
        return "has more than 4096 points in an instance";
    uint64_t n_points = field->n_classes > 0 ? (uint64_t)field->n_classes : PST_MAX_POINTS;
    if (field->n_pairs_plus_1 > 0 && (!has_points || field->n_pairs_plus_1 - 1 > n_points / 2))
        return "has more pairs of points than an instance has points for";
    if ((int)field->made_for < 0 || field->made_for > PST_MADE_FOR_STORED ||
        (field->made_for != PST_MADE_FOR_UNKNOWN && !psti_format_lies_on_image(field->type)))
        return "says that it was made for a picture in a way that its type does not allow";
    if (field->type != PST_FIELD_ARRAY)
        return field->dtype != 0 || field->ndim != 0 ? "has a dtype or shape but is no array"
                                                     : NULL;
    if (pst_dtype_nbytes(field->dtype) == 0)
        return "has an unknown dtype";
    return field->ndim > PST_MAX_NDIM ? "has more than 8 dimensions" : NULL;
}
