/* parquet_helper.c - a sink that lists the fields and rows of a walk. */
#include "parquet_helper.h"

#include "test.h"

#include "base/fail.h"
#include "base/inflate.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void add(struct parquet_file *file, const char *format, ...) PST_PRINTF(2, 3);
static void add(struct parquet_file *file, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof text);
    if (file->n_text + (size_t)n + 1 > file->capacity) {
        file->capacity = 2 * file->capacity + 4096;
        file->rows = realloc(file->rows, file->capacity);
        assert_non_null(file->rows);
    }
    memcpy(file->rows + file->n_text, text, (size_t)n + 1);
    file->n_text += (size_t)n;
}

static struct parquet_file *file_of(struct psti_containers_writer *writer)
{
    return (struct parquet_file *)(void *)writer;
}

static enum pst_status sink_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct parquet_file *file = file_of(writer);
    (void)err;
    assert_true(file->n_fields < PST_MAX_FIELDS);
    *i_field = file->n_fields++;
    file->fields[*i_field] = *field;
    return PST_OK;
}

static void sink_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    file_of(writer)->fields[i_field] = *field;
}

static enum pst_status sink_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    char *text = file_of(writer)->classes[i_field];
    (void)err;
    assert_true(nbytes < PARQUET_CLASSES_CAP);
    memcpy(text, names, nbytes);
    for (size_t i = 0; i + 1 < nbytes; i++)
        if (text[i] == '\0') {
            text[i] = ',';
            n--;
        }
    assert_int_equal(n, 1);
    return PST_OK;
}

static enum pst_status sink_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    struct parquet_file *file = file_of(writer);
    assert_true(page->offset <= file->nbytes && page->nbytes <= file->nbytes - page->offset);
    assert_true(page->coding != PSTI_CODING_STORED);
    if (file->n_pages == PARQUET_PAGES_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "test", "too many pages");
    *i_page = file->n_pages;
    file->pages[file->n_pages++] = *page;
    return PST_OK;
}

/* Lists the bytes of a value that lies in a page. */
static uint32_t page_sum(struct parquet_file *file, const struct psti_container_value *value)
{
    struct pst_error err;
    assert_true(value->i_page < file->n_pages);
    const struct psti_container_page *page = &file->pages[value->i_page];
    assert_true(value->offset <= page->decoded_nbytes &&
                value->nbytes <= page->decoded_nbytes - value->offset);
    uint8_t *bytes = malloc(page->decoded_nbytes + 1);
    assert_non_null(bytes);
    assert_ok(psti_codings_decode(file->codings, (enum pst_coding)page->coding,
                                  file->bytes + page->offset, page->nbytes, bytes,
                                  page->decoded_nbytes, &err));
    uint32_t sum = psti_crc32(0, bytes + value->offset, value->nbytes);
    free(bytes);
    return sum;
}

static void list_bytes(struct parquet_file *file, const struct psti_container_value *value)
{
    uint32_t sum = 0;
    assert_int_equal(value->decoded_nbytes, value->nbytes);
    assert_int_equal(value->coding, PSTI_CODING_STORED);
    if (value->bytes != NULL) {
        sum = psti_crc32(0, value->bytes, value->nbytes);
    } else if (value->is_in_page) {
        sum = page_sum(file, value);
    } else {
        assert_true(value->offset <= file->nbytes && value->nbytes <= file->nbytes - value->offset);
        sum = psti_crc32(0, file->bytes + value->offset, value->nbytes);
    }
    add(file, "%" PRIu64 ", \"%08" PRIx32 "\"]", value->nbytes, sum);
}

static void list_value(struct parquet_file *file, const struct psti_container_value *value)
{
    const struct pst_field *field = &file->fields[value->i_field];
    uint64_t bits = 0;
    add(file, "\"%s\": ", field->name);
    switch (field->type) {
    case PST_FIELD_INT:
        add(file, "%" PRId64, value->int_value);
        return;
    case PST_FIELD_FLOAT:
        memcpy(&bits, &value->float_value, sizeof bits);
        add(file, "\"%016" PRIx64 "\"", bits);
        return;
    case PST_FIELD_ARRAY:
        add(file, "[\"");
        for (uint32_t i = 0; i < value->ndim; i++)
            add(file, "%s%" PRIu32, i == 0 ? "" : " ", value->shape[i]);
        add(file, "\", ");
        break;
    default:
        add(file, "[");
    }
    list_bytes(file, value);
}

