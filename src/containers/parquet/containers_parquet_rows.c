/* containers_parquet_rows.c - makes field values of the entries of a row.
 *
 * In: a column's cursors at the beginning of a row. Out: values, and the cursors at the beginning
 * of the next row.
 *
 * If the numbers of a list are contiguous in one page, the value is their location. If not, as with
 * a dictionary, they are copied into the index. */
#include "containers/parquet/containers_parquet_rows.h"

#include "containers/containers_fields.h"

#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"

#include <inttypes.h>
#include <string.h>

/* Numbers --------------------------------------------------------------------- */

static double half_to_double(uint16_t half)
{
    double sign = half >> 15 ? -1.0 : 1.0;
    uint64_t exponent = half >> 10 & 31, fraction = half & 1023, bits = 0;
    double value = 0;
    if (exponent == 0)
        return sign * (double)fraction * 0x1p-24;
    bits = (exponent == 31 ? UINT64_C(2047) : exponent - 15 + 1023) << 52 | fraction << 42;
    memcpy(&value, &bits, sizeof value);
    return sign * value;
}

static double decimal(int64_t number, uint32_t scale)
{
    double power = 1;
    for (uint32_t i = 0; i < scale && i < 40; i++)
        power *= 10;
    return (double)number / power;
}

static double float_of(const struct psti_parquet_node *leaf, uint64_t bits)
{
    if (leaf->type == PSTI_PARQUET_DOUBLE) {
        double value = 0;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (leaf->type == PSTI_PARQUET_FLOAT) {
        uint32_t half = (uint32_t)bits;
        float value = 0;
        memcpy(&value, &half, sizeof value);
        return (double)value;
    }
    if (leaf->type == PSTI_PARQUET_FIXED)
        return half_to_double((uint16_t)bits);
    return decimal(leaf->type == PSTI_PARQUET_INT32 ? (int32_t)(uint32_t)bits : (int64_t)bits,
                   leaf->scale);
}

static int64_t int_of(const struct psti_parquet_node *leaf, uint64_t bits)
{
    if (leaf->type != PSTI_PARQUET_INT32)
        return (int64_t)bits;
    return leaf->meaning == PSTI_MEANING_UNSIGNED ? (int64_t)(uint32_t)bits
                                                  : (int32_t)(uint32_t)bits;
}

static enum pst_status set_number(struct psti_parquet_column *column, uint64_t row,
                                  const struct psti_parquet_entry *entry,
                                  struct psti_container_value *value, bool is_int,
                                  struct pst_error *err)
{
    const struct psti_parquet_cursor *cursor = &column->values;
    uint64_t bits = 0;
    enum pst_status status = psti_containers_cursor_number(&column->values, entry, &bits, err);
    if (status != PST_OK)
        return status;
    value->float_value = is_int ? 0 : float_of(column->leaf, bits);
    value->int_value = is_int ? int_of(column->leaf, bits) : 0;
    if (is_int && column->leaf->type == PSTI_PARQUET_INT64 &&
        column->leaf->meaning == PSTI_MEANING_UNSIGNED && bits > INT64_MAX)
        return psti_containers_cursor_fail(cursor, PST_ERROR_UNSUPPORTED, cursor->area.header, err,
                                           "row %" PRIu64 " has a number of 2^63 or more", row);
    return PST_OK;
}

/* Bytes ----------------------------------------------------------------------- */

static enum pst_status set_value(struct psti_parquet_column *column, uint64_t row,
                                 const struct psti_parquet_target *target,
                                 const struct psti_parquet_entry *entry,
                                 struct psti_container_value *value, struct pst_error *err)
{
    enum pst_field_type type = target->type;
    *value = (struct psti_container_value){.i_field = target->i_field};
    if (type == PST_FIELD_INT || type == PST_FIELD_FLOAT)
        return set_number(column, row, entry, value, type == PST_FIELD_INT, err);
    /* Short texts are lent from the cursor's page. Items of a list are not, because the next item
     * may need another page. */
    if ((type == PST_FIELD_TEXT || type == PST_FIELD_JSON) && column->shape != PSTI_SHAPE_FILES &&
        entry->nbytes <= PSTI_TEXT_IN_INDEX_NBYTES) {
        const uint8_t *bytes = NULL;
        enum pst_status status =
            psti_containers_cursor_bytes(&column->values, entry, entry->nbytes, &bytes, err);
        value->bytes = bytes;
        value->nbytes = value->decoded_nbytes = entry->nbytes;
        return status;
    }
    return psti_containers_cursor_place(&column->values, entry, entry->nbytes, value, err);
}

/* Reads the next item, and its path if it has one. *has: true if the item has bytes. */
static enum pst_status take_item(struct psti_parquet_column *column, uint64_t row,
                                 struct psti_parquet_entry *entry, bool *has, struct pst_error *err)
{
    struct psti_parquet_entry path = {.is_null = true};
    enum pst_status status = psti_containers_cursor_take(&column->values, entry, err);
    if (status == PST_OK && column->path != NULL)
        status = psti_containers_cursor_take(&column->paths, &path, err);
    if (status != PST_OK)
        return status;
    const struct psti_parquet_cursor *cursor = &column->values;
    if (column->path != NULL && path.rep != entry->rep)
        return psti_containers_cursor_fail(cursor, PST_ERROR_CORRUPT, cursor->area.header, err,
                                           "row %" PRIu64 " has more bytes than paths, or fewer",
                                           row);
    if (entry->is_null && !path.is_null && path.nbytes > 0)
        return psti_containers_cursor_fail(
            cursor, PST_ERROR_UNSUPPORTED, cursor->area.header, err,
            "row %" PRIu64 " has a path and no bytes, so what it means lies outside of the file: "
            "write the file anew with the bytes in it",
            row);
    *has = !entry->is_null;
    return PST_OK;
}

static enum pst_status take_one(struct psti_parquet_column *column, uint64_t row,
                                struct psti_container_value *values, uint32_t *n,
                                struct pst_error *err)
{
    struct psti_parquet_entry entry;
    bool has = false;
    enum pst_status status = take_item(column, row, &entry, &has, err);
    if (status != PST_OK || !has)
        return status;
    return set_value(column, row, &column->targets[0], &entry, &values[(*n)++], err);
}

/* Lists ------------------------------------------------------------------------ */

static enum pst_status wrong_list(const struct psti_parquet_column *column, enum pst_status status,
                                  uint64_t row, const char *what, struct pst_error *err)
{
    const struct psti_parquet_cursor *cursor = &column->values;
    return psti_containers_cursor_fail(cursor, status, cursor->area.header, err,
                                       "the list of row %" PRIu64 " %s", row, what);
}

/* Finds whether the list of the current row has more entries. */
static enum pst_status goes_on(struct psti_parquet_column *column, bool *has, struct pst_error *err)
{
    enum pst_status status = psti_containers_cursor_peek(&column->values, has, err);
    *has = status == PST_OK && *has && column->values.rep > 0;
    return status;
}

static enum pst_status take_files(struct psti_parquet_column *column, uint64_t row,
                                  struct psti_container_value *values, uint32_t *n,
                                  struct pst_error *err)
{
    uint32_t n_items = 0, n_entries = 0;
    bool goes = true, is_null = false;
    for (; goes; n_entries++) {
        struct psti_parquet_entry entry;
        bool has = false;
        enum pst_status status = take_item(column, row, &entry, &has, err);
        if (status != PST_OK)
            return status;
        if ((entry.rep == 0) != (n_entries == 0))
            return wrong_list(column, PST_ERROR_CORRUPT, row, "begins in the middle", err);
        is_null = entry.def < column->n_outer;
        if (entry.def >= column->n_inner && n_items < column->n_targets) {
            const struct psti_parquet_target *target = &column->targets[n_items];
            if (has && target->i_field != PSTI_COLUMN_LEFT_OUT)
                status = set_value(column, row, target, &entry, &values[(*n)++], err);
        }
        n_items += entry.def >= column->n_inner;
        if (status == PST_OK)
            status = goes_on(column, &goes, err);
        if (status != PST_OK)
            return status;
    }
    if (is_null || n_items == column->n_targets)
        return PST_OK;
    return wrong_list(column, PST_ERROR_UNSUPPORTED, row,
                      "has not as many items as that of the first row, so its items are no fields: "
                      "pack the data set (penstock pack), or leave the column out",
                      err);
}

/* An array whose elements are being read. */
struct array {
    uint64_t n;             /* number of elements */
    size_t width;           /* bytes of one element */
    uint64_t page;          /* offset of the header of the page that holds the first element */
    size_t next;            /* offset of an element that would directly follow the last one */
    bool has_place;         /* all elements so far are contiguous */
    bool is_null, is_empty; /* the list is missing; an inner list has no elements */
    struct psti_container_value place;
};

/* Checks by the repetition level that an element stands where the array's shape needs it. */
static bool has_shape(const struct psti_parquet_column *column, const struct array *array,
                      uint32_t rep)
{
    uint64_t n = array->n;
    uint32_t right = n == 0 ? 0 : column->ndim;
    for (uint32_t i = column->ndim; n > 0 && i > 1; i--) {
        if (n % column->dims[i - 1] != 0)
            break;
        n /= column->dims[i - 1];
        right = i - 1;
    }
    return rep == right;
}

static enum pst_status take_element(struct psti_parquet_column *column, uint64_t row,
                                    struct array *array, struct pst_error *err)
{
    struct psti_parquet_cursor *cursor = &column->values;
    struct psti_parquet_entry entry;
    uint64_t bits = 0;
    enum pst_status status = psti_containers_cursor_take(cursor, &entry, err);
    if (status != PST_OK)
        return status;
    if (entry.def < column->n_inner) {
        array->is_null = entry.def < column->n_outer;
        array->is_empty = entry.def > column->n_outer;
        return entry.rep == 0 ? PST_OK
                              : wrong_list(column, PST_ERROR_UNSUPPORTED, row,
                                           "has inner lists of several lengths", err);
    }
    if (entry.is_null)
        return wrong_list(column, PST_ERROR_UNSUPPORTED, row,
                          "has a null in it, which no array can have: write the file anew without, "
                          "or leave the column out",
                          err);
    if (!has_shape(column, array, entry.rep))
        return wrong_list(column, PST_ERROR_UNSUPPORTED, row,
                          "does not have the shape that the file states for it", err);
    if (array->n == 0 && entry.is_plain) {
        status = psti_containers_cursor_place(cursor, &entry, 0, &array->place, err);
        array->has_place = true;
        array->page = entry.area->header;
    } else if (!entry.is_plain || entry.area->header != array->page || entry.at != array->next) {
        array->has_place = false;
    }
    array->next = entry.at + array->width;
    if (status == PST_OK && (array->n + 1) * array->width <= PSTI_ARRAY_IN_INDEX_NBYTES) {
        status = psti_containers_cursor_number(cursor, &entry, &bits, err);
        memcpy(column->copy + array->n * array->width, &bits, array->width);
    }
    array->n++;
    return status;
}

/* Makes the value of an array after its elements were read. */
static enum pst_status set_array(const struct psti_parquet_column *column, uint64_t row,
                                 const struct array *array, struct psti_container_value *value,
                                 struct pst_error *err)
{
    uint64_t nbytes = array->n * array->width, n_inner = 1;
    *value = array->has_place ? array->place : (struct psti_container_value){.bytes = column->copy};
    if (!array->has_place && nbytes > PSTI_ARRAY_IN_INDEX_NBYTES)
        return wrong_list(
            column, PST_ERROR_UNSUPPORTED, row,
            "is long, and its numbers do not lie behind each other in one page: write "
            "the file anew without a dictionary for the column, or pack it "
            "(penstock pack)",
            err);
    value->i_field = column->targets[0].i_field;
    value->nbytes = value->decoded_nbytes = nbytes;
    value->ndim = column->ndim;
    memcpy(value->shape, column->dims, sizeof value->shape);
    for (uint8_t i = 1; i < column->ndim; i++)
        n_inner *= column->dims[i];
    if (array->n % n_inner != 0 || array->n / n_inner > UINT32_MAX || array->is_empty)
        return wrong_list(column, PST_ERROR_UNSUPPORTED, row,
                          "does not have the shape that the file states for it", err);
    value->shape[0] = (uint32_t)(array->n / n_inner);
    return PST_OK;
}

static enum pst_status take_array(struct psti_parquet_column *column, uint64_t row,
                                  struct psti_container_value *values, uint32_t *n,
                                  struct pst_error *err)
{
    struct array array = {.width = pst_dtype_nbytes(column->dtype)};
    for (bool goes = true; goes;) {
        enum pst_status status = take_element(column, row, &array, err);
        if (status == PST_OK)
            status = goes_on(column, &goes, err);
        if (status != PST_OK)
            return status;
    }
    if (array.is_null)
        return PST_OK;
    return set_array(column, row, &array, &values[(*n)++], err);
}

enum pst_status psti_containers_parquet_take(struct psti_parquet_column *column, uint64_t row,
                                             struct psti_container_value *values, uint32_t *n,
                                             struct pst_error *err)
{
    if (column->shape == PSTI_SHAPE_FILES)
        return take_files(column, row, values, n, err);
    if (column->shape == PSTI_SHAPE_NUMBERS)
        return take_array(column, row, values, n, err);
    return take_one(column, row, values, n, err);
}
