/* dataset.c - implements the public functions of a data set: open, owners, arguments, plain reads.
 *
 * It chooses between a written data set (dataset_index.c) and a folder (dataset_folder.c). It
 * checks every argument before it calls an operation of the kind, and adds data set and sample to
 * errors. A handle does not change after open, so all functions but open and close may run on any
 * thread. */
#include "dataset/dataset_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/read.h"
#include "base/stamp.h"
#include "format/format_dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const field_type_names[] = {
    [PST_FIELD_IMAGE] = "image",         [PST_FIELD_MASK] = "mask",   [PST_FIELD_BOXES] = "boxes",
    [PST_FIELD_KEYPOINTS] = "keypoints", [PST_FIELD_AUDIO] = "audio", [PST_FIELD_INT] = "int",
    [PST_FIELD_FLOAT] = "float",         [PST_FIELD_BYTES] = "bytes", [PST_FIELD_TEXT] = "text",
    [PST_FIELD_JSON] = "json",           [PST_FIELD_ARRAY] = "array"};

const char *pst_field_type_name(enum pst_field_type type)
{
    return type >= PST_FIELD_IMAGE && type <= PST_FIELD_ARRAY ? field_type_names[type] : "none";
}

enum pst_field_type pst_field_type_from_name(const char *name)
{
    for (int type = PST_FIELD_IMAGE; type <= PST_FIELD_ARRAY; type++)
        if (name != NULL && strcmp(field_type_names[type], name) == 0)
            return (enum pst_field_type)type;
    return (enum pst_field_type)0;
}

enum pst_status psti_dataset_new(const char *path, size_t nbytes,
                                 const struct psti_dataset_ops *ops, pst_dataset **out,
                                 struct pst_error *err)
{
    pst_dataset *dataset = psti_calloc(1, nbytes);
    char *copy = psti_strdup(path);
    if (dataset == NULL || copy == NULL) {
        psti_free(dataset);
        psti_free(copy);
        *out = NULL;
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for a data set's handle");
    }
    dataset->ops = ops;
    dataset->path = copy;
    dataset->dir_fd = -1;
    atomic_init(&dataset->n_owners, 1);
    *out = dataset;
    return PST_OK;
}

static bool exists_in(const char *path, const char *name)
{
    char full[PATH_MAX];
    struct stat st;
    int n = snprintf(full, sizeof full, "%s/%s", path, name);
    return n > 0 && (size_t)n < sizeof full && lstat(full, &st) == 0;
}

/* Writes the absolute path without links to `whole` (PATH_MAX bytes). A path below /proc stays as
 * it is: links there lead to open files, which may have no name, or not in this container. NULL
 * with errno. */
static char *resolve(const char *path, char whole[PATH_MAX])
{
    if (strncmp(path, "/proc/", 6) != 0)
        return realpath(path, whole);
    size_t nbytes = strlen(path) + 1;
    if (nbytes > PATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    return memcpy(whole, path, nbytes);
}

/* Resolves the path of a data set and of its label file, once, so that they mean the same files
 * after a change of directory and in other processes. */
static enum pst_status resolve_paths(const char *path, struct pst_dataset_options *options,
                                     char clean[PATH_MAX], char labels[PATH_MAX],
                                     struct pst_error *err)
{
    struct stat st;
    if (path == NULL || path[0] == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "the path of the data set is empty");
    if (strlen(path) >= PATH_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset", "the path of the data set is too long");
    const char *advice = pst_path_advice(path);
    if (advice != NULL)
        return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "dataset", path, -1, "%s", advice);
    if (resolve(path, clean) == NULL || stat(clean, &st) != 0) {
        clean[0] = 0; /* perhaps a part of the path; what is not there is named as it was given */
        return psti_fail_os(err, errno, "dataset", path, -1, "cannot open the data set");
    }
    if (!S_ISDIR(st.st_mode))
        return psti_fail_os(err, ENOTDIR, "dataset", clean, -1,
                            "a data set is a directory, this is not one");
    /* Likewise. Those who read it find out. */
    if (options->labels != NULL && resolve(options->labels, labels) != NULL)
        options->labels = labels;
    return PST_OK;
}

enum pst_status pst_dataset_open(const char *path, const struct pst_dataset_options *options,
                                 pst_dataset **out, struct pst_error *err)
{
    struct pst_dataset_options full;
    char clean[PATH_MAX] = "", labels[PATH_MAX], shard[PSTI_SHARD_NAME_CAP];
    *out = NULL;
    enum pst_status status = psti_cpu_check_mask(err);
    if (status == PST_OK)
        status = psti_options_copy(&full, sizeof full, options, "dataset", err);
    if (status == PST_OK)
        status = resolve_paths(path, &full, clean, labels, err);
    if (status == PST_OK) {
        psti_format_shard_name(0, shard);
        if (full.n_files > 0)
            status = psti_dataset_open_folder(clean, &full, out, err);
        else if (exists_in(clean, PSTI_INDEX_NAME))
            status = psti_dataset_open_index(clean, out, err);
        else if (exists_in(clean, PSTI_JOURNAL_NAME))
            status = psti_fail(err, PST_ERROR_INCOMPLETE, "dataset",
                               "its writer was interrupted before it finished: resume it (the same "
                               "command with --resume, or the writer's mode \"resume\")");
        else if (exists_in(clean, shard))
            status = psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                               "there are shards but no index: " PSTI_INDEX_NAME " was removed");
        else if (full.no_folder)
            status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                               "this is a plain folder, not a data set: pack it first");
        else
            status = psti_dataset_open_folder(clean, &full, out, err);
    }
    if (status == PST_OK)
        status = psti_dataset_keep_options(*out, &full, err);
    if (status != PST_OK) {
        pst_dataset_close(out);
        if (path != NULL)
            psti_error_set_dataset(err, clean[0] != 0 ? clean : path);
    }
    return status;
}

