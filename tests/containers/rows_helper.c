/* rows_helper.c - a sink that lists samples, and damaged files that every walk must survive. */
#include "rows_helper.h"

#include "test.h"

#include "base/bits.h"
#include "base/codings/codings.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/inflate.h"
#include "format/format_dataset.h"

#include <penstock/penstock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

char rows_log[4096];

static void keep_log(void *context, enum pst_log_level level, const char *room, const char *text)
{
    (void)level;
    (void)context;
    assert_string_equal(room, "containers");
    size_t n = strlen(rows_log);
    snprintf(rows_log + n, sizeof rows_log - n, "%s\n", text);
}

void rows_keep_log(void)
{
    rows_log[0] = '\0';
    pst_set_log(keep_log, NULL, PST_LOG_DEBUG);
}

static uint8_t *read_file(const char *folder, const char *name, size_t *nbytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        print_error("cannot open %s\n", path);
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *nbytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = calloc(1, *nbytes + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *nbytes, file), *nbytes);
    fclose(file);
    return bytes;
}

void rows_open(struct rows *rows, const char *folder, const char *name)
{
    *rows = (struct rows){.path = name};
    rows->bytes = read_file(folder, name, &rows->nbytes);
}

void rows_close(struct rows *rows)
{
    free(rows->bytes);
    free(rows->text);
    *rows = (struct rows){0};
}

static ssize_t rows_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct rows *rows = context;
    rows->n_reads++;
    if (rows->before_read != NULL)
        rows->before_read(rows);
    assert_true(offset <= rows->nbytes && nbytes <= rows->nbytes - offset);
    memcpy(bytes, rows->bytes + offset, nbytes);
    return (ssize_t)nbytes;
}

/* Appends a formatted text to the list. */
static void add(struct rows *rows, const char *format, ...)
{
    va_list args;
    if (rows->capacity - rows->n < 8192) {
        rows->capacity = 2 * rows->capacity + 65536;
        rows->text = realloc(rows->text, rows->capacity);
        assert_non_null(rows->text);
    }
    va_start(args, format);
    int n = vsnprintf(rows->text + rows->n, rows->capacity - rows->n, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < rows->capacity - rows->n);
    rows->n += (size_t)n;
}

static enum pst_status rows_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct rows *rows = (struct rows *)(void *)writer;
    (void)err;
    assert_null(psti_format_field_problem(field));
    assert_true(rows->n_fields < PST_MAX_FIELDS);
    assert_false(psti_format_name_is_taken(rows->fields, rows->n_fields, field->name));
    rows->fields[rows->n_fields] = *field;
    *i_field = rows->n_fields++;
    return PST_OK;
}

static void rows_restate(struct psti_containers_writer *writer, uint32_t i_field,
                         const struct pst_field *field)
{
    struct rows *rows = (struct rows *)(void *)writer;
    assert_true(i_field < rows->n_fields);
    rows->fields[i_field] = *field;
}

static enum pst_status rows_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    (void)writer;
    (void)page;
    (void)i_page;
    (void)err;
    fail_msg("these containers have no pages");
    return PST_ERROR_INTERNAL;
}

/* Joins the parts of a RecordIO record. The value is the last decoded_nbytes of the joined
 * bytes. */
static uint8_t *join(const struct rows *rows, const struct psti_container_value *value)
{
    uint8_t *joined = calloc(1, (size_t)value->nbytes + 1);
    uint64_t at = value->offset, end = at + value->nbytes;
    size_t n = 0;
    assert_non_null(joined);
    while (at < end) {
        uint32_t word = psti_load_u32(rows->bytes + at + 4), nbytes = word & 0x1fffffff;
        assert_true(end - at >= 8 && psti_load_u32(rows->bytes + at) == 0xced7230a);
        assert_int_equal(word >> 29, at == value->offset ? 1 : at + 8 + nbytes + 3 < end ? 2 : 3);
        assert_true(nbytes <= end - at - 8);
        memcpy(joined + n, rows->bytes + at + 8, nbytes);
        n += nbytes;
        at += 8 + (nbytes + 3) / 4 * 4;
        if (at < end) {
            psti_store_u32(joined + n, 0xced7230a);
            n += 4;
        }
    }
    assert_true(at == end && value->decoded_nbytes <= n);
    memmove(joined, joined + n - value->decoded_nbytes, (size_t)value->decoded_nbytes);
    /* The decoder joins the parts in the same way. */
    uint8_t *decoded = malloc((size_t)value->decoded_nbytes + 1);
    assert_non_null(decoded);
    assert_null(psti_pieces_join(rows->bytes + value->offset, (size_t)value->nbytes, decoded,
                                 (size_t)value->decoded_nbytes));
    assert_memory_equal(decoded, joined, (size_t)value->decoded_nbytes);
    free(decoded);
    return joined;
}

