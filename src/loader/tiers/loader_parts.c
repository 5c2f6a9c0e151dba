/* loader_parts.c - makes the parts of a loader's data set, and finds the part that has an item.
 *
 * A part is one data set as caches and the fleet store it. In: the choice of what is kept
 * (loader_cache_choice.c), and the sources of a mixture. Out: a shape for each part, equal to the
 * one that a loader of the source alone would have, and tables that turn the loader's item numbers
 * into those of the source. If a mixture has the same data set several times with the same fields,
 * it is one part, whatever the forms. The caller's thread makes the parts while no worker runs;
 * they are constant until the next change. */
#include "loader/tiers/loader_parts.h"

#include "loader/loader_handle.h"
#include "loader/tiers/loader_cache_choice.h"
#include "loader/tiers/loader_noted.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "dataset/dataset.h"
#include "share/share.h"

#include <string.h>

static enum pst_status fail_memory(struct pst_error *err)
{
    return psti_fail(err, PST_ERROR_MEMORY, "loader", "no memory for the parts of a data set");
}

/* Returns the key of the source's images that are kept whole. For fields of the mixture it agrees
 * with the mixture's key; for other fields it is what a loader of the source alone would choose. */
static uint64_t recode_of(const pst_loader *loader, uint32_t i_source)
{
    const enum pst_cache_form form = loader->options.cache_form;
    const pst_dataset *dataset = loader->dataset;
    uint64_t fields = psti_loader_cache_recodable(pst_dataset_source(dataset, i_source), form);
    if (form == PST_CACHE_FORM_STORED)
        return 0;
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++)
        if (!psti_recode_has_field(loader->kept.recode_key, f))
            fields &= ~((uint64_t)1 << psti_dataset_source_field(dataset, i_source, f));
    return psti_recode_key((enum psti_recode_form)(form - 1), fields);
}

/* Writes the rule for pictures at the training size into the part, as bytes. */
static enum pst_status keep_rule(const struct psti_training *rule, struct psti_loader_part *part,
                                 struct pst_error *err)
{
    uint8_t bytes[PSTI_TRAINING_RULE_MAX];
    part->rule_nbytes = (uint32_t)psti_loader_training_print(rule, bytes);
    part->rule = psti_alloc(part->rule_nbytes);
    if (!part->rule)
        return fail_memory(err);
    memcpy(part->rule, bytes, part->rule_nbytes);
    return PST_OK;
}

/* Makes the rule of a source: the loader's rule, with the source's field numbers. */
static enum pst_status make_rule(const pst_loader *loader, uint32_t i_source,
                                 struct psti_loader_part *part, struct pst_error *err)
{
    const struct psti_training *from = loader->kept.training;
    struct psti_training *rule = NULL;
    struct psti_training_field *fields = psti_calloc(from->n_fields + 1, sizeof *fields);
    if (!fields)
        return fail_memory(err);
    for (uint32_t i = 0; i < from->n_fields; i++) {
        fields[i] = from->fields[i];
        fields[i].i_field = psti_dataset_source_field(loader->dataset, i_source, fields[i].i_field);
    }
    enum pst_status status = psti_loader_training_open(from->form, recode_of(loader, i_source),
                                                       fields, from->n_fields, &rule, err);
    if (status == PST_OK)
        status = keep_rule(rule, part, err);
    if (status == PST_OK)
        part->shape.forms = rule->key;
    psti_loader_training_close(&rule);
    psti_free(fields);
    return status;
}

/* Describes a source as a part. items: [n_items], receives for each item of the loader its number
 * in the source. */
static enum pst_status describe_source(const pst_loader *loader, uint32_t i_source,
                                       struct psti_loader_part *part, uint32_t *items,
                                       struct pst_error *err)
{
    const pst_dataset *dataset = loader->dataset, *source = pst_dataset_source(dataset, i_source);
    *part = (struct psti_loader_part){.dataset = source, .i_source = i_source};
    psti_share_cache_shape(source, &part->shape, part->numbers);
    part->shape.lacks_sums = !psti_loader_noted_can_check_source(loader, i_source);
    for (uint32_t f = 0; f < pst_dataset_n_fields(dataset); f++) {
        const struct pst_field *field = pst_dataset_field(dataset, f);
        uint32_t own = psti_dataset_source_field(dataset, i_source, f);
        for (uint32_t v = 0; field->type != PST_FIELD_INT && field->type != PST_FIELD_FLOAT &&
                             v < field->n_variants;
             v++)
            items[loader->kept.numbers[f] + v] =
                v < pst_dataset_field(source, own)->n_variants ? part->numbers[own] + v
                                                               : UINT32_MAX;
    }
    part->shape.forms = loader->kept.key ? recode_of(loader, i_source) : 0;
    return loader->kept.training ? make_rule(loader, i_source, part, err) : PST_OK;
}

/* True if both parts are the same data set, with the same numbers for the loader's items. Then
 * their forms are equal, too. */
