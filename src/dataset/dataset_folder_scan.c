/* dataset_folder_scan.c - finds the images below a folder.
 *
 * In: a path. Out: rows in byte order of the relative paths, and one class per sub-folder of the
 * top, like torchvision's ImageFolder. Folders that a system or a program makes for itself, and
 * those with nothing but hidden files, are no classes. A class whose files cannot be read stays a
 * class, so that the numbers of the others do not depend on it. Each directory is listed, sorted
 * and closed before its sub-folders are entered, so two descriptors are open at any depth. A
 * sub-folder sorts as "name/". So the walk meets whole paths in byte order, and no global sort is
 * needed. Links are followed; a folder that is its own ancestor is an error. Files are not opened.
 */
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

/* i_class of a sub-folder that has no number yet: it may be no class. */
#define NO_CLASS UINT32_MAX

struct scan {
    struct psti_folder *folder;
    struct psti_dataset_files *files; /* destination of images */
    int root_fd;
    char path[PSTI_DATASET_FOLDER_NAME_CAP]; /* path of the directory being read, relative, with a
                                                slash at its end */
    size_t path_nbytes;
    dev_t devices[PSTI_DATASET_FOLDER_MAX_DEPTH]; /* identity of the directories on the path */
    ino_t inodes[PSTI_DATASET_FOLDER_MAX_DEPTH];
    unsigned depth;
    struct psti_dataset_arena labels;     /* u32 class of each row, before the classes are sorted */
    uint32_t i_class;                     /* class of the sub-folder of the top being walked */
    const char *class_name;               /* its name, which ends with a slash */
    size_t n_hidden, n_seen;              /* entries in it: hidden ones, and others but folders */
    size_t n_top_images;                  /* number of images directly in the folder */
    char empty_class[PST_ERROR_PATH_CAP]; /* first class folder without images; "": none */
    char lost_class[PST_ERROR_PATH_CAP];  /* first link that may have been a class; "": none */
    struct pst_error *err;
};

