/* read.c - opens regular files, and reads parts of them. A signal or a short read may end a pread
 * early, so it is repeated until all bytes are read. Any thread; the file position is not used. */
#include "base/files/read.h"

#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <unistd.h>

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode)                   ? "a pipe"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISDIR(mode)                  ? "a folder"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "something else";
}

static enum pst_status not_regular(const struct stat *st, const char *path, const char *room,
                                   const char *what, struct pst_error *err)
{
    return psti_fail_at(err, PST_ERROR_UNSUPPORTED, room, path, -1, "%s is %s, not a regular file",
                        what, kind_of(st->st_mode));
}

enum pst_status psti_check_data(int fd, int flags, const char *path, const char *room,
                                const char *what, struct stat *st, struct pst_error *err)
{
    if (fstat(fd, st) != 0)
        return psti_fail_os(err, errno, room, path, -1, "cannot examine %s", what);
    if (!S_ISREG(st->st_mode))
        return not_regular(st, path, room, what, err);
    /* On file systems without NOWAIT, io_uring would return EAGAIN for a descriptor with O_NONBLOCK
     * instead of waiting. */
    if (fcntl(fd, F_SETFL, flags) != 0)
        return psti_fail_os(err, errno, room, path, -1, "cannot set the flags of %s", what);
    return PST_OK;
}

enum pst_status psti_open_data(const char *path, const char *room, const char *what, int *fd,
                               struct stat *st, struct pst_error *err)
{
    return psti_open_data_at(AT_FDCWD, path, path, room, what, fd, st, err);
}

enum pst_status psti_open_data_at(int dir_fd, const char *name, const char *path, const char *room,
                                  const char *what, int *fd, struct stat *st, struct pst_error *err)
{
    do {
        *fd = openat(dir_fd, name, PSTI_OPEN_FLAGS);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0) {
        int os_error = errno;
        /* open() fails with ENXIO for a socket, and for a device without hardware. */
        if (os_error == ENXIO && fstatat(dir_fd, name, st, 0) == 0)
            return not_regular(st, path, room, what, err);
        return psti_fail_os(err, os_error, room, path, -1, "cannot open %s", what);
    }
    enum pst_status status = psti_check_data(*fd, 0, path, room, what, st, err);
    if (status != PST_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

ssize_t psti_read_at(int fd, void *bytes, size_t nbytes, uint64_t offset)
{
    size_t done = 0;
    while (done < nbytes) {
        ssize_t n = psti_fault(PSTI_FAULT_READ)
                        ? (errno = EIO, -1)
                        : pread(fd, (char *)bytes + done, nbytes - done, (off_t)(offset + done));
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}