static bool is_equal(const struct psti_loader_parts *parts, const struct psti_loader_part *part,
                     const struct psti_loader_part *other, const uint32_t *items)
{
    const struct psti_cache_shape *a = &part->shape, *b = &other->shape;
    const uint32_t *theirs = parts->items + (size_t)part->i_source * parts->n_items;
    return memcmp(a->identity, b->identity, sizeof a->identity) == 0 &&
           a->n_samples == b->n_samples && a->n_items == b->n_items &&
           memcmp(theirs, items, parts->n_items * sizeof *items) == 0;
}

/* Adds the part of a source, unless an equal part exists or the source has no samples. */
static enum pst_status add_source(const pst_loader *loader, uint32_t i_source,
                                  struct psti_loader_parts *parts, struct pst_error *err)
{
    struct psti_loader_part *part = &parts->list[parts->n];
    uint32_t i = 0, *items = parts->items + (size_t)i_source * parts->n_items;
    parts->of_source[i_source] = 0;
    if (pst_dataset_count(pst_dataset_source(loader->dataset, i_source)) == 0)
        return PST_OK;
    enum pst_status status = describe_source(loader, i_source, part, items, err);
    while (status == PST_OK && i < parts->n && !is_equal(parts, &parts->list[i], part, items))
        i++;
    parts->of_source[i_source] = i;
    if (status == PST_OK && i == parts->n)
        parts->n++;
    else
        psti_free(part->rule);
    return status;
}

/* Makes the loader's whole data set the only part. */
static enum pst_status make_one(const pst_loader *loader, struct psti_loader_parts *parts,
                                struct pst_error *err)
{
    *parts = (struct psti_loader_parts){.list = psti_calloc(1, sizeof *parts->list)};
    if (!parts->list)
        return fail_memory(err);
    parts->n = 1;
    parts->list[0].dataset = loader->dataset;
    parts->list[0].shape = loader->kept.shape;
    parts->list[0].shape.forms = loader->kept.key;
    memcpy(parts->list[0].numbers, loader->kept.numbers, sizeof parts->list[0].numbers);
    return loader->kept.training ? keep_rule(loader->kept.training, parts->list, err) : PST_OK;
}

/* Makes a part for each distinct data set among the sources, up to most + 1 of them. */
static enum pst_status make_several(const pst_loader *loader, uint32_t most,
                                    struct psti_loader_parts *parts, struct pst_error *err)
{
    uint32_t n = pst_dataset_n_sources(loader->dataset);
    enum pst_status status = PST_OK;
    parts->n_items = loader->kept.shape.n_items;
    parts->list = psti_calloc((size_t)(n < most ? n : most) + 1, sizeof *parts->list);
    parts->of_source = psti_alloc_array(n, sizeof *parts->of_source);
    parts->items = psti_calloc((size_t)n * parts->n_items + 1, sizeof *parts->items);
    if (!parts->list || !parts->of_source || !parts->items)
        return fail_memory(err);
    for (uint32_t i = 0; status == PST_OK && i < n && parts->n <= most; i++)
        status = add_source(loader, i, parts, err);
    return status;
}

enum pst_status psti_loader_parts_make(const pst_loader *loader, struct psti_loader_parts *parts,
                                       struct pst_error *err)
{
    const pst_cache *cache = loader->options.cache;
    uint32_t most = cache ? PSTI_CACHE_SETS_MAX : PST_MAX_SOURCES;
    enum pst_status status = PST_OK;
    *parts = (struct psti_loader_parts){0};
    if (pst_dataset_n_sources(loader->dataset) > 0)
        status = make_several(loader, most, parts, err);
    bool too_many = parts->n > most;
    if (status == PST_OK && (too_many || parts->n == 0)) {
        psti_loader_parts_clear(parts);
        status = too_many && cache && psti_cache_remote(cache)
                     ? psti_fail(err, PST_ERROR_UNSUPPORTED, "loader",
                                 "the host cache takes mixtures of %d data sets at most: give the "
                                 "loader a cache of its process",
                                 PSTI_CACHE_SETS_MAX)
                     : make_one(loader, parts, err);
    }
    if (status != PST_OK)
        psti_loader_parts_clear(parts);
    return status;
}

void psti_loader_parts_clear(struct psti_loader_parts *parts)
{
    for (uint32_t i = 0; i < parts->n; i++)
        psti_free(parts->list[i].rule);
    psti_free(parts->list);
    psti_free(parts->of_source);
    psti_free(parts->items);
    *parts = (struct psti_loader_parts){0};
}

struct psti_loader_place psti_loader_parts_place(const pst_loader *loader, uint64_t sample,
                                                 uint32_t i_item)
{
    const struct psti_loader_parts *parts = &loader->kept.parts;
    struct psti_loader_place place = {.i_item = i_item, .sample = sample};
    uint32_t i_source = 0;
    if (!parts->of_source ||
        pst_dataset_source_of(loader->dataset, sample, &i_source, &place.sample, NULL) != PST_OK)
        return place;
    place.i_part = parts->of_source[i_source];
    place.i_item = parts->items[(size_t)i_source * parts->n_items + i_item];
    return place;
}
