/* pack_plan.c - decides where each field of the destination comes from, before pst_pack reads a
 * sample.
 *
 * A new data set takes the fields of the source. A data set that is appended to keeps its own
 * fields, and the source must have a field with the name and type of each. Labels are matched by
 * class name, not by number, because the same folder name can have another number in another
 * folder. */
#include "pack/pack_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "dataset/dataset_members.h"
#include "format/format_geometry.h"
#include "writer/writer.h"

#include <stdio.h>
#include <string.h>

static enum pst_status check_forms(const enum pst_form *forms, uint32_t n, const char *of,
                                   struct pst_error *err)
{
    if (n > PST_MAX_VARIANTS)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "%u forms of the %s, at most %d are possible", n, of, PST_MAX_VARIANTS);
    for (uint32_t i = 0; i < n; i++) {
        enum pst_form form = forms[i];
        if (form != PST_FORM_NONE && form != PST_FORM_RAW && form != PST_FORM_JPEG &&
            form != PST_FORM_PNG && form != PST_FORM_WEBP && form != PST_FORM_PLI &&
            form != PST_FORM_PLI_JPEG)
            return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "%d is no form of an image",
                             (int)form);
        for (uint32_t k = 0; k < i; k++)
            if (forms[k] == form)
                return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "the form %s is asked for twice",
                                 form == PST_FORM_NONE ? "original" : pst_form_name(form));
    }
    return PST_OK;
}

static enum pst_status take_forms(struct psti_pack_plan *plan,
                                  const struct pst_pack_options *options, struct pst_error *err)
{
    enum pst_status status = check_forms(options->forms, options->n_forms, "image", err);
    if (status == PST_OK)
        status = check_forms(options->mask_forms, options->n_mask_forms, "mask", err);
    if (status != PST_OK)
        return status;
    psti_pack_pli_options(options, &plan->pli);
    plan->images.n = options->n_forms;
    for (uint32_t i = 0; i < options->n_forms; i++)
        plan->images.forms[i] = options->forms[i];
    plan->masks.n = options->n_mask_forms;
    for (uint32_t i = 0; i < options->n_mask_forms; i++)
        plan->masks.forms[i] = options->mask_forms[i];
    if (options->plan != NULL && (options->n_forms > 0 || options->pli_tier != 0))
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "a plan says the forms and tiers of images: they cannot be given beside "
                         "it");
    if (plan->images.n == 0 && !pst_dataset_is_packed(plan->source)) {
        /* With a plan file, samples of no class keep their form; without one, JPEGs become PLI. */
        plan->images.forms[0] = options->plan != NULL ? PST_FORM_NONE : PST_FORM_PLI_JPEG;
        plan->images.n = 1;
    }
    plan->keeps_variants = plan->images.n == 0 && options->plan == NULL && !plan->in_place;
    plan->pli_of_lossy = options->pli_of_lossy;
    return PST_OK;
}

static struct psti_pack_forms *forms_for(struct psti_pack_plan *plan, enum pst_field_type type)
{
    return type == PST_FIELD_IMAGE ? &plan->images : type == PST_FIELD_MASK ? &plan->masks : NULL;
}

/* Gives the destination the source's fields. */
static void plan_new(struct psti_pack_plan *plan, enum pst_made_for made_for)
{
    plan->n_fields = pst_dataset_n_fields(plan->source);
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        plan->fields[i] = *pst_dataset_field(plan->source, i);
        plan->source_field[i] = i;
        enum pst_field_type type = plan->fields[i].type;
        if (psti_format_lies_on_image(type) && plan->fields[i].made_for == PST_MADE_FOR_UNKNOWN)
            plan->fields[i].made_for = made_for;
        const struct psti_pack_forms *forms = forms_for(plan, type);
        if (forms != NULL && forms->n > 0)
            plan->fields[i].n_variants = (uint8_t)forms->n;
    }
}

/* Finds the settings with which the data set's PLI were encoded. Appended images are encoded with
 * the same settings, unless the caller sets others. */