void pst_dataset_retain(pst_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->n_owners, 1, memory_order_relaxed);
}

void pst_dataset_close(pst_dataset **dataset)
{
    pst_dataset *closed = dataset != NULL ? *dataset : NULL;
    if (closed == NULL)
        return;
    *dataset = NULL;
    if (atomic_fetch_sub_explicit(&closed->n_owners, 1, memory_order_acq_rel) != 1)
        return;
    closed->ops->close(closed);
    if (closed->dir_fd >= 0)
        close(closed->dir_fd);
    psti_free(closed->options_memory);
    psti_free(closed->path);
    psti_free(closed);
}

const char *pst_dataset_path(const pst_dataset *dataset) { return dataset->path; }
bool pst_dataset_is_folder(const pst_dataset *dataset) { return dataset->is_folder; }
uint64_t pst_dataset_count(const pst_dataset *dataset) { return dataset->n_samples; }
const uint8_t *pst_dataset_id(const pst_dataset *dataset) { return dataset->id; }

enum pst_status pst_dataset_nbytes(const pst_dataset *dataset, uint64_t *nbytes,
                                   struct pst_error *err)
{
    struct psti_index_shard shard;
    uint64_t sum = dataset->nbytes;
    for (uint32_t i = 0; !dataset->is_folder && i < dataset->n_files; i++) {
        enum pst_status status = psti_dataset_shard(dataset, i, &shard, err);
        if (status != PST_OK)
            return status;
        sum += shard.nbytes;
    }
    *nbytes = sum;
    return PST_OK;
}

uint64_t pst_dataset_n_skipped(const pst_dataset *dataset) { return dataset->n_skipped; }
uint32_t pst_dataset_n_fields(const pst_dataset *dataset) { return dataset->n_fields; }
uint32_t pst_dataset_n_files(const pst_dataset *dataset) { return dataset->n_files; }

const struct pst_field *pst_dataset_field(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? &dataset->fields[i_field] : NULL;
}

int pst_dataset_find_field(const pst_dataset *dataset, const char *name)
{
    for (uint32_t i = 0; i < dataset->n_fields; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return (int)i;
    return -1;
}

const char *pst_dataset_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    if (i_field >= dataset->n_fields || !psti_format_may_have_classes(&dataset->fields[i_field]))
        return NULL;
    return dataset->ops->class_name(dataset, i_field, label);
}

const uint32_t *pst_dataset_point_pairs(const pst_dataset *dataset, uint32_t i_field)
{
    if (i_field >= dataset->n_fields || dataset->ops->pairs == NULL)
        return NULL;
    return dataset->ops->pairs(dataset, i_field);
}

uint64_t pst_dataset_max_item_nbytes(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? dataset->max_item_nbytes[i_field] : 0;
}

