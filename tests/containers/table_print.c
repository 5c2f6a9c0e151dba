/* table_print.c - a sink that prints rows. */
#include "test.h"

#include "table_print.h"

#include "base/fault.h"
#include "base/inflate.h"
#include "format/format_dataset.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *table_golden = "tests/golden/containers";

static void note(struct table_print *table, const char *format, ...) PST_PRINTF(2, 3);
static void note(struct table_print *table, const char *format, ...)
{
    if (table->log[0] == '\0')
        table->n_log = 0;
    size_t left = sizeof table->log - table->n_log;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(table->log + table->n_log, left, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < left);
    table->n_log += (size_t)n;
}

static struct table_print *table_of(struct psti_containers_writer *writer)
{
    return (struct table_print *)(void *)writer;
}

static enum pst_status print_field(struct psti_containers_writer *writer,
                                   const struct pst_field *field, uint32_t *i_field,
                                   struct pst_error *err)
{
    struct table_print *table = table_of(writer);
    (void)err;
    assert_null(psti_format_field_problem(field));
    assert_false(psti_format_name_is_taken(table->fields, table->n_fields, field->name));
    table->fields[table->n_fields] = *field;
    *i_field = table->n_fields++;
    return PST_OK;
}

static void print_restate(struct psti_containers_writer *writer, uint32_t i_field,
                          const struct pst_field *field)
{
    assert_null(psti_format_field_problem(field));
    table_of(writer)->fields[i_field] = *field;
}

static const struct psti_container_value *find(const struct psti_container_value *values,
                                               uint32_t n, uint32_t i_field)
{
    const struct psti_container_value *found = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (values[i].i_field == i_field) {
            assert_null(found);
            found = &values[i];
        }
    return found;
}

static void print_bytes(struct table_print *table, const struct pst_field *field,
                        const struct psti_container_value *value)
{
    const uint8_t *bytes = value->bytes;
    assert_int_equal(value->coding, PSTI_CODING_STORED);
    assert_int_equal(value->nbytes, value->decoded_nbytes);
    assert_false(value->is_in_page);
    bool is_text = field->type == PST_FIELD_TEXT || field->type == PST_FIELD_JSON;
    if (is_text)
        assert_true((bytes != NULL) == (value->nbytes <= PSTI_TEXT_IN_INDEX_NBYTES));
    if (bytes == NULL) {
        assert_true(value->offset <= table->nbytes &&
                    value->nbytes <= table->nbytes - value->offset);
        bytes = table->bytes + value->offset;
    } else {
        assert_true(value->nbytes <= 1 << 16);
    }
    if (field->type == PST_FIELD_ARRAY) {
        uint64_t product = pst_dtype_nbytes(field->dtype);
        note(table, " %s ", pst_dtype_name(field->dtype));
        for (uint8_t i = 0; i < value->ndim; i++) {
            note(table, "%s%u", i > 0 ? "x" : "", value->shape[i]);
            product *= value->shape[i];
        }
        assert_int_equal(product, value->nbytes);
    } else {
        note(table, " %" PRIu64, value->nbytes);
    }
    note(table, " %08x\n", psti_crc32(0, bytes, (size_t)value->nbytes));
}

