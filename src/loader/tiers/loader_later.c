/* loader_later.c - workers that have nothing to prepare re-code items of the cache.
 *
 * In: items that the cache of this process keeps as they are stored, in the order in which it kept
 * them. Out: the same items in options.cache_form (cache/cache_later.c). A row never waits for an
 * item to be re-coded: a worker looks for rows first, and re-codes one item only when it finds none
 * while the caller has its next batch, or while another worker is free to take the next row. It
 * goes on in later epochs until the queue is empty, and between epochs, too. Beginning another
 * epoch, changing options and closing wait for the items that are being re-coded, at most one on
 * each worker. The memory is that which re-coding has anyway (loader_recode.c). */
#include "loader/tiers/loader_later.h"

#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/loader_worker.h"
#include "loader/tiers/loader_recode.h"

#include "base/clock.h"
#include "base/codings/codings.h"
#include "dataset/dataset.h"

#define MOVES_AT_ONCE 64 /* items that are not re-coded, between two looks for rows */

void psti_loader_later_open(pst_loader *loader)
{
    loader->kept.later = loader->options.cache_recode == PST_CACHE_RECODE_IDLE &&
                         loader->kept.recode_key != 0 && loader->tiers.cache &&
                         psti_cache_later_open(loader->tiers.cache[0]);
}

bool psti_loader_later_waits(const pst_loader *loader, const struct psti_loader_source *source)
{
    return loader->kept.later && source->is_wanted;
}

bool psti_loader_later_may(const pst_loader *loader, const struct psti_loader_worker *worker)
{
    if (!loader->kept.later || worker->later_waits || !loader->epoch.running ||
        psti_cache_later_count(loader->tiers.cache[0]) == 0)
        return false;
    uint64_t step = loader->epoch.next_step;
    return step >= psti_loader_epoch_end(&loader->epoch) ||
           loader->queue.ring[step % loader->options.prefetch].state == PSTI_LOADER_JOB_WHOLE ||
           loader->queue.n_later + 1 < loader->crew.n;
}

/* Finds what the data set says of the item with that number. False: it has no such item, or its
 * field is not re-coded. */
static bool describe(const pst_loader *loader, const struct psti_cache_later *later,
                     struct psti_loader_source *source, uint32_t *i_field)
{
    uint32_t n_items = loader->kept.shape.n_items, n_fields = pst_dataset_n_fields(loader->dataset);
    uint32_t i_item = (uint32_t)(later->number % n_items), i = 0;
    *source = (struct psti_loader_source){.sample = later->number / n_items,
                                          .data = later->span.bytes};
    while (i + 1 < n_fields && loader->kept.numbers[i + 1] <= i_item)
        i++;
    *i_field = i;
    source->variant = i_item - loader->kept.numbers[i];
    if (later->span.form != PSTI_CACHE_AS_STORED ||
        !psti_recode_has_field(loader->kept.recode_key, i) ||
        pst_dataset_item(loader->dataset, source->sample, i, source->variant, &source->item,
                         sizeof source->item, NULL) != PST_OK)
        return false;
    if (psti_dataset_item_is_paged(&source->item)) /* it is kept decoded */
        psti_dataset_item_decoded(&source->item);
    return source->item.nbytes == later->span.nbytes;
}

/* Decodes the bytes of an item that is kept in a coding of its own. False: they are damaged, or
 * there is too little memory. */
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
        return false; /* this loader delivers no such items, but another one of the cache does */
    if (psti_dataset_item_decode(worker->codings, &source->item, source->data, decoded->bytes,
                                 &bytes, NULL) != PST_OK)
        return false;
    source->data = bytes;
    psti_dataset_item_decoded(&source->item);
    return true;
}

/* Re-codes the item, or leaves it as it is. True: it took a while. */
static bool replace(struct psti_loader_worker *worker, const struct psti_cache_later *later)
{
    pst_loader *loader = worker->loader;
    struct psti_loader_source source;
    struct psti_loader_copy copy = {.stored = later->span,
                                    .item = later->span,
                                    .result = PSTI_RECODE_NOT_FOR};
    struct psti_buffer decoded = {0};
    uint32_t i_field;
    bool is_coded = false;
    if (describe(loader, later, &source, &i_field) &&
        psti_loader_worker_ready(worker, NULL) == PST_OK) {
        is_coded = source.item.coding != PST_CODING_STORED;
        copy.result = PSTI_RECODE_FAILED;
        if (decode(worker, &source, &decoded))
            copy.result = psti_loader_recode_later(worker, i_field, &source, decoded.capacity,
                                                   &copy.buffer, &copy.item);
    }
    bool is_new = copy.result == PSTI_RECODE_DONE;
    enum psti_cache_replaced replaced =
        psti_cache_later_put(loader->tiers.cache[0], later, is_new ? &copy.item : NULL);
    if (is_new && replaced == PSTI_CACHE_TOO_LONG)
        psti_loader_kept_as_stored(&copy);
    if (replaced != PSTI_CACHE_AGAIN)
        psti_loader_kept_count_recoded(loader, &copy);
    psti_buffer_free(&copy.buffer);
    psti_buffer_free(&decoded);
    psti_loader_worker_settle(worker);
    return copy.result != PSTI_RECODE_NOT_FOR || is_coded;
}

bool psti_loader_later_do(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    struct psti_cache_later later;
    int64_t start = psti_clock_ns();
    bool done = false, found = true;
    for (int i = 0; i < MOVES_AT_ONCE && found && !done; i++) {
        found = !atomic_load_explicit(&loader->queue.cancelled, memory_order_relaxed) &&
                psti_cache_later_take(loader->tiers.cache[0], &later);
        if (found)
            done = replace(worker, &later);
    }
    if (worker->decoder) /* what it decoded was for no row */
        psti_decode_stats(worker->decoder, &worker->seen);
    atomic_fetch_add_explicit(&loader->tiers.later_ns, (uint64_t)(psti_clock_ns() - start),
                              memory_order_relaxed);
    return found || done;
}

void psti_loader_later_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    stats->cache_recode_ns = atomic_load(&loader->tiers.later_ns);
    if (loader->kept.later)
        stats->n_cache_to_recode = psti_cache_later_count(loader->tiers.cache[0]);
}
