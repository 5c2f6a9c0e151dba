/* serve_still.c - replaces pread, preadv, pwrite and close by functions that block for files
 * with a certain path. The state is in memory that the test shares with its forked children.
 *
 * ThreadSanitizer does not instrument this file: it closes files while it holds the locks of its
 * reports, and would then wait for itself here. */
#include "serve/serve_still.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOOK_NS 1000000
#define MINUTE ((int64_t)60 * 1000 * 1000 * 1000)

static struct still {
    atomic_int pid; /* process whose storage blocks; 0: none */
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

/* next_NAME returns the function of that name in the next library: a sanitizer or the C library.
 * ThreadSanitizer must see each close. Otherwise it confuses the file with the next one that gets
 * its number. */
#define NEXT(name, type, ...) \
    static type (*next_##name(void))(__VA_ARGS__) \
    { \
        static type (*found)(__VA_ARGS__); \
        if (!found) { /* all threads store the same value */ \
            void *symbol = dlsym(RTLD_NEXT, #name); \
            memcpy(&found, &symbol, sizeof found); \
        } \
        return found; \
    }

NEXT(pread, ssize_t, int, void *, size_t, off_t)
NEXT(preadv, ssize_t, int, const struct iovec *, int, off_t)
NEXT(pwrite, ssize_t, int, const void *, size_t, off_t)
NEXT(close, int, int)

ssize_t pread(int fd, void *bytes, size_t nbytes, off_t offset)
{
    wait_for(fd);
    return next_pread()(fd, bytes, nbytes, offset);
}

ssize_t preadv(int fd, const struct iovec *vectors, int n, off_t offset)
{
    wait_for(fd);
    return next_preadv()(fd, vectors, n, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    wait_for(fd);
    return next_pwrite()(fd, bytes, nbytes, offset);
}

int close(int fd)
{
    wait_for(fd);
    return next_close()(fd);
}
