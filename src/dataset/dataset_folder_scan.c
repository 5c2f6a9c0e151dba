/* dataset_folder_scan.c - finds the images below a folder.
 *
 * A path comes in; rows in byte order of the relative paths go out, and one class per sub-folder of
 * the top that holds images, as torchvision's ImageFolder has it. Each directory is listed, sorted
 * and closed before its sub-folders are entered, so that two descriptors are open at any depth.
 * Because a sub-folder sorts as "name/", the walk meets whole paths in byte order and no global
 * sort is needed. Links are followed; a folder that is its own ancestor is an error. What a file
 * holds is not looked at. */
#include "dataset/dataset_folder.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct scan {
    struct psti_folder *folder;
    int root_fd;
    char path[PSTI_FOLDER_NAME_CAP]; /* of the directory being read, relative, with a slash at its
                                        end */
    size_t path_nbytes;
    dev_t devices[PSTI_FOLDER_MAX_DEPTH]; /* of the directories on the path */
    ino_t inodes[PSTI_FOLDER_MAX_DEPTH];
    unsigned depth;
    struct psti_arena labels;             /* u32 class of each row, before the classes are sorted */
    uint32_t i_class;                     /* of the sub-folder of the top being walked */
    size_t n_top_images;                  /* directly in the folder */
    char empty_class[PST_ERROR_PATH_CAP]; /* the first sub-folder of the top without images; "" none
                                           */
    struct pst_error *err;
};

/* The entries of one directory that matter. */
struct listing {
    struct psti_files entries; /* names of folders end with a slash */
    uint32_t *order;
};

static const char *listing_name(const struct listing *listing, uint32_t i)
{
    return listing->entries.names.bytes + listing->entries.at[i];
}

static bool listing_less(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(listing_name(ctx, a), listing_name(ctx, b)) < 0;
}

static bool is_image_name(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp", ".pli"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

/* Reports a file or folder that cannot be used, or counts it where that is allowed. `status`
 * PST_OK: by errno. */
static enum pst_status unusable(struct scan *scan, const char *name, enum pst_status status,
                                int os_error, const char *what)
{
    struct psti_folder *folder = scan->folder;
    char relative[2 * PSTI_FOLDER_NAME_CAP], shown[PST_ERROR_PATH_CAP];
    size_t nbytes = scan->path_nbytes, name_nbytes = strlen(name);
    memcpy(relative, scan->path, nbytes);
    memcpy(relative + nbytes, name, name_nbytes + 1);
    psti_folder_escape(relative, nbytes + name_nbytes, shown, sizeof shown);
    if (folder->allow_unreadable) {
        folder->n_skipped++;
        psti_log(PST_LOG_WARNING, "dataset", "%s: skipped %s: %s", folder->path, shown, what);
        return PST_OK;
    }
    if (status == PST_OK)
        status = psti_fail_os(scan->err, os_error, "dataset", shown, -1, "%s", what);
    else
        psti_fail(scan->err, status, "dataset", "%s", what);
    psti_error_set_file(scan->err, shown);
    return status;
}

static enum pst_status add_entry(struct scan *scan, struct listing *listing, const char *name,
                                 bool is_folder, uint64_t nbytes)
{
    char slashed[NAME_MAX + 2];
    size_t n = strlen(name);
    if (n > NAME_MAX || scan->path_nbytes + n + 2 > PSTI_FOLDER_NAME_CAP)
        return unusable(scan, name, PST_ERROR_LIMIT, 0,
                        "the path within the folder is longer than 4095 bytes");
    if (!psti_folder_name_ok(name, n))
        return unusable(
            scan, name, PST_ERROR_UNSUPPORTED, 0,
            "the name is not UTF-8 or has control characters (bytes shown as \\xNN): rename it");
    memcpy(slashed, name, n);
    memcpy(slashed + n, is_folder ? "/" : "", is_folder ? 2 : 1);
    return psti_files_add(&listing->entries, slashed, nbytes, scan->err);
}

/* A data set that was packed into its own source is no class of it: the source must read the same
 * before and after, also for a run that resumes. */
static bool is_packed(int fd, const char *name)
{
    static const char *const marks[] = {"index.pst", "journal.pst", "writer.lock"};
    char path[NAME_MAX + 16];
    struct stat st;
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", name, marks[i]);
        if (n > 0 && (size_t)n < sizeof path && fstatat(fd, path, &st, 0) == 0)
            return true;
    }
    return false;
}

static enum pst_status add_folder(struct scan *scan, struct listing *listing, int fd,
                                  const char *name)
{
    if (!is_packed(fd, name))
        return add_entry(scan, listing, name, true, 0);
    scan->folder->n_ignored++;
    return PST_OK;
}

