/* images.c - opens and closes a pst_images handle, which gives decoded images of a data set.
 *
 * In: a data set, an optional cache, and the wanted kind of pixels. Out: a handle. In the cache it
 * uses the same key as loaders with the same cache form, so they share items. */
#include "images/images_int.h"
#include "options/options_members.h"

#include "base/alloc.h"
#include "base/machine/cpu.h"
#include "base/fail.h"
#include "base/options.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Finds the field by its name, or the first image field if no name is given. */
static enum pst_status find_field(pst_images *images, const char *name, struct pst_error *err)
{
    const pst_dataset *dataset = images->dataset;
    uint32_t n = pst_dataset_n_fields(dataset);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_field *field = pst_dataset_field(dataset, i);
        bool has_pixels = field->type == PST_FIELD_IMAGE || (name && field->type == PST_FIELD_MASK);
        if (has_pixels && (!name || strcmp(name, field->name) == 0)) {
            images->i_field = i;
            images->n_variants = field->n_variants;
            return PST_OK;
        }
    }
    return psti_fail(err, PST_ERROR_ARGUMENT, "images",
                     name ? "there is no field \"%s\" of type image or mask"
                          : "there is no field of type image",
                     name);
}

static enum pst_status check(const struct pst_images_options *options, struct pst_error *err)
{
    if (options->channels != 0 && options->channels != 1 && options->channels != 3 &&
        options->channels != 4)
        return psti_fail(err, PST_ERROR_ARGUMENT, "images", "channels is %u: 0, 1, 3 or 4",
                         options->channels);
    if (options->cache_form && !options->cache)
        return psti_fail(err, PST_ERROR_ARGUMENT, "images",
                         "cache_form is given, but no cache that it is for");
    return PST_OK;
}

/* Returns the cache key that a loader has if it decodes all images and masks. */
static uint64_t find_key(const pst_dataset *dataset, enum pst_cache_form form)
{
    uint64_t fields = 0;
    for (uint32_t i = 0; form && i < pst_dataset_n_fields(dataset); i++) {
        enum pst_field_type type = pst_dataset_field(dataset, i)->type;
        if (type == PST_FIELD_IMAGE || (type == PST_FIELD_MASK && form > PST_CACHE_FORM_PLI_JPEG))
            fields |= (uint64_t)1 << i;
    }
    return form ? psti_recode_key((enum psti_recode_form)(form - 1), fields) : 0;
}

static enum pst_status open_cache(pst_images *images, const struct pst_images_options *options,
                                  struct pst_error *err)
{
    uint32_t first_items[PST_MAX_FIELDS];
    if (!options->cache)
        return PST_OK;
    psti_share_cache_shape(images->dataset, &images->shape, first_items);
    images->first_item = first_items[images->i_field];
    images->shape.forms = images->cache_key = find_key(images->dataset, options->cache_form);
    return psti_cache_remote(options->cache)
               ? psti_images_host_open(images, options->cache, err)
               : psti_cache_set_open(options->cache, &images->shape, &images->cache, err);
}

static enum pst_status take_plan(pst_images *images, const struct pst_images_options *options,
                                 struct pst_error *err)
{
    uint64_t n = pst_dataset_count(images->dataset);
    if (!options->cache_plan)
        return PST_OK;
    if (options->n_cache_plan != n || !options->cache)
        return psti_fail(err, PST_ERROR_ARGUMENT, "images",
                         "cache_plan is for a cache, and has a byte for each sample: %" PRIu64
                         ", not %" PRIu64,
                         n, options->n_cache_plan);
    images->plan = psti_alloc_array(n, 1);
    if (!images->plan)
        return psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a plan");
    memcpy(images->plan, options->cache_plan, n);
    return PST_OK;
}

