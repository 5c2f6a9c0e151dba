/* arrow_helper.c - a sink that writes down the values of a walk and decodes the pages that hold
 * them. */
#include "arrow_helper.h"

#include "base/codings/codings.h"
#include "base/inflate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note(struct arrow_walk *walk, const char *format, ...) PST_PRINTF(2, 3);
static void note(struct arrow_walk *walk, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (walk->capacity - walk->n_row_bytes < 8192) {
        walk->capacity = 2 * walk->capacity + 16384;
        walk->rows = realloc(walk->rows, walk->capacity);
        if (walk->rows == NULL)
            abort();
    }
    int n = vsnprintf(walk->rows + walk->n_row_bytes, 8192, format, args);
    walk->n_row_bytes += n < 8192 ? (size_t)n : 8191;
    va_end(args);
}

static ssize_t memory_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    struct arrow_walk *walk = context;
    if (++walk->n_reads == walk->fails_at) {
        errno = EIO;
        return -1;
    }
    size_t left = offset < walk->nbytes ? walk->nbytes - (size_t)offset : 0;
    size_t n = nbytes < left ? nbytes : left;
    memcpy(bytes, walk->bytes + (offset < walk->nbytes ? offset : 0), n);
    return (ssize_t)n;
}

static struct arrow_walk *walk_of(struct psti_containers_writer *writer)
{
    return (struct arrow_walk *)(void *)writer;
}

static enum pst_status take_field(struct psti_containers_writer *writer,
                                  const struct pst_field *field, uint32_t *i_field,
                                  struct pst_error *err)
{
    struct arrow_walk *walk = walk_of(writer);
    (void)err;
    walk->fields[walk->n_fields] = *field;
    *i_field = walk->n_fields++;
    return PST_OK;
}

static void take_restated(struct psti_containers_writer *writer, uint32_t i_field,
                          const struct pst_field *field)
{
    walk_of(writer)->fields[i_field] = *field;
}

static enum pst_status take_classes(struct psti_containers_writer *writer, uint32_t i_field,
                                    const char *names, size_t nbytes, uint32_t n,
                                    struct pst_error *err)
{
    struct arrow_walk *walk = walk_of(writer);
    (void)err, (void)n;
    char *copy = malloc(nbytes + 1);
    if (copy == NULL)
        abort();
    memcpy(copy, names, nbytes);
    for (size_t i = 0; i + 1 < nbytes; i++)
        if (copy[i] == '\0')
            copy[i] = ',';
    copy[nbytes] = '\0';
    walk->classes[i_field] = copy;
    return PST_OK;
}

static enum pst_status take_page(struct psti_containers_writer *writer,
                                 const struct psti_container_page *page, uint64_t *i_page,
                                 struct pst_error *err)
{
    struct arrow_walk *walk = walk_of(writer);
    (void)err;
    *i_page = walk->n_pages++;
    walk->pages = realloc(walk->pages, walk->n_pages * sizeof *walk->pages);
    walk->decoded = realloc(walk->decoded, walk->n_pages * sizeof *walk->decoded);
    if (walk->pages == NULL || walk->decoded == NULL)
        abort();
    walk->pages[*i_page] = *page;
    walk->decoded[*i_page] = NULL;
    return PST_OK;
}

/* Decodes a page. Returns false if that fails. */
static bool decode(struct arrow_walk *walk, uint64_t i_page)
{
    const struct psti_container_page *page = &walk->pages[i_page];
    struct psti_codings *codings = NULL;
    struct pst_error err;
    if (walk->decoded[i_page] != NULL)
        return true;
    if (page->offset > walk->nbytes || page->nbytes > walk->nbytes - page->offset)
        return false;
    walk->decoded[i_page] = malloc((size_t)page->decoded_nbytes + 1);
    bool has =
        walk->decoded[i_page] != NULL && psti_codings_open(&codings, 0, "test", &err) == PST_OK &&
        psti_codings_decode(codings, (enum pst_coding)page->coding, walk->bytes + page->offset,
                            (size_t)page->nbytes, walk->decoded[i_page],
                            (size_t)page->decoded_nbytes, &err) == PST_OK;
    psti_codings_close(&codings);
    return has;
}

/* Returns the bytes of a value, or NULL if they are not where the value says. */
static const uint8_t *bytes_of(struct arrow_walk *walk, const struct psti_container_value *value)
{
    if (value->bytes != NULL)
        return value->bytes;
    uint64_t nbytes = walk->nbytes;
    if (value->is_in_page && (value->i_page >= walk->n_pages || !decode(walk, value->i_page)))
        return NULL;
    if (value->is_in_page)
        nbytes = walk->pages[value->i_page].decoded_nbytes;
    if (value->offset > nbytes || value->nbytes > nbytes - value->offset)
        return NULL;
    return (value->is_in_page ? walk->decoded[value->i_page] : walk->bytes) + value->offset;
}

