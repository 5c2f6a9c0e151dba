/* writer_file.c - the writer's system calls: buffered growing files, durability, the lock.
 *
 * One thread. All names are relative to the open directory of the data set, and no link in it is
 * followed. Every call that changes the disk asks psti_fault first. A simulated full disk takes
 * half of a write before it fails, as real ones do. After a failed write or fsync no call on
 * that file is repeated, because the kernel may have dropped the pages. The writer gives up, and
 * the last commit counts. */
#include "writer/writer_file.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void psti_writer_dir_path(const struct psti_writer_dir *dir, const char *name, char out[PATH_MAX])
{
    /* Open refused paths that are too long for this. */
    snprintf(out, PATH_MAX, "%s/%s", dir->path, name);
}

/* Reports a failed system call on one file of the directory. */
static enum pst_status fail_at(struct pst_error *err, int os_error,
                               const struct psti_writer_dir *dir, const char *name, int64_t offset,
                               const char *what)
{
    char path[PATH_MAX];
    psti_writer_dir_path(dir, name, path);
    return psti_fail_os(err, os_error, "writer", path, offset, "%s%s", what,
                        os_error == ELOOP ? ": it is a symbolic link, and none is followed" : "");
}

static enum pst_status write_at(struct psti_writer_file *file, uint64_t offset,
                                const uint8_t *bytes, size_t nbytes, struct pst_error *err)
{
    bool full = nbytes > 0 && psti_fault(PSTI_FAULT_WRITE);
    if (full)
        nbytes /= 2;
    while (nbytes > 0) {
        ssize_t n = pwrite(file->fd, bytes, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return psti_fail_os(err, n < 0 ? errno : EIO, "writer", file->path, (int64_t)offset,
                                "cannot write");
        bytes += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    if (full)
        return psti_fail_os(err, ENOSPC, "writer", file->path, (int64_t)offset, "cannot write");
    return PST_OK;
}

/* Opens an existing file for writing. *failed is errno, or 0 if `err` is complete. */
static int open_existing(const struct psti_writer_dir *dir, const char *name, int *failed,
                         struct pst_error *err)
{
    struct stat st;
    char path[PATH_MAX];
    int fd = openat(dir->fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1)
        return fd;
    *failed = errno;
    if (fd < 0)
        return -1;
    *failed = 0;
    close(fd);
    psti_writer_dir_path(dir, name, path);
    psti_fail_at(err, PST_ERROR_IO, "writer", path, -1,
                 S_ISREG(st.st_mode)
                     ? "the file has a second name (a hard link), and writing would change both: "
                       "copy the data set first"
                     : "this is no plain file");
    return -1;
}

/* Removes whatever has the name first, so that neither a link nor another owner's file is
 * written to. */
static int open_anew(const struct psti_writer_dir *dir, const char *name)
{
    if (unlinkat(dir->fd, name, 0) != 0 && errno != ENOENT)
        return -1;
    return openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
}

enum pst_status psti_writer_file_open(struct psti_writer_file *file,
                                      const struct psti_writer_dir *dir, const char *name,
                                      bool create, uint64_t offset, size_t capacity,
                                      struct pst_error *err)
{
    char path[PATH_MAX];
    int failed = 0;
    *file = (struct psti_writer_file){.fd = -1, .offset = offset, .capacity = capacity};
    psti_writer_dir_path(dir, name, path);
    file->buffer = psti_alloc_aligned(4096, capacity);
    file->path = psti_strdup(path);
    if (file->buffer == NULL || file->path == NULL) {
        psti_writer_file_close(file);
        return psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory for a write buffer");
    }
    if (psti_fault(PSTI_FAULT_WRITE))
        failed = ENOSPC;
    else if (create)
        failed = (file->fd = open_anew(dir, name)) < 0 ? errno : 0;
    else
        file->fd = open_existing(dir, name, &failed, err);
    if (file->fd >= 0)
        return PST_OK;
    psti_writer_file_close(file);
    return failed == 0 ? PST_ERROR_IO
                       : fail_at(err, failed, dir, name, -1,
                                 create ? "cannot create the file" : "cannot open the file");
}

enum pst_status psti_writer_file_flush(struct psti_writer_file *file, struct pst_error *err)
{
    if (file->n == 0)
        return PST_OK;
    enum pst_status status = write_at(file, file->offset, file->buffer, file->n, err);
    if (status != PST_OK)
        return status;
    file->offset += file->n;
    file->n = 0;
    return PST_OK;
}

enum pst_status psti_writer_file_append(struct psti_writer_file *file, const void *bytes,
                                        size_t nbytes, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    const uint8_t *from = bytes;
    if (nbytes > file->capacity - file->n)
        status = psti_writer_file_flush(file, err);
    if (status == PST_OK && nbytes >= file->capacity) {
        /* The bytes are written without a copy into the buffer, because they are many. */
        status = write_at(file, file->offset, from, nbytes, err);
        if (status == PST_OK)
            file->offset += nbytes;
        return status;
    }
    if (status == PST_OK && nbytes > 0) {
        memcpy(file->buffer + file->n, from, nbytes);
        file->n += nbytes;
    }
    return status;
}

enum pst_status psti_writer_file_sync(struct psti_writer_file *file, struct pst_error *err)
{
    enum pst_status status = psti_writer_file_flush(file, err);
    if (status != PST_OK)
        return status;
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(file->fd)) != 0)
        return psti_fail_os(err, errno, "writer", file->path, -1, "cannot make the file durable");
    return PST_OK;
}

