/* loader_cache.c - the loader's use of a cache. The loader asks for an item before it reads it, and
 * stores a copy after it has filled the row. If options.cache_form is for the item, the copy is
 * re-coded first (loader_recode.c).
 *
 * The pump looks up rows in the order of the epoch, one at a time, and reserves space in the cache
 * as it does so. So the choice of items that a fresh cache takes does not depend on how fast they
 * are read, as long as no copy is shorter than the space reserved for it. A copy is stored only
 * after the item's checksum was compared and its row was filled, so the cache never holds bad
 * bytes.
 *
 * The set's key says of which fields images are re-coded, and how. So a loader that needs the
 * stored bytes, because it delivers them or because its cache_form is STORED, never meets re-coded
 * ones. */
#include "loader/loader_cache.h"
#include "loader/loader_counters.h"
#include "loader/loader_fleet.h"
#include "loader/loader_handle.h"
#include "loader/loader_host.h"
#include "loader/loader_kept.h"
#include "loader/loader_recode.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "dataset/dataset.h"
#include "share/share.h"

#include <inttypes.h>
#include <string.h>

/* All threads together get 1 / RECODE_PART of host_memory for re-coding. */
#define RECODE_PART 8
#define RECODE_MAX_NBYTES ((uint64_t)64 << 20)

/* Re-coded are images and masks (as pli-jpeg images alone), but not those that the loader delivers
 * as stored bytes. Pixels cannot be decoded at a part of their size, which a stored pli-jpeg can.
 */
static uint64_t choose_recoded(const pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    const enum pst_cache_form form = loader->options.cache_form;
    uint64_t fields = 0;
    if (form == PST_CACHE_FORM_STORED)
        return 0;
    for (uint32_t i = 0; i < pst_dataset_n_fields(loader->dataset); i++) {
        enum pst_field_type type = pst_dataset_field(loader->dataset, i)->type;
        if (type == PST_FIELD_IMAGE || (type == PST_FIELD_MASK && form > PST_CACHE_FORM_PLI_JPEG))
            fields |= (uint64_t)1 << i;
    }
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (plan->fields[i].fill != PSTI_LOADER_FILL_PIXELS ||
            (form == PST_CACHE_FORM_RAW && plan->fields[i].scaled_decode))
            fields &= ~((uint64_t)1 << plan->fields[i].i_field);
    return psti_recode_key((enum psti_recode_form)(form - 1), fields);
}

/* Describes what is kept of a field whose chain begins with n_ops operations that are the same for
 * every sample. A field of both depths has its fills in units of 8 bits. */
static void describe(const struct psti_loader_plan_field *field, const struct pst_op *ops,
                     size_t n_ops, struct psti_training_field *out)
{
    bool is_mask = field->field->type == PST_FIELD_MASK, both = false;
    for (int c = 0; c < 4; c++)
        both = both || (field->chains[0][c] && field->chains[1][c]);
    *out = (struct psti_training_field){.i_field = field->i_field,
                                        .channels = field->decode.channels,
                                        .bits = field->decode.bits,
                                        .ignore_orientation = field->decode.ignore_orientation,
                                        .is_mask = is_mask,
                                        .widens = both && !is_mask,
                                        .may_turn = is_mask && field->follows,
                                        .max_pixels = field->decode.max_pixels,
                                        .n_ops = (uint32_t)n_ops};
    memcpy(out->ops, ops, n_ops * sizeof *ops);
}

/* The operations of a field, of its chain for 8 bits if there is one. */
static const struct pst_op *ops_of(const struct psti_loader_plan_field *field, size_t *n)
{
    const struct psti_chain *chain = field->chain;
    for (int c = 3; c >= 0; c--)
        chain = field->chains[0][c] ? field->chains[0][c] : chain;
    return psti_augment_chain_ops(chain, n);
}

