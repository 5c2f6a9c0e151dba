/* output.c - writes a file that only grows: buffered writes and fsync.
 *
 * If a test simulates a full disk (psti_fault), half of the bytes are written before the failure,
 * as on a real disk. */
#include "base/files/output.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum pst_status psti_output_prepare(struct psti_output *output, const char *room, const char *path,
                                    uint64_t offset, size_t capacity, struct pst_error *err)
{
    *output = (struct psti_output){.fd = -1, .room = room, .offset = offset, .capacity = capacity};
    output->buffer = psti_alloc_aligned(4096, capacity);
    output->path = psti_strdup(path);
    if (output->buffer != NULL && output->path != NULL)
        return PST_OK;
    psti_output_close(output);
    return psti_fail(err, PST_ERROR_MEMORY, room, "no memory for a write buffer");
}

static enum pst_status write_at(struct psti_output *output, uint64_t offset, const uint8_t *bytes,
                                size_t nbytes, struct pst_error *err)
{
    bool full = nbytes > 0 && psti_fault(PSTI_FAULT_WRITE);
    if (full)
        nbytes /= 2;
    while (nbytes > 0) {
        ssize_t n = pwrite(output->fd, bytes, nbytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return psti_fail_os(err, n < 0 ? errno : EIO, output->room, output->path,
                                (int64_t)offset, "cannot write");
        bytes += n;
        offset += (uint64_t)n;
        nbytes -= (size_t)n;
    }
    if (full)
        return psti_fail_os(err, ENOSPC, output->room, output->path, (int64_t)offset,
                            "cannot write");
    return PST_OK;
}

enum pst_status psti_output_flush(struct psti_output *output, struct pst_error *err)
{
    if (output->n == 0)
        return PST_OK;
    enum pst_status status = write_at(output, output->offset, output->buffer, output->n, err);
    if (status != PST_OK)
        return status;
    output->offset += output->n;
    output->n = 0;
    return PST_OK;
}

enum pst_status psti_output_append(struct psti_output *output, const void *bytes, size_t nbytes,
                                   struct pst_error *err)
{
    enum pst_status status = PST_OK;
    const uint8_t *from = bytes;
    if (nbytes > output->capacity - output->n)
        status = psti_output_flush(output, err);
    if (status == PST_OK && nbytes >= output->capacity) {
        /* large data are written directly, without a copy into the buffer */
        status = write_at(output, output->offset, from, nbytes, err);
        if (status == PST_OK)
            output->offset += nbytes;
        return status;
    }
    if (status == PST_OK && nbytes > 0) {
        memcpy(output->buffer + output->n, from, nbytes);
        output->n += nbytes;
    }
    return status;
}

enum pst_status psti_output_sync(struct psti_output *output, struct pst_error *err)
{
    enum pst_status status = psti_output_flush(output, err);
    if (status != PST_OK)
        return status;
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(output->fd)) != 0)
        return psti_fail_os(err, errno, output->room, output->path, -1,
                            "cannot make the file durable");
    return PST_OK;
}

enum pst_status psti_output_patch(struct psti_output *output, uint64_t offset, const void *bytes,
                                  size_t nbytes, struct pst_error *err)
{
    return write_at(output, offset, bytes, nbytes, err);
}

void psti_output_close(struct psti_output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    psti_free(output->buffer);
    psti_free(output->path);
    *output = (struct psti_output){.fd = -1};
}

int psti_sync_directory(int fd, const char *name)
{
    int opened = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = opened < 0 ? errno : 0;
    if (opened >= 0 && (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(opened)) != 0)
        failed = errno;
    if (opened >= 0)
        close(opened);
    /* Some network and FUSE file systems cannot sync a directory, and do not need it. */
    return failed == EINVAL || failed == ENOTSUP ? 0 : failed;
}
