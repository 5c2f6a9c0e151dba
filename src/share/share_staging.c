/* share_staging.c - the session of a job that shares prepared batches.
 *
 * One thread asks for batches; any thread gives extents back, even after the loader was closed. A
 * few extents are given back with the next request, which saves a message for each batch. Extents
 * whose message cannot be sent at once also wait for it, so giving back never waits for the
 * service. */
#include "share/share_staging.h"

#include "share/share_host.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/files/sealed.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define GIVEN_MAX (2 * PSTI_STREAM_EXTENTS)
#define LATE_PART 4 /* 1 / LATE_PART of the extents that a job may hold are given back with the
                       next request */

struct arena {
    int fd;
    const void *bytes; /* start of the mapped arena; NULL: it is not mapped */
    size_t nbytes;     /* known length of the arena, which may have grown since */
    bool looked;       /* true if making a view was tried already */
    struct psti_share_view *view;
};

struct psti_staging {
    atomic_uint refs;
    atomic_uint n_held;
    int fd;
    pid_t owner;
    int64_t wait_ns;
    struct psti_stream_layout layout;
    uint32_t span; /* largest number of extents of a batch */
    void (*unmapping)(void *ctx, const void *memory, size_t nbytes);
    void *ctx;
    /* Members that only the thread that asks for batches uses: */
    struct arena arenas[PSTI_STREAM_ARENAS];
    uint64_t want_id;
    bool waiting; /* the batch of want_id was requested and has not arrived */
    int64_t heard_ns;
    struct psti_stream_want want;
    struct psti_stream_ready ready;
    struct psti_message message;
    /* The lock guards the members below, and sending. */
    pthread_mutex_t lock;
    bool lost;
    uint32_t n_given;
    uint64_t given[GIVEN_MAX];
    uint8_t out[PSTI_MESSAGE_NBYTES];
};

void psti_share_staging_retain(struct psti_staging *staging)
{
    atomic_fetch_add(&staging->refs, 1);
}

static void close_arena(struct psti_staging *staging, struct arena *arena)
{
    if (!arena->bytes)
        return;
    size_t nbytes = staging->layout.n_slots * staging->layout.stride;
    if (staging->unmapping)
        staging->unmapping(staging->ctx, arena->bytes, nbytes);
    psti_sealed_unmap(arena->bytes, nbytes);
    close(arena->fd);
    psti_share_view_release(arena->view);
    *arena = (struct arena){.fd = -1};
}

void psti_share_staging_release(struct psti_staging *staging)
{
    if (!staging || atomic_fetch_sub(&staging->refs, 1) != 1)
        return;
    for (uint32_t i = 0; i < PSTI_STREAM_ARENAS; i++)
        close_arena(staging, &staging->arenas[i]);
    psti_share_disconnect(staging->fd, staging->owner);
    pthread_mutex_destroy(&staging->lock);
    psti_free(staging);
}

const struct psti_stream_layout *psti_share_staging_layout(const struct psti_staging *staging)
{
    return &staging->layout;
}

uint32_t psti_share_staging_n_held(const struct psti_staging *staging)
{
    return atomic_load(&staging->n_held);
}

