/* dataset_mixture_fields.c - decides the fields of a mixture from those of its sources.
 *
 * In: the sources and the names of their fields. Out: the mixture's fields, with their numbers in
 * each source. Fields of the same name must match; if they do not, the error names two sources.
 * Runs on the calling thread. */
#include "dataset/dataset_mixture.h"

#include "base/fail.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROOM "dataset"

static int find_name(const struct psti_mixture_names *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->names[i], name) == 0)
            return (int)i;
    return -1;
}

static bool is_wanted(const struct pst_mixture_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_fields; i++)
        if (strcmp(options->fields[i], name) == 0)
            return true;
    return options->n_fields == 0;
}

/* Fills in the error that a source lacks a field, with advice. i_has: a source that has the field;
 * UINT32_MAX: none has. */
static enum pst_status fail_lacking(const struct psti_mixture *self, const char *name,
                                    uint32_t i_has, uint32_t i_lacks, struct pst_error *err)
{
    char has[PSTI_MIXTURE_SOURCE_CAP], lacks[PSTI_MIXTURE_SOURCE_CAP];
    if (i_has == UINT32_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, ROOM, "no source has a field \"%s\"", name);
    return psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                     "%s lacks the field \"%s\", which %s has: leave it out (lacking), name the "
                     "fields to take (fields), or give another field this name (rename)",
                     psti_dataset_mixture_call(self, i_lacks, lacks), name,
                     psti_dataset_mixture_call(self, i_has, has));
}

/* Returns what makes two fields unfit to be one, or NULL. */
static const char *difference(const struct pst_field *a, const struct pst_field *b)
{
    if (a->type != b->type)
        return "type";
    if (a->dtype != b->dtype)
        return "dtype";
    if (a->made_for != b->made_for)
        return "made_for (the picture that it belongs to)";
    if (a->type == PST_FIELD_KEYPOINTS && a->n_classes != b->n_classes)
        return "number of points of an instance";
    if (a->n_pairs_plus_1 != b->n_pairs_plus_1)
        return "pairs of left and right points";
    return NULL;
}

/* Fills in the error that a field differs between two sources. one, other: what this source and the
 * first one have; "": not stated. */
static enum pst_status fail_different(const struct psti_mixture *self, const char *name,
                                      uint32_t i_source, const char *what, const char *one,
                                      const char *other, struct pst_error *err)
{
    char first[PSTI_MIXTURE_SOURCE_CAP], second[PSTI_MIXTURE_SOURCE_CAP];
    bool says = one[0] != '\0';
    return psti_fail(
        err, PST_ERROR_ARGUMENT, ROOM,
        "the field \"%s\" has another %s in %s than in %s%s%s%s%s: rename it in one of "
        "them, or name the fields to take (fields)",
        name, what, psti_dataset_mixture_call(self, i_source, first),
        psti_dataset_mixture_call(self, 0, second), says ? ", " : "", one, says ? " and not " : "",
        other);
}

/* True if two fields of keypoints have the same names and pairs of points. */
static bool have_same_points(const pst_dataset *a, uint32_t i, const pst_dataset *b, uint32_t k)
{
    uint32_t n_pairs = psti_format_n_pairs(&a->fields[i]);
    const uint32_t *pairs = pst_dataset_point_pairs(a, i), *others = pst_dataset_point_pairs(b, k);
    if (n_pairs > 0 && memcmp(pairs, others, (size_t)n_pairs * 2 * sizeof *pairs) != 0)
        return false;
    for (int64_t point = 0; point < a->fields[i].n_classes; point++) {
        const char *name = pst_dataset_class_name(a, i, point);
        const char *other = pst_dataset_class_name(b, k, point);
        if ((name == NULL) != (other == NULL) || (name != NULL && strcmp(name, other) != 0))
            return false;
    }
    return true;
}

/* Merges the properties of one source's field into field i_field of the mixture, which is its
 * last. */
