/* containers_window.h - the bytes of a file that a walk looks at.
 *
 * A walk over a container reads a small piece here and there: a header, then the next one behind
 * the content. Two ways of reading suit different storage. On an SSD and in the page cache it is
 * faster to read the pieces alone. On a disk, and where the pieces lie close together, it is faster
 * to read the file through. The window measures both ways now and then, and takes the faster one.
 *
 * One thread uses a window at a time. */
#ifndef PST_CONTAINERS_CONTAINERS_WINDOW_H
#define PST_CONTAINERS_CONTAINERS_WINDOW_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PSTI_WINDOW_NBYTES = 1 << 20 }; /* of the longest piece */

/* A file, or bytes in memory. */
struct psti_walk_source {
    /* Reads up to `nbytes` at `offset`. Returns the number of bytes, which is less only at the end
     * of the file; -1 with errno after a failure. */
    ssize_t (*read)(void *context, void *bytes, size_t nbytes, uint64_t offset);
    /* Tells the system whether the file will be read through from here. NULL: nobody to tell. */
    void (*advise)(void *context, bool reads_through);
    void *context;
    uint64_t nbytes;  /* of the file */
    const char *path; /* for messages; outlives the walk */
};

/* Makes the source of an open file. *fd stays the caller's, and must outlive the walk. */
struct psti_walk_source psti_containers_source_file(const int *fd, uint64_t nbytes,
                                                    const char *path);

struct psti_window {
    const struct psti_walk_source *source;
    uint8_t *bytes; /* PSTI_WINDOW_NBYTES of them */
    uint64_t at;    /* offset in the file of bytes[0] */
    size_t n;       /* bytes that are here */
    uint64_t last;  /* offset of the last piece */
    bool reads_through;
    int64_t (*clock_ns)(void); /* psti_clock_ns, but for tests */
    /* A phase is some pieces that are read in one way, and their time. */
    bool is_trial;     /* this way is tried, and not chosen yet */
    uint32_t n_phase;  /* pieces of this phase, at least */
    uint32_t n_pieces; /* since it began */
    int64_t begun_ns;  /* when it began */
    uint64_t first;    /* offset where it began */
    double other_ns;   /* for a piece, by the way of the phase before */
};

/* Allocates the window's memory. `source` must outlive the window. */
enum pst_status psti_containers_window_open(struct psti_window *window,
                                            const struct psti_walk_source *source,
                                            struct pst_error *err);
/* A window of zeros may be closed. */
void psti_containers_window_close(struct psti_window *window);

/* Gives the `nbytes` at `offset`, which are the window's and stay as they are until the next call.
 * nbytes: at most PSTI_WINDOW_NBYTES.
 *
 * PST_ERROR_TRUNCATED: the file ends before them. PST_ERROR_IO: it cannot be read. */
enum pst_status psti_containers_window_get(struct psti_window *window, uint64_t offset,
                                           size_t nbytes, const uint8_t **bytes,
                                           struct pst_error *err);

#endif
