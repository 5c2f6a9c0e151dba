/* serve_control.c - sessions that ask about the service, or tell it to save, load or clear its
 * cache.
 *
 * These requests take long, so workers do them, and the loop answers when they are done. The
 * session may have ended by then, so requests are kept in a list, and forget a session that
 * ends. */
#include "serve/serve_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/files/sealed.h"
#include "share/share_control_wire.h"

#include <penstock/penstock.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATUS_FIRST_NBYTES 65536
#define SECOND ((int64_t)1000 * 1000 * 1000)
/* A request may take MOST_NS, and in addition the time for its bytes at LEAST_RATE bytes/s. */
#define MOST_NS (60 * SECOND)
#define LEAST_RATE ((uint64_t)10 << 20)

/* A request that a worker performs. */
struct request {
    struct psti_work work;
    struct psti_session *session; /* the client's session; NULL: it has ended */
    pst_cache *cache;
    enum psti_message_kind kind;
    uint64_t id;
    char path[PATH_MAX];
    int64_t most_ns; /* time that the request may take */
    enum pst_status status;
    struct pst_error err;
    struct pst_cache_file_report report;
    uint64_t nbytes;
};

static void answer_request(const struct request *request)
{
    struct psti_session *session = request->session;
    if (request->status != PST_OK) {
        psti_serve_session_send_error(session, request->id, &request->err);
        return;
    }
    struct psti_wire_out out = psti_serve_session_answer(session);
    if (request->kind == PSTI_MESSAGE_CLEAR)
        psti_share_put_u64(&out, request->nbytes);
    else
        psti_share_put_file_report(&out, &request->report);
    psti_serve_session_send(session, &out,
                            request->kind == PSTI_MESSAGE_CLEAR ? PSTI_MESSAGE_DONE
                                                                : PSTI_MESSAGE_FILE_IS,
                            request->id, NULL, 0);
}

static void request_is_done(struct psti_post *post)
{
    struct request *request =
        (struct request *)(void *)((char *)post - offsetof(struct request, work.post));
    if (request->session) {
        answer_request(request);
        request->session->state = NULL;
    }
    psti_free(request);
}

static void run_request(struct psti_work *work, struct psti_worker *worker)
{
    struct request *request = (struct request *)(void *)work;
    (void)worker;
    pst_error_clear(&request->err);
    if (request->kind == PSTI_MESSAGE_SAVE)
        request->status = pst_cache_save(request->cache, request->path, &request->report,
                                         sizeof request->report, &request->err);
    else if (request->kind == PSTI_MESSAGE_LOAD)
        request->status = pst_cache_load(request->cache, request->path, &request->report,
                                         sizeof request->report, &request->err);
    else
        request->nbytes = psti_cache_clear(request->cache);
}

/* Called while the request runs: marks its client as served, unless the request takes too long. */
static void touch_request(struct psti_work *work, int64_t age_ns)
{
    struct request *request = (struct request *)(void *)work;
    struct pst_error err;
    if (!request->session)
        return;
    request->session->served = age_ns <= request->most_ns;
    if (request->session->served)
        return;
    psti_fail_os(&err, ETIMEDOUT, "serve", request->path[0] ? request->path : NULL, -1,
                 "the host service has not ended this in %d seconds: storage may stand still",
                 (int)(request->most_ns / SECOND));
    psti_serve_session_send_error(request->session, request->id, &err);
    request->session->state = NULL;
    request->session = NULL;
}

/* Starts a request. A session may have only one under way. */
static enum pst_status begin_request(struct psti_session *session,
                                     const struct psti_message *message, struct pst_error *err)
{
    const struct serve_cache *cache = session->service->parts[PSTI_SESSION_CACHE];
    struct psti_wire_in in = psti_share_message_body(message);
    struct request *request = psti_calloc(1, sizeof *request);
    enum pst_status status = PST_OK;
    if (!request)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a request");
    if (session->state)
        status = psti_fail(err, PST_ERROR_STATE, "serve", "a request is under way");
    request->kind = (enum psti_message_kind)message->head.kind;
    if (request->kind != PSTI_MESSAGE_CLEAR)
        in.bad |= !psti_share_get_text(&in, request->path, sizeof request->path);
    if (status == PST_OK)
        status = psti_share_end(&in, "request", err);
    if (status != PST_OK) {
        psti_free(request);
        return status;
    }
    request->session = session;
    request->cache = cache->cache;
    request->id = message->head.id;
    request->most_ns =
        MOST_NS + (int64_t)(session->service->options.cache_nbytes / LEAST_RATE) * SECOND;
    request->work.run = run_request;
    request->work.touch = touch_request;
    request->work.post.run = request_is_done;
    if (!psti_serve_submit(session->service, &session->service->control, &request->work)) {
        psti_free(request);
        return psti_fail(err, PST_ERROR_BUSY, "serve", "too many requests are under way");
    }
    session->state = request;
    return PST_OK;
}

/* Copies a path. A path that is too long keeps its end. */
static void copy_path(char *to, size_t capacity, const char *path)
{
    size_t n = strlen(path), skip = n < capacity ? 0 : n - capacity + 1;
    memcpy(to, path + skip, n - skip + 1);
}

