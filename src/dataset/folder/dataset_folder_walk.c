/* dataset_folder_walk.c - walks through a folder and all folders below it.
 *
 * In: a path. Out: files in byte order of their relative paths, and one class per top-level
 * subfolder. Folders made by systems or programs, and folders with only hidden files, are no
 * classes. A class whose files cannot be read stays a class, to keep the numbers of the others.
 * Each directory is listed, sorted and closed before its subfolders are entered, so at any depth
 * only two descriptors are open. A subfolder is sorted as "name/". That gives whole paths in byte
 * order without a global sort. Links are followed; a folder that is its own ancestor is an error.
 * Files are not opened.
 *
 * If a saved listing (dataset_listing.h) has the entries of a directory, they are taken from
 * there. */
#include "dataset/folder/dataset_folder_walk.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/log.h"
#include "dataset/dataset_saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* i_class of a subfolder without a number; it may turn out to be no class. */
#define NO_CLASS UINT32_MAX

enum { ENTRIES_TOLD = 1024 }; /* entries of a directory between two progress reports */

/* Ends each error message about one entry. */
#define OR_ALLOW " (allow_unreadable leaves it out)"

/* Writes the path, relative to the folder, of an entry of the current directory. */
static void whole_path(const struct psti_walk *walk, const char *name,
                       char path[2 * PSTI_DATASET_FOLDER_NAME_CAP])
{
    size_t n = strlen(name);
    n = n < PSTI_DATASET_FOLDER_NAME_CAP ? n : PSTI_DATASET_FOLDER_NAME_CAP - 1;
    memcpy(path, walk->path, walk->path_nbytes);
    memcpy(path + walk->path_nbytes, name, n);
    path[walk->path_nbytes + n] = '\0';
}

enum pst_status psti_dataset_walk_leave_out(struct psti_walk *walk, const char *name,
                                            const char *kind)
{
    char path[2 * PSTI_DATASET_FOLDER_NAME_CAP], by_name[PSTI_DATASET_LEFT_OUT_CAP];
    whole_path(walk, name, path);
    walk->n_hidden += kind == NULL && name[0] == '.';
    walk->n_seen += kind == NULL && name[0] != '.';
    if (kind == NULL) {
        psti_dataset_folder_left_out_kind(path, by_name);
        kind = by_name;
    }
    psti_dataset_listing_note(walk->listing, kind, name);
    return psti_dataset_folder_note(walk->folder, PST_NOTICE_LEFT_OUT, kind, 1, path, walk->err);
}

/* Fails because of a file or folder that cannot be used, or counts it if allow_unreadable is set.
 * `status` PST_OK: os_error gives the status. */
static enum pst_status unusable(struct psti_walk *walk, const char *name, enum pst_status status,
                                int os_error, const char *what)
{
    struct psti_folder *folder = walk->folder;
    char relative[2 * PSTI_DATASET_FOLDER_NAME_CAP], shown[PST_ERROR_PATH_CAP];
    whole_path(walk, name, relative);
    walk->n_seen++;
    psti_dataset_listing_doubt(walk->listing);
    psti_format_escape(relative, strlen(relative), shown, sizeof shown);
    if (folder->allow_unreadable) {
        folder->n_skipped++;
        psti_log(PST_LOG_WARNING, "dataset", "%s: skipped %s: %s", folder->path, shown, what);
        return psti_dataset_folder_note(folder, PST_NOTICE_UNREADABLE, what, 1, relative,
                                        walk->err);
    }
    if (status == PST_OK)
        status = psti_fail_os(walk->err, os_error, "dataset", shown, -1, "%s" OR_ALLOW, what);
    else
        psti_fail_at(walk->err, status, "dataset", shown, -1, "%s" OR_ALLOW, what);
    return status;
}

