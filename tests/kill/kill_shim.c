/* kill_shim.c - preloaded into a program: ends it at its n-th call that changes the disk, and keeps
 * a log of the calls before.
 *
 * PST_KILL_ROOT: the directory whose changes count, an absolute path. PST_KILL_LOG: a file that
 * grows by one entry per successful call, in order. PST_KILL_AT: the call, from 1, before which the
 * process ends by SIGKILL (a write: after half of it); with 0 or none it does not end. Changes are:
 * open with O_CREAT of a new file, write, fsync, ftruncate, mkdir, rename, link, unlink, rmdir.
 * From the log, tests/kill/disk_model.py makes the disk after a loss of power.
 *
 * An entry: u32 kind; u32 lengths of two paths; u32 zero; u64 inode, u64 offset, u64 length; the
 * paths; the bytes of a write. Calls from all threads are serialised. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum kind { FAILED, CREATE, WRITE, SYNC, TRUNCATE, MKDIR, RENAME, LINK, UNLINK, RMDIR };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_nbytes;
static int log_fd = -1;
static uint64_t left; /* calls until the process ends; 0: it does not end */

/* Returns the C library's syscall(), because this file defines one, too. */
static long (*kernel(void))(long number, ...)
{
    static long (*found)(long number, ...);
    if (found == NULL) { /* several threads may store the same value */
        void *symbol = dlsym(RTLD_NEXT, "syscall");
        memcpy(&found, &symbol, sizeof found);
    }
    return found;
}

