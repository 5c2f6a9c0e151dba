/* loader_cache.c - the loader's use of a cache. The loader asks for an item before it reads it, and
 * stores a copy after it has filled the row. If options.cache_form is PLI_JPEG, the copy of a JPEG
 * is re-coded first (loader_recode.c).
 *
 * The pump looks up rows in the order of the epoch, one at a time, and reserves space in the cache
 * as it does so. So the choice of items that a fresh cache takes does not depend on how fast they
 * are read, as long as no copy is shorter than the space reserved for it. A copy is stored only
 * after the item's checksum was compared and its row was filled, so the cache never holds bad
 * bytes.
 *
 * The set's key says of which fields JPEGs are re-coded. So a loader that needs the stored bytes,
 * because it delivers them or because its cache_form is STORED, never meets re-coded ones. */
#include "loader/loader_counters.h"
#include "loader/loader_handle.h"
#include "loader/loader_row.h"

#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"

/* All threads together get 1 / RECODE_PART of host_memory for re-coding. */
#define RECODE_PART 8
#define RECODE_MAX_NBYTES ((uint64_t)64 << 20)

/* Returns the fields of the data set whose JPEGs are re-coded, a bit for each: images, but not
 * those that the loader delivers as stored bytes. */
static uint64_t find_recoded_fields(const pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    uint64_t fields = 0;
    if (loader->options.cache_form != PST_CACHE_FORM_PLI_JPEG)
        return 0;
    for (uint32_t i = 0; i < pst_dataset_n_fields(loader->dataset); i++)
        if (pst_dataset_field(loader->dataset, i)->type == PST_FIELD_IMAGE)
            fields |= (uint64_t)1 << i;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (plan->fields[i].fill != PSTI_LOADER_FILL_PIXELS)
            fields &= ~((uint64_t)1 << plan->fields[i].i_field);
    return fields;
}

enum pst_status psti_loader_cache_open(pst_loader *loader, pst_cache *cache, struct pst_error *err)
{
    struct psti_cache_shape shape = {.n_samples = pst_dataset_count(loader->dataset)};
    if (!cache && !loader->options.fleet)
        return PST_OK;
    if (psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "storage MEMORY holds all bytes in memory: it needs no cache%s",
                         cache ? "" : " and no fleet");
    for (uint32_t i = 0; i < pst_dataset_n_fields(loader->dataset); i++) {
        const struct pst_field *field = pst_dataset_field(loader->dataset, i);
        loader->cache_items[i] = shape.n_items;
        if (field->type != PST_FIELD_INT && field->type != PST_FIELD_FLOAT)
            shape.n_items += field->n_variants;
    }
    psti_dataset_version(loader->dataset, shape.identity);
    shape.forms = loader->recoded_fields = find_recoded_fields(loader);
    loader->shape = shape;
    return cache ? psti_cache_set_open(cache, &shape, &loader->cache, err) : PST_OK;
}

void psti_loader_cache_claim(pst_loader *loader)
{
    uint64_t n = (uint64_t)loader->n_workers + 1; /* the fetcher, which may come later */
    uint64_t each = loader->options.host_memory / RECODE_PART / n;
    each = each < RECODE_MAX_NBYTES ? each : RECODE_MAX_NBYTES;
    if (!loader->recoded_fields || !psti_batch_pool_charge(loader->pool, n * each, false))
        return;
    loader->recode_nbytes = each;
    loader->memory_nbytes += n * each;
}

uint32_t psti_loader_item_number(const pst_loader *loader,
                                 const struct psti_loader_plan_field *field, uint32_t variant)
{
    return loader->cache_items[field->i_field] + variant;
}

bool psti_loader_may_have_form(const pst_loader *loader, const struct psti_loader_plan_field *field,
                               uint8_t form)
{
    return form == PSTI_CACHE_AS_STORED ||
           (form == PST_FORM_PLI_JPEG && loader->recoded_fields >> field->i_field & 1);
}

void psti_loader_cache_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                           struct psti_loader_source *source)
{
    struct psti_cache_span span;
    source->stored_nbytes = source->item.nbytes;
    if (!loader->cache || source->item.i_file == PST_FILE_NONE || source->item.nbytes == 0)
        return;
    int64_t start = psti_clock_ns();
    switch (psti_cache_ask(loader->cache, source->sample,
                           psti_loader_item_number(loader, field, source->variant),
                           source->item.nbytes, &span)) {
    case PSTI_CACHE_HIT:
        if (!psti_loader_may_have_form(loader, field, span.form))
            break;
        psti_latency_note(&loader->tiers[PST_TIER_MEMORY], span.nbytes, psti_clock_ns() - start);
        source->data = span.bytes;
        source->is_cached = true;
        if (span.form != PSTI_CACHE_AS_STORED) {
            source->is_recoded = true;
            source->item.form = (enum pst_form)span.form;
            source->item.nbytes = span.nbytes;
            source->item.has_checksum = false; /* the units of a PLI have their own */
        }
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

/* Keeps one item, re-coded if the field is and the item is a JPEG. What the fleet does not have is
 * offered to it first, and kept here only if the fleet does not take it (loader_fleet.c). */
static void keep(struct psti_loader_worker *worker, const struct psti_loader_plan_field *field,
                 struct psti_loader_source *source)
{
    pst_loader *loader = worker->loader;
    struct psti_cache_span item = {source->data, source->item.nbytes, PSTI_CACHE_AS_STORED};
    struct psti_buffer pli = {0};
    uint32_t i_item = psti_loader_item_number(loader, field, source->variant);
    if (source->is_recoded)
        item.form = (uint8_t)source->item.form;
    else if (loader->recoded_fields >> field->i_field & 1)
        psti_loader_recode(worker, field, source, &pli, &item);
    if (source->is_offered && psti_loader_fleet_offer(loader, source, i_item, &item))
        source->is_wanted = false;
    if (source->is_wanted &&
        !psti_cache_keep(loader->cache, source->sample, i_item, source->stored_nbytes, &item))
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
    psti_buffer_free(&pli);
}

void psti_loader_cache_keep(struct psti_loader_worker *worker, struct psti_loader_source *sources)
{
    const struct psti_loader_plan *plan = &worker->loader->plan;
    for (uint32_t i = 0; i < plan->n_items; i++) {
        if (sources[i].is_wanted || sources[i].is_offered)
            keep(worker, &plan->fields[plan->fields_of_items[i]], &sources[i]);
        sources[i].is_wanted = sources[i].is_offered = false;
    }
}

void psti_loader_cache_give_up(pst_loader *loader, struct psti_loader_source *sources)
{
    for (uint32_t i = 0; i < loader->plan.n_items; i++) {
        struct psti_loader_source *source = &sources[i];
        const struct psti_loader_plan_field *field =
            &loader->plan.fields[loader->plan.fields_of_items[i]];
        if (source->is_wanted)
            psti_cache_give_up(loader->cache, source->sample,
                               psti_loader_item_number(loader, field, source->variant),
                               source->stored_nbytes);
        source->is_wanted = source->is_offered = false;
    }
}

void psti_loader_cache_stats(const pst_loader *loader, struct pst_loader_stats *stats)
{
    struct pst_cache_stats cache;
    stats->n_cache_recoded = atomic_load(&loader->n_cache_recoded);
    stats->nbytes_cache_saved = atomic_load(&loader->nbytes_cache_saved);
    stats->n_cache_not_recoded = atomic_load(&loader->fallbacks[PST_FALLBACK_CACHE_FORM]);
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