static enum pst_status fail_prefix(const struct psti_loader_plan_field *field,
                                   const struct pst_op *ops, size_t n_ops, size_t i_op,
                                   struct pst_error *err)
{
    const char *name = field->field->name;
    if (i_op == n_ops)
        return psti_fail(
            err, PST_ERROR_ARGUMENT, "loader",
            "cache_resolution TRAINING: field '%s' has no Resize, CenterCrop or Letterbox that "
            "makes its images smaller",
            name);
    return psti_fail(
        err, PST_ERROR_ARGUMENT, "loader",
        "cache_resolution TRAINING: field '%s': operation %zu (%s) is in the way: only a "
        "Resize, CenterCrop or Letterbox at the beginning makes the same picture of an "
        "image each time",
        name, i_op, psti_augment_op_name(ops[i_op].kind));
}

/* Makes the rule of the fields that are kept at the training size. Refused if there is no image
 * among them. */
static enum pst_status make_rule(pst_loader *loader, uint64_t recode, struct pst_error *err)
{
    const struct psti_loader_plan *plan = &loader->plan;
    struct psti_training_field *fields = psti_calloc(plan->n_fields + 1, sizeof *fields);
    enum pst_status status = PST_OK, refused = PST_OK;
    uint32_t n = 0, n_images = 0;
    if (!fields)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a rule of the cache");
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        const struct psti_loader_plan_field *field = &plan->fields[i];
        bool is_image = field->field->type == PST_FIELD_IMAGE;
        size_t n_ops, n_fixed, i_op;
        if (field->fill != PSTI_LOADER_FILL_PIXELS ||
            psti_loader_plan_has_views(plan, field->i_field))
            continue;
        const struct pst_op *ops = ops_of(field, &n_ops);
        n_fixed = psti_loader_training_prefix(ops, n_ops, &i_op);
        if (n_fixed == 0 && is_image && refused == PST_OK)
            refused = fail_prefix(field, ops, n_ops, i_op, err);
        if (n_fixed > 0 && field->scaled_decode)
            status = psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                               "cache_resolution TRAINING: field '%s' has scaled_decode, which "
                               "makes other pixels",
                               field->field->name);
        if (n_fixed > 0)
            describe(field, ops, n_fixed, &fields[n++]);
        n_images += n_fixed > 0 && is_image;
    }
    if (status == PST_OK && n_images == 0)
        status = refused != PST_OK ? refused
                                   : psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                                               "cache_resolution TRAINING, but no image is decoded "
                                               "that has no views: these need it whole");
    if (status == PST_OK)
        status = psti_loader_training_open(loader->options.cache_form, recode, fields, n,
                                           &loader->training, err);
    psti_free(fields);
    return status;
}

enum pst_status psti_loader_cache_choose(pst_loader *loader, struct pst_error *err)
{
    loader->cache_key = loader->recode_key = choose_recoded(loader);
    if (loader->options.cache_resolution == PST_CACHE_RESOLUTION_FULL)
        return PST_OK;
    enum pst_status status = make_rule(loader, loader->recode_key, err);
    if (status == PST_OK)
        loader->cache_key = loader->training->key;
    return status;
}

enum pst_status psti_loader_cache_take_plan(pst_loader *loader, struct pst_error *err)
{
    const struct pst_loader_options *options = &loader->options;
    uint64_t n = pst_dataset_count(loader->dataset);
    if (!options->cache_plan && options->n_cache_plan == 0)
        return PST_OK;
    if (!options->cache_plan || options->n_cache_plan != n)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "cache_plan has a byte for each sample of the data set: %" PRIu64
                         ", not %" PRIu64,
                         n, options->n_cache_plan);
    loader->cache_plan = psti_alloc_array(n + 1, 1);
    if (!loader->cache_plan)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a plan of the cache");
    memcpy(loader->cache_plan, options->cache_plan, n);
    return PST_OK;
}

