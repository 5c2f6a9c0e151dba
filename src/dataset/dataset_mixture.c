/* dataset_mixture.c - a data set made of several: passes each call to the source that holds the
 * sample or file.
 *
 * In: numbers of the mixture. Out: the source's answer, with the mixture's numbers of files and
 * labels. Any thread; nothing changes after open. Errors keep the source's path, and get the
 * mixture's number of the sample besides the source's own. */
#include "dataset/dataset_mixture.h"

#include "base/alloc.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/hash.h"
#include "dataset/dataset_query.h"
#include "format/format_dataset.h"

#include <inttypes.h>
#include <string.h>

static enum pst_status mixture_sample_name(const pst_dataset *dataset, uint64_t sample, char *name,
                                           struct pst_error *err)
{
    uint64_t own;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    size_t n = strlen(source->name) + 1;
    char rest[PST_NAME_CAP];
    enum pst_status status = pst_dataset_sample_name(source->dataset, own, rest, err);
    if (status != PST_OK)
        return status;
    if (n + strlen(rest) >= PST_NAME_CAP)
        return psti_fail(err, PST_ERROR_LIMIT, "dataset",
                         "the sample's name with that of its source is longer than %d bytes",
                         PST_NAME_CAP - 1);
    memcpy(name, source->name, n - 1);
    name[n - 1] = '/';
    memcpy(name + n, rest, strlen(rest) + 1);
    return PST_OK;
}

/* Returns the mixture's number of a source's file. */
static uint32_t file_number(const struct psti_mixture_source *source, uint32_t i_file)
{
    uint32_t n_shared = psti_dataset_n_shared_files(source->dataset);
    return n_shared > 0 ? source->first_shared + i_file : source->first_lone + i_file;
}

static enum pst_status mixture_item(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                    uint32_t variant, struct pst_item *item, struct pst_error *err)
{
    uint64_t own;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    const pst_dataset *asked = source->dataset;
    uint32_t i = source->fields[i_field];
    item->i_file = PST_FILE_NONE;
    if (variant >= asked->fields[i].n_variants)
        return PST_OK;
    enum pst_status status = pst_dataset_item(asked, own, i, variant, item, sizeof *item, err);
    if (status != PST_OK)
        return status;
    /* Other kinds may give a file to an item of unknown form. In a packed data set, such an item
     * does not exist. */
    if (item->form == PST_FORM_NONE && asked->kind == PSTI_DATASET_PACKED)
        item->i_file = PST_FILE_NONE;
    if (item->i_file == PST_FILE_NONE)
        return PST_OK;
    if (item->i_file >= asked->n_files)
        return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                         "the index refers to file %" PRIu32 ", but there are %" PRIu32,
                         item->i_file, asked->n_files);
    item->i_file = file_number(source, item->i_file);
    return PST_OK;
}

/* Replaces labels of the source by the mixture's numbers. */
static enum pst_status map_ints(const pst_dataset *dataset,
                                const struct psti_mixture_source *source, uint32_t i_field,
                                int64_t *values, uint64_t n, struct pst_error *err)
{
    const int64_t *map = source->labels[i_field];
    int64_t n_classes = source->dataset->fields[source->fields[i_field]].n_classes;
    for (uint64_t i = 0; map != NULL && i < n; i++) {
        if (values[i] < 0 || values[i] >= n_classes)
            return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                             "field \"%s\" has the label %" PRId64 ", outside of its %" PRId64
                             " classes",
                             dataset->fields[i_field].name, values[i], n_classes);
        values[i] = map[values[i]];
    }
    return PST_OK;
}

static enum pst_status mixture_int(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                   int64_t *value, struct pst_error *err)
{
    uint64_t own;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    enum pst_status status =
        pst_dataset_int(source->dataset, own, source->fields[i_field], value, err);
    return status == PST_OK ? map_ints(dataset, source, i_field, value, 1, err) : status;
}

