/* containers_mds_values.c - the encodings of MDS: types of columns, and values of samples.
 *
 * In: names of encodings, and bytes through a window. Out: columns and values. Only numbers, short
 * texts and the headers of arrays are read; other values are given by their location. */
#include "containers/mds/containers_mds_int.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "containers/table/containers_guess.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "containers"
enum { NUMBER_NBYTES_MAX = 63, DIMS_MAX = 63, ARRAY_HEAD_NBYTES = 2 + 8 * DIMS_MAX };

static const struct {
    const char *name;
    enum psti_mds_kind kind;
    uint8_t nbytes; /* bytes of each value; 0: they vary */
} encodings[] = {
    {"bytes", PSTI_MDS_BYTES, 0},      {"str", PSTI_MDS_TEXT, 0},
    {"str_decimal", PSTI_MDS_TEXT, 0}, {"json", PSTI_MDS_JSON, 0},
    {"jpeg", PSTI_MDS_IMAGE, 0},       {"png", PSTI_MDS_IMAGE, 0},
    {"int", PSTI_MDS_INT, 8},          {"int8", PSTI_MDS_INT, 1},
    {"int16", PSTI_MDS_INT, 2},        {"int32", PSTI_MDS_INT, 4},
    {"int64", PSTI_MDS_INT, 8},        {"uint8", PSTI_MDS_UINT, 1},
    {"uint16", PSTI_MDS_UINT, 2},      {"uint32", PSTI_MDS_UINT, 4},
    {"uint64", PSTI_MDS_UINT, 8},      {"float16", PSTI_MDS_FLOAT, 2},
    {"float32", PSTI_MDS_FLOAT, 4},    {"float64", PSTI_MDS_FLOAT, 8},
    {"str_int", PSTI_MDS_STR_INT, 0},  {"str_float", PSTI_MDS_STR_FLOAT, 0},
    {"ndarray", PSTI_MDS_NDARRAY, 0},  {"pil", PSTI_MDS_PIL, 0},
    {"pkl", PSTI_MDS_CODE, 0},         {"jpeg_array", PSTI_MDS_IMAGES, 0},
    {"jpegarray", PSTI_MDS_IMAGES, 0}, {"list[jpeg]", PSTI_MDS_IMAGES, 0},
    {"list[png]", PSTI_MDS_IMAGES, 0}, {"list[pil]", PSTI_MDS_IMAGES, 0},
};

/* Element types of ndarray, by their numbers in the header of a value. */
static const struct {
    uint8_t number;
    enum pst_dtype dtype;
} dtypes[] = {
    {8, PST_DTYPE_U8},   {9, PST_DTYPE_I8},   {16, PST_DTYPE_U16}, {17, PST_DTYPE_I16},
    {18, PST_DTYPE_F16}, {32, PST_DTYPE_U32}, {33, PST_DTYPE_I32}, {34, PST_DTYPE_F32},
    {64, PST_DTYPE_U64}, {65, PST_DTYPE_I64}, {66, PST_DTYPE_F64},
};

/* Pillow modes whose pixels are interleaved 8-bit channels. */
static const struct {
    const char *mode;
    uint8_t n_channels;
} modes[] = {{"L", 1}, {"LA", 2}, {"RGB", 3}, {"RGBA", 4}};

static enum pst_status bad_encoding(const char *path, const struct psti_mds_column *column,
                                    enum pst_status status, const char *what, struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, path, -1, "column \"%.100s\": the encoding '%.100s' %s",
                        column->name, column->encoding, what);
}

/* Parses "DTYPE" or "DTYPE:N,N", the part of an encoding's name behind "ndarray:". */
static const char *read_static_array(struct psti_mds_column *column, const char *text)
{
    char name[16];
    size_t n = strcspn(text, ":");
    if (n >= sizeof name)
        return "names no type of elements";
    memcpy(name, text, n);
    name[n] = '\0';
    enum pst_dtype dtype = pst_dtype_from_name(name);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            column->dtype = dtype;
    if (column->dtype == 0)
        return "names no type of elements";
    for (const char *at = text + n; *at != '\0';) {
        char *end;
        if (column->ndim == PST_MAX_NDIM)
            return "has more than 8 dimensions";
        if (at[1] < '0' || at[1] > '9') /* strtoull would also accept signs and spaces */
            return "has no legal shape";
        unsigned long long dim = strtoull(at + 1, &end, 10);
        if (dim < 1 || dim > UINT32_MAX || (*end != '\0' && *end != ','))
            return "has no legal shape";
        column->shape[column->ndim++] = (uint32_t)dim;
        at = end;
    }
    return NULL;
}

