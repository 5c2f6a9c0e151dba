/* dataset_listing_int.h - inside of a saved listing that is read and written. */
#ifndef PST_DATASET_DATASET_LISTING_INT_H
#define PST_DATASET_DATASET_LISTING_INT_H

#include "dataset/folder/dataset_listing.h"

#include "base/files/output.h"

enum { PSTI_LISTING_NOTICES_MAX = 16 }; /* of one directory; with more it is always listed */

/* The saved listing that is read. */
struct psti_listing_reader {
    int fd; /* -1: there is none */
    uint64_t nbytes;
    struct psti_listing_header header;
    struct psti_listing_end end;
    uint8_t *window; /* the bytes around the last place */
    uint64_t window_at;
    size_t window_n;
    uint64_t at; /* offset of the next directory */
    bool has_next;
    struct psti_listing_directory next; /* the one at `at` */
    uint8_t *text;                      /* its text: [PSTI_LISTING_TEXT_MAX] */
    bool is_whole;                      /* all directories of this walk were taken, in turn */
};

/* What was met in the directory that is listed now. */
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
    PSTI_LISTING_WAITS, /* too little was listed yet: what is to be saved waits in memory */
    PSTI_LISTING_SAVES,
    PSTI_LISTING_OFF, /* nothing is saved */
};

/* Bytes that wait: of the pending bytes, or of the listing that is read. */
struct psti_listing_piece {
    uint64_t at, nbytes;
    bool is_old;
};

struct psti_listing_state {
    struct psti_saved *saved;
    char *path;
    size_t worth;
    bool check, is_audio, again;
    bool reload; /* with `again`: another process has saved a listing */
    unsigned n_again;
    uint64_t device; /* of the top */
    struct psti_listing_reader reader;
    struct psti_listing_met met;
    enum psti_listing_mode mode;
    struct psti_output output;
    struct psti_dataset_arena pending, pieces; /* pieces: struct psti_listing_piece */
    uint8_t *payload;                          /* of the chunk that is put together */
    uint64_t put_at;                           /* offset of the directory that was saved last */
    struct psti_listing_reader written;        /* the listing that is being saved, read again */
    size_t n_listed;                           /* files in directories that were listed */
    uint64_t n_directories;
};

/* dataset_listing_read.c */

/* Opens the newest listing that is whole. Without one, reader->fd is -1. */
enum pst_status psti_dataset_reader_open(struct psti_listing_state *state, struct pst_error *err);
void psti_dataset_reader_close(struct psti_listing_reader *reader);
/* Begins with the first directory again. */
void psti_dataset_reader_rewind(struct psti_listing_reader *reader);
/* Opens the directory at reader->at, which was peeked at. */
enum pst_status psti_dataset_reader_cursor(struct psti_listing_reader *reader,
                                           struct psti_listing_cursor *cursor,
                                           struct pst_error *err);
/* Reads the directory at reader->at, unless that was done or it is the end. False: it is wrong. */
bool psti_dataset_reader_peek(struct psti_listing_reader *reader);
/* Allocates what a reader reads into. */
enum pst_status psti_dataset_reader_prepare(struct psti_listing_reader *reader,
                                            struct pst_error *err);
/* Gives bytes of the file, until the next call. At most PSTI_LISTING_PAYLOAD_MAX. NULL: they cannot
 * be read. */
const uint8_t *psti_dataset_reader_get(struct psti_listing_reader *reader, uint64_t at,
                                       size_t nbytes);

/* dataset_listing_save.c */

/* Begins to save, or waits for the process that does. */
enum pst_status psti_dataset_listing_start(struct psti_listing_state *state, struct pst_error *err);
/* Gives up what was saved of this walk. */
void psti_dataset_listing_drop(struct psti_listing_state *state);
#endif
