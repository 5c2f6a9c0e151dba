/* containers_window.h - gives a walk the bytes of a file that it looks at.
 *
 * A walk over a container reads small pieces that are far apart: a header, then the next header
 * behind the content. Two methods of reading suit different storage. On an SSD and in the page
 * cache, reading only the pieces is faster. On a disk, or if the pieces lie close together, reading
 * the whole file in order is faster. The window measures both methods from time to time and uses
 * the faster one.
 *
 * One thread uses a window at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_WINDOW_H
#define PST_CONTAINERS_CONTAINERS_WINDOW_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PSTI_WINDOW_NBYTES = 1 << 20 }; /* maximum length of one piece, in bytes */

/* Where a walk reads from: a file, or bytes in memory. */
struct psti_walk_source {
    /* Reads up to `nbytes` bytes at `offset`. Returns the number of bytes read, which is smaller
     * only at the end of the file; -1 with errno after a failure. */
    ssize_t (*read)(void *context, void *bytes, size_t nbytes, uint64_t offset);
    /* Tells the system whether the file will be read in order from here. May be NULL. */
    void (*advise)(void *context, bool reads_through);
    void *context;
    uint64_t nbytes;  /* bytes of the file */
    const char *path; /* for messages; outlives the walk */
};

/* Makes the source for an open file. The caller keeps *fd open until the walk has ended. */
struct psti_walk_source psti_containers_source_file(const int *fd, uint64_t nbytes,
                                                    const char *path);

struct psti_window {
    const struct psti_walk_source *source;
    uint8_t *bytes; /* buffer of PSTI_WINDOW_NBYTES bytes */
    uint64_t at;    /* offset in the file of bytes[0] */
    size_t n;       /* bytes that the buffer holds */
    uint64_t last;  /* offset of the last piece that was asked for */
    bool reads_through;
    int64_t (*clock_ns)(void); /* psti_clock_ns; tests set another clock */
    /* The present phase: a series of pieces (parts of the file, each read by one call) that are
     * read with the same method, and timed together. */
    bool is_trial;     /* the phase tries a method that is not chosen yet */
    uint32_t n_phase;  /* number of pieces after which the phase may end */
    uint32_t n_pieces; /* pieces read since the phase began */
    int64_t begun_ns;  /* time at which the phase began */
    uint64_t first;    /* lowest offset in the phase, which begins at the last piece before
                        * it */
    double other_ns;   /* mean nanoseconds of a piece in the previous phase, which used the other
                        * method */
};

/* Allocates the window's memory. `source` must outlive the window. */
enum pst_status psti_containers_window_open(struct psti_window *window,
                                            const struct psti_walk_source *source,
                                            struct pst_error *err);
/* Frees the window's memory. A window whose members are all zero is fine. */
void psti_containers_window_close(struct psti_window *window);

/* Returns the `nbytes` bytes at `offset`. They belong to the window and stay valid until the next
 * call. nbytes: at most PSTI_WINDOW_NBYTES.
 *
 * PST_ERROR_TRUNCATED: the file ends before them. PST_ERROR_IO: the file cannot be read. */
enum pst_status psti_containers_window_get(struct psti_window *window, uint64_t offset,
                                           size_t nbytes, const uint8_t **bytes,
                                           struct pst_error *err);

#endif
