/* read.c - repeats pread until all bytes are there, because a signal or a short read may end a
 * call early. Any thread; the file's position is not used. */
#include "base/read.h"

#include "base/fault.h"

#include <errno.h>
#include <unistd.h>

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
