/* dataset_folder_files.c - makes rows of files that the caller names.
 *
 * In: names relative to the folder. Out: one row for each, in the caller's order. The folder is not
 * listed. Each file is examined by stat but not opened, so its form is not known yet. */
#include "dataset/folder/dataset_listing.h"

#include "base/fail.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OR_ALLOW " (allow_unreadable leaves it out)"

enum { FILES_TOLD = 1024 }; /* files between two progress reports */

struct listing {
    struct psti_folder *folder;
    struct psti_names seen; /* names so far, to detect duplicates */
    int root_fd;
    struct pst_error *err;
};

/* Fails because of a file that cannot be used, or counts it if allow_unreadable is set. */
static enum pst_status unusable(struct listing *listing, const char *name, int os_error,
                                const char *what)
{
    struct psti_folder *folder = listing->folder;
    char shown[PST_ERROR_PATH_CAP];
    psti_format_escape(name, strlen(name), shown, sizeof shown);
    if (!folder->allow_unreadable && os_error != 0)
        return psti_fail_os(listing->err, os_error, "dataset", shown, -1, "%s" OR_ALLOW, what);
    if (!folder->allow_unreadable)
        return psti_fail_at(listing->err, PST_ERROR_UNSUPPORTED, "dataset", shown, -1,
                            "%s" OR_ALLOW, what);
    folder->n_skipped++;
    psti_log(PST_LOG_WARNING, "dataset", "%s: skipped %s: %s", folder->path, shown, what);
    return psti_dataset_folder_note(folder, PST_NOTICE_UNREADABLE, what, 1, name, listing->err);
}

/* Refuses names that are a mistake of the caller, whatever allow_unreadable says. */
static enum pst_status check_name(struct listing *listing, const char *name)
{
    char shown[PST_ERROR_PATH_CAP];
    size_t n = name ? strlen(name) : 0, n_before = listing->seen.n;
    uint32_t number;
    psti_format_escape(name ? name : "", n, shown, sizeof shown);
    if (n >= PSTI_DATASET_FOLDER_NAME_CAP || !psti_dataset_folder_name_ok(name ? name : "", n))
        return psti_fail(
            listing->err, PST_ERROR_ARGUMENT, "dataset",
            "file \"%.200s\": a name is UTF-8 without control characters, of 1 to 4095 "
            "bytes",
            shown);
    if (name[0] == '/')
        return psti_fail(listing->err, PST_ERROR_ARGUMENT, "dataset",
                         "file \"%.200s\" is not relative to the folder", shown);
    enum pst_status status =
        psti_dataset_names_intern(&listing->seen, name, n, &number, listing->err);
    if (status == PST_OK && listing->seen.n == n_before)
        status = psti_fail(listing->err, PST_ERROR_ARGUMENT, "dataset",
                           "file \"%.200s\" is named twice", shown);
    return status;
}

static enum pst_status add_file(struct listing *listing, const char *name)
{
    struct psti_folder *folder = listing->folder;
    struct stat st;
    enum pst_status status = check_name(listing, name);
    if (status != PST_OK)
        return status;
    if (fstatat(listing->root_fd, name, &st, 0) != 0)
        return unusable(listing, name, errno, "cannot be examined");
    if (!S_ISREG(st.st_mode))
        return unusable(listing, name, 0, "not a regular file");
    if (faccessat(listing->root_fd, name, R_OK, AT_EACCESS) != 0)
        return unusable(listing, name, errno, "cannot be read");
    const struct psti_file_facts facts = psti_dataset_folder_see(folder, name, &st);
    return psti_dataset_files_add(&folder->files, name, &facts, listing->err);
}

enum pst_status psti_dataset_folder_take_files(struct psti_folder *folder, const char *const *files,
                                               size_t n, struct pst_error *err)
{
    struct listing listing = {.folder = folder, .err = err};
    enum pst_status status = PST_OK;
    listing.root_fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (listing.root_fd < 0)
        return psti_fail_os(err, errno, "dataset", folder->path, -1, "cannot open the folder");
    for (size_t i = 0; status == PST_OK && i < n; i++) {
        if (i % FILES_TOLD == 0)
            status = psti_dataset_listing_tell(folder->listing, i, err);
        if (status == PST_OK)
            status = add_file(&listing, files[i]);
    }
    if (status == PST_OK && folder->files.n == 0)
        status = psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "none of the files can be read");
    psti_dataset_names_free(&listing.seen);
    close(listing.root_fd);
    return status;
}
