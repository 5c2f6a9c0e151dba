/* containers_arrow_rows.c - makes the values of rows.
 *
 * In: a column's arrays in a batch. Out: numbers, short texts, and locations of all other bytes. A
 * compressed buffer becomes a page of the index when its first value is given. */
#include "containers/arrow/containers_arrow_column.h"

#include "containers/table/containers_guess.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/log.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROOM "containers"
enum {
    TEXTS_MAX_NBYTES = 64 << 20, /* largest decoded buffer that is decoded to copy its short
                                  * texts */
    CLASSES_MAX = 1 << 20,
    CLASSES_MAX_NBYTES = 64 << 20,
};

enum pst_status psti_containers_arrow_column_begin(struct psti_arrow_column *column,
                                                   struct psti_arrow_file *file,
                                                   const struct psti_arrow_schema *schema,
                                                   const struct psti_arrow_batch *batch,
                                                   struct pst_error *err)
{
    enum pst_status status = PST_OK;
    uint32_t n_lists = column->is_list ? 1 : column->n_levels;
    for (uint32_t i = 0; i < n_lists && status == PST_OK; i++)
        status = psti_containers_arrow_leaf(file, schema, batch, column->i_root + i, false,
                                            &column->levels[i], err);
    if (status == PST_OK && column->i_struct != PSTI_ARROW_NO_FIELD)
        status = psti_containers_arrow_leaf(file, schema, batch, column->i_struct, false,
                                            &column->root, err);
    if (status == PST_OK && column->i_path != PSTI_ARROW_NO_FIELD)
        status = psti_containers_arrow_leaf(file, schema, batch, column->i_path, false,
                                            &column->path, err);
    if (status == PST_OK)
        status = psti_containers_arrow_leaf(file, schema, batch, column->i_value, false,
                                            &column->value, err);
    if (status == PST_OK && column->i_struct != PSTI_ARROW_NO_FIELD &&
        (column->value.n < column->root.n ||
         (column->i_path != PSTI_ARROW_NO_FIELD && column->path.n < column->root.n)))
        status = psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, file->source->path, -1,
                              "a batch of the column '%.100s' has fewer bytes or paths than rows",
                              column->column.name);
    return status;
}

/* Finds the range of elements of list i. */
static enum pst_status list_range(struct psti_arrow_leaf *list, uint64_t i, uint64_t *begin,
                                  uint64_t *end, struct pst_error *err)
{
    if (list->field->type == PSTI_ARROW_FIXED_LIST) {
        bool fits = psti_mul_u64(i, list->field->size, begin) &&
                    psti_add_u64(*begin, list->field->size, end);
        return fits ? PST_OK
                    : psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, list->file->source->path, -1,
                                   "a list of the column '%.100s' leads out of its batch",
                                   list->field->name);
    }
    enum pst_status status = psti_containers_arrow_offset(list, i, begin, err);
    return status == PST_OK ? psti_containers_arrow_offset(list, i + 1, end, err) : status;
}

/* Finds the element of row i's list that belongs to this column. *is_null: the list is missing. */
static enum pst_status find_element(struct psti_arrow_column *column, uint64_t i, uint64_t i_row,
                                    uint64_t *at, bool *is_null, struct pst_error *err)
{
    struct psti_arrow_leaf *list = &column->levels[0];
    uint64_t begin = 0, end = 0;
    uint64_t n = column->i_struct != PSTI_ARROW_NO_FIELD ? column->root.n : column->value.n;
    *at = UINT64_MAX; /* no element */
    enum pst_status status = psti_containers_arrow_is_null(list, i, is_null, err);
    if (status == PST_OK && !*is_null)
        status = list_range(list, i, &begin, &end, err);
    if (status != PST_OK || *is_null)
        return status;
    if (end < begin || end > n)
        return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, list->file->source->path, -1,
                            "row %" PRIu64
                            ": the list of the column '%.60s' leads out of its batch",
                            i_row, list->field->name);
    if (end - begin != column->n_elements)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, list->file->source->path, -1,
                            "row %" PRIu64 ": the list of the column '%.60s' has %" PRIu64
                            " items, and the first one has %u: leave the column out, as in "
                            "fields={\"%.60s\": None}, or pack the data set",
                            i_row, list->field->name, end - begin, column->n_elements,
                            column->column.name);
    *at = begin + column->i_element;
    return status;
}