static enum pst_status add_entry(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                 const char *name, bool is_folder,
                                 const struct psti_file_facts *facts)
{
    char slashed[NAME_MAX + 2];
    size_t n = strlen(name);
    if (n > NAME_MAX || walk->path_nbytes + n + 2 > PSTI_DATASET_FOLDER_NAME_CAP)
        return unusable(walk, name, PST_ERROR_LIMIT, 0,
                        "the path within the folder is longer than 4095 bytes");
    if (!psti_dataset_folder_name_ok(name, n))
        return unusable(
            walk, name, PST_ERROR_UNSUPPORTED, 0,
            "the name is not UTF-8 or has control characters (bytes shown as \\xNN): rename it");
    memcpy(slashed, name, n);
    memcpy(slashed + n, is_folder ? "/" : "", is_folder ? 2 : 1);
    return psti_dataset_entries_add(entries, slashed, facts, walk->err);
}

/* True for a data set that was packed into its own source folder. It is no class of the source, so
 * the source reads the same before and after packing, and a packing run can resume. */
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

/* True for folders that operating systems, storage devices and programs make by themselves. They
 * may hold thumbnails or deleted pictures. Names that begin with a dot are not listed here, because
 * they are hidden anyway. */
static bool is_of_system(const char *name)
{
    static const char *const names[] = {
        "__MACOSX", /* in zips made by macOS */
        "$RECYCLE.BIN",
        "RECYCLER",                  /* Windows */
        "System Volume Information", /* Windows */
        "lost+found",                /* on ext4 and other file systems */
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

static enum pst_status add_folder(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                  int fd, const char *name)
{
    const struct psti_file_facts none = {0};
    if (is_of_system(name))
        return psti_dataset_walk_leave_out(walk, name, "system folder");
    if (!is_packed(fd, name))
        return add_entry(walk, entries, name, true, &none);
    psti_dataset_listing_doubt(walk->listing); /* it may be removed without a change of this
                                                * directory */
    return psti_dataset_walk_leave_out(walk, name, "data set");
}

/* Keeps the class number of a top-level link that leads nowhere, because it may have been a class
 * and the numbers of later classes must not change. Links whose names have an extension are taken
 * as files. */
static enum pst_status keep_class(struct psti_walk *walk, const char *name)
{
    size_t n = strlen(name);
    uint32_t i_class;
    enum pst_status status = psti_dataset_walk_leave_out(walk, name, "link that leads nowhere");
    if (status != PST_OK || !psti_dataset_folder_name_ok(name, n))
        return status;
    if (walk->lost_class[0] == '\0')
        psti_format_escape(name, n, walk->lost_class, sizeof walk->lost_class);
    return psti_dataset_names_intern(&walk->folder->classes, name, n, &i_class, walk->err);
}

/* True for a link: its target may change without a change of the directory. */
static bool is_link(int fd, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_LNK;
    return fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISLNK(st.st_mode);
}

/* Classifies one directory entry: a folder to enter, an image, or neither. */
static enum pst_status look_at(struct psti_walk *walk, struct psti_dataset_entries *entries, int fd,
                               const struct dirent *entry)
{
    const char *name = entry->d_name;
    bool image = psti_dataset_folder_takes(walk->folder, name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, PSTI_SAVED_FOLDER) == 0)
        return PST_OK;
    if (name[0] == '.' || (entry->d_type == DT_REG && !image))
        return psti_dataset_walk_leave_out(walk, name, NULL);
    if (entry->d_type == DT_DIR)
        return add_folder(walk, entries, fd, name);
    struct stat st;
    if (fstatat(fd, name, &st, 0) != 0) {
        int os_error = errno;
        psti_dataset_listing_doubt(walk->listing);
        if (image)
            return unusable(walk, name, PST_OK, os_error,
                            entry->d_type == DT_LNK ? "the link leads nowhere"
                                                    : "cannot be examined");
        if (walk->depth == 0 && entry->d_type == DT_LNK && strchr(name, '.') == NULL)
            return keep_class(walk, name);
        return psti_dataset_walk_leave_out(walk, name, NULL);
    }
    if (S_ISDIR(st.st_mode))
        return add_folder(walk, entries, fd, name);
    if (!image && is_link(fd, entry))
        psti_dataset_listing_doubt(walk->listing);
    if (!image)
        return psti_dataset_walk_leave_out(walk, name, NULL);
    if (!S_ISREG(st.st_mode))
        return unusable(walk, name, PST_ERROR_UNSUPPORTED, 0, "not a regular file");
    if (faccessat(fd, name, R_OK, AT_EACCESS) != 0)
        return unusable(walk, name, PST_OK, errno, "cannot be read");
    char path[2 * PSTI_DATASET_FOLDER_NAME_CAP];
    whole_path(walk, name, path);
    const struct psti_file_facts facts = psti_dataset_folder_see(walk->folder, path, &st);
    return add_entry(walk, entries, name, false, &facts);
}

/* Reports the number of files found: those in the rows, and n in the current directory. */
static enum pst_status tell(struct psti_walk *walk, size_t n)
{
    size_t n_found = walk->files->n + n;
    walk->n_told = n_found > walk->n_told ? n_found : walk->n_told;
    return psti_dataset_listing_tell(walk->folder->listing, walk->n_told, walk->err);
}

static enum pst_status list_entries(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                    DIR *dir)
{
    enum pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK; i++) {
        if (i % ENTRIES_TOLD == 0 && (status = tell(walk, entries->n)) != PST_OK)
            return status;
        errno = psti_fault(PSTI_FAULT_READ) ? EIO : 0;
        const struct dirent *entry = errno != 0 ? NULL : readdir(dir);
        if (entry == NULL)
            return errno == 0 ? PST_OK
                              : unusable(walk, "", PST_OK, errno, "the folder cannot be listed");
        status = look_at(walk, entries, dirfd(dir), entry);
    }
    return status;
}

