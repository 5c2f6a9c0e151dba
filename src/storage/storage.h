/* storage.h - the door of the room: bytes at an offset of a file. The room does not know images.
 *
 * A storage engine runs reads of a loader: by a pool of pread threads, by io_uring, or from memory.
 * Reads complete in any order. A completion callback runs on a thread of the engine and must not
 * block. Nothing is allocated per read. */
#ifndef PST_STORAGE_STORAGE_H
#define PST_STORAGE_STORAGE_H

#include <penstock/loader.h>

#include <stdbool.h>

/* The most requests at a time that the throttle can serve. */
#define PSTI_STORAGE_LANES_MAX 256u

struct psti_storage;
struct psti_file;

struct psti_storage_options {
    enum pst_storage_kind kind;
    enum pst_page_cache page_cache;
    /* Number of threads. 0: reads run in the calling thread, see psti_storage_submit. AUTO and
     * URING then take THREADS; URING does so after a test that io_uring works. */
    unsigned n_threads;
    unsigned depth; /* largest number of reads under way, >= 1; the caller never submits more */
    double bytes_per_second; /* rate of the throttle's token bucket; 0 = no limit */
    double latency_seconds;  /* added to each request; 0 = none */
    /* Number of requests that the throttle serves at a time; 0 = any number. 1 stands for a disk
     * that begins a request when the one before it is done, so that latencies add up. */
    unsigned n_at_once; /* PSTI_STORAGE_LANES_MAX at most */
    /* Reads that are submitted together are joined to one request if they lie in one file with at
     * most so many bytes between them. The bytes between are read, too, and thrown away. 0: each
     * read is a request. Not with O_DIRECT, in memory, or without threads. */
    uint64_t gap_nbytes;
    /* Reads by path that are submitted together begin in ascending `place`. */
    bool by_place;
    /* True if reads of an open file jump about in it. The kernel is then told not to read ahead
     * into neighbours that nobody wants. It does read ahead where it has the pages before a
     * read. */
    bool scattered;
};

enum pst_status psti_storage_open(const struct psti_storage_options *options,
                                  struct psti_storage **out, struct pst_error *err);
/* Closes the storage. All reads must have completed. *storage may be NULL. */
void psti_storage_close(struct psti_storage **storage);

/* Opens a file for reading. Kind MEMORY reads it whole, without throttle; the bytes count as
 * memory_nbytes. Files are closed by psti_storage_file_close, before the storage. Thread-safe. */
enum pst_status psti_storage_file_open(struct psti_storage *storage, const char *path,
                                       struct psti_file **out, struct pst_error *err);
/* Does the same by openat(at, name, ...). `path` names the file in errors. */
enum pst_status psti_storage_file_open_at(struct psti_storage *storage, int at, const char *name,
                                          const char *path, struct psti_file **out,
                                          struct pst_error *err);
void psti_storage_file_close(struct psti_file **file);
uint64_t psti_storage_file_nbytes(const struct psti_file *file);

/* Returns the address of the file's bytes if they are in memory. Returns NULL if they must be read,
 * for a range outside the file, and while the storage is throttled, so that the caller waits for
 * these bytes as for all others. */
const void *psti_storage_file_span(const struct psti_file *file, uint64_t offset, uint64_t nbytes);
/* Tells the kernel that this range will be read soon. It is only a hint, so there is no error. */
void psti_storage_file_will_need(const struct psti_file *file, uint64_t offset, uint64_t nbytes);

/* One read. It reads exactly `nbytes`, or fails: PST_ERROR_TRUNCATED if the file ends before. If
 * `file` is NULL, the file at `path` is opened, read whole, and closed. It must then be exactly
 * `nbytes` long, and offset 0; else PST_ERROR_CORRUPT, because it changed since it was listed. With
 * `file_nbytes` above 0 the file must be that long instead, and any part of it is read. A file with
 * another `stamp` (base/files/stamp.h; 0: any) is PST_ERROR_CORRUPT, too. */
