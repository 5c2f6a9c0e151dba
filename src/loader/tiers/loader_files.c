/* loader_files.c - opens and closes the files that hold items.
 *
 * A shard is opened when the first row needs it. If too many are open, or the process has no
 * descriptor left, the least recently used file is closed, but never one that rows under way use.
 * With MEMORY storage every file is read at open and stays in memory. Otherwise the files of a
 * folder are not kept open; they are read by path. */
#include "loader/tiers/loader_files.h"
#include "loader/loader_handle.h"
#include "loader/loader_source.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/files/stamp.h"
#include "dataset/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define OPEN_MAX_FILES 256

static enum pst_status open_one(pst_loader *loader, uint32_t i_file, struct psti_file **file,
                                struct pst_error *err)
{
    char path[PSTI_PATH_NBYTES], name[PSTI_PATH_NBYTES];
    int at;
    enum pst_status status = pst_dataset_file_path(loader->dataset, i_file, path, sizeof path, err);
    if (status == PST_OK)
        status = psti_dataset_check_shard(loader->dataset, i_file, err);
    if (status == PST_OK)
        status = psti_dataset_file_at(loader->dataset, i_file, &at, name, sizeof name, err);
    if (status == PST_OK)
        status = psti_storage_file_open_at(loader->storage, at, name, path, file, err);
    return status;
}

/* Reads a whole file to memory. Its length is charged before it is read, so that host_memory is
 * never exceeded. */
static enum pst_status open_resident(pst_loader *loader, uint32_t i_file, struct pst_error *err)
{
    char path[PSTI_PATH_NBYTES];
    struct stat stat_;
    enum pst_status status = pst_dataset_file_path(loader->dataset, i_file, path, sizeof path, err);
    if (status != PST_OK)
        return status;
    if (stat(path, &stat_) != 0)
        return psti_fail_os(err, errno, "loader", path, -1, "cannot examine the file");
    if (!psti_stamp_fits(psti_dataset_file_stamp(loader->dataset, i_file), &stat_))
        return psti_fail_at(err, PST_ERROR_CORRUPT, "loader", path, -1, PSTI_STAMP_CHANGED);
    uint64_t nbytes = (uint64_t)stat_.st_size;
    if (!psti_batch_pool_charge(loader->pool, nbytes, false)) {
        status = psti_fail(err, PST_ERROR_LIMIT, "loader",
                           "the items do not fit in host_memory (%llu bytes): %llu bytes of them "
                           "are read, and this file takes %llu more",
                           (unsigned long long)loader->options.host_memory,
                           (unsigned long long)loader->memory_nbytes, (unsigned long long)nbytes);
        psti_error_set_file(err, path);
        return status;
    }
    loader->memory_nbytes += nbytes;
    status = open_one(loader, i_file, &loader->files.files[i_file], err);
    if (status == PST_OK && psti_storage_file_nbytes(loader->files.files[i_file]) > nbytes)
        status = psti_fail(err, PST_ERROR_IO, "loader", "the file grew while it was read");
    if (status != PST_OK) {
        loader->memory_nbytes -= nbytes;
        psti_batch_pool_uncharge(loader->pool, nbytes);
    }
    return status;
}

static bool holds_something(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry = NULL;
    if (!directory)
        return false;
    while ((entry = readdir(directory)) &&
           (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0))
        ;
    closedir(directory);
    return entry != NULL;
}

bool psti_loader_files_is_lone_loss(const pst_dataset *dataset, const char *path)
{
    char parent[PSTI_PATH_NBYTES];
    struct stat stat_;
    if (!pst_dataset_is_folder(dataset) || !holds_something(pst_dataset_path(dataset)))
        return false;
    const char *slash = strrchr(path, '/');
    bool is_cut = strncmp(path, "...", 3) == 0; /* err->path has only the end of a long path,
                                                   after "..." */
    if (is_cut || !slash || slash == path || (size_t)(slash - path) >= sizeof parent)
        return true;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    return stat(parent, &stat_) == 0 && S_ISDIR(stat_.st_mode);
}

/* True if the file belongs to a folder, and its loss or change makes only its sample bad. on_error
 * then decides when the sample is needed. */