/* Computes the bytes of an array. False: the number overflows 64 bits. */
static bool array_nbytes(enum pst_dtype dtype, const uint32_t *shape, uint8_t ndim,
                         uint64_t *nbytes)
{
    *nbytes = pst_dtype_nbytes(dtype);
    for (uint8_t i = 0; i < ndim; i++)
        if (!psti_mul_u64(*nbytes, shape[i], nbytes))
            return false;
    return true;
}

enum pst_status psti_containers_mds_encoding(const char *path, struct psti_mds_column *column,
                                             struct pst_error *err)
{
    size_t n = strcspn(column->encoding, ":"), i = 0, n_all = sizeof encodings / sizeof *encodings;
    bool has_more = column->encoding[n] == ':';
    const char *problem = NULL;
    uint64_t nbytes = 0;
    while (i < n_all &&
           (strlen(encodings[i].name) != n || memcmp(encodings[i].name, column->encoding, n) != 0))
        i++;
    if (i == n_all)
        return bad_encoding(path, column, PST_ERROR_UNSUPPORTED, "is not known", err);
    column->kind = encodings[i].kind;
    nbytes = encodings[i].nbytes;
    if (column->kind == PSTI_MDS_NDARRAY && has_more)
        problem = read_static_array(column, column->encoding + n + 1);
    else if (has_more && column->kind != PSTI_MDS_IMAGE) /* "jpeg:90" */
        problem = "has a part behind its colon";
    if (problem != NULL)
        return bad_encoding(path, column, PST_ERROR_UNSUPPORTED, problem, err);
    if (column->ndim > 0 && !array_nbytes(column->dtype, column->shape, column->ndim, &nbytes))
        return bad_encoding(path, column, PST_ERROR_CORRUPT, "has too large a shape", err);
    if (nbytes != column->nbytes)
        return bad_encoding(path, column, PST_ERROR_CORRUPT, "does not fit the column's size", err);
    return PST_OK;
}

static bool is_fixed(const struct psti_mds_column *column)
{
    return column->kind == PSTI_MDS_INT || column->kind == PSTI_MDS_UINT ||
           column->kind == PSTI_MDS_FLOAT;
}

/* Fills in an error about the value of a column in sample i_sample. */
static enum pst_status bad_value(const struct psti_mds_column *column,
                                 const struct psti_window *window, uint64_t i_sample,
                                 enum pst_status status, const char *what, struct pst_error *err)
{
    return psti_fail_at(err, status, ROOM, window->source->path, (int64_t)column->offset,
                        "sample %" PRIu64 ", column \"%.100s\" (%.40s): %s", i_sample, column->name,
                        column->encoding, what);
}

/* Sets the value's type and location. For an array whose header is stored with each value, reads
 * element type and shape from it. */
static enum pst_status read_array(const struct psti_mds_column *column, struct psti_window *window,
                                  uint64_t i_sample, enum pst_dtype *dtype,
                                  struct psti_container_value *value, struct pst_error *err)
{
    const uint8_t *head = NULL;
    size_t n = column->length < ARRAY_HEAD_NBYTES ? (size_t)column->length : ARRAY_HEAD_NBYTES;
    size_t at = 0;
    uint64_t nbytes = 0;
    enum pst_status status = psti_containers_window_get(window, column->offset, n, &head, err);
    if (status != PST_OK)
        return status;
    *dtype = column->dtype;
    if (column->dtype == 0 && n > 0)
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
            if (dtypes[i].number == head[0])
                *dtype = dtypes[i].dtype;
    if (*dtype == 0)
        return bad_value(column, window, i_sample, PST_ERROR_CORRUPT,
                         "the value names no type of elements", err);
    at += column->dtype == 0;
    value->ndim = column->ndim;
    memcpy(value->shape, column->shape, sizeof value->shape);
    if (column->ndim == 0) {
        size_t n_dims = at < n ? head[at] >> 2 : 0, size = at < n ? (size_t)1 << (head[at] & 3) : 0;
        if (at >= n || n_dims == 0 || n_dims * size > n - at - 1)
            return bad_value(column, window, i_sample, PST_ERROR_CORRUPT,
                             "the value has no legal shape", err);
        if (n_dims > PST_MAX_NDIM)
            return bad_value(column, window, i_sample, PST_ERROR_UNSUPPORTED,
                             "the array has more than 8 dimensions", err);
        at++;
        for (size_t i = 0; i < n_dims; i++, at += size) {
            uint64_t dim = 0;
            memcpy(&dim, head + at, size);
            if (dim > UINT32_MAX)
                return bad_value(column, window, i_sample, PST_ERROR_LIMIT,
                                 "the array has a dimension of 2^32 or more", err);
            value->shape[i] = (uint32_t)dim;
        }
        value->ndim = (uint8_t)n_dims;
    }
    if (!array_nbytes(*dtype, value->shape, value->ndim, &nbytes) || nbytes != column->length - at)
        return bad_value(column, window, i_sample, PST_ERROR_CORRUPT,
                         "the array's shape does not fit its size", err);
    value->offset = column->offset + at;
    value->nbytes = value->decoded_nbytes = nbytes;
    return PST_OK;
}

