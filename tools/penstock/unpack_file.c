/* unpack_file.c - one file of the verb unpack: its name, and writing it whole or not at all.
 *
 * In: samples of a data set that may be hostile: no name leads out of the folder. A file is written
 * under a name that `pack` ignores and renamed when it is complete and on the disk, so that neither
 * a kill nor a loss of power leaves a part of one under its own name, and nothing that is there is
 * replaced. The names are on the disk when unpack_sync() has returned. Any thread. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum pst_status fail_os(struct pst_error *err, int os_error, const char *path,
                               const char *what)
{
    cli_error(err,
              os_error == ENOSPC   ? PST_ERROR_NO_SPACE
              : os_error == EEXIST ? PST_ERROR_EXISTS
                                   : PST_ERROR_IO,
              "%s", what);
    err->os_error = os_error == EEXIST ? 0 : os_error;
    size_t n = strlen(path); /* a long one keeps its end */
    snprintf(err->file, sizeof err->file, "%.255s", n > 255 ? path + n - 255 : path);
    return err->status;
}

/* A path below the folder: no empty part, no "." and no "..". */
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
    default: /* raw pixels become one, too */
        return ".png";
    }
}

/* The first variant that is the file that was packed, else the first that there is. */
static enum pst_status find_item(const struct unpack_plan *plan, uint64_t sample, uint32_t i_field,
                                 const char *name, struct unpack_file *file, struct pst_error *err)
{
    enum pst_status status = cli_find_original(plan->dataset, sample, i_field, &file->variant,
                                               &file->item, &file->is_original, err);
    if (status != PST_OK || file->is_original)
        return status;
    for (file->variant = 0; file->variant < pst_dataset_field(plan->dataset, i_field)->n_variants;
         file->variant++) {
        status = pst_dataset_item(plan->dataset, sample, i_field, file->variant, &file->item, err);
        if (status != PST_OK || file->item.form != PST_FORM_NONE)
            return status;
    }
    return cli_error(err, PST_ERROR_NOT_FOUND, "sample \"%.200s\" has no image", name);
}

enum pst_status unpack_find(const struct unpack_plan *plan, uint64_t sample, bool mask,
                            struct unpack_file *file, struct pst_error *err)
{
    const char *name, *suffix = "";
    uint32_t i_field = (uint32_t)(mask ? plan->i_mask : plan->i_image);
    enum pst_status status = pst_dataset_sample_name(plan->dataset, sample, &name, err);
    if (status == PST_OK)
        status = find_item(plan, sample, i_field, name, file, err);
    if (status != PST_OK)
        return status;
    file->restores = pst_item_was_jpeg(&file->item);
    file->encodes = file->item.form == PST_FORM_RAW;
    /* A file may have had any image's suffix; what is not that file does not take its name. */
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

/* All directories above `path`. */
static enum pst_status make_parents(char *path, size_t from, struct pst_error *err)
{
    for (char *slash = strchr(path + from, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        enum pst_status status =
            ok ? PST_OK : fail_os(err, errno, path, "the directory cannot be made");
        *slash = '/';
        if (!ok)
            return status;
    }
    return PST_OK;
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

/* Gives a complete file its name, unless that is taken. */
static bool rename_new(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* A file system that cannot do both in one step; links are not replaced either. */
    if (link(from, to) != 0)
        return false;
    (void)unlink(from);
    return true;
}

enum pst_status unpack_write(const struct unpack_plan *plan, const char *temporary,
                             const char *path, const void *bytes, size_t nbytes,
                             struct pst_error *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    size_t root = strlen(plan->folder);
    if (snprintf(from, sizeof from, "%s/%s", plan->folder, temporary) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/%s", plan->folder, path) >= (int)sizeof to)
        return cli_error(err, PST_ERROR_LIMIT, "the path is too long: %.200s", path);
    enum pst_status status = make_parents(to, root + 1, err);
    if (status != PST_OK)
        return status;
    int fd = open(from, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return fail_os(err, errno, from, "the file cannot be made");
    bool ok = write_all(fd, bytes, nbytes) && fsync(fd) == 0;
    int os_error = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        os_error = errno;
    }
    if (!ok)
        status = fail_os(err, os_error, to, "the file cannot be written");
    else if (!rename_new(from, to))
        status = fail_os(err, errno, to,
                         errno == EEXIST ? "a file is there already, and is not replaced"
                                         : "the file cannot be given its name");
    if (status != PST_OK)
        (void)unlink(from);
    return status;
}

/* Some network and FUSE file systems cannot sync a directory and need not. */
static bool sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
