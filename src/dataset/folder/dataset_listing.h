/* dataset_listing.h - the saved listing of a folder, used while the folder is scanned.
 *
 * A scan walks through the directories, each time in the same order. If a directory's times are
 * those in the listing, its entries come from the listing; else the directory is listed. Once many
 * files were listed, one process saves a new listing of all directories. The scan gets the same
 * result whether an entry came from the listing or from the directory.
 *
 * All functions accept NULL as a state: then no listing is used. One thread, at open. */
#ifndef PST_DATASET_DATASET_LISTING_H
#define PST_DATASET_DATASET_LISTING_H

#include "dataset/folder/dataset_folder_entries.h"
#include "dataset/dataset_saved.h"
#include "format/format_listing.h"

#include <sys/stat.h>

#define PSTI_LISTING_NAME "files.pls"

struct psti_listing_state;
struct psti_listing_reader;

/* Looks for a saved listing of the folder. *state: NULL if none may be used or made. The
 * environment variable PENSTOCK_LISTING_FILES is the number of listed files from which on a listing
 * is saved; 0: listings are neither saved nor used.
 *
 * wait: receives the progress; may be NULL. check: ignore a saved listing, and make a new one. */
enum pst_status psti_dataset_listing_open(const char *path, const struct psti_saved_wait *wait,
                                          bool check, struct psti_listing_state **state,
                                          struct pst_error *err);
/* Makes a state that only reports progress, for when the folder is not listed. */
enum pst_status psti_dataset_listing_open_teller(const char *path,
                                                 const struct psti_saved_wait *wait,
                                                 struct psti_listing_state **state,
                                                 struct pst_error *err);
/* Frees the state and sets *state to NULL. An unfinished listing is not saved. */
void psti_dataset_listing_close(struct psti_listing_state **state);

/* Begins a walk from the top, for images or for audio files. */
void psti_dataset_listing_pass(struct psti_listing_state *state, bool is_audio);
/* Returns true, once, if a walk that failed must be repeated: another process has saved a listing,
 * or the listing was found to be wrong. */
bool psti_dataset_listing_again(struct psti_listing_state *state);

/* Stops saving, because the folder has images and masks in separate subfolders. */
void psti_dataset_listing_pairs(struct psti_listing_state *state);
/* True if a saved listing is used in this walk. */
bool psti_dataset_listing_reads(const struct psti_listing_state *state);
/* Stops using a listing that was found to be wrong. Returns an error; the walk must begin again,
 * and will not use the listing. */
enum pst_status psti_dataset_listing_reject(struct psti_listing_state *state,
                                            struct pst_error *err);

/* Iterates over the entries of a directory in the listing. */
struct psti_listing_cursor {
    struct psti_listing_reader *reader; /* reader of the file that has the entries */
    struct psti_listing_directory directory;
    uint64_t begin, end; /* offsets of the directory's beginning and end */
    uint64_t at;         /* offset of the next chunk */
    uint32_t n_chunks_left, i, i_long;
    struct psti_listing_chunk chunk;
    uint8_t *payload;                     /* the current chunk; NULL: no chunk was read yet */
    const char *name;                     /* next name in the payload */
    char last[PSTI_LISTING_NAME_MAX + 1]; /* last name of the chunk before */
    uint8_t *text;                        /* the directory's path and notices */
};
/* Takes a directory from the listing, if its times are unchanged. path: relative, with a slash at
 * its end; "" for the top. st: stat of the directory, taken before it was read. *taken: true if so;
 * then the caller closes *cursor. */
enum pst_status psti_dataset_listing_take(struct psti_listing_state *state, const char *path,
                                          const struct stat *st, struct psti_listing_cursor *cursor,
                                          bool *taken, struct pst_error *err);
/* Copies the cursor's directory into the new listing, if one is being saved. Errors are those of
 * psti_dataset_listing_add. */
enum pst_status psti_dataset_listing_keep(struct psti_listing_state *state,
                                          const struct psti_listing_cursor *cursor,
                                          struct pst_error *err);
/* Returns the next entry. *name: NULL at the end; the name of a folder ends with a slash. */
enum pst_status psti_dataset_listing_next(struct psti_listing_state *state,
                                          struct psti_listing_cursor *cursor, const char **name,
                                          struct psti_file_facts *facts, struct pst_error *err);
void psti_dataset_listing_done(struct psti_listing_cursor *cursor);

/* Counters before or after a directory is listed. The order of calls is begin, then note for each
 * notice, then add. */
struct psti_listing_counts {
    uint64_t stamps, n_hidden, n_seen;
};
void psti_dataset_listing_begin(struct psti_listing_state *state,
                                const struct psti_listing_counts *before);
/* Stores that an entry of the current directory was left out, with this notice. */
void psti_dataset_listing_note(struct psti_listing_state *state, const char *kind,
                               const char *first);
/* Marks the current directory as one whose contents may change without its times, so later scans
 * list it again. */
void psti_dataset_listing_doubt(struct psti_listing_state *state);
/* Adds a directory that was listed; its entries are sorted. May wait for another process. If it
 * fails, psti_dataset_listing_again says whether to repeat the walk. */
enum pst_status psti_dataset_listing_add(struct psti_listing_state *state, const char *path,
                                         const struct stat *st,
                                         const struct psti_dataset_entries *entries,
                                         const struct psti_listing_counts *after,
                                         struct pst_error *err);
/* A directory with at least this many entries is read again from the listing that is being saved,
 * so its entries are in memory only once. */
enum { PSTI_LISTING_MANY = 32768 };
/* Opens a cursor on the directory that psti_dataset_listing_add has just added, in the new listing.
 * *opened: false if it is not there; if true, the caller closes *cursor. Errors are those of
 * psti_dataset_listing_add. */
enum pst_status psti_dataset_listing_reread(struct psti_listing_state *state,
                                            struct psti_listing_cursor *cursor, bool *opened,
                                            struct pst_error *err);
/* Call before the top is listed; it has at least n entries. Begins to save a listing if n is large
 * enough, so that the listing's folder is made before the top is read. *changed: that folder was
 * made now, so the times of the top have changed. */
enum pst_status psti_dataset_listing_expect(struct psti_listing_state *state, size_t n,
                                            bool *changed, struct pst_error *err);
/* Returns the number of files from which on a listing is saved. 0: no listing is used. */
size_t psti_dataset_listing_worth(const struct psti_listing_state *state);
/* Reports the number of files found so far. PST_ERROR_CANCELLED: the progress function asked for
 * it. */
enum pst_status psti_dataset_listing_tell(struct psti_listing_state *state, size_t n_files,
                                          struct pst_error *err);

/* Call after the walk. True if everything is as the listing says; the identities are then those in
 * it. */
bool psti_dataset_listing_identities(const struct psti_listing_state *state, uint8_t id[16],
                                     uint8_t files_identity[16]);
/* Saves the new listing, if one was begun. If that fails, it is only logged. */
void psti_dataset_listing_finish(struct psti_listing_state *state, uint64_t n_files,
                                 const uint8_t id[16], const uint8_t files_identity[16]);

#endif
