/* loader_host.c - the tier for the host cache, which the host service keeps for all processes of a
 * user.
 *
 * A hit lies in memory that the service shares, and is used in place. For a missing item the loader
 * sends a request (wish) to the service, without waiting for the answer; the service reads each
 * item once for all loaders. The row's task becomes ready when all its reads and wishes have ended.
 * If the service could not bring an item, because the cache is full or the service is lost, the
 * loader then reads it, into memory that was reserved from the start. So the row never waits for
 * memory at that point. If the service is lost, the loader looks for it again at the next epoch.
 * Until a row is done, it counts as a reader of the cache's sets in which its hits lie. */
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_kept.h"
#include "loader/tiers/loader_later.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/log.h"
#include "dataset/dataset.h"

#include <stdio.h>

#define RENEW_WAIT_NS ((int64_t)1000 * 1000 * 1000)

/* Opens a session with the service, and sends it the rules for pictures at the training size. */
static enum pst_status open_session(pst_loader *loader, const struct psti_loader_parts *parts,
                                    int64_t greet_ns, int64_t wait_ns,
                                    struct psti_share_cache **out, struct pst_error *err)
{
    const struct psti_share_stop stop = {loader->interrupt, loader->interrupt_ctx};
    struct psti_share_set *sets = psti_calloc(parts->n, sizeof *sets);
    *out = NULL;
    if (!sets)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for sets of the host cache");
    for (uint32_t i = 0; i < parts->n; i++) {
        const struct psti_loader_part *part = &parts->list[i];
        sets[i] = (struct psti_share_set){.dataset = part->dataset,
                                          .shape = part->shape,
                                          .rule = {part->rule, part->rule_nbytes},
                                          .later = psti_loader_later_is_asked(loader)};
    }
    enum pst_status status = psti_share_cache_open(loader->tiers.host_path, sets, parts->n,
                                                   greet_ns, wait_ns, &stop, out, err);
    psti_free(sets);
    if (status == PST_OK)
        psti_loader_later_listen(loader, *out);
    return status;
}

/* Opens a session. If there is no service, opens a session that counts as lost: the loader then
 * reads items itself, and looks for the service at the beginning of each epoch. */
static enum pst_status open_or_go_on(pst_loader *loader, const struct psti_loader_parts *parts,
                                     struct psti_share_cache **out, struct pst_error *err)
{
    struct pst_error cause;
    pst_error_clear(&cause);
    enum pst_status status =
        open_session(loader, parts, loader->tiers.host_greet_ns, PSTI_LINK_WAIT_NS, out, &cause);
    if (status != PST_OK && !loader->tiers.host_strict && psti_share_goes_on(status)) {
        psti_share_say(&cause, loader->tiers.host_reason, sizeof loader->tiers.host_reason);
        psti_log(PST_LOG_WARNING, "loader", "the host cache is not used: %s",
                 loader->tiers.host_reason);
        return psti_share_cache_open_lost(out, err);
    }
    if (status != PST_OK && err)
        *err = cause;
    return status;
}

static enum pst_status open_host(pst_loader *loader, const struct psti_loader_slots *slots,
                                 bool *in_use, struct pst_error *err)
{
    pst_cache *cache = loader->options.cache;
    (void)slots;
    if (!cache || !psti_cache_remote(cache))
        return PST_OK;
    const struct psti_share_host *host = psti_share_host(cache);
    loader->tiers.host_path = psti_strdup(host->path);
    loader->tiers.host_strict = host->strict;
    loader->tiers.host_greet_ns = host->greet_ns;
    if (!loader->tiers.host_path)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a path");
    enum pst_status status = open_or_go_on(loader, &loader->kept.parts, &loader->tiers.host, err);
    *in_use = status == PST_OK;
    return status;
}

static enum pst_status change(pst_loader *loader, const struct psti_loader_parts *parts,
                              struct pst_error *err)
{
    struct psti_share_cache *other = NULL, *former = loader->tiers.host;
    enum pst_status status = open_or_go_on(loader, parts, &other, err);
    if (status != PST_OK)
        return status;
    pthread_mutex_lock(loader->lock);
    loader->tiers.host = other;
    pthread_mutex_unlock(loader->lock);
    psti_share_cache_close(&former);
    return PST_OK;
}

static void close_host(pst_loader *loader)
{
    psti_share_cache_close(&loader->tiers.host);
    psti_free(loader->tiers.host_path);
    loader->tiers.host_path = NULL;
}

/* Cancels all wishes (requests for items), so that each gets an answer soon. */
static void cancel(pst_loader *loader)
{
    while (loader->queue.pumping) /* the pumping thread may be sending wishes */
        pthread_cond_wait(&loader->done, loader->lock);
    pthread_mutex_unlock(loader->lock);
    psti_share_cache_cancel(loader->tiers.host);
    pthread_mutex_lock(loader->lock);
}

