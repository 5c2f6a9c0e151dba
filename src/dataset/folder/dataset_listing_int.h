/* dataset_listing_int.h - inside of a saved listing: its reader, its writer and their state. */
#ifndef PST_DATASET_DATASET_LISTING_INT_H
#define PST_DATASET_DATASET_LISTING_INT_H

#include "dataset/folder/dataset_listing.h"

#include "base/files/output.h"

enum { PSTI_LISTING_NOTICES_MAX = 16 }; /* maximum number of notices of one directory; a directory
                                         * with more is always listed again */

/* State of a reader of a saved listing. */
struct psti_listing_reader {
    int fd; /* -1: no listing is open */
    uint64_t nbytes;
    struct psti_listing_header header;
    struct psti_listing_end end;
    uint8_t *window; /* bytes of the file around the last read */
    uint64_t window_at;
    size_t window_n;
    uint64_t at; /* offset of the next directory */
    bool has_next;
    struct psti_listing_directory next; /* the directory at offset `at` */
    uint8_t *text;                      /* text of `next`: [PSTI_LISTING_TEXT_MAX] */
    bool is_whole;                      /* so far, this walk took all directories of the listing, in
                                         * order */
};

/* Findings in the directory that is being listed. */
struct psti_listing_met {
    struct psti_listing_counts before;
    int64_t listed_ns;
    bool list_again;
    uint32_t n;
    struct {
        uint64_t count;
        char kind[64];
        char first[PSTI_LISTING_NAME_MAX + 1];
    } notices[PSTI_LISTING_NOTICES_MAX];
};

enum psti_listing_mode {
    PSTI_LISTING_WAITS, /* few files were listed so far, so new bytes are kept in memory */
    PSTI_LISTING_SAVES,
    PSTI_LISTING_OFF, /* no listing is saved */
};

/* A range of bytes to be saved: of `pending`, or of the old listing (is_old). */
struct psti_listing_piece {
    uint64_t at, nbytes;
    bool is_old;
};

struct psti_listing_state {
    struct psti_saved *saved;
    char *path;
    size_t worth;
    bool check, is_audio, again;
    bool reload; /* with `again`: another process has saved a listing, which must be opened */
    unsigned n_again;
    uint64_t device; /* device that the top folder lies on */
    struct psti_listing_reader reader;
    struct psti_listing_met met;
    enum psti_listing_mode mode;
    struct psti_output output;
    struct psti_dataset_arena pending, pieces; /* bytes to be saved; struct psti_listing_piece for
                                                * each of their ranges */
    uint8_t *payload;                          /* the chunk that is being built */
    uint64_t put_at;                           /* offset of the directory that was saved last */
    struct psti_listing_reader written;        /* reads back the listing that is being saved */
    size_t n_listed;                           /* number of files in the directories that were
                                                * listed */
    uint64_t n_directories;
};

/* dataset_listing_read.c */

/* Opens the newest listing that is complete. Without one, reader->fd is -1. */
enum pst_status psti_dataset_reader_open(struct psti_listing_state *state, struct pst_error *err);
void psti_dataset_reader_close(struct psti_listing_reader *reader);
/* Moves back to the first directory. */
void psti_dataset_reader_rewind(struct psti_listing_reader *reader);
/* Opens a cursor on the directory at reader->at, after psti_dataset_reader_peek. */
enum pst_status psti_dataset_reader_cursor(struct psti_listing_reader *reader,
                                           struct psti_listing_cursor *cursor,
                                           struct pst_error *err);
/* Reads the header of the directory at reader->at into reader->next, unless it was read or the
 * listing ends. False: the listing is damaged. */
bool psti_dataset_reader_peek(struct psti_listing_reader *reader);
/* Allocates the buffers of a reader. */
enum pst_status psti_dataset_reader_prepare(struct psti_listing_reader *reader,
                                            struct pst_error *err);
/* Returns nbytes bytes of the file, at most PSTI_LISTING_PAYLOAD_MAX; valid until the next call.
 * NULL: they cannot be read. */
const uint8_t *psti_dataset_reader_get(struct psti_listing_reader *reader, uint64_t at,
                                       size_t nbytes);

/* dataset_listing_save.c */

/* Begins to save a listing, or waits for the process that is saving one. */
enum pst_status psti_dataset_listing_start(struct psti_listing_state *state, struct pst_error *err);
/* Stops saving and drops what was saved in this walk. */
void psti_dataset_listing_drop(struct psti_listing_state *state);
#endif
