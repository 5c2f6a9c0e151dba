/* dataset_listing.h - the saved listing of a folder, while the folder is scanned.
 *
 * A scan walks from directory to directory, each time in the same order. Of a directory whose times
 * are as the listing says it takes the entries from there; others it lists. When so many files were
 * listed that it is worth it, one process saves a new listing, of both kinds of directories. The
 * scan itself does not know what was listed and what was saved, so its result is the same.
 *
 * All functions take NULL for a state: no listing is used then. One thread, at open. */
#ifndef PST_DATASET_DATASET_LISTING_H
#define PST_DATASET_DATASET_LISTING_H

#include "dataset/folder/dataset_folder_entries.h"
#include "dataset/dataset_saved.h"
#include "format/format_listing.h"

#include <sys/stat.h>

#define PSTI_LISTING_NAME "files.pls"

struct psti_listing_state;
struct psti_listing_reader;

/* Looks for a saved listing of the folder. *state: NULL if none may be used or made.
 * PENSTOCK_LISTING_FILES says how many files must be listed for a listing to be saved; 0: none is
 * saved or used.
 *
 * wait: whom to tell; NULL: nobody. check: a saved listing is not believed, but made anew. */
enum pst_status psti_dataset_listing_open(const char *path, const struct psti_saved_wait *wait,
                                          bool check, struct psti_listing_state **state,
                                          struct pst_error *err);
/* Makes a state by which progress is told, and nothing else is done: the folder is not listed. */
enum pst_status psti_dataset_listing_open_teller(const char *path,
                                                 const struct psti_saved_wait *wait,
                                                 struct psti_listing_state **state,
                                                 struct pst_error *err);
/* What is not finished is not saved. *state becomes NULL. */
void psti_dataset_listing_close(struct psti_listing_state **state);

/* Begins a walk from the top, for images or for audio files. */
void psti_dataset_listing_pass(struct psti_listing_state *state, bool is_audio);
/* True, once, if the walk that failed must be done again: another process has saved a listing, or
 * the listing turned out to be wrong. */
bool psti_dataset_listing_again(struct psti_listing_state *state);

/* The folder turned out to have images and masks in folders of their own: nothing is saved. */
void psti_dataset_listing_pairs(struct psti_listing_state *state);
/* True if a saved listing is used in this walk. */
bool psti_dataset_listing_reads(const struct psti_listing_state *state);
/* The listing is wrong: it is given up, and the walk begins anew without it. Returns an error. */
enum pst_status psti_dataset_listing_reject(struct psti_listing_state *state,
                                            struct pst_error *err);

/* The entries of a directory, from the listing. */
struct psti_listing_cursor {
    struct psti_listing_reader *reader; /* of the file that has them */
    struct psti_listing_directory directory;
    uint64_t begin, end; /* offsets of the directory and behind it */
    uint64_t at;         /* offset of the next chunk */
    uint32_t n_chunks_left, i, i_long;
    struct psti_listing_chunk chunk;
    uint8_t *payload;                     /* NULL: no chunk was read yet */
    const char *name;                     /* the next one in the payload */
    char last[PSTI_LISTING_NAME_MAX + 1]; /* the last one of the chunk before */
    uint8_t *text;                        /* path and notices */
};
/* Takes a directory from the listing, if its times are the same. path: relative, with a slash at
 * its end; "" for the top. st: of the directory, before anything in it was looked at. *cursor is
 * closed by the caller if *taken. */
enum pst_status psti_dataset_listing_take(struct psti_listing_state *state, const char *path,
                                          const struct stat *st, struct psti_listing_cursor *cursor,
                                          bool *taken, struct pst_error *err);
/* Takes that directory over into the new listing, if one is saved. Fails as
 * psti_dataset_listing_add does. */
enum pst_status psti_dataset_listing_keep(struct psti_listing_state *state,
                                          const struct psti_listing_cursor *cursor,
                                          struct pst_error *err);
/* Gives the next entry. *name: NULL at the end. A folder ends with a slash. */
enum pst_status psti_dataset_listing_next(struct psti_listing_state *state,
                                          struct psti_listing_cursor *cursor, const char **name,
                                          struct psti_file_facts *facts, struct pst_error *err);
void psti_dataset_listing_done(struct psti_listing_cursor *cursor);

/* Collects what is met in a directory that is listed now: begin, note ..., add. */
struct psti_listing_counts {
    uint64_t stamps, n_hidden, n_seen;
};
void psti_dataset_listing_begin(struct psti_listing_state *state,
                                const struct psti_listing_counts *before);
/* An entry was left out, with that notice. */
void psti_dataset_listing_note(struct psti_listing_state *state, const char *kind,
                               const char *first);
/* The directory has something that its times do not tell. */
void psti_dataset_listing_doubt(struct psti_listing_state *state);
/* The directory was listed; its entries are sorted. May wait for another process. If the call
 * fails, psti_dataset_listing_again says whether to begin anew. */
enum pst_status psti_dataset_listing_add(struct psti_listing_state *state, const char *path,
                                         const struct stat *st,
                                         const struct psti_dataset_entries *entries,
                                         const struct psti_listing_counts *after,
                                         struct pst_error *err);
/* From so many entries on they are read from the listing that is being saved, so that memory has
 * them once. */
enum { PSTI_LISTING_MANY = 32768 };
/* Right after psti_dataset_listing_add: gives the entries of that directory from the new listing.
 * *opened false: they are not there. *cursor is closed by the caller if *opened. Fails as
 * psti_dataset_listing_add does. */
enum pst_status psti_dataset_listing_reread(struct psti_listing_state *state,
                                            struct psti_listing_cursor *cursor, bool *opened,
                                            struct pst_error *err);
/* Before the top is listed, which has at least n entries: begins to save if that is worth it, so
 * that the folder of the listing is made before the top is looked at. *changed: it was made just
 * now, so the top's times are others. */
enum pst_status psti_dataset_listing_expect(struct psti_listing_state *state, size_t n,
                                            bool *changed, struct pst_error *err);
/* How many files are worth it. 0: no listing is used. */
size_t psti_dataset_listing_worth(const struct psti_listing_state *state);
/* Tells the number of files found so far. PST_ERROR_CANCELLED. */
enum pst_status psti_dataset_listing_tell(struct psti_listing_state *state, size_t n_files,
                                          struct pst_error *err);

/* After the walk. True if everything is as the listing says: these are its identities. */
bool psti_dataset_listing_identities(const struct psti_listing_state *state, uint8_t id[16],
                                     uint8_t files_identity[16]);
/* Saves the new listing, if one was begun. That it cannot be saved is a line in the log. */
void psti_dataset_listing_finish(struct psti_listing_state *state, uint64_t n_files,
                                 const uint8_t id[16], const uint8_t files_identity[16]);

#endif
