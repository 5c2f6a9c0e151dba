/* dataset_index.c - a written data set: its index mapped, its shards' headers checked at first use.
 *
 * The index is not parsed: open reads its header, its schema and the table of block checksums, and
 * maps the rest. Whoever touches a payload block for the first time verifies its XXH3; a bitmap of
 * atomics remembers verified blocks, so later reads cost one load (two threads may both verify a
 * block: harmless). Sections were range-checked when the header was parsed; offsets that stand
 * inside sections are range-checked at use, because a checksum is no proof against a forger. Rows
 * of columns never straddle blocks (both are multiples of their size), names may. Nothing here
 * changes after open but the bitmaps. */
#include "dataset/dataset_index.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct psti_dataset_index *index_of(const pst_dataset *dataset)
{
    return (const struct psti_dataset_index *)dataset;
}

/* Adds the index file and an offset in it to an error. */
static enum pst_status in_index(const struct psti_dataset_index *index, uint64_t offset,
                                enum pst_status status, struct pst_error *err)
{
    char path[PST_ERROR_PATH_CAP + 32];
    if (err == NULL)
        return status;
    size_t n = strlen(index->base.path);
    const char *tail =
        n < PST_ERROR_PATH_CAP ? index->base.path : index->base.path + n - PST_ERROR_PATH_CAP;
    snprintf(path, sizeof path, "%s/" PSTI_INDEX_NAME, tail);
    psti_error_set_file(err, path);
    err->offset = (int64_t)offset;
    return status;
}

static enum pst_status corrupt(const struct psti_dataset_index *index, uint64_t offset,
                               const char *what, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_CORRUPT, "dataset", "%s", what);
    return in_index(index, offset, PST_ERROR_CORRUPT, err);
}

static __attribute__((noinline)) enum pst_status verify_block(
    const struct psti_dataset_index *index, uint64_t i_block, struct pst_error *err)
{
    uint64_t offset = PSTI_INDEX_HEADER_NBYTES + i_block * PSTI_INDEX_BLOCK_NBYTES;
    uint64_t left = index->header.blocks_offset - offset;
    size_t nbytes = left < PSTI_INDEX_BLOCK_NBYTES ? (size_t)left : PSTI_INDEX_BLOCK_NBYTES;
    uint64_t stored = psti_load_u64(index->map + index->header.blocks_offset + 8 * i_block);
    if (psti_hash64(index->map + offset, nbytes) != stored) {
        psti_fail(err, PST_ERROR_CHECKSUM, "dataset",
                  "the index was altered within the %zu bytes from here on", nbytes);
        return in_index(index, offset, PST_ERROR_CHECKSUM, err);
    }
    atomic_fetch_or_explicit(&index->verified[i_block / 64], (uint64_t)1 << (i_block % 64),
                             memory_order_relaxed);
    return PST_OK;
}

static inline bool is_verified(const struct psti_dataset_index *index, uint64_t i_block)
{
    uint64_t word = atomic_load_explicit(&index->verified[i_block / 64], memory_order_relaxed);
    return (word >> (i_block % 64) & 1) != 0;
}

