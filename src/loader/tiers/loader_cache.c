/* loader_cache.c - the tier for a cache of this process. The loader looks for an item in the cache
 * before it reads it, and stores a copy after it has filled the row. If options.cache_form applies
 * to the item, the copy is re-coded first (loader_recode.c), or later (loader_later.c).
 *
 * The pump (the code that starts reads) looks up rows in the order of the epoch, one at a time, and
 * reserves space in the cache at that moment. So which items a new cache takes does not depend on
 * how fast they are read, as long as no copy is shorter than its reservation. A copy is stored only
 * after the item's checksum was compared and its row was filled, so the cache never holds bad
 * bytes. */
#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"
#include "loader/tiers/loader_kept.h"
#include "loader/tiers/loader_tier.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"

static enum pst_status open_cache(pst_loader *loader, const struct psti_loader_slots *slots,
                                  bool *in_use, struct pst_error *err)
{
    pst_cache *cache = loader->options.cache;
    (void)slots;
    if (!cache || psti_cache_remote(cache))
        return PST_OK;
    const struct psti_loader_parts *parts = &loader->kept.parts;
    enum pst_status status = PST_OK;
    loader->tiers.cache = psti_calloc(parts->n, sizeof *loader->tiers.cache);
    if (!loader->tiers.cache)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a cache's sets");
    for (uint32_t i = 0; status == PST_OK && i < parts->n; i++)
        status = psti_cache_set_open(cache, &parts->list[i].shape, &loader->tiers.cache[i], err);
    *in_use = status == PST_OK;
    return status;
}

static void close_cache(pst_loader *loader)
{
    for (uint32_t i = 0; loader->tiers.cache && i < loader->kept.parts.n; i++)
        psti_cache_set_close(&loader->tiers.cache[i]);
    psti_free(loader->tiers.cache);
    loader->tiers.cache = NULL;
}

bool psti_loader_cache_is_open(const pst_loader *loader)
{
    for (uint32_t i = 0; loader->tiers.cache && i < loader->kept.parts.n; i++)
        if (!loader->tiers.cache[i])
            return false;
    return true;
}

/* Gives a set of the cache another shape. A set that an earlier failure left closed is opened. */
static enum pst_status exchange(pst_loader *loader, uint32_t i,
                                const struct psti_cache_shape *shape, struct pst_error *err)
{
    struct psti_cache_set **set = &loader->tiers.cache[i];
    return *set ? psti_cache_set_exchange(set, shape, err)
                : psti_cache_set_open(loader->options.cache, shape, set, err);
}

static enum pst_status change(pst_loader *loader, const struct psti_loader_parts *parts,
                              struct pst_error *err)
{
    const struct psti_loader_part *former = loader->kept.parts.list;
    enum pst_status status = PST_OK;
    uint32_t n = 0;
    for (; status == PST_OK && n < parts->n; n += status == PST_OK)
        status = exchange(loader, n, &parts->list[n].shape, err);
    for (; status != PST_OK && n > 0; n--)
        if (exchange(loader, n - 1, &former[n - 1].shape, NULL) != PST_OK)
            psti_cache_set_close(&loader->tiers.cache[n - 1]); /* the set that failed has a wrong
                                                                  shape, so it must not be used */
    return status;
}

/* Asks the cache for an item, and reserves space for it if the cache plan admits the sample. For
 * other samples it only looks for the item. */
static enum psti_cache_answer ask(pst_loader *loader, const struct psti_loader_source *source,
                                  const struct psti_loader_place *place,
                                  struct psti_cache_span *span)
{
    struct psti_cache_set *set = loader->tiers.cache[place->i_part];
    if (!psti_loader_kept_admits(loader, source->sample))
        return psti_cache_find(set, place->sample, place->i_item, source->stored_nbytes, span);
    return psti_cache_ask(set, place->sample, place->i_item, source->stored_nbytes, span);
}

/* Looks for the item. Sets is_cached and `data` after a hit, or is_wanted if the cache reserved
 * space for it. If the cache holds the item re-coded, also sets its form and length. */
