/* storage_int.h - declarations that the source files of src/storage share; no other code includes
 * it.
 *
 * A read goes through stages that are the same for every engine:
 * psti_storage_step_begin -> [..._step_opened
 *
 * ..._step_read]* -> psti_storage_finish
 * An engine only decides how the open and the read of a stage are carried out: by system calls in a
 * thread of the pool or of the caller, or by entries of a ring. */
#ifndef PST_STORAGE_INT_H
#define PST_STORAGE_INT_H

#include "base/thread.h"
#include "storage/storage.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Alignment of offset, length and memory with O_DIRECT. Every block device in use accepts it. */
#define PSTI_STORAGE_BLOCK 4096u
/* The most bytes of one system call: they fit io_uring's 32-bit results and are a multiple of the
 * block. */
#define PSTI_STORAGE_CALL_MAX ((size_t)1 << 30)
/* The most reads of one request, and the most I/O vectors that a request may need: each gap takes
 * one vector, plus another one for each PSTI_STORAGE_SINK bytes of the request. */
#define PSTI_STORAGE_JOINED_MAX 64u
#define PSTI_STORAGE_VECTORS_MAX (2 * PSTI_STORAGE_JOINED_MAX + 32)
/* Bytes of the sink: memory that receives the bytes between joined reads, which nobody uses. */
#define PSTI_STORAGE_SINK ((size_t)256 << 10)
/* The most files that io_uring has open at once for reads by path, because many processes may have
 * only 1024 descriptors. Fewer files already keep any kind of disk busy. */
#define PSTI_STORAGE_PATHS_MAX 256u

struct psti_storage_pace;

/* An engine: one method of carrying out reads. `state` belongs to the engine. */
struct psti_storage_engine {
    void (*submit)(struct psti_storage *storage, struct psti_read **reads, size_t n);
    void (*close)(struct psti_storage *storage);
};

struct psti_storage {
    struct psti_storage_options options;
    enum pst_storage_kind kind; /* never AUTO */
    char reason[96];
    struct psti_storage_pace *pace; /* NULL: the storage is not throttled */
    const struct psti_storage_engine *engine;
    void *state;
    atomic_uint_fast64_t n_reads, nbytes_read, read_ns, n_fallback_direct, memory_nbytes;
    atomic_uint_fast64_t n_fallback_uring, n_fallback_advice, n_merged, nbytes_gap, n_ordered;
    atomic_uint_fast64_t gap_nbytes_now; /* psti_storage_set_gap */
    char broken_reason[96]; /* set before n_fallback_uring becomes 1, and not changed afterwards */
};

struct psti_file {
    struct psti_storage *storage;
    const unsigned char *memory; /* bytes of the file; NULL: they must be read from fd */
    unsigned char *owned;        /* same as `memory` if closing the file must free it */
    uint64_t nbytes;
    int fd;             /* -1: the file is in memory */
    atomic_bool direct; /* true while fd has O_DIRECT */
    char path[];
};

/* Stages of a read (storage_step.c). Functions that return bool return true if another stage
 * follows. */
bool psti_storage_step_begin(struct psti_storage *storage, struct psti_read *read);
int psti_storage_open_flags(bool direct);
/* Continues after the open. `result` is the descriptor, or -errno. */
bool psti_storage_step_opened(struct psti_storage *storage, struct psti_read *read, int result);
/* Continues after a read. `result` is the number of bytes read, or -errno. */
bool psti_storage_step_read(struct psti_storage *storage, struct psti_read *read, int64_t result);
/* Returns the number of bytes that the next system call requests. */
size_t psti_storage_step_nbytes(const struct psti_read *read);
/* Ends a read: closes the file, drops pages and counts the read. The caller then calls
 * `read->done`. */
void psti_storage_finish(struct psti_storage *storage, struct psti_read *read);
/* Runs all stages of a read by system calls of this thread, or those after begin, and ends the
 * read. */
