/* dataset.c - opens data sets and reads their items.
 *
 * Opening chooses between a packed data set (dataset_index.c), a plain folder (dataset_folder.c)
 * and other programs' containers (dataset_container_open.c). A handle does not change after open,
 * so all functions except open and close (dataset_handle.c) may run on any thread. */
#include "dataset/dataset_container.h"
#include "dataset/dataset_index.h"
#include "dataset/dataset_members.h"
#include "dataset/dataset_query.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/codings/codings.h"
#include "base/inflate.h"
#include "base/machine/cpu.h"
#include "base/machine/memory_limit.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/options.h"
#include "containers/list/containers_list.h"
#include "base/files/read.h"
#include "base/files/stamp.h"
#include "format/format_container.h"
#include "format/format_parts.h"

#include <penstock/index.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An item that decodes to fewer bytes than this is decoded without asking for the free memory. */
#define LARGE_NBYTES ((uint64_t)256 << 20)

static bool exists_in(const char *path, const char *name)
{
    char full[PATH_MAX];
    struct stat st;
    int n = snprintf(full, sizeof full, "%s/%s", path, name);
    return n > 0 && (size_t)n < sizeof full && lstat(full, &st) == 0;
}

/* Writes the absolute path without links to `whole` (PATH_MAX bytes). Paths below /proc are kept as
 * they are, because links there lead to open files, which may have no name or none in this
 * container. Returns NULL with errno after a failure. */
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

/* Resolves the paths of a data set and of its label file once, so that they name the same files
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
        clean[0] = 0; /* may hold a part of the path; the error names the path as given */
        return psti_fail_os(err, errno, "dataset", path, -1, "cannot open the data set");
    }
    if (!S_ISDIR(st.st_mode))
        return psti_fail_os(err, ENOTDIR, "dataset", clean, -1,
                            "a data set is a directory, this is not one");
    /* A label file that does not resolve is no error here; its reader reports it. */
    if (options->labels != NULL && resolve(options->labels, labels) != NULL)
        options->labels = labels;
    return PST_OK;
}

bool psti_dataset_means_containers(const char *path)
{
    char shard[PSTI_SHARD_NAME_CAP];
    psti_format_shard_name(0, shard);
    /* Check single files first and list the directory last, because a packed data set may have many
     * shards. */
    return path != NULL && !exists_in(path, PSTI_INDEX_NAME) &&
           !exists_in(path, PSTI_JOURNAL_NAME) && !exists_in(path, PSTI_PARTS_NAME) &&
           !exists_in(path, shard) && psti_containers_list_is_meant(path);
}

/* Refuses options that only other kinds of data sets have. */
static enum pst_status check_container_options(const struct pst_dataset_options *options,
                                               struct pst_error *err)
{
    const char *name = options->labels != NULL  ? "labels"
                       : options->n_masks > 0   ? "masks"
                       : options->n_files > 0   ? "files"
                       : options->ignore_labels ? "ignore_labels"
                                                : NULL;
    if (name != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                         "%s is for plain folders, and these are files with many samples", name);
    if (options->n_members > 0 && options->members == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "members is NULL, n_members is not");
    return PST_OK;
}

static enum pst_status open_container(const char *path, const struct pst_dataset_options *options,
                                      struct psti_container_work *work, pst_dataset **out,
                                      struct pst_error *err)
{
    enum pst_status status = check_container_options(options, err);
    if (status == PST_OK)
        status = psti_dataset_open_container(path, options, work, out, err);
    return status;
}