static enum pst_status look_up(pst_loader *loader, struct psti_loader_source *source,
                               struct pst_error *err)
{
    struct psti_loader_place place = psti_loader_kept_place(loader, source);
    struct psti_cache_set *set = loader->tiers.cache[place.i_part];
    struct psti_cache_span span;
    int64_t start = psti_clock_ns();
    unsigned reader = psti_cache_enter(set);
    (void)err;
    switch (ask(loader, source, &place, &span)) {
    case PSTI_CACHE_HIT:
        if (!psti_loader_kept_take(loader, &span, source))
            break;
        psti_latency_note(&loader->tiers.latency[PST_TIER_MEMORY], span.nbytes,
                          psti_clock_ns() - start);
        psti_loader_kept_count_hit(loader, source, span.nbytes);
        source->reader = reader;
        return PST_OK;
    case PSTI_CACHE_ADMIT:
        source->is_wanted = true;
        break;
    case PSTI_CACHE_PASS:
        break;
    }
    psti_cache_leave(set, reader);
    atomic_fetch_add_explicit(&loader->tiers.n_misses, 1, memory_order_relaxed);
    return PST_OK;
}

/* Stores a copy of the item. If re-coding made it longer than its reservation, the reservation is
 * enlarged; if the cache has no space for that, the stored form is kept. */
static void keep(pst_loader *loader, struct psti_loader_source *source,
                 struct psti_loader_copy *copy)
{
    uint64_t reserved = source->stored_nbytes;
    if (!source->is_wanted)
        return;
    struct psti_loader_place place = psti_loader_kept_place(loader, source);
    struct psti_cache_set *set = loader->tiers.cache[place.i_part];
    source->is_wanted = false;
    if (copy->item.nbytes > reserved) {
        if (psti_cache_enlarge(set, reserved, copy->item.nbytes))
            reserved = copy->item.nbytes;
        else
            psti_loader_kept_as_stored(copy);
    }
    if (!psti_cache_keep(set, place.sample, place.i_item, reserved, &copy->item))
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
}

void psti_loader_cache_give_up(pst_loader *loader, const struct psti_loader_place *place,
                               uint64_t nbytes)
{
    psti_cache_give_up(loader->tiers.cache[place->i_part], place->sample, place->i_item, nbytes);
}

bool psti_loader_cache_store(pst_loader *loader, const struct psti_loader_place *place,
                             uint64_t nbytes, const struct psti_cache_span *item)
{
    return psti_cache_keep(loader->tiers.cache[place->i_part], place->sample, place->i_item, nbytes,
                           item);
}

/* Gives up reservations of items that were not stored, and leaves the sets whose bytes the row
 * used. */
static void release(pst_loader *loader, struct psti_loader_items *items)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &items->sources[i];
        if (!source->is_wanted && source->reader == 0)
            continue;
        struct psti_loader_place place = psti_loader_kept_place(loader, source);
        if (source->is_wanted)
            psti_loader_cache_give_up(loader, &place, source->stored_nbytes);
        source->is_wanted = false;
        if (source->reader == 0)
            continue;
        psti_cache_leave(loader->tiers.cache[place.i_part], source->reader);
        source->reader = 0;
    }
}

/* True if a part before this one has the same set: one data set may be there several times, with
 * other fields as the mixture's. */
static bool is_repeated(const pst_loader *loader, uint32_t i_part)
{
    uint32_t i = 0;
    while (loader->tiers.cache[i] != loader->tiers.cache[i_part])
        i++;
    return i < i_part;
}

static void stats_of(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct pst_cache_stats cache = {0}, set;
    for (uint32_t i = 0; i < loader->kept.parts.n; i++) {
        uint64_t n_items = cache.n_items;
        if (!loader->tiers.cache[i] || is_repeated(loader, i))
            continue;
        psti_cache_set_stats(loader->tiers.cache[i], &set);
        cache = set; /* n_items counts the items of one set; all other members are those of the
                        whole cache */
        cache.n_items += n_items;
        if (loader->kept.parts.list[i].later)
            stats->n_cache_to_recode += psti_cache_later_count(loader->tiers.cache[i]);
    }
    psti_loader_kept_stats(loader, &cache, stats);
}

const struct psti_loader_tier_ops psti_loader_tier_cache = {
    .open = open_cache,
    .close = close_cache,
    .change = change,
    .look_up = look_up,
    .keep = keep,
    .release = release,
    .stats = stats_of,
};