enum pst_status pst_images_open(pst_dataset *dataset, const struct pst_images_options *options,
                                pst_images **out, struct pst_error *err)
{
    struct pst_images_options full;
    if (!dataset || !out)
        return psti_fail(err, PST_ERROR_ARGUMENT, "images", "dataset or out is NULL");
    *out = NULL;
    enum pst_status status = psti_options_copy(&full, sizeof full, options, "images", err);
    if (status == PST_OK)
        status = psti_options_complete(PST_STRUCT_IMAGES_OPTIONS, &full, "images", err);
    if (status == PST_OK)
        status = check(&full, err);
    if (status != PST_OK)
        return status;
    pst_images *images = psti_calloc(1, sizeof *images);
    if (!images)
        return psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a handle");
    pst_dataset_retain(dataset);
    images->dataset = dataset;
    images->pid = getpid();
    images->color = full.color;
    images->swap = psti_images_swap_for(psti_cpu_features());
    images->no_verify = full.no_verify;
    images->stop = (struct psti_share_stop){full.interrupt, full.interrupt_ctx};
    images->decode = (struct pst_decode_options){.struct_size = sizeof images->decode,
                                                 .channels = full.channels,
                                                 .bits = full.keep_bits ? 0 : 8,
                                                 .ignore_orientation = full.ignore_orientation};
    images->pool = psti_images_pool_open();
    if (!images->pool)
        status = psti_fail(err, PST_ERROR_MEMORY, "images", "no memory for a handle");
    if (status == PST_OK)
        status = find_field(images, full.field, err);
    if (status == PST_OK && pst_dataset_field(dataset, images->i_field)->type == PST_FIELD_MASK) {
        images->decode.channels = images->decode.bits = 0; /* masks: numbers as stored */
        images->decode.palette_indices = true;
    }
    if (status == PST_OK)
        status = open_cache(images, &full, err);
    if (status == PST_OK)
        status = take_plan(images, &full, err);
    if (status != PST_OK) {
        psti_error_set_dataset(err, pst_dataset_path(dataset));
        pst_images_close(&images);
        return status;
    }
    *out = images;
    return PST_OK;
}

void pst_images_close(pst_images **images_ptr)
{
    pst_images *images = images_ptr ? *images_ptr : NULL;
    if (!images)
        return;
    *images_ptr = NULL;
    for (size_t i = 0; i < PSTI_IMAGES_TOOLS; i++)
        psti_images_tools_free(atomic_load(&images->tools[i]));
    psti_images_pool_close(images->pool);
    psti_free(images->plan);
    psti_images_host_close(images);
    if (images->pid == getpid()) /* not in a child, whose parent's threads may hold locks */
        psti_cache_set_close(&images->cache);
    pst_dataset_close(&images->dataset);
    psti_free(images);
}

void pst_images_stats(pst_images *images, struct pst_images_stats *stats, size_t stats_nbytes)
{
    struct pst_images_stats full = {.n_hits = atomic_load(&images->n_hits),
                                    .nbytes_hit = atomic_load(&images->nbytes_hit),
                                    .n_misses = atomic_load(&images->n_misses),
                                    .nbytes_read = atomic_load(&images->nbytes_read),
                                    .n_recoded = atomic_load(&images->n_recoded),
                                    .n_not_recoded = atomic_load(&images->n_not_recoded),
                                    .n_refused = atomic_load(&images->n_refused),
                                    .is_forked = !images->host_path && images->pid != getpid(),
                                    .n_fetched = atomic_load(&images->n_fetched),
                                    .n_lost = atomic_load(&images->n_lost),
                                    .n_renewed = atomic_load(&images->n_renewed)};
    memcpy(full.host_reason, images->host_reason, sizeof full.host_reason);
    struct pst_cache_stats cache;
    bool has_cache = images->host_path ? psti_images_host_stats(images, &cache)
                                       : images->cache && !full.is_forked;
    if (has_cache) {
        if (!images->host_path)
            psti_cache_set_stats(images->cache, &cache);
        full.cache_nbytes = cache.nbytes;
        full.cache_nbytes_used = cache.nbytes_used;
        full.n_cache_items = cache.n_items;
    }
    psti_struct_write(stats, stats_nbytes, &full, sizeof full);
}