/* Finds whether row i has no value. *at: index of row i's value. */
static enum pst_status is_missing(struct psti_arrow_column *column, uint64_t i, uint64_t i_row,
                                  uint64_t *at, bool *is_null, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    *at = i;
    *is_null = false;
    if (column->n_levels > 0)
        return psti_containers_arrow_is_null(&column->levels[0], i, is_null, err);
    if (column->is_list)
        status = find_element(column, i, i_row, at, is_null, err);
    if (status != PST_OK || *is_null)
        return status;
    if (column->i_struct != PSTI_ARROW_NO_FIELD)
        status = psti_containers_arrow_is_null(&column->root, *at, is_null, err);
    return status == PST_OK && !*is_null
               ? psti_containers_arrow_is_null(&column->value, *at, is_null, err)
               : status;
}

/* Refuses a value that has no bytes, but a path to another file. */
static enum pst_status check_path(struct psti_arrow_column *column, uint64_t at, uint64_t i_row,
                                  struct pst_error *err)
{
    struct psti_arrow_place place = {0};
    const uint8_t *bytes = NULL;
    char path[101] = "";
    bool is_null = true;
    enum pst_status status = PST_OK;
    /* If the list is missing, there is no element that could have a path. */
    if (column->i_path != PSTI_ARROW_NO_FIELD && at < column->root.n)
        status = psti_containers_arrow_is_null(&column->root, at, &is_null, err);
    if (status == PST_OK && !is_null)
        status = psti_containers_arrow_is_null(&column->path, at, &is_null, err);
    if (status != PST_OK || is_null)
        return status;
    if (!column->path.is_index) {
        status = psti_containers_arrow_place(&column->path, at, &place, err);
        if (status != PST_OK || place.nbytes == 0)
            return status;
        size_t n = place.nbytes < sizeof path ? (size_t)place.nbytes : sizeof path - 1;
        status = psti_containers_arrow_get(column->path.file, place.buffer, place.offset, n, &bytes,
                                           err);
        if (status != PST_OK)
            return status;
        memcpy(path, bytes, psti_format_utf8_valid(bytes, n));
    }
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, ROOM, column->path.file->source->path, -1,
                        "row %" PRIu64 ": the column '%.60s' has no bytes, only the path '%s', and "
                        "paths are not followed: write the data set anew with its files in it "
                        "(docs/table-fields.md)",
                        i_row, column->column.name, path);
}

/* Adds a compressed buffer as a page of the index, unless that was done before. */
static enum pst_status add_page(struct psti_containers_columns *columns,
                                struct psti_arrow_buffer *buffer, struct pst_error *err)
{
    struct psti_container_page page = {buffer->at, buffer->nbytes, buffer->decoded_nbytes,
                                       buffer->coding};
    if (buffer->has_page)
        return PST_OK;
    enum pst_status status = psti_containers_columns_page(columns, &page, &buffer->i_page, err);
    buffer->has_page = status == PST_OK;
    return status;
}

/* Makes a value of the bytes at a location in a buffer. */
static enum pst_status put_place(struct psti_containers_columns *columns,
                                 const struct psti_arrow_place *place,
                                 struct psti_container_value *value, struct pst_error *err)
{
    struct psti_arrow_buffer *buffer = place->buffer;
    value->nbytes = value->decoded_nbytes = place->nbytes;
    value->coding = PSTI_CODING_STORED;
    if (buffer->coding == PSTI_CODING_STORED) {
        value->offset = buffer->at + place->offset;
        return PST_OK;
    }
    enum pst_status status = add_page(columns, buffer, err);
    value->is_in_page = true;
    value->i_page = buffer->i_page;
    value->offset = place->offset;
    return status;
}

