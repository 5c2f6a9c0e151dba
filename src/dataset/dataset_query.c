/* dataset_query.c - answers queries for names, items, values and files, for all kinds of data sets.
 *
 * It checks every argument before it calls the kind's operation, and adds data set and sample to
 * errors. Any thread. */
#include "dataset/dataset_query.h"

#include "base/checked.h"
#include "base/codings/codings.h"
#include "base/fail.h"
#include "base/options.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

const char *pst_dataset_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    if (i_field >= dataset->n_fields || !psti_format_may_have_classes(&dataset->fields[i_field]))
        return NULL;
    return dataset->ops->class_name(dataset, i_field, label);
}

const uint32_t *pst_dataset_point_pairs(const pst_dataset *dataset, uint32_t i_field)
{
    if (i_field >= dataset->n_fields || dataset->ops->pairs == NULL)
        return NULL;
    return dataset->ops->pairs(dataset, i_field);
}

void psti_dataset_name_error(const pst_dataset *dataset, int64_t sample, struct pst_error *err)
{
    uint64_t own = 0;
    if (err == NULL)
        return;
    bool is_mixture = dataset->kind == PSTI_DATASET_MIXTURE;
    if (is_mixture && (sample < 0 || (uint64_t)sample >= dataset->n_samples)) {
        if (err->dataset[0] == '\0') /* if it is set, a source was named already */
            psti_error_set_dataset(err, dataset->path);
        if (sample >= 0)
            err->sample = sample;
        return;
    }
    err->sample = sample;
    err->source_sample_plus_1 = 0;
    if (is_mixture) {
        dataset = psti_dataset_leaf(dataset, (uint64_t)sample, &own);
        err->source_sample_plus_1 = own + 1;
    }
    psti_error_set_dataset(err, dataset->path);
}

/* Not inlined, because errors are rare. */
__attribute__((noinline)) enum pst_status psti_dataset_complete(const pst_dataset *dataset,
                                                                int64_t sample,
                                                                enum pst_status status,
                                                                struct pst_error *err)
{
    psti_dataset_name_error(dataset, sample, err);
    return status;
}

static __attribute__((noinline)) enum pst_status fail_sample(const pst_dataset *dataset,
                                                             uint64_t sample, struct pst_error *err)
{
    psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
              "there is no sample %" PRIu64 ": the data set has %" PRIu64, sample,
              dataset->n_samples);
    return psti_dataset_complete(dataset, sample <= INT64_MAX ? (int64_t)sample : -1,
                                 PST_ERROR_ARGUMENT, err);
}

static __attribute__((noinline)) enum pst_status fail_field(const pst_dataset *dataset,
                                                            uint64_t sample, uint32_t i_field,
                                                            const char *wanted,
                                                            struct pst_error *err)
{
    if (i_field >= dataset->n_fields)
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                  "there is no field %" PRIu32 ": the data set has %" PRIu32, i_field,
                  dataset->n_fields);
    else
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "field \"%s\" of type %s %s",
                  dataset->fields[i_field].name, pst_field_type_name(dataset->fields[i_field].type),
                  wanted);
    return psti_dataset_complete(dataset, (int64_t)sample, PST_ERROR_ARGUMENT, err);
}

enum pst_status pst_dataset_sample_name(const pst_dataset *dataset, uint64_t sample, char *name,
                                        struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    enum pst_status status = dataset->ops->sample_name(dataset, sample, name, err);
    return status == PST_OK ? PST_OK : psti_dataset_complete(dataset, (int64_t)sample, status, err);
}

enum pst_status pst_dataset_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                 uint32_t variant, struct pst_item *item, size_t item_nbytes,
                                 struct pst_error *err)
{
    struct pst_item found = {0};
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || !psti_format_has_items(dataset->fields[i_field].type))
        return fail_field(dataset, sample, i_field, "has values but no items", err);
    if (variant >= dataset->fields[i_field].n_variants)
        return fail_field(dataset, sample, i_field, "does not have so many variants", err);
    enum pst_status status = dataset->ops->item(dataset, sample, i_field, variant, &found, err);
    if (status != PST_OK)
        return psti_dataset_complete(dataset, (int64_t)sample, status, err);
    psti_struct_write(item, item_nbytes, &found, sizeof found);
    return PST_OK;
}

enum pst_status pst_dataset_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                int64_t *value, struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || dataset->fields[i_field].type != PST_FIELD_INT)
        return fail_field(dataset, sample, i_field, "has no int values", err);
    enum pst_status status = dataset->ops->int_value(dataset, sample, i_field, value, err);
    return status == PST_OK ? PST_OK : psti_dataset_complete(dataset, (int64_t)sample, status, err);
}

enum pst_status pst_dataset_float(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                  double *value, struct pst_error *err)
{
    if (sample >= dataset->n_samples)
        return fail_sample(dataset, sample, err);
    if (i_field >= dataset->n_fields || dataset->fields[i_field].type != PST_FIELD_FLOAT)
        return fail_field(dataset, sample, i_field, "has no float values", err);
    enum pst_status status = dataset->ops->float_value(dataset, sample, i_field, value, err);
    return status == PST_OK ? PST_OK : psti_dataset_complete(dataset, (int64_t)sample, status, err);
}

