/* serve_later.c - re-codes items of the host cache after they were stored there.
 *
 * In: requests of clients, each of which says that a core is idle at the client. Out: for each
 * request one item of the set's queue in another form (cache/cache_later.c). The service's own
 * threads do the work, because only the service can write the cache. An item is given out once, so
 * two clients never cause the same work. If a client is killed meanwhile, the item is still
 * re-coded, and no answer is sent.
 *
 * The space of a replaced item can be used again when no client can still be reading it. For that
 * the service begins a round: it asks all clients of the set, and each answers when its rows that
 * were reading at that moment are done. A client whose process has ended, or that has closed its
 * session, reads no more. A client that the service dropped may still read what it has mapped, and
 * cannot be asked. So after that no item of the set is replaced.
 *
 * A request is parked if no item can be re-coded now, because there is no space until a round has
 * ended. Its client is told to ask again at the end of the round, or after a second. Everything
 * runs on the loop's thread, except run_later. */
#include "serve/serve_cache.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"

#define MOVES_AT_ONCE 64 /* items that one request may pass over without re-coding them */
#define READMIT_PART 64  /* 1 / READMIT_PART of the cache must be free before clients ask for
                            items again */

static uint64_t bit_of(uint32_t i_set) { return (uint64_t)1 << i_set; }

static void answer(struct psti_session *session, const struct psti_cache_ready *ready)
{
    struct serve_client *client = session->state;
    struct psti_wire_out out = psti_serve_session_answer(session);
    client->n_later--;
    psti_share_put_cache_ready(&out, ready);
    psti_serve_session_send(session, &out, PSTI_MESSAGE_CACHE_READY, 0, NULL, 0);
}

/* Answers the request, if its client still has a session, and frees the request. */
static void finish(struct serve_later *later, enum psti_cache_result result)
{
    later->ready.result = result;
    later->ready.ticket = later->ticket;
    if (later->session)
        answer(later->session, &later->ready);
    psti_free(later);
}

static void finish_parked(struct serve_set *set)
{
    while (set->parked) {
        struct serve_later *later = set->parked;
        set->parked = later->next;
        finish(later, PSTI_CACHE_RESULT_AGAIN);
    }
    set->parked_end = &set->parked;
}

static void park(struct serve_later *later)
{
    struct serve_set *set = later->set;
    if (!set->parked)
        set->parked_end = &set->parked;
    later->next = NULL;
    *set->parked_end = later;
    set->parked_end = &later->next;
}

/* Lets clients ask again for items that found no space, once re-coding has freed enough, or has
 * ended. */
static void readmit(struct serve_set *set)
{
    uint64_t worth = set->cache->service->options.cache_nbytes / READMIT_PART;
    if (set->n_declined == 0 || (psti_cache_set_room(set->items_set) < worth &&
                                 psti_cache_later_count(set->items_set) > 0))
        return;
    psti_cache_set_readmit(set->items_set);
    set->n_declined = 0;
}

/* Asks a client to confirm the round for each of its sets that is this one. */
static void ask_client(struct psti_session *session, struct serve_set *set)
{
    struct serve_client *client = session->state;
    for (uint32_t i = 0; client->is_reader && i < client->n_sets; i++) {
        if (client->sets[i] != set)
            continue;
        struct psti_wire_out out = psti_serve_session_answer(session);
        psti_share_put_cache_round(&out, &(struct psti_cache_round){i, set->round});
        client->rounds |= bit_of(i);
        set->n_asked++;
        psti_serve_session_send(session, &out, PSTI_MESSAGE_CACHE_ROUND, 0, NULL, 0);
    }
}

static void end_round(struct serve_set *set)
{
    set->in_round = false;
    psti_cache_later_end_round(set->items_set);
    readmit(set);
    finish_parked(set);
}

/* Begins a round if replaced items wait for one. If no client reads the set, the round ends at
 * once. */
static void begin_round(struct serve_set *set)
{
    while (set->state == SERVE_SET_READY && !set->in_round &&
           psti_cache_later_begin_round(set->items_set)) {
        set->in_round = true;
        set->round++;
        for (struct psti_session *at = set->cache->service->sessions; at; at = at->next)
            if (psti_serve_session_is(at, PSTI_SESSION_CACHE) && at->state)
                ask_client(at, set);
        if (set->n_asked == 0)
            end_round(set);
    }
}

/* Counts a confirmation of the round. The last one ends it. */
static void take_answer(struct serve_set *set)
{
    if (--set->n_asked > 0)
        return;
    end_round(set);
    begin_round(set);
}

enum pst_status psti_serve_later_answer(struct psti_session *session,
                                        const struct psti_cache_round *round,
                                        struct pst_error *err)
{
    struct serve_client *client = session->state;
    if (round->i_set >= client->n_sets || !(client->rounds & bit_of(round->i_set)) ||
        client->sets[round->i_set]->round != round->number)
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a client answers a round of its set %u that there is not", round->i_set);
    client->rounds &= ~bit_of(round->i_set);
    take_answer(client->sets[round->i_set]);
    return PST_OK;
}

/* Notes that the session no longer reads set i_set. is_lost: it may still read it, because it was
 * dropped. */