static bool renews(const pst_loader *loader)
{
    return psti_share_cache_is_lost(loader->tiers.host);
}

/* Looks for the service again if the connection was lost. */
static void begin(pst_loader *loader)
{
    struct psti_share_cache *found = NULL, *lost = loader->tiers.host;
    struct pst_error err;
    pst_error_clear(&err);
    if (!psti_share_cache_is_lost(lost))
        return;
    if (open_session(loader, &loader->kept.parts, RENEW_WAIT_NS, RENEW_WAIT_NS, &found, &err) !=
        PST_OK) {
        psti_log(PST_LOG_WARNING, "loader", "this epoch goes without the host service: %s",
                 err.text);
        pthread_mutex_lock(loader->lock);
        psti_share_say(&err, loader->tiers.host_reason, sizeof loader->tiers.host_reason);
        pthread_mutex_unlock(loader->lock);
        return;
    }
    pthread_mutex_lock(loader->lock);
    loader->tiers.host = found;
    loader->tiers.host_reason[0] = '\0';
    pthread_mutex_unlock(loader->lock);
    psti_share_cache_close(&lost);
}

/* Reads the counters. The lock keeps the session from being exchanged meanwhile. */
static void stats_of(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct pst_cache_stats cache;
    const char *reason = loader->tiers.host_reason;
    pthread_mutex_lock(loader->lock);
    if (psti_share_cache_is_lost(loader->tiers.host))
        snprintf(stats->host_reason, sizeof stats->host_reason, "%s",
                 reason[0] ? reason : "the host service was lost");
    psti_share_cache_stats(loader->tiers.host, &cache);
    stats->n_cache_to_recode = psti_share_cache_waiting(loader->tiers.host);
    pthread_mutex_unlock(loader->lock);
    psti_loader_kept_stats(loader, &cache, stats);
}

/* Counts a hit. start: time at which the item was looked up. */
static void count_hit(pst_loader *loader, const struct psti_loader_source *source, uint64_t nbytes,
                      int64_t start)
{
    psti_latency_note(&loader->tiers.latency[PST_TIER_HOST], nbytes, psti_clock_ns() - start);
    psti_loader_kept_count_hit(loader, source, nbytes);
}

static void count_miss(pst_loader *loader)
{
    atomic_fetch_add_explicit(&loader->tiers.n_misses, 1, memory_order_relaxed);
    if (psti_share_cache_is_lost(loader->tiers.host))
        psti_loader_fell_back(loader, PST_FALLBACK_HOST, 1);
}

/* Asks the host cache for an item, if the cache plan admits the sample. For other samples it only
 * looks for the item. */
static enum psti_cache_answer ask(pst_loader *loader, const struct psti_loader_source *source,
                                  const struct psti_loader_place *at, struct psti_cache_span *span)
{
    uint64_t nbytes = source->stored_nbytes;
    if (psti_loader_kept_admits(loader, source->sample))
        return psti_share_cache_ask(loader->tiers.host, at->i_part, at->sample, at->i_item, nbytes,
                                    span);
    return psti_share_cache_look(loader->tiers.host, at->i_part, at->sample, at->i_item, nbytes,
                                 span) == PSTI_CACHE_HIT
               ? PSTI_CACHE_HIT
               : PSTI_CACHE_PASS;
}

/* Points the source to the item in the host cache; the row counts as a reader of the set from then
 * on. False: the item does not fit this loader, and the row does not count as a reader. */
static bool take_hit(pst_loader *loader, const struct psti_loader_place *at, unsigned reader,
                     const struct psti_cache_span *span, struct psti_loader_source *source)
{
    if (psti_loader_kept_take(loader, span, source)) {
        source->reader = reader;
        return true;
    }
    psti_share_cache_leave(loader->tiers.host, at->i_part, reader);
    return false;
}

static enum pst_status look_up(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err)
{
    struct psti_cache_span span;
    const struct psti_loader_place at = psti_loader_kept_place(loader, source);
    int64_t start = psti_clock_ns();
    unsigned reader = psti_share_cache_enter(loader->tiers.host, at.i_part);
    enum psti_cache_answer answer = ask(loader, source, &at, &span);
    (void)err;
    if (answer == PSTI_CACHE_HIT) {
        if (take_hit(loader, &at, reader, &span, source))
            count_hit(loader, source, span.nbytes, start);
        else
            count_miss(loader);
        return PST_OK;
    }
    psti_share_cache_leave(loader->tiers.host, at.i_part, reader);
    if (answer == PSTI_CACHE_ADMIT)
        source->asked = &psti_loader_tier_host;
    else
        count_miss(loader);
    return PST_OK;
}

/* Tells the row that its request for an item was answered. Called by the session's thread. */
static void wish_is_done(struct psti_share_wish *wish)
{
    const struct psti_loader_source *source = wish->user;
    source->items->done(source->items);
}

