/* loader_tiers.c - the list of tiers, and functions that call each tier of a loader in turn.
 *
 * Tiers are called in the order of the list, from the nearest memory to the storage. Copies are
 * offered in the opposite order: first to the fleet, then to the cache, which keeps what the fleet
 * does not take. */
#include "loader/tiers/loader_tier.h"

#include "loader/tiers/loader_cache_choice.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_kept.h"
#include "loader/tiers/loader_later.h"
#include "loader/tiers/loader_noted.h"
#include "loader/tiers/loader_recode.h"
#include "loader/loader_worker.h"

#include "base/fail.h"
#include "dataset/dataset.h"
#include "share/share.h"

static const struct psti_loader_tier_ops *const all[PSTI_LOADER_TIERS] = {
    &psti_loader_tier_cache, &psti_loader_tier_host,  &psti_loader_tier_fleet,
    &psti_loader_tier_shelf, &psti_loader_tier_pages, &psti_loader_tier_storage,
};

/* Sets loader->kept.shape, the description of the data set for caches and the fleet. */
static enum pst_status describe(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    if (!options->cache && !options->fleet)
        return PST_OK;
    if (psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "storage MEMORY holds all bytes in memory: it needs no cache%s",
                         options->cache ? "" : " and no fleet");
    psti_share_cache_shape(loader->dataset, &loader->kept.shape, loader->kept.numbers);
    loader->kept.shape.lacks_sums = !psti_loader_noted_can_check(loader);
    loader->kept.shape.forms = loader->kept.key;
    return psti_loader_parts_make(loader, &loader->kept.parts, err);
}

enum pst_status psti_loader_tiers_open(pst_loader *loader, const struct psti_loader_slots *slots,
                                       struct pst_error *err)
{
    enum pst_status status = describe(loader, err);
    if (status == PST_OK)
        psti_loader_cache_claim(loader);
    for (uint32_t i = 0; status == PST_OK && i < PSTI_LOADER_TIERS; i++) {
        bool in_use = false;
        status = all[i]->open(loader, slots, &in_use, err);
        if (in_use)
            loader->tiers.ops[loader->tiers.n++] = all[i];
    }
    if (status == PST_OK)
        psti_loader_noted_open(loader);
    if (status == PST_OK)
        psti_loader_later_open(loader);
    return status;
}

void psti_loader_tiers_close(pst_loader *loader)
{
    for (uint32_t i = PSTI_LOADER_TIERS; i-- > 0;) /* backwards, because a closing fleet gives
                                                      the cache the items that servers refused */
        if (all[i]->close)
            all[i]->close(loader);
    loader->tiers.n = 0;
    psti_loader_parts_clear(&loader->kept.parts);
    psti_loader_noted_close(loader);
}

enum pst_status psti_loader_tiers_change(pst_loader *loader, struct pst_error *err)
{
    struct psti_loader_parts parts = {0}, former = loader->kept.parts;
    enum pst_status status = PST_OK;
    if (loader->kept.shape.forms == loader->kept.key && psti_loader_cache_is_open(loader))
        return PST_OK;
    if (loader->options.cache || loader->options.fleet)
        status = psti_loader_parts_make(loader, &parts, err);
    for (uint32_t i = 0; status == PST_OK && i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->change)
            status = loader->tiers.ops[i]->change(loader, &parts, err);
    if (status == PST_OK) {
        loader->kept.shape.forms = loader->kept.key;
        loader->kept.parts = parts;
    }
    psti_loader_parts_clear(status == PST_OK ? &former : &parts);
    psti_loader_later_open(loader);
    return status;
}

void psti_loader_tiers_begin(pst_loader *loader, bool busy)
{
    loader->tiers.settle_until_ns = 0;
    psti_loader_noted_begin(loader);
    for (uint32_t i = 0; i < loader->tiers.n; i++) {
        const struct psti_loader_tier_ops *ops = loader->tiers.ops[i];
        if (ops->begin && !(busy && ops->renews))
            ops->begin(loader);
    }
}

bool psti_loader_tiers_renew(const pst_loader *loader)
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->renews && loader->tiers.ops[i]->renews(loader))
            return true;
    return false;
}

bool psti_loader_tiers_settle(pst_loader *loader, int64_t deadline_ns)
{
    bool settled = true;
    for (uint32_t i = 0; settled && i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->settle)
            settled = loader->tiers.ops[i]->settle(loader, deadline_ns);
    if (settled)
        psti_loader_noted_save(loader);
    return settled;
}

void psti_loader_tiers_cancel(pst_loader *loader)
{
    for (uint32_t i = loader->tiers.n; i-- > 0;) /* backwards, because the pump may wait for the
                                                    storage */
        if (loader->tiers.ops[i]->cancel)
            loader->tiers.ops[i]->cancel(loader);
}

void psti_loader_tiers_resume(pst_loader *loader)
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->resume)
            loader->tiers.ops[i]->resume(loader);
}

bool psti_loader_tiers_have_items(const pst_loader *loader)
{
    for (uint32_t i = 0; i + 1 < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->look_up)
            return true;
    return false;
}

