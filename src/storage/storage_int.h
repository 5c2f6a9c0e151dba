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
/* Most bytes of one system call. It fits io_uring's 32-bit results and is a multiple of the block.
 */
#define PSTI_STORAGE_CALL_MAX ((size_t)1 << 30)
/* Most reads of one request, and the vectors that it may need: a gap takes one, and another one for
 * each PSTI_STORAGE_SINK bytes of the request. */
#define PSTI_STORAGE_JOINED_MAX 64u
#define PSTI_STORAGE_VECTORS_MAX (2 * PSTI_STORAGE_JOINED_MAX + 32)
/* Bytes of the memory to which gaps are read. */
#define PSTI_STORAGE_SINK ((size_t)256 << 10)
/* Most files that io_uring has open at a time for reads by path: processes may often have no more
 * than 1024 descriptors. Disks of any kind are busy with fewer. */
#define PSTI_STORAGE_PATHS_MAX 256u

struct psti_storage_pace;

/* One way to run reads. `state` belongs to the engine. */
struct psti_storage_engine {
    void (*submit)(struct psti_storage *storage, struct psti_read **reads, size_t n);
    void (*close)(struct psti_storage *storage);
};

struct psti_storage {
    struct psti_storage_options options;
    enum pst_storage_kind kind; /* never AUTO */
    char reason[96];
    struct psti_storage_pace *pace; /* NULL: not throttled */
    const struct psti_storage_engine *engine;
    void *state;
    atomic_uint_fast64_t n_reads, nbytes_read, read_ns, n_fallback_direct, memory_nbytes;
    atomic_uint_fast64_t n_fallback_uring, n_fallback_advice, n_merged, nbytes_gap, n_ordered;
    atomic_uint_fast64_t gap_nbytes_now; /* psti_storage_set_gap */
    char broken_reason[96]; /* written before n_fallback_uring becomes 1, and never again */
};

struct psti_file {
    struct psti_storage *storage;
    const unsigned char *memory; /* NULL: the bytes are after fd */
    unsigned char *owned;        /* memory, if the file must free it */
    uint64_t nbytes;
    int fd;             /* -1: memory */
    atomic_bool direct; /* fd still has O_DIRECT */
    char path[];
};

/* Stages of a read (storage_step.c). Those that return bool return true if there is another stage.
 */
bool psti_storage_step_begin(struct psti_storage *storage, struct psti_read *read);
int psti_storage_open_flags(bool direct);
/* `result`: the descriptor, or minus errno. */
bool psti_storage_step_opened(struct psti_storage *storage, struct psti_read *read, int result);
/* `result`: number of bytes that arrived at n_got, or minus errno. */
bool psti_storage_step_read(struct psti_storage *storage, struct psti_read *read, int64_t result);
/* Bytes to request in the next read. */
size_t psti_storage_step_nbytes(const struct psti_read *read);
/* Closes, drops pages, counts. The caller calls `read->done`. */
void psti_storage_finish(struct psti_storage *storage, struct psti_read *read);
/* Runs all stages, or all after begin, by system calls of this thread, and finishes. */
void psti_storage_execute(struct psti_storage *storage, struct psti_read *read);
void psti_storage_execute_rest(struct psti_storage *storage, struct psti_read *read);

/* Requests of several reads (storage_merge.c). A leader is one whose engine.joined is not NULL. */
/* Joins neighbours. Returns the number of requests; they are the first ones of `reads` then. */
size_t psti_storage_merge(const struct psti_storage *storage, struct psti_read **reads, size_t n);
/* Puts reads by path in ascending place. */
void psti_storage_sort(struct psti_read **reads, size_t n);
/* Fills at most PSTI_STORAGE_VECTORS_MAX vectors and returns how many. */
unsigned psti_storage_vectors(const struct psti_read *leader, void *sink, struct iovec *vectors);
/* The request has ended; `result`: bytes that came, or minus errno. Counts, and delivers the reads
 * that are whole. Returns the others, a list by engine.joined: each is to be read by itself. */
struct psti_read *psti_storage_take_joined(struct psti_storage *storage, struct psti_read *leader,
                                           int64_t result);
/* Carries the request out by system calls of this thread, and delivers all its reads. */
void psti_storage_execute_joined(struct psti_storage *storage, struct psti_read *leader,
                                 void *sink);
/* Makes sure that a descriptor just opened is a regular file, blocking. *info: what fstat says. */
struct stat;
enum pst_status psti_storage_check_fd(int fd, bool direct, const char *path, struct stat *info,
                                      struct pst_error *err);
void psti_storage_count_fallback(struct psti_storage *storage);
/* Calls posix_fadvise. Counts a refusal. */
void psti_storage_advise(struct psti_storage *storage, int fd, uint64_t offset, uint64_t nbytes,
                         int advice);

/* Throttle (storage_pace.c). With `with_thread`, psti_storage_pace_hold may be used. */
enum pst_status psti_storage_pace_open(double bytes_per_second, double latency_seconds,
                                       unsigned n_at_once, bool with_thread,
                                       struct psti_storage_pace **out, struct pst_error *err);
void psti_storage_pace_close(struct psti_storage_pace **pace);
/* Grants `nbytes` to a read that begins at `now`. Returns the time before which they must not be
 * handed out. */
int64_t psti_storage_pace_admit(struct psti_storage_pace *pace, int64_t now, uint64_t nbytes);
/* Calls read->done at read->engine.deadline_ns, in the throttle's thread. */
void psti_storage_pace_hold(struct psti_storage_pace *pace, struct psti_read *read);
/* Sleeps until that time, or until cancelled. */
void psti_storage_pace_wait(struct psti_storage_pace *pace, int64_t until_ns);
/* With `cancelled` true, releases held reads and sleeping threads, and holds no later ones until a
 * call with false. */
void psti_storage_pace_cancel(struct psti_storage_pace *pace, bool cancelled);
/* The next three are there without a throttle, too. */
/* Bytes that a request takes: from the first read's start to the last one's end. */
uint64_t psti_storage_span(const struct psti_read *leader);
/* Asks the throttle when the request may complete. owed_ns: by its accounting the request begins
 * that much later than now. */
void psti_storage_admit(struct psti_storage *storage, struct psti_read *read, int64_t owed_ns);
/* Calls `done`, now or when the throttle allows it. The engine gives up `read`. */
void psti_storage_deliver(struct psti_storage *storage, struct psti_read *read);

/* Engines. A failed open leaves nothing behind. */
enum pst_status psti_storage_pool_open(struct psti_storage *storage, struct pst_error *err);
/* With n_threads 0 io_uring is only tested; no engine is set. */
enum pst_status psti_storage_uring_open(struct psti_storage *storage, struct pst_error *err);

#endif