void psti_storage_execute(struct psti_storage *storage, struct psti_read *read);
void psti_storage_execute_rest(struct psti_storage *storage, struct psti_read *read);

/* Requests of several joined reads (storage_merge.c). A read whose engine.joined is not NULL leads
 * such a request. */
/* Joins reads that lie close together into requests. Returns the number of requests; the reads that
 * lead them are then the first entries of `reads`. */
size_t psti_storage_merge(const struct psti_storage *storage, struct psti_read **reads, size_t n);
/* Sorts reads by path by their `place`, rising; other reads by file and offset. */
void psti_storage_sort(struct psti_read **reads, size_t n);
/* Fills the I/O vectors of a request, at most PSTI_STORAGE_VECTORS_MAX. Returns their number. */
unsigned psti_storage_vectors(const struct psti_read *leader, void *sink, struct iovec *vectors);
/* Handles the result of a request: the number of bytes read, or -errno. Counts the reads, and
 * delivers those that are complete. Returns the others, linked by engine.joined; each of them must
 * be read alone. */
struct psti_read *psti_storage_take_joined(struct psti_storage *storage, struct psti_read *leader,
                                           int64_t result);
/* Carries out a request by system calls of this thread, and delivers all its reads. */
void psti_storage_execute_joined(struct psti_storage *storage, struct psti_read *leader,
                                 void *sink);
/* Checks that a newly opened descriptor is a regular file, and makes it blocking. Sets *info by
 * fstat. */
struct stat;
enum pst_status psti_storage_check_fd(int fd, bool direct, const char *path, struct stat *info,
                                      struct pst_error *err);
void psti_storage_count_fallback(struct psti_storage *storage);
/* Calls posix_fadvise, and counts calls that the kernel refuses. */
void psti_storage_advise(struct psti_storage *storage, int fd, uint64_t offset, uint64_t nbytes,
                         int advice);

/* The throttle (storage_pace.c). psti_storage_pace_hold requires a throttle that was opened with
 * `with_thread`. */
enum pst_status psti_storage_pace_open(double bytes_per_second, double latency_seconds,
                                       unsigned n_at_once, bool with_thread,
                                       struct psti_storage_pace **out, struct pst_error *err);
void psti_storage_pace_close(struct psti_storage_pace **pace);
/* Reserves time for a read of `nbytes` that begins at `now`. Returns the time before which the
 * bytes must not be delivered. */
int64_t psti_storage_pace_admit(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes);
/* Calls read->done at the time read->engine.deadline_ns, in the throttle's thread. */
void psti_storage_pace_hold(struct psti_storage_pace *pace, struct psti_read *read);
/* Sleeps until the time until_ns, or until the throttle is cancelled. */
void psti_storage_pace_wait(struct psti_storage_pace *pace, int64_t until_ns);
/* cancelled true: releases all held reads and sleeping threads, and delays nothing until a call
 * with false. */
void psti_storage_pace_cancel(struct psti_storage_pace *pace, bool cancelled);
/* The next three functions work without a throttle too. */
/* Returns the bytes of a request, from the start of its first read to the end of its last read. */
uint64_t psti_storage_span(const struct psti_read *leader);
/* Computes when the throttle lets the request complete. For the throttle, the request begins
 * owed_ns later than now. */
void psti_storage_admit(struct psti_storage *storage, struct psti_read *read, int64_t owed_ns);
/* Calls read->done, now or when the throttle allows it. The engine must not use `read`
 * afterwards. */
void psti_storage_deliver(struct psti_storage *storage, struct psti_read *read);

/* Open the engines. After a failure there is nothing to close. */
enum pst_status psti_storage_pool_open(struct psti_storage *storage, struct pst_error *err);
/* Opens io_uring. With n_threads 0, only tests it and sets no engine. */
enum pst_status psti_storage_uring_open(struct psti_storage *storage, struct pst_error *err);

#endif