/* Reads the header of raw pixels: u32 width, height and length of the mode's name, then the name.
 * The rows follow. */
static enum pst_status read_pixels(const struct psti_mds_column *column, struct psti_window *window,
                                   uint64_t i_sample, struct psti_container_value *value,
                                   struct pst_error *err)
{
    const uint8_t *head = NULL;
    size_t n = column->length < 20 ? (size_t)column->length : 20;
    uint32_t n_mode = 0;
    uint64_t nbytes = 0;
    enum pst_status status = psti_containers_window_get(window, column->offset, n, &head, err);
    if (status != PST_OK)
        return status;
    if (n >= 12)
        n_mode = psti_load_u32(head + 8);
    if (n_mode == 0 || n_mode > n - 12)
        return bad_value(column, window, i_sample, PST_ERROR_CORRUPT, "the value is no image", err);
    value->ndim = 3;
    value->shape[0] = psti_load_u32(head + 4);
    value->shape[1] = psti_load_u32(head);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strlen(modes[i].mode) == n_mode && memcmp(modes[i].mode, head + 12, n_mode) == 0)
            value->shape[2] = modes[i].n_channels;
    if (value->shape[2] == 0)
        return bad_value(column, window, i_sample, PST_ERROR_UNSUPPORTED,
                         "raw pixels of the modes L, LA, RGB and RGBA can be read, and these have "
                         "another one: leave the column out by None, or take it as \"bytes\"",
                         err);
    if (!array_nbytes(PST_DTYPE_U8, value->shape, 3, &nbytes) ||
        nbytes != column->length - 12 - n_mode)
        return bad_value(column, window, i_sample, PST_ERROR_CORRUPT,
                         "the image's size does not fit its bytes", err);
    value->offset = column->offset + 12 + n_mode;
    value->nbytes = value->decoded_nbytes = nbytes;
    return PST_OK;
}

/* Describes the column that an encoding becomes, for psti_containers_columns_add. */
static enum pst_status describe(struct psti_mds_column *column, struct psti_window *window,
                                struct psti_column *out, struct pst_error *err)
{
    static const enum pst_field_type types[] = {
        [PSTI_MDS_BYTES] = PST_FIELD_BYTES,
        [PSTI_MDS_TEXT] = PST_FIELD_TEXT,
        [PSTI_MDS_JSON] = PST_FIELD_JSON,
        [PSTI_MDS_IMAGE] = PST_FIELD_IMAGE,
        [PSTI_MDS_INT] = PST_FIELD_INT,
        [PSTI_MDS_UINT] = PST_FIELD_INT,
        [PSTI_MDS_FLOAT] = PST_FIELD_FLOAT,
        [PSTI_MDS_STR_INT] = PST_FIELD_INT,
        [PSTI_MDS_STR_FLOAT] = PST_FIELD_FLOAT,
        [PSTI_MDS_NDARRAY] = PST_FIELD_ARRAY,
        [PSTI_MDS_PIL] = PST_FIELD_ARRAY,
        /* Not readable by default. Declared as JSON, because no user's rule makes JSON of it: if
         * the type is still JSON after the rules, no rule made it bytes, and the column is
         * refused. */
        [PSTI_MDS_CODE] = PST_FIELD_JSON,
        [PSTI_MDS_IMAGES] = PST_FIELD_JSON,
    };
    struct psti_container_value value = {0};
    const uint8_t *head = NULL;
    enum pst_status status = PST_OK;
    *out = (struct psti_column){.name = column->name,
                                .type = types[column->kind],
                                .dtype = column->dtype,
                                .ndim = column->ndim,
                                .is_guess = !is_fixed(column)};
    memcpy(out->shape, column->shape, sizeof out->shape);
    if (column->kind == PSTI_MDS_PIL)
        out->dtype = column->dtype = PST_DTYPE_U8;
    if (column->kind == PSTI_MDS_NDARRAY && column->dtype == 0)
        status = read_array(column, window, 0, &out->dtype, &value, err);
    if (column->kind == PSTI_MDS_BYTES) {
        size_t n = column->length < PSTI_GUESS_NBYTES ? (size_t)column->length : PSTI_GUESS_NBYTES;
        status = psti_containers_window_get(window, column->offset, n, &head, err);
        if (status == PST_OK)
            out->type = psti_containers_guess(head, n);
    }
    if (out->type == PST_FIELD_IMAGE && psti_containers_guess_mask(column->name) &&
        strcmp(column->encoding, "png") == 0)
        out->type = PST_FIELD_MASK;
    return status;
}

