/* containers_beton.c - makes rows of the samples of an FFCV file.
 *
 * In: records of the metadata, on one thread. Out: a column for each field, and a row for each
 * sample.
 *
 * The images of a field must be either all JPEGs or all raw pixels. A first pass over all records
 * checks this before any row is given. */
#include "containers/beton/containers_beton.h"

#include "containers/beton/containers_beton_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/log.h"

#include <inttypes.h>
#include <string.h>

#define NONE UINT64_MAX

/* Counts an image in the first pass, and compares its kind and shape with the images before it. */
static enum pst_status survey_image(const struct psti_beton *beton, struct psti_beton_field *field,
                                    const uint8_t *record, uint64_t i, struct pst_error *err)
{
    struct psti_beton_image image;
    if (!psti_containers_beton_image(record + field->offset, &image))
        return psti_containers_beton_bad(beton, field, i, PST_ERROR_CORRUPT,
                                         "is neither a JPEG nor pixels", err);
    uint32_t shape[3] = {image.height, image.width, 3};
    if (i == 0) {
        memcpy(field->shape, shape, sizeof shape);
        field->has_shape = true;
    }
    field->has_shape = field->has_shape && memcmp(field->shape, shape, sizeof shape) == 0;
    field->n_jpegs += image.is_jpeg;
    /* All images so far are of one kind if none of them is a JPEG, or all i + 1 are. */
    if (field->other == NONE && field->n_jpegs != (image.is_jpeg ? i + 1 : 0))
        field->other = i;
    return PST_OK;
}

