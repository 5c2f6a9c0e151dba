/* sealed.c - creates, seals, checks and maps memfds (files in memory).
 *
 * memfd_create is called by its system call number, because the C library has a function for it
 * only from version 2.27 on. The numbers of the seals are the kernel's. A receiver of a descriptor
 * trusts only what the kernel says about it: its seals, and its length, which a seal keeps from
 * shrinking. */
#include "base/files/sealed.h"

#include "base/fail.h"
#include "base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Values from <linux/memfd.h> and <linux/fcntl.h>, which old systems lack. */
#define CREATE_CLOEXEC 0x1u
#define CREATE_ALLOW_SEALING 0x2u
#define ADD_SEALS 1033
#define GET_SEALS 1034
#define SEAL_SEAL 0x1
#define SEAL_SHRINK 0x2
#define SEAL_GROW 0x4
#define SEAL_WRITE 0x8
#define SEAL_FUTURE_WRITE 0x10

#define BLOB_SEALS (SEAL_SEAL | SEAL_SHRINK | SEAL_GROW | SEAL_WRITE)
#define STORE_SEALS (SEAL_SEAL | SEAL_SHRINK | SEAL_FUTURE_WRITE)

static int create(const char *name)
{
    if (psti_fault(PSTI_FAULT_ALLOC)) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, CREATE_CLOEXEC | CREATE_ALLOW_SEALING);
}

static enum pst_status fail_create(const char *what, struct pst_error *err)
{
    if (errno == ENOSYS)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "base", "the kernel has no memfd_create");
    return psti_fail_os(err, errno, "base", NULL, -1, "cannot make shared memory for %s", what);
}

static bool write_whole(int fd, const char *bytes, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t n = write(fd, bytes, nbytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        nbytes -= (size_t)n;
    }
    return true;
}

enum pst_status psti_sealed_blob_make(const char *name, const void *bytes, size_t nbytes, int *fd,
                                      struct pst_error *err)
{
    *fd = create(name);
    if (*fd < 0)
        return fail_create(name, err);
    if (write_whole(*fd, bytes, nbytes) && fcntl(*fd, ADD_SEALS, BLOB_SEALS) == 0)
        return PST_OK;
    enum pst_status status = fail_create(name, err);
    close(*fd);
    *fd = -1;
    return status;
}

size_t psti_sealed_nbytes(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > 0 ? (size_t)st.st_size : 0;
}

/* Returns whether the descriptor is a memfd that has all the given seals. For files of other kinds
 * fcntl fails. */
static bool has_seals(int fd, int seals)
{
    int found = fcntl(fd, GET_SEALS);
    return found >= 0 && (found & seals) == seals;
}

/* Maps a descriptor. A blob is mapped with MAP_PRIVATE, because kernels before 6.7 refuse
 * MAP_SHARED for memory that is sealed against writing. Its bytes never change, so both give the
 * same bytes. */
static enum pst_status map(int fd, size_t nbytes, int flags, const void **bytes,
                           struct pst_error *err)
{
    void *mapped = psti_fault(PSTI_FAULT_ALLOC)
                       ? MAP_FAILED
                       : mmap(NULL, nbytes, PROT_READ, flags | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED)
        return psti_fail_os(err, ENOMEM, "base", NULL, -1,
                            "no address space for %zu bytes of shared memory", nbytes);
    *bytes = mapped;
    return PST_OK;
}

enum pst_status psti_sealed_blob_map(int fd, size_t nbytes_max, const void **bytes, size_t *nbytes,
                                     struct pst_error *err)
{
    *bytes = NULL;
    if (!has_seals(fd, SEAL_SHRINK | SEAL_GROW | SEAL_WRITE))
        return psti_fail(err, PST_ERROR_CORRUPT, "base", "the descriptor is no sealed memory");
    *nbytes = psti_sealed_nbytes(fd);
    if (*nbytes == 0 || *nbytes > nbytes_max)
        return psti_fail(err, PST_ERROR_CORRUPT, "base",
                         "sealed memory of %zu bytes: 1 to %zu are allowed", *nbytes, nbytes_max);
    return map(fd, *nbytes, MAP_PRIVATE, bytes, err);
}

enum pst_status psti_sealed_store_make(const char *name, size_t capacity, int *fd, void **bytes,
                                       struct pst_error *err)
{
    enum pst_status status;
    *bytes = NULL;
    *fd = create(name);
    if (*fd < 0)
        return fail_create(name, err);
    void *mapped = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    if (mapped == MAP_FAILED) {
        status = psti_fail_os(err, ENOMEM, "base", NULL, -1,
                              "no address space for %zu bytes of shared memory", capacity);
        goto fail_map;
    }
    if (fcntl(*fd, ADD_SEALS, STORE_SEALS) != 0) {
        status = psti_fail(err, PST_ERROR_UNSUPPORTED, "base",
                           "the kernel cannot seal shared memory against writing: Linux 5.1 or "
                           "newer is needed");
        goto fail_seal;
    }
    *bytes = mapped;
    return PST_OK;
fail_seal:
    munmap(mapped, capacity);
fail_map:
    close(*fd);
    *fd = -1;
    return status;
}

bool psti_sealed_store_grow(int fd, size_t from, size_t to)
{
    int result;
    if (psti_fault(PSTI_FAULT_ALLOC))
        return false;
    do
        result = fallocate(fd, 0, (off_t)from, (off_t)(to - from));
    while (result != 0 && errno == EINTR);
    return result == 0;
}

enum pst_status psti_sealed_store_map(int fd, size_t capacity, const void **bytes,
                                      struct pst_error *err)
{
    *bytes = NULL;
    if (!has_seals(fd, SEAL_SHRINK | SEAL_FUTURE_WRITE) || capacity == 0)
        return psti_fail(err, PST_ERROR_CORRUPT, "base", "the descriptor is no shared store");
    return map(fd, capacity, MAP_SHARED, bytes, err);
}

void psti_sealed_unmap(const void *bytes, size_t nbytes)
{
    if (bytes)
        munmap((void *)(uintptr_t)bytes, nbytes);
}
