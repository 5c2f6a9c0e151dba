/* unpack_file.c - the files of the verb unpack: chooses each file's name, and writes the file
 * completely or not at all.
 *
 * In: samples of a data set that may be hostile: no name may lead out of the folder. A file is
 * written under a temporary name that `pack` ignores, and renamed when it is complete and durable.
 * So neither a kill nor a power loss leaves a partial file under its final name, and no existing
 * file is replaced. Names are durable after unpack_sync(). Any thread. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/fs.h>. */
#define NO_REPLACE 1u

static enum pst_status fail_os(struct pst_error *err, int os_error, const char *path,
                               const char *what)
{
    enum pst_status status = os_error == ENOSPC         ? PST_ERROR_NO_SPACE
                             : os_error == EEXIST       ? PST_ERROR_EXISTS
                             : os_error == ENAMETOOLONG ? PST_ERROR_LIMIT
                                                        : PST_ERROR_IO;
    cli_error(err, status, "%s", what);
    err->os_error = os_error == EEXIST ? 0 : os_error;
    size_t n = strlen(path); /* a path that is too long is cut at its start */
    snprintf(err->file, sizeof err->file, "%.255s", n > 255 ? path + n - 255 : path);
    return err->status;
}

/* True if the path stays inside the folder: no empty part, no "." and no "..". */
static bool stays_within(const char *name)
{
    for (const char *at = name;;) {
        size_t n = strcspn(at, "/");
        if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
            return false;
        if (at[n] == '\0')
            return true;
        at += n + 1;
    }
}

static bool has_image_suffix(const char *name)
{
    return cli_ends_with(name, ".jpg") || cli_ends_with(name, ".jpeg") ||
           cli_ends_with(name, ".png") || cli_ends_with(name, ".webp") ||
           cli_ends_with(name, ".pli");
}

static const char *suffix_of(const struct unpack_file *file)
{
    switch (file->item.form) {
    case PST_FORM_JPEG:
        return ".jpg";
    case PST_FORM_WEBP:
        return ".webp";
    case PST_FORM_PLI:
        return ".pli";
    case PST_FORM_PLI_JPEG:
        return file->restores ? ".jpg" : ".pli";
    default: /* raw pixels are written as PNG */
        return ".png";
    }
}

/* Finds the variant that gives the original file, or else the first variant. */
static enum pst_status find_item(const struct unpack_plan *plan, uint64_t sample, uint32_t i_field,
                                 const char *name, struct unpack_file *file, struct pst_error *err)
{
    enum pst_status status = cli_find_original(plan->dataset, sample, i_field, &file->variant,
                                               &file->item, &file->is_original, err);
    if (status != PST_OK || file->is_original)
        return status;
    for (file->variant = 0; file->variant < pst_dataset_field(plan->dataset, i_field)->n_variants;
         file->variant++) {
        status = pst_dataset_item(plan->dataset, sample, i_field, file->variant, &file->item,
                                  sizeof file->item, err);
        if (status == PST_OK)
            cli_item_decoded(&file->item);
        if (status != PST_OK || file->item.form != PST_FORM_NONE)
            return status;
    }
    return cli_error(err, PST_ERROR_NOT_FOUND, "sample \"%.200s\" has no image", name);
}

enum pst_status unpack_find(const struct unpack_plan *plan, uint64_t sample, bool mask,
                            struct unpack_file *file, struct pst_error *err)
{
    char name[PST_NAME_CAP];
    const char *suffix = "";
    uint32_t i_field = (uint32_t)(mask ? plan->i_mask : plan->i_image);
    enum pst_status status = pst_dataset_sample_name(plan->dataset, sample, name, err);
    if (status == PST_OK)
        status = find_item(plan, sample, i_field, name, file, err);
    if (status == PST_OK) /* in tars, zips and tables the bytes tell the form */
        status = cli_complete_item(plan->dataset, sample, i_field, file->variant, &file->item, err);
    if (status != PST_OK)
        return status;
    file->restores = pst_dataset_is_packed(plan->dataset) && pst_item_was_jpeg(&file->item);
    file->encodes = file->item.form == PST_FORM_RAW;
    /* An original file may have any image suffix. Other files must not use such a name. */
    bool named = file->is_original ? has_image_suffix(name) : cli_ends_with(name, suffix_of(file));
    if (mask || !named)
        suffix = suffix_of(file);
    int n =
        snprintf(file->path, sizeof file->path, "%s%s%s", mask ? UNPACK_MASKS : "", name, suffix);
    if (n >= (int)sizeof file->path || !stays_within(name))
        return cli_error(err, PST_ERROR_ARGUMENT,
                         "\"%.200s\" is no path below the folder: the sample cannot become a file",
                         name);
    return PST_OK;
}

/* Opens the folder of `path`, one part after the other, and creates missing parts if `make`. Links
 * are never followed, so the path cannot lead out of the folder. *last: the file's own name.
 * Returns -1 with errno: EEXIST if a part is a link or a file. */
static int open_parent(const struct unpack_plan *plan, const char *path, bool make,
                       const char **last)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    char part[PATH_MAX];
    int fd = openat(plan->fd, ".", FLAGS);
    for (const char *slash; fd >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        int next = openat(fd, part, FLAGS);
        if (next < 0 && errno == ENOENT && make &&
            (mkdirat(fd, part, 0777) == 0 || errno == EEXIST))
            next = openat(fd, part, FLAGS);
        int os_error = errno == ELOOP || errno == ENOTDIR ? EEXIST : errno;
        (void)close(fd);
        errno = os_error;
        fd = next;
    }
    *last = path;
    return fd;
}

