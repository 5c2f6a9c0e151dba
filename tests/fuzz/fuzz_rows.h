/* fuzz_rows.h - walks over anything that may be a file of rows: values must lie in the file, fields
 * and names must be legal. The first byte chooses the user's rules. */
#ifndef PST_FUZZ_ROWS_H
#define PST_FUZZ_ROWS_H

#include "containers/table/containers_columns.h"
#include "format/format_dataset.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* Stands for the file and for the writer of the index. */
struct fuzz_rows {
    const uint8_t *data;
    size_t nbytes;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    uint64_t n_samples, sum;
};

static ssize_t fuzz_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct fuzz_rows *rows = context;
    CHECK(offset <= rows->nbytes && nbytes <= rows->nbytes - offset);
    if (nbytes > 0)
        memcpy(bytes, rows->data + offset, nbytes);
    return (ssize_t)nbytes;
}

static enum pst_status fuzz_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fuzz_rows *rows = (struct fuzz_rows *)(void *)writer;
    (void)err;
    CHECK(psti_format_field_problem(field) == NULL && rows->n_fields < PST_MAX_FIELDS);
    CHECK(!psti_format_name_is_taken(rows->fields, rows->n_fields, field->name));
    rows->fields[rows->n_fields] = *field;
    *i_field = rows->n_fields++;
    return PST_OK;
}

static void fuzz_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fuzz_rows *rows = (struct fuzz_rows *)(void *)writer;
    CHECK(i_field < rows->n_fields && psti_format_field_problem(field) == NULL);
    CHECK(field->type == rows->fields[i_field].type && field->dtype == rows->fields[i_field].dtype);
    rows->fields[i_field] = *field;
}

static enum pst_status fuzz_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    (void)writer;
    (void)page;
    (void)i_page;
    (void)err;
    abort();
}

static void fuzz_value(struct fuzz_rows *rows, const struct psti_container_value *value)
{
    CHECK(value->i_field < rows->n_fields && !value->is_in_page);
    const struct pst_field *field = &rows->fields[value->i_field];
    if (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT)
        return;
    const uint8_t *bytes = value->bytes;
    if (bytes == NULL) {
        CHECK(value->offset <= rows->nbytes && value->nbytes <= rows->nbytes - value->offset);
        bytes = rows->data + value->offset;
        CHECK(value->coding == PSTI_CODING_PIECES
                  ? value->decoded_nbytes < value->nbytes
                  : value->coding == PSTI_CODING_STORED && value->decoded_nbytes == value->nbytes);
    } else {
        CHECK(value->nbytes <= 65536 && value->coding == PSTI_CODING_STORED);
    }
    for (uint64_t i = 0; i < value->nbytes && i < 64; i++)
        rows->sum += bytes[i];
    if (field->type != PST_FIELD_ARRAY)
        return;
    uint64_t product = pst_dtype_nbytes(field->dtype);
    for (int i = 0; i < value->ndim; i++)
        product *= value->shape[i];
    CHECK(product == value->nbytes && (field->ndim == 0 || field->ndim == value->ndim));
}

static enum pst_status fuzz_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fuzz_rows *rows = (struct fuzz_rows *)(void *)writer;
    (void)err;
    CHECK(psti_format_name_problem(name, strlen(name)) == NULL);
    CHECK(n >= 1 && n <= rows->n_fields);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        fuzz_value(rows, &values[i]);
        CHECK((seen >> values[i].i_field & 1) == 0);
        seen |= UINT64_C(1) << values[i].i_field;
    }
    rows->n_samples++;
    return PST_OK;
}

/* Walks over data[1] and what follows. notes: NULL, or those of the file. */
static void fuzz_rows(psti_table_walk *walk, const uint8_t *data, size_t nbytes,
                      const struct psti_table_notes *notes)
{
    static const struct psti_field_rule rules[] = {
        {.suffix = "value", .type = PST_FIELD_BYTES},
        {.suffix = "image", .field = "photo", .type = PST_FIELD_BYTES},
        {.suffix = "label", .is_left_out = true},
        {.suffix = "record", .type = PST_FIELD_TEXT},
    };
    static struct fuzz_rows rows;
    rows = (struct fuzz_rows){.data = data + 1, .nbytes = nbytes - 1};
    struct psti_walk_source source = {
        .read = fuzz_read, .context = &rows, .nbytes = nbytes - 1, .path = "a.rows"};
    struct psti_field_sink sink = {.field = fuzz_field,
                                   .restate = fuzz_restate,
                                   .page = fuzz_page,
                                   .sample = fuzz_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&rows};
    struct psti_table_notes none = {.path = ""};
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts = {0};
    struct pst_error err = {0};
    CHECK(psti_containers_columns_open(rules, data[0] % 5, &sink, &columns, &err) == PST_OK);
    enum pst_status status = walk(&source, notes != NULL ? notes : &none, columns, &counts, &err);
    CHECK(status == PST_OK || (err.text[0] != '\0' && err.status == status));
    CHECK(status == PST_OK || strcmp(err.file, "a.rows") == 0);
    if (status == PST_OK)
        CHECK(counts.n_samples == rows.n_samples);
    psti_containers_columns_close(&columns);
}

#endif
