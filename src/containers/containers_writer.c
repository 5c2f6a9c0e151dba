/* containers_writer.c - collects the columns of an index in unnamed temporary files.
 *
 * In: files, pages, fields and samples, in order. Out: columns, which psti_containers_writer_finish
 * (containers_writer_end.c) joins to an index.
 *
 * Each column grows in a temporary file beside the index. The column of a field that appears late
 * begins with a hole, which reads as zeros and means "no value". The sizes of the current file's
 * pages stay in memory, to check that items lie within them. */
#include "containers/containers_writer_int.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM "containers"
enum {
    COLUMN_BUFFER_NBYTES = 1 << 16,
    VALUE_LIMIT = 1 << 16, /* maximum number of bytes that the index stores for one item */
};

static int open_nameless(const char *path)
{
    char name[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = snprintf(name, sizeof name, "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
                     slash == NULL ? "." : path);
    if (n < 0 || (size_t)n + 24 >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(name, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    /* O_TMPFILE is not supported here, so a named file is made and unlinked. */
    memcpy(name + n, "/.penstock-XXXXXX", sizeof "/.penstock-XXXXXX");
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    return fd;
}

/* Opens the temporary file of a column, whose first row will be at `offset`. */
static enum pst_status grow(const struct psti_containers_writer *writer, uint64_t offset,
                            struct psti_output *out, struct pst_error *err)
{
    enum pst_status status =
        psti_output_prepare(out, ROOM, writer->path, offset, COLUMN_BUFFER_NBYTES, err);
    if (status != PST_OK)
        return status;
    out->fd = psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : open_nameless(writer->path);
    if (out->fd >= 0)
        return PST_OK;
    status = psti_fail_os(err, errno, ROOM, writer->path, -1, "cannot write an index there");
    psti_output_close(out);
    return status;
}

static struct psti_output *output_of(struct psti_containers_writer *writer, int i)
{
    struct psti_output *all[] = {&writer->names, &writer->groups, &writer->values,
                                 &writer->files, &writer->paths,  &writer->pages};
    return i < (int)(sizeof all / sizeof all[0]) ? all[i] : NULL;
}

enum pst_status psti_containers_writer_open(const char *path, struct psti_containers_writer **out,
                                            struct pst_error *err)
{
    /* The hash state inside needs a larger alignment than malloc gives. */
    struct psti_containers_writer *writer =
        psti_alloc_aligned(_Alignof(struct psti_containers_writer), sizeof *writer);
    *out = writer;
    if (writer == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to make an index");
    memset(writer, 0, sizeof *writer);
    for (int i = 0; output_of(writer, i) != NULL; i++)
        output_of(writer, i)->fd = -1;
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        writer->columns[i].rows.fd = writer->columns[i].shapes.fd = -1;
    psti_hash_pair_begin(&writer->bytes);
    writer->path = psti_strdup(path);
    enum pst_status status =
        writer->path == NULL ? psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory to make an index")
                             : PST_OK;
    for (int i = 0; status == PST_OK && output_of(writer, i) != NULL; i++)
        status = grow(writer, 0, output_of(writer, i), err);
    if (status != PST_OK)
        psti_containers_writer_close(out);
    return status;
}

void psti_containers_writer_close(struct psti_containers_writer **writer)
{
    struct psti_containers_writer *closed = *writer;
    *writer = NULL;
    if (closed == NULL)
        return;
    for (int i = 0; output_of(closed, i) != NULL; i++)
        psti_output_close(output_of(closed, i));
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++) {
        psti_output_close(&closed->columns[i].rows);
        psti_output_close(&closed->columns[i].shapes);
        psti_free(closed->columns[i].classes);
    }
    psti_free(closed->page_sizes);
    if (closed->is_made && !closed->is_finished)
        unlink(closed->path);
    psti_free(closed->path);
    psti_free(closed);
}

void psti_containers_writer_know_sums(struct psti_containers_writer *writer,
                                      psti_known_sum *known_sum, void *context)
{
    writer->known_sum = known_sum;
    writer->known_context = context;
}

enum pst_status psti_containers_writer_file(struct psti_containers_writer *writer, const char *path,
                                            uint64_t file_nbytes, uint64_t stamp,
                                            uint64_t sampled_hash, struct pst_error *err)
{
    uint8_t printed[PSTI_CONTAINER_FILE_NBYTES], facts[16];
    struct psti_container_file file = {.nbytes = file_nbytes,
                                       .stamp = stamp,
                                       .first_sample = writer->n_samples,
                                       .sampled = sampled_hash,
                                       .path = writer->paths_nbytes};
    size_t nbytes = strlen(path) + 1;
    if (writer->n_files + 1 >= PST_FILE_NONE)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "more than 4294967294 files");
    psti_store_u64(facts, file.nbytes);
    psti_store_u64(facts + 8, file.sampled);
    psti_hash_pair_update(&writer->bytes, facts, sizeof facts);
    psti_format_print_container_file(&file, printed);
    enum pst_status status = psti_output_append(&writer->files, printed, sizeof printed, err);
    if (status == PST_OK)
        status = psti_output_append(&writer->paths, path, nbytes, err);
    writer->paths_nbytes += nbytes;
    writer->n_files++;
    writer->file_nbytes = file_nbytes;
    snprintf(writer->file_name, sizeof writer->file_name, "%s",
             nbytes > sizeof writer->file_name ? path + (nbytes - sizeof writer->file_name) : path);
    writer->first_page = writer->n_pages;
    return status;
}

enum pst_status psti_containers_writer_field(struct psti_containers_writer *writer,
                                             const struct pst_field *field, uint32_t *i_field,
                                             struct pst_error *err)
{
    if (writer->n_fields == PST_MAX_FIELDS)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "the samples have more than %d fields: choose by `fields`",
                         PST_MAX_FIELDS);
    const char *problem = psti_format_field_problem(field);
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "field \"%.63s\" %s", field->name, problem);
    for (uint32_t i = 0; i < writer->n_fields; i++)
        if (strcmp(writer->columns[i].field.name, field->name) == 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "two fields are named \"%s\"",
                             field->name);
    struct psti_writer_column *column = &writer->columns[writer->n_fields];
    column->field = *field;
    column->first_without = writer->n_samples > 0 ? 0 : UINT64_MAX;
    if (writer->n_samples > 0)
        memcpy(writer->without_name[writer->n_fields], writer->first_name,
               sizeof writer->first_name);
    enum pst_status status =
        grow(writer, writer->n_samples * psti_containers_row_nbytes(field), &column->rows, err);
    if (status == PST_OK)
        *i_field = writer->n_fields++;
    return status;
}