static void note_value(struct arrow_walk *walk, const struct psti_container_value *value)
{
    const struct pst_field *field = &walk->fields[value->i_field];
    const uint8_t *bytes = NULL;
    uint64_t bits;
    note(walk, " %s=", field->name);
    if (field->type == PST_FIELD_INT) {
        note(walk, "%" PRId64, value->int_value);
        return;
    }
    if (field->type == PST_FIELD_FLOAT) {
        memcpy(&bits, &value->float_value, sizeof bits);
        note(walk, "%016" PRIx64, bits);
        return;
    }
    for (int i = 0; i < value->ndim; i++)
        note(walk, "%s%u", i > 0 ? "x" : "", value->shape[i]);
    if (value->ndim > 0)
        note(walk, ":");
    bytes = bytes_of(walk, value);
    if (bytes == NULL) {
        walk->has_bad_value = true;
        note(walk, "nowhere");
        return;
    }
    note(walk, "%" PRIu64 "/%08x", value->nbytes, psti_crc32(0, bytes, (size_t)value->nbytes));
}

static enum pst_status take_sample(struct psti_containers_writer *writer, const char *name,
                                   const struct psti_container_value *values, uint32_t n,
                                   struct pst_error *err)
{
    struct arrow_walk *walk = walk_of(writer);
    (void)err;
    note(walk, "%s", name);
    for (uint32_t i = 0; i < n; i++)
        note_value(walk, &values[i]);
    note(walk, "\n");
    walk->n_rows++;
    return PST_OK;
}

enum pst_status arrow_walk(struct arrow_walk *walk, const struct psti_field_rule *rules,
                           uint32_t n_rules, struct pst_error *err)
{
    struct psti_walk_source source = {.read = memory_read,
                                      .context = walk,
                                      .nbytes = walk->nbytes,
                                      .path = walk->path == NULL ? "a.arrow" : walk->path};
    struct psti_field_sink sink = {.field = take_field,
                                   .restate = take_restated,
                                   .classes = take_classes,
                                   .page = take_page,
                                   .sample = take_sample,
                                   .writer = (struct psti_containers_writer *)(void *)walk};
    struct psti_containers_columns *columns = NULL;
    enum pst_status status = psti_containers_columns_open(rules, n_rules, &sink, &columns, err);
    if (status == PST_OK)
        status = psti_containers_arrow_walk(&source, &walk->notes, columns, &walk->counts, err);
    if (status == PST_OK)
        status = psti_containers_columns_finish(columns, err);
    psti_containers_columns_close(&columns);
    return status;
}

char *arrow_listing(const struct arrow_walk *walk)
{
    size_t nbytes = walk->n_row_bytes + 1;
    for (uint32_t i = 0; i < walk->n_fields; i++)
        nbytes += 256 + (walk->classes[i] == NULL ? 0 : strlen(walk->classes[i]));
    char *text = calloc(1, nbytes);
    if (text == NULL)
        abort();
    size_t n = 0;
    for (uint32_t i = 0; i < walk->n_fields; i++) {
        const struct pst_field *field = &walk->fields[i];
        n += (size_t)snprintf(text + n, nbytes - n, "%s %s", field->name,
                              pst_field_type_name(field->type));
        if (field->type == PST_FIELD_ARRAY)
            n += (size_t)snprintf(text + n, nbytes - n, " %s %s", pst_dtype_name(field->dtype),
                                  field->ndim == 0 ? "any" : "");
        for (int k = 0; k < field->ndim; k++)
            n += (size_t)snprintf(text + n, nbytes - n, "%s%u", k > 0 ? "x" : "", field->shape[k]);
        if (walk->classes[i] != NULL && field->n_classes > 0)
            n += (size_t)snprintf(text + n, nbytes - n, " classes=%s", walk->classes[i]);
        n += (size_t)snprintf(text + n, nbytes - n, "\n");
    }
    if (walk->n_row_bytes > 0)
        memcpy(text + n, walk->rows, walk->n_row_bytes);
    return text;
}

void arrow_free(struct arrow_walk *walk)
{
    for (size_t i = 0; i < walk->n_pages; i++)
        free(walk->decoded[i]);
    for (uint32_t i = 0; i < walk->n_fields; i++)
        free(walk->classes[i]);
    free(walk->pages);
    free(walk->decoded);
    free(walk->rows);
    *walk = (struct arrow_walk){.bytes = walk->bytes, .nbytes = walk->nbytes, .path = walk->path};
}

uint8_t *arrow_read_file(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0) {
        *nbytes = (size_t)ftell(file);
        bytes = malloc(*nbytes + 1);
        rewind(file);
        if (bytes != NULL && fread(bytes, 1, *nbytes, file) != *nbytes) {
            free(bytes);
            bytes = NULL;
        }
    }
    fclose(file);
    return bytes;
}
