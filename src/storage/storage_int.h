/* storage_int.h - declarations that the files of this room share; no other room includes it.
 *
 * A read goes through stages that are the same for every engine:
 *     psti_storage_step_begin -> [..._step_opened | ..._step_read]* -> psti_storage_finish
 *
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
/* The most reads of one request, and the most vectors that it may need: a gap takes one vector, and
 * another one for each PSTI_STORAGE_SINK bytes of the request. */
#define PSTI_STORAGE_JOINED_MAX 64u
#define PSTI_STORAGE_VECTORS_MAX (2 * PSTI_STORAGE_JOINED_MAX + 32)
/* Bytes of the sink, the memory to which gaps are read. */
#define PSTI_STORAGE_SINK ((size_t)256 << 10)
/* The most files that io_uring has open at a time for reads by path, because processes may often
 * have no more than 1024 descriptors. Disks of any kind are busy with fewer files. */
#define PSTI_STORAGE_PATHS_MAX 256u

struct psti_storage_pace;

/* An engine: one way to run reads. `state` belongs to it. */
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
    char broken_reason[96]; /* written before n_fallback_uring becomes 1, and never again */
};

struct psti_file {
    struct psti_storage *storage;
    const unsigned char *memory; /* bytes of the file; NULL: they must be read from fd */
    unsigned char *owned;        /* the same memory, if the file must free it */
    uint64_t nbytes;
    int fd;             /* -1: the file is in memory */
    atomic_bool direct; /* true while fd has O_DIRECT */
    char path[];
};

/* Stages of a read (storage_step.c). Those that return bool return true if there is another stage.
 */
bool psti_storage_step_begin(struct psti_storage *storage, struct psti_read *read);
int psti_storage_open_flags(bool direct);
/* `result` is the descriptor, or minus errno. */
bool psti_storage_step_opened(struct psti_storage *storage, struct psti_read *read, int result);
/* `result` is the number of bytes that were read to n_got, or minus errno. */
bool psti_storage_step_read(struct psti_storage *storage, struct psti_read *read, int64_t result);
/* Returns how many bytes the next read requests. */
size_t psti_storage_step_nbytes(const struct psti_read *read);
/* Closes the file, drops pages and counts the read. The caller then calls `read->done`. */
void psti_storage_finish(struct psti_storage *storage, struct psti_read *read);
/* Runs all stages, or all after begin, by system calls of this thread, and finishes the read. */
void psti_storage_execute(struct psti_storage *storage, struct psti_read *read);
void psti_storage_execute_rest(struct psti_storage *storage, struct psti_read *read);

/* Requests of several reads (storage_merge.c). A leader is one whose engine.joined is not NULL. */
/* Joins neighbouring reads to requests. Returns the number of requests; their leaders are the first
 * entries of `reads` then. */
size_t psti_storage_merge(const struct psti_storage *storage, struct psti_read **reads, size_t n);
/* Sorts reads by path by ascending place. */
void psti_storage_sort(struct psti_read **reads, size_t n);
/* Fills the vectors of a request, at most PSTI_STORAGE_VECTORS_MAX, and returns their number. */
unsigned psti_storage_vectors(const struct psti_read *leader, void *sink, struct iovec *vectors);
/* Takes the result of a request that has ended: `result` is the number of bytes that were read, or
 * minus errno. Counts them, and delivers the reads that are whole. Returns the others as a list by
 * engine.joined; each of these must be read by itself. */
struct psti_read *psti_storage_take_joined(struct psti_storage *storage, struct psti_read *leader,
                                           int64_t result);
/* Carries out a request by system calls of this thread, and delivers all its reads. */
void psti_storage_execute_joined(struct psti_storage *storage, struct psti_read *leader,
                                 void *sink);
/* Makes sure that a descriptor which was just opened is a regular file, and blocking. Sets *info to
 * what fstat says. */
struct stat;
enum pst_status psti_storage_check_fd(int fd, bool direct, const char *path, struct stat *info,
                                      struct pst_error *err);
void psti_storage_count_fallback(struct psti_storage *storage);
/* Calls posix_fadvise. Counts a call that the kernel refuses. */
void psti_storage_advise(struct psti_storage *storage, int fd, uint64_t offset, uint64_t nbytes,
                         int advice);

/* The throttle (storage_pace.c). psti_storage_pace_hold may be used only if it was opened with
 * `with_thread`. */
enum pst_status psti_storage_pace_open(double bytes_per_second, double latency_seconds,
                                       unsigned n_at_once, bool with_thread,
                                       struct psti_storage_pace **out, struct pst_error *err);
void psti_storage_pace_close(struct psti_storage_pace **pace);
/* Grants `nbytes` to a read that begins at `now`. Returns the time before which these bytes must
 * not be handed out. */
int64_t psti_storage_pace_admit(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes);
/* Calls read->done at read->engine.deadline_ns, in the throttle's thread. */
void psti_storage_pace_hold(struct psti_storage_pace *pace, struct psti_read *read);
/* Sleeps until that time, or until the throttle is cancelled. */
void psti_storage_pace_wait(struct psti_storage_pace *pace, int64_t until_ns);
/* With `cancelled` true, releases held reads and sleeping threads, and holds no later ones until a
 * call with false. */
void psti_storage_pace_cancel(struct psti_storage_pace *pace, bool cancelled);
/* The next three functions also work without a throttle. */
/* Returns the bytes that a request takes, from the start of its first read to the end of its last
 * one. */
uint64_t psti_storage_span(const struct psti_read *leader);
/* Sets when the throttle lets the request complete. By the throttle's accounting, the request
 * begins owed_ns later than now. */
void psti_storage_admit(struct psti_storage *storage, struct psti_read *read, int64_t owed_ns);
/* Calls `done`, now or when the throttle allows it. The engine must not use `read` afterwards. */
void psti_storage_deliver(struct psti_storage *storage, struct psti_read *read);

/* These functions open the engines. After a failure there is nothing to close. */
enum pst_status psti_storage_pool_open(struct psti_storage *storage, struct pst_error *err);
/* With n_threads 0, it only tests io_uring and sets no engine. */
enum pst_status psti_storage_uring_open(struct psti_storage *storage, struct pst_error *err);

#endif
