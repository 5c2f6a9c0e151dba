/* fake_stream.c - streams of the driver that stands for a GPU: threads with queues.
 *
 * A stream's thread sees its submitters' writes (by a semaphore). Others learn of its work only by
 * waiting for a mark. That is exactly the order that CUDA promises, so ThreadSanitizer checks
 * Penstock against it. */
#include "fake_inner.h"

#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* List of all marks, so that leak checkers can reach them. */
static struct fake_mark *_Atomic all_marks;

struct fake_mark *fake_mark_make(void)
{
    struct fake_mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        abort();
    mark->next = atomic_load_explicit(&all_marks, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&all_marks, &mark->next, mark,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return mark;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void finish_mark(struct fake_mark *mark)
{
    mark->at_ns = now_ns();
    atomic_store_explicit(&mark->done, 1, memory_order_release);
    syscall(SYS_futex, &mark->done, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void fake_mark_wait(struct fake_mark *mark)
{
    while (atomic_load_explicit(&mark->done, memory_order_acquire) == 0)
        syscall(SYS_futex, &mark->done, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

bool fake_mark_is_done(const struct fake_mark *mark)
{
    return atomic_load_explicit(&mark->done, memory_order_acquire) != 0;
}

struct fake_op *fake_op_make(enum fake_op_kind kind)
{
    struct fake_op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->kind = kind;
    return op;
}

/* Checks memory again, because it may have been freed since the operation was submitted. */
static bool check_memory(struct CUctx_st *context, const void *at, size_t nbytes, bool host)
{
    if (fake_memory_has(host ? FAKE_PINNED : context->ordinal, at, nbytes))
        return true;
    fake_complain(context, "%zu bytes at %p of %s memory are used after they were freed", nbytes,
                  at, host ? "pinned" : "device");
    return false;
}

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams; /* guarded by streams_lock */

void fake_streams_stop(const struct CUctx_st *context)
{
    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st *stream = streams; stream; stream = stream->next)
        while (stream->context == context && atomic_load(&stream->works))
            usleep(100);
    pthread_mutex_unlock(&streams_lock);
}

/* Waits while launches are held. Reads with relaxed order, like everything that tests set: it must
 * not add order that events do not give. */
static void wait_while_held(void)
{
    while (atomic_load_explicit(&fake_launches_held, memory_order_relaxed))
        usleep(200);
}

/* Imitates a launch of known duration. A stream that was late does not catch up. */
static void take_time(const struct fake_op *op, unsigned block_ns)
{
    int64_t end = now_ns() + (int64_t)op->n_blocks * block_ns;
    const struct timespec until = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

static void run_op(struct CUstream_st *stream, struct fake_op *op)
{
    struct CUctx_st *context = stream->context;
    unsigned block_ns = atomic_load_explicit(&fake_block_ns, memory_order_relaxed);
    if (op->kind == FAKE_OP_LAUNCH)
        wait_while_held();
    /* Each stream has a flag of its own, because a common one would add order that events do not
     * give. */
    atomic_store(&stream->works, op->kind <= FAKE_OP_LAUNCH);
    bool works = atomic_load(&context->broken) == 0;
    switch (op->kind) {
    case FAKE_OP_COPY:
        if (works && check_memory(context, op->from, op->nbytes, op->from_host) &&
            check_memory(context, op->to, op->nbytes, op->to_host))
            memmove(op->to, op->from, op->nbytes);
        if (op->from_host && !op->to_host)
            atomic_fetch_add_explicit(&fake_n_uploaded, 1, memory_order_relaxed);
        break;
    case FAKE_OP_CLEAR:
        if (works && check_memory(context, op->to, op->nbytes, false))
            memset(op->to, op->value, op->nbytes);
        break;
    case FAKE_OP_LAUNCH:
        if (works && block_ns)
            take_time(op, block_ns);
        else if (works)
            op->fn(op->n_blocks, op->n_warps, op->shared_nbytes, op->args);
        break;
    case FAKE_OP_RECORD:
        finish_mark(op->mark);
        break;
    case FAKE_OP_WAIT:
        fake_mark_wait(op->mark);
        break;
    case FAKE_OP_END:
        break;
    }
    atomic_store(&stream->works, 0);
}

/* A GPU of known speed does not compete for the host's cores, so its threads get a higher priority
 * if that is permitted. */
static void go_before_others(void)
{
    const struct sched_param least = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &least);
}

static void *run_stream(void *memory)
{
    struct CUstream_st *stream = memory;
    if (atomic_load_explicit(&fake_block_ns, memory_order_relaxed))
        go_before_others();
    for (bool more = true; more;) {
        while (sem_wait(&stream->n_queued) != 0) {
        }
        unsigned delay = atomic_load_explicit(&fake_delay_us, memory_order_relaxed);
        struct fake_op *op = atomic_load_explicit(&stream->head->next, memory_order_acquire);
        free(stream->head); /* frees the operation before this one */
        stream->head = op;
        if (delay && op->kind != FAKE_OP_END)
            usleep(delay);
        run_op(stream, op);
        more = op->kind != FAKE_OP_END;
    }
    free(stream->head);
    return NULL;
}

struct CUstream_st *fake_stream_make(struct CUctx_st *context, int priority)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->context = context;
    stream->priority = priority;
    stream->head = stream->tail =
        fake_op_make(FAKE_OP_END); /* a dummy before the first operation */
    pthread_mutex_init(&stream->lock, NULL);
    sem_init(&stream->n_queued, 0, 0);
    if (pthread_create(&stream->thread, NULL, run_stream, stream) != 0)
        abort();
    pthread_mutex_lock(&streams_lock);
    stream->next = streams;
    streams = stream;
    pthread_mutex_unlock(&streams_lock);
    return stream;
}

void fake_stream_end(struct CUstream_st *stream)
{
    fake_stream_submit(stream, fake_op_make(FAKE_OP_END));
    pthread_join(stream->thread, NULL);
    pthread_mutex_lock(&streams_lock);
    for (struct CUstream_st **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    pthread_mutex_unlock(&streams_lock);
    sem_destroy(&stream->n_queued);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

void fake_stream_submit(struct CUstream_st *stream, struct fake_op *op)
{
    pthread_mutex_lock(&stream->lock);
    atomic_store_explicit(&stream->tail->next, op, memory_order_release);
    stream->tail = op;
    pthread_mutex_unlock(&stream->lock);
    sem_post(&stream->n_queued);
}
