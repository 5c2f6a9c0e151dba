/* loader_fleet.c - the loader's use of a fleet of memcached servers, between cache and storage.
 *
 * The pump asks the fleet for items that the cache does not have, while it submits the reads of
 * others. A hit lands in the buffer that the read would have used, and the row goes on as if it had
 * been read. Whatever else the fleet answers, the item is read from storage. Where the answer was
 * that it is not there, the worker that filled the row offers a copy, after the item's checksum was
 * compared; a thread of the fleet adds it. No row waits for
 * that. Reads of later rows do for a while, when copies come faster than servers take them, and so
 * does the end of the epoch.
 *
 * Bytes of the fleet that cannot be decoded are no bad sample: the row is made again from storage.
 *
 * Items lie in the servers in the form that a cache with the loader's key keeps, if that is shorter
 * than the stored one; else as they are stored. Readers set aside room for the stored bytes only.
 *
 * With the host cache, an item that the service was asked for is not asked from the fleet: what the
 * service does not bring is read from storage, and offered to the fleet if the host cache had no
 * room. Others that the host cache does not have, because it is full or its plan leaves them out,
 * are asked from the fleet, and offered to it.
 *
 * No item is held twice in the memory of one host: the cache gives up its reservation for an item
 * that a server has just taken, and for one that came from a server of this host. It keeps what
 * servers refuse, and, from then on when they are read again, items of servers of other hosts. */
#include "loader/loader_counters.h"
#include "loader/loader_fleet.h"
#include "loader/loader_handle.h"
#include "loader/loader_kept.h"
#include "loader/loader_worker.h"

#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"

/* Copies of offered items take at most 1 / FILL_PART of host_memory. */
#define FILL_PART 16
#define FILL_MAX_NBYTES ((uint64_t)64 << 20)
#define FILL_MIN_NBYTES ((uint64_t)64 << 10)
/* At the end of an epoch the last copies get so many timeouts to arrive. */
#define SETTLE_TIMEOUTS 10

enum pst_status psti_loader_fleet_open(pst_loader *loader, pst_fleet *fleet, struct pst_error *err)
{
    uint64_t nbytes = loader->options.host_memory / FILL_PART;
    if (!fleet)
        return PST_OK;
    nbytes = nbytes < FILL_MAX_NBYTES ? nbytes : FILL_MAX_NBYTES;
    while (nbytes >= FILL_MIN_NBYTES && !psti_batch_pool_charge(loader->pool, nbytes, false))
        nbytes /= 2;
    nbytes = nbytes >= FILL_MIN_NBYTES ? nbytes : 0;
    loader->memory_nbytes += nbytes;
    return psti_fleet_set_open(fleet, &loader->shape, nbytes, &loader->fleet, err);
}

void psti_loader_fleet_consider(pst_loader *loader, const struct psti_loader_plan_field *field,
                                struct psti_loader_source *source)
{
    bool local;
    if (!loader->fleet || source->item.i_file == PST_FILE_NONE || source->item.nbytes == 0)
        return;
    source->ask_fleet = psti_fleet_has_server(
        loader->fleet, source->sample,
        psti_loader_kept_number(loader, field->i_field, source->variant), &local);
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_SERVER, !source->ask_fleet);
}

uint32_t psti_loader_fleet_requests(pst_loader *loader, struct psti_loader_items *items)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        const struct psti_loader_plan_field *field = &plan->fields[plan->fields_of_items[i]];
        if (!source->ask_fleet || !source->read)
            continue;
        source->read->asked_ns = psti_clock_ns();
        items->requests[n++] = (struct psti_loader_request){
            .loader = loader,
            .field = field,
            .source = source,
            .get = {.sample = source->sample,
                    .i_item = psti_loader_kept_number(loader, field->i_field, source->variant),
                    .nbytes = source->item.nbytes,
                    .buffer = source->buffer}};
    }
    psti_latency_begin(&loader->tiers[PST_TIER_FLEET], n);
    return n;
}

/* True if the bytes are those of the item. Forged ones may have a good checksum of their own.
 * Re-coded ones, and files of a folder, have no checksum in the data set: the decoder looks at
 * them, and a row that it refuses is made again without the fleet. */
static bool is_good(const struct psti_loader_request *request)
{
    const struct psti_fleet_get *get = &request->get;
    const struct pst_item *item = &request->source->item;
    return get->form != PSTI_CACHE_AS_STORED || request->loader->options.no_verify ||
           !item->has_checksum || psti_hash64(get->buffer, get->got_nbytes) == item->checksum;
}

/* Takes the item if its form is one that the loader's key allows, and notes that form. The read's
 * data are the item's bytes, behind the header of raw pixels. */
