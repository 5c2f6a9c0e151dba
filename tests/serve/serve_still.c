/* serve_still.c - pread, preadv, pwrite and close that wait while the path of their file is named.
 * The state lies in memory that the test shares with its forked children. */
#include "serve/serve_still.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOOK_NS 1000000
#define MINUTE ((int64_t)60 * 1000 * 1000 * 1000)

static struct still {
    atomic_int pid; /* 0: storage answers */
    atomic_uint n;
    char part[64];
} * still;

void serve_still_make(void)
{
    void *memory =
        mmap(NULL, sizeof *still, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    still = memory;
}

void serve_still_begin(pid_t pid, const char *part)
{
    snprintf(still->part, sizeof still->part, "%s", part);
    atomic_store(&still->pid, (int)pid);
}

void serve_still_end(void) { atomic_store(&still->pid, 0); }

bool serve_still_await(unsigned n)
{
    int64_t deadline = psti_clock_ns() + MINUTE;
    while (atomic_load(&still->n) < n && psti_clock_ns() < deadline)
        psti_clock_sleep_until(psti_clock_ns() + LOOK_NS);
    return atomic_load(&still->n) >= n;
}

static bool is_still(void) { return still && atomic_load(&still->pid) == (int)getpid(); }

static void wait_for(int fd)
{
    char link[64], path[4096];
    if (!is_still())
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (!strstr(path, still->part))
        return;
    atomic_fetch_add(&still->n, 1);
    while (is_still())
        psti_clock_sleep_until(psti_clock_ns() + LOOK_NS);
    atomic_fetch_sub(&still->n, 1);
}

ssize_t pread(int fd, void *bytes, size_t nbytes, off_t offset)
{
    wait_for(fd);
    return syscall(SYS_pread64, fd, bytes, nbytes, offset);
}

ssize_t preadv(int fd, const struct iovec *vectors, int n, off_t offset)
{
    wait_for(fd);
    return syscall(SYS_preadv, fd, vectors, (long)n, (long)offset, 0L);
}

int close(int fd)
{
    wait_for(fd);
    return (int)syscall(SYS_close, fd);
}

ssize_t pwrite(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    wait_for(fd);
    return syscall(SYS_pwrite64, fd, bytes, nbytes, offset);
}
