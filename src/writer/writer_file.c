/* writer_file.c - the directory of a writer: opening, renaming and removing its files, making them
 * durable, and the lock.
 *
 * One thread. All names are relative to the open directory of the data set, and links in it are
 * never followed. Every call that changes the disk first asks psti_fault, which injects failures in
 * tests. After a failure the writer gives up, and the last commit counts. */
#include "writer/writer_file.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"

#include <penstock/dataset.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RENAME_REPLACES_NOTHING = 1 }; /* the flag RENAME_NOREPLACE, which older headers lack */

enum pst_status psti_writer_check_path(const char *path, size_t room, size_t *nbytes,
                                       struct pst_error *err)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *advice = strstr(path, "://") != NULL ? pst_path_advice(path) : NULL;
    *nbytes = n;
    if (n == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "writer", "the path of the data set is empty");
    if (advice != NULL)
        return psti_fail(err, PST_ERROR_UNSUPPORTED, "writer", "%s", advice);
    if (n + room > PATH_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "writer", "the path of the data set is too long");
    return PST_OK;
}

void psti_writer_dir_path(const struct psti_writer_dir *dir, const char *name, char out[PATH_MAX])
{
    /* The path fits, because opening refuses longer paths. */
    snprintf(out, PATH_MAX, "%s/%s", dir->path, name);
}

/* Reports a failed system call on a file of the directory. */
static enum pst_status fail_at(struct pst_error *err, int os_error,
                               const struct psti_writer_dir *dir, const char *name, int64_t offset,
                               const char *what)
{
    char path[PATH_MAX];
    psti_writer_dir_path(dir, name, path);
    return psti_fail_os(err, os_error, "writer", path, offset, "%s%s", what,
                        os_error == ELOOP ? ": it is a symbolic link, and none is followed" : "");
}

/* Opens an existing file for writing. *failed receives errno, or 0 if `err` is already complete. */
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

/* Creates the file, after removing whatever has its name, so that it never writes to a link or to
 * another owner's file. */
static int open_anew(const struct psti_writer_dir *dir, const char *name)
{
    if (unlinkat(dir->fd, name, 0) != 0 && errno != ENOENT)
        return -1;
    return openat(dir->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
}

enum pst_status psti_writer_file_open(struct psti_output *file, const struct psti_writer_dir *dir,
                                      const char *name, bool create, uint64_t offset,
                                      size_t capacity, struct pst_error *err)
{
    char path[PATH_MAX];
    int failed = 0;
    psti_writer_dir_path(dir, name, path);
    enum pst_status status = psti_output_prepare(file, "writer", path, offset, capacity, err);
    if (status != PST_OK)
        return status;
    if (psti_fault(PSTI_FAULT_WRITE))
        failed = ENOSPC;
    else if (create)
        failed = (file->fd = open_anew(dir, name)) < 0 ? errno : 0;
    else
        file->fd = open_existing(dir, name, &failed, err);
    if (file->fd >= 0)
        return PST_OK;
    psti_output_close(file);
    return failed == 0 ? PST_ERROR_IO
                       : fail_at(err, failed, dir, name, -1,
                                 create ? "cannot create the file" : "cannot open the file");
}

enum pst_status psti_writer_sync_directory(const struct psti_writer_dir *dir, struct pst_error *err)
{
    int failed = psti_sync_directory(dir->fd, ".");
    return failed == 0 ? PST_OK
                       : psti_fail_os(err, failed, "writer", dir->path, -1,
                                      "cannot make the directory durable");
}

enum pst_status psti_writer_sync_parent(const struct psti_writer_dir *dir, struct pst_error *err)
{
    int failed = psti_sync_directory(dir->fd, "..");
    /* A process without permission to list or write the directory (EACCES, EROFS) cannot sync it,
     * which is no failure. */
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

/* Renames the file unless `to` exists. If the file system cannot do that, an ordinary rename is
 * used, which may replace `to`. */
static enum pst_status rename_new(const struct psti_writer_dir *dir, const char *from,
                                  const char *to, bool *taken, struct pst_error *err)
{
    *taken = psti_writer_exists(dir, to);
    if (*taken)
        return PST_OK;
    if ((psti_fault(PSTI_FAULT_WRITE)
             ? (errno = ENOSPC, -1)
             : syscall(SYS_renameat2, dir->fd, from, dir->fd, to, RENAME_REPLACES_NOTHING)) == 0)
        return PST_OK;
    *taken = errno == EEXIST;
    if (*taken)
        return PST_OK;
    return errno == EINVAL || errno == ENOSYS
               ? psti_writer_rename(dir, from, to, err)
               : fail_at(err, errno, dir, to, -1, "cannot put the file in place");
}

enum pst_status psti_writer_link(const struct psti_writer_dir *dir, const char *from,
                                 const char *to, bool *taken, struct pst_error *err)
{
    *taken = false;
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                      : linkat(dir->fd, from, dir->fd, to, 0)) == 0)
        return PST_OK;
    *taken = errno == EEXIST;
    if (*taken)
        return PST_OK;
    return errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK
               ? rename_new(dir, from, to, taken, err)
               : fail_at(err, errno, dir, to, -1, "cannot put the file in place");
}

