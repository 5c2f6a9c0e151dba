/* loader_fleet.c - the tier for a fleet of memcached servers, between cache and storage.
 *
 * The pump (the code that looks up rows in order and starts their reads) asks the fleet for items
 * that the cache does not have, while it submits the reads of others. A hit lands in the buffer
 * that the read would have used, and the row goes on as if it had been read. After any other answer
 * the item is read from storage. If the fleet did not have it, the worker that filled the row
 * offers the fleet a copy, after comparing the item's checksum. A thread of the fleet sends the
 * copy, and no row waits for it. But if copies come faster than servers take them, reads of later
 * rows wait for a while, and so does the end of the epoch.
 *
 * If bytes from the fleet cannot be decoded, the sample is not bad: the row is made again from
 * storage.
 *
 * Servers store items under the identity of their data set, for mixtures that of the source
 * (loader_parts.c). Items have the form that a cache with the loader's key keeps, if that is
 * shorter than the stored form, else the stored form. So readers need memory for the stored bytes
 * only.
 *
 * With a host cache, an item that was requested from the service is not requested from the fleet.
 * If the service does not bring it, it is read from storage, and offered to the fleet if the host
 * cache had no space. Items that the host cache lacks because it is full, or because its plan
 * leaves them out, are requested from the fleet, and offered to it.
 *
 * No item is held twice in the memory of one host: the cache gives up its reservation for an item
 * that a server has taken, or that came from a server of this host. The cache keeps items that
 * servers refuse and, once they are read again, items from servers of other hosts. */
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_kept.h"
#include "loader/tiers/loader_noted.h"
#include "loader/tiers/loader_storage.h"
#include "loader/tiers/loader_tier.h"
#include "loader/loader_worker.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/hash.h"

/* Copies that wait to be sent to servers may take 1 / FILL_PART of host_memory. */
#define FILL_PART 16
#define FILL_MAX_NBYTES ((uint64_t)64 << 20)
#define FILL_MIN_NBYTES ((uint64_t)64 << 10)
/* At the end of an epoch the loader waits for its last copies, at most this many times the fleet's
 * timeout. */
#define SETTLE_TIMEOUTS 10

/* Refuses files of others whose index has no checksums, because the items that other hosts put into
 * the fleet could not be checked. */
static enum pst_status check_sums(const pst_loader *loader, struct pst_error *err)
{
    const pst_dataset *lacking = psti_loader_noted_lacking(loader);
    if (!lacking)
        return PST_OK;
    return psti_fail(err, PST_ERROR_STATE, "loader",
                     "the index of %s has no checksums of items, so what other hosts have of them "
                     "cannot be checked: make them once (penstock index PATH --sums)",
                     pst_dataset_path(lacking));
}

/* Opens a set in the fleet for each data set of the loader, under its own identity. */
static enum pst_status open_set(pst_loader *loader, uint64_t fill_nbytes, struct pst_error *err)
{
    const struct psti_loader_parts *parts = &loader->kept.parts;
    struct psti_cache_shape *shapes = psti_alloc_array(parts->n, sizeof *shapes);
    if (!shapes)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for %u data sets", parts->n);
    for (uint32_t i = 0; i < parts->n; i++)
        shapes[i] = parts->list[i].shape;
    enum pst_status status = psti_fleet_set_open(loader->options.fleet, shapes, parts->n,
                                                 fill_nbytes, &loader->tiers.fleet, err);
    psti_free(shapes);
    return status;
}

/* Opens the fleet, with a part of host_memory for copies on their way to the servers. */
static enum pst_status open_fleet(pst_loader *loader, const struct psti_loader_slots *slots,
                                  bool *in_use, struct pst_error *err)
{
    uint64_t nbytes = loader->options.host_memory / FILL_PART;
    (void)slots;
    if (!loader->options.fleet)
        return PST_OK;
    enum pst_status status = check_sums(loader, err);
    if (status != PST_OK)
        return status;
    nbytes = nbytes < FILL_MAX_NBYTES ? nbytes : FILL_MAX_NBYTES;
    while (nbytes >= FILL_MIN_NBYTES && !psti_batch_pool_charge(loader->pool, nbytes, false))
        nbytes /= 2;
    nbytes = nbytes >= FILL_MIN_NBYTES ? nbytes : 0;
    loader->memory_nbytes += nbytes;
    status = open_set(loader, nbytes, err);
    *in_use = status == PST_OK;
    return status;
}

static void close_fleet(pst_loader *loader) { psti_fleet_set_close(&loader->tiers.fleet); }

/* Lets the fleet try servers again that were down, at the start of an epoch. */
static void begin(pst_loader *loader) { psti_fleet_retry(loader->tiers.fleet); }

/* Asks the fleet for an item that no cache has, if the fleet has a server for it. */
static enum pst_status look_up(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err)
{
    bool local;
    (void)err;
    if (source->asked)
        return PST_OK;
    struct psti_loader_place at = psti_loader_kept_place(loader, source);
    bool has_server =
        psti_fleet_has_server(loader->tiers.fleet, at.i_part, at.sample, at.i_item, &local);
    if (has_server)
        source->asked = &psti_loader_tier_fleet;
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_SERVER, !has_server);
    return PST_OK;
}

