/* containers_window.c - reads the pieces of a file one by one, or reads the file through in order,
 * whichever is faster.
 *
 * In: offsets of pieces, in rising order or nearly so. Out: their bytes in one buffer.
 *
 * Reading goes in phases, each with one of the two methods. After a long phase, a short one tries
 * the other method. The method that took less time for each piece is used in the next long phase.
 * While a piece takes less than FAST_NS, as from the page cache, pieces are read one by one and
 * nothing else is tried. */
#include "containers/containers_window.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/files/read.h"

#include <errno.h>
#include <fcntl.h>

enum {
    HEAD_NBYTES = 512,         /* length of a read for a single piece */
    NEAR_NBYTES = 8 << 10,     /* if pieces lie closer than this, one read gets many of them */
    SEVERAL_NBYTES = 64 << 10, /* length of a read for many pieces */
    FAR_NBYTES = 8 << 20,      /* reading through: a gap longer than this is skipped, not read */
    TRIAL = 64,                /* number of pieces in a short phase, which tries the other method */
    PHASE = 4096,              /* number of pieces in a long phase, with the method that was
                                * faster */
    FAST_NS = 20000,
};

static ssize_t file_read(void *context, void *bytes, size_t nbytes, uint64_t offset)
{
    return psti_read_at(*(const int *)context, bytes, nbytes, offset);
}

static void file_advise(void *context, bool reads_through)
{
    (void)posix_fadvise(*(const int *)context, 0, 0,
                        reads_through ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
}

struct psti_walk_source psti_containers_source_file(const int *fd, uint64_t nbytes,
                                                    const char *path)
{
    return (struct psti_walk_source){
        .read = file_read,
        .advise = file_advise,
        .context = (void *)(uintptr_t)fd, /* the descriptor is only read, so the cast is safe */
        .nbytes = nbytes,
        .path = path,
    };
}

static void advise(const struct psti_window *window)
{
    if (window->source->advise != NULL)
        window->source->advise(window->source->context, window->reads_through);
}

enum pst_status psti_containers_window_open(struct psti_window *window,
                                            const struct psti_walk_source *source,
                                            struct pst_error *err)
{
    *window = (struct psti_window){
        .source = source, .bytes = psti_alloc(PSTI_WINDOW_NBYTES), .clock_ns = psti_clock_ns};
    if (window->bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "containers", "out of memory to read %s",
                         source->path);
    window->n_phase = TRIAL;
    window->begun_ns = psti_clock_ns();
    advise(window);
    return PST_OK;
}

void psti_containers_window_close(struct psti_window *window)
{
    psti_free(window->bytes);
    *window = (struct psti_window){0};
}

/* Begins a phase with the given method. */
static void begin(struct psti_window *window, bool reads_through, bool is_trial, int64_t now)
{
    if (reads_through != window->reads_through) {
        window->reads_through = reads_through;
        advise(window);
    }
    window->is_trial = is_trial;
    window->n_phase = is_trial ? TRIAL : PHASE;
    window->n_pieces = 0;
    window->begun_ns = now;
    window->first = window->last;
}

/* Counts a piece. At the end of a phase, chooses the method of the next phase. */
static void count(struct psti_window *window)
{
    uint32_t n = ++window->n_pieces;
    if (n % TRIAL != 0 || n < window->n_phase)
        return;
    /* One read of the read-through method gets many pieces, so its trial lasts for several
     * reads. */
    bool is_short = window->reads_through && window->last - window->first < FAR_NBYTES;
    if (window->is_trial && is_short && n < PHASE)
        return;
    int64_t now = window->clock_ns();
    double ns = (double)(now - window->begun_ns) / n;
    if (window->is_trial) {
        begin(window, window->reads_through == (ns < window->other_ns), false, now);
    } else if (!window->reads_through && ns < FAST_NS) {
        begin(window, false, false, now);
    } else {
        window->other_ns = ns;
        begin(window, !window->reads_through, true, now);
    }
}

/* Returns how many bytes to read for a piece of `nbytes` at `offset`. */
static size_t read_nbytes(const struct psti_window *window, uint64_t offset, size_t nbytes)
{
    if (window->reads_through)
        return PSTI_WINDOW_NBYTES;
    uint64_t gap = (offset - window->first) / (window->n_pieces + 1);
    /* A piece that is shorter than a header is a small member, and the next header lies right
     * behind it. */
    size_t alone = nbytes < HEAD_NBYTES ? 2 * HEAD_NBYTES : HEAD_NBYTES;
    size_t wished = gap < NEAR_NBYTES ? SEVERAL_NBYTES : alone;
    return nbytes > wished ? nbytes : wished;
}

/* Reads `nbytes` at `offset` into the window. */
static enum pst_status fill(struct psti_window *window, uint64_t offset, size_t nbytes,
                            struct pst_error *err)
{
    const struct psti_walk_source *source = window->source;
    if (nbytes > source->nbytes - offset)
        nbytes = (size_t)(source->nbytes - offset);
    ssize_t got = source->read(source->context, window->bytes, nbytes, offset);
    window->at = offset;
    window->n = got > 0 ? (size_t)got : 0;
    if (got < 0)
        return psti_fail_os(err, errno, "containers", source->path, (int64_t)offset,
                            "cannot read %zu bytes", nbytes);
    return PST_OK;
}

/* Reads on from the window's end until the window holds the beginning of the piece. */
static enum pst_status read_through(struct psti_window *window, uint64_t offset,
                                    struct pst_error *err)
{
    enum pst_status status = PST_OK;
    while (status == PST_OK && window->n > 0 && window->at + window->n <= offset)
        status = fill(window, window->at + window->n, PSTI_WINDOW_NBYTES, err);
    return status;
}

enum pst_status psti_containers_window_get(struct psti_window *window, uint64_t offset,
                                           size_t nbytes, const uint8_t **bytes,
                                           struct pst_error *err)
{
    const struct psti_walk_source *source = window->source;
    if (offset > source->nbytes || nbytes > source->nbytes - offset)
        return psti_fail_at(err, PST_ERROR_TRUNCATED, "containers", source->path, (int64_t)offset,
                            "the file ends here, where %zu bytes are expected", nbytes);
    enum pst_status status = PST_OK;
    uint64_t end = window->at + window->n;
    if (window->reads_through && window->n > 0 && offset >= end && offset - end < FAR_NBYTES)
        status = read_through(window, offset, err);
    if (status == PST_OK && (offset < window->at || offset + nbytes > window->at + window->n))
        status = fill(window, offset, read_nbytes(window, offset, nbytes), err);
    if (status != PST_OK)
        return status;
    if (nbytes > window->n - (size_t)(offset - window->at))
        return psti_fail_at(err, PST_ERROR_TRUNCATED, "containers", source->path, (int64_t)offset,
                            "the file became shorter while it was read");
    *bytes = window->bytes + (offset - window->at);
    if (offset < window->first)
        window->first = offset;
    window->last = offset;
    count(window);
    return PST_OK;
}
