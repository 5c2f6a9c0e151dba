/* serve_reads.c - reads for clients of the host cache: one read for each item, for all clients that
 * wait for it.
 *
 * Everything runs on the loop's thread; only psti_serve_item runs on a worker. */
#include "serve/serve_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#include <inttypes.h>

static void answer(struct psti_session *session, const struct psti_cache_ready *ready)
{
    struct psti_wire_out out = psti_serve_session_answer(session);
    psti_share_put_cache_ready(&out, ready);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_CACHE_READY, 0, NULL, 0);
}

static struct serve_read **bucket_of(struct serve_set *set, uint64_t number)
{
    return &set->reads[number % PSTI_SERVE_READ_BUCKETS];
}

static void count(struct serve_set *set, const struct serve_read *read)
{
    bool was_read = read->result == PSTI_CACHE_RESULT_READ;
    set->n_reads += was_read;
    set->n_recoded += was_read && read->recoding == PSTI_CACHE_RECODED;
    set->nbytes_saved += was_read ? read->nbytes_saved : 0;
    set->n_declined += read->result == PSTI_CACHE_RESULT_DECLINED;
    set->n_failed += read->result == PSTI_CACHE_RESULT_FAILED;
    set->nbytes_read += read->nbytes;
    set->cache->n_reads += was_read;
    set->cache->nbytes_read += read->nbytes;
}

/* Called on the loop's thread after a read: answers all clients that wait for it. The first of them
 * caused the read. */
static void read_is_done(struct psti_post *post)
{
    struct serve_read *read =
        (struct serve_read *)(void *)((char *)post - offsetof(struct serve_read, work.post));
    struct serve_set *set = read->set;
    struct serve_read **at = bucket_of(set, read->number);
    struct psti_cache_ready ready = {.result = read->result};
    if (read->result == PSTI_CACHE_RESULT_READ) {
        ready.recoding = read->recoding;
        ready.nbytes_saved = read->nbytes_saved;
    }
    while (*at != read)
        at = &(*at)->next;
    *at = read->next;
    count(set, read);
    while (read->waiters) {
        struct serve_waiter *waiter = read->waiters;
        read->waiters = waiter->next;
        if (waiter->session) {
            struct serve_client *client = waiter->session->state;
            client->n_wanted--;
            ready.ticket = waiter->ticket;
            answer(waiter->session, &ready);
            if (ready.result == PSTI_CACHE_RESULT_READ)
                ready = (struct psti_cache_ready){.result = PSTI_CACHE_RESULT_HERE};
        }
        psti_free(waiter);
    }
    psti_free(read);
    set->n_reads_now--;
    psti_serve_set_settle(set);
}

static void run_read(struct psti_work *work, struct psti_worker *worker)
{
    struct serve_read *read = (struct serve_read *)(void *)work;
    read->result = PSTI_CACHE_RESULT_FAILED;
    if (!atomic_load(&worker->service->stopping)) /* a stopping service reads no more, because no
                                                     client waits for it */
        psti_serve_item(read, worker);
}

/* Called while the read runs: marks the sessions that wait for it as served. */
static void touch_read(struct psti_work *work, int64_t age_ns)
{
    const struct serve_read *read = (const struct serve_read *)(const void *)work;
    (void)age_ns;
    for (const struct serve_waiter *at = read->waiters; at; at = at->next)
        if (at->session)
            at->session->served = true;
}

/* Finds the read of an item, or begins one. later: the client that causes it wants images to be
 * re-coded later. */
static struct serve_read *find_or_begin(struct serve_set *set, uint64_t number, bool later)
{
    struct serve_read **bucket = bucket_of(set, number), *read = *bucket;
    while (read && read->number != number)
        read = read->next;
    if (read)
        return read;
    read = psti_calloc(1, sizeof *read);
    if (!read)
        return NULL;
    read->set = set;
    read->number = number;
    read->later = later;
    read->waiters_end = &read->waiters;
    read->work.run = run_read;
    read->work.touch = touch_read;
    read->work.post.run = read_is_done;
    if (!psti_serve_submit(set->cache->service, &set->lane, &read->work)) {
        psti_free(read);
        return NULL;
    }
    read->next = *bucket;
    *bucket = read;
    set->n_reads_now++;
    return read;
}

