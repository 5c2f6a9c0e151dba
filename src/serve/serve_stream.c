/* serve_stream.c - sessions that share preparation: handles the messages of jobs.
 *
 * A session is one job, that is one loader of a client. When it ends, it gives back all that it
 * has, whatever it was doing. If the service ends it while the client lives, the memory that the
 * client may have mapped is not written again. */
#include "serve/serve_stream.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/files/sealed.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPTIONS_NBYTES_MAX ((size_t)1 << 34)

static enum pst_status open_session(struct psti_session *session, struct pst_error *err)
{
    struct psti_job *job = psti_calloc(1, sizeof *job);
    session->state = job;
    if (!job)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a job");
    job->session = session;
    job->fresh = true;
    job->held_cap = PSTI_STREAM_EXTENTS;
    job->held = psti_calloc(job->held_cap, sizeof(struct psti_serve_extent *));
    return job->held ? PST_OK : psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a job");
}

/* True if the client has closed its end of the socket, so that it no longer uses shared memory. */
static bool is_gone(const struct psti_session *session)
{
    struct pollfd poller = {.fd = session->fd, .events = POLLRDHUP};
    return session->gone ||
           (poll(&poller, 1, 0) == 1 && (poller.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0);
}

static void close_session(struct psti_session *session)
{
    struct psti_job *job = session->state;
    if (!job)
        return;
    bool kept = job->n_held > 0 && !is_gone(session);
    if (job->group)
        psti_serve_group_remove(job->group, job, kept);
    psti_free(job->held);
    psti_free(job);
}

static bool works(const struct psti_session *session)
{
    const struct psti_job *job = session->state;
    return job->wants || (job->group && !job->opened);
}

/* Returns a hash that tells a label file from others. It uses only what the kernel knows without
 * asking a file server, because a network file system that does not respond must not block the
 * loop. */
static uint64_t stamp_file(int fd)
{
#if defined(STATX_BASIC_STATS) && defined(SYS_statx) && defined(AT_STATX_DONT_SYNC)
    struct statx known;
    memset(&known, 0, sizeof known);
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) ==
        0) {
        const int64_t facts[8] = {known.stx_dev_major,    known.stx_dev_minor,
                                  (int64_t)known.stx_ino, (int64_t)known.stx_size,
                                  known.stx_mtime.tv_sec, known.stx_mtime.tv_nsec,
                                  known.stx_ctime.tv_sec, known.stx_ctime.tv_nsec};
        return psti_hash64(facts, sizeof facts) | 1;
    }
#endif
    struct stat st;
    if (fstat(fd, &st) != 0)
        return 0;
    const int64_t facts[7] = {(int64_t)st.st_dev,          (int64_t)st.st_ino,
                              (int64_t)st.st_size,         (int64_t)st.st_mtim.tv_sec,
                              (int64_t)st.st_mtim.tv_nsec, (int64_t)st.st_ctim.tv_sec,
                              (int64_t)st.st_ctim.tv_nsec};
    return psti_hash64(facts, sizeof facts) | 1;
}

/* Computes a hash that tells the data set from others with the same identity: of its label file, or
 * of all that describes a mixture. 0: there are no such files. */
static enum pst_status stamp_labels(struct psti_joining *joining, struct pst_error *err)
{
    const struct psti_serve_data *data = joining->data;
    uint32_t stamped[PSTI_SHARE_DATASET_FDS], n = 0;
    uint64_t stamps[PSTI_SHARE_DATASET_FDS + 1];
    joining->labels = !joining->place.is_mixture && data->n_fds > 1 ? stamp_file(data->fds[1]) : 0;
    if (!joining->place.is_mixture)
        return PST_OK;
    enum pst_status status =
        psti_share_mixture_digest(data->fds, data->n_fds, &stamps[0], stamped, &n, err);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        stamps[1 + i] = stamp_file(data->fds[stamped[i]]);
    if (status == PST_OK)
        joining->labels = psti_hash64(stamps, (1 + n) * sizeof stamps[0]) | 1;
    return status;
}