/* Makes a value of bytes. Short texts are copied into the index. */
static enum pst_status put_bytes(struct psti_arrow_column *column,
                                 struct psti_containers_columns *columns,
                                 struct psti_arrow_leaf *leaf, uint64_t i,
                                 struct psti_container_value *value, struct pst_error *err)
{
    struct psti_arrow_place place;
    const uint8_t *bytes = NULL;
    bool is_text = column->type == PST_FIELD_TEXT || column->type == PST_FIELD_JSON;
    enum pst_status status = psti_containers_arrow_place(leaf, i, &place, err);
    if (status != PST_OK)
        return status;
    if (!is_text || place.nbytes > PSTI_TEXT_IN_INDEX_NBYTES ||
        (place.buffer->coding != PSTI_CODING_STORED &&
         place.buffer->decoded_nbytes > TEXTS_MAX_NBYTES))
        return put_place(columns, &place, value, err);
    if (place.nbytes > 0)
        status = psti_containers_arrow_get(leaf->file, place.buffer, place.offset,
                                           (size_t)place.nbytes, &bytes, err);
    if (status == PST_OK && place.nbytes > 0)
        memcpy(column->text, bytes, (size_t)place.nbytes);
    value->bytes = column->text;
    value->nbytes = value->decoded_nbytes = place.nbytes;
    return status;
}

static enum pst_status bad_array(const struct psti_arrow_column *column, uint64_t i_row,
                                 const char *what, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_CORRUPT, ROOM, column->value.file->source->path, -1,
                        "row %" PRIu64 ": the array of the column '%.60s' %s", i_row,
                        column->column.name, what);
}

/* Replaces a range of lists by the range of their elements. Each list must have the length that
 * column->level_size[i_level] states. */
static enum pst_status enter(struct psti_arrow_column *column, uint32_t i_level, uint64_t i_row,
                             uint64_t *begin, uint64_t *end, struct pst_error *err)
{
    struct psti_arrow_leaf *leaf = &column->levels[i_level];
    uint64_t first = 0, at = 0, next = 0, size = column->level_size[i_level];
    bool has_null = false;
    if (*begin == *end)
        return PST_OK;
    if (*end > leaf->n || *begin > *end)
        return bad_array(column, i_row, "leads out of its batch", err);
    enum pst_status status =
        psti_containers_arrow_has_null(leaf, *begin, *end - *begin, &has_null, err);
    if (status == PST_OK && has_null)
        return bad_array(column, i_row, "lacks a list within it", err);
    if (leaf->field->type == PSTI_ARROW_FIXED_LIST) {
        bool fits = psti_mul_u64(*begin, size, begin) && psti_mul_u64(*end, size, end);
        return fits ? status : bad_array(column, i_row, "leads out of its batch", err);
    }
    if (status == PST_OK)
        status = psti_containers_arrow_offset(leaf, *begin, &first, err);
    at = first;
    for (uint64_t i = *begin; i < *end && status == PST_OK; i++) {
        status = psti_containers_arrow_offset(leaf, i + 1, &next, err);
        if (status == PST_OK && (next < at || (size > 0 && next - at != size)))
            return bad_array(column, i_row, "is not of the column's shape", err);
        at = next;
    }
    *begin = first;
    *end = at;
    return status;
}

static enum pst_status put_array(struct psti_arrow_column *column,
                                 struct psti_containers_columns *columns, uint64_t i,
                                 uint64_t i_row, struct psti_container_value *value,
                                 struct pst_error *err)
{
    struct psti_arrow_leaf *leaf = &column->value;
    uint64_t begin = i, end = i + 1, n_first = 0;
    bool has_null = false;
    enum pst_status status = PST_OK;
    for (uint32_t k = 0; k < column->n_levels && status == PST_OK; k++) {
        status = enter(column, k, i_row, &begin, &end, err);
        n_first = k == 0 ? end - begin : n_first;
    }
    if (status != PST_OK)
        return status;
    uint32_t nbytes = leaf->field->bits / 8U;
    if (end > leaf->n || n_first > UINT32_MAX)
        return bad_array(column, i_row, "leads out of its batch", err);
    status = psti_containers_arrow_has_null(leaf, begin, end - begin, &has_null, err);
    if (status == PST_OK && has_null)
        return bad_array(column, i_row, "lacks an element", err);
    value->ndim = column->ndim;
    memcpy(value->shape, column->shape, sizeof value->shape);
    if (column->shape[0] == 0)
        value->shape[0] = (uint32_t)n_first;
    if (begin == end) /* empty lists: use offset 0, which lies in any buffer */
        begin = end = 0;
    struct psti_arrow_place place = {&leaf->buffers[1], begin * nbytes, (end - begin) * nbytes};
    return status == PST_OK ? put_place(columns, &place, value, err) : status;
}