/* Returns why the column's values cannot have the type of its field; NULL if they can. */
static const char *type_problem(const struct psti_mds_column *column)
{
    enum pst_field_type type = column->type;
    bool is_number = type == PST_FIELD_INT || type == PST_FIELD_FLOAT;
    switch (column->kind) {
    case PSTI_MDS_CODE:
        return type == PST_FIELD_BYTES
                   ? NULL
                   : "is code of Python, which is not run: leave the column out by None, or take "
                     "it as \"bytes\"";
    case PSTI_MDS_IMAGES:
        return type == PST_FIELD_BYTES
                   ? NULL
                   : "holds several images in a value, which no field can hold: leave the column "
                     "out by None, or take it as \"bytes\"";
    case PSTI_MDS_INT:
    case PSTI_MDS_UINT:
        return type == PST_FIELD_INT ? NULL : "can only be an int";
    case PSTI_MDS_FLOAT:
        return type == PST_FIELD_FLOAT ? NULL : "can only be a float";
    case PSTI_MDS_NDARRAY:
    case PSTI_MDS_PIL:
        return type == PST_FIELD_ARRAY || type == PST_FIELD_BYTES
                   ? NULL
                   : "can only be an array, or bytes with their header";
    case PSTI_MDS_IMAGE:
        return is_number || type == PST_FIELD_ARRAY ? "can be no number and no array" : NULL;
    default:
        return type == PST_FIELD_ARRAY ? "can be no array" : NULL;
    }
}

enum pst_status psti_containers_mds_declare(struct psti_mds_column *column,
                                            struct psti_window *window,
                                            struct psti_containers_columns *columns,
                                            struct pst_error *err)
{
    struct psti_column out;
    /* Types that a rule may give to values of bytes. */
    static const enum pst_field_type others[] = {PST_FIELD_IMAGE, PST_FIELD_MASK, PST_FIELD_AUDIO,
                                                 PST_FIELD_BYTES, PST_FIELD_TEXT, PST_FIELD_FLOAT,
                                                 PST_FIELD_INT};
    uint32_t n = !is_fixed(column) ? sizeof others / sizeof *others : 0;
    enum pst_status status = describe(column, window, &out, err);
    if (status == PST_OK)
        status = psti_containers_guess_add(columns, &out, others, n, &column->i_field, err);
    if (status != PST_OK || column->i_field == PSTI_COLUMN_LEFT_OUT)
        return status;
    column->type = psti_containers_columns_type(columns, column->i_field);
    const char *problem = type_problem(column);
    if (problem != NULL)
        return bad_encoding(window->source->path, column, PST_ERROR_UNSUPPORTED, problem, err);
    column->first_dtype = out.dtype;
    return PST_OK;
}

/* Converts an IEEE 754 half-precision number. */
static double half(uint16_t bits)
{
    uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 0 ? fraction * 0x1p-24 : 0;
    if (exponent != 0) {
        uint64_t wide = (uint64_t)(exponent == 31 ? 2047 : exponent + 1008) << 52;
        wide |= (uint64_t)fraction << 42;
        memcpy(&value, &wide, sizeof value);
    }
    return bits >> 15 != 0 ? -value : value;
}