static enum pst_status mixture_float(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                     double *value, struct pst_error *err)
{
    uint64_t own;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    return pst_dataset_float(source->dataset, own, source->fields[i_field], value, err);
}

/* Adds the mixture's sample number to a source's error, if it names a sample. */
static void number_error(const struct psti_mixture_source *source, struct pst_error *err)
{
    if (err == NULL)
        return;
    psti_error_set_dataset(err, source->dataset->path);
    if (err->sample < 0)
        return;
    err->source_sample_plus_1 = (uint64_t)err->sample + 1;
    err->sample += (int64_t)source->first_sample;
}

static enum pst_status mixture_values(const pst_dataset *dataset, uint32_t i_field, uint64_t first,
                                      uint64_t n, void *values, struct pst_error *err)
{
    int64_t *numbers = values; /* `values` may also be doubles, which have the same size */
    for (uint64_t done = 0; done < n;) {
        uint64_t own;
        const struct psti_mixture_source *source =
            psti_dataset_mixture_source_of(dataset, first + done, &own);
        uint64_t left = source->dataset->n_samples - own, part = n - done < left ? n - done : left;
        enum pst_status status = pst_dataset_column(source->dataset, source->fields[i_field], own,
                                                    part, numbers + done, err);
        if (status == PST_OK)
            status = map_ints(dataset, source, i_field, numbers + done, part, err);
        if (status != PST_OK) {
            number_error(source, err);
            return status;
        }
        done += part;
    }
    return PST_OK;
}

static const char *mixture_class_name(const pst_dataset *dataset, uint32_t i_field, int64_t label)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    char *const *classes = self->classes[i_field];
    if (classes != NULL)
        return label >= 0 && label < dataset->fields[i_field].n_classes ? classes[label] : NULL;
    return pst_dataset_class_name(self->sources->dataset, self->sources->fields[i_field], label);
}

static const uint32_t *mixture_pairs(const pst_dataset *dataset, uint32_t i_field)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    return pst_dataset_point_pairs(self->sources->dataset, self->sources->fields[i_field]);
}

static enum pst_status mixture_file_path(const pst_dataset *dataset, uint32_t i_file, char *buffer,
                                         size_t capacity, struct pst_error *err)
{
    uint32_t own;
    const pst_dataset *asked = psti_dataset_leaf_of_file(dataset, i_file, &own);
    return pst_dataset_file_path(asked, own, buffer, capacity, err);
}

static uint64_t mixture_file_place(const pst_dataset *dataset, uint32_t i_file)
{
    uint32_t own;
    const pst_dataset *asked = psti_dataset_leaf_of_file(dataset, i_file, &own);
    return psti_dataset_file_place(asked, own);
}

static uint64_t mixture_file_stamp(const pst_dataset *dataset, uint32_t i_file)
{
    uint32_t own;
    const pst_dataset *asked = psti_dataset_leaf_of_file(dataset, i_file, &own);
    return psti_dataset_file_stamp(asked, own);
}

static enum pst_status mixture_check_file(const pst_dataset *dataset, uint32_t i_file,
                                          struct pst_error *err)
{
    uint32_t own;
    if (i_file >= dataset->n_files)
        return psti_fail(err, PST_ERROR_ARGUMENT, "dataset", "there is no file %" PRIu32, i_file);
    const pst_dataset *asked = psti_dataset_leaf_of_file(dataset, i_file, &own);
    return psti_dataset_check_shard(asked, own, err);
}

static enum pst_status mixture_check_index(const pst_dataset *dataset, struct pst_error *err)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    enum pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < self->n_sources; i++)
        status = psti_dataset_check_index(self->sources[i].dataset, err);
    return status;
}

