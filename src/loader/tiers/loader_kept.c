/* loader_kept.c - interprets an item that came from a cache or from the fleet.
 *
 * In: the bytes that were kept, and their form. Out: a source that points to them and describes
 * them: as the stored item, as a re-coded one, or as a picture at the training size. Called by the
 * thread that has the row; no locks. */
#include "loader/tiers/loader_kept.h"

#include "loader/loader_fallback.h"
#include "loader/loader_handle.h"

#include "dataset/dataset.h"
#include "decode/decode_recode.h"

uint32_t psti_loader_kept_number(const pst_loader *loader, const struct psti_loader_source *source)
{
    return loader->kept.numbers[source->field->i_field] + source->variant;
}

struct psti_loader_place psti_loader_kept_place(const pst_loader *loader,
                                                const struct psti_loader_source *source)
{
    return psti_loader_parts_place(loader, source->sample, psti_loader_kept_number(loader, source));
}

bool psti_loader_kept_admits(const pst_loader *loader, uint64_t sample)
{
    return !loader->kept.plan || loader->kept.plan[sample];
}

void psti_loader_kept_count_hit(pst_loader *loader, const struct psti_loader_source *source,
                                uint64_t nbytes)
{
    atomic_fetch_add_explicit(&loader->tiers.n_hits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->tiers.nbytes_hit, nbytes, memory_order_relaxed);
    if (source->picture.n_ops > 0)
        atomic_fetch_add_explicit(&loader->tiers.n_training_hits, 1, memory_order_relaxed);
}

/* Points the source to a kept picture at the training size. False: it is not valid for this
 * field. */
static bool take_smaller(const pst_loader *loader, const struct psti_loader_plan_field *field,
                         const struct psti_cache_span *span, struct psti_loader_source *source)
{
    const struct psti_training_field *how =
        loader->kept.training ? psti_loader_training_field_of(loader->kept.training, field->i_field)
                              : NULL;
    enum pst_form form = (enum pst_form)(span->form & ~PSTI_TRAINING_FORM);
    if (!how || !psti_loader_training_take(how, form, span->bytes, span->nbytes, &source->picture,
                                           &source->data, &source->item.nbytes))
        return false;
    source->item.form = form;
    source->item.has_checksum = source->item.has_crc32 = false;
    source->item.coding = PST_CODING_STORED;
    source->is_recoded = true;
    return true;
}

/* Points the source to a re-coded item. False: this loader never keeps such an item, so a saved
 * cache file must have been forged. */
static bool take_recoded(const pst_loader *loader, const struct psti_loader_plan_field *field,
                         const struct psti_cache_span *span, struct psti_loader_source *source)
{
    struct pst_item *item = &source->item;
    struct pst_image_info info;
    if (span->form & PSTI_TRAINING_FORM)
        return take_smaller(loader, field, span, source);
    if (!psti_recode_has_field(loader->kept.recode_key, field->i_field) ||
        (span->form != PST_FORM_RAW && span->form != PST_FORM_PLI &&
         span->form != PST_FORM_PLI_JPEG))
        return false;
    source->data = span->bytes;
    item->nbytes = span->nbytes;
    if (span->form == PST_FORM_RAW) {
        if (!psti_decode_recode_raw(span->bytes, span->nbytes, &field->decode, &info, &source->data,
                                    &item->nbytes))
            return false;
        item->height = info.height;
        item->width = info.width;
        item->channels = info.channels;
        item->bits = info.bits;
        item->orientation = info.orientation;
    }
    item->form = (enum pst_form)span->form;
    item->has_checksum = item->has_crc32 = false; /* the data set's checksums are not those of the
                                                     re-coded bytes; the units of a PLI have their
                                                     own */
    item->coding = PST_CODING_STORED;
    source->is_recoded = true;
    return true;
}

bool psti_loader_kept_take(const pst_loader *loader, const struct psti_cache_span *span,
                           struct psti_loader_source *source)
{
    const struct pst_item stored = source->item;
    if (span->form == PSTI_CACHE_AS_STORED) {
        source->data = span->bytes;
        if (psti_dataset_item_is_paged(&source->item)) /* of an item in a compressed page the cache
                                                          keeps the decompressed bytes */
            psti_dataset_item_decoded(&source->item);
    } else if (!take_recoded(loader, source->field, span, source)) {
        source->item = stored;
        source->data = NULL;
        source->picture.n_ops = 0;
        return false;
    }
    source->is_cached = true;
    return true;
}

void psti_loader_kept_as_stored(struct psti_loader_copy *copy)
{
    copy->item = copy->stored;
    if (copy->result == PSTI_RECODE_DONE)
        copy->result = PSTI_RECODE_FAILED;
}

static void count_saved(pst_loader *loader, uint64_t nbytes)
{
    atomic_fetch_add_explicit(&loader->tiers.n_recoded, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->tiers.nbytes_saved, nbytes, memory_order_relaxed);
}

void psti_loader_kept_count_recoded(pst_loader *loader, const struct psti_loader_copy *copy)
{
    uint64_t before = copy->stored.nbytes, after = copy->item.nbytes;
    if (copy->result == PSTI_RECODE_FAILED)
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_FORM, 1);
    else if (copy->result == PSTI_RECODE_DONE)
        count_saved(loader, after < before ? before - after : 0);
}

void psti_loader_kept_count_ready(pst_loader *loader, enum psti_cache_recoding recoding,
                                  uint64_t nbytes_saved)
{
    if (recoding == PSTI_CACHE_RECODE_FAILED)
        psti_loader_fell_back(loader, PST_FALLBACK_CACHE_FORM, 1);
    else if (recoding == PSTI_CACHE_RECODED)
        count_saved(loader, nbytes_saved);
}

void psti_loader_kept_stats(const pst_loader *loader, const struct pst_cache_stats *cache,
                            struct pst_loader_stats *stats)
{
    stats->n_cache_hits = atomic_load(&loader->tiers.n_hits);
    stats->n_cache_training_hits = atomic_load(&loader->tiers.n_training_hits);
    stats->nbytes_cache_hit = atomic_load(&loader->tiers.nbytes_hit);
    stats->n_cache_misses = atomic_load(&loader->tiers.n_misses);
    stats->cache_nbytes = cache->nbytes;
    stats->cache_nbytes_used = cache->nbytes_used;
    stats->n_cache_items = cache->n_items;
    stats->n_cache_fetched = atomic_load(&loader->tiers.n_fetched);
    stats->nbytes_cache_fetched = atomic_load(&loader->tiers.nbytes_fetched);
}