/* Opens a path that was resolved. work: only for containers; NULL: none. */
static enum pst_status open_path(const char *path, const struct pst_dataset_options *options,
                                 struct psti_container_work *work, pst_dataset **out,
                                 struct pst_error *err)
{
    struct pst_dataset_options full;
    char clean[PATH_MAX] = "", labels[PATH_MAX], shard[PSTI_SHARD_NAME_CAP];
    *out = NULL;
    enum pst_status status = psti_cpu_check_mask(err);
    if (status == PST_OK)
        status = psti_options_copy(&full, sizeof full, options, "dataset", err);
    bool is_container =
        status == PST_OK && full.n_files == 0 && psti_dataset_means_containers(path);
    if (status == PST_OK && !is_container)
        status = resolve_paths(path, &full, clean, labels, err);
    if (status == PST_OK && !is_container && (full.split != NULL || full.n_members > 0))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "split and members are for files with many samples, such as tars and "
                           "tables, and this is none: where images lie beside such files, name the "
                           "files, as in FOLDER/*.tar");
    if (status == PST_OK && work != NULL && !is_container && exists_in(clean, PSTI_INDEX_NAME))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "a packed data set has its index already");
    if (status == PST_OK && work != NULL && !is_container && (work->n_parts > 0 || work->merge))
        status = psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                           "a plain folder has no index of samples, so no parts of one");
    if (status == PST_OK && is_container) {
        status = open_container(path, &full, work, out, err);
    } else if (status == PST_OK) {
        psti_format_shard_name(0, shard);
        if (full.n_files > 0)
            status = psti_dataset_open_folder(clean, &full, out, err);
        else if (exists_in(clean, PSTI_INDEX_NAME))
            status = psti_dataset_open_index(clean, out, err);
        else if (exists_in(clean, PSTI_PARTS_NAME))
            status = psti_fail(err, PST_ERROR_INCOMPLETE, "dataset",
                               "it is packed in parts, which `penstock merge` makes a data set of");
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
    if (status == PST_OK && *out != NULL) /* *out is NULL if only a part of an index was made */
        status = psti_dataset_keep_options(*out, &full, err);
    if (status != PST_OK) {
        pst_dataset_close(out);
        if (path != NULL)
            psti_error_set_dataset(err, clean[0] != 0 ? clean : path);
    }
    return status;
}

enum pst_status pst_dataset_open(const char *path, const struct pst_dataset_options *options,
                                 pst_dataset **out, struct pst_error *err)
{
    return open_path(path, options, NULL, out, err);
}

static enum pst_status check_parts(const struct pst_index_options *options, struct pst_error *err)
{
    if (options->part > options->n_parts || (options->part == 0) != (options->n_parts == 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                         "part %u of %u is none: parts are counted from 1", options->part,
                         options->n_parts);
    if ((options->n_parts > 0) + options->merge + options->check > 1)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                         "a part of an index, merging its parts and checking it are done one at a "
                         "time");
    return PST_OK;
}

enum pst_status pst_dataset_index_make(const char *path, const struct pst_index_options *options,
                                       struct pst_index_report *report, size_t report_nbytes,
                                       pst_dataset **out, struct pst_error *err)
{
    struct pst_index_options full;
    struct psti_container_work work = {0};
    *out = NULL;
    enum pst_status status = psti_options_copy(&full, sizeof full, options, "dataset", err);
    if (status == PST_OK)
        status = check_parts(&full, err);
    if (status != PST_OK)
        return status;
    work.check = full.check;
    work.merge = full.merge;
    work.part = full.part;
    work.n_parts = full.n_parts;
    status = open_path(path, full.source, &work, out, err);
    if (status != PST_OK || report == NULL)
        return status;
    struct pst_index_report done = {.was_made = work.was_made,
                                    .was_wrong = work.was_wrong,
                                    .n_files = work.n_files,
                                    .n_made_before = work.n_made_before};
    if (*out != NULL && (*out)->kind == PSTI_DATASET_CONTAINER)
        done.index_nbytes = psti_dataset_container_header(*out)->frame.file_nbytes;
    psti_struct_write(report, report_nbytes, &done, sizeof done);
    return PST_OK;
}

bool pst_path_holds_samples(const char *path)
{
    struct stat st;
    return path != NULL && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) &&
           psti_containers_list_is_meant(path);
}

/* Offset between the numbers of container kinds and those of PST_DATASET kinds, which have the same
 * order. */
