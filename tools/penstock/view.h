/* view.h - shared by the files of the verb view. */
#ifndef PENSTOCK_VIEW_H
#define PENSTOCK_VIEW_H

#include "cli.h"
#include "view_draw.h"

enum { VIEW_OPS_MAX = 32, VIEW_TABLES_MAX = 4 };

/* The operations of one field, or of the sample. */
struct view_chain {
    char field[64]; /* "" for the sample */
    struct pst_op ops[VIEW_OPS_MAX];
    size_t n_ops;
    bool normalizes; /* Normalize ended the list; it is not in ops, because sheets show pixels */
    bool erases;     /* RandomErasing ended the list */
};
struct view_transforms {
    uint32_t n_chains;
    struct view_chain chains[PST_MAX_FIELDS];
    uint32_t n_tables;
    uint16_t labels[VIEW_TABLES_MAX][PST_MAX_LABELS]; /* of MapLabels */
};
/* Reads a file of operations (docs/cli.md, view_transforms.c). *out is for free(), NULL after
 * failure. */
enum pst_status view_transforms_read(const char *path, struct view_transforms **out,
                                     struct pst_error *err);
/* The same of a text with a NUL behind it, which is changed. `all` is zeroed. */
enum pst_status view_transforms_parse(char *text, size_t nbytes, struct view_transforms *all,
                                      struct pst_error *err);

/* What is to be seen of a sample: fields of the data set, -1 where there is none. */
struct view_fields {
    int image, mask, boxes, keypoints, box_labels, label;
};
struct view_choice {
    const char *image, *box_labels; /* as given, or NULL */
    uint64_t seed;
    bool shuffled;
};
/* Chooses fields and opens a loader of single samples for them. The caller closes *loader. */
enum pst_status view_load_open(pst_dataset *dataset, const struct view_choice *choice,
                               const struct view_transforms *transforms, struct view_fields *fields,
                               pst_loader **loader, struct pst_error *err);

/* One sample, as arrays in its batch. */
struct view_sample {
    uint64_t sample;
    int height, width;
    const uint8_t *rgb;    /* u8 (height,width,3) without padding; NULL: no image */
    const int32_t *labels; /* i32 (height,width); NULL: no mask */
    const float *boxes;    /* f32 (n_boxes,4) */
    const float *points;   /* f32 (n_points,3) */
    uint32_t n_boxes, n_points;
    struct pst_tensor box_labels; /* data NULL: there are none */
    bool box_labels_json;
    int64_t label; /* -1: none */
};
/* Finds the arrays of a batch of one sample. */
enum pst_status view_load_sample(const pst_dataset *dataset, const struct view_fields *fields,
                                 const pst_batch *batch, struct view_sample *sample,
                                 struct pst_error *err);

#endif
