/* storage_uring.c - io_uring: one thread owns a ring, starts reads and handles their completions.
 *
 * In: reads of psti_storage_submit, in a list under a lock. Out: calls of their `done`, by the
 * ring's thread, or by the throttle's. Only the ring's thread touches the ring. So requests do not
 * die with the thread that submitted them, and no lock is held during system calls. The thread
 * sleeps in the ring. An eventfd, read through the ring itself, wakes it for new reads. Each read
 * has at most one entry in the ring, so the completion queue cannot overflow.
 *
 * Kernels and containers may forbid io_uring: open tests it and says why not. If it breaks later,
 * the same thread carries out reads by system calls. */
#include "storage/storage_int.h"

#include "base/fail.h"

#ifdef PST_HAVE_URING

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The most reads that the kernel has at once; others wait in the list. */
#define N_ENTRIES_MAX 1024u
/* Pause (ns) before a call is repeated that failed for lack of kernel memory, and between two
 * checks of a broken ring. */
#define RETRY_NS 1000000
/* The most requests of several reads that the kernel has at once. Their vectors must stay valid
 * until they complete. */
#define N_VECTORS_MAX 32u

struct list {
    struct psti_read *head, *tail;
};

/* The I/O vectors of one request of several reads. */
struct vectors {
    struct vectors *next;
    struct iovec parts[PSTI_STORAGE_VECTORS_MAX];
};

struct uring {
    struct psti_storage *storage;
    struct io_uring ring; /* only the ring's thread uses this and the members up to `broken` */
    struct list waiting;  /* reads that the thread has taken over but not started */
    unsigned n_entries, n_started;
    unsigned n_paths;    /* number of started reads by path, each of which may have a file open */
    unsigned paths_max;  /* limit of n_paths; lowered when the process has no descriptor left */
    uint64_t wake_count; /* the eventfd's counter is read to here */
    bool wake_armed, broken;
    struct vectors *all_vectors, *free_vectors; /* all of them, NULL if reads are not joined; unused
                                                 * ones */
    unsigned char *sink;                        /* memory that receives the bytes between joined
                                                 * reads */
    int wake_fd;
    pthread_t thread;
    pthread_mutex_t lock;
    struct list submitted; /* the lock guards this and the next two members */
    bool awake;            /* true if the thread will look at `submitted` before it sleeps */
    bool closing;
};

static void list_append(struct list *list, struct psti_read *read)
{
    read->next = NULL;
    if (list->tail != NULL)
        list->tail->next = read;
    else
        list->head = read;
    list->tail = read;
}

static struct psti_read *list_pop(struct list *list)
{
    struct psti_read *read = list->head;
    if (read != NULL) {
        list->head = read->next;
        if (list->head == NULL)
            list->tail = NULL;
    }
    return read;
}

/* Puts the reads of `first`, at least one, before those of `list`. */
static void list_prepend(struct list *list, const struct list *first)
{
    first->tail->next = list->head;
    if (list->tail == NULL)
        list->tail = first->tail;
    list->head = first->head;
}

static void uring_submit(struct psti_storage *storage, struct psti_read **reads, size_t n)
{
    struct uring *u = storage->state;
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < n; i++)
        list_append(&u->submitted, reads[i]);
    bool wake = !u->awake;
    u->awake = true;
    pthread_mutex_unlock(&u->lock);
    if (wake)
        (void)eventfd_write(u->wake_fd, 1);
}

/* Frees the vectors of a request of several reads, after the kernel has completed or refused it. */
static void free_vectors(struct uring *u, struct psti_read *leader)
{
    struct vectors *vectors = leader->engine.vectors;
    vectors->next = u->free_vectors;
    u->free_vectors = vectors;
}

/* Puts a request of several reads into the ring. There must be free vectors. */
static void start_joined(struct uring *u, struct psti_read *leader)
{
    struct io_uring_sqe *sqe = u->broken ? NULL : io_uring_get_sqe(&u->ring);
    if (sqe == NULL) {
        psti_storage_execute_joined(u->storage, leader, u->sink);
        return;
    }
    u->n_started++;
    struct vectors *vectors = u->free_vectors;
    u->free_vectors = vectors->next;
    leader->engine.vectors = vectors;
    leader->engine.start_ns = psti_clock_ns();
    unsigned n = psti_storage_vectors(leader, u->sink, vectors->parts);
    io_uring_prep_readv(sqe, leader->file->fd, vectors->parts, n, leader->offset);
    io_uring_sqe_set_data(sqe, leader);
}

