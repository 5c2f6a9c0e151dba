/* dataset_container.c - a data set in other programs' containers, read through an index that
 * Penstock made.
 *
 * Opening reads the header, schema, and table of files, and calls stat once for each file. Rows,
 * names and small values are read when needed, in verified blocks. An item is a part of a file. As
 * in a plain folder, its form is unknown until its first bytes are read. */
#include "dataset/dataset_container.h"

#include "dataset/dataset_blocks.h"
#include "dataset/dataset_classes.h"
#include "dataset/dataset_members.h"
#include "dataset/dataset_mixture.h"
#include "dataset/dataset_saved.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/codings/codings.h"
#include "base/fail.h"
#include "base/files/read.h"
#include "base/files/stamp.h"
#include "base/hash.h"
#include "format/format_container.h"

#include <penstock/mixture.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maximum number of bytes of the table of files and their paths. */
#define FILES_LIMIT_NBYTES ((uint64_t)1 << 32)
enum { FD_PATH_CAP = 32 };

struct container_dataset {
    pst_dataset base;
    char *folder;              /* absolute path of the folder that the files lie in */
    char *index_path;          /* for messages */
    struct psti_blocks blocks; /* blocks of the index; their cache changes while readers use it */
    struct psti_container_header header;
    struct psti_container_field fields[PST_MAX_FIELDS];
    struct psti_container_file *files; /* [n_files] */
    char *paths;                       /* paths of the files, each with its NUL */
    char *classes[PST_MAX_FIELDS];     /* class names of each field; NULL: none */
    struct psti_notices *notices;      /* NULL: none */
    _Atomic uint64_t *checked;         /* one bit for each file, set when the file was compared with
                                        * the index */
};

static const struct container_dataset *self_of(const pst_dataset *dataset)
{
    return (const struct container_dataset *)(const void *)dataset;
}

static enum pst_status in_index(const struct container_dataset *self, uint64_t offset,
                                enum pst_status status, struct pst_error *err)
{
    if (err != NULL) {
        psti_error_set_file(err, self->index_path);
        err->offset = (int64_t)offset;
    }
    return status;
}

/* Adds the index file, and the offset that the blocks have set, to an error. */
static enum pst_status in_blocks(const struct container_dataset *self, enum pst_status status,
                                 struct pst_error *err)
{
    return in_index(self, err != NULL ? (uint64_t)err->offset : 0, status, err);
}

static enum pst_status corrupt(const struct container_dataset *self, uint64_t offset,
                               const char *what, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_CORRUPT, "dataset", "%s", what);
    return in_index(self, offset, PST_ERROR_CORRUPT, err);
}

static enum pst_status get(const struct container_dataset *self, uint64_t offset, uint64_t nbytes,
                           void *out, struct pst_error *err)
{
    struct psti_blocks *blocks = (struct psti_blocks *)&self->blocks;
    enum pst_status status = psti_dataset_blocks_read(blocks, offset, nbytes, out, err);
    return status == PST_OK ? PST_OK : in_blocks(self, status, err);
}

static enum pst_status container_sample_name(const pst_dataset *dataset, uint64_t sample,
                                             char *name, struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    uint64_t at = self->header.groups_offset +
                  sample / PSTI_CONTAINER_GROUP_NAMES * PSTI_CONTAINER_GROUP_NBYTES;
    uint8_t group[PSTI_CONTAINER_GROUP_NBYTES];
    uint64_t start;
    size_t nbytes;
    enum pst_status status = get(self, at, sizeof group, group, err);
    if (status != PST_OK)
        return status;
    if (!psti_format_container_name(group, sample, self->header.names_nbytes, &start, &nbytes))
        return corrupt(self, at, "the index places a name outside of its names", err);
    status = get(self, self->header.names_offset + start, nbytes, name, err);
    if (status != PST_OK)
        return status;
    name[nbytes] = '\0';
    return psti_format_name_problem(name, nbytes) == NULL
               ? PST_OK
               : corrupt(self, self->header.names_offset + start,
                         "the index holds an impossible name", err);
}

/* Returns the file that holds a sample: the last one whose first sample is not larger. Files
 * without samples have the same first sample as the next file. */