static void add_shape(struct rows *rows, uint32_t ndim, const uint32_t *shape)
{
    add(rows, "[");
    for (uint32_t i = 0; i < ndim; i++)
        add(rows, "%s%" PRIu32, i == 0 ? "" : ",", shape[i]);
    add(rows, "]");
}

static void add_item(struct rows *rows, const struct pst_field *field,
                     const struct psti_container_value *value)
{
    const uint8_t *bytes = value->bytes;
    uint8_t *joined = NULL;
    uint64_t nbytes = value->nbytes;
    assert_false(value->is_in_page);
    if (bytes == NULL) {
        assert_true(value->offset <= rows->nbytes && nbytes <= rows->nbytes - value->offset);
        bytes = rows->bytes + value->offset;
        if (value->coding == PSTI_CODING_PIECES)
            bytes = joined = join(rows, value);
        else
            assert_true(value->coding == PSTI_CODING_STORED && value->decoded_nbytes == nbytes);
        nbytes = value->decoded_nbytes;
    } else {
        bool is_array = field->type == PST_FIELD_ARRAY;
        assert_true(value->coding == PSTI_CODING_STORED);
        assert_true(nbytes <= (is_array ? 65536 : PSTI_TEXT_IN_INDEX_NBYTES));
    }
    if (field->type == PST_FIELD_ARRAY)
        add_shape(rows, value->ndim, value->shape);
    add(rows, "%" PRIu64 ":%08" PRIx32, nbytes, psti_crc32(0, bytes, (size_t)nbytes));
    free(joined);
}

static enum pst_status rows_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct rows *rows = (struct rows *)(void *)writer;
    (void)err;
    assert_null(psti_format_name_problem(name, strlen(name)));
    assert_true(n >= 1 && n <= rows->n_fields);
    add(rows, "%s:", name);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(values[i].i_field < rows->n_fields);
        const struct pst_field *field = &rows->fields[values[i].i_field];
        add(rows, " %s=", field->name);
        if (field->type == PST_FIELD_INT)
            add(rows, "%" PRId64, values[i].int_value);
        else if (field->type == PST_FIELD_FLOAT)
            add(rows, "%.17g", values[i].float_value);
        else
            add_item(rows, field, &values[i]);
    }
    add(rows, "\n");
    rows->n_samples++;
    return PST_OK;
}

enum pst_status rows_walk(struct rows *rows, psti_table_walk *walk,
                          const struct psti_table_notes *notes, const struct psti_field_rule *rules,
                          uint32_t n_rules, struct pst_error *err)
{
    struct psti_walk_source source = {
        .read = rows_read, .context = rows, .nbytes = rows->nbytes, .path = rows->path};
    struct psti_field_sink sink = {.field = rows_field,
                                   .restate = rows_restate,
                                   .page = rows_page,
                                   .sample = rows_sample,
                                   .writer = (struct psti_containers_writer *)(void *)rows};
    struct psti_table_notes none = {.path = ""};
    struct psti_containers_columns *columns = NULL;
    struct psti_walk_counts counts = {0};
    rows->n_fields = 0;
    rows->n = 0;
    rows->n_samples = rows->n_reads = 0;
    pst_error_clear(err);
    enum pst_status status = psti_containers_columns_open(rules, n_rules, &sink, &columns, err);
    if (status == PST_OK)
        status = walk(&source, notes != NULL ? notes : &none, columns, &counts, err);
    if (status == PST_OK) {
        assert_int_equal(counts.n_samples, rows->n_samples);
        assert_int_equal(counts.n_members, rows->n_samples);
        status = psti_containers_columns_finish(columns, err);
    }
    psti_containers_columns_close(&columns);
    return status;
}

static void add_field(struct rows *list, const struct pst_field *field)
{
    static const char *const names[] = {
        [PST_FIELD_IMAGE] = "image", [PST_FIELD_MASK] = "mask",   [PST_FIELD_AUDIO] = "audio",
        [PST_FIELD_INT] = "int",     [PST_FIELD_FLOAT] = "float", [PST_FIELD_BYTES] = "bytes",
        [PST_FIELD_TEXT] = "text",   [PST_FIELD_JSON] = "json",   [PST_FIELD_ARRAY] = "array",
    };
    add(list, "field %s %s", field->name, names[field->type]);
    if (field->type == PST_FIELD_ARRAY) {
        add(list, " %s ", pst_dtype_name(field->dtype));
        add_shape(list, field->ndim, field->shape);
    }
    add(list, "\n");
}