/* Opens the directory at walk->path and checks that it is not one of its own ancestors. *dir NULL:
 * it is left out. */
static enum pst_status open_directory(struct psti_walk *walk, DIR **dir)
{
    const char *path = walk->path_nbytes == 0 ? "." : walk->path;
    struct stat st;
    *dir = NULL;
    if (walk->depth == PSTI_DATASET_FOLDER_MAX_DEPTH)
        return unusable(walk, "", PST_ERROR_LIMIT, 0, "folders are nested deeper than 128");
    int fd = openat(walk->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return unusable(walk, "", PST_OK, errno, "the folder cannot be opened");
    if (fstat(fd, &st) != 0) {
        int os_error = errno;
        close(fd);
        return unusable(walk, "", PST_OK, os_error, "the folder cannot be examined");
    }
    for (unsigned i = 0; i < walk->depth; i++) {
        if (walk->devices[i] == st.st_dev && walk->inodes[i] == st.st_ino) {
            close(fd);
            return unusable(walk, "", PST_ERROR_UNSUPPORTED, 0,
                            "this link leads to a folder above it, a cycle without end");
        }
    }
    walk->opened = st;
    walk->devices[walk->depth] = st.st_dev;
    walk->inodes[walk->depth] = st.st_ino;
    *dir = fdopendir(fd);
    if (*dir == NULL) {
        int os_error = errno;
        close(fd);
        return unusable(walk, "", PST_OK, os_error, "the folder cannot be listed");
    }
    return PST_OK;
}

static struct psti_listing_counts counts_of(const struct psti_walk *walk)
{
    return (struct psti_listing_counts){
        .stamps = walk->folder->stamps, .n_hidden = walk->n_hidden, .n_seen = walk->n_seen};
}

/* Rejects the listing if the folder became a packed data set after its parent was listed, because
 * that does not change the parent's times. */
static enum pst_status check_packed(struct psti_walk *walk)
{
    char name[PSTI_DATASET_FOLDER_NAME_CAP];
    if (walk->path_nbytes == 0 || !psti_dataset_listing_reads(walk->listing))
        return PST_OK;
    memcpy(name, walk->path, walk->path_nbytes);
    name[walk->path_nbytes - 1] = '\0';
    return is_packed(walk->root_fd, name) ? psti_dataset_listing_reject(walk->listing, walk->err)
                                          : PST_OK;
}

/* Lists, sorts and closes the open directory at walk->path. */
static enum pst_status list_directory(struct psti_walk *walk, DIR *dir,
                                      struct psti_dataset_entries *entries)
{
    const struct psti_listing_counts before = counts_of(walk);
    enum pst_status status = check_packed(walk);
    psti_dataset_listing_begin(walk->listing, &before);
    if (status == PST_OK)
        status = list_entries(walk, entries, dir);
    closedir(dir);
    if (status == PST_OK)
        status = psti_dataset_entries_sort(entries, walk->err);
    if (status != PST_OK)
        return status;
    const struct psti_listing_counts after = counts_of(walk);
    return psti_dataset_listing_add(walk->listing, walk->path, &walk->opened, entries, &after,
                                    walk->err);
}

/* Gives the current top-level subfolder a class number, if it has none. */
static enum pst_status number_class(struct psti_walk *walk)
{
    if (walk->i_class != NO_CLASS)
        return PST_OK;
    return psti_dataset_names_intern(&walk->folder->classes, walk->class_name,
                                     strlen(walk->class_name) - 1, &walk->i_class, walk->err);
}

/* Begins a new run of labels if the class differs from that of the last row. */
static enum pst_status add_label(struct psti_walk *walk)
{
    const struct psti_label_run run = {.first = (uint32_t)walk->files->n, .number = walk->i_class};
    if (walk->labels.nbytes > 0) {
        struct psti_label_run last;
        memcpy(&last, walk->labels.bytes + walk->labels.nbytes - sizeof last, sizeof last);
        if (last.number == run.number)
            return PST_OK;
    }
    return psti_dataset_arena_add(&walk->labels, &run, sizeof run, walk->err);
}

static enum pst_status add_image(struct psti_walk *walk, const struct psti_file_facts *facts)
{
    if (walk->files->n >= UINT32_MAX - 1)
        return psti_fail(walk->err, PST_ERROR_LIMIT, "dataset",
                         "more than 4294967294 files: pack them into data sets instead");
    if (walk->depth == 0)
        walk->n_top_images++;
    enum pst_status status = walk->depth > 0 ? number_class(walk) : PST_OK;
    if (status == PST_OK)
        status = add_label(walk);
    if (status == PST_OK)
        status = psti_dataset_files_add(walk->files, walk->path, facts, walk->err);
    return status;
}

static enum pst_status walk_folder(struct psti_walk *walk);

/* Decides whether a top-level subfolder without images is a class. */
static enum pst_status settle_empty(struct psti_walk *walk, const char *name)
{
    walk->path[walk->path_nbytes] = '\0';
    if (walk->n_hidden > 0 && walk->n_seen == 0)
        return psti_dataset_walk_leave_out(walk, name, "folder of hidden files");
    if (walk->empty_class[0] == '\0')
        psti_format_escape(name, strlen(name) - 1, walk->empty_class,
                                   sizeof walk->empty_class);
    return number_class(walk);
}

/* Walks the sub-folder `name` of the directory at walk->path, whose length was path_nbytes. */
static enum pst_status enter(struct psti_walk *walk, const char *name, size_t path_nbytes)
{
    size_t n = strlen(name), n_before = walk->files->n;
    if (walk->depth == 0) {
        walk->i_class = NO_CLASS;
        walk->class_name = name;
        walk->n_hidden = walk->n_seen = 0;
    }
    walk->path_nbytes = path_nbytes + n;
    walk->depth++;
    enum pst_status status = walk_folder(walk);
    walk->depth--;
    walk->path_nbytes = path_nbytes;
    if (status == PST_OK && walk->depth == 0 && walk->files->n == n_before)
        status = settle_empty(walk, name);
    return status;
}

/* Adds the notices of a directory, which were stored when it was listed. */
static enum pst_status replay_notices(struct psti_walk *walk,
                                      const struct psti_listing_cursor *cursor)
{
    const struct psti_listing_directory *directory = &cursor->directory;
    const uint8_t *at = cursor->text + walk->path_nbytes + 1;
    enum pst_status status = PST_OK;
    walk->folder->stamps += directory->stamps;
    walk->n_hidden += (size_t)directory->n_hidden;
    walk->n_seen += (size_t)directory->n_seen;
    for (uint32_t i = 0; status == PST_OK && i < directory->n_notices; i++) {
        char path[2 * PSTI_DATASET_FOLDER_NAME_CAP];
        const char *name, *first;
        uint64_t count;
        psti_format_listing_notice(&at, &count, &name, &first);
        whole_path(walk, first, path);
        status = psti_dataset_folder_note(walk->folder, PST_NOTICE_LEFT_OUT, name, count, path,
                                          walk->err);
    }
    return status;
}

/* Takes the entries of the directory at walk->path from the cursor, and closes the cursor. */
static enum pst_status walk_cursor(struct psti_walk *walk, struct psti_listing_cursor *cursor)
{
    size_t path_nbytes = walk->path_nbytes;
    enum pst_status status = PST_OK;
    for (size_t i = 0; status == PST_OK; i++) {
        struct psti_file_facts facts;
        const char *name;
        status = i % ENTRIES_TOLD == 0 ? tell(walk, 0) : PST_OK;
        if (status == PST_OK)
            status = psti_dataset_listing_next(walk->listing, cursor, &name, &facts, walk->err);
        if (status != PST_OK || name == NULL)
            break;
        size_t n = strlen(name);
        if (path_nbytes + n + 2 > PSTI_DATASET_FOLDER_NAME_CAP) {
            status = psti_dataset_listing_reject(walk->listing, walk->err);
            break;
        }
        memcpy(walk->path + path_nbytes, name, n + 1);
        status = name[n - 1] == '/' ? enter(walk, name, path_nbytes) : add_image(walk, &facts);
        walk->path[path_nbytes] = '\0';
    }
    psti_dataset_listing_done(cursor);
    return status;
}

/* Takes the entries of the directory at walk->path from the saved listing. */
static enum pst_status walk_saved(struct psti_walk *walk, struct psti_listing_cursor *cursor)
{
    enum pst_status status = psti_dataset_listing_keep(walk->listing, cursor, walk->err);
    if (status == PST_OK)
        status = replay_notices(walk, cursor);
    if (status == PST_OK)
        return walk_cursor(walk, cursor);
    psti_dataset_listing_done(cursor);
    return status;
}

enum pst_status psti_dataset_walk_entries(struct psti_walk *walk,
                                          struct psti_dataset_entries *entries)
{
    size_t path_nbytes = walk->path_nbytes;
    struct psti_listing_cursor cursor;
    bool is_saved = false;
    enum pst_status status = PST_OK;
    if (entries->n >= PSTI_LISTING_MANY)
        status = psti_dataset_listing_reread(walk->listing, &cursor, &is_saved, walk->err);
    if (is_saved) {
        psti_dataset_entries_free(entries);
        return walk_cursor(walk, &cursor);
    }
    for (size_t i = 0; status == PST_OK && i < entries->n; i++) {
        const char *name = psti_dataset_entries_name(entries, i);
        const struct psti_file_facts facts = psti_dataset_entries_facts(entries, i);
        size_t n = strlen(name);
        memcpy(walk->path + path_nbytes, name, n + 1);
        status = name[n - 1] == '/' ? enter(walk, name, path_nbytes) : add_image(walk, &facts);
        walk->path[path_nbytes] = '\0';
    }
    return status;
}

/* Opens the directory at walk->path. *done: it was read from the saved listing, or left out; else
 * *dir is open. */
static enum pst_status open_or_walk(struct psti_walk *walk, DIR **dir, bool *done)
{
    struct psti_listing_cursor cursor;
    enum pst_status status = open_directory(walk, dir);
    *done = status != PST_OK || *dir == NULL;
    if (*done)
        return status;
    status = psti_dataset_listing_take(walk->listing, walk->path, &walk->opened, &cursor, done,
                                       walk->err);
    if (status == PST_OK && !*done)
        return PST_OK;
    closedir(*dir);
    return status == PST_OK ? walk_saved(walk, &cursor) : status;
}

/* Walks the directory at walk->path. Recursion is limited by PSTI_DATASET_FOLDER_MAX_DEPTH, and a
 * stack frame is small. */
static enum pst_status walk_folder(struct psti_walk *walk)
{
    struct psti_dataset_entries entries = {.n = 0};
    DIR *dir;
    bool done;
    enum pst_status status = open_or_walk(walk, &dir, &done);
    if (status != PST_OK || done)
        return status;
    status = list_directory(walk, dir, &entries);
    if (status == PST_OK)
        status = psti_dataset_walk_entries(walk, &entries);
    psti_dataset_entries_free(&entries);
    return status;
}

/* If the top has so many files that a listing will be saved, begins to save it now, because that
 * may create a folder in the top and change its times. */
static enum pst_status expect_many(struct psti_walk *walk, DIR *dir)
{
    size_t worth = psti_dataset_listing_worth(walk->listing), n = 0;
    bool changed = false;
    const struct dirent *entry;
    while (n < worth && (entry = readdir(dir)) != NULL)
        n += entry->d_type != DT_DIR && psti_dataset_folder_takes(walk->folder, entry->d_name);
    rewinddir(dir);
    enum pst_status status = psti_dataset_listing_expect(walk->listing, n, &changed, walk->err);
    if (status == PST_OK && changed && fstat(dirfd(dir), &walk->opened) != 0)
        psti_dataset_listing_doubt(walk->listing);
    return status;
}

enum pst_status psti_dataset_walk_top(struct psti_walk *walk, struct psti_dataset_entries *entries,
                                      bool *done)
{
    DIR *dir;
    enum pst_status status = open_or_walk(walk, &dir, done);
    if (status != PST_OK || *done)
        return status;
    status = expect_many(walk, dir);
    if (status == PST_OK)
        return list_directory(walk, dir, entries);
    closedir(dir);
    return status;
}

enum pst_status psti_dataset_walk_run(struct psti_folder *folder, const char *below,
                                      struct psti_dataset_files *files,
                                      enum pst_status (*take)(struct psti_walk *),
                                      struct pst_error *err)
{
    /* Allocated, because its long paths are too large for a thread's stack. */
    struct psti_walk *walk = psti_calloc(1, sizeof *walk);
    if (walk == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "out of memory to scan a folder");
    walk->folder = folder;
    walk->files = files;
    walk->err = err;
    walk->listing = below[0] == '\0' ? folder->listing : NULL;
    psti_dataset_listing_pass(walk->listing, folder->is_audio);
    walk->path_nbytes = strlen(below);
    memcpy(walk->path, below, walk->path_nbytes + 1);
    walk->depth = walk->path_nbytes > 0; /* a walk below the top has no classes */
    enum pst_status status = PST_OK;
    walk->root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk->root_fd < 0) {
        status = psti_fail_os(err, errno, "dataset", NULL, -1, "the folder cannot be opened");
    } else {
        status = take(walk);
        close(walk->root_fd);
    }
    psti_dataset_arena_free(&walk->labels);
    psti_free(walk);
    return status;
}

enum pst_status psti_dataset_folder_list(struct psti_folder *folder, const char *below,
                                         struct psti_dataset_files *files, struct pst_error *err)
{
    return psti_dataset_walk_run(folder, below, files, walk_folder, err);
}