static void leave(struct psti_session *session, uint32_t i_set, bool is_lost)
{
    struct serve_client *client = session->state;
    struct serve_set *set = client->sets[i_set];
    if (is_lost && set->state == SERVE_SET_READY && set->shape.forms != 0) {
        psti_cache_later_freeze(set->items_set);
        psti_log(PST_LOG_WARNING, "serve",
                 "%s: no item is re-coded later any more, because a client was dropped that may "
                 "still read the items",
                 set->wanted.dataset.path);
        readmit(set);
        finish_parked(set);
    }
    bool is_asked = client->rounds & bit_of(i_set);
    client->rounds &= ~bit_of(i_set);
    if (is_asked)
        take_answer(set);
}

/* Called on the loop's thread after the work of a request. */
static void later_is_done(struct psti_post *post)
{
    struct serve_later *later =
        (struct serve_later *)(void *)((char *)post - offsetof(struct serve_later, work.post));
    struct serve_set *set = later->set;
    struct serve_later **at = &set->cache->laters;
    while (*at != later)
        at = &(*at)->next;
    *at = later->next;
    if (later->ready.recoding == PSTI_CACHE_RECODED) {
        set->n_recoded++;
        set->nbytes_saved += later->ready.nbytes_saved;
    }
    if (later->found)
        finish(later, PSTI_CACHE_RESULT_LOOKED);
    else if (later->session && psti_cache_later_count(set->items_set) > 0)
        park(later);
    else
        finish(later, PSTI_CACHE_RESULT_NONE);
    begin_round(set);
    set->n_reads_now--;
    psti_serve_set_settle(set);
}

static void run_later(struct psti_work *work, struct psti_worker *worker)
{
    struct serve_later *later = (struct serve_later *)(void *)work;
    struct psti_cache_set *items = later->set->items_set;
    struct psti_cache_later item;
    int64_t start = psti_clock_ns();
    bool looked = !psti_cache_later_open(items, 1);
    for (int i = 0; i < MOVES_AT_ONCE && !looked && !atomic_load(&worker->service->stopping) &&
                    psti_cache_later_take(items, &item);
         i++) {
        looked = psti_serve_item_replace(later->set, &item, worker, &later->ready);
        later->found = true;
    }
    if (later->found)
        later->ready.recode_ns = (uint64_t)(psti_clock_ns() - start);
}

enum pst_status psti_serve_later_ask(struct psti_session *session,
                                     const struct psti_cache_want *want, struct pst_error *err)
{
    struct serve_client *client = session->state;
    struct serve_cache *cache = session->service->parts[PSTI_SESSION_CACHE];
    if (want->i_set >= client->n_sets || !(client->laters & bit_of(want->i_set)))
        return psti_fail(err, PST_ERROR_CORRUPT, "serve",
                         "a client wants items of its set %u to be re-coded, which it has not "
                         "opened for that",
                         want->i_set);
    if (client->n_wanted + client->n_later >= PSTI_CACHE_READS_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "serve", "a client waits for more than %d items",
                         PSTI_CACHE_READS_MAX);
    client->n_later++;
    struct serve_later *later = psti_calloc(1, sizeof *later);
    if (!later) {
        const struct psti_cache_ready none = {want->ticket, PSTI_CACHE_RESULT_FAILED, 0, 0, 0};
        answer(session, &none);
        return PST_OK;
    }
    later->set = client->sets[want->i_set];
    later->session = session;
    later->ticket = want->ticket;
    later->work.run = run_later;
    later->work.post.run = later_is_done;
    psti_serve_work_widen(session->service);
    if (!psti_serve_submit(session->service, &cache->recoding, &later->work)) {
        finish(later, PSTI_CACHE_RESULT_FAILED);
        return PST_OK;
    }
    later->next = cache->laters;
    cache->laters = later;
    later->set->n_reads_now++;
    return PST_OK;
}

/* Removes the session's requests from the set's list of parked ones. */
static void forget_parked(struct serve_set *set, const struct psti_session *session)
{
    struct serve_later **at = &set->parked;
    while (*at) {
        struct serve_later *later = *at;
        if (later->session != session) {
            at = &later->next;
            continue;
        }
        *at = later->next;
        psti_free(later);
    }
    set->parked_end = at;
}

void psti_serve_later_forget(struct psti_session *session)
{
    const struct serve_client *client = session->state;
    const struct serve_cache *cache = session->service->parts[PSTI_SESSION_CACHE];
    bool is_lost =
        client->is_reader && !session->left && !atomic_load(&session->service->stopping);
    for (struct serve_later *later = cache->laters; later; later = later->next)
        if (later->session == session)
            later->session = NULL;
    for (uint32_t i = 0; i < client->n_sets; i++)
        forget_parked(client->sets[i], session);
    for (uint32_t i = 0; i < client->n_sets; i++)
        leave(session, i, is_lost && !(client->is_opening && i + 1 == client->n_sets));
}

void psti_serve_later_tick(struct serve_cache *cache)
{
    for (struct serve_set *set = cache->sets; set; set = set->next)
        finish_parked(set);
}