static enum pst_status sink_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct parquet_file *file = file_of(writer);
    char expected[64];
    if (file->n_rows == file->most_rows && file->most_rows > 0)
        return psti_fail(err, PST_ERROR_LIMIT, "test", "too many rows");
    snprintf(expected, sizeof expected, "/%08" PRIu64, file->n_rows++);
    assert_non_null(strstr(name, expected));
    if (file->is_silent)
        return PST_OK;
    add(file, "{");
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            add(file, ", ");
        list_value(file, &values[i]);
    }
    add(file, "}\n");
    return PST_OK;
}

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct parquet_file *file = context;
    memcpy(bytes, file->bytes + offset, nbytes);
    file->n_read += nbytes;
    return (ssize_t)nbytes;
}

uint8_t *parquet_read(const char *folder, const char *name, const char *ending, size_t *nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *in = fopen(path, "rb");
    if (in == NULL)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    *nbytes = (size_t)ftell(in);
    rewind(in);
    uint8_t *bytes = malloc(*nbytes + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *nbytes, in), *nbytes);
    fclose(in);
    bytes[*nbytes] = '\0';
    return bytes;
}

void parquet_open(struct parquet_file *file, const char *folder, const char *name)
{
    struct pst_error err;
    memset(file, 0, sizeof *file);
    file->bytes = parquet_read(folder, name, ".parquet", &file->nbytes);
    assert_ok(psti_codings_open(&file->codings, 0, "test", &err));
}

void parquet_close(struct parquet_file *file)
{
    psti_codings_close(&file->codings);
    free(file->text);
    free(file->rows);
    free(file->bytes);
    memset(file, 0, sizeof *file);
}

enum pst_status parquet_walk(struct parquet_file *file, size_t nbytes,
                             const struct psti_field_rule *rules, uint32_t n_rules,
                             struct psti_walk_counts *counts, struct pst_error *err)
{
    struct psti_walk_source source = {
        .read = memory_read, .context = file, .nbytes = nbytes, .path = "a/train.parquet"};
    struct psti_field_sink sink = {.field = sink_field,
                                   .restate = sink_restate,
                                   .classes = sink_classes,
                                   .page = sink_page,
                                   .sample = sink_sample,
                                   .writer = (struct psti_containers_writer *)(void *)file};
    static const struct psti_table_notes notes;
    struct psti_containers_columns *columns = NULL;
    file->n_fields = file->n_pages = 0;
    file->n_rows = file->n_text = file->n_read = 0;
    memset(file->classes, 0, sizeof file->classes);
    enum pst_status status = psti_containers_columns_open(rules, n_rules, &sink, &columns, err);
    if (status == PST_OK)
        status = psti_containers_parquet_walk(&source, &notes, columns, counts, err);
    if (status == PST_OK)
        status = psti_containers_columns_finish(columns, err);
    psti_containers_columns_close(&columns);
    return status;
}

/* Makes the whole listing: first the fields, whose types are known only after the walk, then the
 * rows. */
static void make_text(struct parquet_file *file)
{
    char *rows = file->rows;
    size_t n_rows = file->n_text;
    file->rows = NULL;
    file->n_text = file->capacity = 0;
    add(file, "{");
    for (uint32_t i = 0; i < file->n_fields; i++) {
        const struct pst_field *field = &file->fields[i];
        add(file, "%s\"%s\": \"%s", i == 0 ? "" : ", ", field->name,
            pst_field_type_name(field->type));
        if (field->n_classes > 0)
            add(file, " %" PRId64 " %s", field->n_classes, file->classes[i]);
        if (field->type == PST_FIELD_ARRAY) {
            add(file, " %s", pst_dtype_name(field->dtype));
            for (uint32_t k = 0; k < field->ndim; k++)
                add(file, " %" PRIu32, field->shape[k]);
            if (field->ndim == 0)
                add(file, " any");
        }
        add(file, "\"");
    }
    add(file, "}\n");
    free(file->text);
    file->text = malloc(file->n_text + n_rows + 1);
    assert_non_null(file->text);
    memcpy(file->text, file->rows, file->n_text);
    if (n_rows > 0)
        memcpy(file->text + file->n_text, rows, n_rows);
    file->text[file->n_text + n_rows] = '\0';
    free(rows);
}

void parquet_check(struct parquet_file *file, const char *folder, const char *name)
{
    size_t nbytes = 0;
    char *expected = (char *)parquet_read(folder, name, ".jsonl", &nbytes), *at = expected;
    make_text(file);
    const char *got = file->text;
    for (int line = 1; *at != '\0' || *got != '\0'; line++) {
        size_t n = strcspn(at, "\n"), n_got = strcspn(got, "\n");
        if (n != n_got || memcmp(at, got, n) != 0)
            fail_msg("%s, line %d:\n%.*s\nand not\n%.*s", name, line, (int)n_got, got, (int)n, at);
        at += n + (at[n] != '\0');
        got += n_got + (got[n_got] != '\0');
    }
    free(expected);
}
