/* dataset_index.c - a packed data set: its index is read in verified blocks.
 *
 * Opening reads and checks the index's header, schema, class names, and the tables of shards and of
 * block checksums. Rows of columns and names of samples are read when needed, from blocks that are
 * verified then (dataset_blocks.c). They are copied out, so callers never hold pointers into a
 * block. Section ranges are checked when the header is parsed. Offsets inside sections are checked
 * at use, because a forger can make valid checksums. The file stays open, so readers keep the old
 * index when a writer replaces it. */
#include "dataset/dataset_index.h"

#include "dataset/dataset_classes.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/read.h"
#include "format/format_geometry.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Adds the index file's path and an offset in it to an error. Returns the status. */
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

/* Adds the index file, and the offset that the blocks have set, to an error. */
static enum pst_status in_blocks(const struct psti_dataset_index *index, enum pst_status status,
                                 struct pst_error *err)
{
    return in_index(index, err != NULL ? (uint64_t)err->offset : 0, status, err);
}

static enum pst_status corrupt(const struct psti_dataset_index *index, uint64_t offset,
                               const char *what, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_CORRUPT, "dataset", "%s", what);
    return in_index(index, offset, PST_ERROR_CORRUPT, err);
}

/* Copies bytes of the payload. The cache of blocks is the only part of a data set that changes
 * after open. */
static enum pst_status get(const struct psti_dataset_index *index, uint64_t offset, uint64_t nbytes,
                           void *out, struct pst_error *err)
{
    struct psti_blocks *blocks = (struct psti_blocks *)&index->blocks;
    enum pst_status status = psti_dataset_blocks_read(blocks, offset, nbytes, out, err);
    return status == PST_OK ? PST_OK : in_blocks(index, status, err);
}

static enum pst_status index_sample_name(const pst_dataset *dataset, uint64_t sample, char *name,
                                         struct pst_error *err)
{
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    const struct psti_blocks_names names = {index->header.name_offsets_offset,
                                            index->header.names_offset, index->header.names_nbytes};
    struct psti_blocks *blocks = (struct psti_blocks *)&index->blocks;
    enum pst_status status = psti_dataset_blocks_name(blocks, &names, sample, name, err);
    return status == PST_OK ? PST_OK : in_blocks(index, status, err);
}

/* Returns the class name of a label. The names were checked at open. */
static const char *index_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    return psti_dataset_classes_name(psti_dataset_index_of(dataset)->classes[i_field],
                                     (uint64_t)dataset->fields[i_field].n_classes, label);
}

static const uint32_t *index_pairs(const pst_dataset *dataset, uint32_t i_field)
{
    return psti_dataset_index_of(dataset)->pairs[i_field];
}

/* True if the shape of boxes, keypoints or an array agrees with the item's size. Batches rely on
 * it. */
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
    return nbytes == psti_dataset_item_nbytes(item);
}

static enum pst_status index_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    const struct psti_index_field *field = &index->fields[i_field];
    uint64_t at =
        field->column_offset + (sample * field->field.n_variants + variant) * PSTI_ITEM_NBYTES;
    uint8_t bytes[PSTI_ITEM_NBYTES];
    enum pst_status status = get(index, at, sizeof bytes, bytes, err);
    if (status != PST_OK)
        return status;
    status = psti_format_parse_item(bytes, field->field.type, item, err);
    if (status != PST_OK)
        return in_index(index, at, status, err);
    if (item->form == PST_FORM_NONE)
        return PST_OK;
    if (item->i_file >= index->header.n_shards)
        return corrupt(index, at + 24, "an item lies in a shard that does not exist", err);
    uint64_t shard_nbytes =
        psti_load_u64(index->shards + (size_t)item->i_file * PSTI_INDEX_SHARD_NBYTES + 32);
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
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    return get(index, index->fields[i_field].column_offset + 8 * sample, 8, value, err);
}

static enum pst_status index_values(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                                    uint64_t n, void *values, struct pst_error *err)
{
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    return get(index, index->fields[i_field].column_offset + 8 * first, 8 * n, values, err);
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
        return corrupt(psti_dataset_index_of(dataset),
                       psti_dataset_index_of(dataset)->fields[i_field].column_offset + 8 * sample,
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
    enum pst_status status = psti_format_parse_index_shard(
        index->shards + (size_t)i_file * PSTI_INDEX_SHARD_NBYTES, shard, err);
    return status == PST_OK ? PST_OK : in_index(index, at, status, err);
}

static enum pst_status index_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                       size_t capacity, struct pst_error *err)
{
    struct psti_index_shard shard;
    enum pst_status status =
        psti_dataset_index_shard(psti_dataset_index_of(dataset), i_file, &shard, err);
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
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_free(index->classes[i]);
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++)
        psti_free(index->pairs[i]);
    psti_free(index->shards);
    psti_free((void *)index->shards_checked);
    psti_dataset_blocks_close(&index->blocks);
}

