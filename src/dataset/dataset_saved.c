/* dataset_saved.c - the handle of a saved index: finding it, and making and publishing it by one
 * process.
 *
 * In: the folder of some data, and a name. Out: an open index, or the path of a file to write the
 * index to. The index appears under its name only when it is completely on the disk. One thread
 * uses a handle. */
#include "dataset/dataset_saved_int.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fault.h"
#include "base/files/output.h"
#include "format/format_sums.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_NS (INT64_C(600) * 1000000000)
#define LOST_NS (INT64_C(120) * 1000000000)

enum pst_status psti_dataset_saved_open(const char *folder, const char *name,
                                        const struct psti_saved_wait *wait, struct psti_saved **out,
                                        struct pst_error *err)
{
    struct psti_saved *saved = psti_calloc(1, sizeof *saved);
    *out = saved;
    if (saved == NULL || (saved->folder = psti_strdup(folder)) == NULL) {
        psti_free(saved);
        *out = NULL;
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory to look for an index");
    }
    saved->dir = -1;
    if (wait != NULL)
        saved->wait = *wait;
    if (saved->wait.patience_ns == 0)
        saved->wait.patience_ns = PATIENCE_NS;
    if (saved->wait.lost_ns == 0)
        saved->wait.lost_ns = LOST_NS;
    enum pst_status status = psti_dataset_saved_set_places(saved, err);
    if (status == PST_OK && strlen(name) >= sizeof saved->name)
        status = psti_fail(err, PST_ERROR_LIMIT, "dataset", "the name of an index is too long");
    if (status != PST_OK) {
        psti_dataset_saved_close(out);
        return status;
    }
    memcpy(saved->name, name, strlen(name) + 1);
    snprintf(saved->lock_name, sizeof saved->lock_name, "%s.lock", name);
    return PST_OK;
}

void psti_dataset_saved_close(struct psti_saved **saved)
{
    if (saved == NULL || *saved == NULL)
        return;
    psti_dataset_saved_end(*saved);
    psti_free((*saved)->folder);
    psti_free(*saved);
    *saved = NULL;
}

int psti_dataset_saved_find(struct psti_saved *saved, unsigned i_place, struct stat *st,
                            const char **path)
{
    *path = psti_dataset_saved_show(saved, i_place, saved->name);
    return psti_dataset_saved_open_index(saved, i_place, st, &saved->places[i_place].seen);
}

static bool is_left_over(const struct psti_saved *saved, const char *name)
{
    static const char *const ends[] = {".tmp-", ".dead-", ".now-", PSTI_SUMS_SUFFIX};
    size_t n = strlen(saved->name);
    if (strncmp(name, saved->name, n) != 0)
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strncmp(name + n, ends[i], strlen(ends[i])) == 0)
            return true;
    return false;
}

/* Removes files of makers that were killed, and checksum files of the index that is about to be
 * replaced. This process holds the lock, so no other maker is alive. */