static enum pst_status add_source(struct psti_mixture *self, uint32_t i_field, uint32_t i_source,
                                  struct pst_error *err)
{
    pst_dataset *base = &self->base;
    struct pst_field *field = &base->fields[i_field];
    const struct psti_mixture_source *source = &self->sources[i_source], *first = self->sources;
    const pst_dataset *dataset = source->dataset;
    uint32_t i = source->fields[i_field];
    const struct pst_field *own = &dataset->fields[i];
    const char *what = difference(field, own);
    if (what != NULL && strcmp(what, "type") == 0)
        return fail_different(self, field->name, i_source, what, pst_field_type_name(own->type),
                              pst_field_type_name(field->type), err);
    if (what != NULL && strcmp(what, "dtype") == 0)
        return fail_different(self, field->name, i_source, what, pst_dtype_name(own->dtype),
                              pst_dtype_name(field->dtype), err);
    if (what == NULL && field->type == PST_FIELD_KEYPOINTS &&
        !have_same_points(first->dataset, first->fields[i_field], dataset, i))
        what = "table of points or of pairs";
    if (what != NULL)
        return fail_different(self, field->name, i_source, what, "", "", err);
    if (field->ndim != own->ndim ||
        memcmp(field->shape, own->shape, field->ndim * sizeof *own->shape) != 0) {
        field->ndim = 0; /* ragged */
        memset(field->shape, 0, sizeof field->shape);
    }
    if (own->n_variants > field->n_variants)
        field->n_variants = own->n_variants;
    uint64_t item = pst_dataset_max_item_nbytes(dataset, i);
    uint64_t pixels = pst_dataset_max_pixels_nbytes(dataset, i);
    uint64_t decoded = psti_dataset_max_decoded_nbytes(dataset, i);
    if (item > base->max_item_nbytes[i_field])
        base->max_item_nbytes[i_field] = item;
    if (decoded > base->max_decoded_nbytes[i_field])
        base->max_decoded_nbytes[i_field] = decoded;
    /* If the size is unknown for one source with samples, it is unknown for the mixture. */
    if (dataset->n_samples > 0 && pixels == 0)
        base->max_pixels_nbytes[i_field] = UINT64_MAX;
    else if (pixels > base->max_pixels_nbytes[i_field])
        base->max_pixels_nbytes[i_field] = pixels;
    return PST_OK;
}

/* Adds the field of this name, which all sources have. */
static enum pst_status add_field(struct psti_mixture *self, const char *name, struct pst_error *err)
{
    pst_dataset *base = &self->base;
    const struct psti_mixture_source *first = self->sources;
    uint32_t i_field = base->n_fields;
    if (i_field == PST_MAX_FIELDS)
        return psti_fail(err, PST_ERROR_LIMIT, ROOM, "a mixture has at most %d fields",
                         PST_MAX_FIELDS);
    base->fields[i_field] = first->dataset->fields[first->fields[i_field]];
    snprintf(base->fields[i_field].name, sizeof base->fields[i_field].name, "%s", name);
    base->n_fields++;
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < self->n_sources; i++)
        status = add_source(self, i_field, i, err);
    if (base->max_pixels_nbytes[i_field] == UINT64_MAX)
        base->max_pixels_nbytes[i_field] = 0;
    if (status == PST_OK && base->fields[i_field].type != PST_FIELD_KEYPOINTS &&
        psti_format_may_have_classes(&base->fields[i_field]))
        status = psti_dataset_mixture_join_classes(self, i_field, err);
    return status;
}

/* Finds a field in all sources and stores its numbers for the mixture's field n_fields. *i_lacks:
 * the first source that lacks it; UINT32_MAX: none does. */
static void find_in_sources(struct psti_mixture *self, const struct psti_mixture_names *names,
                            const char *name, uint32_t *i_lacks)
{
    *i_lacks = UINT32_MAX;
    for (uint32_t i = 0; *i_lacks == UINT32_MAX && i < self->n_sources; i++) {
        int found = find_name(&names[i], name);
        if (found < 0)
            *i_lacks = i;
        else if (self->base.n_fields < PST_MAX_FIELDS)
            self->sources[i].fields[self->base.n_fields] = names[i].fields[found];
    }
}

/* Adds the fields of one source that no earlier source has. */
static enum pst_status take_fields(struct psti_mixture *self,
                                   const struct psti_mixture_names *names, uint32_t i_source,
                                   const struct pst_mixture_options *options, struct pst_error *err)
{
    for (uint32_t k = 0; k < names[i_source].n; k++) {
        const char *name = names[i_source].names[k];
        uint32_t i_lacks;
        bool is_later = false;
        for (uint32_t i = 0; !is_later && i < i_source; i++)
            is_later = find_name(&names[i], name) >= 0;
        if (is_later || !is_wanted(options, name))
            continue;
        find_in_sources(self, names, name, &i_lacks);
        enum pst_status status = PST_OK;
        if (i_lacks == UINT32_MAX)
            status = add_field(self, name, err);
        else if (options->n_fields > 0 || options->lacking == PST_LACKING_ERROR)
            status = fail_lacking(self, name, i_source, i_lacks, err);
        if (status != PST_OK)
            return status;
    }
    return PST_OK;
}

enum pst_status psti_dataset_mixture_join_fields(struct psti_mixture *self,
                                                 const struct psti_mixture_names *names,
                                                 const struct pst_mixture_options *options,
                                                 struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (size_t i = 0; i < options->n_fields; i++) {
        bool is_there = false;
        for (uint32_t k = 0; !is_there && k < self->n_sources; k++)
            is_there = find_name(&names[k], options->fields[i]) >= 0;
        if (!is_there)
            return fail_lacking(self, options->fields[i], UINT32_MAX, 0, err);
    }
    for (uint32_t i = 0; status == PST_OK && i < self->n_sources; i++)
        status = take_fields(self, names, i, options, err);
    if (status == PST_OK && self->base.n_fields == 0)
        status = psti_fail(err, PST_ERROR_ARGUMENT, ROOM,
                           "the sources of the mixture have no field in common");
    return status;
}