uint64_t pst_dataset_max_pixels_nbytes(const pst_dataset *dataset, uint32_t i_field)
{
    return i_field < dataset->n_fields ? dataset->max_pixels_nbytes[i_field] : 0;
}

/* Adds to an error what the failing room does not know. Out of line: errors are rare. */
static __attribute__((noinline)) enum pst_status complete(const pst_dataset *dataset,
                                                          int64_t sample, enum pst_status status,
                                                          struct pst_error *err)
{
    psti_error_set_dataset(err, dataset->path);
    if (err != NULL)
        err->sample = sample;
    return status;
}

static __attribute__((noinline)) enum pst_status fail_sample(const pst_dataset *dataset,
                                                             uint64_t sample, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
              "there is no sample %" PRIu64 ": the data set has %" PRIu64, sample,
              dataset->n_samples);
    return complete(dataset, sample <= INT64_MAX ? (int64_t)sample : -1, PST_ERROR_ARGUMENT, err);
}

static __attribute__((noinline)) enum pst_status fail_field(const pst_dataset *dataset,
                                                            uint64_t sample, uint32_t i_field,
                                                            const char *wanted,
                                                            struct pst_error *err)
{
    if (i_field >= dataset->n_fields)
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                  "there is no field %" PRIu32 ": the data set has %" PRIu32, i_field,
                  dataset->n_fields);
    else
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "field \"%s\" of type %s %s",
                  dataset->fields[i_field].name, pst_field_type_name(dataset->fields[i_field].type),
                  wanted);
    return complete(dataset, (int64_t)sample, PST_ERROR_ARGUMENT, err);
}

enum pst_status pst_dataset_sample_name(const pst_dataset *dataset, uint64_t sample, char *name,
                                        struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    enum pst_status status = dataset->ops->sample_name(dataset, sample, name, err);
    return status == PST_OK ? PST_OK : complete(dataset, (int64_t)sample, status, err);
}

enum pst_status pst_dataset_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 uint32_t variant, struct pst_item *item, size_t item_nbytes,
                                 struct pst_error *err)
{
    struct pst_item found = {0};
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || !psti_format_has_items(dataset->fields[i_field].type))
        return fail_field(dataset, sample, i_field, "has values but no items", err);
    if (variant >= dataset->fields[i_field].n_variants)
        return fail_field(dataset, sample, i_field, "does not have so many variants", err);
    enum pst_status status = dataset->ops->item(dataset, sample, i_field, variant, &found, err);
    if (status != PST_OK)
        return complete(dataset, (int64_t)sample, status, err);
    psti_struct_write(item, item_nbytes, &found, sizeof found);
    return PST_OK;
}

enum pst_status pst_dataset_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                int64_t *value, struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || dataset->fields[i_field].type != PST_FIELD_INT)
        return fail_field(dataset, sample, i_field, "has no int values", err);
    enum pst_status status = dataset->ops->int_value(dataset, sample, i_field, value, err);
    return status == PST_OK ? PST_OK : complete(dataset, (int64_t)sample, status, err);
}

enum pst_status pst_dataset_float(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  double *value, struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || dataset->fields[i_field].type != PST_FIELD_FLOAT)
        return fail_field(dataset, sample, i_field, "has no float values", err);
    enum pst_status status = dataset->ops->float_value(dataset, sample, i_field, value, err);
    return status == PST_OK ? PST_OK : complete(dataset, (int64_t)sample, status, err);
}

/* Does what ops->values does, for kinds that have none. */
static enum pst_status values_one_by_one(const pst_dataset *dataset, uint32_t i_field,
                                         uint64_t first, uint64_t n, void *values,
                                         struct pst_error *err)
{
    int64_t *numbers = values;
    double *reals = values;
    bool is_int = dataset->fields[i_field].type == PST_FIELD_INT;
    enum pst_status status = PST_OK;
    for (uint64_t i = 0; i < n && status == PST_OK; i++)
        status = is_int ? pst_dataset_int(dataset, first + i, i_field, &numbers[i], err)
                        : pst_dataset_float(dataset, first + i, i_field, &reals[i], err);
    return status;
}