/* Decides what one directory entry is: a folder to enter, an image, or nothing of ours. */
static enum pst_status look_at(struct scan *scan, struct listing *listing, int fd,
                               const struct dirent *entry)
{
    const char *name = entry->d_name;
    bool image = is_image_name(name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return PST_OK;
    if (name[0] == '.' || (entry->d_type == DT_REG && !image)) {
        scan->folder->n_ignored++;
        return PST_OK;
    }
    if (entry->d_type == DT_DIR)
        return add_folder(scan, listing, fd, name);
    struct stat st;
    if (fstatat(fd, name, &st, 0) != 0) {
        int os_error = errno;
        if (image)
            return unusable(scan, name, PST_OK, os_error,
                            entry->d_type == DT_LNK ? "the link leads nowhere"
                                                    : "cannot be looked at");
        scan->folder->n_ignored++;
        return PST_OK;
    }
    if (S_ISDIR(st.st_mode))
        return add_folder(scan, listing, fd, name);
    if (!image) {
        scan->folder->n_ignored++;
        return PST_OK;
    }
    if (!S_ISREG(st.st_mode))
        return unusable(scan, name, PST_ERROR_UNSUPPORTED, 0, "not a regular file");
    if (faccessat(fd, name, R_OK, AT_EACCESS) != 0)
        return unusable(scan, name, PST_OK, errno, "cannot be read");
    return add_entry(scan, listing, name, false, (uint64_t)st.st_size);
}

static enum pst_status list_entries(struct scan *scan, struct listing *listing, DIR *dir)
{
    enum pst_status status = PST_OK;
    while (status == PST_OK) {
        errno = psti_fault(PSTI_FAULT_READ) ? EIO : 0;
        const struct dirent *entry = errno != 0 ? NULL : readdir(dir);
        if (entry == NULL)
            return errno == 0 ? PST_OK
                              : unusable(scan, "", PST_OK, errno, "the folder cannot be listed");
        status = look_at(scan, listing, dirfd(dir), entry);
    }
    return status;
}

/* Opens the directory at scan->path and checks that it is not one of those above it. *dir NULL:
 * left out. */
static enum pst_status open_directory(struct scan *scan, DIR **dir)
{
    const char *path = scan->path_nbytes == 0 ? "." : scan->path;
    struct stat st;
    *dir = NULL;
    if (scan->depth == PSTI_FOLDER_MAX_DEPTH)
        return unusable(scan, "", PST_ERROR_LIMIT, 0, "folders are nested deeper than 128");
    int fd = openat(scan->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return unusable(scan, "", PST_OK, errno, "the folder cannot be opened");
    if (fstat(fd, &st) != 0) {
        int os_error = errno;
        close(fd);
        return unusable(scan, "", PST_OK, os_error, "the folder cannot be looked at");
    }
    for (unsigned i = 0; i < scan->depth; i++) {
        if (scan->devices[i] == st.st_dev && scan->inodes[i] == st.st_ino) {
            close(fd);
            return unusable(scan, "", PST_ERROR_UNSUPPORTED, 0,
                            "this link leads to a folder above it, a cycle without end");
        }
    }
    scan->devices[scan->depth] = st.st_dev;
    scan->inodes[scan->depth] = st.st_ino;
    *dir = fdopendir(fd);
    if (*dir == NULL) {
        int os_error = errno;
        close(fd);
        return unusable(scan, "", PST_OK, os_error, "the folder cannot be listed");
    }
    return PST_OK;
}

static enum pst_status list_directory(struct scan *scan, struct listing *listing)
{
    DIR *dir;
    enum pst_status status = open_directory(scan, &dir);
    if (status != PST_OK || dir == NULL)
        return status;
    status = list_entries(scan, listing, dir);
    closedir(dir);
    if (status != PST_OK)
        return status;
    size_t n = listing->entries.n;
    if (n >= UINT32_MAX)
        return psti_fail(scan->err, PST_ERROR_LIMIT, "dataset",
                         "more than 2^32 entries in a folder");
    listing->order = psti_alloc_array(n + 1, sizeof *listing->order);
    if (listing->order == NULL)
        return psti_fail(scan->err, PST_ERROR_MEMORY, "dataset", "out of memory to sort %zu names",
                         n);
    for (size_t i = 0; i < n; i++)
        listing->order[i] = (uint32_t)i;
    return psti_folder_sort(listing->order, n, listing_less, listing, scan->err);
}

static enum pst_status add_image(struct scan *scan, uint64_t nbytes)
{
    struct psti_folder *folder = scan->folder;
    if (folder->files.n >= UINT32_MAX - 1)
        return psti_fail(scan->err, PST_ERROR_LIMIT, "dataset",
                         "more than 4294967294 files: pack them into data sets instead");
    if (scan->depth == 0)
        scan->n_top_images++;
    enum pst_status status =
        psti_dataset_arena_add(&scan->labels, &scan->i_class, sizeof scan->i_class, scan->err);
    if (status == PST_OK)
        status = psti_files_add(&folder->files, scan->path, nbytes, scan->err);
    return status;
}

static enum pst_status walk(struct scan *scan);

/* Walks the sub-folder `name` of the directory at scan->path, whose length was path_nbytes. */
static enum pst_status enter(struct scan *scan, const char *name, size_t path_nbytes)
{
    struct psti_folder *folder = scan->folder;
    size_t n = strlen(name), n_before = folder->files.n;
    enum pst_status status = PST_OK;
    if (scan->depth == 0)
        status = psti_names_intern(&folder->classes, name, n - 1, &scan->i_class, scan->err);
    if (status != PST_OK)
        return status;
    scan->path_nbytes = path_nbytes + n;
    scan->depth++;
    status = walk(scan);
    scan->depth--;
    scan->path_nbytes = path_nbytes;
    if (scan->depth == 0 && folder->files.n == n_before && scan->empty_class[0] == '\0')
        psti_folder_escape(name, n - 1, scan->empty_class, sizeof scan->empty_class);
    return status;
}

/* Recursion is bounded by PSTI_FOLDER_MAX_DEPTH; a frame is small. */
static enum pst_status walk(struct scan *scan)
{
    struct listing listing = {0};
    size_t path_nbytes = scan->path_nbytes;
    enum pst_status status = list_directory(scan, &listing);
    for (size_t i = 0; status == PST_OK && i < listing.entries.n; i++) {
        const char *name = listing_name(&listing, listing.order[i]);
        size_t n = strlen(name);
        memcpy(scan->path + path_nbytes, name, n + 1);
        if (name[n - 1] == '/')
            status = enter(scan, name, path_nbytes);
        else
            status = add_image(scan, listing.entries.nbytes[listing.order[i]]);
        scan->path[path_nbytes] = '\0';
    }
    psti_files_free(&listing.entries);
    psti_free(listing.order);
    return status;
}

/* Column "label" from the classes met. */
static enum pst_status make_labels(struct scan *scan)
{
    struct psti_folder *folder = scan->folder;
    struct psti_column *column;
    uint32_t *rank = NULL;
    enum pst_status status = psti_names_sort(&folder->classes, &rank, scan->err);
    if (status != PST_OK)
        return status;
    status = psti_folder_add_column(folder, "label", PST_FIELD_INT, &column, scan->err);
    if (status != PST_OK)
        goto out;
    column->field.n_classes = (int64_t)folder->classes.n;
    column->ints = psti_alloc_array(folder->files.n, sizeof *column->ints);
    if (column->ints == NULL) {
        status = psti_fail(scan->err, PST_ERROR_MEMORY, "dataset", "out of memory for %zu labels",
                           folder->files.n);
        goto out;
    }
    const uint32_t *found = (const uint32_t *)(const void *)scan->labels.bytes;
    for (size_t i = 0; i < folder->files.n; i++)
        column->ints[i] = rank[found[i]];
out:
    psti_free(rank);
    return status;
}

static enum pst_status conclude(struct scan *scan)
{
    struct psti_folder *folder = scan->folder;
    struct pst_error *err = scan->err;
    if (folder->n_ignored > 0)
        psti_log(PST_LOG_INFO, "dataset",
                 "%s: %llu files are not .jpg .jpeg .png .webp .pli, or are hidden: ignored",
                 folder->path, (unsigned long long)folder->n_ignored);
    if (folder->files.n == 0)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "no image (.jpg .jpeg .png .webp .pli) in the folder or below it; "
                         "%llu other files were ignored, %llu unreadable ones skipped",
                         (unsigned long long)folder->n_ignored,
                         (unsigned long long)folder->n_skipped);
    if (folder->files.n == scan->n_top_images) {
        psti_names_free(
            &folder->classes); /* a flat folder; sub-folders without images mean nothing */
        return PST_OK;
    }
    if (scan->n_top_images > 0)
        return psti_fail(
            err, PST_ERROR_UNSUPPORTED, "dataset",
            "%zu images lie directly in the folder and %zu in its sub-folders: put each into the "
            "sub-folder of its class, or give a label file",
            scan->n_top_images, folder->files.n - scan->n_top_images);
    if (scan->empty_class[0] != '\0' && !folder->allow_unreadable)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "the class folder %s holds no image: fill it or remove it",
                         scan->empty_class);
    return make_labels(scan);
}

enum pst_status psti_folder_scan(struct psti_folder *folder, struct pst_error *err)
{
    /* The paths in it are too long for a thread's small stack. */
    struct scan *scan = psti_calloc(1, sizeof *scan);
    if (scan == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to scan a folder");
    scan->folder = folder;
    scan->err = err;
    enum pst_status status = PST_OK;
    scan->root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scan->root_fd < 0) {
        status = psti_fail_os(err, errno, "dataset", NULL, -1, "the folder cannot be opened");
        goto out;
    }
    status = walk(scan);
    if (status == PST_OK)
        status = conclude(scan);
    close(scan->root_fd);
out:
    psti_dataset_arena_free(&scan->labels);
    psti_free(scan);
    return status;
}
