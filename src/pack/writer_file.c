/* writer_file.c - the writer's system calls: buffered growing files, durability, the lock.
 *
 * One thread. Every call that changes the disk asks psti_fault first, and a made-up full disk takes
 * half of a write before it fails, as real ones do. After a failed write or fsync nothing is tried
 * again on that file: the kernel may have dropped the pages, so the writer gives up and what was
 * committed counts. */
#include "pack/writer_file.h"

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
            return psti_fail_os(err, n < 0 ? errno : EIO, "pack", file->path, (int64_t)offset,
                                "cannot write");
        bytes += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    if (full)
        return psti_fail_os(err, ENOSPC, "pack", file->path, (int64_t)offset, "cannot write");
    return PST_OK;
}

enum pst_status psti_writer_file_open(struct psti_writer_file *file, const char *path, bool create,
                                      uint64_t offset, size_t capacity, struct pst_error *err)
{
    *file = (struct psti_writer_file){.fd = -1, .offset = offset, .capacity = capacity};
    file->buffer = psti_alloc_aligned(4096, capacity);
    file->path = psti_strdup(path);
    if (file->buffer == NULL || file->path == NULL) {
        psti_writer_file_close(file);
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "no memory for a write buffer");
    }
    int flags = O_WRONLY | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0);
    file->fd = psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : open(path, flags, 0666);
    if (file->fd >= 0)
        return PST_OK;
    enum pst_status status = psti_fail_os(err, errno, "pack", path, -1, "cannot %s the file",
                                          create ? "create" : "open");
    psti_writer_file_close(file);
    return status;
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
        /* Too large to gain by a copy. */
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
        return psti_fail_os(err, errno, "pack", file->path, -1, "cannot make the file durable");
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

enum pst_status psti_writer_sync_directory(const char *path, struct pst_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 ? errno : 0;
    if (fd >= 0 && (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(fd)) != 0)
        failed = errno;
    if (fd >= 0)
        close(fd);
    /* Some network and FUSE file systems cannot sync a directory and need not. */
    if (failed == 0 || failed == EINVAL || failed == ENOTSUP)
        return PST_OK;
    return psti_fail_os(err, failed, "pack", path, -1, "cannot make the directory durable");
}

enum pst_status psti_writer_make_directory(const char *path, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : mkdir(path, 0777)) != 0)
        return psti_fail_os(err, errno, "pack", path, -1, "cannot make the data set's directory");
    return PST_OK;
}

enum pst_status psti_writer_rename(const char *from, const char *to, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : rename(from, to)) != 0)
        return psti_fail_os(err, errno, "pack", to, -1, "cannot put the file in place");
    return PST_OK;
}

enum pst_status psti_writer_unlink(const char *path, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = EIO, -1) : unlink(path)) != 0 && errno != ENOENT)
        return psti_fail_os(err, errno, "pack", path, -1, "cannot remove the file");
    return PST_OK;
}

enum pst_status psti_writer_truncate(const char *path, uint64_t nbytes, struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : truncate(path, (off_t)nbytes)) != 0)
        return psti_fail_os(err, errno, "pack", path, (int64_t)nbytes,
                            "cannot cut off what was not committed");
    return PST_OK;
}

enum pst_status psti_writer_lock(const char *path, int *fd, struct pst_error *err)
{
    for (;;) {
        struct stat ours, there;
        *fd = psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                           : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*fd < 0)
            return psti_fail_os(err, errno, "pack", path, -1, "cannot make the lock file");
        if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
            int failed = errno;
            close(*fd);
            *fd = -1;
            if (failed == EINTR)
                continue;
            if (failed != EWOULDBLOCK)
                return psti_fail_os(err, failed, "pack", path, -1, "cannot lock the data set");
            psti_fail(err, PST_ERROR_BUSY, "pack", "another writer is at work on this data set");
            psti_error_set_file(err, path);
            return PST_ERROR_BUSY;
        }
        /* The holder before us may have removed the file between our open and our lock. */
        if (fstat(*fd, &ours) == 0 && stat(path, &there) == 0 && ours.st_ino == there.st_ino &&
            ours.st_dev == there.st_dev)
            return PST_OK;
        close(*fd);
        *fd = -1;
    }
}

void psti_writer_unlock(const char *path, int *fd)
{
    if (*fd < 0)
        return;
    unlink(path);
    close(*fd);
    *fd = -1;
}
