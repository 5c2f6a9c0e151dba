/* fuzz_table.h - a sink for fuzz targets that walk over tables. It checks that fields are legal,
 * and that values lie in the file and have their stated sizes. Each target includes it once. */
#ifndef PST_TESTS_FUZZ_TABLE_H
#define PST_TESTS_FUZZ_TABLE_H

#include "containers/table/containers_columns.h"
#include "format/format_dataset.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

/* A kind of table: its walk, and how its values differ from other kinds. */
struct fuzz_kind {
    psti_table_walk *walk;
    const struct psti_field_rule *rules; /* [FUZZ_N_RULES]; the input chooses how many apply */
    bool gives_joined;                   /* items may be parts of a record that have to be joined */
    bool has_values;                     /* each sample has a value */
};
enum { FUZZ_N_RULES = 4 };

/* Imitates the file and the writer of the index. */
struct fuzz_table {
    const struct fuzz_kind *kind;
    const uint8_t *data;
    size_t nbytes;
    struct pst_field fields[PST_MAX_FIELDS];
    uint32_t n_fields;
    uint64_t n_samples, sum;
};

static ssize_t fuzz_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    const struct fuzz_table *table = context;
    CHECK(offset <= table->nbytes && nbytes <= table->nbytes - offset);
    if (nbytes > 0)
        memcpy(bytes, table->data + offset, nbytes);
    return (ssize_t)nbytes;
}

static enum pst_status fuzz_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct fuzz_table *table = (struct fuzz_table *)(void *)writer;
    (void)err;
    CHECK(psti_format_field_problem(field) == NULL && table->n_fields < PST_MAX_FIELDS);
    CHECK(!psti_format_name_is_taken(table->fields, table->n_fields, field->name));
    table->fields[table->n_fields] = *field;
    *i_field = table->n_fields++;
    return PST_OK;
}

static void fuzz_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct fuzz_table *table = (struct fuzz_table *)(void *)writer;
    CHECK(i_field < table->n_fields && psti_format_field_problem(field) == NULL);
    CHECK(field->type == table->fields[i_field].type &&
          field->dtype == table->fields[i_field].dtype);
    table->fields[i_field] = *field;
}

/* Aborts, because none of these kinds has compressed pages. */
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

static void fuzz_value(struct fuzz_table *table, const struct psti_container_value *value)
{
    CHECK(value->i_field < table->n_fields && !value->is_in_page);
    const struct pst_field *field = &table->fields[value->i_field];
    if (field->type == PST_FIELD_INT || field->type == PST_FIELD_FLOAT) {
        CHECK(field->n_classes == 0 ||
              (value->int_value >= 0 && value->int_value < field->n_classes));
        return;
    }
    const uint8_t *bytes = value->bytes;
    bool is_joined = table->kind->gives_joined && value->coding == PSTI_CODING_PIECES;
    CHECK(is_joined || value->coding == PSTI_CODING_STORED);
    if (bytes == NULL) {
        CHECK(value->offset <= table->nbytes && value->nbytes <= table->nbytes - value->offset);
        CHECK(is_joined ? value->decoded_nbytes < value->nbytes
                        : value->decoded_nbytes == value->nbytes);
        bytes = table->data + value->offset;
    } else {
        CHECK(value->nbytes <= 1 << 16 && !is_joined);
        CHECK(table->kind->gives_joined || value->decoded_nbytes == value->nbytes);
    }
    for (uint64_t i = 0; i < value->nbytes; i = i < 64 ? i + 1 : i + 61)
        table->sum += bytes[i];
    if (field->type != PST_FIELD_ARRAY)
        return;
    uint64_t product = pst_dtype_nbytes(field->dtype);
    for (int i = 0; i < value->ndim; i++)
        if (value->shape[i] == 0)
            product = 0;
    for (int i = 0; i < value->ndim; i++)
        product *= value->shape[i];
    CHECK(product == value->nbytes && (field->ndim == 0 || field->ndim == value->ndim));
}

static enum pst_status fuzz_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct fuzz_table *table = (struct fuzz_table *)(void *)writer;
    uint64_t seen = 0;
    (void)err;
    CHECK(psti_format_name_problem(name, strlen(name)) == NULL && n <= table->n_fields);
    CHECK(n >= 1 || !table->kind->has_values);
    for (uint32_t i = 0; i < n; i++) {
        fuzz_value(table, &values[i]);
        CHECK((seen >> values[i].i_field & 1) == 0);
        seen |= UINT64_C(1) << values[i].i_field;
    }
    table->n_samples++;
    return PST_OK;
}

/* Walks over the bytes with the first n_rules % 5 rules. notes: contents of the notes beside the
 * file, or NULL. Errors must have a text and name the file. */
static void fuzz_walk(const struct fuzz_kind *kind, const uint8_t *data, size_t nbytes,
                      const struct psti_table_notes *notes, uint32_t n_rules)
{
    static struct fuzz_table table;
    table = (struct fuzz_table){.kind = kind, .data = data, .nbytes = nbytes};
    struct psti_walk_source source = {
        .read = fuzz_read, .context = &table, .nbytes = nbytes, .path = "a.file"};
    struct psti_field_sink sink = {.field = fuzz_field,
                                   .restate = fuzz_restate,
                                   .page = fuzz_page,
                                   .sample = fuzz_sample,
                                   .writer = (struct psti_containers_writer *)(void *)&table};
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts = {0};
    struct pst_error err = {0};
    n_rules %= FUZZ_N_RULES + 1;
    CHECK(psti_containers_columns_open(kind->rules, n_rules, &sink, &columns, &err) == PST_OK);
    enum pst_status status = kind->walk(&source, notes, columns, &counts, &err);
    CHECK(status == PST_OK || (err.text[0] != '\0' && err.status == status && err.file[0] != '\0'));
    CHECK(status == PST_OK || !kind->has_values || strcmp(err.file, "a.file") == 0);
    CHECK(status != PST_OK || counts.n_samples == table.n_samples);
    psti_containers_columns_close(&columns);
    table.kind = NULL;
}

/* Rules for RecordIO, LMDB and beton files, each of which has a column of one of these names. */
static const struct psti_field_rule fuzz_record_rules[FUZZ_N_RULES] = {
    {.suffix = "value", .type = PST_FIELD_BYTES},
    {.suffix = "image", .field = "photo", .type = PST_FIELD_BYTES},
    {.suffix = "label", .is_left_out = true},
    {.suffix = "record", .type = PST_FIELD_TEXT},
};

/* Walks over records. The first byte of the input chooses the user's rules. */
static inline void fuzz_records(psti_table_walk *walk, const uint8_t *data, size_t nbytes,
                                const struct psti_table_notes *notes)
{
    const struct fuzz_kind kind = {
        .walk = walk, .rules = fuzz_record_rules, .gives_joined = true, .has_values = true};
    if (nbytes > 0)
        fuzz_walk(&kind, data + 1, nbytes - 1, notes, data[0]);
}

#endif
