/* dataset_saved_int.h - private parts of the handle of a saved index: its places, and its lock. */
#ifndef PST_DATASET_DATASET_SAVED_INT_H
#define PST_DATASET_DATASET_SAVED_INT_H

#include "dataset/dataset_saved.h"

#include "format/format_lock.h"

#include <limits.h>
#include <sys/stat.h>

enum {
    PSTI_SAVED_FILE_CAP = PSTI_SAVED_NAME_CAP + 32, /* longest file name made of an index's name */
};

/* Identifies the index file that was found; all zero: none. */
struct psti_saved_seen {
    uint64_t device, inode, nbytes;
    int64_t mtime_s, mtime_ns;
};

struct psti_saved_place {
    char path[PATH_MAX]; /* path of the folder that may hold saved indexes; "": there is no such
                          * folder */
    bool is_left_out;    /* true if begin does not use this folder */
    struct psti_saved_seen seen;
};

struct psti_saved {
    char *folder;
    char name[PSTI_SAVED_NAME_CAP];
    struct psti_saved_wait wait;
    bool has_owner;
    uid_t owner; /* user that owns `folder` */
    struct psti_saved_place places[PSTI_SAVED_N_PLACES];
    char shown[PATH_MAX + PSTI_SAVED_FILE_CAP];     /* buffer for a path in messages */
    char temporary[PATH_MAX + PSTI_SAVED_FILE_CAP]; /* set while this process is the maker */
    char lock_name[PSTI_SAVED_FILE_CAP], temporary_name[PSTI_SAVED_FILE_CAP];
    /* State of the maker. */
    bool is_maker, is_lost; /* is_lost: another process has taken over */
    unsigned i_place;
    int dir;                    /* descriptor of the folder i_place; -1: none is open */
    struct psti_lock_note note; /* what this process writes to the lock */
    int64_t skew_ns;
    bool has_fine_times;
    int64_t told_ns, beat_ns, logged_ns; /* psti_clock_ns of the last report, lock update and log
                                          * line */
};

/* dataset_saved_place.c */

/* Sets the paths of both places. */
enum pst_status psti_dataset_saved_set_places(struct psti_saved *saved, struct pst_error *err);
/* True if a file with this owner is trusted at that place. */
bool psti_dataset_saved_trusts(const struct psti_saved *saved, unsigned i_place,
                               const struct stat *st);
/* Opens the folder of a place, if its owner is trusted. made: NULL: a missing folder is not made.
 * Else it is made, and *made tells that. Returns -1 with errno. */
int psti_dataset_saved_open_place(struct psti_saved *saved, unsigned i_place, bool *made);
/* Opens the index at a place. Returns -1 if there is no trusted one; *seen is then all zero. */
int psti_dataset_saved_open_index(struct psti_saved *saved, unsigned i_place, struct stat *st,
                                  struct psti_saved_seen *seen);
/* True if an index at some place differs from the one that find has seen there. */
bool psti_dataset_saved_changed(struct psti_saved *saved);
/* Writes the path of a file at a place to saved->shown, for messages, and returns it. */
const char *psti_dataset_saved_show(struct psti_saved *saved, unsigned i_place, const char *name);

/* dataset_saved_lock.c */

/* Fills saved->note with the identity of this process and a new token. */
void psti_dataset_saved_name_maker(struct psti_saved *saved);
/* Creates the lock file in saved->dir. Returns 0 or errno; EEXIST: another maker has the lock. */
int psti_dataset_saved_lock(struct psti_saved *saved);
/* Waits until nobody holds the lock in saved->dir, the folder of place saved->i_place. Removes the
 * lock of a dead maker. If the lock's owner is not trusted, the place is left out. */
enum pst_status psti_dataset_saved_wait(struct psti_saved *saved, struct pst_error *err);
/* Updates the lock to show that this process is alive. Sets is_lost if another process has taken
 * over. */
void psti_dataset_saved_beat(struct psti_saved *saved);
/* Removes the lock, if it is that of this process. */
void psti_dataset_saved_unlock(struct psti_saved *saved);
/* Calls the progress function, or writes to the log, if enough time has passed. note: the maker
 * that is waited for; NULL: this process is the maker. */
enum pst_status psti_dataset_saved_report(struct psti_saved *saved,
                                          const struct pst_progress *progress,
                                          const struct psti_lock_note *note, struct pst_error *err);

#endif