static bool may_be_missing(const pst_loader *loader, uint32_t i_file, enum pst_status status)
{
    char path[PSTI_PATH_NBYTES];
    uint32_t own;
    return (status == PST_ERROR_NOT_FOUND || status == PST_ERROR_CORRUPT) &&
           loader->options.on_error != PST_ON_ERROR_RAISE &&
           pst_dataset_file_path(loader->dataset, i_file, path, sizeof path, NULL) == PST_OK &&
           psti_loader_files_is_lone_loss(psti_dataset_leaf_of_file(loader->dataset, i_file, &own),
                                          path);
}

enum pst_status psti_loader_files_open(pst_loader *loader, struct pst_error *err)
{
    struct psti_loader_files *files = &loader->files;
    files->resident = psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY;
    uint32_t n = files->resident ? pst_dataset_n_files(loader->dataset)
                                 : psti_dataset_n_shared_files(loader->dataset);
    if (n == 0 && !files->resident)
        return PST_OK; /* all files are read by path, so none is opened here */
    files->files = psti_calloc(n ? n : 1, sizeof *files->files);
    files->refs = psti_calloc(n ? n : 1, sizeof *files->refs);
    files->used = psti_calloc(n ? n : 1, sizeof *files->used);
    if (!files->files || !files->refs || !files->used)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a table of %u files", n);
    files->n = n;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; files->resident && status == PST_OK && i < n; i++) {
        status = open_resident(loader, i, err);
        if (may_be_missing(loader, i, status))
            status = PST_OK;
    }
    return status;
}

void psti_loader_files_close(struct psti_loader_files *files)
{
    for (uint32_t i = 0; i < files->n; i++)
        if (files->files[i])
            psti_storage_file_close(&files->files[i]);
    psti_free(files->files);
    psti_free(files->refs);
    psti_free(files->used);
    files->files = NULL;
    files->refs = NULL;
    files->used = NULL;
    files->n = 0;
}

/* Closes the least recently used file. False: rows under way hold all of them. */
static bool close_oldest(struct psti_loader_files *files)
{
    uint32_t oldest = files->n;
    for (uint32_t i = 0; i < files->n; i++)
        if (files->files[i] && files->refs[i] == 0 &&
            (oldest == files->n || files->used[i] < files->used[oldest]))
            oldest = i;
    if (oldest == files->n)
        return false;
    psti_storage_file_close(&files->files[oldest]);
    files->n_open--;
    return true;
}

/* Opens a shard. If too many files are open, or the system has no descriptor left, closes others
 * first. */
static enum pst_status open_with_room(pst_loader *loader, uint32_t i_file, struct pst_error *err)
{
    struct psti_loader_files *files = &loader->files;
    struct pst_error cause;
    enum pst_status status;
    pst_error_clear(&cause);
    while (files->n_open >= OPEN_MAX_FILES && close_oldest(files))
        ;
    do {
        status = open_one(loader, i_file, &files->files[i_file], &cause);
    } while (status != PST_OK && (cause.os_error == EMFILE || cause.os_error == ENFILE) &&
             close_oldest(files));
    files->n_open += status == PST_OK;
    if (status != PST_OK && err)
        *err = cause;
    return status;
}

enum pst_status psti_loader_files_acquire(pst_loader *loader, uint32_t i_file,
                                          struct psti_file **file, struct pst_error *err)
{
    struct psti_loader_files *files = &loader->files;
    enum pst_status status = PST_OK;
    *file = NULL;
    if (i_file >= files->n)
        return psti_fail(err, PST_ERROR_CORRUPT, "loader",
                         "the index refers to file %u, but there are %u", i_file, files->n);
    if (files->resident) {
        *file = files->files[i_file];
        return *file
                   ? PST_OK
                   : psti_fail(
                         err, PST_ERROR_NOT_FOUND, "loader",
                         "the file was not there, or was another one, when the loader was opened");
    }
    pthread_mutex_lock(&files->lock);
    if (!files->files[i_file])
        status = open_with_room(loader, i_file, err);
    if (status == PST_OK) {
        files->refs[i_file]++;
        files->used[i_file] = ++files->tick;
        *file = files->files[i_file];
    }
    pthread_mutex_unlock(&files->lock);
    return status;
}

void psti_loader_files_release(pst_loader *loader, uint32_t i_file, struct psti_file *file)
{
    struct psti_loader_files *files = &loader->files;
    if (!file || files->resident)
        return;
    pthread_mutex_lock(&files->lock);
    files->refs[i_file]--;
    pthread_mutex_unlock(&files->lock);
}