enum { KIND_SHIFT = PST_DATASET_TAR - PSTI_CONTAINER_TAR };
_Static_assert(PST_DATASET_BETON - PSTI_CONTAINER_BETON == KIND_SHIFT, "kinds are in one order");

enum pst_dataset_kind pst_dataset_kind_of(const pst_dataset *dataset)
{
    if (dataset->kind == PSTI_DATASET_MIXTURE)
        return PST_DATASET_MIXTURE;
    if (dataset->kind != PSTI_DATASET_CONTAINER)
        return dataset->kind == PSTI_DATASET_FOLDER ? PST_DATASET_FOLDER : PST_DATASET_PACKED;
    uint32_t kind = psti_dataset_container_header(dataset)->kind;
    return kind >= PSTI_CONTAINER_TAR && kind <= PSTI_CONTAINER_BETON
               ? (enum pst_dataset_kind)(kind + KIND_SHIFT)
               : PST_DATASET_TAR;
}

const char *pst_dataset_kind_name(enum pst_dataset_kind kind)
{
    static const char *const names[] = {
        [PST_DATASET_PACKED] = "packed",   [PST_DATASET_FOLDER] = "folder",
        [PST_DATASET_TAR] = "tar",         [PST_DATASET_ZIP] = "zip",
        [PST_DATASET_PARQUET] = "parquet", [PST_DATASET_ARROW] = "arrow",
        [PST_DATASET_MDS] = "mds",         [PST_DATASET_TFRECORD] = "tfrecord",
        [PST_DATASET_LMDB] = "lmdb",       [PST_DATASET_RECORDIO] = "recordio",
        [PST_DATASET_BETON] = "beton"};
    if (kind == PST_DATASET_MIXTURE)
        return "mixture";
    return kind >= PST_DATASET_PACKED && kind <= PST_DATASET_BETON ? names[kind] : "none";
}

const char *pst_dataset_index_path(const pst_dataset *dataset)
{
    return dataset->kind == PSTI_DATASET_CONTAINER ? psti_dataset_container_index_path(dataset)
                                                   : NULL;
}

enum pst_status pst_dataset_nbytes(const pst_dataset *dataset, uint64_t *nbytes,
                                   struct pst_error *err)
{
    struct psti_index_shard shard;
    uint64_t sum = dataset->nbytes;
    if (dataset->ops->nbytes != NULL)
        return dataset->ops->nbytes(dataset, nbytes, err);
    for (uint32_t i = 0; pst_dataset_is_packed(dataset) && i < dataset->n_files; i++) {
        enum pst_status status = psti_dataset_shard(dataset, i, &shard, err);
        if (status != PST_OK)
            return status;
        sum += shard.nbytes;
    }
    *nbytes = sum;
    return PST_OK;
}

enum pst_status psti_dataset_check_shard(const pst_dataset *dataset, uint32_t i_file,
                                         struct pst_error *err)
{
    if (dataset->kind == PSTI_DATASET_PACKED)
        return psti_dataset_index_check_shard(dataset, i_file, err);
    return dataset->ops->check_file == NULL ? PST_OK
                                            : dataset->ops->check_file(dataset, i_file, err);
}

enum pst_status psti_dataset_check_index(const pst_dataset *dataset, struct pst_error *err)
{
    return dataset->ops->check_index == NULL ? PST_OK : dataset->ops->check_index(dataset, err);
}

enum pst_status psti_dataset_file_at(const pst_dataset *dataset, uint32_t i_file, int *at,
                                     char *name, size_t capacity, struct pst_error *err)
{
    struct psti_index_shard shard;
    const char *found = shard.name;
    enum pst_status status = PST_OK;
    *at = AT_FDCWD;
    dataset = psti_dataset_leaf_of_file(dataset, i_file, &i_file);
    if (dataset->kind == PSTI_DATASET_FOLDER)
        return pst_dataset_file_path(dataset, i_file, name, capacity, err);
    if (dataset->kind == PSTI_DATASET_CONTAINER)
        found = psti_dataset_container_file_name(dataset, i_file);
    else
        status = psti_dataset_shard(dataset, i_file, &shard, err);
    if (status != PST_OK)
        return status;
    if (strlen(found) >= capacity)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the name of a shard does not fit in %zu bytes", capacity);
    *at = dataset->dir_fd;
    memcpy(name, found, strlen(found) + 1);
    return PST_OK;
}