static uint32_t prepare(pst_loader *loader, struct psti_loader_items *items,
                        struct psti_loader_asked *asked)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->asked != &psti_loader_tier_host)
            continue;
        struct psti_loader_place at = psti_loader_kept_place(loader, source);
        source->wish.i_set = at.i_part;
        source->wish.number =
            psti_share_cache_number(loader->tiers.host, at.i_part, at.sample, at.i_item);
        source->wish.user = source;
        source->wish.done = wish_is_done;
        psti_loader_asked_add(asked, source);
        n++;
    }
    return n;
}

static size_t list_wishes(const struct psti_loader_asked *asked,
                          struct psti_share_wish *wishes[PSTI_LOADER_ASKED_MAX])
{
    size_t n = 0;
    for (struct psti_loader_source *source = asked->first; n < asked->n;
         source = source->next_asked)
        wishes[n++] = &source->wish;
    return n;
}

static void submit(pst_loader *loader, const struct psti_loader_asked *asked)
{
    struct psti_share_wish *wishes[PSTI_LOADER_ASKED_MAX];
    psti_share_cache_submit(loader->tiers.host, wishes, list_wishes(asked, wishes));
}

static void ask_here(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    const struct psti_share_stop stop = {loader->interrupt, loader->interrupt_ctx};
    struct psti_share_wish *wishes[PSTI_LOADER_ASKED_MAX];
    struct psti_loader_asked asked = {.n = 0};
    if (prepare(loader, &worker->items, &asked) == 0)
        return;
    size_t n = list_wishes(&asked, wishes);
    bool is_stopped = !psti_share_cache_wait(loader->tiers.host, wishes, n, &stop);
    for (size_t i = 0; is_stopped && i < n; i++)
        wishes[i]->result = PSTI_CACHE_RESULT_FAILED;
}

/* Counts an item that the service has read, and maybe re-coded, for this loader. */
static void count_fetched(pst_loader *loader, const struct psti_share_wish *wish, uint64_t nbytes)
{
    atomic_fetch_add_explicit(&loader->tiers.n_misses, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->tiers.n_fetched, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->tiers.nbytes_fetched, nbytes, memory_order_relaxed);
    psti_loader_kept_count_ready(loader, wish->recoding, wish->nbytes_saved);
}

/* Takes the item from the host cache, after the service answered the request for it. */
static bool take_wished(pst_loader *loader, struct psti_loader_source *source)
{
    struct psti_cache_span span;
    struct psti_share_cache *host = loader->tiers.host;
    struct psti_loader_place at = psti_loader_kept_place(loader, source);
    uint64_t nbytes = source->stored_nbytes;
    int64_t start = psti_clock_ns();
    if (source->wish.result != PSTI_CACHE_RESULT_HERE &&
        source->wish.result != PSTI_CACHE_RESULT_READ)
        return false;
    unsigned reader = psti_share_cache_enter(host, at.i_part);
    if (psti_share_cache_look(host, at.i_part, at.sample, at.i_item, nbytes, &span) !=
        PSTI_CACHE_HIT) {
        psti_share_cache_leave(host, at.i_part, reader);
        return false;
    }
    if (!take_hit(loader, &at, reader, &span, source))
        return false;
    if (source->wish.result == PSTI_CACHE_RESULT_HERE) {
        count_hit(loader, source, span.nbytes, start);
        return true;
    }
    count_fetched(loader, &source->wish, nbytes);
    return true;
}

/* Takes an item after the request for it was answered. If the host cache had no space for it, marks
 * a copy for the fleet, which was not asked for the item. The next epoch will find it there. */
static bool take(pst_loader *loader, struct psti_loader_source *source)
{
    bool local;
    struct psti_loader_place at = psti_loader_kept_place(loader, source);
    if (take_wished(loader, source))
        return true;
    count_miss(loader);
    if (loader->tiers.fleet && source->wish.result == PSTI_CACHE_RESULT_DECLINED)
        source->is_offered = psti_fleet_has_server(loader->tiers.fleet, at.i_part, at.sample,
                                                   at.i_item, &local);
    return false;
}

/* Called when the row no longer needs the bytes of its hits: leaves the sets of the cache. */
static void release(pst_loader *loader, struct psti_loader_items *items)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->reader > 0)
            psti_share_cache_leave(loader->tiers.host,
                                   psti_loader_kept_place(loader, source).i_part, source->reader);
        source->reader = 0;
    }
}

const struct psti_loader_tier_ops psti_loader_tier_host = {
    .open = open_host,
    .close = close_host,
    .change = change,
    .begin = begin,
    .renews = renews,
    .cancel = cancel,
    .look_up = look_up,
    .prepare = prepare,
    .submit = submit,
    .ask_here = ask_here,
    .take = take,
    .release = release,
    .stats = stats_of,
};