/* Verifies the blocks under [offset, offset + nbytes), which lies in the payload; nbytes >= 1. */
static inline enum pst_status touch(const struct psti_dataset_index *index, uint64_t offset,
                                    uint64_t nbytes, struct pst_error *err)
{
    uint64_t first = (offset - PSTI_INDEX_HEADER_NBYTES) / PSTI_INDEX_BLOCK_NBYTES;
    uint64_t last = (offset + nbytes - 1 - PSTI_INDEX_HEADER_NBYTES) / PSTI_INDEX_BLOCK_NBYTES;
    for (uint64_t i = first; i <= last; i++) {
        if (is_verified(index, i))
            continue;
        enum pst_status status = verify_block(index, i, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

/* A terminated string in a blob of `blob_nbytes` at `blob`, between two offsets that stand in a
 * table. */
static enum pst_status string_between(const struct psti_dataset_index *index, uint64_t table,
                                      uint64_t blob, uint64_t blob_nbytes, const char **text,
                                      struct pst_error *err)
{
    enum pst_status status = touch(index, table, 16, err);
    if (status != PST_OK)
        return status;
    uint64_t start = psti_load_u64(index->map + table);
    uint64_t end = psti_load_u64(index->map + table + 8);
    if (end > blob_nbytes || start >= end || end - start > PSTI_NAME_LIMIT)
        return corrupt(index, table, "the index places a name outside of its names", err);
    status = touch(index, blob + start, end - start, err);
    if (status != PST_OK)
        return status;
    const char *found = (const char *)index->map + blob + start;
    size_t length = (size_t)(end - start - 1);
    if (found[length] != 0 || psti_format_name_problem(found, length) != NULL)
        return corrupt(index, blob + start, "the index holds an impossible name", err);
    *text = found;
    return PST_OK;
}

static enum pst_status index_sample_name(const pst_dataset *dataset, uint64_t sample,
                                         const char **name, struct pst_error *err)
{
    const struct psti_dataset_index *index = index_of(dataset);
    return string_between(index, index->header.name_offsets_offset + 8 * sample,
                          index->header.names_offset, index->header.names_nbytes, name, err);
}

static const char *index_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    const struct psti_dataset_index *index = index_of(dataset);
    const struct psti_index_field *field = &index->fields[i_field];
    uint64_t n_classes = (uint64_t)field->field.n_classes, table_nbytes;
    const char *name = NULL;
    if (label < 0 || label >= field->field.n_classes || field->classes_nbytes == 0)
        return NULL;
    if (!psti_mul_u64(n_classes + 1, 8, &table_nbytes) || table_nbytes >= field->classes_nbytes)
        return NULL;
    enum pst_status status = string_between(index, field->classes_offset + 8 * (uint64_t)label,
                                            field->classes_offset + table_nbytes,
                                            field->classes_nbytes - table_nbytes, &name, NULL);
    return status == PST_OK ? name : NULL;
}

/* The shape of boxes, keypoints and arrays must account for the item's bytes: batches are laid out
 * by it. */
static bool shape_fits(const struct pst_field *field, const struct pst_item *item)
{
    uint64_t nbytes = pst_dtype_nbytes(field->dtype);
    switch (field->type) {
    case PST_FIELD_BOXES:
    case PST_FIELD_KEYPOINTS:
        nbytes = 4;
        if (item->ndim != 2 || item->shape[1] != (field->type == PST_FIELD_BOXES ? 4 : 3))
            return false;
        break;
    case PST_FIELD_ARRAY:
        if (field->ndim != 0 && (item->ndim != field->ndim ||
                                 memcmp(item->shape, field->shape, 4 * (size_t)field->ndim) != 0))
            return false;
        break;
    default:
        return true;
    }
    for (int i = 0; i < item->ndim; i++)
        if (!psti_mul_u64(nbytes, item->shape[i], &nbytes))
            return false;
    return nbytes == item->nbytes;
}

static enum pst_status index_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    const struct psti_dataset_index *index = index_of(dataset);
    const struct psti_index_field *field = &index->fields[i_field];
    uint64_t at =
        field->column_offset + (sample * field->field.n_variants + variant) * PSTI_ITEM_NBYTES;
    enum pst_status status = touch(index, at, PSTI_ITEM_NBYTES, err);
    if (status != PST_OK)
        return status;
    status = psti_format_parse_item(index->map + at, field->field.type, item, err);
    if (status != PST_OK)
        return in_index(index, at, status, err);
    if (item->form == PST_FORM_NONE)
        return PST_OK;
    if (item->i_file >= index->header.n_shards)
        return corrupt(index, at + 24, "an item lies in a shard that does not exist", err);
    uint64_t shard = index->header.shards_offset + (uint64_t)item->i_file * PSTI_INDEX_SHARD_NBYTES;
    status = touch(index, shard, PSTI_INDEX_SHARD_NBYTES, err);
    if (status != PST_OK)
        return status;
    uint64_t shard_nbytes = psti_load_u64(index->map + shard + 32);
    if (item->offset < PSTI_SHARD_HEADER_NBYTES || shard_nbytes > INT64_MAX ||
        !psti_range_fits(item->offset, item->nbytes, shard_nbytes))
        return corrupt(index, at, "an item lies outside of its shard", err);
    if (item->nbytes > field->max_item_nbytes || !shape_fits(&field->field, item))
        return corrupt(index, at, "the index contradicts itself on the size of an item", err);
    return PST_OK;
}

static enum pst_status index_value(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   void *value, struct pst_error *err)
{
    const struct psti_dataset_index *index = index_of(dataset);
    uint64_t at = index->fields[i_field].column_offset + 8 * sample;
    enum pst_status status = touch(index, at, 8, err);
    if (status == PST_OK)
        memcpy(value, index->map + at, 8);
    return status;
}

static enum pst_status index_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 int64_t *value, struct pst_error *err)
{
    int64_t found;
    enum pst_status status = index_value(dataset, sample, i_field, &found, err);
    if (status != PST_OK)
        return status;
    int64_t n_classes = dataset->fields[i_field].n_classes;
    if (n_classes > 0 && (found < 0 || found >= n_classes))
        return corrupt(index_of(dataset),
                       index_of(dataset)->fields[i_field].column_offset + 8 * sample,
                       "a label lies outside of its classes", err);
    *value = found;
    return PST_OK;
}