/* Checks that a folder's file is still the one that was listed: same size (nbytes), same stamp. */
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

/* Compares the decoded bytes of a whole item with the CRC-32 that its container states. */
static enum pst_status check_decoded(const struct pst_item *item, const void *bytes,
                                     const char *path, struct pst_error *err)
{
    size_t nbytes = (size_t)psti_dataset_item_nbytes(item);
    if (!item->has_crc32 || psti_crc32(0, bytes, nbytes) == item->crc32)
        return PST_OK;
    return psti_fail_at(err, PST_ERROR_CHECKSUM, "dataset", path, (int64_t)item->offset,
                        "the %zu bytes of the item have another CRC-32 than their file states",
                        nbytes);
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
    if (dataset->kind == PSTI_DATASET_FOLDER)
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
    else if (nbytes == item->nbytes && item->coding == PST_CODING_STORED)
        status = check_decoded(item, buffer, path, err);
out:
    close(fd);
    return status;
}

/* Adds the file and offset of an item to an error. Returns `status`. */
static enum pst_status at_item(const pst_dataset *dataset, const struct pst_item *item,
                               enum pst_status status, struct pst_error *err)
{
    char path[PATH_MAX];
    if (status == PST_OK || err == NULL)
        return status;
    err->offset = (int64_t)item->offset;
    if (pst_dataset_file_path(dataset, item->i_file, path, sizeof path, NULL) == PST_OK)
        psti_error_set_file(err, path);
    return status;
}

/* Decodes all stored bytes of the item to `out`. *bytes: the item within them. */
static enum pst_status decode_item(const struct pst_item *item, const void *stored, void *out,
                                   const void **bytes, struct pst_error *err)
{
    struct psti_codings *codings = NULL;
    enum pst_status status = psti_codings_open(&codings, 0, "dataset", err);
    if (status == PST_OK)
        status = psti_dataset_item_decode(codings, item, stored, out, bytes, err);
    psti_codings_close(&codings);
    return status;
}

/* Compares the bytes of an item in a page with the item's checksum, which covers the item only. */
static enum pst_status check_part(const struct pst_item *item, const void *bytes,
                                  struct pst_error *err)
{
    if (!psti_dataset_item_is_paged(item) || !item->has_checksum ||
        psti_hash64(bytes, (size_t)item->decoded_nbytes) == item->checksum)
        return PST_OK;
    return psti_fail(err, PST_ERROR_CHECKSUM, "dataset",
                     "the %" PRIu64 " bytes of the item at %" PRIu64
                     " of its decoded page were altered",
                     item->decoded_nbytes, item->page_offset);
}

/* Refuses an item whose decoded size, as the file states it, exceeds the machine's memory. 4 MiB of
 * deflate can decode to 4 GiB, so even a small file may state too much. */
static enum pst_status check_room(const struct pst_item *item, uint64_t n_decoded,
                                  struct pst_error *err)
{
    uint64_t available = n_decoded < LARGE_NBYTES ? UINT64_MAX : psti_memory_available();
    if (n_decoded <= available)
        return PST_OK;
    return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                     "the item's %" PRIu64 " stored bytes are stated to decode to %" PRIu64
                     ", and %" PRIu64 " bytes of memory are available",
                     item->nbytes, n_decoded, available);
}

/* Reads a part of an item that has a coding. The whole item, or its whole page, is read and
 * decoded. */