enum pst_status pst_dataset_column(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                                   uint64_t n, void *values, struct pst_error *err)
{
    if (!psti_range_fits(first, n, dataset->n_samples))
        return fail_sample(dataset, first < dataset->n_samples ? dataset->n_samples : first, err);
    if (i_field >= dataset->n_fields || psti_format_has_items(dataset->fields[i_field].type))
        return fail_field(dataset, first, i_field, "has no numbers", err);
    if (n == 0)
        return PST_OK;
    if (dataset->ops->values == NULL)
        return values_one_by_one(dataset, i_field, first, n, values, err);
    enum pst_status status = dataset->ops->values(dataset, i_field, first, n, values, err);
    if (status != PST_OK)
        return complete(dataset, -1, status, err);
    int64_t n_classes = dataset->fields[i_field].n_classes;
    const int64_t *numbers = values;
    for (uint64_t i = 0; n_classes > 0 && i < n; i++)
        if (numbers[i] < 0 || numbers[i] >= n_classes) /* the sample alone gives the same error */
            return pst_dataset_int(dataset, first + i, i_field, (int64_t *)values + i, err);
    return PST_OK;
}

enum pst_status pst_dataset_find_sample(const pst_dataset *dataset, const char *name,
                                        uint64_t *sample, struct pst_error *err)
{
    char found[PST_NAME_CAP];
    for (uint64_t i = 0; i < dataset->n_samples; i++) {
        enum pst_status status = pst_dataset_sample_name(dataset, i, found, err);
        if (status != PST_OK)
            return status;
        if (strcmp(found, name) == 0) {
            *sample = i;
            return PST_OK;
        }
    }
    psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "no sample is named \"%.200s\"", name);
    return complete(dataset, -1, PST_ERROR_NOT_FOUND, err);
}

enum pst_status pst_dataset_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                      size_t capacity, struct pst_error *err)
{
    if (i_file >= dataset->n_files) {
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                  "there is no file %" PRIu32 ": the data set has %" PRIu32, i_file,
                  dataset->n_files);
        return complete(dataset, -1, PST_ERROR_ARGUMENT, err);
    }
    enum pst_status status = dataset->ops->file_path(dataset, i_file, buffer, capacity, err);
    return status == PST_OK ? PST_OK : complete(dataset, -1, status, err);
}

uint64_t psti_dataset_file_place(const pst_dataset *dataset, uint32_t i_file)
{
    if (i_file >= dataset->n_files || dataset->ops->file_place == NULL)
        return 0;
    return dataset->ops->file_place(dataset, i_file);
}

enum pst_status psti_dataset_by_path(const pst_dataset *dataset, uint32_t **samples,
                                     struct pst_error *err)
{
    *samples = NULL;
    return dataset->ops->by_path == NULL ? PST_OK : dataset->ops->by_path(dataset, samples, err);
}

uint64_t psti_dataset_file_stamp(const pst_dataset *dataset, uint32_t i_file)
{
    if (i_file >= dataset->n_files || dataset->ops->file_stamp == NULL)
        return 0;
    return dataset->ops->file_stamp(dataset, i_file);
}

enum pst_status psti_dataset_file_at(const pst_dataset *dataset, uint32_t i_file, int *at,
                                     char *name, size_t capacity, struct pst_error *err)
{
    struct psti_index_shard shard;
    *at = AT_FDCWD;
    if (dataset->is_folder)
        return pst_dataset_file_path(dataset, i_file, name, capacity, err);
    enum pst_status status = psti_dataset_shard(dataset, i_file, &shard, err);
    if (status != PST_OK)
        return status;
    if (strlen(shard.name) >= capacity)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the name of a shard does not fit in %zu bytes", capacity);
    *at = dataset->dir_fd;
    memcpy(name, shard.name, strlen(shard.name) + 1);
    return PST_OK;
}

/* A folder's file must be the one that was listed: as long (nbytes), and with the same stamp. */
static enum pst_status check_listed(const struct stat *st, const char *path, uint64_t nbytes,
                                    uint64_t stamp, struct pst_error *err)
{
    if ((uint64_t)st->st_size != nbytes)
        return psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", path, -1,
                            "the file changed: it had %" PRIu64
                            " bytes when it was listed, now %lld",
                            nbytes, (long long)st->st_size);
    return psti_stamp_fits(stamp, st)
               ? PST_OK
               : psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", path, -1, PSTI_STAMP_CHANGED);
}

