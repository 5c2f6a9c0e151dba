/* dataset_mixture.h - the state of a mixture: several data sets as one.
 *
 * Sources are packed data sets, folders and containers. A mixture within a mixture was replaced by
 * its own sources. Nothing changes after open. */
#ifndef PST_DATASET_DATASET_MIXTURE_H
#define PST_DATASET_DATASET_MIXTURE_H

#include "dataset/dataset_int.h"

#include <penstock/mixture.h>

/* One source. Its files that hold many items are numbered before all files that are single
 * items. */
struct psti_mixture_source {
    pst_dataset *dataset; /* the mixture is one of its owners */
    char *name;
    uint64_t first_sample;
    uint32_t first_shared, first_lone;
    uint32_t fields[PST_MAX_FIELDS]; /* the source's field number for each field of the mixture */
    /* For fields whose class numbers differ from the mixture's: the mixture's number of each label.
     * NULL: the numbers are the same. */
    int64_t *labels[PST_MAX_FIELDS];
};

struct psti_mixture {
    pst_dataset base;
    struct psti_mixture_source *sources; /* [n_sources] */
    uint32_t n_sources;
    uint32_t n_shared; /* number of files that hold many items, in all sources */
    bool is_packed;    /* all sources are packed */
    /* Class names of fields whose class tables were merged, [n_classes]. NULL: the first source has
     * the table. */
    char **classes[PST_MAX_FIELDS];
};

static inline const struct psti_mixture *psti_dataset_mixture_of(const pst_dataset *dataset)
{
    return (const struct psti_mixture *)(const void *)dataset;
}

/* Returns the field number in source i_source that corresponds to the mixture's field i_field. */
static inline uint32_t psti_dataset_mixture_field(const pst_dataset *dataset, uint32_t i_source,
                                                  uint32_t i_field)
{
    return psti_dataset_mixture_of(dataset)->sources[i_source].fields[i_field];
}

extern const struct psti_dataset_ops psti_dataset_mixture_ops;

/* Finds the source that holds a sample, and the sample's number in it (dataset_mixture_find.c). */
const struct psti_mixture_source *psti_dataset_mixture_source_of(const pst_dataset *dataset,
                                                                 uint64_t sample, uint64_t *own);

/* Decides which fields the mixture has, and finds them in the sources. names: names of each
 * source's fields after renames (dataset_mixture_fields.c). */
struct psti_mixture_names {
    uint32_t n;
    uint32_t fields[PST_MAX_FIELDS]; /* numbers of the fields in the source */
    char names[PST_MAX_FIELDS][sizeof(((struct pst_field *)0)->name)];
};
enum pst_status psti_dataset_mixture_join_fields(struct psti_mixture *self,
                                                 const struct psti_mixture_names *names,
                                                 const struct pst_mixture_options *options,
                                                 struct pst_error *err);
/* Merges the class tables of field i_field, whose type is the same in all sources. */
enum pst_status psti_dataset_mixture_join_classes(struct psti_mixture *self, uint32_t i_field,
                                                  struct pst_error *err);
/* Writes a source's number, name and path for messages, such as "1 (web, /data/web)", cut to fit.
 * Returns the buffer. */
enum { PSTI_MIXTURE_SOURCE_CAP = 160 };
const char *psti_dataset_mixture_call(const struct psti_mixture *self, uint32_t i_source,
                                      char text[PSTI_MIXTURE_SOURCE_CAP]);

#endif