void psti_containers_writer_restate(struct psti_containers_writer *writer, uint32_t i_field,
                                    const struct pst_field *field)
{
    writer->columns[i_field].field = *field;
}

void psti_containers_writer_optional(struct psti_containers_writer *writer, uint32_t i_field)
{
    writer->columns[i_field].is_optional = true;
}

void psti_containers_writer_note(struct psti_containers_writer *writer, enum pst_notice_kind kind,
                                 const char *name, const char *why, uint64_t n, const char *first)
{
    if (n == 0)
        psti_format_notices_remove(&writer->notices, kind, name);
    else
        psti_format_notices_add(&writer->notices, kind, name, why, n,
                                first != NULL ? first : writer->file_name);
}

enum pst_status psti_containers_writer_classes(struct psti_containers_writer *writer,
                                               uint32_t i_field, const char *names, size_t nbytes,
                                               uint32_t n, struct pst_error *err)
{
    struct psti_writer_column *column = &writer->columns[i_field];
    const char *at = names, *end = names + nbytes, *problem = NULL;
    uint32_t n_found = 0;
    while (problem == NULL && at < end) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        problem = nul == NULL ? "does not end" : psti_format_name_problem(at, (size_t)(nul - at));
        at = nul == NULL ? end : nul + 1;
        n_found++;
    }
    if (problem == NULL && (n_found != n || n == 0 || column->field.n_classes != (int64_t)n))
        problem = "is missing, or one is too many";
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "a class name of field \"%s\" %s",
                         column->field.name, problem);
    if (column->classes != NULL)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "field \"%s\" gets class names twice",
                         column->field.name);
    column->classes = psti_alloc(nbytes);
    if (column->classes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %" PRIu32 " class names", n);
    memcpy(column->classes, names, nbytes);
    column->classes_nbytes = nbytes;
    return PST_OK;
}

/* Makes room for one more page size. */
static enum pst_status grow_pages(struct psti_containers_writer *writer, struct pst_error *err)
{
    if (writer->n_pages - writer->first_page < writer->page_capacity)
        return PST_OK;
    size_t capacity = 2 * writer->page_capacity + 64;
    struct psti_writer_page_size *sizes =
        psti_realloc(writer->page_sizes, capacity * sizeof *sizes);
    if (sizes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, ROOM, "no memory for %zu pages", capacity);
    writer->page_sizes = sizes;
    writer->page_capacity = capacity;
    return PST_OK;
}