static enum pst_status pli_of(struct psti_pack_plan *plan, const pst_dataset *destination,
                              uint32_t i_field, uint32_t variant, struct pst_error *err)
{
    uint8_t head[PSTI_PLI_HEADER_NBYTES];
    enum pst_status status =
        pst_dataset_read(destination, 0, i_field, variant, 0, sizeof head, head, err);
    if (status == PST_OK && !plan->pli.given)
        psti_pack_pli_read(head, sizeof head, &plan->pli);
    return status;
}

/* Finds out from the first samples whether this variant keeps JPEGs as PLI. One sample is not
 * enough: it may be no JPEG, or a JPEG that could not be kept as PLI. */
static enum pst_status keeps_pli_jpeg(const pst_dataset *destination, uint32_t i_field,
                                      uint32_t variant, bool *keeps, struct pst_error *err)
{
    enum { LOOK_AT = 256 };
    uint64_t count = pst_dataset_count(destination);
    enum pst_status status = PST_OK;
    *keeps = false;
    for (uint64_t i = 0; status == PST_OK && !*keeps && i < count && i < LOOK_AT; i++) {
        struct pst_item item;
        status = pst_dataset_item(destination, i, i_field, variant, &item, sizeof item, err);
        *keeps = status == PST_OK && item.form == PST_FORM_PLI_JPEG;
    }
    return status;
}

/* Finds the forms in which the data set already holds its images or masks, from its first sample.
 */
static enum pst_status forms_of(struct psti_pack_plan *plan, const pst_dataset *destination,
                                uint32_t i_field, struct pst_error *err)
{
    const struct pst_field *field = pst_dataset_field(destination, i_field);
    struct psti_pack_forms *forms = forms_for(plan, field->type);
    forms->n = field->n_variants;
    for (uint32_t v = 0; v < field->n_variants; v++) {
        struct pst_item item = {0};
        enum pst_status status = PST_OK;
        if (pst_dataset_count(destination) > 0)
            status = pst_dataset_item(destination, 0, i_field, v, &item, sizeof item, err);
        if (status == PST_OK && item.form == PST_FORM_PLI)
            status = pli_of(plan, destination, i_field, v, err);
        bool of_pixels = item.form == PST_FORM_RAW || item.form == PST_FORM_PLI, keeps = false;
        if (status == PST_OK && !of_pixels)
            status = keeps_pli_jpeg(destination, i_field, v, &keeps, err);
        if (status != PST_OK)
            return status;
        forms->forms[v] = of_pixels ? item.form : keeps ? PST_FORM_PLI_JPEG : PST_FORM_NONE;
    }
    return PST_OK;
}

/* Checks that a variant gets the kind of form that it already has: pixels, PLI, or files. */
static enum pst_status check_kinds(const struct psti_pack_plan *plan,
                                   const struct psti_pack_forms *forms,
                                   const pst_dataset *destination, uint32_t i_field,
                                   struct pst_error *err)
{
    for (uint32_t v = 0; v < forms->n && pst_dataset_count(destination) > 0; v++) {
        struct pst_item item = {0};
        enum pst_form wanted = forms->forms[v];
        bool raw = wanted == PST_FORM_RAW;
        enum pst_status status =
            pst_dataset_item(destination, 0, i_field, v, &item, sizeof item, err);
        if (status != PST_OK)
            return status;
        if (item.form == PST_FORM_NONE || (raw == (item.form == PST_FORM_RAW) &&
                                           (wanted != PST_FORM_PLI || item.form == PST_FORM_PLI)))
            continue;
        /* The stored bytes of a source data set may also be pixels, so this form fits any kind. */
        if (wanted == PST_FORM_NONE && pst_dataset_is_packed(plan->source))
            continue;
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "the data set holds field %s as %s, %s is asked for",
                         pst_dataset_field(destination, i_field)->name, pst_form_name(item.form),
                         wanted == PST_FORM_NONE ? "original" : pst_form_name(wanted));
    }
    return PST_OK;
}