static enum pst_status join(struct psti_staging *staging,
                            const struct psti_staging_options *options, struct pst_error *err)
{
    int fds[1 + PSTI_SHARE_DATASET_FDS] = {options->options_fd};
    uint32_t n_fds = 0;
    struct psti_wire_out out = psti_share_begin(staging->out);
    psti_share_put_open(&out, options->open);
    enum pst_status status = psti_share_put_dataset(&out, options->dataset, fds + 1, &n_fds, err);
    if (status != PST_OK)
        return status;
    size_t nbytes = psti_share_finish(&out, (enum psti_message_kind)PSTI_STREAM_OPEN, 1, 1 + n_fds);
    if (nbytes == 0)
        status = psti_fail(err, PST_ERROR_LIMIT, "share", "the data set's options are too long");
    else
        status = psti_share_send(staging->fd, staging->out, nbytes, fds, 1 + n_fds,
                                 psti_clock_ns() + options->wait_ns, err);
    while (n_fds > 0)
        close(fds[n_fds--]);
    if (status == PST_END)
        status = psti_fail(err, PST_ERROR_IO, "share", "the host service has closed the session");
    if (status == PST_OK)
        status = psti_share_answer(staging->fd, &staging->message,
                                   (enum psti_message_kind)PSTI_STREAM_OPENED, options->wait_ns,
                                   &options->stop, err);
    if (status != PST_OK)
        return status;
    struct psti_wire_in in = psti_share_message_body(&staging->message);
    status = psti_share_get_layout(&in, &staging->layout, err);
    psti_share_message_close(&staging->message);
    return status;
}

enum pst_status psti_share_staging_open(const struct psti_staging_options *options,
                                        struct psti_staging **out, struct pst_error *err)
{
    char path[PSTI_SOCKET_PATH_CAP];
    *out = NULL;
    struct psti_staging *staging = psti_calloc(1, sizeof *staging);
    if (!staging)
        return psti_fail(err, PST_ERROR_MEMORY, "share", "no memory for a session");
    pthread_mutex_init(&staging->lock, NULL);
    atomic_init(&staging->refs, 1);
    staging->fd = -1;
    staging->owner = getpid();
    staging->wait_ns = options->wait_ns;
    staging->unmapping = options->unmapping;
    staging->ctx = options->ctx;
    staging->span = options->open->batch_size / options->open->extent_rows + 2;
    enum pst_status status = psti_share_socket_path(options->socket, path, err);
    if (status == PST_OK)
        status = psti_share_connect_or_start(path, options->program, PSTI_SESSION_STREAM,
                                             options->wait_ns, &options->stop, &staging->fd, err);
    if (status == PST_OK)
        status = join(staging, options, err);
    staging->want_id = 1;
    if (status == PST_OK)
        *out = staging;
    else
        psti_share_staging_release(staging);
    return status;
}

/* Sends `want` with as many given-back extents as fit. The lock is held. deadline 0: does not wait,
 * so it may fail. */
static enum pst_status send_want(struct psti_staging *staging, struct psti_stream_want *want,
                                 enum psti_stream_message kind, uint64_t id, int64_t deadline,
                                 struct pst_error *err)
{
    uint32_t n = staging->n_given < PSTI_STREAM_EXTENTS ? staging->n_given : PSTI_STREAM_EXTENTS;
    want->n_given = n;
    memcpy(want->given, staging->given, n * sizeof staging->given[0]);
    struct psti_wire_out out = psti_share_begin(staging->out);
    psti_share_put_want(&out, want);
    size_t nbytes = psti_share_finish(&out, (enum psti_message_kind)kind, id, 0);
    enum pst_status status =
        psti_share_send(staging->fd, staging->out, nbytes, NULL, 0, deadline, err);
    if (status == PST_OK) {
        staging->n_given -= n;
        memmove(staging->given, staging->given + n, staging->n_given * sizeof staging->given[0]);
    } else if (status == PST_END) {
        staging->lost = true;
    }
    return status;
}

/* Sends a message that only gives extents back. leaves: 1 if the job has left its epoch and not
 * begun another. The lock is held. */
static void send_given(struct psti_staging *staging, uint32_t leaves)
{
    struct psti_stream_want give = {.leaves = leaves};
    if (!staging->lost && (staging->n_given || leaves))
        (void)send_want(staging, &give, PSTI_STREAM_GIVE, 0, 0, NULL);
}