/* Lists the samples source by source, each source in its own order by path. */
static enum pst_status mixture_by_path(const pst_dataset *dataset, uint32_t **samples,
                                       struct pst_error *err)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    uint32_t *all = NULL;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        const struct psti_mixture_source *source = &self->sources[i];
        uint32_t *own = NULL;
        enum pst_status status = psti_dataset_by_path(source->dataset, &own, err);
        if (status == PST_OK && own != NULL && all == NULL) {
            if (dataset->n_samples > UINT32_MAX)
                status = psti_fail(err, PST_ERROR_LIMIT, "dataset",
                                   "a mixture with a folder of listed files has at most %" PRIu32
                                   " samples in this order",
                                   UINT32_MAX);
            else if ((all = psti_alloc_array((size_t)dataset->n_samples, sizeof *all)) == NULL)
                status = psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for an order");
            for (uint32_t k = 0; status == PST_OK && k < source->first_sample; k++)
                all[k] = k;
        }
        for (uint64_t k = 0; status == PST_OK && all != NULL && k < source->dataset->n_samples; k++)
            all[source->first_sample + k] =
                (uint32_t)(source->first_sample + (own != NULL ? own[k] : k));
        psti_free(own);
        if (status != PST_OK) {
            psti_free(all);
            return status;
        }
    }
    *samples = all;
    return PST_OK;
}

/* Replaces the labels in a whole item, which is in `buffer`, by the mixture's numbers. */
static enum pst_status map_labels(const pst_dataset *dataset,
                                  const struct psti_mixture_source *source, uint32_t i_field,
                                  void *buffer, uint64_t nbytes, struct pst_error *err)
{
    const struct pst_field *field = &dataset->fields[i_field];
    int64_t n = source->dataset->fields[source->fields[i_field]].n_classes;
    if (psti_format_map_labels(field, buffer, nbytes, source->labels[i_field], n))
        return PST_OK;
    return psti_fail(err, PST_ERROR_CORRUPT, "dataset",
                     "field \"%s\" has a label outside of its %" PRId64 " classes", field->name, n);
}

static enum pst_status mixture_read(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                    uint32_t variant, uint64_t start, uint64_t nbytes, void *buffer,
                                    struct pst_error *err)
{
    uint64_t own;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    const pst_dataset *asked = source->dataset;
    uint32_t i = source->fields[i_field];
    struct pst_item item;
    if (source->labels[i_field] == NULL)
        return pst_dataset_read(asked, own, i, variant, start, nbytes, buffer, err);
    enum pst_status status = pst_dataset_item(asked, own, i, variant, &item, sizeof item, err);
    if (status != PST_OK)
        return status;
    uint64_t whole = psti_dataset_item_nbytes(&item);
    if (start == 0 && nbytes == whole) {
        status = pst_dataset_read(asked, own, i, variant, 0, nbytes, buffer, err);
        return status == PST_OK ? map_labels(dataset, source, i_field, buffer, nbytes, err)
                                : status;
    }
    /* The range may begin within an element, so the whole item is read and the range is copied. */
    if (!psti_range_fits(start, nbytes, whole)) /* out of range: reading the source gives the
                                                 * error */
        return pst_dataset_read(asked, own, i, variant, start, nbytes, buffer, err);
    char *bytes = whole < SIZE_MAX ? psti_alloc((size_t)whole) : NULL;
    if (bytes == NULL)
        return psti_fail(err, PST_ERROR_MEMORY, "dataset", "no memory for %" PRIu64 " bytes",
                         whole);
    status = pst_dataset_read(asked, own, i, variant, 0, whole, bytes, err);
    if (status == PST_OK)
        status = map_labels(dataset, source, i_field, bytes, whole, err);
    if (status == PST_OK)
        memcpy(buffer, bytes + start, (size_t)nbytes);
    psti_free(bytes);
    return status;
}

static enum pst_status mixture_nbytes(const pst_dataset *dataset, uint64_t *nbytes,
                                      struct pst_error *err)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    *nbytes = 0;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        uint64_t own;
        enum pst_status status = pst_dataset_nbytes(self->sources[i].dataset, &own, err);
        if (status != PST_OK)
            return status;
        if (!psti_add_u64(*nbytes, own, nbytes))
            *nbytes = UINT64_MAX;
    }
    return PST_OK;
}

