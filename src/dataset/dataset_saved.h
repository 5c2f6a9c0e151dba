/* dataset_saved.h - indexes that Penstock saves of other people's data: where they lie, and who
 * makes them (docs/internals/saved-indexes.md).
 *
 * An index lies in the folder .penstock beside the data, if files can be made there. Else it lies
 * below PENSTOCK_CACHE_DIR. Both places are looked at. An index or a folder of another user counts
 * only if the user is root or the owner of the data, because others could lie.
 *
 * One process of all hosts makes an index; the others wait for it. The order of calls:
 *
 *     open
 *     again: for each place: find, and use the index if it fits the data
 *     begin: LOOK: go to "again"; MAKE: write the file `temporary`, call tell meanwhile
 *     publish, or end
 *     close
 *
 * Two makers at once are possible, if one is taken for dead and is not. That costs time only: each
 * writes a file of its own, and the index is whole after either rename.
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
    PSTI_SAVED_NAME_CAP = 128, /* of an index's name, with its NUL */
    PSTI_SAVED_N_PLACES = 2,   /* 0: beside the data; 1: below PENSTOCK_CACHE_DIR */
};

/* How to wait, and whom to tell. Zero: the defaults. */
struct psti_saved_wait {
    /* Called some times a second, by the maker and by those who wait for it. A return other than 0
     * ends the call with PST_ERROR_CANCELLED. NULL: the log gets a line every few seconds. */
    pst_progress_fn progress;
    void *ctx;
    /* Those who wait give up if the maker has told no progress for so long. 0: 600 s. */
    int64_t patience_ns;
    /* A maker on another host is dead if it has not touched its lock for so long. 0: 120 s. */
    int64_t lost_ns;
};

enum psti_saved_turn {
    PSTI_SAVED_LOOK, /* another process has made the index meanwhile */
    PSTI_SAVED_MAKE, /* this process is the maker, until publish or end */
};

/* True if an index of that file's owner counts: of root, this process's user, or the owner of the
 * data. Others could lie about what lies where. data_owner: NULL: not known. */
bool psti_dataset_saved_owner_counts(const struct stat *st, const uid_t *data_owner);

/* Makes a handle. Nothing on the disk changes.
 *
 * folder: the absolute path of the folder of the data. Copied.
 * name: of the index, without a slash, not beginning with a point. Copied.
 * wait: NULL: the defaults. Copied.
 *
 * PST_ERROR_LIMIT: a path is too long. PST_ERROR_MEMORY. */
enum pst_status psti_dataset_saved_open(const char *folder, const char *name,
                                        const struct psti_saved_wait *wait, struct psti_saved **out,
                                        struct pst_error *err);
/* Ends, and frees the handle. *saved becomes NULL. NULL is fine. */
void psti_dataset_saved_close(struct psti_saved **saved);

/* Opens the index that lies at a place, for reading, and remembers which file that was. Returns a
 * descriptor, which is the caller's to close; -1: there is none that counts. *path: for messages;
 * the handle's, until the next call. */
int psti_dataset_saved_find(struct psti_saved *saved, unsigned i_place, struct stat *st,
                            const char **path);

/* Becomes the maker, or waits for it. If no file can be made at either place, that is the error.
 *
 * PST_ERROR_BUSY: the maker told no progress for too long; the text names it.
 * PST_ERROR_CANCELLED: wait.progress said so.
 * PST_ERROR_NOT_FOUND: there is no place. PST_ERROR_NO_SPACE, PST_ERROR_IO. */
enum pst_status psti_dataset_saved_begin(struct psti_saved *saved, enum psti_saved_turn *turn,
                                         struct pst_error *err);
/* Path of the file that the maker writes, at the place where the index shall lie. Nothing has the
 * name at first. The handle's, until it ends. */
const char *psti_dataset_saved_temporary(const struct psti_saved *saved);
/* Makes that file. *fd, for writing, is the caller's to close. */
enum pst_status psti_dataset_saved_create(struct psti_saved *saved, int *fd, struct pst_error *err);
/* True if the maker's place is beside the data. */
bool psti_dataset_saved_is_beside(const struct psti_saved *saved);
/* True if that file system keeps times finer than seconds, as far as begin saw. */
bool psti_dataset_saved_has_fine_times(const struct psti_saved *saved);
/* What the clock of the maker's file system is ahead of CLOCK_REALTIME, as begin found it. */
int64_t psti_dataset_saved_skew_ns(const struct psti_saved *saved);
/* Tells how far the maker is. It is cheap: most calls only look at the clock. At least one call in
 * some seconds shows the others that the maker lives. Any state: without a lock, it only calls
 * progress.
 *
 * PST_ERROR_CANCELLED: wait.progress said so. */
enum pst_status psti_dataset_saved_tell(struct psti_saved *saved,
                                        const struct pst_progress *progress, struct pst_error *err);
/* Makes the file durable, gives it the index's name, and ends.
 *
 * PST_ERROR_BUSY: another process has taken over, so the file was removed. PST_ERROR_NO_SPACE,
 * PST_ERROR_IO: it was removed, too. */
enum pst_status psti_dataset_saved_publish(struct psti_saved *saved, struct pst_error *err);
/* Gives the lock back. A file that was not published is removed. Any state. */
void psti_dataset_saved_end(struct psti_saved *saved);
/* After a failure to write at a place: ends, and leaves that place out. The next begin takes the
 * other one. False: there is no other one. */
bool psti_dataset_saved_elsewhere(struct psti_saved *saved);

#endif