/* Maps the class numbers of the source to those of the destination, by class name. */
static enum pst_status map_classes(struct psti_pack_plan *plan, const pst_dataset *destination,
                                   uint32_t i_field, struct pst_error *err)
{
    const struct pst_field *to = pst_dataset_field(destination, i_field);
    uint32_t i_source = plan->source_field[i_field];
    const struct pst_field *from = pst_dataset_field(plan->source, i_source);
    bool from_named = pst_dataset_class_name(plan->source, i_source, 0) != NULL;
    bool to_named = pst_dataset_class_name(destination, i_field, 0) != NULL;
    if (!from_named && !to_named)
        return PST_OK;
    if (from_named != to_named)
        return psti_fail(
            err, PST_ERROR_ARGUMENT, "pack",
            "the classes of field %s have names in %s only: the labels cannot be matched", to->name,
            from_named ? "the source" : "the data set");
    int64_t *map = psti_alloc_array((size_t)from->n_classes, sizeof *map);
    if (map == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %lld classes",
                         (long long)from->n_classes);
    plan->class_map[i_field] = map;
    uint32_t *added = psti_alloc_array((size_t)from->n_classes, sizeof *added);
    if (added == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %lld classes",
                         (long long)from->n_classes);
    plan->new_classes[i_field] = added;
    for (int64_t i = 0; i < from->n_classes; i++) {
        const char *name = pst_dataset_class_name(plan->source, i_source, i);
        int64_t k = 0;
        while (k < to->n_classes &&
               strcmp(pst_dataset_class_name(destination, i_field, k), name) != 0)
            k++;
        if (k == to->n_classes && !plan->add_classes)
            return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                             "the source has a class \"%s\" which the data set does not have: ask "
                             "for new classes to be added (add_classes), or leave it out",
                             name);
        if (k == to->n_classes) {
            k += plan->n_new_classes[i_field];
            plan->new_classes[i_field][plan->n_new_classes[i_field]++] = (uint32_t)i;
        }
        map[i] = k;
    }
    return PST_OK;
}

/* Checks that keypoints are the same points in source and destination, as far as both describe
 * them. */
static enum pst_status check_points(const struct psti_pack_plan *plan,
                                    const pst_dataset *destination, uint32_t i_field,
                                    struct pst_error *err)
{
    const struct pst_field *to = pst_dataset_field(destination, i_field);
    uint32_t i_source = plan->source_field[i_field];
    const struct pst_field *from = pst_dataset_field(plan->source, i_source);
    const uint32_t *ours = pst_dataset_point_pairs(destination, i_field);
    const uint32_t *theirs = pst_dataset_point_pairs(plan->source, i_source);
    bool both = from->n_classes > 0 && to->n_classes > 0;
    bool same = !both || from->n_classes == to->n_classes;
    for (int64_t i = 0; both && same && i < to->n_classes; i++) {
        const char *here = pst_dataset_class_name(destination, i_field, i);
        const char *there = pst_dataset_class_name(plan->source, i_source, i);
        same = here == NULL || there == NULL || strcmp(here, there) == 0;
    }
    if (same && from->n_pairs_plus_1 > 0 && to->n_pairs_plus_1 > 0)
        same = from->n_pairs_plus_1 == to->n_pairs_plus_1 &&
               (ours == NULL || theirs == NULL ||
                memcmp(ours, theirs, 8 * (size_t)psti_format_n_pairs(to)) == 0);
    if (same)
        return PST_OK;
    return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                     "the keypoints of field %s are other points, or other pairs of them, in the "
                     "source than in the data set",
                     to->name);
}