enum pst_status psti_loader_cache_open(pst_loader *loader, pst_cache *cache, struct pst_error *err)
{
    struct psti_cache_shape *shape = &loader->shape;
    if (!cache && !loader->options.fleet)
        return PST_OK;
    if (psti_storage_kind_in_use(loader->storage) == PST_STORAGE_MEMORY)
        return psti_fail(err, PST_ERROR_ARGUMENT, "loader",
                         "storage MEMORY holds all bytes in memory: it needs no cache%s",
                         cache ? "" : " and no fleet");
    psti_share_cache_shape(loader->dataset, shape, loader->cache_items);
    shape->forms = loader->cache_key;
    if (!cache)
        return PST_OK;
    return psti_cache_remote(cache) ? psti_loader_host_open(loader, cache, shape, err)
                                    : psti_cache_set_open(cache, shape, &loader->cache, err);
}

enum pst_status psti_loader_cache_follow(pst_loader *loader, struct pst_error *err)
{
    struct psti_cache_shape shape = loader->shape;
    if (shape.forms == loader->cache_key)
        return PST_OK;
    shape.forms = loader->cache_key;
    enum pst_status status = PST_OK;
    if (loader->host)
        status = psti_loader_host_change(loader, &shape, err);
    else if (loader->cache)
        status = psti_cache_set_exchange(&loader->cache, &shape, err);
    if (status == PST_OK)
        loader->shape = shape;
    return status;
}

void psti_loader_cache_claim(pst_loader *loader)
{
    uint64_t n = (uint64_t)loader->n_workers + 1; /* the fetcher, which may come later */
    uint64_t each = loader->options.host_memory / RECODE_PART / n;
    each = each < RECODE_MAX_NBYTES ? each : RECODE_MAX_NBYTES;
    if ((!loader->cache && !loader->options.fleet) || !loader->cache_key ||
        !psti_batch_pool_charge(loader->pool, n * each, false))
        return;
    loader->recode_nbytes = each;
    loader->memory_nbytes += n * each;
}

/* Asks for an item of a sample that the plan admits, or only looks for one of another sample. */
static enum psti_cache_answer ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                                  const struct psti_loader_source *source,
                                  struct psti_cache_span *span)
{
    uint32_t number = psti_loader_kept_number(loader, field->i_field, source->variant);
    if (!psti_loader_kept_admits(loader, source->sample))
        return psti_cache_find(loader->cache, source->sample, number, source->item.nbytes, span);
    return psti_cache_ask(loader->cache, source->sample, number, source->item.nbytes, span);
}

void psti_loader_cache_ask(pst_loader *loader, const struct psti_loader_plan_field *field,
                           struct psti_loader_source *source)
{
    struct psti_cache_span span;
    source->stored_nbytes = source->item.nbytes;
    if (source->item.i_file == PST_FILE_NONE || source->item.nbytes == 0)
        return;
    if (loader->host)
        psti_loader_host_ask(loader, field, source);
    if (!loader->cache)
        return;
    int64_t start = psti_clock_ns();
    switch (ask(loader, field, source, &span)) {
    case PSTI_CACHE_HIT:
        if (!psti_loader_kept_take(loader, field, &span, source))
            break;
        psti_latency_note(&loader->tiers[PST_TIER_MEMORY], span.nbytes, psti_clock_ns() - start);
        psti_loader_kept_count_hit(loader, source, span.nbytes);
        return;
    case PSTI_CACHE_ADMIT:
        source->is_wanted = true;
        break;
    case PSTI_CACHE_PASS:
        break;
    }
    atomic_fetch_add_explicit(&loader->n_cache_misses, 1, memory_order_relaxed);
}

/* What an item becomes. */
struct kept {
    struct psti_cache_span stored, item; /* `item` is re-coded, or the stored one */
    struct psti_buffer buffer;           /* of `item` */
    enum psti_recode_result result;
};

/* Prepares an item: re-codes it if its field is and if its form allows that. */
static void prepare(struct psti_loader_worker *worker, const struct psti_loader_plan_field *field,
                    const struct psti_loader_source *source, struct kept *kept)
{
    *kept = (struct kept){.stored = {source->data, source->item.nbytes, PSTI_CACHE_AS_STORED},
                          .result = PSTI_RECODE_NOT_FOR};
    if (source->is_recoded) /* by another loader: the fleet had it */
        kept->stored = (struct psti_cache_span){source->buffer, source->fleet_nbytes,
                                                (uint8_t)source->item.form};
    kept->item = kept->stored;
    if (!source->is_recoded)
        kept->result = psti_loader_recode(worker, field, source, &kept->buffer, &kept->item);
}