static enum pst_status index_check(const pst_dataset *dataset, struct pst_error *err)
{
    const struct psti_dataset_index *index = psti_dataset_index_of(dataset);
    enum pst_status status = psti_dataset_blocks_check_all(&index->blocks, err);
    if (status == PST_OK)
        return PST_OK;
    psti_error_set_dataset(err, dataset->path);
    return in_blocks(index, status, err);
}

static const struct psti_dataset_ops index_ops = {
    .close = index_close,
    .sample_name = index_sample_name,
    .item = index_item,
    .int_value = index_int,
    .float_value = index_float,
    .values = index_values,
    .class_name = index_class_name,
    .pairs = index_pairs,
    .file_path = index_file_path,
    .check_index = index_check,
};

/* Open ---------------------------------------------------------------------- */

static enum pst_status read_header(struct psti_dataset_index *index, int fd, const char *path,
                                   struct pst_error *err)
{
    uint8_t bytes[PSTI_INDEX_HEADER_NBYTES];
    struct stat st;
    ssize_t n = fstat(fd, &st) == 0 ? psti_read_at(fd, bytes, sizeof bytes, 0) : -1;
    if (n < 0)
        return psti_fail_os(err, errno, "dataset", path, 0, "cannot read the index");
    if (!S_ISREG(st.st_mode))
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset", PSTI_INDEX_NAME " is no regular file");
    enum pst_status status =
        psti_format_parse_index_header(bytes, (size_t)n, (uint64_t)st.st_size, &index->header, err);
    psti_error_set_file(status == PST_OK ? NULL : err, path);
    return status;
}

/* Reads the table of shards. It stays in memory, because each item's range is checked against
 * it. */
static enum pst_status read_shards(struct psti_dataset_index *index, struct pst_error *err)
{
    const struct psti_index_header *header = &index->header;
    size_t nbytes = (size_t)header->n_shards * PSTI_INDEX_SHARD_NBYTES;
    index->shards = psti_alloc(nbytes);
    index->shards_checked =
        psti_calloc((size_t)(header->n_shards / 64 + 1), sizeof *index->shards_checked);
    if (index->shards == NULL || index->shards_checked == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for %" PRIu32 " shards",
                         header->n_shards);
    return get(index, header->shards_offset, nbytes, index->shards, err);
}

static enum pst_status read_classes(struct psti_dataset_index *index, uint32_t i_field,
                                    struct pst_error *err)
{
    const struct psti_index_field *field = &index->fields[i_field];
    const struct psti_dataset_classes place = {.field = field->field.name,
                                               .n_classes = (uint64_t)field->field.n_classes,
                                               .offset = field->classes_offset,
                                               .nbytes = field->classes_nbytes};
    enum pst_status status =
        psti_dataset_classes_read(&index->blocks, &place, &index->classes[i_field], err);
    bool is_in_file = status != PST_ERROR_LIMIT && status != PST_ERROR_MEMORY;
    return status != PST_OK && is_in_file ? in_blocks(index, status, err) : status;
}

/* Reads and checks the pairs of keypoints of a field, and keeps them in memory. */
static enum pst_status read_pairs(struct psti_dataset_index *index, uint32_t i_field,
                                  struct pst_error *err)
{
    const struct psti_index_field *field = &index->fields[i_field];
    uint32_t n = psti_format_n_pairs(&field->field);
    if (n == 0)
        return PST_OK;
    uint32_t *pairs = index->pairs[i_field] = psti_alloc_array(n, 2 * sizeof *pairs);
    if (pairs == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for pairs of points");
    enum pst_status status = get(index, field->pairs_offset, (uint64_t)n * 8, pairs, err);
    if (status != PST_OK)
        return status;
    for (size_t i = 0; i < 2 * (size_t)n; i++)
        pairs[i] = psti_load_u32(&pairs[i]);
    const struct psti_pairs held = {pairs, n, (uint32_t)field->field.n_classes};
    const char *problem = psti_format_pairs_problem(&held);
    if (problem == NULL)
        return PST_OK;
    psti_fail(err, PST_ERROR_CORRUPT, "dataset", "field \"%s\" %s", field->field.name, problem);
    return in_index(index, field->pairs_offset, PST_ERROR_CORRUPT, err);
}

static enum pst_status read_schema(struct psti_dataset_index *index, struct pst_error *err)
{
    pst_dataset *base = &index->base;
    const struct psti_index_header *header = &index->header;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; i < header->n_fields && status == PST_OK; i++) {
        uint64_t at = header->fields_offset + (uint64_t)i * PSTI_INDEX_FIELD_NBYTES;
        uint8_t bytes[PSTI_INDEX_FIELD_NBYTES];
        status = get(index, at, sizeof bytes, bytes, err);
        if (status != PST_OK)
            return status;
        status = psti_format_parse_index_field(bytes, header, &index->fields[i], err);
        if (status != PST_OK)
            return in_index(index, at, status, err);
        base->fields[i] = index->fields[i].field;
        base->max_item_nbytes[i] = index->fields[i].max_item_nbytes;
        base->max_pixels_nbytes[i] = index->fields[i].max_pixels_nbytes;
        if (pst_dataset_find_field(base, base->fields[i].name) >= 0)
            return corrupt(index, at, "two fields of the schema have one name", err);
        base->n_fields = i + 1;
        status = read_classes(index, i, err);
        if (status == PST_OK)
            status = read_pairs(index, i, err);
    }
    memcpy(base->id, header->id, 16);
    base->n_samples = header->n_samples;
    base->n_files = header->n_shards;
    return status;
}