/* The relevant entries of one directory. */
struct listing {
    struct psti_dataset_files entries; /* names of folders end with a slash */
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

bool psti_dataset_folder_is_image_name(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", ".webp", ".pli"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

/* End of every error about one entry. */
#define OR_ALLOW " (allow_unreadable leaves it out)"
#define OR_KEEP " (allow_unreadable keeps it as a class without images)"

/* Path, relative to the folder, of an entry of the directory being read. */
static void whole_path(const struct scan *scan, const char *name,
                       char path[2 * PSTI_DATASET_FOLDER_NAME_CAP])
{
    size_t n = strlen(name);
    n = n < PSTI_DATASET_FOLDER_NAME_CAP ? n : PSTI_DATASET_FOLDER_NAME_CAP - 1;
    memcpy(path, scan->path, scan->path_nbytes);
    memcpy(path + scan->path_nbytes, name, n);
    path[scan->path_nbytes + n] = '\0';
}

/* Notes an entry that is no image. kind NULL: its name tells the kind. */
static enum pst_status leave_out(struct scan *scan, const char *name, const char *kind)
{
    char path[2 * PSTI_DATASET_FOLDER_NAME_CAP];
    whole_path(scan, name, path);
    scan->n_hidden += kind == NULL && name[0] == '.';
    scan->n_seen += kind == NULL && name[0] != '.';
    if (kind == NULL)
        return psti_dataset_folder_note_left_out(scan->folder, path, scan->err);
    return psti_dataset_folder_note(scan->folder, PST_NOTICE_LEFT_OUT, kind, 1, path, scan->err);
}

/* Reports a file or folder that cannot be used, or counts it if that is allowed. `status` PST_OK:
 * errno gives the status. */
static enum pst_status unusable(struct scan *scan, const char *name, enum pst_status status,
                                int os_error, const char *what)
{
    struct psti_folder *folder = scan->folder;
    char relative[2 * PSTI_DATASET_FOLDER_NAME_CAP], shown[PST_ERROR_PATH_CAP];
    whole_path(scan, name, relative);
    scan->n_seen++;
    psti_dataset_folder_escape(relative, strlen(relative), shown, sizeof shown);
    if (folder->allow_unreadable) {
        folder->n_skipped++;
        psti_log(PST_LOG_WARNING, "dataset", "%s: skipped %s: %s", folder->path, shown, what);
        return psti_dataset_folder_note(folder, PST_NOTICE_UNREADABLE, what, 1, relative,
                                        scan->err);
    }
    if (status == PST_OK)
        status = psti_fail_os(scan->err, os_error, "dataset", shown, -1, "%s" OR_ALLOW, what);
    else
        psti_fail_at(scan->err, status, "dataset", shown, -1, "%s" OR_ALLOW, what);
    return status;
}

static enum pst_status add_entry(struct scan *scan, struct listing *listing, const char *name,
                                 bool is_folder, const struct psti_file_facts *facts)
{
    char slashed[NAME_MAX + 2];
    size_t n = strlen(name);
    if (n > NAME_MAX || scan->path_nbytes + n + 2 > PSTI_DATASET_FOLDER_NAME_CAP)
        return unusable(scan, name, PST_ERROR_LIMIT, 0,
                        "the path within the folder is longer than 4095 bytes");
    if (!psti_dataset_folder_name_ok(name, n))
        return unusable(
            scan, name, PST_ERROR_UNSUPPORTED, 0,
            "the name is not UTF-8 or has control characters (bytes shown as \\xNN): rename it");
    memcpy(slashed, name, n);
    memcpy(slashed + n, is_folder ? "/" : "", is_folder ? 2 : 1);
    return psti_dataset_files_add(&listing->entries, slashed, facts, scan->err);
}

/* True for a data set that was packed into its own source. It is no class of the source, which must
 * read the same before and after packing, also when the run resumes. */
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

/* True for folders that operating systems, storage boxes and programs make in the folders of
 * others. They may hold thumbnails or deleted pictures. Names that begin with a dot are hidden
 * anyway. */
static bool is_of_system(const char *name)
{
    static const char *const names[] = {
        "__MACOSX", /* zips made by macOS */
        "$RECYCLE.BIN",
        "RECYCLER",                  /* Windows */
        "System Volume Information", /* Windows */
        "lost+found",                /* ext4 and others */
        "@eaDir",
        "#recycle",
        "#snapshot", /* Synology */
        "@Recycle",
        "@Recently-Snapshot", /* QNAP */
        "__pycache__",        /* Python */
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static enum pst_status add_folder(struct scan *scan, struct listing *listing, int fd,
                                  const char *name)
{
    const struct psti_file_facts none = {0};
    if (is_of_system(name))
        return leave_out(scan, name, "system folder");
    if (!is_packed(fd, name))
        return add_entry(scan, listing, name, true, &none);
    return leave_out(scan, name, "data set");
}

/* A link at the top that leads nowhere may have been a class, unless its name has an extension, as
 * that of a file has. It gets its number, so that those of the classes behind it do not move. */
static enum pst_status keep_class(struct scan *scan, const char *name)
{
    size_t n = strlen(name);
    uint32_t i_class;
    enum pst_status status = leave_out(scan, name, "link that leads nowhere");
    if (status != PST_OK || !psti_dataset_folder_name_ok(name, n))
        return status;
    if (scan->lost_class[0] == '\0')
        psti_dataset_folder_escape(name, n, scan->lost_class, sizeof scan->lost_class);
    return psti_dataset_names_intern(&scan->folder->classes, name, n, &i_class, scan->err);
}

/* Classifies one directory entry: a folder to enter, an image, or neither. */
static enum pst_status look_at(struct scan *scan, struct listing *listing, int fd,
                               const struct dirent *entry)
{
    const char *name = entry->d_name;
    bool image = psti_dataset_folder_takes(scan->folder, name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return PST_OK;
    if (name[0] == '.' || (entry->d_type == DT_REG && !image))
        return leave_out(scan, name, NULL);
    if (entry->d_type == DT_DIR)
        return add_folder(scan, listing, fd, name);
    struct stat st;
    if (fstatat(fd, name, &st, 0) != 0) {
        int os_error = errno;
        if (image)
            return unusable(scan, name, PST_OK, os_error,
                            entry->d_type == DT_LNK ? "the link leads nowhere"
                                                    : "cannot be examined");
        if (scan->depth == 0 && entry->d_type == DT_LNK && strchr(name, '.') == NULL)
            return keep_class(scan, name);
        return leave_out(scan, name, NULL);
    }
    if (S_ISDIR(st.st_mode))
        return add_folder(scan, listing, fd, name);
    if (!image)
        return leave_out(scan, name, NULL);
    if (!S_ISREG(st.st_mode))
        return unusable(scan, name, PST_ERROR_UNSUPPORTED, 0, "not a regular file");
    if (faccessat(fd, name, R_OK, AT_EACCESS) != 0)
        return unusable(scan, name, PST_OK, errno, "cannot be read");
    char path[2 * PSTI_DATASET_FOLDER_NAME_CAP];
    whole_path(scan, name, path);
    const struct psti_file_facts facts = psti_dataset_folder_see(scan->folder, path, &st);
    return add_entry(scan, listing, name, false, &facts);
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

/* Opens the directory at scan->path and checks that it is not one of its ancestors. *dir NULL: left
 * out. */
static enum pst_status open_directory(struct scan *scan, DIR **dir)
{
    const char *path = scan->path_nbytes == 0 ? "." : scan->path;
    struct stat st;
    *dir = NULL;
    if (scan->depth == PSTI_DATASET_FOLDER_MAX_DEPTH)
        return unusable(scan, "", PST_ERROR_LIMIT, 0, "folders are nested deeper than 128");
    int fd = openat(scan->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return unusable(scan, "", PST_OK, errno, "the folder cannot be opened");
    if (fstat(fd, &st) != 0) {
        int os_error = errno;
        close(fd);
        return unusable(scan, "", PST_OK, os_error, "the folder cannot be examined");
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
    return psti_dataset_folder_sort(listing->order, n, listing_less, listing, scan->err);
}

/* Gives the sub-folder being walked its number, if it has none. */
static enum pst_status number_class(struct scan *scan)
{
    if (scan->i_class != NO_CLASS)
        return PST_OK;
    return psti_dataset_names_intern(&scan->folder->classes, scan->class_name,
                                     strlen(scan->class_name) - 1, &scan->i_class, scan->err);
}

static enum pst_status add_image(struct scan *scan, const struct psti_file_facts *facts)
{
    if (scan->files->n >= UINT32_MAX - 1)
        return psti_fail(scan->err, PST_ERROR_LIMIT, "dataset",
                         "more than 4294967294 files: pack them into data sets instead");
    if (scan->depth == 0)
        scan->n_top_images++;
    enum pst_status status = scan->depth > 0 ? number_class(scan) : PST_OK;
    if (status == PST_OK)
        status =
            psti_dataset_arena_add(&scan->labels, &scan->i_class, sizeof scan->i_class, scan->err);
    if (status == PST_OK)
        status = psti_dataset_files_add(scan->files, scan->path, facts, scan->err);
    return status;
}

static enum pst_status walk(struct scan *scan);

/* Decides what a sub-folder of the top without images is. */
static enum pst_status settle_empty(struct scan *scan, const char *name)
{
    scan->path[scan->path_nbytes] = '\0';
    if (scan->n_hidden > 0 && scan->n_seen == 0)
        return leave_out(scan, name, "folder of hidden files");
    if (scan->empty_class[0] == '\0')
        psti_dataset_folder_escape(name, strlen(name) - 1, scan->empty_class,
                                   sizeof scan->empty_class);
    return number_class(scan);
}

/* Walks the sub-folder `name` of the directory at scan->path, whose length was path_nbytes. */
static enum pst_status enter(struct scan *scan, const char *name, size_t path_nbytes)
{
    size_t n = strlen(name), n_before = scan->files->n;
    if (scan->depth == 0) {
        scan->i_class = NO_CLASS;
        scan->class_name = name;
        scan->n_hidden = scan->n_seen = 0;
    }
    scan->path_nbytes = path_nbytes + n;
    scan->depth++;
    enum pst_status status = walk(scan);
    scan->depth--;
    scan->path_nbytes = path_nbytes;
    if (status == PST_OK && scan->depth == 0 && scan->files->n == n_before)
        status = settle_empty(scan, name);
    return status;
}

static enum pst_status walk_listing(struct scan *scan, const struct listing *listing)
{
    size_t path_nbytes = scan->path_nbytes;
    enum pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK && i < listing->entries.n; i++) {
        const char *name = listing_name(listing, listing->order[i]);
        size_t n = strlen(name);
        memcpy(scan->path + path_nbytes, name, n + 1);
        if (name[n - 1] == '/')
            status = enter(scan, name, path_nbytes);
        else
            status = add_image(scan, &listing->entries.facts[listing->order[i]]);
        scan->path[path_nbytes] = '\0';
    }
    return status;
}

static void free_listing(struct listing *listing)
{
    psti_dataset_files_free(&listing->entries);
    psti_free(listing->order);
}

/* Recursion is bounded by PSTI_DATASET_FOLDER_MAX_DEPTH; a frame is small. */
static enum pst_status walk(struct scan *scan)
{
    struct listing listing = {0};
    enum pst_status status = list_directory(scan, &listing);
    if (status == PST_OK)
        status = walk_listing(scan, &listing);
    free_listing(&listing);
    return status;
}

/* Makes column "label" from the classes found. */
static enum pst_status make_labels(struct scan *scan)
{
    struct psti_folder *folder = scan->folder;
    struct psti_column *column;
    uint32_t *rank = NULL;
    enum pst_status status = psti_dataset_names_sort(&folder->classes, &rank, scan->err);
    if (status != PST_OK)
        return status;
    status = psti_dataset_folder_add_column(folder, "label", PST_FIELD_INT, &column, scan->err);
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

static uint64_t n_left_out(const struct psti_folder *folder)
{
    uint64_t n = 0;
    for (uint32_t i = 0; folder->notices != NULL && i < folder->notices->n; i++)
        if (folder->notices->list[i].kind == PST_NOTICE_LEFT_OUT)
            n += folder->notices->list[i].count;
    return n;
}

static enum pst_status conclude(struct scan *scan)
{
    struct psti_folder *folder = scan->folder;
    struct pst_error *err = scan->err;
    if (folder->files.n == 0)
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "no image (.jpg .jpeg .png .webp .pli) in the folder or below it, and no "
                         "audio (.wav .flac .mp3 .ogg); "
                         "%llu other files were left out, %llu unreadable ones skipped",
                         (unsigned long long)n_left_out(folder),
                         (unsigned long long)folder->n_skipped);
    if (folder->files.n == scan->n_top_images || folder->ignore_labels) {
        /* A flat folder; sub-folders without images are not classes. */
        psti_dataset_names_free(&folder->classes);
        return PST_OK;
    }
    if (scan->n_top_images > 0)
        return psti_fail(
            err, PST_ERROR_UNSUPPORTED, "dataset",
            "%zu images lie directly in the folder and %zu in its sub-folders: put each into the "
            "sub-folder of its class, or give a label file",
            scan->n_top_images, folder->files.n - scan->n_top_images);
    if (folder->allow_unreadable)
        return make_labels(scan);
    if (scan->lost_class[0] != '\0')
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "%s, beside class folders, is a link that leads nowhere: mend it or "
                         "remove it" OR_KEEP,
                         scan->lost_class);
    if (scan->empty_class[0] != '\0')
        return psti_fail(err, PST_ERROR_NOT_FOUND, "dataset",
                         "the class folder %s holds no image: fill it or remove it" OR_KEEP,
                         scan->empty_class);
    return make_labels(scan);
}

/* Finds the folders of images and of masks among the entries of the top. False: the folder has
 * another layout. */
static bool find_layout(const struct listing *top, struct psti_folder_layout *layout)
{
    unsigned n_cityscapes = 0;
    for (size_t i = 0; i < top->entries.n; i++) {
        char name[NAME_MAX + 2];
        snprintf(name, sizeof name, "%s", listing_name(top, top->order[i]));
        size_t n = strlen(name);
        if (name[n - 1] != '/')
            continue;
        name[n - 1] = '\0';
        (void)psti_dataset_folder_layout_take(layout, name);
        n_cityscapes += strcmp(name, "leftImg8bit") == 0 || strcmp(name, "gtFine") == 0;
    }
    if (n_cityscapes == 2)
        psti_dataset_folder_layout_cityscapes(layout);
    return layout->images[0] != '\0' && layout->n > 0;
}

static bool is_in_layout(const struct psti_folder_layout *layout, const char *name)
{
    bool found = strcmp(name, layout->images) == 0;
    for (uint32_t i = 0; i < layout->n; i++)
        found = found || strcmp(name, layout->masks[i].folder) == 0;
    return found;
}

/* Scans images and masks that lie in folders of their own. Other entries at the top are left out,
 * with a notice. */
static enum pst_status scan_pairs(struct scan *scan, const struct listing *top,
                                  const struct psti_folder_layout *layout)
{
    enum pst_status status = PST_OK;
    psti_dataset_names_free(&scan->folder->classes); /* there are none */
    for (size_t i = 0; status == PST_OK && i < top->entries.n; i++) {
        const char *name = listing_name(top, top->order[i]);
        bool is_folder = name[strlen(name) - 1] == '/';
        if (!is_folder || !is_in_layout(layout, name))
            status = leave_out(scan, name, is_folder ? "folder" : NULL);
    }
    return status == PST_OK ? psti_dataset_folder_pairs(scan->folder, layout, scan->err) : status;
}

static enum pst_status scan_top(struct scan *scan)
{
    struct listing top = {0};
    /* The long names in it would take too much of the stack. */
    struct psti_folder_layout *layout = psti_calloc(1, sizeof *layout);
    enum pst_status status =
        layout != NULL ? list_directory(scan, &top)
                       : psti_fail(scan->err, PST_ERROR_MEMORY, "dataset", "out of memory to scan");
    if (status == PST_OK && find_layout(&top, layout)) {
        status = scan_pairs(scan, &top, layout);
    } else if (status == PST_OK) {
        status = walk_listing(scan, &top);
        if (status == PST_OK)
            status = conclude(scan);
    }
    psti_free(layout);
    free_listing(&top);
    return status;
}

/* Runs `scanning` on the folder with a fresh scan. Images go to `files`. */
static enum pst_status with_scan(struct psti_folder *folder, const char *below,
                                 struct psti_dataset_files *files,
                                 enum pst_status (*scanning)(struct scan *), struct pst_error *err)
{
    /* The paths in it are too long for the small stack of a thread. */
    struct scan *scan = psti_calloc(1, sizeof *scan);
    if (scan == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to scan a folder");
    scan->folder = folder;
    scan->files = files;
    scan->err = err;
    scan->path_nbytes = strlen(below);
    memcpy(scan->path, below, scan->path_nbytes + 1);
    scan->depth = scan->path_nbytes > 0; /* there are no classes below the top */
    enum pst_status status = PST_OK;
    scan->root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scan->root_fd < 0) {
        status = psti_fail_os(err, errno, "dataset", NULL, -1, "the folder cannot be opened");
    } else {
        status = scanning(scan);
        close(scan->root_fd);
    }
    psti_dataset_arena_free(&scan->labels);
    psti_free(scan);
    return status;
}

/* Forgets what was listed, but for the options. */
static void forget(struct psti_folder *folder, bool is_audio)
{
    const struct psti_folder before = *folder;
    psti_dataset_folder_free(folder);
    folder->path = before.path;
    folder->allow_unreadable = before.allow_unreadable;
    folder->ignore_labels = before.ignore_labels;
    folder->masks = before.masks;
    folder->n_masks = before.n_masks;
    folder->is_audio = is_audio;
}

/* A folder without images: if what it has is known, that is the error. */
static enum pst_status fail_foreign(const struct psti_folder *folder, enum pst_status status,
                                    struct pst_error *err)
{
    for (uint32_t i = 0; status == PST_ERROR_NOT_FOUND && folder->notices && i < folder->notices->n;
         i++) {
        const struct pst_notice *notice = &folder->notices->list[i];
        const char *advice =
            notice->kind == PST_NOTICE_LEFT_OUT ? psti_dataset_foreign_name(notice->first) : NULL;
        if (advice)
            return psti_fail_at(err, PST_ERROR_UNSUPPORTED, "dataset", notice->first, -1, "%s",
                                advice);
    }
    return status;
}

enum pst_status psti_dataset_folder_scan(struct psti_folder *folder, struct pst_error *err)
{
    enum pst_status status = with_scan(folder, "", &folder->files, scan_top, err);
    if (folder->files.n > 0 && !folder->ignore_labels) {
        /* It comes first: what else is wrong with such a folder is no help. */
        enum pst_status yolo = psti_dataset_folder_check_yolo(folder, err);
        return yolo != PST_OK ? yolo : status;
    }
    if (status != PST_ERROR_NOT_FOUND || folder->files.n > 0)
        return status;
    forget(folder, true);
    struct pst_error audio_err = {.sample = -1, .offset = -1};
    status = with_scan(folder, "", &folder->files, scan_top, &audio_err);
    if (status == PST_ERROR_NOT_FOUND && folder->files.n == 0) {
        forget(folder, false); /* there is neither: the first error says so */
        status = with_scan(folder, "", &folder->files, scan_top, err);
        return fail_foreign(folder, status, err);
    }
    if (status != PST_OK && err)
        *err = audio_err;
    return status;
}

enum pst_status psti_dataset_folder_list(struct psti_folder *folder, const char *below,
                                         struct psti_dataset_files *files, struct pst_error *err)
{
    return with_scan(folder, below, files, walk, err);
}
