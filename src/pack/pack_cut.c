/* pack_cut.c - makes the plan of shards: which samples of the source go into which shard. It is
 * made before anything is read or encoded, so that one process and several processes make the same
 * shards.
 *
 * In: a plan whose source knows the lengths of its items. Out: the first sample of each planned
 * shard. Lengths are those of the source, because lengths after encoding are not known yet. If
 * encoded items exceed a shard's limit, the writer splits the shard, in every process at the same
 * sample. One pass over the source's listing or index, in the calling thread. */
#include "format/format_dataset.h"
#include "format/format_parts.h"
#include "pack/pack_int.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "dataset/dataset.h"

#include <penstock/penstock.h>

#include <string.h>

/* Maximum number of bytes that a shard adds to an item: record header, alignment, padding. */
enum { BESIDE_NBYTES = PSTI_RECORD_NBYTES + 64 + 8 };

/* Estimates the bytes that an item of the source will take in this form. */
static uint64_t item_nbytes(const struct pst_item *item, enum pst_form form)
{
    uint64_t pixels = (uint64_t)item->height * item->width * item->channels;
    bool restores = form == PST_FORM_JPEG || form == PST_FORM_NONE;
    uint64_t nbytes = form == PST_FORM_RAW && pixels > 0 ? pixels * (item->bits / 8)
                      : restores && item->form == PST_FORM_PLI_JPEG && item->jpeg_nbytes > 0
                          ? item->jpeg_nbytes
                          : psti_dataset_item_nbytes(item);
    return nbytes > INT64_MAX / 2 ? INT64_MAX / 2 : nbytes;
}

/* Adds the bytes that a field of the sample will take to *nbytes. */
static enum pst_status add_field(const struct psti_pack_plan *plan, uint32_t i_field,
                                 uint64_t sample, uint64_t *nbytes, struct pst_error *err)
{
    struct pst_item items[PST_MAX_VARIANTS];
    uint32_t i_source = plan->source_field[i_field];
    uint32_t n = pst_dataset_field(plan->source, i_source)->n_variants;
    const struct psti_pack_forms *forms = psti_pack_plan_forms(plan, i_field, sample);
    /* A file's form is known only after it is read. */
    bool is_folder = !pst_dataset_is_packed(plan->source);
    enum pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < n; v++)
        status =
            pst_dataset_item(plan->source, sample, i_source, v, &items[v], sizeof items[v], err);
    bool fits = true;
    for (uint32_t k = 0; status == PST_OK && k < (forms != NULL ? forms->n : n); k++) {
        uint32_t v = forms == NULL ? k
                     : is_folder   ? 0
                                   : psti_pack_choose(items, n, 0, forms->forms[k]);
        if (v >= n || (!is_folder && items[v].form == PST_FORM_NONE))
            continue;
        enum pst_form form = forms != NULL ? forms->forms[k] : items[v].form;
        fits = fits && psti_add_u64(*nbytes, item_nbytes(&items[v], form), nbytes) &&
               psti_add_u64(*nbytes, BESIDE_NBYTES, nbytes);
    }
    if (!fits)
        *nbytes = UINT64_MAX; /* a length so large that the sample gets a shard of its own */
    return status;
}

static bool push(struct psti_pack_plan *plan, uint32_t *capacity, uint64_t first)
{
    if (plan->n_shards + 2 > *capacity) { /* with the end */
        uint32_t more = *capacity == 0 ? 64 : *capacity * 2;
        uint64_t *larger =
            more > *capacity ? psti_realloc(plan->first_sample, more * sizeof *larger) : NULL;
        if (larger == NULL)
            return false;
        plan->first_sample = larger;
        *capacity = more;
    }
    plan->first_sample[plan->n_shards++] = first;
    return true;
}

enum pst_status psti_pack_cut(struct psti_pack_plan *plan, uint64_t shard_nbytes,
                              struct pst_error *err)
{
    uint64_t n = pst_dataset_count(plan->source), held = PSTI_SHARD_HEADER_NBYTES;
    uint32_t capacity = 0;
    bool enough = push(plan, &capacity, 0);
    enum pst_status status = PST_OK;
    for (uint64_t s = 0; enough && status == PST_OK && s < n; s++) {
        uint64_t nbytes = 0;
        for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
            if (psti_format_has_items(plan->fields[i].type))
                status = add_field(plan, i, s, &nbytes, err);
        bool fits = psti_add_u64(held, nbytes, &held) && held <= shard_nbytes;
        if (!fits && s > plan->first_sample[plan->n_shards - 1]) {
            enough = push(plan, &capacity, s);
            held = nbytes > INT64_MAX ? INT64_MAX : PSTI_SHARD_HEADER_NBYTES + nbytes;
        }
    }
    if (!enough)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for a plan of shards");
    plan->first_sample[plan->n_shards] = n;
    return status;
}

/* Returns a hash of everything that determines the bytes of a pack, except its source. */
static uint64_t mark_of(const struct psti_pack_plan *plan, uint64_t shard_nbytes)
{
    struct psti_hash_state state;
    uint8_t printed[PSTI_INDEX_FIELD_NBYTES];
    const char *version = pst_version();
    const uint64_t numbers[] = {1, /* version of this list */
                                psti_pack_assign_mark(plan), plan->resize, plan->verify_pixels,
                                plan->keeps_variants, shard_nbytes};
    psti_hash_begin(&state);
    psti_hash_update(&state, version, strlen(version) + 1);
    psti_hash_update(&state, numbers, sizeof numbers);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        psti_format_print_field(&plan->fields[i], printed);
        psti_hash_update(&state, printed, sizeof printed);
    }
    return psti_hash_end(&state);
}

/* Computes an identity of the source: its listing, and its class names, because a listing has class
 * numbers only. */
static enum pst_status identify(const struct psti_pack_plan *plan, uint8_t out[16],
                                struct pst_error *err)
{
    struct psti_hash_pair hash;
    enum pst_status status = pst_dataset_identity(plan->source, PST_IDENTITY_LISTED, out, err);
    if (status != PST_OK)
        return status;
    psti_hash_pair_begin(&hash);
    psti_hash_pair_update(&hash, out, PST_IDENTITY_NBYTES);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        uint32_t i_source = plan->source_field[i];
        bool has = psti_format_may_have_classes(&plan->fields[i]);
        for (int64_t k = 0; has && k < plan->fields[i].n_classes; k++) {
            const char *name = pst_dataset_class_name(plan->source, i_source, k);
            if (name != NULL)
                psti_hash_pair_update(&hash, name, strlen(name) + 1);
        }
    }
    psti_hash_pair_end(&hash, out);
    return PST_OK;
}

enum pst_status psti_pack_cut_describe(const struct psti_pack_plan *plan, uint64_t shard_nbytes,
                                       struct psti_parts *parts, struct pst_error *err)
{
    *parts = (struct psti_parts){.mark = mark_of(plan, shard_nbytes),
                                 .n_samples = pst_dataset_count(plan->source),
                                 .n_shards = plan->n_shards};
    return identify(plan, parts->source, err);
}
