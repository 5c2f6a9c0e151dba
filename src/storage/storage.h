/* storage.h - the door of storage: bytes at an offset of a file. Knows nothing of images.
 *
 * A storage engine runs reads of a loader: by a pool of pread threads, by io_uring, or from memory.
 * Reads complete in any order; a completion callback runs on a thread of the engine and must not
 * block. Nothing is allocated per read. */
#ifndef PST_STORAGE_STORAGE_H
#define PST_STORAGE_STORAGE_H

#include <penstock/loader.h>

struct psti_storage;
struct psti_file;

struct psti_storage_options {
    enum pst_storage_kind kind;
    enum pst_page_cache page_cache;
    /* 0 = no thread, see psti_storage_submit; AUTO with 0 takes THREADS, URING with 0 too, once it
     * has found that io_uring works. */
    unsigned n_threads;
    unsigned depth; /* most reads under way at a time, >= 1: the caller never submits more */
    double bytes_per_second; /* token bucket; 0 = none */
    double latency_seconds;  /* added to each read; 0 = none */
};

enum pst_status psti_storage_open(const struct psti_storage_options *options,
                                  struct psti_storage **out, struct pst_error *err);
/* All reads must have completed. NULL-safe. */
void psti_storage_close(struct psti_storage **storage);

/* Opens a file for reading. Kind MEMORY reads it whole, not throttled; the bytes count as
 * memory_nbytes. Files are closed by psti_storage_file_close, before the storage. Thread-safe. */
enum pst_status psti_storage_file_open(struct psti_storage *storage, const char *path,
                                       struct psti_file **out, struct pst_error *err);
void psti_storage_file_close(struct psti_file **file);
uint64_t psti_storage_file_nbytes(const struct psti_file *file);

/* The bytes themselves where the file is in memory, else NULL (then read). NULL also for a range
 * that does not lie in the file, and where the storage is throttled: so these bytes are waited for
 * like all others. */
const void *psti_storage_file_span(const struct psti_file *file, uint64_t offset, uint64_t nbytes);
/* Tells the kernel that this range is wanted soon. A hint: no error. */
void psti_storage_file_will_need(const struct psti_file *file, uint64_t offset, uint64_t nbytes);

/* One read. Reads exactly `nbytes`, or fails: end of file before that is PST_ERROR_TRUNCATED.
 * Either `file` is set, or `path` (file NULL): then the file is opened, must be exactly `nbytes`
 * long at offset 0 (else PST_ERROR_CORRUPT: it changed since it was listed), read whole, and
 * closed. */
struct psti_read {
    struct psti_file *file;
    const char *path;
    uint64_t offset;
    size_t nbytes;
    void *buffer; /* of psti_storage_buffer_nbytes, aligned to psti_storage_buffer_alignment;
                     without O_DIRECT any address does */
    void (*done)(struct psti_read *read); /* called once, by an engine thread */
    void *user;
    /* Results: */
    enum pst_status status;
    void *data; /* where the bytes are, inside buffer */
    struct pst_error error;
    /* The engine's own: */
    struct psti_read *next;
    struct psti_read_engine {
        int64_t start_ns;    /* service began */
        int64_t deadline_ns; /* the throttle holds `done` back until then */
        uint64_t base;       /* file offset of buffer[0] */
        size_t need, length; /* bytes from base on: that must come; that are asked for */
        size_t n_got;        /* bytes from base on: that are here */
        int fd;
        bool opening; /* the next step opens the file */
        bool direct;  /* fd has O_DIRECT */
        bool again;   /* the last step gave EAGAIN */
    } engine;
};

/* Room a buffer needs for a read of `nbytes` at any offset: nbytes, or more with O_DIRECT. */
size_t psti_storage_buffer_nbytes(const struct psti_storage *storage, uint64_t nbytes);
size_t psti_storage_buffer_alignment(const struct psti_storage *storage);

/* Starts reads; each completes through its `done`. At most `depth` under way. Thread-safe. An
 * engine without threads (n_threads 0) runs them, and `done`, before it returns. */
void psti_storage_submit(struct psti_storage *storage, struct psti_read **reads, size_t n);
/* One read in the calling thread (done is not called). Thread-safe. */
enum pst_status psti_storage_read(struct psti_storage *storage, struct psti_read *read);
/* As psti_storage_read, but the throttle's time is not waited for: *owed_ns, which the caller has
 * not waited for yet either, grows by it. The read counts as made that much later than now, so
 * waiting for all of it at the end gives the same times as waiting after each read. */
enum pst_status psti_storage_read_owing(struct psti_storage *storage, struct psti_read *read,
                                        int64_t *owed_ns);

/* From here to psti_storage_resume the throttle holds nothing back: reads that wait for it, and
 * later ones, complete at once with the status they have. What was taken from the throttle's budget
 * for them is given back. Thread-safe; nothing without a throttle. */
void psti_storage_cancel(struct psti_storage *storage);
void psti_storage_resume(struct psti_storage *storage);

enum pst_storage_kind psti_storage_kind_in_use(const struct psti_storage *storage);
const char *psti_storage_reason(const struct psti_storage *storage); /* why not io_uring, or why not
                                                                        any more; "" */

struct psti_storage_stats {
    uint64_t n_reads, nbytes_read, read_ns, n_fallback_direct, memory_nbytes;
    uint64_t n_fallback_uring;  /* 1: io_uring failed after open, THREADS is in use */
    uint64_t n_fallback_advice; /* posix_fadvise that was refused */
};
void psti_storage_stats(const struct psti_storage *storage, struct psti_storage_stats *stats);

#endif
