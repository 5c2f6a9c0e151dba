/* dataset_saved.h - indexes that Penstock saves for other programs' data: where they lie, and which
 * process makes them (docs/internals/saved-indexes.md).
 *
 * An index lies in the folder .penstock beside the data if that folder is writable, else below
 * PENSTOCK_CACHE_DIR. Readers look in both places. An index or folder of another user is trusted
 * only if that user is root or the owner of the data, because others could plant a false one.
 *
 * Among the processes of all hosts, one makes the index (the maker), and the others wait. The order
 * of calls:
 *
 *     open
 *     again: for each place: find, and use the index if it fits the data
 *     begin: LOOK: go to "again"; MAKE: write the file `temporary`, call tell meanwhile
 *     publish, or end
 *     close
 *
 * If a maker is taken for dead by mistake, there may be two. That only costs time: each writes its
 * own file, and the index is complete after either rename.
 *
 * One thread uses a handle at a time. */
#ifndef PST_DATASET_DATASET_SAVED_H
#define PST_DATASET_DATASET_SAVED_H

#include <penstock/dataset.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;
struct psti_saved;

#define PSTI_SAVED_FOLDER ".penstock"

enum {
    PSTI_SAVED_NAME_CAP = 128, /* longest name of an index, with its NUL */
    PSTI_SAVED_N_PLACES = 2,   /* 0: beside the data; 1: below PENSTOCK_CACHE_DIR */
};

/* How to wait, and whom to report progress to. All zero: the defaults. */
struct psti_saved_wait {
    /* Called several times a second by the maker and by processes that wait for it. If it returns
     * anything but 0, the call ends with PST_ERROR_CANCELLED. NULL: the log gets a line every few
     * seconds. */
    pst_progress_fn progress;
    void *ctx;
    /* Nanoseconds without reported progress of the maker after which waiting processes give up. 0:
     * 600 s. */
    int64_t patience_ns;
    /* Nanoseconds after which a maker on another host that has not touched its lock counts as dead.
     * 0: 120 s. */
    int64_t lost_ns;
};

enum psti_saved_turn {
    PSTI_SAVED_LOOK, /* another process has made the index: look for it again */
    PSTI_SAVED_MAKE, /* this process must make the index; others wait until it calls publish or
                      * end */
};

/* True if an index of that file's owner is trusted: root, this process's user, or the owner of the
 * data. Other users could plant a false index. data_owner: NULL: not known. */
bool psti_dataset_saved_owner_counts(const struct stat *st, const uid_t *data_owner);

/* Makes a handle; nothing on the disk changes.
 *
 * folder: absolute path of the folder of the data; copied. name: name of the index, without a
 * slash, not beginning with a dot; copied. wait: copied; NULL: the defaults.
 *
 * PST_ERROR_LIMIT: a path is too long. PST_ERROR_MEMORY. */
enum pst_status psti_dataset_saved_open(const char *folder, const char *name,
                                        const struct psti_saved_wait *wait, struct psti_saved **out,
                                        struct pst_error *err);
/* Calls psti_dataset_saved_end, frees the handle, and sets *saved to NULL, which it may be
 * already. */
void psti_dataset_saved_close(struct psti_saved **saved);

/* Opens the index at a place for reading, and remembers which file it was. Returns a descriptor
 * that the caller closes; -1: there is no trusted index. *path: for messages; owned by the handle,
 * valid until the next call. */
int psti_dataset_saved_find(struct psti_saved *saved, unsigned i_place, struct stat *st,
                            const char **path);

/* Becomes the maker, or waits for the maker. Fails if no file can be made at either place.
 *
 * PST_ERROR_BUSY: the maker reported no progress for too long; the message names it.
 * PST_ERROR_CANCELLED: wait.progress asked for it.
 * PST_ERROR_NOT_FOUND: there is no place.
 * PST_ERROR_NO_SPACE, PST_ERROR_IO. */
enum pst_status psti_dataset_saved_begin(struct psti_saved *saved, enum psti_saved_turn *turn,
                                         struct pst_error *err);
/* Returns the path of the file that the maker must write, at the place where the index will lie. No
 * file has that name yet. Owned by the handle, until it ends. */
const char *psti_dataset_saved_temporary(const struct psti_saved *saved);
/* Creates the temporary file. *fd is for writing, and the caller closes it. */
enum pst_status psti_dataset_saved_create(struct psti_saved *saved, int *fd, struct pst_error *err);
/* True if the maker's place is the folder beside the data. */
bool psti_dataset_saved_is_beside(const struct psti_saved *saved);
/* True if the maker's file system stores times finer than seconds, as begin has found. */
bool psti_dataset_saved_has_fine_times(const struct psti_saved *saved);
/* Returns how many nanoseconds the clock of the maker's file system is ahead of CLOCK_REALTIME, as
 * begin measured it. */
int64_t psti_dataset_saved_skew_ns(const struct psti_saved *saved);
/* Reports the maker's progress. It is cheap: most calls only read the clock. The maker must call it
 * every few seconds, to show waiting processes that it is alive. Allowed in any state: without the
 * lock, it only calls the progress function.
 *
 * PST_ERROR_CANCELLED: wait.progress asked for it. */
enum pst_status psti_dataset_saved_tell(struct psti_saved *saved,
                                        const struct pst_progress *progress, struct pst_error *err);
/* Syncs the temporary file, renames it to the index's name, and releases the lock.
 *
 * PST_ERROR_BUSY: another process has taken over, so the file was removed.
 * PST_ERROR_NO_SPACE, PST_ERROR_IO: the file was removed too. */
enum pst_status psti_dataset_saved_publish(struct psti_saved *saved, struct pst_error *err);
/* Releases the lock. Removes the temporary file if it was not published. Allowed in any state. */
void psti_dataset_saved_end(struct psti_saved *saved);
/* Call it after writing at a place failed: ends, and leaves that place out, so that the next begin
 * takes the other place. False: there is no other place. */
bool psti_dataset_saved_elsewhere(struct psti_saved *saved);

#endif