/* The item stays as it is stored. */
static void keep_stored(struct kept *kept)
{
    kept->item = kept->stored;
    if (kept->result == PSTI_RECODE_DONE)
        kept->result = PSTI_RECODE_FAILED;
}

/* Offers the item to the fleet. One that is not shorter than the stored one goes there as stored,
 * because readers have room for no more. False: it is still to be kept here. */
static bool offer(pst_loader *loader, struct psti_loader_source *source, uint32_t number,
                  struct kept *kept)
{
    bool is_shorter = kept->item.nbytes < source->stored_nbytes;
    if (!psti_loader_fleet_offer(loader, source, number, is_shorter ? &kept->item : &kept->stored))
        return false;
    if (!is_shorter)
        keep_stored(kept);
    return true;
}

static void count_recoded(pst_loader *loader, const struct kept *kept)
{
    if (kept->result == PSTI_RECODE_FAILED)
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_FORM, 1);
    if (kept->result != PSTI_RECODE_DONE)
        return;
    atomic_fetch_add_explicit(&loader->n_cache_recoded, 1, memory_order_relaxed);
    if (kept->item.nbytes < kept->stored.nbytes)
        atomic_fetch_add_explicit(&loader->nbytes_cache_saved,
                                  kept->stored.nbytes - kept->item.nbytes, memory_order_relaxed);
}

/* Keeps one item. What the fleet does not have is offered to it first, and kept here only if the
 * fleet does not take it (loader_fleet.c). If the item became longer than its reservation, makes
 * that longer; without room for it the item is kept as it is stored. */
static void keep(struct psti_loader_worker *worker, const struct psti_loader_plan_field *field,
                 struct psti_loader_source *source)
{
    pst_loader *loader = worker->loader;
    uint32_t number = psti_loader_kept_number(loader, field->i_field, source->variant);
    uint64_t reserved = source->stored_nbytes;
    struct kept kept;
    prepare(worker, field, source, &kept);
    if (source->is_offered && offer(loader, source, number, &kept))
        source->is_wanted = false;
    if (source->is_wanted && kept.item.nbytes > reserved) {
        if (psti_cache_enlarge(loader->cache, reserved, kept.item.nbytes))
            reserved = kept.item.nbytes;
        else
            keep_stored(&kept);
    }
    count_recoded(loader, &kept);
    if (source->is_wanted &&
        !psti_cache_keep(loader->cache, source->sample, number, reserved, &kept.item))
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_MEMORY, 1);
    psti_buffer_free(&kept.buffer);
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
        uint32_t i_field = loader->plan.fields[loader->plan.fields_of_items[i]].i_field;
        if (source->is_wanted)
            psti_cache_give_up(loader->cache, source->sample,
                               psti_loader_kept_number(loader, i_field, source->variant),
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
    pthread_mutex_lock(loader->lock); /* the session may be exchanged */
    bool is_host = loader->host != NULL;
    if (is_host)
        psti_share_cache_stats(loader->host, &cache);
    pthread_mutex_unlock(loader->lock);
    if (!is_host && !loader->cache)
        return;
    if (!is_host)
        psti_cache_set_stats(loader->cache, &cache);
    stats->n_cache_hits = atomic_load(&loader->n_cache_hits);
    stats->n_cache_training_hits = atomic_load(&loader->n_cache_training_hits);
    stats->nbytes_cache_hit = atomic_load(&loader->nbytes_cache_hit);
    stats->n_cache_misses = atomic_load(&loader->n_cache_misses);
    stats->cache_nbytes = cache.nbytes;
    stats->cache_nbytes_used = cache.nbytes_used;
    stats->n_cache_items = cache.n_items;
    stats->n_cache_fetched = atomic_load(&loader->n_cache_fetched);
    stats->nbytes_cache_fetched = atomic_load(&loader->nbytes_cache_fetched);
}