static const char why_no_parent[] =
    "the folder cannot be made or opened, or is a link or a file, and links are not followed";

enum pst_status unpack_look(const struct unpack_plan *plan, const char *path, bool *there,
                            uint64_t *nbytes, struct pst_error *err)
{
    struct stat st;
    const char *last;
    *there = false;
    int fd = open_parent(plan, path, false, &last);
    if (fd < 0)
        return errno == ENOENT ? PST_OK : fail_os(err, errno, path, why_no_parent);
    int failed = fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    (void)close(fd);
    if (failed != 0)
        return failed == ENOENT ? PST_OK : fail_os(err, failed, path, "the file cannot be seen");
    if (!S_ISREG(st.st_mode))
        return fail_os(err, EEXIST, path, "something else is there already");
    *there = true;
    *nbytes = (uint64_t)st.st_size;
    return PST_OK;
}

enum pst_status unpack_read(const struct unpack_plan *plan, const char *path, void **bytes,
                            size_t *nbytes, struct pst_error *err)
{
    struct stat st;
    const char *last;
    *bytes = NULL;
    int parent = open_parent(plan, path, false, &last);
    int fd = parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int failed = fd < 0 || fstat(fd, &st) != 0 ? errno : 0;
    if (parent >= 0)
        (void)close(parent);
    if (failed == 0 && (*bytes = malloc((size_t)st.st_size + 1)) == NULL)
        failed = ENOMEM;
    for (*nbytes = 0; failed == 0 && *nbytes < (size_t)st.st_size;) {
        ssize_t n = read(fd, (char *)*bytes + *nbytes, (size_t)st.st_size - *nbytes);
        if (n > 0)
            *nbytes += (size_t)n;
        else if (n == 0)
            break;
        else if (errno != EINTR)
            failed = errno;
    }
    if (fd >= 0)
        (void)close(fd);
    if (failed == 0)
        return PST_OK;
    free(*bytes);
    *bytes = NULL;
    return fail_os(err, failed, path, "the file cannot be read");
}

static bool write_all(int fd, const char *bytes, size_t nbytes)
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

/* Renames a complete file, unless the name is taken. renameat2 is called by its number, because C
 * libraries before version 2.28 lack it. */
static bool rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
    if (syscall(SYS_renameat2, from_dir, from, to_dir, to, NO_REPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* For file systems that cannot rename without replacing: a hard link does not replace anything
     * either. */
    if (linkat(from_dir, from, to_dir, to, 0) != 0)
        return false;
    (void)unlinkat(from_dir, from, 0);
    return true;
}

/* Makes a temporary file that is complete and durable. */
static enum pst_status write_temporary(const struct unpack_plan *plan, const char *name,
                                       const void *bytes, size_t nbytes, struct pst_error *err)
{
    /* Removes a file of that name, which a run that ended early has left, or which is a foreign
     * link. */
    int fd = -1;
    if (unlinkat(plan->fd, name, 0) == 0 || errno == ENOENT)
        fd = openat(plan->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_os(err, errno, name, "the file cannot be made");
    bool ok = write_all(fd, bytes, nbytes) && fsync(fd) == 0;
    int os_error = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        os_error = errno;
    }
    return ok ? PST_OK : fail_os(err, os_error, name, "the file cannot be written");
}

enum pst_status unpack_write(const struct unpack_plan *plan, const char *temporary,
                             const char *path, const void *bytes, size_t nbytes,
                             struct pst_error *err)
{
    const char *last;
    if (strlen(plan->folder) + 1 + strlen(path) >= PATH_MAX)
        return cli_error(err, PST_ERROR_LIMIT, "the path is too long: %.200s", path);
    int parent = open_parent(plan, path, true, &last);
    if (parent < 0)
        return fail_os(err, errno, path, why_no_parent);
    enum pst_status status = write_temporary(plan, temporary, bytes, nbytes, err);
    if (status == PST_OK && !rename_new(plan->fd, temporary, parent, last))
        status = fail_os(err, errno, path,
                         errno == EEXIST ? "a file is there already, and is not replaced"
                                         : "the file cannot be given its name");
    if (status != PST_OK)
        (void)unlinkat(plan->fd, temporary, 0);
    (void)close(parent);
    return status;
}

/* Syncs a directory. Some network and FUSE file systems cannot and need not do that. */
static bool sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS);
    int os_error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = os_error;
    return ok;
}

enum pst_status unpack_sync(const struct unpack_plan *plan, struct pst_error *err)
{
    char folder[PATH_MAX], above[PATH_MAX];
    enum pst_status status = PST_OK;
    if (realpath(plan->folder, folder) == NULL)
        return fail_os(err, errno, plan->folder, "the folder cannot be found again");
    char *const roots[] = {folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    if (walk == NULL)
        return fail_os(err, errno, folder, "the folder cannot be read");
    for (FTSENT *entry; status == PST_OK && (entry = fts_read(walk)) != NULL;)
        if (entry->fts_info == FTS_DP && !sync_directory(entry->fts_path))
            status = fail_os(err, errno, entry->fts_path, "the names cannot be made durable");
    (void)fts_close(walk);
    snprintf(above, sizeof above, "%s", folder);
    *(strrchr(above, '/') + (strrchr(above, '/') == above)) = '\0';
    if (status == PST_OK && !sync_directory(above) && errno != EACCES)
        status = fail_os(err, errno, above, "the folder's name cannot be made durable");
    return status;
}