static enum pst_status index_float(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   double *value, struct pst_error *err)
{
    return index_value(dataset, sample, i_field, value, err);
}

enum pst_status psti_dataset_index_shard(const struct psti_dataset_index *index, uint32_t i_file,
                                         struct psti_index_shard *shard, struct pst_error *err)
{
    uint64_t at = index->header.shards_offset + (uint64_t)i_file * PSTI_INDEX_SHARD_NBYTES;
    enum pst_status status = touch(index, at, PSTI_INDEX_SHARD_NBYTES, err);
    if (status != PST_OK)
        return status;
    status = psti_format_parse_index_shard(index->map + at, shard, err);
    return status == PST_OK ? PST_OK : in_index(index, at, status, err);
}

static enum pst_status index_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                       size_t capacity, struct pst_error *err)
{
    struct psti_index_shard shard;
    enum pst_status status = psti_dataset_index_shard(index_of(dataset), i_file, &shard, err);
    if (status != PST_OK)
        return status;
    int n = snprintf(buffer, capacity, "%s/%s", dataset->path, shard.name);
    if (n < 0 || (size_t)n >= capacity)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the path of a shard does not fit in %zu bytes", capacity);
    return PST_OK;
}

static void index_close(pst_dataset *dataset)
{
    struct psti_dataset_index *index = (struct psti_dataset_index *)dataset;
    if (index->map != NULL)
        munmap((void *)index->map, index->map_nbytes);
    psti_free(index->verified);
    psti_free(index->shards_checked);
}

static const struct psti_dataset_ops index_ops = {
    .close = index_close,
    .sample_name = index_sample_name,
    .item = index_item,
    .int_value = index_int,
    .float_value = index_float,
    .class_name = index_class_name,
    .file_path = index_file_path,
};

/* Open ---------------------------------------------------------------------- */