void psti_share_staging_give(struct psti_staging *staging, const uint64_t *numbers, uint32_t n)
{
    pthread_mutex_lock(&staging->lock);
    for (uint32_t i = 0; i < n && staging->n_given < GIVEN_MAX; i++)
        staging->given[staging->n_given++] = numbers[i];
    if (staging->n_given > staging->layout.hold_max / LATE_PART)
        send_given(staging, 0);
    pthread_mutex_unlock(&staging->lock);
    atomic_fetch_sub(&staging->n_held, n);
}

void psti_share_staging_leave(struct psti_staging *staging)
{
    staging->waiting = false;
    pthread_mutex_lock(&staging->lock);
    send_given(staging, 1);
    pthread_mutex_unlock(&staging->lock);
}

static enum pst_status take_arenas(struct psti_staging *staging, struct pst_error *err)
{
    size_t capacity = staging->layout.n_slots * staging->layout.stride;
    if (staging->message.n_fds != staging->ready.n_arenas)
        return psti_fail(err, PST_ERROR_CORRUPT, "share", "a shared batch came without its memory");
    for (uint32_t i = 0; i < staging->ready.n_arenas; i++) {
        struct arena *arena = &staging->arenas[staging->ready.arenas[i]];
        close_arena(staging, arena);
        arena->fd = psti_share_message_take_fd(&staging->message, i);
        enum pst_status status = psti_sealed_store_map(arena->fd, capacity, &arena->bytes, err);
        if (status != PST_OK) {
            close(arena->fd);
            return status;
        }
    }
    return PST_OK;
}

static enum pst_status take_ready(struct psti_staging *staging, struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(&staging->message);
    enum pst_status status = psti_share_get_ready(&in, &staging->layout, &staging->ready, err);
    if (status == PST_OK)
        status = take_arenas(staging, err);
    if (status != PST_OK)
        return status;
    staging->layout.group_epoch = staging->ready.group_epoch;
    staging->layout.group_samples = staging->ready.group_samples;
    staging->layout.counts = staging->ready.counts;
    atomic_fetch_add(&staging->n_held, staging->ready.n_extents);
    if (staging->message.head.id == staging->want_id)
        return PST_OK;
    for (uint32_t i = 0; i < staging->ready.n_extents; i++) /* gives the batch's extents back,
                                                               because it is no longer wanted */
        psti_share_staging_give(staging, &staging->ready.extents[i].number, 1);
    return PST_ERROR_BUSY;
}

/* Handles one message. PST_ERROR_BUSY: the message was not the answer to the present request. */
static enum pst_status take_message(struct psti_staging *staging, enum psti_stream_alone *alone,
                                    struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(&staging->message);
    struct pst_error theirs;
    enum pst_status status;
    switch ((int)staging->message.head.kind) {
    case PSTI_MESSAGE_ALIVE:
        return PST_ERROR_BUSY;
    case PSTI_STREAM_READY:
        return take_ready(staging, err);
    case PSTI_STREAM_ALONE:
        status = psti_share_get_alone(&in, alone, err);
        if (status == PST_OK)
            status = staging->message.head.id == staging->want_id ? PST_END : PST_ERROR_BUSY;
        return status;
    case PSTI_MESSAGE_ERROR:
        psti_share_get_error(&in, &theirs);
        if (err)
            *err = theirs;
        return theirs.status == PST_ERROR_BUSY ? PST_ERROR_IO : theirs.status;
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, "share",
                         "the host service sent a message of kind %u", staging->message.head.kind);
    }
}

static enum pst_status ask(struct psti_staging *staging, const struct psti_stream_want *want,
                           struct pst_error *err)
{
    staging->want = *want;
    staging->want_id++;
    pthread_mutex_lock(&staging->lock);
    enum pst_status status = send_want(staging, &staging->want, PSTI_STREAM_WANT, staging->want_id,
                                       psti_clock_ns() + staging->wait_ns, err);
    pthread_mutex_unlock(&staging->lock);
    staging->heard_ns = psti_clock_ns();
    staging->waiting = status == PST_OK;
    if (status == PST_END)
        status = psti_fail(err, PST_ERROR_IO, "share", "the host service has ended");
    return status;
}

