/* storage_file.c - files: opening, sizes, addresses in memory, hints.
 *
 * In: a path. Out: a struct psti_file that any thread may read through. It does not change, except
 * `direct`, which a read may clear once. Files of a MEMORY storage hold all their bytes and no
 * descriptor. */
#include "storage/storage_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct psti_file *file_new(struct psti_storage *storage, const char *path)
{
    size_t path_nbytes = strlen(path) + 1;
    struct psti_file *file = psti_alloc(sizeof *file + path_nbytes);
    if (file == NULL)
        return NULL;
    file->storage = storage;
    file->memory = NULL;
    file->owned = NULL;
    file->nbytes = 0;
    file->fd = -1;
    atomic_init(&file->direct, false);
    memcpy(file->path, path, path_nbytes);
    return file;
}

static enum pst_status no_memory(const char *path, uint64_t nbytes, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_MEMORY, "storage", path, -1,
                        "no memory for %llu bytes of an open file", (unsigned long long)nbytes);
}

static int open_retrying(int at, const char *name, bool direct)
{
    int fd;
    do {
        fd = openat(at, name, psti_storage_open_flags(direct));
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens the file and stores its descriptor and size. */
static enum pst_status attach(struct psti_file *file, int at, const char *name, bool direct,
                              struct pst_error *err)
{
    struct stat info;
    file->fd = open_retrying(at, name, direct);
    if (file->fd < 0 && errno == EINVAL && direct) {
        psti_storage_count_fallback(file->storage);
        direct = false;
        file->fd = open_retrying(at, name, direct);
    }
    if (file->fd < 0)
        return psti_fail_os(err, errno, "storage", file->path, -1, "cannot open the file");
    atomic_store_explicit(&file->direct, direct, memory_order_relaxed);
    enum pst_status status = psti_storage_check_fd(file->fd, direct, file->path, &info, err);
    if (status == PST_OK)
        file->nbytes = (uint64_t)info.st_size;
    if (status == PST_OK && !direct && file->storage->options.scattered)
        psti_storage_advise(file->storage, file->fd, 0, 0, POSIX_FADV_RANDOM);
    return status;
}

/* Reads the whole file and closes its descriptor. Not throttled, because MEMORY does this before
 * the first read. */
static enum pst_status load(struct psti_file *file, struct pst_error *err)
{
    struct psti_storage *storage = file->storage;
    if (file->nbytes > SIZE_MAX - 1)
        return no_memory(file->path, file->nbytes, err);
    /* `memory` must not be NULL even for an empty file, because NULL means "not in memory". */
    unsigned char *memory =
        psti_alloc_aligned(PSTI_CACHE_LINE, file->nbytes > 0 ? (size_t)file->nbytes : 1);
    if (memory == NULL)
        return no_memory(file->path, file->nbytes, err);
    file->owned = memory;
    atomic_fetch_add_explicit(&storage->memory_nbytes, file->nbytes, memory_order_relaxed);
    struct psti_read read = {.file = file, .nbytes = (size_t)file->nbytes, .buffer = memory};
    psti_storage_execute(storage, &read);
    if (read.status != PST_OK) {
        if (err != NULL)
            *err = read.error;
        return read.status;
    }
    close(file->fd);
    file->fd = -1;
    file->memory = memory;
    return PST_OK;
}

enum pst_status psti_storage_file_open(struct psti_storage *storage, const char *path,
                                       struct psti_file **out, struct pst_error *err)
{
    return psti_storage_file_open_at(storage, AT_FDCWD, path, path, out, err);
}

enum pst_status psti_storage_file_open_at(struct psti_storage *storage, int at, const char *name,
                                          const char *path, struct psti_file **out,
                                          struct pst_error *err)
{
    *out = NULL;
    struct psti_file *file = file_new(storage, path);
    if (file == NULL)
        return no_memory(path, 0, err);
    bool whole = storage->kind == PST_STORAGE_MEMORY;
    bool direct = !whole && storage->options.page_cache == PST_PAGE_CACHE_DIRECT;
    enum pst_status status = attach(file, at, name, direct, err);
    if (status == PST_OK && whole)
        status = load(file, err);
    if (status != PST_OK) {
        psti_storage_file_close(&file);
        return status;
    }
    *out = file;
    return PST_OK;
}

void psti_storage_file_close(struct psti_file **file)
{
    struct psti_file *f = *file;
    if (f == NULL)
        return;
    *file = NULL;
    if (f->fd >= 0)
        close(f->fd);
    if (f->owned != NULL) {
        atomic_fetch_sub_explicit(&f->storage->memory_nbytes, f->nbytes, memory_order_relaxed);
        psti_free(f->owned);
    }
    psti_free(f);
}

uint64_t psti_storage_file_nbytes(const struct psti_file *file) { return file->nbytes; }

const void *psti_storage_file_span(const struct psti_file *file, uint64_t offset, uint64_t nbytes)
{
    if (file->memory == NULL || file->storage->pace != NULL)
        return NULL;
    return psti_range_fits(offset, nbytes, file->nbytes) ? file->memory + offset : NULL;
}

void psti_storage_file_will_need(const struct psti_file *file, uint64_t offset, uint64_t nbytes)
{
    if (file->fd < 0 || atomic_load_explicit(&file->direct, memory_order_relaxed) ||
        !psti_range_fits(offset, nbytes, INT64_MAX))
        return;
    psti_storage_advise(file->storage, file->fd, offset, nbytes, POSIX_FADV_WILLNEED);
}