/* Makes the value of row i from the dictionary: the row holds the index of its value. */
static enum pst_status put_indexed(struct psti_arrow_column *column,
                                   struct psti_containers_columns *columns, uint64_t i,
                                   struct psti_container_value *value, bool *has,
                                   struct pst_error *err)
{
    struct psti_arrow_leaf *leaf = NULL;
    uint64_t i_leaf = 0;
    bool is_null = false;
    int64_t index = 0;
    enum pst_status status = psti_containers_arrow_int(&column->value, i, &index, err);
    value->int_value = index;
    if (status == PST_OK)
        status = psti_containers_arrow_dictionary_find(
            column->dictionary, column->value.file->source->path, index, &leaf, &i_leaf, err);
    if (status != PST_OK || column->are_classes)
        return status;
    status = psti_containers_arrow_is_null(leaf, i_leaf, &is_null, err);
    *has = !is_null;
    if (status != PST_OK || is_null)
        return status;
    if (column->type == PST_FIELD_INT)
        return psti_containers_arrow_int(leaf, i_leaf, &value->int_value, err);
    if (column->type == PST_FIELD_FLOAT)
        return psti_containers_arrow_float(leaf, i_leaf, &value->float_value, err);
    return put_bytes(column, columns, leaf, i_leaf, value, err);
}

enum pst_status psti_containers_arrow_column_value(struct psti_arrow_column *column,
                                                   struct psti_containers_columns *columns,
                                                   uint64_t i, uint64_t i_row,
                                                   struct psti_container_value *value, bool *has,
                                                   struct pst_error *err)
{
    bool is_null = false;
    uint64_t at = 0;
    *value = (struct psti_container_value){.i_field = column->i_field};
    *has = false;
    enum pst_status status = is_missing(column, i, i_row, &at, &is_null, err);
    if (status == PST_OK && is_null)
        return check_path(column, at, i_row, err);
    *has = status == PST_OK;
    if (status != PST_OK)
        return status;
    if (column->n_levels > 0)
        return put_array(column, columns, i, i_row, value, err);
    if (column->value.is_index)
        return put_indexed(column, columns, i, value, has, err);
    if (column->type == PST_FIELD_INT)
        return psti_containers_arrow_int(&column->value, i, &value->int_value, err);
    if (column->type == PST_FIELD_FLOAT)
        return psti_containers_arrow_float(&column->value, i, &value->float_value, err);
    return put_bytes(column, columns, &column->value, at, value, err);
}

/* Reads the first bytes of a value, to find the type of the field. */
static enum pst_status look_at_head(struct psti_arrow_column *column, uint64_t at,
                                    struct pst_error *err)
{
    struct psti_arrow_place place;
    const uint8_t *head = NULL;
    enum pst_status status = psti_containers_arrow_place(&column->value, at, &place, err);
    if (status != PST_OK || place.nbytes == 0)
        return status;
    size_t n = place.nbytes < PSTI_GUESS_NBYTES ? (size_t)place.nbytes : PSTI_GUESS_NBYTES;
    status =
        psti_containers_arrow_get(column->value.file, place.buffer, place.offset, n, &head, err);
    if (status == PST_OK)
        column->column.type = psti_containers_guess(head, n);
    column->wants_head = false;
    return status;
}

/* Stores the number of elements of the first list that is not missing. */
static enum pst_status look_at_count(struct psti_arrow_column *column, uint64_t i,
                                     struct pst_error *err)
{
    struct psti_arrow_leaf *list = &column->levels[0];
    uint64_t begin = 0, end = 0;
    bool is_null = false;
    enum pst_status status = psti_containers_arrow_is_null(list, i, &is_null, err);
    if (status == PST_OK && !is_null)
        status = list_range(list, i, &begin, &end, err);
    if (status != PST_OK || is_null)
        return status;
    column->wants_count = false;
    column->n_elements = end < begin || end - begin > UINT32_MAX ? 0 : (uint32_t)(end - begin);
    column->wants_head = column->wants_head && column->n_elements > 0;
    return PST_OK;
}