static __attribute__((constructor)) void begin(void)
{
    const char *at = getenv("PST_KILL_AT"), *path = getenv("PST_KILL_LOG");
    root = getenv("PST_KILL_ROOT");
    if (root == NULL || path == NULL)
        return;
    root_nbytes = strlen(root);
    left = at != NULL ? strtoull(at, NULL, 10) : 0;
    log_fd =
        (int)kernel()(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

/* Finds the absolute path of `name` below `dir`, without resolving links. Returns false if it is
 * not below the root. */
static bool locate(int dir, const char *name, char path[2 * PATH_MAX])
{
    char self[64], base[PATH_MAX] = "";
    if (log_fd < 0)
        return false;
    while (name[0] == '.' && (name[1] == '/' || name[1] == '\0'))
        name += name[1] == '/' ? 2 : 1;
    if (name[0] != '/') {
        if (dir == AT_FDCWD) {
            if (getcwd(base, sizeof base) == NULL)
                return false;
        } else {
            snprintf(self, sizeof self, "/proc/self/fd/%d", dir);
            ssize_t n = readlink(self, base, sizeof base - 1);
            if (n < 0)
                return false;
            base[n] = '\0';
        }
    }
    snprintf(path, 2 * PATH_MAX, "%s%s%s", base, base[0] != '\0' && *name != '\0' ? "/" : "", name);
    return strncmp(path, root, root_nbytes) == 0 &&
           (path[root_nbytes] == '/' || path[root_nbytes] == '\0');
}

static bool locate_fd(int fd, char path[2 * PATH_MAX])
{
    return fd >= 0 && fd != log_fd && locate(fd, "", path);
}

/* Returns true if the process must end at this call. The caller holds the lock. */
static bool is_the_end(void) { return left > 0 && --left == 0; }

static void end_process(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void note(enum kind kind, uint64_t inode, const char *a, const char *b, uint64_t offset,
                 uint64_t nbytes, const void *bytes)
{
    struct {
        uint32_t kind, n_a, n_b, zero;
        uint64_t inode, offset, nbytes;
    } head = {(uint32_t)kind, (uint32_t)strlen(a), (uint32_t)strlen(b), 0, inode, offset, nbytes};
    struct iovec parts[] = {{&head, sizeof head},
                            {(void *)(uintptr_t)a, head.n_a},
                            {(void *)(uintptr_t)b, head.n_b},
                            {(void *)(uintptr_t)bytes, bytes != NULL ? nbytes : 0}};
    if (writev(log_fd, parts, 4) < 0)
        end_process();
}

static uint64_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static int open_any(int dir, const char *name, int flags, mode_t mode)
{
    char path[2 * PATH_MAX];
    struct stat st;
    if ((flags & O_CREAT) == 0 || !locate(dir, name, path))
        return (int)kernel()(SYS_openat, dir, name, flags, mode);
    pthread_mutex_lock(&lock);
    bool is_new = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0;
    if (is_new && is_the_end())
        end_process();
    int fd = (int)kernel()(SYS_openat, dir, name, flags, mode);
    int os_error = errno;
    if (fd >= 0 && is_new)
        note(CREATE, inode_of(fd), path, "", 0, 0, NULL);
    else if (is_new)
        note(FAILED, 0, path, "", 0, 0, NULL);
    else if (fd >= 0 && (flags & O_TRUNC) != 0)
        note(TRUNCATE, inode_of(fd), path, "", 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    errno = os_error;
    return fd;
}

#define OPEN(function, dir_parameter, dir)                                                         \
    EXPORT int function(dir_parameter const char *name, int flags, ...);                           \
    EXPORT int function(dir_parameter const char *name, int flags, ...)                            \
    {                                                                                              \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;                           \
        va_end(list);                                                                              \
        return open_any(dir, name, flags, mode);                                                   \
    }
#define NOTHING
#define DIR_PARAMETER int dir_fd,
OPEN(open, NOTHING, AT_FDCWD)
OPEN(open64, NOTHING, AT_FDCWD)
OPEN(openat, DIR_PARAMETER, dir_fd)
OPEN(openat64, DIR_PARAMETER, dir_fd)

/* Writes at `offset`, or at the file's position if `offset` is negative. */
static ssize_t write_any(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    char path[2 * PATH_MAX];
    struct stat st;
    bool is_ours = locate_fd(fd, path) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (!is_ours)
        return offset < 0 ? kernel()(SYS_write, fd, bytes, nbytes)
                          : kernel()(SYS_pwrite64, fd, bytes, nbytes, offset);
    pthread_mutex_lock(&lock);
    bool ends = is_the_end();
    off_t at = offset >= 0 ? offset : lseek(fd, 0, SEEK_CUR);
    size_t n = ends ? nbytes / 2 : nbytes;
    ssize_t done = offset < 0 ? kernel()(SYS_write, fd, bytes, n)
                              : kernel()(SYS_pwrite64, fd, bytes, n, offset);
    int os_error = errno;
    if (done > 0)
        note(WRITE, (uint64_t)st.st_ino, path, "", (uint64_t)at, (uint64_t)done, bytes);
    else
        note(FAILED, 0, path, "", 0, 0, NULL);
    if (ends)
        end_process();
    pthread_mutex_unlock(&lock);
    errno = os_error;
    return done;
}

EXPORT ssize_t write(int fd, const void *bytes, size_t nbytes)
{
    return write_any(fd, bytes, nbytes, -1);
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    return write_any(fd, bytes, nbytes, offset);
}

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t nbytes, off_t offset)
{
    return write_any(fd, bytes, nbytes, offset);
}

/* The body of all other calls: `call` makes the change in `path`, `noting` logs it. */
#define CHANGE(is_ours, call, path, noting)                                                        \
    bool ours = is_ours;                                                                           \
    if (ours)                                                                                      \
        pthread_mutex_lock(&lock);                                                                 \
    if (ours && is_the_end())                                                                      \
        end_process();                                                                             \
    int result = (int)(call);                                                                      \
    int os_error = errno;                                                                          \
    if (ours && result != 0)                                                                       \
        note(FAILED, 0, path, "", 0, 0, NULL);                                                     \
    else if (ours)                                                                                 \
        noting;                                                                                    \
    if (ours)                                                                                      \
        pthread_mutex_unlock(&lock);                                                               \
    errno = os_error;                                                                              \
    return result

EXPORT int fsync(int fd)
{
    char path[2 * PATH_MAX];
    CHANGE(locate_fd(fd, path), kernel()(SYS_fsync, fd), path,
           note(SYNC, inode_of(fd), path, "", 0, 0, NULL));
}

EXPORT int fdatasync(int fd) { return fsync(fd); }

static int truncate_any(int fd, off_t n)
{
    char path[2 * PATH_MAX];
    CHANGE(locate_fd(fd, path), kernel()(SYS_ftruncate, fd, n), path,
           note(TRUNCATE, inode_of(fd), path, "", (uint64_t)n, 0, NULL));
}

EXPORT int ftruncate(int fd, off_t n) { return truncate_any(fd, n); }

EXPORT int ftruncate64(int fd, off_t n) { return truncate_any(fd, n); }

EXPORT int mkdirat(int dir, const char *name, mode_t mode)
{
    char path[2 * PATH_MAX];
    CHANGE(locate(dir, name, path), kernel()(SYS_mkdirat, dir, name, mode), path,
           note(MKDIR, 0, path, "", 0, 0, NULL));
}

EXPORT int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

EXPORT int unlinkat(int dir, const char *name, int flags)
{
    char path[2 * PATH_MAX];
    CHANGE(locate(dir, name, path), kernel()(SYS_unlinkat, dir, name, flags), path,
           note((flags & AT_REMOVEDIR) != 0 ? RMDIR : UNLINK, 0, path, "", 0, 0, NULL));
}

EXPORT int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

EXPORT int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

EXPORT int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    char a[2 * PATH_MAX], b[2 * PATH_MAX];
    CHANGE(locate(from_dir, from, a) && locate(to_dir, to, b),
           kernel()(SYS_renameat2, from_dir, from, to_dir, to, flags), a,
           note(RENAME, 0, a, b, 0, 0, NULL));
}

/* Programs built for an older C library call renameat2 by its number. */
EXPORT long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_renameat2 && getenv("PST_NO_LINKS") != NULL && a[4] == 1 &&
        strcmp(getenv("PST_NO_LINKS"), "replace") == 0) {
        errno = EINVAL; /* RENAME_NOREPLACE is not supported, either */
        return -1;
    }
    if (number == SYS_renameat2)
        return renameat2((int)a[0], (const char *)a[1], (int)a[2], (const char *)a[3],
                         (unsigned)a[4]);
    return kernel()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORT int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}

EXPORT int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    char a[2 * PATH_MAX], b[2 * PATH_MAX];
    if (getenv("PST_NO_LINKS") != NULL) { /* fails as on file systems without hard links */
        errno = EPERM;
        return -1;
    }
    CHANGE(locate(from_dir, from, a) && locate(to_dir, to, b),
           kernel()(SYS_linkat, from_dir, from, to_dir, to, flags), a,
           note(LINK, 0, a, b, 0, 0, NULL));
}

EXPORT int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}