enum pst_status psti_loader_tiers_look_up(pst_loader *loader, struct psti_loader_source *source,
                                          struct pst_error *err)
{
    enum pst_status status = PST_OK;
    source->stored_nbytes = psti_dataset_item_kept_nbytes(&source->item);
    source->has_sum = source->item.has_checksum || source->item.has_crc32;
    if (source->item.nbytes == 0)
        source->data = "";
    if (source->item.i_file == PST_FILE_NONE)
        return PST_OK; /* a value without a file is copied later, when there is a buffer */
    for (uint32_t i = 0; status == PST_OK && !source->data && i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->look_up)
            status = loader->tiers.ops[i]->look_up(loader, source, err);
    return status;
}

void psti_loader_tiers_join(pst_loader *loader, struct psti_loader_items *items, uint64_t epoch,
                            uint64_t position)
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->join)
            loader->tiers.ops[i]->join(loader, items, epoch, position);
}

bool psti_loader_tiers_are_crowded(pst_loader *loader)
{
    bool crowded = false;
    for (uint32_t i = 0; !crowded && i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->is_crowded)
            crowded = loader->tiers.ops[i]->is_crowded(loader);
    return crowded;
}

uint32_t psti_loader_tiers_prepare(pst_loader *loader, struct psti_loader_items *items,
                                   struct psti_loader_asked asked[PSTI_LOADER_TIERS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->prepare)
            n += loader->tiers.ops[i]->prepare(loader, items, &asked[i]);
    return n;
}

void psti_loader_tiers_submit(pst_loader *loader,
                              const struct psti_loader_asked asked[PSTI_LOADER_TIERS])
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (asked[i].n > 0)
            loader->tiers.ops[i]->submit(loader, &asked[i]);
}

void psti_loader_tiers_ask_here(struct psti_loader_worker *worker)
{
    const pst_loader *loader = worker->loader;
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->ask_here)
            loader->tiers.ops[i]->ask_here(worker);
}

enum pst_status psti_loader_tiers_await(struct psti_loader_worker *worker,
                                        struct psti_loader_items *items, struct pst_error *err)
{
    const pst_loader *loader = worker->loader;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->await)
            status = loader->tiers.ops[i]->await(worker, items, err);
    return status;
}

/* Makes a copy of an item for the tiers. The copy is re-coded if the cache keeps the item's field
 * re-coded and the item's form allows that. If `waits` is set, it is re-coded later. */
static void copy_item(struct psti_loader_worker *worker, const struct psti_loader_source *source,
                      bool waits, struct psti_loader_copy *copy)
{
    *copy = (struct psti_loader_copy){
        .stored = {source->data, source->item.nbytes, PSTI_CACHE_AS_STORED},
        .result = PSTI_RECODE_NOT_FOR};
    if (source->coded)
        copy->stored =
            (struct psti_cache_span){source->coded, source->stored_nbytes, PSTI_CACHE_AS_STORED};
    if (source->is_recoded) /* another loader has re-coded the item, and it was taken from the
                               fleet */
        copy->stored = (struct psti_cache_span){source->buffer, source->fleet_nbytes,
                                                (uint8_t)source->item.form};
    copy->item = copy->stored;
    if (!source->is_recoded && !waits)
        copy->result =
            psti_loader_recode(worker, source->field, source, &copy->buffer, &copy->item);
}

bool psti_loader_tiers_may_keep(const pst_loader *loader)
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->keep)
            return true;
    return false;
}

void psti_loader_tiers_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources)
{
    pst_loader *loader = worker->loader;
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_copy copy;
        if (!sources[i].is_wanted && !sources[i].is_offered)
            continue;
        bool waits = psti_loader_later_waits(loader, &sources[i]);
        copy_item(worker, &sources[i], waits, &copy);
        for (uint32_t k = loader->tiers.n; k-- > 0;)
            if (loader->tiers.ops[k]->keep)
                loader->tiers.ops[k]->keep(loader, &sources[i], &copy);
        if (!waits)
            psti_loader_kept_count_recoded(loader, &copy);
        psti_buffer_free(&copy.buffer);
    }
}

void psti_loader_tiers_release(pst_loader *loader, struct psti_loader_items *items)
{
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->release)
            loader->tiers.ops[i]->release(loader, items);
}

const char *pst_tier_name(uint32_t i)
{
    static const char *const names[] = {"memory", "host", "fleet", "storage"};
    return i < sizeof names / sizeof names[0] ? names[i] : NULL;
}

void psti_loader_tiers_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    stats->n_cache_recoded = atomic_load(&loader->tiers.n_recoded);
    stats->nbytes_cache_saved = atomic_load(&loader->tiers.nbytes_saved);
    stats->n_cache_not_recoded = atomic_load(&loader->meters.fallbacks[PST_FALLBACK_CACHE_FORM]);
    psti_loader_later_stats(loader, stats);
    for (uint32_t i = 0; i < loader->tiers.n; i++)
        if (loader->tiers.ops[i]->stats)
            loader->tiers.ops[i]->stats(loader, stats);
    for (int i = 0; i <= PST_TIER_STORAGE; i++) {
        struct psti_latency_figures figures;
        psti_latency_read((struct psti_latency *)(uintptr_t)&loader->tiers.latency[i], &figures);
        stats->tiers[i] = (struct pst_tier_stats){.n_hits = figures.n,
                                                  .nbytes = figures.nbytes,
                                                  .mean_ns = figures.mean_ns,
                                                  .p99_ns = figures.p99_ns,
                                                  .bytes_per_second = figures.bytes_per_second};
    }
}
