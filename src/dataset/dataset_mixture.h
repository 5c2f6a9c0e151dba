/* dataset_mixture.h - several data sets as one: what opening it makes and questions use.
 *
 * Sources are packed data sets, folders and containers: a mixture within a mixture was replaced by
 * its own sources. Nothing changes after open. */
#ifndef PST_DATASET_DATASET_MIXTURE_H
#define PST_DATASET_DATASET_MIXTURE_H

#include "dataset/dataset_int.h"

#include <penstock/mixture.h>

/* One source. Its files that hold many items are numbered before all files that are one item. */
struct psti_mixture_source {
    pst_dataset *dataset; /* the mixture is an owner */
    char *name;
    uint64_t first_sample;
    uint32_t first_shared, first_lone;
    uint32_t fields[PST_MAX_FIELDS]; /* the source's field for each of the mixture's */
    /* Of fields whose table of classes is another one here: the new number of each label. NULL: the
     * numbers are the same. */
    int64_t *labels[PST_MAX_FIELDS];
};

struct psti_mixture {
    pst_dataset base;
    struct psti_mixture_source *sources; /* [n_sources] */
    uint32_t n_sources;
    uint32_t n_shared; /* files that hold many items */
    bool is_packed;    /* all sources are */
    /* Names of the classes where tables were merged, [n_classes] of the field. NULL: the first
     * source has the table. */
    char **classes[PST_MAX_FIELDS];
};

static inline const struct psti_mixture *psti_dataset_mixture_of(const pst_dataset *dataset)
{
    return (const struct psti_mixture *)(const void *)dataset;
}

/* The field of source i_source that field i_field of the mixture is. */
static inline uint32_t psti_dataset_mixture_field(const pst_dataset *dataset, uint32_t i_source,
                                                  uint32_t i_field)
{
    return psti_dataset_mixture_of(dataset)->sources[i_source].fields[i_field];
}

extern const struct psti_dataset_ops psti_dataset_mixture_ops;

/* The source of a mixture that has the sample, and the sample's number there
 * (dataset_mixture_find.c). */
const struct psti_mixture_source *psti_dataset_mixture_source_of(const pst_dataset *dataset,
                                                                 uint64_t sample, uint64_t *own);

/* Decides which fields the mixture has, and finds them in the sources. names: of the fields of each
 * source, as they are after renames (dataset_mixture_fields.c). */
struct psti_mixture_names {
    uint32_t n;
    uint32_t fields[PST_MAX_FIELDS]; /* their numbers in the source */
    char names[PST_MAX_FIELDS][sizeof(((struct pst_field *)0)->name)];
};
enum pst_status psti_dataset_mixture_join_fields(struct psti_mixture *self,
                                                 const struct psti_mixture_names *names,
                                                 const struct pst_mixture_options *options,
                                                 struct pst_error *err);
/* Joins the tables of classes of field i_field, whose type is that of all sources. */
enum pst_status psti_dataset_mixture_join_classes(struct psti_mixture *self, uint32_t i_field,
                                                  struct pst_error *err);
/* Writes "1 (web, /data/web)" for messages, cut to fit. Returns the buffer. */
enum { PSTI_MIXTURE_SOURCE_CAP = 160 };
const char *psti_dataset_mixture_call(const struct psti_mixture *self, uint32_t i_source,
                                      char text[PSTI_MIXTURE_SOURCE_CAP]);

#endif