/* Reads a number of a fixed size. False: it does not fit into an int field. */
static bool read_fixed(const struct psti_mds_column *column, const uint8_t *bytes,
                       struct psti_container_value *value)
{
    uint64_t raw = 0;
    uint32_t shift = 64 - 8 * column->nbytes;
    memcpy(&raw, bytes, column->nbytes);
    value->int_value = (int64_t)raw;
    if (column->kind == PSTI_MDS_INT)
        value->int_value = (int64_t)(raw << shift) >> shift;
    if (column->kind != PSTI_MDS_FLOAT)
        return column->kind == PSTI_MDS_INT || raw <= INT64_MAX;
    uint32_t low = (uint32_t)raw;
    float single;
    memcpy(&single, &low, sizeof single);
    if (column->nbytes == 2)
        value->float_value = half((uint16_t)raw);
    else if (column->nbytes == 4)
        value->float_value = (double)single;
    else
        memcpy(&value->float_value, bytes, sizeof value->float_value);
    return true;
}

/* Parses a number in the form of Python's str(). False: it is none. */
static bool read_text_number(const uint8_t *bytes, size_t n, bool is_int,
                             struct psti_container_value *value)
{
    char text[NUMBER_NBYTES_MAX + 1], *end = text;
    if (n == 0 || n > NUMBER_NBYTES_MAX)
        return false;
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (strspn(text, is_int ? "+-0123456789" : "+-0123456789.eEinfa") != n)
        return false;
    if (is_int) {
        errno = 0;
        value->int_value = strtoll(text, &end, 10);
        return end == text + n && errno == 0;
    }
    /* The program that uses the library may have set a locale that writes 1.5 as 1,5. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    value->float_value = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    return end == text + n;
}

/* Reads a value that becomes a number: binary, or as text. */
static enum pst_status read_number(const struct psti_mds_column *column, struct psti_window *window,
                                   uint64_t i_sample, struct psti_container_value *value,
                                   struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    size_t n = column->length <= NUMBER_NBYTES_MAX ? (size_t)column->length : 0;
    enum pst_status status = psti_containers_window_get(window, column->offset, n, &bytes, err);
    if (status != PST_OK)
        return status;
    if (is_fixed(column) && !read_fixed(column, bytes, value))
        return bad_value(column, window, i_sample, PST_ERROR_UNSUPPORTED,
                         "the number is 2^63 or more, and int fields have numbers below it: leave "
                         "the column out by None",
                         err);
    if (!is_fixed(column) && !read_text_number(bytes, n, column->type == PST_FIELD_INT, value))
        return bad_value(column, window, i_sample, PST_ERROR_UNSUPPORTED,
                         column->type == PST_FIELD_INT
                             ? "the value is no whole number of 64 bits: take the column as "
                               "\"text\", or leave it out by None"
                             : "the value is no number of at most 63 characters: take the column "
                               "as \"text\", or leave it out by None",
                         err);
    return PST_OK;
}

enum pst_status psti_containers_mds_value(struct psti_mds_column *column,
                                          struct psti_window *window, uint64_t i_sample,
                                          struct psti_container_value *value, struct pst_error *err)
{
    *value = (struct psti_container_value){.i_field = column->i_field,
                                           .offset = column->offset,
                                           .nbytes = column->length,
                                           .decoded_nbytes = column->length};
    enum pst_dtype dtype = column->dtype;
    enum pst_status status = PST_OK;
    if (column->type == PST_FIELD_INT || column->type == PST_FIELD_FLOAT)
        return read_number(column, window, i_sample, value, err);
    if (column->type == PST_FIELD_ARRAY && column->kind == PSTI_MDS_PIL)
        return read_pixels(column, window, i_sample, value, err);
    if (column->type == PST_FIELD_ARRAY) {
        status = read_array(column, window, i_sample, &dtype, value, err);
        if (status == PST_OK && dtype != column->first_dtype)
            status = bad_value(column, window, i_sample, PST_ERROR_UNSUPPORTED,
                               "the array has elements of another type than that of sample 0", err);
        return status;
    }
    bool is_text = column->type == PST_FIELD_TEXT || column->type == PST_FIELD_JSON;
    if (is_text && column->length <= PSTI_TEXT_IN_INDEX_NBYTES) {
        const uint8_t *bytes = NULL;
        size_t n = (size_t)column->length;
        status = psti_containers_window_get(window, column->offset, n, &bytes, err);
        if (status == PST_OK)
            memcpy(column->text, bytes, n);
        value->bytes = column->text;
    }
    return status;
}