static void remove_left_overs(const struct psti_saved *saved)
{
    int fd = openat(saved->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL)
        if (is_left_over(saved, entry->d_name))
            unlinkat(saved->dir, entry->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

static void close_dir(struct psti_saved *saved)
{
    if (saved->dir >= 0)
        close(saved->dir);
    saved->dir = -1;
}

/* Takes the lock at the first place that is not left out and is writable. *os_error: 0: this
 * process is the maker; EEXIST: another process is, at saved->i_place. In both cases saved->dir
 * stays open. Other values say why no place can be used. */
static void take_lock(struct psti_saved *saved, int *os_error)
{
    *os_error = ENOENT;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++) {
        bool made = false;
        if (saved->places[i].is_left_out)
            continue;
        saved->i_place = i;
        saved->dir = psti_dataset_saved_open_place(saved, i, &made);
        int failed = saved->dir < 0 ? errno : psti_dataset_saved_lock(saved);
        if (saved->dir >= 0 && (failed == 0 || failed == EEXIST)) {
            *os_error = failed;
            return;
        }
        if (made)
            rmdir(saved->places[i].path);
        close_dir(saved);
        if (failed != ENOENT)
            *os_error = failed;
    }
}

static void become_maker(struct psti_saved *saved)
{
    saved->is_maker = true;
    remove_left_overs(saved);
    snprintf(saved->temporary_name, sizeof saved->temporary_name, "%s.tmp-%016" PRIx64, saved->name,
             saved->note.token);
    snprintf(saved->temporary, sizeof saved->temporary, "%s/%s", saved->places[saved->i_place].path,
             saved->temporary_name);
}

enum pst_status psti_dataset_saved_begin(struct psti_saved *saved, enum psti_saved_turn *turn,
                                         struct pst_error *err)
{
    *turn = PSTI_SAVED_LOOK;
    saved->told_ns = saved->logged_ns = 0;
    for (;;) {
        int os_error;
        enum pst_status status = PST_OK;
        psti_dataset_saved_name_maker(saved);
        take_lock(saved, &os_error);
        if (os_error != 0 && os_error != EEXIST)
            return psti_fail_os(err, os_error, "dataset", saved->folder, -1,
                                "an index can be saved neither beside the data nor below "
                                "PENSTOCK_CACHE_DIR");
        if (os_error == EEXIST) {
            status = psti_dataset_saved_wait(saved, err);
            close_dir(saved);
        } else {
            become_maker(saved);
        }
        /* Another process may have made the index before this one got the lock. */
        bool changed = status == PST_OK && psti_dataset_saved_changed(saved);
        if (status == PST_OK && !changed && os_error == EEXIST)
            continue;
        if (status == PST_OK && !changed)
            *turn = PSTI_SAVED_MAKE;
        else
            psti_dataset_saved_end(saved);
        return status;
    }
}

const char *psti_dataset_saved_temporary(const struct psti_saved *saved)
{
    return saved->temporary;
}

bool psti_dataset_saved_is_beside(const struct psti_saved *saved)
{
    return saved->is_maker && saved->i_place == 0;
}

bool psti_dataset_saved_has_fine_times(const struct psti_saved *saved)
{
    return saved->has_fine_times;
}

int64_t psti_dataset_saved_skew_ns(const struct psti_saved *saved) { return saved->skew_ns; }

enum pst_status psti_dataset_saved_create(struct psti_saved *saved, int *fd, struct pst_error *err)
{
    *fd = psti_fault(PSTI_FAULT_WRITE)
              ? (errno = ENOSPC, -1)
              : openat(saved->dir, saved->temporary_name,
                       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return *fd >= 0 ? PST_OK
                    : psti_fail_os(err, errno, "dataset", saved->temporary, -1,
                                   "cannot make the file of an index");
}

enum pst_status psti_dataset_saved_tell(struct psti_saved *saved,
                                        const struct pst_progress *progress, struct pst_error *err)
{
    if (saved->is_maker) {
        saved->note.n_done = progress->n_done;
        saved->note.n_total = progress->n_total;
        if (psti_clock_ns() - saved->beat_ns >= 1000000000)
            psti_dataset_saved_beat(saved);
    }
    return psti_dataset_saved_report(saved, progress, NULL, err);
}

/* Renames the temporary file to the index's name. Returns 0 or errno. */
static int put_in_place(struct psti_saved *saved)
{
    int fd =
        openat(saved->dir, saved->temporary_name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int failed = fd < 0 ? errno : 0;
    if (failed == 0 && (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1) : fsync(fd)) != 0)
        failed = errno;
    if (fd >= 0 && close(fd) != 0 && failed == 0)
        failed = errno;
    if (failed == 0 && (psti_fault(PSTI_FAULT_WRITE) ? (errno = ENOSPC, -1)
                                                     : renameat(saved->dir, saved->temporary_name,
                                                                saved->dir, saved->name)) != 0)
        failed = errno;
    return failed == 0 ? psti_sync_directory(saved->dir, ".") : failed;
}

enum pst_status psti_dataset_saved_publish(struct psti_saved *saved, struct pst_error *err)
{
    struct stat st;
    unsigned i_place = saved->i_place;
    if (!saved->is_maker)
        return psti_fail(err, PST_ERROR_INTERNAL, "dataset", "an index without a maker");
    psti_dataset_saved_beat(saved);
    if (saved->is_lost) {
        psti_dataset_saved_end(saved);
        return psti_fail_at(err, PST_ERROR_BUSY, "dataset",
                            psti_dataset_saved_show(saved, i_place, saved->name), -1,
                            "another process took this one for dead, and makes the index");
    }
    int failed = put_in_place(saved);
    psti_dataset_saved_end(saved);
    if (failed != 0)
        return psti_fail_os(err, failed, "dataset",
                            psti_dataset_saved_show(saved, i_place, saved->name), -1,
                            "cannot save the index");
    int fd = psti_dataset_saved_open_index(saved, i_place, &st, &saved->places[i_place].seen);
    if (fd >= 0)
        close(fd);
    return PST_OK;
}

void psti_dataset_saved_end(struct psti_saved *saved)
{
    /* A forked child has a copy of the handle, but does not own the lock. */
    if (saved->is_maker && saved->note.pid == (uint64_t)getpid()) {
        unlinkat(saved->dir, saved->temporary_name, 0);
        psti_dataset_saved_unlock(saved);
    }
    saved->is_maker = false;
    close_dir(saved);
}

bool psti_dataset_saved_elsewhere(struct psti_saved *saved)
{
    psti_dataset_saved_end(saved);
    if (saved->places[saved->i_place].is_left_out)
        return false;
    saved->places[saved->i_place].is_left_out = true;
    for (unsigned i = 0; i < PSTI_SAVED_N_PLACES; i++)
        if (!saved->places[i].is_left_out && saved->places[i].path[0] != '\0')
            return true;
    return false;
}
