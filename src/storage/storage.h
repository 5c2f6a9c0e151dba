/* storage.h - reads bytes at an offset of a file; knows nothing of images.
 *
 * A storage engine carries out the reads of a loader: by a pool of threads with pread, by io_uring,
 * or from memory. Reads complete in any order. The completion callback runs on a thread of the
 * engine and must not block. Nothing is allocated per read. */
#ifndef PST_STORAGE_STORAGE_H
#define PST_STORAGE_STORAGE_H

#include <penstock/loader.h>

#include <stdbool.h>

/* Maximum number of requests that the throttle can serve at once. */
#define PSTI_STORAGE_LANES_MAX 256u

struct psti_storage;
struct psti_file;

struct psti_storage_options {
    enum pst_storage_kind kind;
    enum pst_page_cache page_cache;
    /* Number of threads. 0: reads run in the thread that calls psti_storage_submit; AUTO and URING
     * then use THREADS (URING first tests that io_uring works). */
    unsigned n_threads;
    unsigned depth; /* maximum number of reads in progress, >= 1; the caller never submits more */
    double bytes_per_second; /* rate of the throttle's token bucket; 0 = no limit */
    double latency_seconds;  /* seconds added to each request by the throttle; 0 = none */
    /* Number of requests that the throttle serves at once; 0 = any number. 1 simulates a disk that
     * begins a request when the one before it is done, so latencies add up. */
    unsigned n_at_once; /* at most PSTI_STORAGE_LANES_MAX */
    /* Reads that are submitted together become one request if they lie in one file with at most
     * this many bytes between them. The bytes between are read and dropped. 0: each read is its own
     * request. Not with O_DIRECT, in memory, or without threads. */
    uint64_t gap_nbytes;
    /* Reads by path that are submitted together are started in the order of `place`. */
    bool by_place;
    /* True if reads of an open file are not sequential. The kernel is then told not to read ahead,
     * because nobody wants the bytes behind a read. It still reads ahead where it already has the
     * pages before a read. */
    bool scattered;
};

enum pst_status psti_storage_open(const struct psti_storage_options *options,
                                  struct psti_storage **out, struct pst_error *err);
/* Closes the storage. All reads must have completed. *storage may be NULL. */
void psti_storage_close(struct psti_storage **storage);

/* Opens a file for reading. Kind MEMORY reads the whole file, without throttle, and adds it to the
 * counter memory_nbytes. Close files with psti_storage_file_close before the storage.
 * Thread-safe. */
enum pst_status psti_storage_file_open(struct psti_storage *storage, const char *path,
                                       struct psti_file **out, struct pst_error *err);
/* Opens a file like psti_storage_file_open, by openat(at, name, ...). `path` names the file in
 * errors. */
enum pst_status psti_storage_file_open_at(struct psti_storage *storage, int at, const char *name,
                                          const char *path, struct psti_file **out,
                                          struct pst_error *err);
void psti_storage_file_close(struct psti_file **file);
uint64_t psti_storage_file_nbytes(const struct psti_file *file);

/* Returns the address of the file's bytes if they are in memory. Returns NULL if they must be read,
 * for a range outside the file, and while the storage is throttled, because the caller must then
 * wait for all bytes. */
const void *psti_storage_file_span(const struct psti_file *file, uint64_t offset, uint64_t nbytes);
/* Tells the kernel that this range will be read soon. It is only a hint, so errors are ignored. */
void psti_storage_file_will_need(const struct psti_file *file, uint64_t offset, uint64_t nbytes);

/* One read. It reads exactly `nbytes`, or fails: PST_ERROR_TRUNCATED if the file ends before. If
 * `file` is NULL, the file at `path` is opened, read whole, and closed. It must then be exactly
 * `nbytes` long, and offset must be 0; else PST_ERROR_CORRUPT, because it changed since it was
 * listed. If `file_nbytes` is not 0, the file must have that length instead, and any part of it may
 * be read. A file with another `stamp` (base/files/stamp.h; 0: any) gives PST_ERROR_CORRUPT too. */