static enum pst_status read_coded(const pst_dataset *dataset, const struct pst_item *item,
                                  uint64_t start, uint64_t nbytes, void *buffer,
                                  struct pst_error *err)
{
    struct pst_item whole = *item; /* the item before decoding */
    uint64_t n_decoded = psti_dataset_item_scratch_nbytes(item);
    bool is_whole = nbytes == n_decoded,
         fits = item->nbytes < SIZE_MAX / 2 && n_decoded < SIZE_MAX / 2;
    enum pst_status status = check_room(item, n_decoded, err);
    if (status != PST_OK)
        return at_item(dataset, item, status, err);
    void *stored = fits ? psti_alloc((size_t)item->nbytes + 1) : NULL;
    void *decoded = fits && !is_whole ? psti_alloc((size_t)n_decoded + 1) : NULL;
    const void *bytes = NULL;
    whole.has_checksum = item->has_checksum && !psti_dataset_item_is_paged(item);
    if (stored == NULL || (decoded == NULL && !is_whole))
        status = psti_fail(err, PST_ERROR_MEMORY, "dataset",
                           "out of memory to decode %" PRIu64 " bytes", n_decoded);
    if (status == PST_OK)
        status = read_item(dataset, &whole, 0, item->nbytes, stored, err);
    if (status == PST_OK) {
        status = decode_item(item, stored, is_whole ? buffer : decoded, &bytes, err);
        if (status == PST_OK)
            status = check_part(item, bytes, err);
        if (status == PST_OK)
            status = check_decoded(item, bytes, NULL, err);
        status = at_item(dataset, item, status, err);
    }
    if (status == PST_OK && !is_whole)
        memcpy(buffer, (const char *)bytes + start, (size_t)nbytes);
    psti_free(stored);
    psti_free(decoded);
    return status;
}

/* Refuses text and JSON that are not valid, when they are read. */
static enum pst_status check_text(const pst_dataset *dataset, uint32_t i_field,
                                  const struct pst_item *item, const void *bytes,
                                  struct pst_error *err)
{
    const struct pst_field *field = &dataset->fields[i_field];
    char path[PATH_MAX];
    const char *problem =
        psti_format_text_problem(field->type, bytes, (size_t)psti_dataset_item_nbytes(item));
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
    if (dataset->ops->read != NULL) {
        status = dataset->ops->read(dataset, sample, i_field, variant, start, nbytes, buffer, err);
        return status == PST_OK ? PST_OK
                                : psti_dataset_complete(dataset, (int64_t)sample, status, err);
    }
    /* The form of a folder's file may still be unknown (PST_FORM_NONE). In other cases, an item
     * without form and file does not exist. */
    if (item.form == PST_FORM_NONE &&
        (pst_dataset_is_packed(dataset) || item.i_file == PST_FILE_NONE))
        status = psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                           "the sample has no variant %" PRIu32 " of field \"%s\"", variant,
                           dataset->fields[i_field].name);
    else if (!psti_range_fits(start, nbytes, psti_dataset_item_nbytes(&item)))
        status =
            psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                      "%" PRIu64 " bytes from %" PRIu64 " on were asked for, the item has %" PRIu64,
                      nbytes, start, psti_dataset_item_nbytes(&item));
    else if (item.i_file == PST_FILE_NONE)
        status = dataset->ops->read_memory(dataset, sample, i_field, start, nbytes, buffer, err);
    else if (item.coding != PST_CODING_STORED)
        status = read_coded(dataset, &item, start, nbytes, buffer, err);
    else
        status = read_item(dataset, &item, start, nbytes, buffer, err);
    if (status == PST_OK && nbytes == psti_dataset_item_nbytes(&item))
        status = check_text(dataset, i_field, &item, buffer, err);
    if (status != PST_OK && item.form != PST_FORM_NONE && item.form != PST_FORM_BYTES)
        psti_error_set_codec(err, pst_form_name(item.form));
    return status == PST_OK ? PST_OK : psti_dataset_complete(dataset, (int64_t)sample, status, err);
}