enum pst_status psti_writer_make_folder(const struct psti_writer_dir *dir, const char *name,
                                        struct pst_error *err)
{
    if ((psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : mkdirat(dir->fd, name, 0777)) != 0)
        return fail_at(err, errno, dir, name, -1, "cannot make the folder");
    return PST_OK;
}

/* Removes everything in a folder. `depth`: levels of folders that may be in it. */
static enum pst_status remove_entries(const struct psti_writer_dir *dir, int depth,
                                      struct pst_error *err);

static enum pst_status remove_folder(const struct psti_writer_dir *dir, const char *name, int depth,
                                     struct pst_error *err)
{
    char path[PATH_MAX];
    struct psti_writer_dir inner = {.path = path};
    psti_writer_dir_path(dir, name, path);
    inner.fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (inner.fd < 0)
        return errno == ENOENT ? PST_OK
                               : fail_at(err, errno, dir, name, -1, "cannot remove the folder");
    enum pst_status status = remove_entries(&inner, depth, err);
    close(inner.fd);
    if (status == PST_OK &&
        (psti_fault(PSTI_FAULT_WRITE) ? (errno = EIO, -1)
                                      : unlinkat(dir->fd, name, AT_REMOVEDIR)) != 0 &&
        errno != ENOENT)
        status = fail_at(err, errno, dir, name, -1, "cannot remove the folder");
    return status;
}

static enum pst_status remove_entries(const struct psti_writer_dir *dir, int depth,
                                      struct pst_error *err)
{
    char *names = NULL;
    enum pst_status status = psti_writer_list(dir, &names, err);
    for (const char *name = names; status == PST_OK && name[0] != '\0';
         name = psti_writer_list_next(name)) {
        struct stat st;
        bool is_folder = depth > 0 && fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                         S_ISDIR(st.st_mode);
        status = is_folder ? remove_folder(dir, name, depth - 1, err)
                           : psti_writer_unlink(dir, name, err);
    }
    psti_free(names);
    return status;
}

enum pst_status psti_writer_remove_folder(const struct psti_writer_dir *dir, const char *name,
                                          struct pst_error *err)
{
    return remove_folder(dir, name, 1, err);
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
    /* Without this sync, the bytes cut off might reappear behind bytes that are written later. */
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

/* A growing list of names: `used` of `capacity` bytes are filled. */
struct growing_names {
    char *bytes;
    size_t used, capacity;
};

static bool add_name(struct growing_names *names, const char *name)
{
    size_t nbytes = strlen(name) + 1;
    if (names->used + nbytes > names->capacity) {
        size_t capacity = 2 * names->capacity + nbytes + 1024;
        char *bytes = psti_realloc(names->bytes, capacity);
        if (bytes == NULL)
            return false;
        names->bytes = bytes;
        names->capacity = capacity;
    }
    memcpy(names->bytes + names->used, name, nbytes);
    names->used += nbytes;
    return true;
}

enum pst_status psti_writer_list(const struct psti_writer_dir *dir, char **names,
                                 struct pst_error *err)
{
    struct growing_names all = {0};
    const struct dirent *entry;
    bool has_room = true;
    *names = NULL;
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    int failed = list != NULL ? 0 : errno;
    while (list != NULL && has_room && (errno = 0, entry = readdir(list)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            has_room = add_name(&all, entry->d_name);
    if (list != NULL && has_room)
        failed = errno;
    has_room = has_room && add_name(&all, "");
    if (list != NULL)
        closedir(list);
    else if (fd >= 0)
        close(fd);
    if (failed == 0 && has_room) {
        *names = all.bytes;
        return PST_OK;
    }
    psti_free(all.bytes);
    return failed != 0
               ? psti_fail_os(err, failed, "writer", dir->path, -1, "cannot list the directory")
               : psti_fail(err, PST_ERROR_MEMORY, "writer", "no memory to list a directory");
}

const char *psti_writer_list_next(const char *name) { return name + strlen(name) + 1; }

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
        /* The previous holder of the lock may have removed the file between this open and this
         * lock. */
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