static uint32_t file_of(const struct container_dataset *self, uint64_t sample)
{
    uint32_t low = 0, high = self->header.n_files;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (self->files[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static enum pst_status read_shape(const struct container_dataset *self, uint32_t i_field,
                                  uint64_t sample, struct pst_item *item, struct pst_error *err)
{
    const struct psti_container_field *field = &self->fields[i_field];
    uint8_t row[4 * PST_MAX_NDIM];
    if (field->n_dims == 0) {
        item->ndim = field->field.ndim;
        memcpy(item->shape, field->field.shape, sizeof item->shape);
        return PST_OK;
    }
    size_t nbytes = 4 * (size_t)field->n_dims;
    enum pst_status status = get(self, field->shapes_offset + sample * nbytes, nbytes, row, err);
    item->ndim = (uint8_t)field->n_dims;
    for (uint32_t i = 0; i < field->n_dims; i++)
        item->shape[i] = psti_load_u32(row + 4 * i);
    return status;
}

/* Reads the index entry of an item's page. The page must lie in the sample's file, and the item in
 * the page. */
static enum pst_status find_page(const struct container_dataset *self, uint32_t i_file,
                                 const struct psti_container_item *item,
                                 struct psti_container_page_entry *page, struct pst_error *err)
{
    uint64_t at = self->header.pages_offset + item->i_page * PSTI_CONTAINER_PAGE_NBYTES;
    uint8_t bytes[PSTI_CONTAINER_PAGE_NBYTES];
    if (item->i_page >= self->header.n_pages)
        return corrupt(self, self->header.pages_offset, "an item lies in no page of the index",
                       err);
    enum pst_status status = get(self, at, sizeof bytes, bytes, err);
    if (status == PST_OK && psti_format_parse_container_page(bytes, page, err) != PST_OK)
        status = in_index(self, at, PST_ERROR_CORRUPT, err);
    if (status != PST_OK)
        return status;
    if (page->i_file != i_file ||
        !psti_range_fits(page->offset, page->nbytes, self->files[i_file].nbytes))
        return corrupt(self, at, "a page lies outside of its file", err);
    if (!psti_range_fits(item->offset, item->nbytes, page->decoded_nbytes))
        return corrupt(self, at, "an item lies outside of its page", err);
    return PST_OK;
}

/* An item's index row, and where the item lies. */
struct found {
    struct psti_container_item item;
    uint32_t i_file;
    struct psti_container_page_entry page; /* the item's page, if it lies in one */
};

/* Checks an index row against the limits that the header states, because loaders plan memory by
 * these limits. Returns NULL or the problem. */
static const char *found_problem(const struct container_dataset *self, uint32_t i_field,
                                 const struct found *found)
{
    const struct psti_container_field *field = &self->fields[i_field];
    const struct psti_container_item *item = &found->item;
    bool in_file = item->place == PSTI_CONTAINER_IN_FILE, is_coded = false;
    uint64_t stored = item->nbytes, decoded = 0;
    if (in_file || item->place == PSTI_CONTAINER_IN_INDEX) {
        uint64_t total = in_file ? self->files[found->i_file].nbytes : self->header.values_nbytes;
        if (!psti_range_fits(item->offset, item->nbytes, total))
            return "an item lies outside of its file";
    }
    if (in_file && (item->coding != PST_CODING_STORED || item->decoded_nbytes != item->nbytes)) {
        if (!psti_format_is_coding((uint32_t)item->coding))
            return "an item has a coding that there is not";
        is_coded = true;
        decoded = item->decoded_nbytes;
    }
    if (item->place == PSTI_CONTAINER_IN_PAGE) {
        is_coded = true;
        stored = stored > found->page.nbytes ? stored : found->page.nbytes;
        decoded = found->page.decoded_nbytes;
    }
    return stored > field->max_item_nbytes || (is_coded && decoded > field->max_decoded_nbytes)
               ? "the index contradicts itself on the size of an item"
               : NULL;
}

static enum pst_status find_item(const struct container_dataset *self, uint64_t sample,
                                 uint32_t i_field, struct found *found, struct pst_error *err)
{
    const struct psti_container_field *field = &self->fields[i_field];
    uint64_t at = field->column_offset + sample * field->row_nbytes;
    uint8_t row[PSTI_CONTAINER_ITEM_NBYTES];
    enum pst_status status = get(self, at, field->row_nbytes, row, err);
    if (status != PST_OK)
        return status;
    psti_format_parse_container_item(row, field->row_nbytes, &found->item);
    if (found->item.place == PSTI_CONTAINER_MISSING)
        return PST_OK;
    found->i_file = file_of(self, sample);
    if (found->item.place == PSTI_CONTAINER_IN_PAGE)
        status = find_page(self, found->i_file, &found->item, &found->page, err);
    if (status != PST_OK)
        return status;
    const char *problem = found_problem(self, i_field, found);
    return problem == NULL ? PST_OK : corrupt(self, at, problem, err);
}

static void set_sum(const struct psti_container_field *field, uint64_t sum, struct pst_item *item)
{
    bool is_crc = field->sums == PSTI_CONTAINER_SUMS_CRC;
    item->has_checksum = sum != 0 && !is_crc;
    item->checksum = item->has_checksum ? sum : 0;
    item->has_crc32 = sum != 0 && is_crc;
    item->crc32 = item->has_crc32 ? (uint32_t)sum : 0;
}

/* Fills in where the bytes of an item lie in its file. */
static void place_item(const struct psti_container_field *field, const struct found *found,
                       struct pst_item *item)
{
    item->i_file = found->i_file;
    set_sum(field, found->item.sum, item);
    item->offset = found->item.offset;
    item->coding = found->item.coding;
    if (item->coding != PST_CODING_STORED)
        item->decoded_nbytes = found->item.decoded_nbytes;
    if (found->item.place != PSTI_CONTAINER_IN_PAGE)
        return;
    item->offset = found->page.offset;
    item->nbytes = found->page.nbytes;
    item->coding = found->page.coding;
    item->decoded_nbytes = found->item.nbytes;
    item->page_nbytes = found->page.decoded_nbytes;
    item->page_offset = found->item.offset;
}

static enum pst_status container_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                      uint32_t variant, struct pst_item *item,
                                      struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    const struct pst_field *field = &dataset->fields[i_field];
    struct found found;
    (void)variant;
    enum pst_status status = find_item(self, sample, i_field, &found, err);
    if (status != PST_OK)
        return status;
    item->i_file = PST_FILE_NONE;
    if (found.item.place == PSTI_CONTAINER_MISSING)
        return PST_OK;
    item->form = psti_format_is_image(field->type) ? PST_FORM_NONE : PST_FORM_BYTES;
    item->nbytes = found.item.nbytes;
    if (found.item.place != PSTI_CONTAINER_IN_INDEX)
        place_item(&self->fields[i_field], &found, item);
    if (field->type != PST_FIELD_ARRAY)
        return PST_OK;
    status = read_shape(self, i_field, sample, item, err);
    if (status == PST_OK && !psti_dataset_item_fits(field, item))
        return corrupt(self, self->fields[i_field].column_offset,
                       "the index contradicts itself on the shape of an array", err);
    return status;
}

static enum pst_status container_values(const pst_dataset *dataset, uint32_t i_field,
                                        uint64_t first, uint64_t n, void *values,
                                        struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    return get(self, self->fields[i_field].column_offset + 8 * first, 8 * n, values, err);
}

static enum pst_status container_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                     int64_t *value, struct pst_error *err)
{
    int64_t n_classes = dataset->fields[i_field].n_classes;
    enum pst_status status = container_values(dataset, i_field, sample, 1, value, err);
    if (status != PST_OK || n_classes == 0 || (*value >= 0 && *value < n_classes))
        return status;
    return corrupt(self_of(dataset), self_of(dataset)->fields[i_field].column_offset + 8 * sample,
                   "a label lies outside of its classes", err);
}

static enum pst_status container_float(const pst_dataset *dataset, uint64_t sample,
                                       uint32_t i_field, double *value, struct pst_error *err)
{
    return container_values(dataset, i_field, sample, 1, value, err);
}

static const char *container_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    return psti_dataset_classes_name(self_of(dataset)->classes[i_field],
                                     (uint64_t)dataset->fields[i_field].n_classes, label);
}