static enum pst_status plan_field(struct psti_pack_plan *plan, const pst_dataset *destination,
                                  uint32_t i, struct pst_error *err)
{
    const struct pst_field *field = &plan->fields[i];
    int i_source = pst_dataset_find_field(plan->source, field->name);
    if (i_source < 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "the source has no field \"%s\", which the data set has", field->name);
    const struct pst_field *from = pst_dataset_field(plan->source, (uint32_t)i_source);
    if (from->type != field->type)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "field \"%s\" is %s in the source and %s in the data set", field->name,
                         pst_field_type_name(from->type), pst_field_type_name(field->type));
    plan->source_field[i] = (uint32_t)i_source;
    const struct psti_pack_forms *forms = forms_for(plan, field->type);
    if (forms != NULL && forms->n == 0 && from->n_variants != field->n_variants)
        return forms_of(plan, destination, i, err);
    if (forms != NULL && forms->n > 0 && forms->n != field->n_variants)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "%u forms are asked for, the data set has %u of field %s", forms->n,
                         field->n_variants, field->name);
    if (forms != NULL && forms->n > 0)
        return check_kinds(plan, forms, destination, i, err);
    if (field->type == PST_FIELD_ARRAY && field->dtype != from->dtype)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "field \"%s\" has elements of %s in the source and of %s in the data set",
                         field->name, pst_dtype_name(from->dtype), pst_dtype_name(field->dtype));
    if (field->type == PST_FIELD_KEYPOINTS)
        return check_points(plan, destination, i, err);
    return psti_format_may_have_classes(field) ? map_classes(plan, destination, i, err) : PST_OK;
}

/* Keeps JPEGs as PLI if the data set that is appended to does so. */
static enum pst_status follow_variants(struct psti_pack_plan *plan, const pst_dataset *destination,
                                       struct pst_error *err)
{
    bool keeps = false;
    for (uint32_t i = 0; i < plan->n_fields; i++) {
        bool is_image = plan->fields[i].type == PST_FIELD_IMAGE;
        for (uint32_t v = 0; is_image && !keeps && v < plan->fields[i].n_variants; v++) {
            enum pst_status status = keeps_pli_jpeg(destination, i, v, &keeps, err);
            if (status != PST_OK)
                return status;
        }
    }
    plan->keeps_variants = plan->keeps_variants && keeps;
    return PST_OK;
}

enum pst_status psti_pack_refuse_others(const char *path, struct pst_error *err)
{
    if (!psti_dataset_means_containers(path))
        return PST_OK;
    enum pst_status status =
        psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                  "these are files that others made, into which Penstock writes nothing: pack "
                  "them into a new data set");
    psti_error_set_dataset(err, path);
    return status;
}

/* Makes the plan for a destination that exists and keeps its fields. */
static enum pst_status plan_append(struct psti_pack_plan *plan, const char *path,
                                   const struct pst_pack_options *options, struct pst_error *err)
{
    pst_dataset *destination = NULL;
    enum pst_status status = psti_pack_refuse_others(path, err);
    if (status == PST_OK)
        status = pst_dataset_open(path, NULL, &destination, err);
    if (status != PST_OK)
        return status;
    if (!pst_dataset_is_packed(destination)) {
        status = psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                           "this is a folder of images, not a data set");
        goto out;
    }
    plan->n_fields = pst_dataset_n_fields(destination);
    for (uint32_t i = 0; i < plan->n_fields; i++)
        plan->fields[i] = *pst_dataset_field(destination, i);
    if (options->n_forms == 0)
        plan->images.n = 0;
    for (uint32_t i = 0;
         status == PST_OK && i < plan->n_fields && !pst_dataset_is_packed(plan->source); i++) {
        const struct psti_pack_forms *forms = forms_for(plan, plan->fields[i].type);
        if (forms != NULL && forms->n == 0)
            status = forms_of(plan, destination, i, err);
    }
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++)
        status = plan_field(plan, destination, i, err);
    if (status == PST_OK)
        status = follow_variants(plan, destination, err);
out:
    if (status != PST_OK && err != NULL && err->dataset[0] == '\0')
        psti_error_set_dataset(err, path);
    pst_dataset_close(&destination);
    return status;
}

/* True if the path has a finished data set, so that packing into it appends. */
static bool is_finished(const char *path)
{
    pst_dataset *dataset = NULL;
    bool finished =
        !psti_dataset_means_containers(path) &&
        pst_dataset_open(path, NULL, &dataset, NULL) == PST_OK && pst_dataset_is_packed(dataset);
    pst_dataset_close(&dataset);
    return finished;
}