/* Reads the message of a job that joins. The caller clears `joining` also after failure. */
static enum pst_status read_joining(struct psti_message *message, struct psti_joining *joining,
                                    struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(message);
    const void *bytes;
    size_t nbytes;
    enum pst_status status = psti_share_get_open(&in, &joining->open, &joining->place, err);
    if (status == PST_OK && (message->n_fds < 2 || message->n_fds > 1 + PSTI_SHARE_DATASET_FDS))
        status = psti_fail(err, PST_ERROR_CORRUPT, "serve", "a job came with %u descriptors",
                           message->n_fds);
    if (status == PST_OK)
        status = psti_sealed_blob_map(message->fds[0], OPTIONS_NBYTES_MAX, &bytes, &nbytes, err);
    if (status != PST_OK)
        return status;
    status = psti_share_options_parse(bytes, nbytes, &joining->options, err);
    psti_sealed_unmap(bytes, nbytes);
    joining->data = psti_serve_data_new(message, 1);
    if (!joining->data)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a job");
    return status == PST_OK ? stamp_labels(joining, err) : status;
}

static enum pst_status take_open(struct psti_job *job, struct psti_message *message,
                                 struct pst_error *err)
{
    struct psti_group *group;
    if (job->group)
        return psti_fail(err, PST_ERROR_CORRUPT, "serve", "a job joins one group");
    struct psti_joining *joining = psti_calloc(1, sizeof *joining);
    if (!joining)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a job");
    enum pst_status status = read_joining(message, joining, err);
    job->open_id = message->head.id;
    job->batch_size = joining->open.batch_size;
    job->n_lent = joining->open.n_lent;
    if (__builtin_mul_overflow(job->batch_size, joining->open.world_size, &job->step_rows))
        job->step_rows = UINT32_MAX;
    if (status == PST_OK)
        status = psti_serve_group_get(job->session->service, joining, &group, err);
    if (status == PST_OK)
        psti_serve_group_add(group, job);
    psti_share_options_clear(&joining->options);
    psti_serve_data_close(job->session->service, &joining->data, joining->place.version);
    psti_free(joining);
    return status;
}

static enum pst_status take_want(struct psti_job *job, const struct psti_message *message,
                                 struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(message);
    struct psti_stream_want want;
    bool gives = message->head.kind == (uint32_t)PSTI_STREAM_GIVE;
    enum pst_status status = psti_share_get_want(&in, &want, err);
    if (status == PST_OK && (!job->group || !job->opened || message->n_fds > 0))
        status = psti_fail(err, PST_ERROR_CORRUPT, "serve", "a job wants a batch before it joined");
    if (status != PST_OK)
        return status;
    struct psti_group *group = job->group;
    psti_serve_job_give(job, want.given, want.n_given);
    if (gives && want.leaves)
        psti_serve_job_leave(job);
    if (!gives) {
        if (want.first >= group->layout.n_positions || want.n_rows == 0 ||
            want.n_rows > group->layout.n_positions - want.first ||
            want.end > group->layout.n_positions)
            return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                             "a job wants rows that the data set does not have");
        job->epoch = want.epoch;
        job->cursor = want.first;
        job->end = want.end;
        job->n_rows = want.n_rows;
        job->step_rows = want.step_rows;
        job->want_id = message->head.id;
        job->want_ns = psti_clock_ns();
        job->wants = true;
        if (group->newest_epoch == UINT64_MAX || want.epoch > group->newest_epoch)
            group->newest_epoch = want.epoch;
    }
    psti_serve_group_settle(group);
    return PST_OK;
}

static enum pst_status take_message(struct psti_session *session, struct psti_message *message,
                                    struct pst_error *err)
{
    switch ((int)message->head.kind) {
    case PSTI_STREAM_OPEN:
        return take_open(session->state, message, err);
    case PSTI_STREAM_WANT:
    case PSTI_STREAM_GIVE:
        return take_want(session->state, message, err);
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a session that shares has no messages of kind %u", message->head.kind);
    }
}

const struct psti_session_ops psti_serve_share = {.kind = PSTI_SESSION_STREAM,
                                                  .name = "share",
                                                  .begin = psti_serve_groups_open,
                                                  .end = psti_serve_groups_close,
                                                  .open = open_session,
                                                  .message = take_message,
                                                  .tick = psti_serve_groups_tick,
                                                  .works = works,
                                                  .close = close_session};
