/* loader_later.c - workers that have nothing to prepare re-code items of the cache.
 *
 * In: items that the cache of this process keeps as they are stored, in the order in which it kept
 * them. Out: the same items in options.cache_form (cache/cache_later.c). A mixture has a queue of
 * items for each of its parts (loader_parts.c), and the parts take turns. A row never waits for an
 * item to be re-coded: a worker looks for rows first, and re-codes one item only when it finds none
 * while the caller has its next batch, or while another worker is free to take the next row.
 * Re-coding goes on between epochs and in later epochs until no item is left. Before another epoch
 * begins, options change or the loader closes, the items that are being re-coded are finished, at
 * most one on each worker. Re-coding uses the memory that is reserved for it anyway
 * (loader_recode.c).
 *
 * The host cache is re-coded by its service, because nobody else can write it. A worker that could
 * re-code an item asks the service to re-code one instead, and goes on: it takes rows as before.
 * There are no more open requests than idle workers, so the service uses no more cores than are
 * idle here, unless rows arrive meanwhile. Nothing waits for the service's answers. */
#include "loader/tiers/loader_later.h"

#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/loader_worker.h"
#include "loader/tiers/loader_recode.h"

#include "base/clock.h"
#include "base/codings/codings.h"
#include "dataset/dataset.h"
#include "share/share.h"

#define MOVES_AT_ONCE 64 /* after this many items that need no re-coding, the worker looks for rows
                            again */

bool psti_loader_later_is_asked(const pst_loader *loader)
{
    return loader->options.cache_recode == PST_CACHE_RECODE_IDLE && loader->kept.recode_key != 0;
}

/* Number of parts whose items are re-coded. */
static uint32_t count_parts(const struct psti_loader_parts *parts)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < parts->n; i++)
        n += parts->list[i].shape.forms != 0;
    return n;
}

void psti_loader_later_open(pst_loader *loader)
{
    const struct psti_loader_tiers *tiers = &loader->tiers;
    struct psti_loader_parts *parts = &loader->kept.parts;
    uint32_t n = count_parts(parts);
    bool is_asked = psti_loader_later_is_asked(loader);
    loader->kept.later = is_asked && tiers->host;
    for (uint32_t i = 0; i < parts->n; i++) {
        struct psti_cache_set *set = tiers->cache ? tiers->cache[i] : NULL;
        parts->list[i].later = is_asked && set && psti_cache_later_open(set, n);
        loader->kept.later |= parts->list[i].later;
    }
}

bool psti_loader_later_waits(const pst_loader *loader, const struct psti_loader_source *source)
{
    return loader->kept.later && source->is_wanted &&
           loader->kept.parts.list[psti_loader_kept_place(loader, source).i_part].later;
}

static bool has_waiting(const pst_loader *loader)
{
    const struct psti_loader_parts *parts = &loader->kept.parts;
    uint32_t i_set;
    bool found = false;
    if (loader->tiers.host)
        return psti_share_cache_has_later(loader->tiers.host, &i_set);
    for (uint32_t i = 0; i < parts->n && !found; i++)
        found = parts->list[i].later && psti_cache_later_count(loader->tiers.cache[i]) > 0;
    return found;
}

bool psti_loader_later_may(const pst_loader *loader, const struct psti_loader_worker *worker)
{
    if (!loader->kept.later || worker->later_waits || !loader->epoch.running ||
        !has_waiting(loader))
        return false;
    const struct psti_loader_queue *queue = &loader->queue;
    const struct psti_share_cache *host = loader->tiers.host;
    uint64_t step = loader->epoch.next_step;
    bool is_whole = step >= psti_loader_epoch_end(&loader->epoch) ||
                    queue->ring[step % queue->n_jobs].state == PSTI_LOADER_JOB_WHOLE;
    uint32_t n_asked = host ? psti_share_cache_n_later(host) : 0; /* each unanswered request counts
                                                                     as one idle worker */
    return n_asked + queue->n_busy < loader->crew.n &&
           (is_whole || n_asked + queue->n_later + 1 < loader->crew.n);
}

/* Takes an item out of the queue of a part. Each call begins at another part. */
static bool take(pst_loader *loader, struct psti_cache_later *later, uint32_t *i_part)
{
    const struct psti_loader_parts *parts = &loader->kept.parts;
    uint32_t first = atomic_fetch_add_explicit(&loader->tiers.later_turn, 1, memory_order_relaxed);
    bool found = false;
    for (uint32_t k = 0; k < parts->n && !found; k++) {
        *i_part = (first % parts->n + k) % parts->n;
        found = parts->list[*i_part].later &&
                psti_cache_later_take(loader->tiers.cache[*i_part], later);
    }
    return found;
}

/* Reads the description of the item with that number from the part's data set. False: there is no
 * such item, or its field is not re-coded. Another loader may have kept an item of a field that
 * this one does not deliver. */