char *rows_list(const struct rows *rows)
{
    struct rows list = {0};
    add(&list, "%s", "");
    for (uint32_t i = 0; i < rows->n_fields; i++)
        add_field(&list, &rows->fields[i]);
    list.text = realloc(list.text, list.n + rows->n + 1);
    assert_non_null(list.text);
    if (rows->n > 0)
        memcpy(list.text + list.n, rows->text, rows->n);
    list.text[list.n + rows->n] = '\0';
    return list.text;
}

void rows_assert_list(struct rows *rows, psti_table_walk *walk, const char *folder,
                      const char *list)
{
    struct pst_error err;
    size_t nbytes = 0;
    char *want = (char *)read_file(folder, list, &nbytes);
    assert_true(nbytes > 0);
    assert_ok(rows_walk(rows, walk, NULL, NULL, 0, &err));
    char *got = rows_list(rows);
    assert_string_equal(got, want);
    free(got);
    free(want);
}

void rows_assert_fails(struct rows *rows, psti_table_walk *walk,
                       const struct psti_field_rule *rules, uint32_t n_rules,
                       enum pst_status status, const char *text)
{
    struct pst_error err;
    enum pst_status got = rows_walk(rows, walk, NULL, rules, n_rules, &err);
    if (got != status || strstr(err.text, text) == NULL)
        print_error("'%s' is not in %s '%s'\n", text, pst_status_name(got), err.text);
    assert_int_equal(got, status);
    assert_non_null(strstr(err.text, text));
    assert_string_equal(err.file, rows->path);
}

/* Walks over damaged bytes. Returns the list, or NULL if the walk ended with an error. */
static char *try(struct rows *rows, psti_table_walk *walk)
{
    struct pst_error err;
    enum pst_status status = rows_walk(rows, walk, NULL, NULL, 0, &err);
    if (status == PST_OK)
        return rows_list(rows);
    assert_true(err.status == status && err.text[0] != '\0');
    assert_string_equal(err.file, rows->path);
    return NULL;
}

void rows_flip(struct rows *rows, psti_table_walk *walk)
{
    for (uint32_t i = 0; i < 1500; i++) {
        /* Half of the flipped bits are in the first 4 KiB. */
        uint64_t random = psti_hash64(&i, sizeof i);
        size_t within = i % 2 == 0 && rows->nbytes > 4096 ? 4096 : rows->nbytes;
        size_t at = random % within;
        uint8_t was = rows->bytes[at];
        rows->bytes[at] ^= (uint8_t)(1u << (random >> 40 & 7));
        free(try(rows, walk));
        rows->bytes[at] = was;
    }
}

void rows_damage(struct rows *rows, psti_table_walk *walk, size_t step)
{
    char *whole = try(rows, walk);
    size_t nbytes = rows->nbytes;
    uint8_t *bytes = rows->bytes;
    uint64_t n_errors = 0;
    assert_non_null(whole);
    for (rows->nbytes = 0; rows->nbytes < nbytes; rows->nbytes += step) {
        /* A copy of exactly this size lets AddressSanitizer detect reads behind the end. */
        rows->bytes = malloc(rows->nbytes + 1);
        assert_non_null(rows->bytes);
        memcpy(rows->bytes, bytes, rows->nbytes);
        char *got = try(rows, walk);
        if (got != NULL)
            assert_string_equal(got, whole);
        n_errors += got == NULL;
        free(got);
        free(rows->bytes);
    }
    assert_true(n_errors > 0);
    rows->nbytes = nbytes;
    rows->bytes = bytes;
    free(whole);
    rows_flip(rows, walk);
}

void rows_lack_memory(struct rows *rows, psti_table_walk *walk,
                      const struct psti_table_notes *notes)
{
#ifdef PST_FAULTS
    enum pst_status status = PST_ERROR_MEMORY;
    struct pst_memory_stats before, after;
    struct pst_error err;
    uint64_t n = 0;
    pst_memory_stats(&before, sizeof before);
    while (status != PST_OK) {
        psti_fault_arm(PSTI_FAULT_ALLOC, ++n, false);
        status = rows_walk(rows, walk, notes, NULL, 0, &err);
        psti_fault_arm(PSTI_FAULT_ALLOC, 0, false);
        if (status != PST_OK)
            assert_int_equal(status, PST_ERROR_MEMORY);
        pst_memory_stats(&after, sizeof after);
        assert_int_equal(after.live_nbytes, before.live_nbytes);
    }
    assert_true(n > 4);
#else
    (void)rows;
    (void)walk;
    (void)notes;
    skip();
#endif
}