enum pst_status psti_serve_read_item(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err)
{
    struct serve_client *client = session->state;
    if (want->i_set >= client->n_sets)
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a client asks for an item of its set %u, and has %u", want->i_set,
                         client->n_sets);
    struct serve_set *set = client->sets[want->i_set];
    if (want->number / set->shape.n_items >= set->shape.n_samples)
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a client asks for item %" PRIu64 " of a data set with %" PRIu64
                         " samples",
                         want->number, set->shape.n_samples);
    if (client->n_wanted + client->n_later >= PSTI_CACHE_READS_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "serve", "a client waits for more than %d items",
                         PSTI_CACHE_READS_MAX);
    if (psti_cache_holds(set->items_set, want->number)) {
        answer(session, &(struct psti_cache_ready){.ticket = want->ticket,
                                                   .result = PSTI_CACHE_RESULT_HERE});
        return PST_OK;
    }
    struct serve_waiter *waiter = set->is_still ? NULL : psti_calloc(1, sizeof *waiter);
    bool later = client->laters >> want->i_set & 1;
    struct serve_read *read = waiter ? find_or_begin(set, want->number, later) : NULL;
    if (!read) {
        psti_free(waiter);
        answer(session, &(struct psti_cache_ready){.ticket = want->ticket,
                                                   .result = PSTI_CACHE_RESULT_FAILED});
        return PST_OK;
    }
    waiter->session = session;
    waiter->ticket = want->ticket;
    *read->waiters_end = waiter;
    read->waiters_end = &waiter->next;
    client->n_wanted++;
    return PST_OK;
}

/* Answers all clients that wait for reads of the set that they must read for themselves. */
static void give_up(struct serve_set *set)
{
    struct psti_cache_ready ready = {.result = PSTI_CACHE_RESULT_FAILED};
    for (uint32_t i = 0; i < PSTI_SERVE_READ_BUCKETS; i++)
        for (struct serve_read *read = set->reads[i]; read; read = read->next) {
            while (read->waiters) {
                struct serve_waiter *waiter = read->waiters;
                read->waiters = waiter->next;
                if (waiter->session) {
                    struct serve_client *client = waiter->session->state;
                    client->n_wanted--;
                    ready.ticket = waiter->ticket;
                    answer(waiter->session, &ready);
                    set->n_failed++;
                }
                psti_free(waiter);
            }
            read->waiters_end = &read->waiters;
        }
}

void psti_serve_reads_tick(struct serve_set *set, int64_t now)
{
    bool is_still =
        set->state == SERVE_SET_READY && set->n_reads_now > 0 &&
        psti_serve_lane_still_ns(set->cache->service, &set->lane, now) >= PSTI_SERVE_STILL_NS;
    if (is_still && !set->is_still)
        psti_log(PST_LOG_WARNING, "serve",
                 "%s: its storage stands still; clients read for themselves meanwhile",
                 set->wanted.dataset.path);
    set->is_still = is_still;
    if (is_still)
        give_up(set);
}

static void forget_in(struct serve_set *set, struct psti_session *session)
{
    struct serve_client *client = session->state;
    for (uint32_t i = 0; client->n_wanted > 0 && i < PSTI_SERVE_READ_BUCKETS; i++)
        for (struct serve_read *read = set->reads[i]; read; read = read->next)
            for (struct serve_waiter *at = read->waiters; at; at = at->next)
                if (at->session == session) {
                    at->session = NULL;
                    client->n_wanted--;
                }
}

void psti_serve_reads_forget(struct psti_session *session)
{
    const struct serve_client *client = session->state;
    for (uint32_t i = 0; i < client->n_sets && client->n_wanted > 0; i++)
        forget_in(client->sets[i], session);
}