static bool accept(struct psti_loader_request *request)
{
    pst_loader *loader = request->loader;
    struct psti_loader_source *source = request->source;
    const struct psti_fleet_get *get = &request->get;
    const struct psti_cache_span span = {get->buffer, get->got_nbytes, get->form};
    if (!is_good(request) || !psti_loader_kept_take(loader, request->field, &span, source))
        return false;
    source->is_cached = false; /* it lies in the row's own buffer */
    source->fleet_nbytes = get->got_nbytes;
    source->read->status = PST_OK;
    source->read->data = (char *)get->buffer + ((const char *)source->data - (char *)get->buffer);
    if (source->is_wanted && get->is_local) {
        psti_cache_give_up(loader->cache, source->sample, get->i_item, source->stored_nbytes);
        source->is_wanted = false;
    }
    return true;
}

bool psti_loader_fleet_take(struct psti_loader_request *request)
{
    pst_loader *loader = request->loader;
    const struct psti_fleet_get *get = &request->get;
    bool hit = get->answer == PSTI_FLEET_HIT, good = hit && accept(request);
    psti_latency_end(&loader->tiers[PST_TIER_FLEET], good, get->got_nbytes,
                     psti_clock_ns() - request->source->read->asked_ns);
    if (good)
        return true;
    if (get->answer == PSTI_FLEET_MISS)
        request->source->is_offered = true;
    else if (hit || get->is_bad)
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_VALUE, 1);
    else
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_SERVER, 1);
    return false;
}

void psti_loader_fleet_ask_here(struct psti_loader_worker *worker)
{
    struct psti_fleet_get *gets[PST_MAX_FIELDS];
    uint32_t n = psti_loader_fleet_requests(worker->loader, &worker->items);
    if (n == 0)
        return;
    if (psti_fleet_is_crowded(worker->loader->fleet))
        (void)psti_fleet_settle(worker->loader->fleet,
                                psti_clock_ns() + psti_fleet_timeout_ns(worker->loader->fleet));
    for (uint32_t i = 0; i < n; i++)
        gets[i] = &worker->items.requests[i].get;
    psti_fleet_ask_and_wait(worker->loader->fleet, gets, n);
    for (uint32_t i = 0; i < n; i++)
        (void)psti_loader_fleet_take(&worker->items.requests[i]);
}

/* What became of an offered item. The offer's flag says if the cache has space reserved for it. */
static void offer_is_done(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    pst_loader *loader = offer->user;
    const struct psti_cache_span item = {offer->bytes, offer->nbytes, offer->form};
    bool refused = outcome == PSTI_FLEET_FULL || outcome == PSTI_FLEET_LOST;
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_FULL, refused);
    pthread_mutex_lock(loader->lock);
    if (loader->crowded)
        pthread_cond_signal(loader->work);
    pthread_mutex_unlock(loader->lock);
    if (!offer->flag)
        return;
    if (!refused || !offer->bytes)
        psti_cache_give_up(loader->cache, offer->sample, offer->i_item, offer->stored_nbytes);
    else if (!psti_cache_keep(loader->cache, offer->sample, offer->i_item, offer->stored_nbytes,
                              &item))
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
}

bool psti_loader_fleet_offer(pst_loader *loader, struct psti_loader_source *source, uint32_t i_item,
                             const struct psti_cache_span *item)
{
    const struct psti_fleet_offer offer = {.sample = source->sample,
                                           .i_item = i_item,
                                           .stored_nbytes = source->stored_nbytes,
                                           .bytes = item->bytes,
                                           .nbytes = item->nbytes,
                                           .form = item->form,
                                           .done = offer_is_done,
                                           .user = loader,
                                           .flag = source->is_wanted};
    switch (psti_fleet_offer(loader->fleet, &offer)) {
    case PSTI_FLEET_TAKEN:
        return true;
    case PSTI_FLEET_REFUSED:
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_FULL, 1);
        return false;
    case PSTI_FLEET_BUSY:
        break;
    }
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_BUSY, 1);
    if (source->is_wanted) /* it is offered again when it is read again */
        psti_cache_give_up(loader->cache, source->sample, i_item, source->stored_nbytes);
    return true;
}

bool psti_loader_fleet_settle(pst_loader *loader, int64_t deadline_ns)
{
    int64_t now = psti_clock_ns();
    if (!loader->fleet)
        return true;
    if (loader->settle_until_ns == 0)
        loader->settle_until_ns = now + SETTLE_TIMEOUTS * psti_fleet_timeout_ns(loader->fleet);
    int64_t until = loader->settle_until_ns;
    return psti_fleet_settle(loader->fleet, until < deadline_ns ? until : deadline_ns) ||
           psti_clock_ns() >= until;
}

const char *pst_tier_name(uint32_t i)
{
    static const char *const names[] = {"memory", "host", "fleet", "storage"};
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

void psti_loader_tier_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    for (int i = 0; i <= PST_TIER_STORAGE; i++) {
        struct psti_latency_figures figures;
        psti_latency_read((struct psti_latency *)(uintptr_t)&loader->tiers[i], &figures);
        stats->tiers[i] = (struct pst_tier_stats){.n_hits = figures.n,
                                                  .nbytes = figures.nbytes,
                                                  .mean_ns = figures.mean_ns,
                                                  .p99_ns = figures.p99_ns,
                                                  .bytes_per_second = figures.bytes_per_second};
    }
}