enum pst_status psti_containers_arrow_column_look(struct psti_arrow_column *column, uint64_t i,
                                                  struct pst_error *err)
{
    bool is_null = false;
    uint64_t at = 0;
    enum pst_status status = PST_OK;
    if (column->wants_count)
        status = look_at_count(column, i, err);
    if (status != PST_OK || column->wants_count || !column->wants_head)
        return status;
    status = is_missing(column, i, i, &at, &is_null, err);
    return status != PST_OK || is_null ? status : look_at_head(column, at, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Finds whether all names differ from each other. */
static enum pst_status are_different(const char *names, size_t n, bool *are, struct pst_error *err)
{
    const char **sorted = psti_alloc_array(n, sizeof *sorted);
    *are = false;
    if (sorted == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for %zu classes", n);
    for (size_t i = 0; i < n; i++, names += strlen(names) + 1)
        sorted[i] = names;
    qsort(sorted, n, sizeof *sorted, by_text);
    *are = true;
    for (size_t i = 1; i < n && *are; i++)
        *are = strcmp(sorted[i - 1], sorted[i]) != 0;
    psti_free(sorted);
    return PST_OK;
}

/* Appends value i of a dictionary to the class names. *are_names: false if it cannot be a name. */
static enum pst_status copy_name(struct psti_arrow_column *column, const char *path, int64_t i,
                                 size_t *n_names, bool *are_names, struct pst_error *err)
{
    struct psti_arrow_leaf *leaf = NULL;
    struct psti_arrow_place place = {0};
    const uint8_t *bytes = NULL;
    uint64_t i_leaf = 0;
    bool is_null = false;
    *are_names = false;
    enum pst_status status =
        psti_containers_arrow_dictionary_find(column->dictionary, path, i, &leaf, &i_leaf, err);
    if (status == PST_OK)
        status = psti_containers_arrow_is_null(leaf, i_leaf, &is_null, err);
    if (status == PST_OK && !is_null)
        status = psti_containers_arrow_place(leaf, i_leaf, &place, err);
    if (status != PST_OK || is_null || place.nbytes == 0 || place.nbytes >= PST_NAME_CAP ||
        *n_names + place.nbytes >= CLASSES_MAX_NBYTES)
        return status;
    status = psti_containers_arrow_get(leaf->file, place.buffer, place.offset, (size_t)place.nbytes,
                                       &bytes, err);
    if (status != PST_OK)
        return status;
    *are_names = psti_format_name_problem((const char *)bytes, (size_t)place.nbytes) == NULL;
    memcpy(column->class_names + *n_names, bytes, (size_t)place.nbytes);
    *n_names += (size_t)place.nbytes;
    column->class_names[(*n_names)++] = '\0';
    return PST_OK;
}

enum pst_status psti_containers_arrow_column_classes(struct psti_arrow_column *column,
                                                     const char *path, struct pst_error *err)
{
    const struct psti_arrow_dictionary *dictionary = column->dictionary;
    size_t n_names = 0;
    bool are_names = true;
    enum pst_status status = PST_OK;
    if (dictionary->n == 0 || dictionary->n > CLASSES_MAX)
        return PST_OK;
    column->class_names = psti_alloc((size_t)dictionary->n * PST_NAME_CAP < CLASSES_MAX_NBYTES
                                         ? (size_t)dictionary->n * PST_NAME_CAP
                                         : CLASSES_MAX_NBYTES);
    if (column->class_names == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "out of memory for classes");
    for (uint64_t i = 0; i < dictionary->n && are_names && status == PST_OK; i++)
        status = copy_name(column, path, (int64_t)i, &n_names, &are_names, err);
    if (status == PST_OK && are_names)
        status = are_different(column->class_names, (size_t)dictionary->n, &are_names, err);
    if (status != PST_OK || !are_names)
        return status;
    column->are_classes = true;
    column->column.type = PST_FIELD_INT;
    column->column.n_classes = (int64_t)dictionary->n;
    column->column.class_names = column->class_names;
    column->column.class_names_nbytes = n_names;
    return PST_OK;
}