static bool describe(const struct psti_loader_part *part, const struct psti_cache_later *later,
                     struct psti_loader_source *source)
{
    uint32_t n_items = part->shape.n_items, i_field;
    *source = (struct psti_loader_source){.sample = later->number / n_items,
                                          .data = later->span.bytes};
    psti_share_cache_field(part->dataset, part->numbers, (uint32_t)(later->number % n_items),
                           &i_field, &source->variant);
    return later->span.form == PSTI_CACHE_AS_STORED &&
           psti_recode_has_field(part->shape.forms, i_field) &&
           psti_dataset_item_is_kept(part->dataset, source->sample, i_field, source->variant,
                                     later->span.nbytes, &source->item);
}

/* Decompresses an item that the cache keeps compressed, as the data set stores it. False: the bytes
 * are damaged, or memory is lacking. */
static bool decode(struct psti_loader_worker *worker, struct psti_loader_source *source,
                   struct psti_buffer *decoded)
{
    uint64_t nbytes = psti_dataset_item_scratch_nbytes(&source->item);
    const void *bytes = NULL;
    if (nbytes == 0)
        return true;
    if (nbytes > worker->loader->kept.recode_nbytes ||
        psti_buffer_reserve(decoded, nbytes, "loader", "to re-code an item", NULL) != PST_OK)
        return false;
    if (!worker->codings && psti_codings_open(&worker->codings, 0, "loader", NULL) != PST_OK)
        return false; /* another user of the cache put it there: this loader has no compressed
                         items */
    if (psti_dataset_item_decode(worker->codings, &source->item, source->data, decoded->bytes,
                                 &bytes, NULL) != PST_OK)
        return false;
    source->data = bytes;
    psti_dataset_item_decoded(&source->item);
    return true;
}

/* Re-codes the item of the part, or leaves it as stored. True if the item was decompressed or
 * re-coded, also without success, so that time has passed. */
static bool replace(struct psti_loader_worker *worker, uint32_t i_part,
                    const struct psti_cache_later *later)
{
    pst_loader *loader = worker->loader;
    const struct psti_loader_part *part = &loader->kept.parts.list[i_part];
    struct psti_loader_source source;
    struct psti_loader_copy copy = {.stored = later->span,
                                    .item = later->span,
                                    .result = PSTI_RECODE_NOT_FOR};
    struct psti_buffer decoded = {0};
    bool is_coded = false;
    if (describe(part, later, &source) &&
        psti_loader_worker_ready(worker, NULL) == PST_OK) {
        is_coded = source.item.coding != PST_CODING_STORED;
        copy.result = PSTI_RECODE_FAILED;
        if (decode(worker, &source, &decoded))
            copy.result =
                psti_loader_recode_later(worker, psti_recode_form(part->shape.forms), &source,
                                         decoded.capacity, &copy.buffer, &copy.item);
    }
    bool is_new = copy.result == PSTI_RECODE_DONE;
    enum psti_cache_replaced replaced =
        psti_cache_later_put(loader->tiers.cache[i_part], later, is_new ? &copy.item : NULL);
    if (is_new && replaced == PSTI_CACHE_TOO_LONG)
        psti_loader_kept_as_stored(&copy);
    if (replaced != PSTI_CACHE_AGAIN)
        psti_loader_kept_count_recoded(loader, &copy);
    psti_buffer_free(&copy.buffer);
    psti_buffer_free(&decoded);
    psti_loader_worker_settle(worker);
    return copy.result != PSTI_RECODE_NOT_FOR || is_coded;
}

/* Handles the service's answer to a request. Called in the session's thread. */
static void take_answer(void *ctx, const struct psti_cache_ready *ready)
{
    pst_loader *loader = ctx;
    psti_loader_kept_count_ready(loader, ready->recoding, ready->nbytes_saved);
    atomic_fetch_add_explicit(&loader->tiers.later_ns, ready->recode_ns, memory_order_relaxed);
    pthread_mutex_lock(loader->lock);
    if (ready->result != PSTI_CACHE_RESULT_FAILED) /* after a failure workers ask no more before
                                                      they have had rows again */
        pthread_cond_broadcast(loader->work);
    pthread_mutex_unlock(loader->lock);
}

void psti_loader_later_listen(pst_loader *loader, struct psti_share_cache *host)
{
    psti_share_cache_on_later(host, take_answer, loader);
}

static bool ask_host(struct psti_share_cache *host)
{
    uint32_t i_set;
    return psti_share_cache_has_later(host, &i_set) && psti_share_cache_ask_later(host, i_set);
}

bool psti_loader_later_do(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    if (loader->tiers.host)
        return ask_host(loader->tiers.host);
    struct psti_cache_later later;
    uint32_t i_part = 0;
    int64_t start = psti_clock_ns();
    bool done = false, found = true;
    for (int i = 0; i < MOVES_AT_ONCE && found && !done; i++) {
        found = !atomic_load_explicit(&loader->queue.cancelled, memory_order_relaxed) &&
                take(loader, &later, &i_part);
        if (found)
            done = replace(worker, i_part, &later);
    }
    if (worker->decoder) /* clears the decoder's statistics, which would count for the next row */
        psti_decode_stats(worker->decoder, &worker->seen);
    atomic_fetch_add_explicit(&loader->tiers.later_ns, (uint64_t)(psti_clock_ns() - start),
                              memory_order_relaxed);
    return found || done;
}

void psti_loader_later_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    stats->cache_recode_ns = atomic_load(&loader->tiers.later_ns);
}