/* Receives one message. PST_ERROR_BUSY: none came before `deadline`. */
static enum pst_status receive(struct psti_staging *staging, int64_t deadline,
                               struct pst_error *err)
{
    int64_t lost = staging->heard_ns + staging->wait_ns;
    struct pst_error cause;
    pst_error_clear(&cause);
    enum pst_status status = psti_share_receive(staging->fd, &staging->message,
                                                deadline < lost ? deadline : lost, &cause);
    if (status == PST_OK) {
        staging->heard_ns = psti_clock_ns();
        return PST_OK;
    }
    if (status == PST_END)
        return psti_fail(err, PST_ERROR_IO, "share", "the host service has ended");
    if (status == PST_ERROR_IO && cause.os_error == ETIMEDOUT && psti_clock_ns() < lost)
        return psti_fail(err, PST_ERROR_BUSY, "share", "the shared batch is not there yet");
    if (err)
        *err = cause;
    return status;
}

enum pst_status psti_share_staging_want(struct psti_staging *staging,
                                        const struct psti_stream_want *want, int64_t deadline,
                                        const struct psti_stream_ready **ready,
                                        enum psti_stream_alone *alone, struct pst_error *err)
{
    enum pst_status status = PST_OK;
    if (!staging->waiting || staging->want.epoch != want->epoch ||
        staging->want.first != want->first || staging->want.n_rows != want->n_rows)
        status = ask(staging, want, err);
    bool answered = false;
    while (status == PST_OK && !answered) {
        status = receive(staging, deadline, err);
        if (status != PST_OK)
            return status; /* also PST_ERROR_BUSY, after which the next call continues the wait */
        status = take_message(staging, alone, err);
        psti_share_message_close(&staging->message);
        answered = status != PST_ERROR_BUSY;
        if (!answered)
            status = PST_OK;
    }
    staging->waiting = false;
    *ready = &staging->ready;
    return status;
}

const void *psti_share_staging_bytes(struct psti_staging *staging,
                                     const struct psti_stream_extent *extent, uint64_t at,
                                     uint64_t nbytes)
{
    struct arena *arena = &staging->arenas[extent->arena];
    uint64_t from = extent->slot * staging->layout.stride + at;
    if (!arena->bytes || at > staging->layout.stride || nbytes > staging->layout.stride - at)
        return NULL;
    if (from + nbytes > arena->nbytes) /* the store may have grown since then; it never shrinks */
        arena->nbytes = psti_sealed_nbytes(arena->fd);
    if (from + nbytes > arena->nbytes)
        return NULL;
    return (const char *)arena->bytes + from;
}

const void *psti_share_staging_slot(struct psti_staging *staging,
                                    const struct psti_stream_extent *extent, size_t *nbytes)
{
    *nbytes = staging->layout.own;
    return psti_share_staging_bytes(staging, extent, 0, staging->layout.own);
}

bool psti_share_staging_show(struct psti_staging *staging, const struct psti_stream_ready *ready,
                             uint64_t first, uint32_t n_rows, struct psti_share_view_run *run)
{
    uint32_t slots[PSTI_STREAM_EXTENTS];
    struct arena *arena = &staging->arenas[ready->extents[0].arena];
    if (!arena->looked && arena->bytes) {
        arena->looked = true;
        arena->view = psti_share_view_open(&staging->layout, staging->span);
    }
    if (!arena->view)
        return false;
    for (uint32_t i = 0; i < ready->n_extents; i++) {
        slots[i] = ready->extents[i].slot;
        if (ready->extents[i].arena != ready->extents[0].arena ||
            !psti_share_staging_bytes(staging, &ready->extents[i], 0, staging->layout.own))
            return false;
    }
    return psti_share_view_take(arena->view, arena->fd, slots, ready->n_extents,
                                (uint32_t)(first % staging->layout.extent_rows), n_rows, run);
}