static enum pst_status print_sample(struct psti_containers_writer *writer, const char *name,
                                    const struct psti_container_value *values, uint32_t n,
                                    struct pst_error *err)
{
    struct table_print *table = table_of(writer);
    uint32_t order[PST_MAX_FIELDS], n_sorted = 0;
    (void)err;
    for (uint32_t i = 0; i < table->n_fields; i++) {
        uint32_t k = n_sorted++;
        for (; k > 0 && strcmp(table->fields[order[k - 1]].name, table->fields[i].name) > 0; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    note(table, "%s\n", name);
    for (uint32_t i = 0; i < n; i++)
        assert_true(values[i].i_field < table->n_fields);
    for (uint32_t i = 0; i < n_sorted; i++) {
        const struct pst_field *field = &table->fields[order[i]];
        const struct psti_container_value *value = find(values, n, order[i]);
        if (value == NULL)
            continue;
        table->facts = value->facts;
        note(table, "  %s %s", field->name, pst_field_type_name(field->type));
        if (field->type == PST_FIELD_INT)
            note(table, " %" PRId64 "\n", value->int_value);
        else if (field->type == PST_FIELD_FLOAT)
            note(table, " %.9g\n", value->float_value);
        else
            print_bytes(table, field, value);
    }
    table->n_rows++;
    return PST_OK;
}

void table_fields(struct table_print *table)
{
    for (uint32_t i = 0; i < table->n_fields; i++) {
        const struct pst_field *field = &table->fields[i];
        note(table, "%s %s", field->name, pst_field_type_name(field->type));
        if (field->type == PST_FIELD_ARRAY)
            note(table, " %s", pst_dtype_name(field->dtype));
        for (uint8_t k = 0; k < field->ndim; k++)
            note(table, "%c%u", k > 0 ? 'x' : ' ', field->shape[k]);
        if (field->n_classes > 0)
            note(table, " /%" PRId64, field->n_classes);
        note(table, "\n");
    }
}

struct table_print *table_open(const struct psti_field_rule *rules, uint32_t n_rules)
{
    struct table_print *table = calloc(1, sizeof *table);
    assert_non_null(table);
    struct psti_field_sink sink = {.field = print_field,
                                   .restate = print_restate,
                                   .sample = print_sample,
                                   .writer = (struct psti_containers_writer *)(void *)table};
    assert_int_equal(
        psti_containers_columns_open(rules, n_rules, &sink, &table->columns, &table->err), PST_OK);
    return table;
}

void table_close(struct table_print *table)
{
    psti_containers_columns_close(&table->columns);
    free(table);
}

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct table_print *table = context;
    if (offset >= table->nbytes)
        return 0;
    if (nbytes > table->nbytes - offset)
        nbytes = (size_t)(table->nbytes - offset);
    if (++table->n_reads == table->fails_at) {
        errno = EIO;
        return -1;
    }
    if (table->n_reads == table->halves_at)
        nbytes /= 2;
    memcpy(bytes, table->bytes + offset, nbytes);
    table->n_read += nbytes;
    return (ssize_t)nbytes;
}

enum pst_status table_walk(struct table_print *table, psti_table_walk *walk, const char *path,
                           const void *bytes, size_t nbytes, const char *text)
{
    struct psti_walk_source source = {
        .read = memory_read, .context = table, .nbytes = nbytes, .path = path};
    struct psti_table_notes notes = {text, text == NULL ? 0 : strlen(text), "notes.json"};
    table->bytes = bytes;
    table->nbytes = nbytes;
    pst_error_clear(&table->err);
    return walk(&source, text == NULL ? NULL : &notes, table->columns, &table->counts, &table->err);
}

uint8_t *table_file(const char *folder, const char *name, size_t *nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s", table_golden, folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        print_error("%s is missing\n", path);
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long n = ftell(file);
    assert_true(n >= 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, file), n);
    bytes[n] = '\0';
    fclose(file);
    *nbytes = (size_t)n;
    return bytes;
}

enum pst_status table_walk_file(struct table_print *table, psti_table_walk *walk,
                                const char *folder, const char *name, const char *notes)
{
    size_t nbytes = 0, n_notes = 0;
    uint8_t *bytes = table_file(folder, name, &nbytes);
    uint8_t *text = notes == NULL ? NULL : table_file(folder, notes, &n_notes);
    enum pst_status status = table_walk(table, walk, name, bytes, nbytes, (const char *)text);
    free(text);
    free(bytes);
    return status;
}

void table_assert_fails(struct table_print *table, enum pst_status got, enum pst_status status,
                        const char *text)
{
    if (got != status || strstr(table->err.text, text) == NULL)
        print_error("%s: '%s' lacks '%s'\n", pst_status_name(got), table->err.text, text);
    assert_int_equal(got, status);
    assert_non_null(strstr(table->err.text, text));
}

/* Walks over a file while one allocation or read fails. Returns false if the walk had no such
 * allocation or read. */
static bool break_once(psti_table_walk *walk, const char *folder, const char *name,
                       const char *notes, int what, uint64_t n)
{
    static const enum pst_status wanted[] = {PST_ERROR_MEMORY, PST_ERROR_IO, PST_ERROR_TRUNCATED};
    struct pst_memory_stats before, after;
    bool has_broken = false;
    pst_memory_stats(&before, sizeof before);
    struct table_print *table = table_open(NULL, 0);
    table->fails_at = what == 1 ? n : 0;
    table->halves_at = what == 2 ? n : 0;
#ifdef PST_FAULTS
    psti_fault_arm(PSTI_FAULT_ALLOC, what == 0 ? n : 0, false);
#endif
    enum pst_status status = table_walk_file(table, walk, folder, name, notes);
#ifdef PST_FAULTS
    has_broken = what == 0 && psti_fault_count(PSTI_FAULT_ALLOC) >= n;
    psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
#endif
    if (what != 0)
        has_broken = table->n_reads >= n;
    /* If a read ends early, half of the bytes may be enough for the window, so success is
     * allowed. */
    if ((status != PST_OK || (has_broken && what == 1)) && status != wanted[what])
        print_error("%d %d: %s\n", what, (int)n, table->err.text);
    if (status != PST_OK || (has_broken && what == 1))
        assert_int_equal(status, wanted[what]);
    if (status != PST_OK)
        assert_true(table->err.status == status && table->err.text[0] != '\0');
    table_close(table);
    pst_memory_stats(&after, sizeof after);
    assert_int_equal(after.live_nbytes, before.live_nbytes);
    return has_broken;
}

void table_assert_breaks(psti_table_walk *walk, const char *folder, const char *name,
                         const char *notes)
{
    for (int what = 0; what < 3; what++) {
        uint64_t n = 1;
        while (break_once(walk, folder, name, notes, what, n))
            n++;
#ifdef PST_FAULTS
        assert_true(n > 1);
#endif
    }
}