enum pst_status psti_containers_writer_page(struct psti_containers_writer *writer,
                                            const struct psti_container_page *page,
                                            uint64_t *i_page, struct pst_error *err)
{
    uint8_t printed[PSTI_CONTAINER_PAGE_NBYTES];
    if (writer->n_files == 0 || !psti_format_is_coding((uint32_t)page->coding))
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "a page has no file, or no coding");
    if (!psti_range_fits(page->offset, page->nbytes, writer->file_nbytes))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "a page of %" PRIu64 " bytes at %" PRIu64 " lies outside of its file",
                         page->nbytes, page->offset);
    if (page->nbytes >= PSTI_CONTAINER_PAGE_LIMIT ||
        page->decoded_nbytes >= PSTI_CONTAINER_PAGE_LIMIT)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "the page at %" PRIu64 " has %" PRIu64 " bytes, and %" PRIu64
                         " when it is decoded: pages have less than 2 GiB",
                         page->offset, page->nbytes, page->decoded_nbytes);
    if (writer->n_pages >= PSTI_CONTAINER_OFFSET_LIMIT)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "the files have too many pages");
    enum pst_status status = grow_pages(writer, err);
    if (status != PST_OK)
        return status;
    const struct psti_container_page_entry entry = {.offset = page->offset,
                                                    .nbytes = (uint32_t)page->nbytes,
                                                    .decoded_nbytes =
                                                        (uint32_t)page->decoded_nbytes,
                                                    .i_file = writer->n_files - 1,
                                                    .coding = (enum pst_coding)page->coding};
    psti_format_print_container_page(&entry, printed);
    writer->page_sizes[writer->n_pages - writer->first_page] =
        (struct psti_writer_page_size){entry.nbytes, entry.decoded_nbytes};
    writer->codings |= (uint32_t)1 << entry.coding;
    *i_page = writer->n_pages++;
    return psti_output_append(&writer->pages, printed, sizeof printed, err);
}

/* Stores the shape of an array. The first array of a field fixes the number of dimensions. */
static enum pst_status put_shape(struct psti_containers_writer *writer,
                                 struct psti_writer_column *column,
                                 const struct psti_container_value *value, const char *name,
                                 struct pst_error *err)
{
    uint8_t row[4 * PST_MAX_NDIM] = {0};
    if (column->n_values == 0) {
        column->n_dims = value->ndim;
        memcpy(column->shape, value->shape, sizeof column->shape);
        if (value->ndim == 0)
            return PST_OK;
        enum pst_status status =
            grow(writer, writer->n_samples * 4 * (uint64_t)value->ndim, &column->shapes, err);
        if (status != PST_OK)
            return status;
    }
    if (value->ndim != column->n_dims)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, ROOM,
                         "the array of field \"%s\" in sample \"%.200s\" has %u dimensions, those "
                         "before it have %u: take the field as bytes",
                         column->field.name, name, value->ndim, column->n_dims);
    column->shapes_differ |=
        memcmp(column->shape, value->shape, value->ndim * sizeof value->shape[0]) != 0;
    for (uint32_t i = 0; i < value->ndim; i++)
        psti_store_u32(row + 4 * i, value->shape[i]);
    return value->ndim == 0
               ? PST_OK
               : psti_output_append(&column->shapes, row, 4 * (size_t)value->ndim, err);
}

/* Returns the bytes of a value's item after decoding. */
static uint64_t own_nbytes(const struct psti_container_value *value)
{
    return value->bytes != NULL || value->is_in_page ? value->nbytes : value->decoded_nbytes;
}