enum pst_status psti_writer_file_patch(struct psti_writer_file *file, uint64_t offset,
                                       const void *bytes, size_t nbytes, struct pst_error *err)
{
    return write_at(file, offset, bytes, nbytes, err);
}

void psti_writer_file_close(struct psti_writer_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    psti_free(file->buffer);
    psti_free(file->path);
    *file = (struct psti_writer_file){.fd = -1};
}

/* Syncs a directory. `name` is "." or "..". */
static int sync_directory(const struct psti_writer_dir *dir, const char *name)
{
    int fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 ? errno : 0;
    if (fd >= 0 && (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(fd)) != 0)
        failed = errno;
    if (fd >= 0)
        close(fd);
    /* Some network and FUSE file systems cannot sync a directory and need not. */
    return failed == EINVAL || failed == ENOTSUP ? 0 : failed;
}

enum pst_status psti_writer_sync_directory(const struct psti_writer_dir *dir, struct pst_error *err)
{
    int failed = sync_directory(dir, ".");
    return failed == 0 ? PST_OK
                       : psti_fail_os(err, failed, "writer", dir->path, -1,
                                      "cannot make the directory durable");
}

enum pst_status psti_writer_sync_parent(const struct psti_writer_dir *dir, struct pst_error *err)
{
    int failed = sync_directory(dir, "..");
    /* A process that may not list (EACCES) or write the directory cannot sync it. */
    return failed == 0 || failed == EACCES || failed == EROFS
               ? PST_OK
               : psti_fail_os(err, failed, "writer", dir->path, -1,
                              "cannot make the name of the directory durable");
}

enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : mkdir(path, 0777)) != 0)
        return psti_fail_os(err, errno, "writer", path, -1, "cannot make the data set's directory");
    return PST_OK;
}

enum pst_status psti_writer_rename(const struct psti_writer_dir *dir, const char *from,
                                   const char *to, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                      : renameat(dir->fd, from, dir->fd, to)) != 0)
        return fail_at(err, errno, dir, to, -1, "cannot put the file in place");
    return PST_OK;
}

enum pst_status psti_writer_unlink(const struct psti_writer_dir *dir, const char *name,
                                   struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = EIO, -1) : unlinkat(dir->fd, name, 0)) != 0 &&
        errno != ENOENT)
        return fail_at(err, errno, dir, name, -1, "cannot remove the file");
    return PST_OK;
}

enum pst_status psti_writer_truncate(const struct psti_writer_dir *dir, const char *name,
                                     uint64_t nbytes, struct pst_error *err)
{
    int failed = 0;
    int fd = open_existing(dir, name, &failed, err);
    if (fd < 0 && failed == 0)
        return PST_ERROR_IO;
    if (fd >= 0 &&
        (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : ftruncate(fd, (off_t)nbytes)) != 0)
        failed = errno;
    /* Without the sync, old bytes might reappear after those written next. */
    if (fd >= 0 && failed == 0 &&
        (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(fd)) != 0)
        failed = errno;
    if (fd >= 0)
        close(fd);
    return failed == 0 ? PST_OK
                       : fail_at(err, failed, dir, name, (int64_t)nbytes,
                                 "cannot cut off what was not committed");
}

int psti_writer_open_read(const struct psti_writer_dir *dir, const char *name, struct stat *st)
{
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    int failed = fstat(fd, st) != 0 ? errno : S_ISREG(st->st_mode) ? 0 : EINVAL;
    if (failed == 0)
        return fd;
    close(fd);
    errno = failed;
    return -1;
}

enum pst_status psti_writer_list(const struct psti_writer_dir *dir, DIR **list,
                                 struct pst_error *err)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *list = fd >= 0 ? fdopendir(fd) : NULL;
    if (*list != NULL)
        return PST_OK;
    int failed = errno;
    if (fd >= 0)
        close(fd);
    return psti_fail_os(err, failed, "writer", dir->path, -1, "cannot list the directory");
}

bool psti_writer_exists(const struct psti_writer_dir *dir, const char *name)
{
    struct stat st;
    return fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

enum pst_status psti_writer_lock(const struct psti_writer_dir *dir, const char *name, int *fd,
                                 struct pst_error *err)
{
    for (;;) {
        struct stat ours, there;
        *fd = psti_fault(PSTI_FAULT_WRITE)
                  ? (errno = ENOSPC, -1)
                  : openat(dir->fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                           0666);
        if (*fd < 0)
            return fail_at(err, errno, dir, name, -1, "cannot make the lock file");
        if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
            int failed = errno;
            close(*fd);
            *fd = -1;
            if (failed == EINTR)
                continue;
            if (failed != EWOULDBLOCK)
                return fail_at(err, failed, dir, name, -1, "cannot lock the data set");
            char path[PATH_MAX];
            psti_writer_dir_path(dir, name, path);
            return psti_fail_at(err, PST_ERROR_BUSY, "writer", path, -1,
                                "another writer is at work on this data set");
        }
        /* The previous holder may have removed the file between this open and this lock. */
        bool same = fstat(*fd, &ours) == 0 &&
                    fstatat(dir->fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
        if (same && S_ISREG(ours.st_mode))
            return PST_OK;
        close(*fd);
        *fd = -1;
        if (same)
            return fail_at(err, EINVAL, dir, name, -1, "the lock is no plain file");
    }
}

void psti_writer_unlock(const struct psti_writer_dir *dir, const char *name, int *fd)
{
    if (*fd < 0)
        return;
    unlinkat(dir->fd, name, 0);
    close(*fd);
    *fd = -1;
}
