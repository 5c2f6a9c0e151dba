/* serve_cache.c - sessions with the host cache. A client opens data sets, one after the other, and
 * then asks for items that the cache lacks. */
#include "serve/serve_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

static enum pst_status begin(pst_service *service, struct pst_error *err)
{
    const struct psti_storage_options options = {.kind = PST_STORAGE_THREADS, .depth = 1};
    struct serve_cache *cache = psti_calloc(1, sizeof *cache);
    if (!cache)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for the host cache");
    service->parts[PSTI_SESSION_CACHE] = cache;
    cache->service = service;
    psti_serve_lane_open(&cache->recoding);
    enum pst_status status =
        psti_cache_open_shared(service->options.cache_nbytes, &cache->cache, err);
    return status == PST_OK ? psti_storage_open(&options, &cache->storage, err) : status;
}

pst_cache *psti_serve_host_cache(const pst_service *service)
{
    const struct serve_cache *cache = service->parts[PSTI_SESSION_CACHE];
    return cache ? cache->cache : NULL;
}

static void end(pst_service *service)
{
    struct serve_cache *cache = service->parts[PSTI_SESSION_CACHE];
    if (!cache)
        return;
    psti_serve_sets_free(cache);
    psti_storage_close(&cache->storage);
    pst_cache_close(&cache->cache);
    psti_free(cache);
    service->parts[PSTI_SESSION_CACHE] = NULL;
}

static enum pst_status open_session(struct psti_session *session, struct pst_error *err)
{
    session->state = psti_calloc(1, sizeof(struct serve_client));
    return session->state ? PST_OK
                          : psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a client");
}

static enum pst_status open_set(struct psti_session *session, struct psti_message *message,
                                struct pst_error *err)
{
    const struct serve_client *client = session->state;
    struct psti_wire_in in = psti_share_message_body(message);
    struct psti_cache_open *open = psti_alloc(sizeof *open);
    if (!open)
        return psti_fail(err, PST_ERROR_MEMORY, "serve", "no memory for a client");
    enum pst_status status = psti_share_get_cache_open(&in, open, err);
    if (status == PST_OK && (client->is_opening || client->n_sets == PSTI_CACHE_SETS_MAX))
        status =
            psti_fail(err, PST_ERROR_STATE, "serve",
                      "a session opens %d data sets at most, one at a time", PSTI_CACHE_SETS_MAX);
    if (status == PST_OK && (message->n_fds < 1 || message->n_fds > PSTI_SHARE_DATASET_FDS))
        status = psti_fail(err, PST_ERROR_CORRUPT, "serve", "a data set came with %u descriptors",
                           message->n_fds);
    if (status == PST_OK)
        status = psti_serve_set_join(session, open, message, err);
    psti_free(open);
    return status;
}

static enum pst_status read_items(struct psti_session *session, const struct psti_message *message,
                                  struct pst_error *err)
{
    const struct serve_client *client = session->state;
    struct psti_wire_in in = psti_share_message_body(message);
    struct psti_cache_want want;
    enum pst_status status = PST_OK;
    if (client->n_sets == 0 || client->is_opening)
        return psti_fail(err, PST_ERROR_STATE, "serve",
                         "a client asks for items before its data set is open");
    while (status == PST_OK && psti_share_get_cache_want(&in, &want))
        status = want.number == PSTI_CACHE_NUMBER_LATER
                     ? psti_serve_later_ask(session, &want, err)
                     : psti_serve_read_item(session, &want, err);
    return status == PST_OK ? psti_share_end(&in, "cache_read", err) : status;
}

static enum pst_status take_use(struct psti_session *session, const struct psti_message *message,
                                struct pst_error *err)
{
    struct serve_client *client = session->state;
    struct psti_wire_in in = psti_share_message_body(message);
    client->n_hits = psti_share_get_u64(&in);
    client->n_read = psti_share_get_u64(&in);
    client->n_missed = psti_share_get_u64(&in);
    return psti_share_end(&in, "cache_use", err);
}

static enum pst_status take_round(struct psti_session *session, const struct psti_message *message,
                                  struct pst_error *err)
{
    struct psti_wire_in in = psti_share_message_body(message);
    struct psti_cache_round round;
    enum pst_status status = psti_share_get_cache_round(&in, &round, err);
    return status == PST_OK ? psti_serve_later_answer(session, &round, err) : status;
}

static enum pst_status take_message(struct psti_session *session, struct psti_message *message,
                                    struct pst_error *err)
{
    switch (message->head.kind) {
    case PSTI_MESSAGE_CACHE_OPEN:
        return open_set(session, message, err);
    case PSTI_MESSAGE_CACHE_READ:
        return read_items(session, message, err);
    case PSTI_MESSAGE_CACHE_USE:
        return take_use(session, message, err);
    case PSTI_MESSAGE_CACHE_ROUND_ENDED:
        return take_round(session, message, err);
    default:
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a message of kind %u came in a session of the host cache",
                         message->head.kind);
    }
}

static bool works(const struct psti_session *session) { return session->served; }

static void tick(pst_service *service)
{
    struct serve_cache *cache = service->parts[PSTI_SESSION_CACHE];
    int64_t now = psti_clock_ns();
    for (struct serve_set *set = cache->sets; set; set = set->next)
        psti_serve_reads_tick(set, now);
    psti_serve_later_tick(cache);
}

static void close_session(struct psti_session *session)
{
    if (!session->state)
        return;
    psti_serve_reads_forget(session);
    psti_serve_later_forget(session);
    psti_serve_sets_leave(session);
    psti_free(((struct serve_client *)session->state)->sets);
    psti_free(session->state);
}

const struct psti_session_ops psti_serve_cache = {.kind = PSTI_SESSION_CACHE,
                                                  .name = "cache",
                                                  .begin = begin,
                                                  .end = end,
                                                  .open = open_session,
                                                  .message = take_message,
                                                  .tick = tick,
                                                  .works = works,
                                                  .close = close_session};
