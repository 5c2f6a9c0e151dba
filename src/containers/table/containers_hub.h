/* containers_hub.h - what the library `datasets` of Hugging Face says of columns, and what the
 * first bytes of a value say.
 *
 * Its features are JSON: in the metadata of the schema of an Arrow or Parquet file under the key
 * "huggingface", as {"info": {"features": {...}}}, and in dataset_info.json, as {"features":
 * {...}}. Both spellings of lists are read, that of its versions before 4 and that since then.
 * Nothing of Python is ever run.
 *
 * One thread opens features; any may read them. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_HUB_H
#define PST_CONTAINERS_TABLE_CONTAINERS_HUB_H

#include <penstock/dataset.h>

#include <stddef.h>
#include <stdint.h>

enum psti_hub_kind {
    PSTI_HUB_OTHER = 0, /* maps of features, Translation, Video, Pdf, and what is not known */
    PSTI_HUB_VALUE = 1,
    PSTI_HUB_IMAGE = 2,
    PSTI_HUB_AUDIO = 3,
    PSTI_HUB_CLASS_LABEL = 4,
    PSTI_HUB_SEQUENCE = 5, /* Sequence, List, LargeList, and [feature] */
    PSTI_HUB_ARRAY = 6,    /* Array2D to Array5D */
};

/* A feature. Texts are those of its struct psti_hub_features. */
struct psti_hub_feature {
    enum psti_hub_kind kind;
    /* VALUE, ARRAY: type of the value or the elements, as `datasets` spells it: "string", "int64",
     * "float32"; "json" stands for its Json. "" else. */
    const char *dtype;
    int64_t n_classes; /* CLASS_LABEL */
    /* CLASS_LABEL: n_classes texts in UTF-8, each with its NUL. NULL: they are not stated, or one
     * of them cannot name a class. */
    const char *class_names;
    size_t class_names_nbytes;
    const struct psti_hub_feature *inner; /* SEQUENCE: of the elements; else NULL */
    /* ARRAY: the shape, in which a first dimension of 0 may have any length. SEQUENCE of a fixed
     * length: ndim is 1. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
};

struct psti_hub_features;

/* Reads features. `path` is for messages, during the call only.
 *
 * PST_ERROR_CORRUPT: it is not JSON, or not what `datasets` writes. */
enum pst_status psti_containers_hub_open(const char *json, size_t nbytes, const char *path,
                                         struct psti_hub_features **out, struct pst_error *err);
/* *features becomes NULL. NULL is fine. */
void psti_containers_hub_close(struct psti_hub_features **features);
/* Finds the feature of a column of the table. NULL: there is none, or `features` is NULL. */
const struct psti_hub_feature *psti_containers_hub_find(const struct psti_hub_features *features,
                                                        const char *column);

#endif