/* Handles the result of a request of several reads. Reads that are not complete go to the front of
 * the list, to be read alone. */
static void take_joined(struct uring *u, struct psti_read *leader, int result)
{
    struct list again = {NULL, NULL};
    free_vectors(u, leader);
    struct psti_read *read = psti_storage_take_joined(u->storage, leader, result), *next;
    for (; read != NULL; read = next) {
        next = read->engine.joined;
        read->engine.joined = NULL;
        psti_storage_admit(u->storage, read, 0);
        list_append(&again, read);
    }
    if (again.tail != NULL)
        list_prepend(&u->waiting, &again);
}

/* Delivers a read that is finished. */
static void deliver(struct uring *u, struct psti_read *read)
{
    if (read->file == NULL) {
        u->n_paths--;
        u->paths_max += u->paths_max < PSTI_STORAGE_PATHS_MAX;
    }
    psti_storage_deliver(u->storage, read);
}

/* Puts the next step of `read` into the ring. If the ring is broken, carries the read out here. */
static void start_step(struct uring *u, struct psti_read *read)
{
    struct psti_read_engine *e = &read->engine;
    struct io_uring_sqe *sqe = u->broken ? NULL : io_uring_get_sqe(&u->ring);
    if (sqe == NULL) {
        psti_storage_execute_rest(u->storage, read);
        deliver(u, read);
        return;
    }
    u->n_started++;
    if (e->opening) {
        io_uring_prep_openat(sqe, AT_FDCWD, read->path, psti_storage_open_flags(e->direct), 0);
    } else {
        io_uring_prep_read(sqe, e->fd, (unsigned char *)read->buffer + e->n_got,
                           (unsigned)psti_storage_step_nbytes(read), e->base + e->n_got);
        if (e->again)
            io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
    }
    io_uring_sqe_set_data(sqe, read);
}

/* Returns whether the first read in the list can be started now. */
static bool can_start(const struct uring *u)
{
    const struct psti_read *read = u->waiting.head;
    return u->n_started < u->n_entries && read != NULL &&
           (read->engine.joined == NULL || u->free_vectors != NULL) &&
           (read->file != NULL || u->n_paths < u->paths_max);
}

static void start_next(struct uring *u)
{
    struct psti_read *read = list_pop(&u->waiting);
    if (read->engine.joined != NULL) {
        start_joined(u, read);
        return;
    }
    u->n_paths += read->file == NULL;
    if (psti_storage_step_begin(u->storage, read)) {
        start_step(u, read);
    } else {
        psti_storage_finish(u->storage, read);
        deliver(u, read);
    }
}

/* Returns true if opening a file failed because the process or the system has no descriptor left,
 * while other reads have files open. The read is then started again when one of these has ended. */
static bool waits_for_descriptor(struct uring *u, struct psti_read *read, int result)
{
    if ((result != -EMFILE && result != -ENFILE) || u->n_paths < 2)
        return false;
    u->paths_max = --u->n_paths;
    read->next = NULL;
    list_prepend(&u->waiting, &(const struct list){read, read});
    return true;
}

/* Handles one completion. */
static void take(struct uring *u, struct psti_read *read, int result)
{
    if (read == NULL) {
        u->wake_armed = false;
        return;
    }
    u->n_started--;
    if (read->engine.joined != NULL) {
        take_joined(u, read, result);
        return;
    }
    if (read->engine.opening && waits_for_descriptor(u, read, result))
        return;
    bool more = read->engine.opening ? psti_storage_step_opened(u->storage, read, result)
                                     : psti_storage_step_read(u->storage, read, result);
    if (more) {
        start_step(u, read);
    } else {
        psti_storage_finish(u->storage, read);
        deliver(u, read);
    }
}

static void take_all(struct uring *u)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&u->ring, &cqe) == 0 && cqe != NULL) {
        struct psti_read *read = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        take(u, read, result);
    }
}

/* Stores the reason why system calls of this thread are used from now on, for callers who ask for
 * the kind in use. Called once. */
static void note_break(struct psti_storage *storage, int os_error)
{
    snprintf(storage->broken_reason, sizeof storage->broken_reason,
             "io_uring failed while reading (%s)", strerror(os_error));
    atomic_store(&storage->n_fallback_uring, 1);
}