/* True if the bytes belong to the item. A forged item may carry a matching checksum, so the data
 * set's checksum is compared. Re-coded items and files of a folder have none there; if the decoder
 * refuses one, the row is made again without the fleet. */
static bool is_good(const pst_loader *loader, const struct psti_loader_source *source)
{
    const struct psti_fleet_get *get = &source->get;
    const struct pst_item *item = &source->item;
    return get->form != PSTI_CACHE_AS_STORED || loader->options.no_verify || !item->has_checksum ||
           psti_hash64(get->buffer, get->got_nbytes) == item->checksum;
}

/* Returns where the cache keeps the item. Fleet and cache number the data sets alike. */
static struct psti_loader_place place_of(uint32_t i_shape, uint64_t sample, uint32_t i_item)
{
    return (struct psti_loader_place){.i_part = i_shape, .i_item = i_item, .sample = sample};
}

/* Takes the item if the loader's key allows its form, and notes that form. read->data then points
 * to the item's bytes, after the header that raw pixels have. */
static bool accept(pst_loader *loader, struct psti_loader_source *source)
{
    const struct psti_fleet_get *get = &source->get;
    const struct psti_cache_span span = {get->buffer, get->got_nbytes, get->form};
    if (!is_good(loader, source) || !psti_loader_kept_take(loader, &span, source))
        return false;
    source->is_cached = false; /* the bytes lie in the row's own buffer, not in a cache */
    source->fleet_nbytes = get->got_nbytes;
    source->read->status = PST_OK;
    source->read->data = (char *)get->buffer + ((const char *)source->data - (char *)get->buffer);
    if (source->is_wanted && get->is_local) {
        const struct psti_loader_place at = place_of(get->i_shape, get->sample, get->i_item);
        psti_loader_cache_give_up(loader, &at, source->stored_nbytes);
        source->is_wanted = false;
    }
    return true;
}

/* Handles the end of a request. True: the item's bytes are there, and its read counts as done.
 * False: it must be read from storage. */
static bool take_got(pst_loader *loader, struct psti_loader_source *source)
{
    const struct psti_fleet_get *get = &source->get;
    bool hit = get->answer == PSTI_FLEET_HIT, good = hit && accept(loader, source);
    psti_latency_end(&loader->tiers.latency[PST_TIER_FLEET], good, get->got_nbytes,
                     psti_clock_ns() - source->read->asked_ns);
    if (good)
        return true;
    if (get->answer == PSTI_FLEET_MISS)
        source->is_offered = true;
    else if (hit || get->is_bad)
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_VALUE, 1);
    else
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_SERVER, 1);
    return false;
}

/* Handles the fleet's answer, in a thread of the fleet or in the asking thread. If it is no hit,
 * submits the read from storage. */
static void get_is_done(struct psti_fleet_get *get)
{
    struct psti_loader_source *source = get->user;
    struct psti_loader_items *items = source->items;
    struct psti_read *read = source->read;
    pst_loader *loader = items->loader;
    if (take_got(loader, source) || atomic_load(&loader->queue.cancelled))
        items->done(items); /* a cancelled row is dropped, so it needs no bytes */
    else
        psti_loader_storage_submit(loader, &read, 1);
}

static uint32_t prepare(pst_loader *loader, struct psti_loader_items *items,
                        struct psti_loader_asked *asked)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (source->asked != &psti_loader_tier_fleet || !source->read)
            continue;
        source->read->asked_ns = psti_clock_ns();
        struct psti_loader_place at = psti_loader_kept_place(loader, source);
        source->get = (struct psti_fleet_get){.sample = at.sample,
                                              .i_shape = at.i_part,
                                              .i_item = at.i_item,
                                              .nbytes = source->stored_nbytes,
                                              .buffer = source->buffer,
                                              .done = get_is_done,
                                              .user = source};
        psti_loader_asked_add(asked, source);
        n++;
    }
    if (n > 0)
        psti_latency_begin(&loader->tiers.latency[PST_TIER_FLEET], n);
    return n;
}

static size_t list_gets(const struct psti_loader_asked *asked,
                        struct psti_fleet_get *gets[PSTI_LOADER_ASKED_MAX])
{
    size_t n = 0;
    for (struct psti_loader_source *source = asked->first; n < asked->n;
         source = source->next_asked)
        gets[n++] = &source->get;
    return n;
}

static void submit(pst_loader *loader, const struct psti_loader_asked *asked)
{
    struct psti_fleet_get *gets[PSTI_LOADER_ASKED_MAX];
    psti_fleet_ask(loader->tiers.fleet, gets, list_gets(asked, gets));
}

static bool is_crowded(pst_loader *loader) { return psti_fleet_is_crowded(loader->tiers.fleet); }