static enum pst_status survey(struct psti_beton *beton, struct pst_error *err)
{
    bool has_image = false;
    for (uint32_t k = 0; k < beton->n_fields; k++) {
        beton->fields[k].other = NONE;
        has_image = has_image || beton->fields[k].type == PSTI_BETON_IMAGE;
    }
    for (uint64_t i = 0; has_image && i < beton->n_samples; i++) {
        const uint8_t *record = NULL;
        enum pst_status status = psti_containers_beton_record(beton, i, &record, err);
        for (uint32_t k = 0; status == PST_OK && k < beton->n_fields; k++)
            if (beton->fields[k].type == PSTI_BETON_IMAGE)
                status = survey_image(beton, &beton->fields[k], record, i, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* Describes the column that a field becomes. */
static struct psti_column column_of(const struct psti_beton_field *field)
{
    struct psti_column column = {.name = field->name};
    static const enum pst_field_type types[] = {
        [PSTI_BETON_FLOAT] = PST_FIELD_FLOAT,  [PSTI_BETON_INT] = PST_FIELD_INT,
        [PSTI_BETON_IMAGE] = PST_FIELD_IMAGE,  [PSTI_BETON_BYTES] = PST_FIELD_BYTES,
        [PSTI_BETON_ARRAY] = PST_FIELD_ARRAY,  [PSTI_BETON_JSON] = PST_FIELD_JSON,
        [PSTI_BETON_TENSOR] = PST_FIELD_ARRAY,
    };
    column.type = types[field->type];
    column.is_guess = field->type == PSTI_BETON_BYTES;
    column.dtype = field->dtype;
    column.ndim = field->ndim;
    memcpy(column.shape, field->shape, sizeof column.shape);
    if (field->type == PSTI_BETON_IMAGE) {
        bool is_array = field->n_jpegs == 0;
        column.type = is_array ? PST_FIELD_ARRAY : PST_FIELD_IMAGE;
        column.dtype = is_array ? PST_DTYPE_U8 : (enum pst_dtype)0;
        column.ndim = is_array && field->has_shape ? 3 : 0;
    }
    return column;
}

static enum pst_status declare(struct psti_beton *beton, struct psti_containers_columns *columns,
                               struct pst_error *err)
{
    bool has_jpegs = false;
    for (uint32_t k = 0; k < beton->n_fields; k++) {
        struct psti_beton_field *field = &beton->fields[k];
        struct psti_column column = column_of(field);
        enum pst_status status =
            psti_containers_columns_add(columns, &column, &field->i_field, err);
        if (status != PST_OK)
            return status;
        if (strlen(field->name) == PSTI_BETON_NAME)
            psti_log(PST_LOG_INFO, "containers",
                     "%s: FFCV cuts names at 16 bytes, so the name of \"%s\" may have been longer",
                     beton->path, field->name);
        if (field->i_field == PSTI_COLUMN_LEFT_OUT)
            continue;
        field->given = psti_containers_columns_type(columns, field->i_field);
        if (field->type != PSTI_BETON_IMAGE)
            continue;
        has_jpegs = has_jpegs || field->n_jpegs > 0;
        if (field->other != NONE)
            return psti_containers_beton_bad(
                beton, field, field->other, PST_ERROR_UNSUPPORTED,
                "is stored in another way than those before it, some of which are JPEGs and some "
                "pixels (write_mode \"smart\" or \"proportion\"): write the file with write_mode "
                "\"jpg\" or \"raw\", leave the field out by None, or pack the data set by FFCV's "
                "reader (penstock pack --from)",
                err);
    }
    return has_jpegs ? psti_containers_beton_sizes(beton, err) : PST_OK;
}

/* Copies small texts and empty values into the index; other values stay in the file. */
static enum pst_status hold_text(struct psti_beton *beton, const struct psti_beton_field *field,
                                 struct psti_container_value *value, uint8_t *held,
                                 struct pst_error *err)
{
    const uint8_t *bytes = NULL;
    bool is_text = field->given == PST_FIELD_TEXT || field->given == PST_FIELD_JSON;
    if (value->nbytes > PSTI_TEXT_IN_INDEX_NBYTES || (!is_text && value->nbytes > 0))
        return PST_OK;
    value->bytes = held;
    if (value->nbytes == 0)
        return PST_OK;
    enum pst_status status = psti_containers_window_get(&beton->window, value->offset,
                                                        (size_t)value->nbytes, &bytes, err);
    if (status == PST_OK)
        memcpy(held, bytes, (size_t)value->nbytes);
    return status;
}

/* Drops the NUL at the end of FFCV's JSON. */
static enum pst_status take_json(struct psti_beton *beton, const struct psti_beton_field *field,
                                 uint64_t i, struct psti_container_value *value,
                                 struct pst_error *err)
{
    const uint8_t *last = NULL;
    if (value->nbytes == 0)
        return psti_containers_beton_bad(beton, field, i, PST_ERROR_CORRUPT, "is empty", err);
    enum pst_status status = psti_containers_window_get(
        &beton->window, value->offset + value->nbytes - 1, 1, &last, err);
    if (status == PST_OK && *last != 0)
        status = psti_containers_beton_bad(beton, field, i, PST_ERROR_CORRUPT,
                                           "does not end with a NUL", err);
    value->nbytes--;
    return status;
}

/* Sets offset, size and shape of an image's value. */
static enum pst_status take_image(const struct psti_beton *beton,
                                  const struct psti_beton_field *field, uint64_t i,
                                  const struct psti_beton_image *image,
                                  struct psti_container_value *value, struct pst_error *err)
{
    uint32_t shape[3] = {image->height, image->width, 3};
    value->offset = image->at;
    if (!image->is_jpeg) {
        value->nbytes = (uint64_t)3 * image->width * image->height;
        value->ndim = 3;
        memcpy(value->shape, shape, sizeof shape);
    } else if (!psti_containers_beton_find_size(beton, i, image->at, &value->nbytes)) {
        return psti_containers_beton_bad(
            beton, field, i, PST_ERROR_CORRUPT,
            "has no size in the table of allocations at the file's end: the file was cut there, "
            "or is damaged",
            err);
    }
    return PST_OK;
}

/* Makes the value of a field. `at`: the field's bytes in the record. */
static enum pst_status take_value(struct psti_beton *beton, const struct psti_beton_field *field,
                                  uint64_t i, const uint8_t *at, uint8_t *held,
                                  struct psti_container_value *value, struct pst_error *err)
{
    struct psti_beton_image image;
    enum pst_status status = PST_OK;
    *value = (struct psti_container_value){.i_field = field->i_field};
    switch (field->type) {
    case PSTI_BETON_FLOAT:
        memcpy(&value->float_value, at, 8);
        return PST_OK;
    case PSTI_BETON_INT:
        value->int_value = (int64_t)psti_load_u64(at);
        return PST_OK;
    case PSTI_BETON_IMAGE:
        (void)psti_containers_beton_image(at, &image);
        status = take_image(beton, field, i, &image, value, err);
        break;
    case PSTI_BETON_ARRAY:
    case PSTI_BETON_TENSOR:
        value->offset = psti_load_u64(at);
        value->nbytes = field->nbytes;
        value->ndim = field->ndim;
        memcpy(value->shape, field->shape, sizeof value->shape);
        break;
    default:
        value->offset = psti_load_u64(at);
        value->nbytes = psti_load_u64(at + 8);
        break;
    }
    if (status != PST_OK)
        return status;
    /* The stored offset of an empty item has no meaning, so a valid one replaces it. */
    if (value->nbytes == 0)
        value->offset = beton->data;
    if (value->offset < beton->data ||
        !psti_range_fits(value->offset, value->nbytes, beton->allocations))
        return psti_containers_beton_bad(beton, field, i, PST_ERROR_CORRUPT,
                                         "lies outside of the pages of the file", err);
    if (field->type == PSTI_BETON_JSON)
        status = take_json(beton, field, i, value, err);
    value->decoded_nbytes = value->nbytes;
    return status == PST_OK ? hold_text(beton, field, value, held, err) : status;
}

static enum pst_status give_rows(struct psti_beton *beton, struct psti_containers_columns *columns,
                                 uint64_t *n_rows, struct pst_error *err)
{
    struct psti_container_value values[PST_MAX_FIELDS];
    uint8_t held[PST_MAX_FIELDS][PSTI_TEXT_IN_INDEX_NBYTES];
    for (uint64_t i = 0; i < beton->n_samples; i++) {
        uint32_t n = 0;
        enum pst_status status = PST_OK;
        for (uint32_t k = 0; status == PST_OK && k < beton->n_fields; k++) {
            const struct psti_beton_field *field = &beton->fields[k];
            const uint8_t *record = NULL;
            if (field->i_field == PSTI_COLUMN_LEFT_OUT)
                continue;
            /* Reading a value may have refilled the window, so the record is read again. */
            status = psti_containers_beton_record(beton, i, &record, err);
            if (status == PST_OK)
                status =
                    take_value(beton, field, i, record + field->offset, held[n], &values[n], err);
            n++; /* n stays at most PST_MAX_FIELDS, because no more fields have a column */
        }
        if (status == PST_OK && n > 0) {
            ++*n_rows;
            status = psti_containers_columns_row(columns, NULL, values, n, err);
        }
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

enum pst_status psti_containers_beton_walk(const struct psti_walk_source *source,
                                           const struct psti_table_notes *notes,
                                           struct psti_containers_columns *columns,
                                           struct psti_walk_counts *counts, struct pst_error *err)
{
    (void)notes;
    struct psti_beton beton = {.path = source->path};
    uint64_t n_rows = 0;
    enum pst_status status = psti_containers_columns_file(columns, source->path, err);
    if (status == PST_OK)
        status = psti_containers_window_open(&beton.window, source, err);
    if (status == PST_OK)
        status = psti_containers_beton_head(&beton, err);
    if (status == PST_OK)
        status = survey(&beton, err);
    if (status == PST_OK)
        status = declare(&beton, columns, err);
    if (status == PST_OK)
        status = give_rows(&beton, columns, &n_rows, err);
    if (status == PST_OK)
        *counts = (struct psti_walk_counts){.n_members = n_rows, .n_samples = n_rows};
    psti_free(beton.sizes);
    psti_free(beton.fields);
    psti_containers_window_close(&beton.window);
    return status;
}
