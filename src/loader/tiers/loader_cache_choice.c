/* loader_cache_choice.c - chooses what caches keep of a data set, and in which form.
 *
 * In: the loader's plan and its cache options. Out: the key of the cache's set for this loader, the
 * rule for pictures at the training size, the plan of admitted samples, and memory for re-coding.
 * The key says which fields are re-coded, and how. So a loader that needs stored bytes, because it
 * delivers them or because its cache_form is STORED, never gets re-coded items. Runs in the
 * caller's thread when the loader is opened or set. */
#include "loader/tiers/loader_cache_choice.h"

#include "loader/loader_handle.h"
#include "loader/loader_plan.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "share/share.h"

#include <inttypes.h>
#include <string.h>

/* Re-coding may take 1 / RECODE_PART of host_memory, for all threads together. */
#define RECODE_PART 8
#define RECODE_MAX_NBYTES ((uint64_t)64 << 20)

uint64_t psti_loader_cache_recodable(const pst_dataset *dataset, enum pst_cache_form form)
{
    uint64_t fields = 0;
    for (uint32_t i = 0; form != PST_CACHE_FORM_STORED && i < pst_dataset_n_fields(dataset); i++) {
        enum pst_field_type type = pst_dataset_field(dataset, i)->type;
        if (type == PST_FIELD_IMAGE || (type == PST_FIELD_MASK && form > PST_CACHE_FORM_PLI_JPEG))
            fields |= (uint64_t)1 << i;
    }
    return fields;
}

/* Returns the fields to re-code, as bits. Images and masks that the loader delivers as stored bytes
 * are left out. Fields with scaled_decode are not kept as raw pixels, because only pli-jpeg can be
 * decoded at a part of its size. */
static uint64_t choose_recoded(const pst_loader *loader)
{
    const struct psti_loader_plan *plan = &loader->plan;
    const enum pst_cache_form form = loader->options.cache_form;
    uint64_t fields = psti_loader_cache_recodable(loader->dataset, form);
    if (form == PST_CACHE_FORM_STORED)
        return 0;
    for (uint32_t i = 0; i < plan->n_fields; i++)
        if (!psti_loader_plan_is_derived(&plan->fields[i]) &&
            (plan->fields[i].fill != PSTI_LOADER_FILL_PIXELS ||
             (form == PST_CACHE_FORM_RAW && plan->fields[i].scaled_decode)))
            fields &= ~((uint64_t)1 << plan->fields[i].i_field);
    return psti_recode_key((enum psti_recode_form)(form - 1), fields);
}

/* Describes what the cache keeps of a field whose chain begins with n_ops operations that are the
 * same for every sample. Fill values of a field with both depths are in units of 8 bits. */
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

/* Returns the operations of a field, from its chain for 8 bits if there is one. */
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

/* Makes the rule for the fields that are kept at the training size. Fails if no image is among
 * them. */
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
                                           &loader->kept.training, err);
    psti_free(fields);
    return status;
}

enum pst_status psti_loader_cache_choose(pst_loader *loader, struct pst_error *err)
{
    loader->kept.key = loader->kept.recode_key = choose_recoded(loader);
    if (loader->options.cache_resolution == PST_CACHE_RESOLUTION_FULL)
        return PST_OK;
    enum pst_status status = make_rule(loader, loader->kept.recode_key, err);
    if (status == PST_OK)
        loader->kept.key = loader->kept.training->key;
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
    loader->kept.plan = psti_alloc_array(n + 1, 1);
    if (!loader->kept.plan)
        return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for a plan of the cache");
    memcpy(loader->kept.plan, options->cache_plan, n);
    return PST_OK;
}

void psti_loader_cache_claim(pst_loader *loader)
{
    uint64_t n = (uint64_t)loader->crew.n + 1; /* the workers, and the fetcher, which may be opened
                                                  later */
    uint64_t each = loader->options.host_memory / RECODE_PART / n;
    each = each < RECODE_MAX_NBYTES ? each : RECODE_MAX_NBYTES;
    pst_cache *cache = loader->options.cache;
    bool keeps = (cache && !psti_cache_remote(cache)) || loader->options.fleet;
    if (!keeps || !loader->kept.key || !psti_batch_pool_charge(loader->pool, n * each, false))
        return;
    loader->kept.recode_nbytes = each;
    loader->memory_nbytes += n * each;
}
