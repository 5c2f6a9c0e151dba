/* loader_cache.c - the loader's use of a cache. The loader asks for an item before it reads it, and
 * stores a copy after it has filled the row.
 *
 * The pump looks up rows in the order of the epoch, one at a time, and reserves space in the cache
 * as it does so. So the choice of items that a fresh cache takes does not depend on how fast they
 * are read. A copy is stored only after the item's checksum was compared and its row was filled, so
 * the cache never holds bad bytes. */
#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"

#include "base/fail.h"
#include "dataset/dataset.h"

enum pst_status psti_loader_cache_open(pst_loader *loader, pst_cache *cache, struct pst_error *err)
{
    struct psti_cache_shape shape = {.n_samples = pst_dataset_count(loader->dataset)};
    if (!cache)
        return PST_OK;
    if (psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "storage MEMORY holds all bytes in memory: it needs no cache");
    for (uint32_t i = 0; i < pst_dataset_n_fields(loader->dataset); i++) {
        const struct pst_field *field = pst_dataset_field(loader->dataset, i);
        loader->cache_items[i] = shape.n_items;
        if (field->type != PST_FIELD_INT && field->type != PST_FIELD_FLOAT)
            shape.n_items += field->n_variants;
    }
    psti_dataset_version(loader->dataset, shape.identity);
    return psti_cache_set_open(cache, &shape, &loader->cache, err);
}

static uint32_t number_of(const pst_loader *loader, uint32_t i_field, uint32_t variant)
{
    return loader->cache_items[i_field] + variant;
}

void psti_loader_cache_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                           struct psti_loader_source *source)
{
    struct psti_cache_span span;
    if (!loader->cache || source->item.i_file == PST_FILE_NONE || source->item.nbytes == 0)
        return;
    switch (psti_cache_ask(loader->cache, source->sample,
                           number_of(loader, field->i_field, source->variant), source->item.nbytes,
                           &span)) {
    case PSTI_CACHE_HIT:
        source->data = span.bytes;
        source->is_cached = true;
        atomic_fetch_add_explicit(&loader->n_cache_hits, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&loader->nbytes_cache_hit, span.nbytes, memory_order_relaxed);
        return;
    case PSTI_CACHE_ADMIT:
        source->is_wanted = true;
        break;
    case PSTI_CACHE_PASS:
        break;
    }
    atomic_fetch_add_explicit(&loader->n_cache_misses, 1, memory_order_relaxed);
}

void psti_loader_cache_keep(pst_loader *loader, struct psti_loader_source *sources)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &sources[i];
        uint32_t i_field = loader->plan.fields[loader->plan.fields_of_items[i]].i_field;
        if (!source->is_wanted)
            continue;
        source->is_wanted = false;
        if (!psti_cache_keep(loader->cache, source->sample,
                             number_of(loader, i_field, source->variant), source->data,
                             source->item.nbytes))
            psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
    }
}

void psti_loader_cache_give_up(pst_loader *loader, struct psti_loader_source *sources)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &sources[i];
        uint32_t i_field = loader->plan.fields[loader->plan.fields_of_items[i]].i_field;
        if (source->is_wanted)
            psti_cache_give_up(loader->cache, source->sample,
                               number_of(loader, i_field, source->variant), source->item.nbytes);
        source->is_wanted = false;
    }
}

void psti_loader_cache_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct pst_cache_stats cache;
    if (!loader->cache)
        return;
    psti_cache_set_stats(loader->cache, &cache);
    stats->n_cache_hits = atomic_load(&loader->n_cache_hits);
    stats->nbytes_cache_hit = atomic_load(&loader->nbytes_cache_hit);
    stats->n_cache_misses = atomic_load(&loader->n_cache_misses);
    stats->cache_nbytes = cache.nbytes;
    stats->cache_nbytes_used = cache.nbytes_used;
    stats->n_cache_items = cache.n_items;
}
