/* dataset_classes.h - the names of classes as an index holds them: u64 [n_classes + 1] offsets, and
 * the names, each with its NUL (docs/format-dataset.md). */
#ifndef PST_DATASET_DATASET_CLASSES_H
#define PST_DATASET_DATASET_CLASSES_H

#include "dataset/dataset_blocks.h"

/* Where an index has the names of classes of a field. */
struct psti_dataset_classes {
    const char *field; /* its name, for messages */
    uint64_t n_classes;
    uint64_t offset, nbytes; /* in the index; nbytes 0: there are none */
};

/* Reads the names and checks them. They stay in memory, because printing a label needs them.
 * *classes: the caller's, who frees them by psti_free also after failure; NULL: there are none.
 *
 * PST_ERROR_LIMIT, PST_ERROR_MEMORY. Others, as of psti_dataset_blocks_read, and PST_ERROR_CORRUPT:
 * the offset in `err` is that in the index. */
enum pst_status psti_dataset_classes_read(struct psti_blocks *blocks,
                                          const struct psti_dataset_classes *place, char **classes,
                                          struct pst_error *err);
/* The name of a class, in `classes`, which have been checked. NULL: there is none, or `classes` is
 * NULL. */
const char *psti_dataset_classes_name(const char *classes, uint64_t n_classes, int64_t label);

#endif
