/* dataset_saved_int.h - inside of the handle of a saved index: its places, and its lock. */
#ifndef PST_DATASET_DATASET_SAVED_INT_H
#define PST_DATASET_DATASET_SAVED_INT_H

#include "dataset/dataset_saved.h"

#include "format/format_lock.h"

#include <limits.h>
#include <sys/stat.h>

enum {
    PSTI_SAVED_FILE_CAP = PSTI_SAVED_NAME_CAP + 32, /* of names made of an index's name */
};

/* Which file was found; all zero: none. */
struct psti_saved_seen {
    uint64_t device, inode, nbytes;
    int64_t mtime_s, mtime_ns;
};

struct psti_saved_place {
    char path[PATH_MAX]; /* of the folder; "": there is no such place */
    bool is_left_out;    /* begin does not take it */
    struct psti_saved_seen seen;
};

struct psti_saved {
    char *folder;
    char name[PSTI_SAVED_NAME_CAP];
    struct psti_saved_wait wait;
    bool has_owner;
    uid_t owner; /* of `folder` */
    struct psti_saved_place places[PSTI_SAVED_N_PLACES];
    char shown[PATH_MAX + PSTI_SAVED_FILE_CAP];     /* a path for messages */
    char temporary[PATH_MAX + PSTI_SAVED_FILE_CAP]; /* while this process is the maker */
    char lock_name[PSTI_SAVED_FILE_CAP], temporary_name[PSTI_SAVED_FILE_CAP];
    /* The maker: */
    bool is_maker, is_lost; /* is_lost: another process has taken over */
    unsigned i_place;
    int dir;                    /* open folder of that place; -1: none */
    struct psti_lock_note note; /* of this process */
    int64_t skew_ns;
    bool has_fine_times;
    int64_t told_ns, beat_ns, logged_ns; /* psti_clock_ns when it was done last */
};

/* dataset_saved_place.c */

/* Sets the paths of the places. */
enum pst_status psti_dataset_saved_set_places(struct psti_saved *saved, struct pst_error *err);
/* True if what the owner of `st` wrote at that place counts. */
bool psti_dataset_saved_trusts(const struct psti_saved *saved, unsigned i_place,
                               const struct stat *st);
/* Opens the folder of a place, if it counts. *made: NULL: it is not made if it is missing; else it
 * is, and *made says so. Returns -1 with errno. */
int psti_dataset_saved_open_place(struct psti_saved *saved, unsigned i_place, bool *made);
/* Opens the index at a place. Returns -1 if there is none that counts; *seen is all zero then. */
int psti_dataset_saved_open_index(struct psti_saved *saved, unsigned i_place, struct stat *st,
                                  struct psti_saved_seen *seen);
/* True if another index lies at some place than find has seen. */
bool psti_dataset_saved_changed(struct psti_saved *saved);
/* Writes the path of a file at a place to saved->shown. */
const char *psti_dataset_saved_show(struct psti_saved *saved, unsigned i_place, const char *name);

/* dataset_saved_lock.c */

/* Fills saved->note with what names this process. */
void psti_dataset_saved_name_maker(struct psti_saved *saved);
/* Makes the lock file in saved->dir. Returns 0 or errno, EEXIST: another maker has it. */
int psti_dataset_saved_lock(struct psti_saved *saved);
/* Waits until nobody has the lock in saved->dir, which is that of saved->i_place. Removes the lock
 * of a dead maker. A lock that does not count leaves the place out. */
enum pst_status psti_dataset_saved_wait(struct psti_saved *saved, struct pst_error *err);
/* Touches the lock. Sets is_lost if another process has taken over. */
void psti_dataset_saved_beat(struct psti_saved *saved);
/* Removes the lock, if it is this process's. */
void psti_dataset_saved_unlock(struct psti_saved *saved);
/* Calls progress, or writes to the log, if it is time. note: of the maker that is waited for. NULL:
 * this process is the maker. */
enum pst_status psti_dataset_saved_report(struct psti_saved *saved,
                                          const struct pst_progress *progress,
                                          const struct psti_lock_note *note, struct pst_error *err);

#endif