/* Stops using the ring, because the kernel accepts no more entries. Entries that the kernel has not
 * seen, and all later reads, are carried out here. */
static void give_up(struct uring *u, int error)
{
    psti_log(PST_LOG_WARNING, "storage", "io_uring failed (%s); reading without it from now on",
             strerror(error));
    u->broken = true;
    note_break(u->storage, error);
    struct io_uring_sq *sq = &u->ring.sq;
    unsigned head = __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE);
    for (; head != sq->sqe_tail; head++) {
        struct psti_read *read =
            (struct psti_read *)(uintptr_t)sq->sqes[head & *sq->kring_mask].user_data;
        if (read == NULL) {
            u->wake_armed = false;
            continue;
        }
        u->n_started--;
        if (read->engine.joined != NULL) {
            free_vectors(u, read);
            psti_storage_execute_joined(u->storage, read, u->sink);
            continue;
        }
        psti_storage_execute_rest(u->storage, read);
        deliver(u, read);
    }
}

/* Passes the entries to the kernel. With `wait`, sleeps until there is a completion. */
static void enter(struct uring *u, bool wait)
{
    int result = wait ? io_uring_submit_and_wait(&u->ring, 1) : io_uring_submit(&u->ring);
    if (result >= 0 || result == -EINTR)
        return;
    if (result == -EAGAIN || result == -EBUSY || result == -ENOMEM)
        psti_clock_sleep_until(psti_clock_ns() + RETRY_NS);
    else
        give_up(u, -result);
}

/* Waits without the ring: checks from time to time for completions that the kernel still has to
 * deliver. */
static void wait_broken(struct uring *u)
{
    eventfd_t count;
    if (u->n_started > 0 || u->wake_armed)
        psti_clock_sleep_until(psti_clock_ns() + RETRY_NS);
    else
        (void)eventfd_read(u->wake_fd, &count);
}

static void arm_wake(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe == NULL)
        return; /* the kernel must first take the entries that are in the ring */
    io_uring_prep_read(sqe, u->wake_fd, &u->wake_count, sizeof u->wake_count, 0);
    io_uring_sqe_set_data(sqe, NULL);
    u->wake_armed = true;
}

/* Takes over the submitted reads. Returns false if the ring is closed and no work is left. */
static bool take_submitted(struct uring *u, bool *any)
{
    pthread_mutex_lock(&u->lock);
    *any = u->submitted.head != NULL;
    u->awake = *any;
    struct psti_read *read;
    while ((read = list_pop(&u->submitted)) != NULL)
        list_append(&u->waiting, read);
    bool closing = u->closing;
    pthread_mutex_unlock(&u->lock);
    /* The read of the eventfd must end before its memory is freed. The engine's close function ends
     * it by a write to the eventfd. */
    if (closing)
        return u->waiting.head != NULL || u->n_started > 0 || (u->wake_armed && !u->broken);
    if (!u->wake_armed && !u->broken)
        arm_wake(u);
    return true;
}

static void uring_main(void *arg)
{
    struct uring *u = arg;
    bool any;
    while (take_submitted(u, &any)) {
        while (can_start(u))
            start_next(u);
        if (!u->broken)
            enter(u, !any && (u->n_started > 0 || u->wake_armed));
        else if (!any)
            wait_broken(u);
        take_all(u);
    }
}

static void uring_close(struct psti_storage *storage)
{
    struct uring *u = storage->state;
    pthread_mutex_lock(&u->lock);
    u->closing = true;
    pthread_mutex_unlock(&u->lock);
    (void)eventfd_write(u->wake_fd, 1);
    psti_thread_join(u->thread);
    io_uring_queue_exit(&u->ring);
    close(u->wake_fd);
    pthread_mutex_destroy(&u->lock);
    psti_free(u->all_vectors);
    psti_free(u->sink);
    psti_free(u);
    storage->state = NULL;
}

static const struct psti_storage_engine uring_engine = {uring_submit, uring_close};

static enum pst_status unsupported(struct pst_error *err, const char *what, int error)
{
    const char *hint = error == EPERM    ? " (kernel.io_uring_disabled, or a container's filter)"
                       : error == ENOMEM ? " (limit on locked memory)"
                                         : "";
    psti_fail(err, PST_ERROR_UNSUPPORTED, "storage", "%s: %s%s", what, strerror(error), hint);
    if (err != NULL)
        err->os_error = error;
    return PST_ERROR_UNSUPPORTED;
}