const struct psti_container_header *psti_dataset_container_header(const pst_dataset *dataset)
{
    return &self_of(dataset)->header;
}

bool psti_dataset_can_check_bytes(const pst_dataset *dataset)
{
    for (uint32_t i = 0; i < pst_dataset_n_sources(dataset); i++)
        if (!psti_dataset_can_check_bytes(pst_dataset_source(dataset, i)))
            return false;
    return dataset->kind != PSTI_DATASET_CONTAINER || self_of(dataset)->header.has_sums;
}

uint32_t psti_dataset_codings(const pst_dataset *dataset)
{
    uint32_t codings = 0, n_sources = pst_dataset_n_sources(dataset);
    if (dataset->kind == PSTI_DATASET_CONTAINER)
        return self_of(dataset)->header.codings;
    for (uint32_t i = 0; i < n_sources; i++)
        codings |= psti_dataset_codings(pst_dataset_source(dataset, i));
    for (uint32_t i = 0; n_sources == 0 && i < dataset->n_fields; i++)
        if (dataset->max_decoded_nbytes[i] > 0)
            codings = psti_codings_of(PST_CODING_DEFLATE);
    return codings;
}

bool psti_dataset_can_check_field(const pst_dataset *dataset, uint32_t i_field)
{
    for (uint32_t i = 0; i < pst_dataset_n_sources(dataset); i++)
        if (!psti_dataset_can_check_field(pst_dataset_source(dataset, i),
                                          psti_dataset_mixture_field(dataset, i, i_field)))
            return false;
    return dataset->kind != PSTI_DATASET_CONTAINER ||
           !psti_format_has_items(dataset->fields[i_field].type) ||
           self_of(dataset)->fields[i_field].sums == PSTI_CONTAINER_SUMS_ALL;
}