struct psti_read {
    struct psti_file *file;
    const char *path;
    uint64_t offset;
    uint64_t file_nbytes; /* used with `path` */
    uint64_t stamp;       /* used with `path` */
    uint64_t place;       /* used with `path` and by_place: position on the disk, only a hint */
    size_t nbytes;
    void *buffer; /* psti_storage_buffer_nbytes bytes, aligned to psti_storage_buffer_alignment;
                     without O_DIRECT to any address */
    bool drop;    /* true: the kernel may drop the pages after the read, whatever page_cache says */
    void (*done)(struct psti_read *read); /* called once, by an engine thread */
    void *user;
    int64_t asked_ns; /* for the caller's use */
    /* Results, set by the engine. */
    enum pst_status status;
    void *data; /* address of the bytes, inside buffer */
    struct pst_error error;
    /* Used by the engine only. */
    struct psti_read *next;
    struct psti_read_engine {
        int64_t start_ns;         /* time at which the engine began the read */
        int64_t deadline_ns;      /* the throttle holds `done` back until then */
        uint64_t base;            /* file offset of buffer[0] */
        size_t need, length;      /* bytes from base on that must be read; bytes that are
                                   * requested */
        size_t n_got;             /* bytes from base on that have been read */
        struct psti_read *joined; /* next read of the same request, or NULL */
        void *vectors;            /* in io_uring: vectors of the request that this read leads */
        int fd;
        bool ordered; /* true if the read was submitted with others and sorted by place */
        bool opening; /* true if the next stage opens the file */
        bool direct;  /* true if fd has O_DIRECT */
        bool again;   /* true if the last system call gave EAGAIN */
    } engine;
};

/* Returns the size of a buffer for a read of `nbytes` at any offset: nbytes, or more with
 * O_DIRECT. */
size_t psti_storage_buffer_nbytes(const struct psti_storage *storage, uint64_t nbytes);
size_t psti_storage_buffer_alignment(const struct psti_storage *storage);

/* Starts reads. Each read ends with a call of its `done`. At most `depth` reads may be in progress.
 * Thread-safe. Without threads (n_threads 0), all reads and their `done` run before the call
 * returns. With gap_nbytes or by_place, the order of the array `reads` changes. */
void psti_storage_submit(struct psti_storage *storage, struct psti_read **reads, size_t n);
/* Sets the largest gap between reads of one request from now on. It is at most the options'
 * gap_nbytes, which is also the initial value. With 0, only adjacent reads are joined.
 * Thread-safe. */
void psti_storage_set_gap(struct psti_storage *storage, uint64_t nbytes);
/* Returns the largest gap between reads of one request; 0 if reads are not joined. Reading so many
 * more bytes takes about as long as another request. Thread-safe. */
uint64_t psti_storage_gap(const struct psti_storage *storage);
/* Carries out one read in the calling thread, without calling `done`. Thread-safe. */
enum pst_status psti_storage_read(struct psti_storage *storage, struct psti_read *read);
/* Carries out one read like psti_storage_read, but does not wait for the throttle. *owed_ns is the
 * time for which the caller still has to wait from earlier calls. The throttle treats the read as
 * beginning that much later than now, and *owed_ns grows by the read's own time. Waiting for
 * *owed_ns once, at the end, takes as long as waiting after each read. */
enum pst_status psti_storage_read_owing(struct psti_storage *storage, struct psti_read *read,
                                        int64_t *owed_ns);

/* Until psti_storage_resume, the throttle delays nothing: reads that wait for it, and later ones,
 * complete at once with the status that they have. The time that the throttle had reserved for them
 * is free again. Thread-safe; no effect without a throttle. */
void psti_storage_cancel(struct psti_storage *storage);
void psti_storage_resume(struct psti_storage *storage);

enum pst_storage_kind psti_storage_kind_in_use(const struct psti_storage *storage);
/* Returns why io_uring is not used, or no longer used; "" otherwise. */
const char *psti_storage_reason(const struct psti_storage *storage);

struct psti_storage_stats {
    uint64_t n_reads; /* number of requests */
    uint64_t nbytes_read, read_ns, n_fallback_direct, memory_nbytes;
    uint64_t n_merged;          /* number of reads that were joined to another read's request */
    uint64_t nbytes_gap;        /* bytes between joined reads */
    uint64_t n_ordered;         /* number of reads that were sorted by place with others */
    uint64_t n_fallback_uring;  /* 1: io_uring failed after open, and system calls of threads
                                 * replace it */
    uint64_t n_fallback_advice; /* calls of posix_fadvise that were refused */
};
void psti_storage_stats(const struct psti_storage *storage, struct psti_storage_stats *stats);

#endif