static enum pst_status read_item(const pst_dataset *dataset, const struct pst_item *item,
                                 uint64_t start, uint64_t nbytes, void *buffer,
                                 struct pst_error *err)
{
    char path[PATH_MAX], name[PATH_MAX];
    struct stat st;
    int at, fd = -1;
    uint64_t offset = item->offset + start;
    enum pst_status status = pst_dataset_file_path(dataset, item->i_file, path, sizeof path, err);
    if (status == PST_OK)
        status = psti_dataset_check_shard(dataset, item->i_file, err);
    if (status == PST_OK)
        status = psti_dataset_file_at(dataset, item->i_file, &at, name, sizeof name, err);
    if (status == PST_OK)
        status = psti_open_data_at(at, name, path, "dataset", "the file", &fd, &st, err);
    if (status != PST_OK)
        return status;
    if (dataset->is_folder)
        status = check_listed(&st, path, item->nbytes,
                              psti_dataset_file_stamp(dataset, item->i_file), err);
    if (status != PST_OK)
        goto out;
    ssize_t n = psti_read_at(fd, buffer, (size_t)nbytes, offset);
    if (n < 0)
        status = psti_fail_os(err, errno, "dataset", path, (int64_t)offset, "cannot read the item");
    else if ((uint64_t)n < nbytes)
        status = psti_fail_at(err, PST_ERROR_TRUNCATED, "dataset", path, (int64_t)offset + n,
                              "the file ends within the item, %" PRIu64 " bytes are missing",
                              nbytes - (uint64_t)n);
    else if (nbytes == item->nbytes && item->has_checksum &&
             psti_hash64(buffer, (size_t)nbytes) != item->checksum)
        status = psti_fail_at(err, PST_ERROR_CHECKSUM, "dataset", path, (int64_t)item->offset,
                              "the %" PRIu64 " stored bytes of the item were altered", nbytes);
out:
    close(fd);
    return status;
}

/* Text and JSON that no reader could use are found here, where they are read. */
static enum pst_status check_text(const pst_dataset *dataset, uint32_t i_field,
                                  const struct pst_item *item, const void *bytes,
                                  struct pst_error *err)
{
    const struct pst_field *field = &dataset->fields[i_field];
    char path[PATH_MAX];
    const char *problem = psti_format_text_problem(field->type, bytes, (size_t)item->nbytes);
    if (problem == NULL)
        return PST_OK;
    bool has_path =
        item->i_file != PST_FILE_NONE &&
        dataset->ops->file_path(dataset, item->i_file, path, sizeof path, NULL) == PST_OK;
    return psti_fail_at(err, PST_ERROR_CORRUPT, "dataset", has_path ? path : NULL,
                        has_path ? (int64_t)item->offset : -1, "the %s of field \"%s\" %s",
                        field->type == PST_FIELD_JSON ? "JSON" : "text", field->name, problem);
}

enum pst_status pst_dataset_read(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 uint32_t variant, uint64_t start, uint64_t nbytes, void *buffer,
                                 struct pst_error *err)
{
    struct pst_item item;
    enum pst_status status =
        pst_dataset_item(dataset, sample, i_field, variant, &item, sizeof item, err);
    if (status != PST_OK)
        return status;
    /* A folder's file may have a form that was not read yet. An item without form and file does not
     * exist. */
    if (item.form == PST_FORM_NONE && (!dataset->is_folder || item.i_file == PST_FILE_NONE))
        status = psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                           "the sample has no variant %" PRIu32 " of field \"%s\"", variant,
                           dataset->fields[i_field].name);
    else if (!psti_range_fits(start, nbytes, item.nbytes))
        status =
            psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                      "%" PRIu64 " bytes from %" PRIu64 " on were asked for, the item has %" PRIu64,
                      nbytes, start, item.nbytes);
    else if (item.i_file == PST_FILE_NONE)
        status = dataset->ops->read_memory(dataset, sample, i_field, start, nbytes, buffer, err);
    else
        status = read_item(dataset, &item, start, nbytes, buffer, err);
    if (status == PST_OK && nbytes == item.nbytes)
        status = check_text(dataset, i_field, &item, buffer, err);
    if (status != PST_OK && item.form != PST_FORM_NONE && item.form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(item.form));
    return status == PST_OK ? PST_OK : complete(dataset, (int64_t)sample, status, err);
}

struct pst_image_info psti_dataset_raw_info(const struct pst_item *item)
{
    return (struct pst_image_info){.form = PST_FORM_RAW,
                                   .height = item->height,
                                   .width = item->width,
                                   .channels = item->channels,
                                   .bits = item->bits,
                                   .orientation = item->orientation ? item->orientation : 1};
}