/* Makes the item of a value that lies in a page of the current file. */
static enum pst_status take_paged(struct psti_containers_writer *writer,
                                  struct psti_writer_column *column,
                                  const struct psti_container_value *value, const char *name,
                                  struct psti_container_item *item, struct pst_error *err)
{
    if (value->i_page < writer->first_page || value->i_page >= writer->n_pages)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "an item lies in no page of its file");
    const struct psti_writer_page_size *page =
        &writer->page_sizes[value->i_page - writer->first_page];
    if (!psti_range_fits(value->offset, value->nbytes, page->decoded_nbytes))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "field \"%s\" of sample \"%.200s\" has %" PRIu64 " bytes at %" PRIu64
                         " of a page of %" PRIu32,
                         column->field.name, name, value->nbytes, value->offset,
                         page->decoded_nbytes);
    *item = (struct psti_container_item){.place = PSTI_CONTAINER_IN_PAGE,
                                         .i_page = value->i_page,
                                         .offset = value->offset,
                                         .nbytes = value->nbytes,
                                         .decoded_nbytes = value->nbytes};
    if (page->nbytes > column->max_item_nbytes)
        column->max_item_nbytes = page->nbytes;
    if (page->decoded_nbytes > column->max_decoded_nbytes)
        column->max_decoded_nbytes = page->decoded_nbytes;
    return PST_OK;
}

/* Makes the item of a value that lies directly in the current file. */
static enum pst_status take_plain(struct psti_containers_writer *writer,
                                  struct psti_writer_column *column,
                                  const struct psti_container_value *value, const char *name,
                                  struct psti_container_item *item, struct pst_error *err)
{
    bool is_coded = value->coding != PSTI_CODING_STORED;
    if (value->offset >= PSTI_CONTAINER_OFFSET_LIMIT ||
        value->nbytes >= PSTI_CONTAINER_NBYTES_LIMIT ||
        value->decoded_nbytes >=
            (is_coded ? PSTI_CONTAINER_DECODED_LIMIT : PSTI_CONTAINER_NBYTES_LIMIT))
        return psti_fail(err, PST_ERROR_LIMIT, ROOM,
                         "field \"%s\" of sample \"%.200s\" has %" PRIu64 " bytes at %" PRIu64
                         ": an index holds up to 1 TiB, 64 GiB if they are compressed, within the "
                         "first 256 TiB of a file",
                         column->field.name, name, value->decoded_nbytes, value->offset);
    *item = (struct psti_container_item){.place = PSTI_CONTAINER_IN_FILE,
                                         .coding = (enum pst_coding)value->coding,
                                         .offset = value->offset,
                                         .nbytes = value->nbytes,
                                         .decoded_nbytes = value->decoded_nbytes,
                                         .sum = value->has_crc32 ? PSTI_CONTAINER_CRC | value->crc32
                                                                 : 0};
    if (!is_coded)
        return PST_OK;
    writer->codings |= (uint32_t)1 << item->coding;
    if (item->decoded_nbytes > column->max_decoded_nbytes)
        column->max_decoded_nbytes = item->decoded_nbytes;
    return PST_OK;
}

/* Stores the bytes of a value in the index. */
static enum pst_status keep_bytes(struct psti_containers_writer *writer,
                                  const struct psti_container_value *value,
                                  struct psti_container_item *item, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (value->nbytes > VALUE_LIMIT && value->bytes != NULL)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "a value is too long for the index");
    *item = (struct psti_container_item){.place = PSTI_CONTAINER_IN_INDEX,
                                         .offset = writer->values_nbytes,
                                         .nbytes = value->bytes != NULL ? value->nbytes : 0};
    if (item->nbytes > 0)
        status = psti_output_append(&writer->values, value->bytes, (size_t)item->nbytes, err);
    writer->values_nbytes += item->nbytes;
    return status;
}

static enum pst_status put_item(struct psti_containers_writer *writer,
                                struct psti_writer_column *column,
                                const struct psti_container_value *value, const char *name,
                                struct pst_error *err)
{
    uint8_t row[PSTI_CONTAINER_ITEM_NBYTES];
    struct psti_container_item item;
    enum pst_status status = value->bytes != NULL || own_nbytes(value) == 0
                                 ? keep_bytes(writer, value, &item, err)
                                 : (value->is_in_page ? take_paged : take_plain)(
                                       writer, column, value, name, &item, err);
    if (status != PST_OK)
        return status;
    column->has_crcs |= item.place == PSTI_CONTAINER_IN_FILE && value->has_crc32;
    column->has_forms |= item.place == PSTI_CONTAINER_IN_PAGE || item.coding != PST_CODING_STORED;
    uint64_t known = writer->known_sum != NULL && item.place != PSTI_CONTAINER_IN_INDEX
                         ? writer->known_sum(writer->known_context, value)
                         : 0;
    item.sum = known != 0 ? known : item.sum;
    if (item.nbytes > column->max_item_nbytes)
        column->max_item_nbytes = item.nbytes;
    psti_format_print_container_item(&item, row, sizeof row);
    if (column->field.type == PST_FIELD_ARRAY)
        status = put_shape(writer, column, value, name, err);
    return status == PST_OK ? psti_output_append(&column->rows, row, sizeof row, err) : status;
}