/* Reads values one by one, for kinds that have no ops->values. */
static enum pst_status values_one_by_one(const pst_dataset *dataset, uint32_t i_field,
                                         uint64_t first, uint64_t n, void *values,
                                         struct pst_error *err)
{
    int64_t *numbers = values;
    double *reals = values;
    bool is_int = dataset->fields[i_field].type == PST_FIELD_INT;
    enum pst_status status = PST_OK;
    for (uint64_t i = 0; i < n && status == PST_OK; i++)
        status = is_int ? pst_dataset_int(dataset, first + i, i_field, &numbers[i], err)
                        : pst_dataset_float(dataset, first + i, i_field, &reals[i], err);
    return status;
}

enum pst_status pst_dataset_column(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                                   uint64_t n, void *values, struct pst_error *err)
{
    if (!psti_range_fits(first, n, dataset->n_samples))
        return fail_sample(dataset, first < dataset->n_samples ? dataset->n_samples : first, err);
    if (i_field >= dataset->n_fields || psti_format_has_items(dataset->fields[i_field].type))
        return fail_field(dataset, first, i_field, "has no numbers", err);
    if (n == 0)
        return PST_OK;
    if (dataset->ops->values == NULL)
        return values_one_by_one(dataset, i_field, first, n, values, err);
    enum pst_status status = dataset->ops->values(dataset, i_field, first, n, values, err);
    if (status != PST_OK)
        return psti_dataset_complete(dataset, -1, status, err);
    int64_t n_classes = dataset->fields[i_field].n_classes;
    const int64_t *numbers = values;
    for (uint64_t i = 0; n_classes > 0 && i < n; i++)
        if (numbers[i] < 0 || numbers[i] >= n_classes) /* reading this sample alone gives the same
                                                        * error */
            return pst_dataset_int(dataset, first + i, i_field, (int64_t *)values + i, err);
    return PST_OK;
}

enum pst_status pst_dataset_find_sample(const pst_dataset *dataset, const char *name,
                                        uint64_t *sample, struct pst_error *err)
{
    char found[PST_NAME_CAP];
    for (uint64_t i = 0; i < dataset->n_samples; i++) {
        enum pst_status status = pst_dataset_sample_name(dataset, i, found, err);
        if (status != PST_OK)
            return status;
        if (strcmp(found, name) == 0) {
            *sample = i;
            return PST_OK;
        }
    }
    psti_fail(err, PST_ERROR_NOT_FOUND, "dataset", "no sample is named \"%.200s\"", name);
    return psti_dataset_complete(dataset, -1, PST_ERROR_NOT_FOUND, err);
}

enum pst_status pst_dataset_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                      size_t capacity, struct pst_error *err)
{
    if (i_file >= dataset->n_files) {
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                  "there is no file %" PRIu32 ": the data set has %" PRIu32, i_file,
                  dataset->n_files);
        return psti_dataset_complete(dataset, -1, PST_ERROR_ARGUMENT, err);
    }
    enum pst_status status = dataset->ops->file_path(dataset, i_file, buffer, capacity, err);
    return status == PST_OK ? PST_OK : psti_dataset_complete(dataset, -1, status, err);
}

uint64_t psti_dataset_file_place(const pst_dataset *dataset, uint32_t i_file)
{
    if (i_file >= dataset->n_files || dataset->ops->file_place == NULL)
        return 0;
    return dataset->ops->file_place(dataset, i_file);
}

enum pst_status psti_dataset_by_path(const pst_dataset *dataset, uint32_t **samples,
                                     struct pst_error *err)
{
    *samples = NULL;
    return dataset->ops->by_path == NULL ? PST_OK : dataset->ops->by_path(dataset, samples, err);
}

uint64_t psti_dataset_file_stamp(const pst_dataset *dataset, uint32_t i_file)
{
    if (i_file >= dataset->n_files || dataset->ops->file_stamp == NULL)
        return 0;
    return dataset->ops->file_stamp(dataset, i_file);
}

struct pst_image_info psti_dataset_raw_info(const struct pst_item *item)
{
    return (struct pst_image_info){.form = PST_FORM_RAW,
                                   .height = item->height,
                                   .width = item->width,
                                   .channels = item->channels,
                                   .bits = item->bits,
                                   .orientation = item->orientation ? item->orientation : 1};
}

bool psti_dataset_item_is_kept(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                               uint32_t variant, uint64_t nbytes, struct pst_item *item)
{
    if (pst_dataset_item(dataset, sample, i_field, variant, item, sizeof *item, NULL) != PST_OK)
        return false;
    if (psti_dataset_item_is_paged(item))
        psti_dataset_item_decoded(item);
    return item->nbytes == nbytes;
}

void psti_dataset_item_decoded(struct pst_item *item)
{
    if (item->coding == PST_CODING_STORED)
        return;
    if (!psti_dataset_item_is_paged(item)) {
        item->has_checksum = false;
        item->checksum = 0;
    }
    item->nbytes = item->decoded_nbytes;
    item->decoded_nbytes = item->page_nbytes = item->page_offset = 0;
    item->coding = PST_CODING_STORED;
}

enum pst_status psti_dataset_item_decode(struct psti_codings *codings, const struct pst_item *item,
                                         const void *stored, void *out, const void **bytes,
                                         struct pst_error *err)
{
    uint64_t n_out = psti_dataset_item_scratch_nbytes(item);
    bool is_paged = psti_dataset_item_is_paged(item);
    *bytes = (const uint8_t *)out + (is_paged ? item->page_offset : 0);
    if (is_paged && !psti_range_fits(item->page_offset, item->decoded_nbytes, n_out))
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset", "an item lies outside of its page");
    return psti_codings_decode(codings, item->coding, stored, (size_t)item->nbytes, out,
                               (size_t)n_out, err);
}