/* Tests whether the ring works. A system call filter may allow setting up a ring but not entering
 * it, so one entry is submitted. */
static enum pst_status try_ring(struct io_uring *ring, struct pst_error *err)
{
    union {
        struct io_uring_probe head;
        unsigned char
            room[sizeof(struct io_uring_probe) + IORING_OP_LAST * sizeof(struct io_uring_probe_op)];
    } probe;
    memset(&probe, 0, sizeof probe);
    int result = io_uring_register_probe(ring, &probe.head, IORING_OP_LAST);
    if (result < 0)
        return unsupported(err, "io_uring_register", -result);
    static const int wanted[] = {IORING_OP_NOP, IORING_OP_READ, IORING_OP_OPENAT};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!io_uring_opcode_supported(&probe.head, wanted[i]))
            return psti_fail(err, PST_ERROR_UNSUPPORTED, "storage",
                             "this kernel's io_uring lacks operation %d", wanted[i]);
    io_uring_prep_nop(io_uring_get_sqe(ring));
    result = io_uring_submit_and_wait(ring, 1);
    if (result < 0)
        return unsupported(err, "io_uring_enter", -result);
    struct io_uring_cqe *cqe;
    result = io_uring_peek_cqe(ring, &cqe);
    if (result < 0)
        return unsupported(err, "io_uring_enter", -result);
    io_uring_cqe_seen(ring, cqe);
    return PST_OK;
}

/* Allocates the I/O vectors for requests of several joined reads. */
static enum pst_status open_vectors(struct uring *u, struct pst_error *err)
{
    u->all_vectors = psti_calloc(N_VECTORS_MAX, sizeof *u->all_vectors);
    u->sink = psti_alloc(PSTI_STORAGE_SINK);
    if (u->all_vectors == NULL || u->sink == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for io_uring");
    for (unsigned i = 0; i < N_VECTORS_MAX; i++) {
        u->all_vectors[i].next = u->free_vectors;
        u->free_vectors = &u->all_vectors[i];
    }
    return PST_OK;
}

enum pst_status psti_storage_uring_open(struct psti_storage *storage, struct pst_error *err)
{
    struct uring *u = psti_calloc(1, sizeof *u);
    if (u == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "storage", "no memory for io_uring");
    unsigned depth = storage->options.depth;
    u->storage = storage;
    u->n_entries = depth < N_ENTRIES_MAX ? depth : N_ENTRIES_MAX;
    u->paths_max = PSTI_STORAGE_PATHS_MAX;
    u->wake_fd = -1;
    pthread_mutex_init(&u->lock, NULL);
    enum pst_status status;
    int result = io_uring_queue_init(u->n_entries + 1, &u->ring, 0);
    if (result < 0) {
        status = unsupported(err, "io_uring_setup", -result);
        goto fail_ring;
    }
    status = try_ring(&u->ring, err);
    if (status != PST_OK || storage->options.n_threads == 0)
        goto fail_wake; /* without a thread, this was only the test of io_uring */
    if (storage->options.gap_nbytes > 0) {
        status = open_vectors(u, err);
        if (status != PST_OK)
            goto fail_wake;
    }
    u->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (u->wake_fd < 0) {
        status = psti_fail_os(err, errno, "storage", NULL, -1, "cannot make an eventfd");
        goto fail_wake;
    }
    storage->state = u;
    status = psti_thread_start(&u->thread, "uring", uring_main, u, err);
    if (status != PST_OK)
        goto fail_thread;
    storage->engine = &uring_engine;
    return PST_OK;

fail_thread:
    storage->state = NULL;
    close(u->wake_fd);
fail_wake:
    io_uring_queue_exit(&u->ring);
fail_ring:
    pthread_mutex_destroy(&u->lock);
    psti_free(u->all_vectors);
    psti_free(u->sink);
    psti_free(u);
    return status;
}

#else

enum pst_status psti_storage_uring_open(struct psti_storage *storage, struct pst_error *err)
{
    (void)storage;
    return psti_fail(err, PST_ERROR_UNSUPPORTED, "storage", "built without liburing");
}

#endif