struct psti_read {
    struct psti_file *file;
    const char *path;
    uint64_t offset;
    uint64_t file_nbytes; /* used with `path` */
    uint64_t stamp;       /* used with `path` */
    uint64_t place;       /* used with `path` and by_place: where the disk has the file; only a
                           * hint */
    size_t nbytes;
    void *buffer; /* psti_storage_buffer_nbytes bytes, aligned to psti_storage_buffer_alignment;
                     without O_DIRECT to any address */
    bool drop;    /* true: the kernel need not keep the pages, whatever page_cache says */
    void (*done)(struct psti_read *read); /* called once, by an engine thread */
    void *user;
    int64_t asked_ns; /* for the caller's use */
    /* The members from here on are results. */
    enum pst_status status;
    void *data; /* address of the bytes, inside buffer */
    struct pst_error error;
    /* The members from here on belong to the engine. */
    struct psti_read *next;
    struct psti_read_engine {
        int64_t start_ns;         /* time at which service began */
        int64_t deadline_ns;      /* the throttle holds `done` back until then */
        uint64_t base;            /* file offset of buffer[0] */
        size_t need, length;      /* bytes from base on: that must be read; that are requested */
        size_t n_got;             /* bytes from base on that have been read */
        struct psti_read *joined; /* the next read of the same request; NULL: there is none */
        void *vectors;            /* in io_uring: vectors of the request that this read leads */
        int fd;
        bool ordered; /* true if it was submitted with others and by place */
        bool opening; /* true if the next stage opens the file */
        bool direct;  /* true if fd has O_DIRECT */
        bool again;   /* true if the last stage gave EAGAIN */
    } engine;
};

/* Returns the bytes of a buffer for a read of `nbytes` at any offset: nbytes, or more with
 * O_DIRECT. */
size_t psti_storage_buffer_nbytes(const struct psti_storage *storage, uint64_t nbytes);
size_t psti_storage_buffer_alignment(const struct psti_storage *storage);

/* Starts reads. Each completes through its `done`. At most `depth` reads may be under way.
 * Thread-safe. An engine without threads (n_threads 0) runs them, and `done`, before the call
 * returns. With gap_nbytes or by_place, the order of the array `reads` changes. */
void psti_storage_submit(struct psti_storage *storage, struct psti_read **reads, size_t n);
/* Sets the largest gap within requests from now on. It is at most the options' gap_nbytes, which is
 * also the first value. With 0 only reads that touch each other are joined. Thread-safe. */
void psti_storage_set_gap(struct psti_storage *storage, uint64_t nbytes);
/* Returns the largest gap within requests at present, 0 if reads are not joined. Reading so many
 * bytes more takes about as long as one request. Thread-safe. */
uint64_t psti_storage_gap(const struct psti_storage *storage);
/* Carries out one read in the calling thread, without calling `done`. Thread-safe. */
enum pst_status psti_storage_read(struct psti_storage *storage, struct psti_read *read);
/* Does as psti_storage_read, without waiting for the throttle's time. *owed_ns is the time that the
 * caller has not waited for yet. The read counts as made that much later than now, and *owed_ns
 * grows by its own time. So waiting for *owed_ns at the end gives the same times as waiting after
 * each read. */
enum pst_status psti_storage_read_owing(struct psti_storage *storage, struct psti_read *read,
                                        int64_t *owed_ns);

/* Until psti_storage_resume the throttle delays nothing: reads that wait for it, and later ones,
 * complete at once with the status they have. The throttle gets back what it had granted them.
 * Thread-safe; no effect without a throttle. */
void psti_storage_cancel(struct psti_storage *storage);
void psti_storage_resume(struct psti_storage *storage);

enum pst_storage_kind psti_storage_kind_in_use(const struct psti_storage *storage);
/* Returns the reason why io_uring is not in use, or not any more; "" otherwise. */
const char *psti_storage_reason(const struct psti_storage *storage);

struct psti_storage_stats {
    uint64_t n_reads; /* number of requests */
    uint64_t nbytes_read, read_ns, n_fallback_direct, memory_nbytes;
    uint64_t n_merged;          /* reads that were part of another read's request */
    uint64_t nbytes_gap;        /* bytes between the reads of such requests */
    uint64_t n_ordered;         /* by_place: reads that were submitted with others */
    uint64_t n_fallback_uring;  /* 1: io_uring failed after open, and THREADS is in use */
    uint64_t n_fallback_advice; /* calls of posix_fadvise that were refused */
};
void psti_storage_stats(const struct psti_storage *storage, struct psti_storage_stats *stats);

#endif