enum pst_status psti_pack_plan_make(struct psti_pack_plan *plan, pst_dataset *source,
                                    const char *destination, const struct pst_pack_options *options,
                                    struct pst_error *err)
{
    plan->source = source;
    plan->verify_pixels = options->verify_pixels;
    plan->add_classes = options->add_classes;
    plan->resize = options->resize;
    plan->resizes = options->resize > 0;
    enum pst_status status = take_forms(plan, options, err);
    if (status != PST_OK)
        return status;
    if (options->resize > 0 &&
        (plan->in_place || options->plan != NULL || options->writer->mode == PST_WRITER_RESUME))
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "resize is not possible %s",
                         plan->in_place          ? "in place: give another destination"
                         : options->plan != NULL ? "with a plan, which may have its own"
                                                 : "when resuming: begin anew");
    plan->appends = !plan->in_place &&
                    (options->writer->mode == PST_WRITER_APPEND ||
                     (options->writer->mode == PST_WRITER_RESUME && is_finished(destination)));
    if ((int)options->made_for < 0 || options->made_for > PST_MADE_FOR_STORED)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "made_for %d is unknown",
                         (int)options->made_for);
    if (plan->appends && options->plan != NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                         "a plan is for a new data set, or for a change in place");
    if (plan->appends)
        return plan_append(plan, destination, options, err);
    plan_new(plan, options->made_for);
    status = options->plan != NULL ? psti_pack_assign(plan, options, err) : PST_OK;
    return status == PST_OK && plan->in_place ? psti_pack_assign_in_place(plan, err) : status;
}

enum pst_status psti_pack_plan_classes(const struct psti_pack_plan *plan, pst_writer *writer,
                                       struct pst_error *err)
{
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < plan->n_fields; i++) {
        const struct pst_field *field = &plan->fields[i];
        uint32_t i_source = plan->source_field[i];
        if (!psti_format_may_have_classes(field) ||
            pst_dataset_class_name(plan->source, i_source, 0) == NULL ||
            (plan->appends && plan->n_new_classes[i] == 0))
            continue;
        size_t n_old = plan->appends ? (size_t)field->n_classes : 0;
        size_t n = plan->appends ? n_old + plan->n_new_classes[i] : (size_t)field->n_classes;
        const char **names = psti_alloc_array(n, sizeof *names);
        if (names == NULL)
            return psti_fail(err, PST_ERROR_MEMORY, "pack", "out of memory for %zu class names", n);
        const char *held = plan->appends ? psti_writer_class_names(writer, i) : NULL;
        for (size_t k = 0; k < n_old; k++, held += strlen(held) + 1)
            names[k] = held;
        for (size_t k = n_old; k < n; k++)
            names[k] = pst_dataset_class_name(
                plan->source, i_source,
                plan->appends ? (int64_t)plan->new_classes[i][k - n_old] : (int64_t)k);
        status = pst_writer_set_class_names(writer, i, names, n, err);
        psti_free(names);
    }
    for (uint32_t i = 0; status == PST_OK && !plan->appends && i < plan->n_fields; i++)
        if (psti_format_n_pairs(&plan->fields[i]) > 0)
            status = pst_writer_set_point_pairs(
                writer, i, pst_dataset_point_pairs(plan->source, plan->source_field[i]),
                psti_format_n_pairs(&plan->fields[i]), err);
    return status;
}

void psti_pack_plan_free(struct psti_pack_plan *plan)
{
    for (uint32_t i = 0; i < PST_MAX_FIELDS; i++) {
        psti_free(plan->class_map[i]);
        psti_free(plan->new_classes[i]);
    }
    psti_pack_mix_free(&plan->mix);
    psti_free(plan->way_of);
    psti_free(plan->stays);
    psti_free(plan->first_sample);
    memset(plan, 0, sizeof *plan);
}
