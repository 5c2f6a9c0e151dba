/* containers_hub.h - reads the features of columns that the library `datasets` of Hugging Face
 * writes.
 *
 * Features are JSON. In the schema metadata of an Arrow or Parquet file they are under the key
 * "huggingface", as {"info": {"features": {...}}}; in dataset_info.json, as {"features": {...}}.
 * Lists are read in both spellings, before and since version 4 of `datasets`. Nothing of Python is
 * ever run.
 *
 * One thread opens features; any thread may read them. */
#ifndef PST_CONTAINERS_TABLE_CONTAINERS_HUB_H
#define PST_CONTAINERS_TABLE_CONTAINERS_HUB_H

#include <penstock/dataset.h>

#include <stddef.h>
#include <stdint.h>

enum psti_hub_kind {
    PSTI_HUB_OTHER = 0, /* maps of features, Translation, Video, Pdf, and unknown types */
    PSTI_HUB_VALUE = 1,
    PSTI_HUB_IMAGE = 2,
    PSTI_HUB_AUDIO = 3,
    PSTI_HUB_CLASS_LABEL = 4,
    PSTI_HUB_SEQUENCE = 5, /* Sequence, List, LargeList, and [feature] */
    PSTI_HUB_ARRAY = 6,    /* Array2D, Array3D, Array4D, Array5D */
};

/* A feature. Its texts belong to the struct psti_hub_features. */
struct psti_hub_feature {
    enum psti_hub_kind kind;
    /* VALUE, ARRAY: type of the value or the elements, as `datasets` spells it: "string", "int64",
     * "float32"; "json" for its type Json. For other features "". */
    const char *dtype;
    int64_t n_classes; /* CLASS_LABEL */
    /* CLASS_LABEL: n_classes names in UTF-8, each with its NUL. NULL: they are not stated, or one
     * of them is not valid. */
    const char *class_names;
    size_t class_names_nbytes;
    const struct psti_hub_feature *inner; /* SEQUENCE: feature of the elements; else NULL */
    /* ARRAY: the shape; shape[0] is 0 if it may have any length. SEQUENCE of a fixed length: ndim
     * is 1. */
    uint8_t ndim;
    uint32_t shape[PST_MAX_NDIM];
};

struct psti_hub_features;

/* Parses features. `path` is for messages, and used during the call only.
 *
 * PST_ERROR_CORRUPT: the text is no JSON, or not what `datasets` writes. */
enum pst_status psti_containers_hub_open(const char *json, size_t nbytes, const char *path,
                                         struct psti_hub_features **out, struct pst_error *err);
/* Frees the features and sets *features to NULL, which it may be already. */
void psti_containers_hub_close(struct psti_hub_features **features);
/* Finds the feature of a column. Returns NULL if there is none, or if `features` is NULL. */
const struct psti_hub_feature *psti_containers_hub_find(const struct psti_hub_features *features,
                                                        const char *column);

#endif