enum pst_status psti_dataset_container_read(const pst_dataset *dataset, uint64_t offset,
                                            uint64_t nbytes, void *out, struct pst_error *err)
{
    return get(self_of(dataset), offset, nbytes, out, err);
}

const char *psti_dataset_container_folder(const pst_dataset *dataset)
{
    return self_of(dataset)->folder;
}

const struct psti_container_field *psti_dataset_container_field(const pst_dataset *dataset,
                                                                uint32_t i_field)
{
    return &self_of(dataset)->fields[i_field];
}

uint64_t psti_dataset_container_first_sample(const pst_dataset *dataset, uint32_t i_file)
{
    return self_of(dataset)->files[i_file].first_sample;
}

const char *psti_dataset_container_file_name(const pst_dataset *dataset, uint32_t i_file)
{
    const struct container_dataset *self = self_of(dataset);
    return self->paths + self->files[i_file].path;
}

const char *psti_dataset_container_index_path(const pst_dataset *dataset)
{
    return self_of(dataset)->index_path;
}

static enum pst_status container_file_path(const pst_dataset *dataset, uint32_t i_file,
                                           char *buffer, size_t capacity, struct pst_error *err)
{
    int n = snprintf(buffer, capacity, "%s/%s", self_of(dataset)->folder,
                     psti_dataset_container_file_name(dataset, i_file));
    if (n < 0 || (size_t)n >= capacity)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the path of a file does not fit in %zu bytes", capacity);
    return PST_OK;
}

static uint64_t container_file_stamp(const pst_dataset *dataset, uint32_t i_file)
{
    return self_of(dataset)->files[i_file].stamp;
}

static enum pst_status container_read_memory(const pst_dataset *dataset, uint64_t sample,
                                             uint32_t i_field, uint64_t start, uint64_t nbytes,
                                             void *buffer, struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    struct found found;
    enum pst_status status = find_item(self, sample, i_field, &found, err);
    if (status == PST_OK && found.item.place != PSTI_CONTAINER_IN_INDEX)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "the sample has no such value");
    if (status != PST_OK || nbytes == 0)
        return status;
    return get(self, self->header.values_offset + found.item.offset + start, nbytes, buffer, err);
}

static void container_close(pst_dataset *dataset)
{
    struct container_dataset *self = (struct container_dataset *)(void *)dataset;
    psti_dataset_blocks_close(&self->blocks);
    psti_free(self->folder);
    psti_free(self->index_path);
    psti_free(self->files);
    psti_free(self->paths);
    psti_free((void *)self->checked);
    psti_free(self->notices);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_free(self->classes[i]);
}