/* Computes the identity of the samples: numbers, order, names and values from the sources, names of
 * fields and classes from the mixture. */
static enum pst_status mixture_samples(const pst_dataset *dataset, uint8_t identity[16],
                                       struct pst_error *err)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    struct psti_hash_pair hash;
    uint8_t own[16];
    psti_format_samples_begin(&hash, dataset->n_samples);
    psti_hash_pair_update(&hash, "mixture", sizeof "mixture");
    for (uint32_t i = 0; i < self->n_sources; i++) {
        enum pst_status status =
            pst_dataset_identity(self->sources[i].dataset, PST_IDENTITY_SAMPLES, own, err);
        if (status != PST_OK)
            return status;
        psti_hash_pair_update(&hash, own, sizeof own);
    }
    for (uint32_t f = 0; f < dataset->n_fields; f++) {
        const struct pst_field *field = &dataset->fields[f];
        if (psti_format_has_items(field->type))
            continue;
        int64_t n_classes = pst_dataset_class_name(dataset, f, 0) != NULL ? field->n_classes : 0;
        psti_format_samples_field(&hash, field, n_classes);
        for (int64_t label = 0; label < n_classes; label++) {
            const char *name = pst_dataset_class_name(dataset, f, label);
            psti_hash_pair_update(&hash, name, strlen(name) + 1);
        }
        for (uint32_t i = 0; i < self->n_sources; i++) {
            const char *name = self->sources[i].dataset->fields[self->sources[i].fields[f]].name;
            psti_hash_pair_update(&hash, name, strlen(name) + 1);
        }
    }
    psti_hash_pair_end(&hash, identity);
    return PST_OK;
}

static void mixture_close(pst_dataset *dataset)
{
    struct psti_mixture *self = (struct psti_mixture *)(void *)dataset;
    for (uint32_t i = 0; i < self->n_sources; i++) {
        for (uint32_t f = 0; f < PST_MAX_FIELDS; f++)
            psti_free(self->sources[i].labels[f]);
        pst_dataset_close(&self->sources[i].dataset);
        psti_free(self->sources[i].name);
    }
    psti_free(self->sources);
    for (uint32_t f = 0; f < PST_MAX_FIELDS; f++) {
        for (int64_t k = 0; self->classes[f] != NULL && k < dataset->fields[f].n_classes; k++)
            psti_free(self->classes[f][k]);
        psti_free(self->classes[f]);
    }
}

const struct psti_dataset_ops psti_dataset_mixture_ops = {
    .close = mixture_close,
    .sample_name = mixture_sample_name,
    .item = mixture_item,
    .int_value = mixture_int,
    .float_value = mixture_float,
    .values = mixture_values,
    .class_name = mixture_class_name,
    .pairs = mixture_pairs,
    .file_path = mixture_file_path,
    .file_place = mixture_file_place,
    .file_stamp = mixture_file_stamp,
    .by_path = mixture_by_path,
    .check_file = mixture_check_file,
    .check_index = mixture_check_index,
    .read = mixture_read,
    .nbytes = mixture_nbytes,
    .samples = mixture_samples,
};

enum pst_status pst_dataset_source_of(const pst_dataset *dataset, uint64_t sample,
                                      uint32_t *i_source, uint64_t *own, struct pst_error *err)
{
    uint64_t found;
    if (dataset->kind != PSTI_DATASET_MIXTURE || sample >= dataset->n_samples) {
        psti_fail(err, PST_ERROR_ARGUMENT, "dataset",
                  dataset->kind == PSTI_DATASET_MIXTURE ? "there is no such sample"
                                                        : "the data set is no mixture");
        return psti_dataset_complete(dataset, sample <= INT64_MAX ? (int64_t)sample : -1,
                                     PST_ERROR_ARGUMENT, err);
    }
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &found);
    *i_source = (uint32_t)(source - self->sources);
    if (own != NULL)
        *own = found;
    return PST_OK;
}