static void put_sets(const struct serve_cache *cache, struct psti_wire_out *out)
{
    for (const struct serve_set *set = cache->sets; set; set = set->next) {
        struct psti_cache_use use = {0};
        struct pst_service_set entry = {.forms = set->shape.forms,
                                        .n_samples = set->shape.n_samples,
                                        .n_reads = set->n_reads,
                                        .nbytes_read = set->nbytes_read,
                                        .n_recoded = set->n_recoded,
                                        .n_failed = set->n_failed,
                                        .n_loaders = set->n_sessions,
                                        .nbytes_saved = set->nbytes_saved,
                                        .is_full = set->n_declined > 0};
        psti_cache_look(cache->cache, &set->shape, &use);
        entry.n_to_recode = use.n_waiting;
        entry.n_items = use.n_items;
        entry.nbytes = use.nbytes;
        memcpy(entry.version, set->shape.identity, sizeof entry.version);
        copy_path(entry.path, sizeof entry.path, set->wanted.dataset.path);
        psti_share_put_status_set(out, &entry);
    }
}

static void put_sessions(const pst_service *service, struct psti_wire_out *out)
{
    int64_t now = psti_clock_ns();
    for (const struct psti_session *session = service->sessions; session; session = session->next) {
        struct pst_service_session entry = {.number = session->number,
                                            .pid = (uint64_t)session->pid,
                                            .age_ns = (uint64_t)(now - session->since_ns)};
        snprintf(entry.kind, sizeof entry.kind, "%s", session->ops ? session->ops->name : "new");
        if (psti_serve_session_is(session, PSTI_SESSION_CACHE) && session->state) {
            const struct serve_client *client = session->state;
            entry.n_hits = client->n_hits;
            entry.n_fetched = client->n_read;
            entry.n_missed = client->n_missed;
            entry.n_waiting = client->n_wanted;
            if (client->n_sets > 0)
                copy_path(entry.dataset, sizeof entry.dataset,
                          client->sets[0]->wanted.dataset.path);
        }
        psti_share_put_status_session(out, &entry);
    }
}

static void put_all(const pst_service *service, struct psti_wire_out *out)
{
    const struct serve_cache *cache = service->parts[PSTI_SESSION_CACHE];
    struct pst_cache_stats stats;
    struct pst_service_status status = {.pid = (uint64_t)getpid(),
                                        .uptime_ns =
                                            (uint64_t)(psti_clock_ns() - service->start_ns),
                                        .n_reads = cache->n_reads,
                                        .nbytes_read = cache->nbytes_read,
                                        .n_threads = service->options.n_threads,
                                        .linger_s = service->options.linger_s,
                                        .keep = service->options.keep,
                                        .numa_node = service->numa.node,
                                        .numa_memory = service->numa_memory,
                                        .n_sessions = service->n_sessions};
    pst_cache_stats(cache->cache, &stats, sizeof stats);
    status.cache_nbytes = stats.nbytes;
    status.cache_nbytes_used = stats.nbytes_used;
    status.n_items = stats.n_items;
    status.n_refused = stats.n_refused;
    snprintf(status.version, sizeof status.version, "%s", pst_version());
    for (const struct serve_set *set = cache->sets; set; set = set->next)
        status.n_sets++;
    psti_share_put_status(out, &status);
    put_sets(cache, out);
    put_sessions(service, out);
}

static enum pst_status tell_status(struct psti_session *session, uint64_t id, struct pst_error *err)
{
    enum pst_status status;
    psti_serve_sets_sweep(session->service->parts[PSTI_SESSION_CACHE]);
    struct psti_wire_out text = {.capacity = STATUS_FIRST_NBYTES};
    int fd = -1;
    do { /* repeated until the buffer is large enough */
        psti_free(text.bytes);
        text = (struct psti_wire_out){.capacity = 2 * text.capacity,
                                      .bytes = psti_alloc(2 * text.capacity)};
        if (!text.bytes)
            return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a report");
        put_all(session->service, &text);
    } while (text.full && text.capacity < PSTI_STATUS_NBYTES_MAX);
    status = psti_sealed_blob_make("penstock-status", text.bytes, text.nbytes, &fd, err);
    psti_free(text.bytes);
    if (status != PST_OK)
        return status;
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_STATUS_IS, id, &fd, 1);
    close(fd);
    return PST_OK;
}

static void stop(struct psti_session *session, uint64_t id)
{
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_share_put_u64(&out, 0);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_DONE, id, NULL, 0);
    pst_service_stop(session->service);
}

static enum pst_status take_message(struct psti_session *session, struct psti_message *message,
                                    struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(message);
    enum pst_status status = PST_OK;
    switch (message->head.kind) {
    case PSTI_MESSAGE_SAVE:
    case PSTI_MESSAGE_LOAD:
    case PSTI_MESSAGE_CLEAR:
        return begin_request(session, message, err);
    case PSTI_MESSAGE_STATUS:
        status = psti_share_end(&in, "status", err);
        return status == PST_OK ? tell_status(session, message->head.id, err) : status;
    case PSTI_MESSAGE_STOP:
        status = psti_share_end(&in, "stop", err);
        if (status == PST_OK)
            stop(session, message->head.id);
        return status;
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a message of kind %u came in a session of control", message->head.kind);
    }
}

static bool works(const struct psti_session *session) { return session->served; }

static void close_session(struct psti_session *session)
{
    struct request *request = session->state;
    if (request)
        request->session = NULL;
}

const struct psti_session_ops psti_serve_control = {.kind = PSTI_SESSION_CONTROL,
                                                    .name = "control",
                                                    .message = take_message,
                                                    .works = works,
                                                    .close = close_session};