enum pst_status psti_dataset_container_compare_file(const pst_dataset *dataset, uint32_t i_file,
                                                    struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    char path[PATH_MAX];
    struct stat st;
    enum pst_status status = container_file_path(dataset, i_file, path, sizeof path, err);
    if (status != PST_OK)
        return status;
    if (fstatat(dataset->dir_fd, psti_dataset_container_file_name(dataset, i_file), &st, 0) != 0)
        return psti_fail_os(err, errno, "dataset", path, -1, "cannot examine the file");
    if ((uint64_t)st.st_size != self->files[i_file].nbytes)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", path, -1,
                            "the file changed: it had %" PRIu64
                            " bytes when its index was made, now %lld",
                            self->files[i_file].nbytes, (long long)st.st_size);
    return psti_stamp_is(self->files[i_file].stamp, &st)
               ? PST_OK
               : psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", path, -1, PSTI_STAMP_CHANGED);
}

static enum pst_status container_check_file(const pst_dataset *dataset, uint32_t i_file,
                                            struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    if (i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no file %" PRIu32, i_file);
    if (atomic_load_explicit(&self->checked[i_file / 64], memory_order_relaxed) >> (i_file % 64) &
        1)
        return PST_OK;
    enum pst_status status = psti_dataset_container_compare_file(dataset, i_file, err);
    if (status == PST_OK)
        atomic_fetch_or_explicit(&self->checked[i_file / 64], (uint64_t)1 << (i_file % 64),
                                 memory_order_relaxed);
    else
        psti_error_set_dataset(err, dataset->path);
    return status;
}

static enum pst_status container_check_index(const pst_dataset *dataset, struct pst_error *err)
{
    const struct container_dataset *self = self_of(dataset);
    enum pst_status status = psti_dataset_blocks_check_all(&self->blocks, err);
    if (status == PST_OK)
        return PST_OK;
    psti_error_set_dataset(err, dataset->path);
    return in_blocks(self, status, err);
}

static const struct psti_dataset_ops container_ops = {
    .close = container_close,
    .sample_name = container_sample_name,
    .item = container_item,
    .int_value = container_int,
    .float_value = container_float,
    .values = container_values,
    .class_name = container_class_name,
    .file_path = container_file_path,
    .file_stamp = container_file_stamp,
    .read_memory = container_read_memory,
    .check_file = container_check_file,
    .check_index = container_check_index,
};

/* Open ---------------------------------------------------------------------- */

static enum pst_status read_header(struct container_dataset *self, int fd, struct pst_error *err)
{
    uint8_t bytes[PSTI_INDEX_HEADER_NBYTES];
    struct stat st;
    ssize_t n = fstat(fd, &st) == 0 ? psti_read_at(fd, bytes, sizeof bytes, 0) : -1;
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", self->index_path, 0, "cannot read the index");
    enum pst_status status = psti_format_parse_container_header(
        bytes, (size_t)n, (uint64_t)st.st_size, &self->header, err);
    psti_error_set_file(status == PST_OK ? NULL : err, self->index_path);
    return status;
}

/* Reads the table of files and their paths. Refuses paths that lead out of the folder. */
static enum pst_status read_files(struct container_dataset *self, struct pst_error *err)
{
    const struct psti_container_header *header = &self->header;
    uint64_t table = (uint64_t)header->n_files * PSTI_CONTAINER_FILE_NBYTES, previous = 0;
    uint8_t bytes[PSTI_CONTAINER_FILE_NBYTES];
    if (table > FILES_LIMIT_NBYTES || header->paths_nbytes > FILES_LIMIT_NBYTES)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset", "the index names too many files");
    self->files = psti_alloc_array(header->n_files, sizeof *self->files);
    self->paths = psti_alloc((size_t)header->paths_nbytes);
    self->checked = psti_calloc((size_t)header->n_files / 64 + 1, sizeof *self->checked);
    if (self->files == NULL || self->paths == NULL || self->checked == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for %" PRIu32 " files",
                         header->n_files);
    enum pst_status status =
        get(self, header->paths_offset, header->paths_nbytes, self->paths, err);
    if (status == PST_OK && self->paths[header->paths_nbytes - 1] != 0)
        status = corrupt(self, header->paths_offset, "the paths of the index do not end", err);
    for (uint32_t i = 0; status == PST_OK && i < header->n_files; i++) {
        uint64_t at = header->files_offset + (uint64_t)i * sizeof bytes;
        struct psti_container_file *file = &self->files[i];
        status = get(self, at, sizeof bytes, bytes, err);
        if (status == PST_OK &&
            psti_format_parse_container_file(bytes, header, file, err) != PST_OK)
            status = in_index(self, at, PST_ERROR_CORRUPT, err);
        if (status == PST_OK && (file->first_sample < previous || (i == 0 && file->first_sample)))
            status = corrupt(self, at, "the files of the index are not in order", err);
        if (status == PST_OK && !psti_format_path_is_below(self->paths + file->path))
            status = corrupt(self, at, "the index names a file outside of its folder", err);
        previous = file->first_sample;
        self->base.nbytes += file->nbytes;
    }
    return status;
}

static enum pst_status read_classes(struct container_dataset *self, uint32_t i_field,
                                    struct pst_error *err)
{
    const struct psti_container_field *field = &self->fields[i_field];
    const struct psti_dataset_classes place = {.field = field->field.name,
                                               .n_classes = (uint64_t)field->field.n_classes,
                                               .offset = field->classes_offset,
                                               .nbytes = field->classes_nbytes};
    enum pst_status status =
        psti_dataset_classes_read(&self->blocks, &place, &self->classes[i_field], err);
    bool is_in_file = status != PST_ERROR_LIMIT && status != PST_ERROR_MEMORY;
    return status != PST_OK && is_in_file ? in_blocks(self, status, err) : status;
}

static enum pst_status read_schema(struct container_dataset *self, struct pst_error *err)
{
    pst_dataset *base = &self->base;
    const struct psti_container_header *header = &self->header;
    for (uint32_t i = 0; i < header->n_fields; i++) {
        uint64_t at = header->fields_offset + (uint64_t)i * PSTI_INDEX_FIELD_NBYTES;
        uint8_t bytes[PSTI_INDEX_FIELD_NBYTES];
        enum pst_status status = get(self, at, sizeof bytes, bytes, err);
        if (status == PST_OK &&
            psti_format_parse_container_field(bytes, header, &self->fields[i], err) != PST_OK)
            status = in_index(self, at, PST_ERROR_CORRUPT, err);
        if (status == PST_OK && pst_dataset_find_field(base, self->fields[i].field.name) >= 0)
            status = corrupt(self, at, "two fields of the index have one name", err);
        if (status == PST_OK)
            status = read_classes(self, i, err);
        if (status != PST_OK)
            return status;
        base->fields[i] = self->fields[i].field;
        base->max_item_nbytes[i] = self->fields[i].max_item_nbytes;
        base->max_decoded_nbytes[i] = self->fields[i].max_decoded_nbytes;
        base->n_fields = i + 1;
    }
    base->kind = PSTI_DATASET_CONTAINER;
    base->n_samples = header->n_samples;
    base->n_files = header->n_files;
    memcpy(base->id, header->bytes, sizeof base->id);
    memcpy(base->bytes_identity, header->bytes, sizeof base->bytes_identity);
    memcpy(base->listed_identity, header->bytes, sizeof base->listed_identity);
    psti_dataset_keep_samples_identity(base, header->samples);
    return PST_OK;
}

static enum pst_status read_notices(struct container_dataset *self, struct pst_error *err)
{
    const struct psti_container_header *header = &self->header;
    uint8_t bytes[PSTI_NOTICE_NBYTES];
    enum pst_status status = PST_OK;
    if (header->n_notices == 0)
        return PST_OK;
    self->notices = psti_calloc(1, sizeof *self->notices);
    if (self->notices == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for notices");
    for (uint32_t i = 0; status == PST_OK && i < header->n_notices; i++) {
        uint64_t at = header->notices_offset + i * sizeof bytes;
        status = get(self, at, sizeof bytes, bytes, err);
        if (status == PST_OK && !psti_format_parse_notice(bytes, &self->notices->list[i]))
            status = corrupt(self, at, "the index has an impossible notice", err);
        self->notices->n = i + 1;
    }
    self->base.notices = self->notices;
    return status;
}

/* Compares size and stamp of all files with those in the index. *fits: false if one changed; `why`
 * names it. */
static void compare_files(const struct container_dataset *self, bool *fits,
                          char why[PST_ERROR_PATH_CAP])
{
    for (uint32_t i = 0; *fits && i < self->header.n_files; i++) {
        const char *name = psti_dataset_container_file_name(&self->base, i);
        struct stat st;
        *fits = fstatat(self->base.dir_fd, name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
                psti_stamp_is(self->files[i].stamp, &st);
        if (!*fits)
            snprintf(why, PST_ERROR_PATH_CAP, "%.200s changed", name);
    }
}

static enum pst_status open_index(struct container_dataset *self, int fd, const uint8_t options[16],
                                  bool *fits, char why[PST_ERROR_PATH_CAP], struct pst_error *err)
{
    enum pst_status status = read_header(self, fd, err);
    bool other = options != NULL && memcmp(self->header.options, options, 16) != 0;
    if (status == PST_OK && (self->header.law != PSTI_CONTAINER_LAW || other)) {
        *fits = false;
        snprintf(why, PST_ERROR_PATH_CAP, "%s",
                 self->header.law != PSTI_CONTAINER_LAW ? "another version of Penstock made it"
                                                        : "it was made with other options");
    }
    if (status != PST_OK || !*fits) {
        close(fd);
        return status;
    }
    status = psti_dataset_blocks_open(&self->blocks, fd, &self->header.frame, err);
    psti_error_set_file(status == PST_OK ? NULL : err, self->index_path);
    if (status == PST_OK)
        status = read_files(self, err);
    if (status == PST_OK)
        status = read_schema(self, err);
    if (status == PST_OK)
        status = read_notices(self, err);
    if (status == PST_OK)
        compare_files(self, fits, why);
    return status;
}

enum pst_status psti_dataset_open_container_index(const char *path, const char *base,
                                                  const char *index_path, int fd,
                                                  const uint8_t options[16], bool *fits,
                                                  char why[PST_ERROR_PATH_CAP], pst_dataset **out,
                                                  struct pst_error *err)
{
    *fits = true;
    why[0] = 0;
    enum pst_status status =
        psti_dataset_new(path, sizeof(struct container_dataset), &container_ops, out, err);
    if (status != PST_OK) {
        close(fd);
        return status;
    }
    struct container_dataset *self = (struct container_dataset *)(void *)*out;
    self->blocks.fd = -1;
    self->folder = psti_strdup(base);
    self->index_path = psti_strdup(index_path);
    if (self->folder == NULL || self->index_path == NULL)
        status = psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for a data set's handle");
    if (status == PST_OK) {
        self->base.dir_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (self->base.dir_fd < 0)
            status = psti_fail_os(err, errno, "dataset", base, -1, "cannot open the folder");
    }
    if (status != PST_OK)
        close(fd);
    else
        status = open_index(self, fd, options, fits, why, err);
    if (status != PST_OK || !*fits)
        pst_dataset_close(out);
    return status;
}

bool psti_dataset_container_fds(const pst_dataset *dataset, int *folder, int *index)
{
    if (dataset->kind != PSTI_DATASET_CONTAINER)
        return false;
    *folder = dataset->dir_fd;
    *index = self_of(dataset)->blocks.fd;
    return true;
}

static enum pst_status check_owner(int folder, int index, struct pst_error *err)
{
    struct stat data, st;
    if (fstat(folder, &data) != 0 || fstat(index, &st) != 0)
        return psti_fail_os(err, errno, "dataset", NULL, -1, "cannot examine an index");
    if ((st.st_mode & S_IWOTH) != 0)
        return psti_fail(
            err, PST_ERROR_STATE, "dataset",
            "everybody may write the index, so nothing that it says counts: remove it");
    if (psti_dataset_saved_owner_counts(&st, &data.st_uid))
        return PST_OK;
    return psti_fail(err, PST_ERROR_STATE, "dataset",
                     "the index belongs to user %lu, who is neither root, nor this process's user, "
                     "nor the owner of the data",
                     (unsigned long)st.st_uid);
}

enum pst_status psti_dataset_open_by_fds(int folder, int index, pst_dataset **out,
                                         struct pst_error *err)
{
    char base[FD_PATH_CAP], name[FD_PATH_CAP], why[PST_ERROR_PATH_CAP];
    bool fits = false;
    *out = NULL;
    enum pst_status status = check_owner(folder, index, err);
    if (status != PST_OK)
        return status;
    snprintf(base, sizeof base, "/proc/self/fd/%d", folder);
    snprintf(name, sizeof name, "/proc/self/fd/%d", index);
    int fd = fcntl(index, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return psti_fail_os(err, errno, "dataset", NULL, -1, "cannot open an index");
    status = psti_dataset_open_container_index(base, base, name, fd, NULL, &fits, why, out, err);
    if (status == PST_OK && !fits)
        return psti_fail(err, PST_ERROR_STATE, "dataset", "the index does not fit the files: %s",
                         why);
    return status;
}