/* Sets the identities. That of the bytes is a hash of the checksums of all index blocks, and the
 * index has the checksums of all items. Parts of the index that only tell how it was made are not
 * hashed: id, generation, mark. */
static void take_identities(struct psti_dataset_index *index)
{
    static const uint8_t none[16] = {0};
    pst_dataset *base = &index->base;
    const struct psti_index_header *header = &index->header;
    const uint64_t layout[] = {
        header->n_samples,     header->n_fields,      header->n_shards,
        header->fields_offset, header->shards_offset, header->name_offsets_offset,
        header->names_offset,  header->names_nbytes,  header->frame.blocks_offset};
    struct psti_hash_pair hash;
    psti_hash_pair_begin(&hash);
    psti_hash_pair_update(&hash, layout, sizeof layout);
    psti_hash_pair_update(&hash, index->blocks.sums, (size_t)header->frame.n_blocks * 8);
    psti_hash_pair_end(&hash, base->bytes_identity);
    memcpy(base->listed_identity, base->bytes_identity, sizeof base->listed_identity);
    memcpy(base->files_identity, header->files, sizeof base->files_identity);
    base->has_files_identity = memcmp(header->files, none, sizeof none) != 0;
    if (memcmp(header->samples, none, sizeof none) != 0)
        psti_dataset_keep_samples_identity(base, header->samples);
}

/* Opens the index and takes a shared lock on it, which is held while it is open. A change in place
 * removes old shards only if nobody holds such a lock on the old index. If the index was replaced
 * before the lock was taken, opens the new one. */
static enum pst_status open_and_hold(int dir_fd, const char *file, int *out, struct pst_error *err)
{
    enum { TRIES = 1000 };
    for (int i = 0;; i++) {
        struct stat ours, there;
        int fd;
        enum pst_status status = psti_open_data_at(dir_fd, PSTI_INDEX_NAME, file, "dataset",
                                                   "the index", &fd, &ours, err);
        *out = fd;
        if (status != PST_OK)
            return status;
        /* File systems without locks refuse flock; the index is opened anyway. */
        bool held = flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        bool same = fstatat(dir_fd, PSTI_INDEX_NAME, &there, 0) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
        if ((held && same) || i == TRIES)
            return PST_OK;
        close(fd);
    }
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
    index->blocks.fd = -1;
    snprintf(file, sizeof file, "%s/" PSTI_INDEX_NAME, path);
    index->base.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (index->base.dir_fd < 0)
        status = psti_fail_os(err, errno, "dataset", path, -1, "cannot open the directory");
    if (status == PST_OK)
        status = open_and_hold(index->base.dir_fd, file, &fd, err);
    if (status == PST_OK)
        status = read_header(index, fd, file, err);
    if (status == PST_OK) {
        status = psti_dataset_blocks_open(&index->blocks, fd, &index->header.frame, err);
        psti_error_set_file(status == PST_OK ? NULL : err, file);
        fd = -1;
    }
    if (status == PST_OK)
        status = read_shards(index, err);
    if (status == PST_OK)
        status = read_schema(index, err);
    if (status == PST_OK)
        take_identities(index);
    if (fd >= 0)
        close(fd);
    if (status != PST_OK)
        pst_dataset_close(out);
    return status;
}

/* After open ---------------------------------------------------------------- */

bool psti_dataset_item_fits(const struct pst_field *field, const struct pst_item *item)
{
    return shape_fits(field, item);
}

uint64_t psti_dataset_generation(const pst_dataset *dataset)
{
    return !pst_dataset_is_packed(dataset) ? 0 : psti_dataset_index_of(dataset)->header.generation;
}

uint16_t psti_dataset_minor_version(const pst_dataset *dataset)
{
    return !pst_dataset_is_packed(dataset) ? 0 : psti_dataset_index_of(dataset)->header.minor;
}

uint64_t psti_dataset_mark(const pst_dataset *dataset)
{
    return !pst_dataset_is_packed(dataset) ? 0 : psti_dataset_index_of(dataset)->header.mark;
}

enum pst_status psti_dataset_shard(const pst_dataset *dataset, uint32_t i_file,
                                   struct psti_index_shard *shard, struct pst_error *err)
{
    if (dataset->kind != PSTI_DATASET_PACKED || i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no shard %" PRIu32, i_file);
    return psti_dataset_index_shard(psti_dataset_index_of(dataset), i_file, shard, err);
}