static void ask_here(struct psti_loader_worker *worker)
{
    pst_loader *loader = worker->loader;
    struct psti_fleet_get *gets[PSTI_LOADER_ASKED_MAX];
    struct psti_loader_asked asked = {.n = 0};
    if (prepare(loader, &worker->items, &asked) == 0)
        return;
    if (psti_fleet_is_crowded(loader->tiers.fleet))
        (void)psti_fleet_settle(loader->tiers.fleet,
                                psti_clock_ns() + psti_fleet_timeout_ns(loader->tiers.fleet));
    psti_fleet_ask_and_wait(loader->tiers.fleet, gets, list_gets(&asked, gets));
    struct psti_loader_source *source = asked.first;
    for (uint32_t i = 0; i < asked.n; i++, source = source->next_asked)
        (void)take_got(loader, source);
}

/* Counts the outcome of an offer, which has ended. The offer's flag says whether the cache has
 * space reserved for the item. */
static void offer_is_done(const struct psti_fleet_offer *offer, enum psti_fleet_outcome outcome)
{
    pst_loader *loader = offer->user;
    const struct psti_cache_span item = {offer->bytes, offer->nbytes, offer->form};
    const struct psti_loader_place at = place_of(offer->i_shape, offer->sample, offer->i_item);
    bool refused = outcome == PSTI_FLEET_FULL || outcome == PSTI_FLEET_LOST;
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_FULL, refused);
    pthread_mutex_lock(loader->lock);
    if (loader->queue.crowded)
        pthread_cond_signal(loader->work);
    pthread_mutex_unlock(loader->lock);
    if (!offer->flag)
        return;
    if (!refused || !offer->bytes)
        psti_loader_cache_give_up(loader, &at, offer->stored_nbytes);
    else if (!psti_loader_cache_store(loader, &at, offer->stored_nbytes, &item))
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
}

/* Offers an item to the fleet, and hands over the source's reservation in the cache. False: the
 * fleet does not take the item, and the source keeps the reservation. */
static bool offer(pst_loader *loader, const struct psti_loader_source *source,
                  const struct psti_cache_span *item)
{
    const struct psti_loader_place at = psti_loader_kept_place(loader, source);
    const struct psti_fleet_offer what = {.sample = at.sample,
                                          .i_shape = at.i_part,
                                          .i_item = at.i_item,
                                          .stored_nbytes = source->stored_nbytes,
                                          .bytes = item->bytes,
                                          .nbytes = item->nbytes,
                                          .form = item->form,
                                          .done = offer_is_done,
                                          .user = loader,
                                          .flag = source->is_wanted};
    switch (psti_fleet_offer(loader->tiers.fleet, &what)) {
    case PSTI_FLEET_TAKEN:
        return true;
    case PSTI_FLEET_REFUSED:
        psti_loader_fell_back(loader, PST_FALLBACK_FLEET_FULL, 1);
        return false;
    case PSTI_FLEET_BUSY:
        break;
    }
    psti_loader_fell_back(loader, PST_FALLBACK_FLEET_BUSY, 1);
    if (source->is_wanted) /* the cache does not keep the item either, so its next read offers it
                            * again */
        psti_loader_cache_give_up(loader, &at, source->stored_nbytes);
    return true;
}

/* Offers a copy of the item to the fleet. If re-coding did not make it shorter, the stored form is
 * sent, because readers have buffers for the stored bytes only. */
static void keep(pst_loader *loader, struct psti_loader_source *source,
                 struct psti_loader_copy *copy)
{
    bool is_shorter = copy->item.nbytes < source->stored_nbytes;
    if (!source->is_offered)
        return;
    source->is_offered = false;
    if (!offer(loader, source, is_shorter ? &copy->item : &copy->stored))
        return;
    source->is_wanted = false;
    if (!is_shorter)
        psti_loader_kept_as_stored(copy);
}

/* Waits until the offered items have arrived, at most SETTLE_TIMEOUTS timeouts. */
static bool settle(pst_loader *loader, int64_t deadline_ns)
{
    int64_t now = psti_clock_ns();
    if (loader->tiers.settle_until_ns == 0)
        loader->tiers.settle_until_ns =
            now + SETTLE_TIMEOUTS * psti_fleet_timeout_ns(loader->tiers.fleet);
    int64_t until = loader->tiers.settle_until_ns;
    bool settled =
        psti_fleet_settle(loader->tiers.fleet, until < deadline_ns ? until : deadline_ns) ||
        psti_clock_ns() >= until;
    if (settled)
        loader->tiers.settle_until_ns = 0;
    return settled;
}

const struct psti_loader_tier_ops psti_loader_tier_fleet = {
    .stands_in = true,
    .open = open_fleet,
    .close = close_fleet,
    .begin = begin,
    .settle = settle,
    .look_up = look_up,
    .is_crowded = is_crowded,
    .prepare = prepare,
    .submit = submit,
    .ask_here = ask_here,
    .keep = keep,
};