/* Adds a value to its column, and hashes what is known of it into the identity of the bytes. */
static enum pst_status put_value(struct psti_containers_writer *writer,
                                 const struct psti_container_value *value, const char *name,
                                 struct pst_error *err)
{
    struct psti_writer_column *column = &writer->columns[value->i_field];
    uint8_t row[8], facts[24];
    enum pst_status status;
    psti_store_u64(facts, value->i_field);
    psti_store_u64(facts + 8, own_nbytes(value));
    psti_store_u64(facts + 16, value->facts);
    psti_hash_pair_update(&writer->bytes, facts, sizeof facts);
    if (psti_format_has_items(column->field.type)) {
        status = put_item(writer, column, value, name, err);
    } else {
        if (column->field.type == PST_FIELD_INT)
            psti_store_u64(row, (uint64_t)value->int_value);
        else
            memcpy(row, &value->float_value, sizeof row);
        status = psti_output_append(&column->rows, row, sizeof row, err);
    }
    column->n_values++;
    return status;
}

/* Adds "no value" to the column of a field. */
static enum pst_status put_nothing(struct psti_containers_writer *writer, uint32_t i_field,
                                   const char *name, struct pst_error *err)
{
    static const uint8_t zeros[4 * PST_MAX_NDIM] = {0};
    struct psti_writer_column *column = &writer->columns[i_field];
    if (column->first_without == UINT64_MAX) {
        column->first_without = writer->n_samples;
        snprintf(writer->without_name[i_field], sizeof writer->without_name[i_field], "%s", name);
    }
    enum pst_status status =
        psti_output_append(&column->rows, zeros, psti_containers_row_nbytes(&column->field), err);
    if (status == PST_OK && column->shapes.fd >= 0)
        status = psti_output_append(&column->shapes, zeros, 4 * (size_t)column->n_dims, err);
    return status;
}

static enum pst_status put_name(struct psti_containers_writer *writer, const char *name,
                                size_t nbytes, struct pst_error *err)
{
    uint64_t start = writer->names_nbytes;
    writer->names_nbytes += nbytes;
    psti_hash_pair_update(&writer->bytes, name, nbytes + 1);
    psti_format_put_container_name(writer->group, writer->n_samples, start, writer->names_nbytes);
    enum pst_status status = psti_output_append(&writer->names, name, nbytes + 1, err);
    bool is_full = (writer->n_samples + 1) % PSTI_CONTAINER_GROUP_NAMES == 0;
    return status == PST_OK && is_full
               ? psti_output_append(&writer->groups, writer->group, sizeof writer->group, err)
               : status;
}

enum pst_status psti_containers_writer_sample(struct psti_containers_writer *writer,
                                              const char *name,
                                              const struct psti_container_value *values, uint32_t n,
                                              struct pst_error *err)
{
    const struct psti_container_value *of[PST_MAX_FIELDS] = {NULL};
    size_t nbytes = strlen(name);
    const char *problem = psti_format_name_problem(name, nbytes);
    if (problem != NULL)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                         "the key of sample %" PRIu64 " cannot name a sample: it %s",
                         writer->n_samples, problem);
    if (writer->n_files == 0)
        return psti_fail(err, PST_ERROR_INTERNAL, ROOM, "a sample lies in no file");
    for (uint32_t i = 0; i < n; i++)
        of[values[i].i_field] = &values[i];
    enum pst_status status = put_name(writer, name, nbytes, err);
    for (uint32_t i = 0; status == PST_OK && i < writer->n_fields; i++)
        status =
            of[i] != NULL ? put_value(writer, of[i], name, err) : put_nothing(writer, i, name, err);
    if (writer->n_samples == 0)
        snprintf(writer->first_name, sizeof writer->first_name, "%s", name);
    writer->n_samples++;
    return status;
}

struct psti_field_sink psti_containers_writer_sink(struct psti_containers_writer *writer)
{
    return (struct psti_field_sink){.field = psti_containers_writer_field,
                                    .restate = psti_containers_writer_restate,
                                    .classes = psti_containers_writer_classes,
                                    .optional = psti_containers_writer_optional,
                                    .note = psti_containers_writer_note,
                                    .page = psti_containers_writer_page,
                                    .sample = psti_containers_writer_sample,
                                    .writer = writer};
}
