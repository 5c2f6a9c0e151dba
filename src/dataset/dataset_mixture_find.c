/* dataset_mixture_find.c - finds the source of a mixture that holds a sample or a file. Called by
 * the files of src/dataset that handle all kinds of data sets; calls none of them. Any thread. */
#include "dataset/dataset_mixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t first_sample(const struct psti_mixture_source *source)
{
    return source->first_sample;
}

static uint64_t first_shared(const struct psti_mixture_source *source)
{
    return source->first_shared;
}

static uint64_t first_lone(const struct psti_mixture_source *source) { return source->first_lone; }

/* Returns the last source whose first number is not larger than `number`. A source without samples
 * (or files) has the same first number as the next one. */
static inline const struct psti_mixture_source *source_at(
    const struct psti_mixture *self, uint64_t (*first)(const struct psti_mixture_source *),
    uint64_t number)
{
    uint32_t low = 0, high = self->n_sources;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (first(&self->sources[middle]) <= number)
            low = middle;
        else
            high = middle;
    }
    return &self->sources[low];
}

const struct psti_mixture_source *psti_dataset_mixture_source_of(const pst_dataset *dataset,
                                                                 uint64_t sample, uint64_t *own)
{
    const struct psti_mixture_source *source =
        source_at(psti_dataset_mixture_of(dataset), first_sample, sample);
    *own = sample - source->first_sample;
    return source;
}

const pst_dataset *psti_dataset_leaf(const pst_dataset *dataset, uint64_t sample, uint64_t *own)
{
    *own = sample;
    if (dataset->kind != PSTI_DATASET_MIXTURE)
        return dataset;
    return psti_dataset_mixture_source_of(dataset, sample, own)->dataset;
}

const pst_dataset *psti_dataset_leaf_of_file(const pst_dataset *dataset, uint32_t i_file,
                                             uint32_t *own)
{
    const struct psti_mixture *self = psti_dataset_mixture_of(dataset);
    *own = i_file;
    if (dataset->kind != PSTI_DATASET_MIXTURE)
        return dataset;
    const struct psti_mixture_source *source;
    if (i_file < self->n_shared) {
        source = source_at(self, first_shared, i_file);
        *own = i_file - source->first_shared;
    } else {
        source = source_at(self, first_lone, i_file);
        *own = i_file - source->first_lone;
    }
    return source->dataset;
}

uint32_t psti_dataset_n_shared_files(const pst_dataset *dataset)
{
    if (dataset->kind == PSTI_DATASET_MIXTURE)
        return psti_dataset_mixture_of(dataset)->n_shared;
    return dataset->kind == PSTI_DATASET_FOLDER ? 0 : dataset->n_files;
}

const int64_t *psti_dataset_label_map(const pst_dataset *dataset, uint64_t sample, uint32_t i_field,
                                      int64_t *n)
{
    uint64_t own;
    if (dataset->kind != PSTI_DATASET_MIXTURE)
        return NULL;
    const struct psti_mixture_source *source =
        psti_dataset_mixture_source_of(dataset, sample, &own);
    *n = source->dataset->fields[source->fields[i_field]].n_classes;
    return source->labels[i_field];
}

bool psti_dataset_mixture_is_packed(const pst_dataset *dataset)
{
    return psti_dataset_mixture_of(dataset)->is_packed;
}

uint32_t pst_dataset_n_sources(const pst_dataset *dataset)
{
    return dataset->kind == PSTI_DATASET_MIXTURE ? psti_dataset_mixture_of(dataset)->n_sources : 0;
}

const pst_dataset *pst_dataset_source(const pst_dataset *dataset, uint32_t i_source)
{
    return i_source < pst_dataset_n_sources(dataset)
               ? psti_dataset_mixture_of(dataset)->sources[i_source].dataset
               : NULL;
}

const char *pst_dataset_source_name(const pst_dataset *dataset, uint32_t i_source)
{
    return i_source < pst_dataset_n_sources(dataset)
               ? psti_dataset_mixture_of(dataset)->sources[i_source].name
               : NULL;
}

uint64_t pst_dataset_source_first(const pst_dataset *dataset, uint32_t i_source)
{
    return i_source < pst_dataset_n_sources(dataset)
               ? psti_dataset_mixture_of(dataset)->sources[i_source].first_sample
               : dataset->n_samples;
}

uint32_t psti_dataset_source_field(const pst_dataset *dataset, uint32_t i_source, uint32_t i_field)
{
    return psti_dataset_mixture_field(dataset, i_source, i_field);
}

const char *psti_dataset_mixture_call(const struct psti_mixture *self, uint32_t i_source,
                                      char text[PSTI_MIXTURE_SOURCE_CAP])
{
    const struct psti_mixture_source *source = &self->sources[i_source];
    const char *path = source->dataset->path;
    size_t n = strlen(path), most = 80;
    snprintf(text, PSTI_MIXTURE_SOURCE_CAP, "source %" PRIu32 " (%.40s: %s%.80s)", i_source,
             source->name, n > most ? "..." : "", n > most ? path + n - most : path);
    return text;
}