/* How many of the file's first bytes were read, or -1 with errno. */
static ssize_t read_start(int fd, void *bytes, size_t nbytes, struct stat *st)
{
    ssize_t n = -1;
    if (fstat(fd, st) != 0)
        return -1;
    do {
        n = psti_fault(PSTI_FAULT_READ) ? (errno = EIO, -1) : pread(fd, bytes, nbytes, 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* Header and file length first by a read, so that a short file cannot fault the mapping. */
static enum pst_status read_header(struct psti_dataset_index *index, int fd, const char *path,
                                   struct pst_error *err)
{
    uint8_t bytes[PSTI_INDEX_HEADER_NBYTES];
    struct stat st;
    ssize_t n = read_start(fd, bytes, sizeof bytes, &st);
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", path, 0, "cannot read the index");
    if (!S_ISREG(st.st_mode))
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset", PSTI_INDEX_NAME " is no regular file");
    enum pst_status status =
        psti_format_parse_index_header(bytes, (size_t)n, (uint64_t)st.st_size, &index->header, err);
    psti_error_set_file(status == PST_OK ? NULL : err, path);
    return status;
}

static enum pst_status map_index(struct psti_dataset_index *index, int fd, const char *path,
                                 struct pst_error *err)
{
    const struct psti_index_header *header = &index->header;
    void *map = mmap(NULL, (size_t)header->file_nbytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return psti_fail_os(err, errno, "dataset", path, -1, "cannot map the index");
    index->map = map;
    index->map_nbytes = (size_t)header->file_nbytes;
    index->verified = psti_calloc((size_t)(header->n_blocks / 64 + 1), sizeof *index->verified);
    index->shards_checked =
        psti_calloc((size_t)(header->n_shards / 64 + 1), sizeof *index->shards_checked);
    if (index->verified == NULL || index->shards_checked == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for the index's bitmaps");
    if (psti_hash64(index->map + header->blocks_offset, (size_t)(8 * header->n_blocks)) !=
        header->blocks_checksum) {
        psti_fail(err, PST_ERROR_CHECKSUM, "dataset", "the index's table of checksums was altered");
        return in_index(index, header->blocks_offset, PST_ERROR_CHECKSUM, err);
    }
    return PST_OK;
}

static enum pst_status read_schema(struct psti_dataset_index *index, struct pst_error *err)
{
    pst_dataset *base = &index->base;
    const struct psti_index_header *header = &index->header;
    enum pst_status status = touch(index, header->fields_offset,
                                   (uint64_t)header->n_fields * PSTI_INDEX_FIELD_NBYTES, err);
    for (uint32_t i = 0; i < header->n_fields && status == PST_OK; i++) {
        uint64_t at = header->fields_offset + (uint64_t)i * PSTI_INDEX_FIELD_NBYTES;
        status = psti_format_parse_index_field(index->map + at, header, &index->fields[i], err);
        if (status != PST_OK)
            return in_index(index, at, status, err);
        base->fields[i] = index->fields[i].field;
        base->max_item_nbytes[i] = index->fields[i].max_item_nbytes;
        base->max_pixels_nbytes[i] = index->fields[i].max_pixels_nbytes;
        if (pst_dataset_find_field(base, base->fields[i].name) >= 0)
            return corrupt(index, at, "two fields of the schema have one name", err);
        base->n_fields = i + 1;
    }
    memcpy(base->id, header->id, 16);
    base->n_samples = header->n_samples;
    base->n_files = header->n_shards;
    return status;
}

enum pst_status psti_dataset_open_index(const char *path, pst_dataset **out, struct pst_error *err)
{
    char file[PATH_MAX + 32];
    int fd = -1;
    enum pst_status status =
        psti_dataset_new(path, sizeof(struct psti_dataset_index), &index_ops, out, err);
    if (status != PST_OK)
        return status;
    struct psti_dataset_index *index = (struct psti_dataset_index *)*out;
    snprintf(file, sizeof file, "%s/" PSTI_INDEX_NAME, path);
    fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        status = psti_fail_os(err, errno, "dataset", file, -1, "cannot open the index");
    if (status == PST_OK)
        status = read_header(index, fd, file, err);
    if (status == PST_OK)
        status = map_index(index, fd, file, err);
    if (status == PST_OK)
        status = read_schema(index, err);
    if (fd >= 0)
        close(fd);
    if (status != PST_OK)
        pst_dataset_close(out);
    return status;
}

/* Checks ahead of use ------------------------------------------------------- */

static enum pst_status check_shard_file(const struct psti_dataset_index *index, uint32_t i_file,
                                        int fd, const struct psti_index_shard *shard,
                                        struct pst_error *err)
{
    uint8_t bytes[PSTI_SHARD_HEADER_NBYTES];
    struct psti_shard_header header;
    struct stat st;
    ssize_t n = read_start(fd, bytes, sizeof bytes, &st);
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", NULL, 0, "cannot read the shard");
    enum pst_status status = psti_format_parse_shard_header(bytes, (size_t)n, &header, err);
    if (status != PST_OK)
        return status;
    if (memcmp(header.id, index->header.id, 16) != 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "the shard belongs to another data set");
    if (header.number != i_file || header.checksum != shard->header_checksum)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "this is shard %" PRIu32
                         " of the data set, under the name of shard %" PRIu32,
                         header.number, i_file);
    if ((uint64_t)st.st_size < shard->nbytes) {
        psti_fail(err, PST_ERROR_TRUNCATED, "dataset",
                  "the shard was cut short to %" PRIu64 " bytes, it had %" PRIu64,
                  (uint64_t)st.st_size, shard->nbytes);
        if (err != NULL)
            err->offset = (int64_t)st.st_size;
        return PST_ERROR_TRUNCATED;
    }
    return PST_OK;
}

enum pst_status psti_dataset_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                         struct pst_error *err)
{
    const struct psti_dataset_index *index = index_of(dataset);
    struct psti_index_shard shard;
    char path[PATH_MAX + 64];
    if (dataset->is_folder)
        return PST_OK;
    if (i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no shard %" PRIu32, i_file);
    if (atomic_load_explicit(&index->shards_checked[i_file / 64], memory_order_relaxed) >>
            (i_file % 64) &
        1)
        return PST_OK;
    enum pst_status status = psti_dataset_index_shard(index, i_file, &shard, err);
    if (status != PST_OK)
        return status;
    snprintf(path, sizeof path, "%s/%s", dataset->path, shard.name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        status = psti_fail_os(err, errno, "dataset", path, -1, "cannot open a shard");
    } else {
        status = check_shard_file(index, i_file, fd, &shard, err);
        close(fd);
    }
    if (status == PST_OK) {
        atomic_fetch_or_explicit(&index->shards_checked[i_file / 64], (uint64_t)1 << (i_file % 64),
                                 memory_order_relaxed);
    } else {
        psti_error_set_file(err, path);
        psti_error_set_dataset(err, dataset->path);
    }
    return status;
}

bool psti_dataset_item_fits(const struct pst_field *field, const struct pst_item *item)
{
    return shape_fits(field, item);
}

enum pst_status psti_dataset_check_index(const pst_dataset *dataset, struct pst_error *err)
{
    const struct psti_dataset_index *index = index_of(dataset);
    enum pst_status status = PST_OK;
    if (dataset->is_folder)
        return PST_OK;
    for (uint64_t i = 0; i < index->header.n_blocks && status == PST_OK; i++)
        if (!is_verified(index, i))
            status = verify_block(index, i, err);
    if (status != PST_OK)
        psti_error_set_dataset(err, dataset->path);
    return status;
}

uint64_t psti_dataset_generation(const pst_dataset *dataset)
{
    return dataset->is_folder ? 0 : index_of(dataset)->header.generation;
}

uint16_t psti_dataset_minor_version(const pst_dataset *dataset)
{
    return dataset->is_folder ? 0 : index_of(dataset)->header.minor;
}

enum pst_status psti_dataset_shard(const pst_dataset *dataset, uint32_t i_file, uint64_t *nbytes,
                                   uint64_t *n_items, struct pst_error *err)
{
    struct psti_index_shard shard;
    if (dataset->is_folder || i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no shard %" PRIu32, i_file);
    enum pst_status status = psti_dataset_index_shard(index_of(dataset), i_file, &shard, err);
    if (status == PST_OK) {
        *nbytes = shard.nbytes;
        *n_items = shard.n_items;
    }
    return status;
}
