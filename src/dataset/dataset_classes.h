/* dataset_classes.h - class names as an index holds them: u64 [n_classes + 1] offsets, then the
 * names, each with its NUL (docs/format-dataset.md). */
#ifndef PST_DATASET_DATASET_CLASSES_H
#define PST_DATASET_DATASET_CLASSES_H

#include "dataset/dataset_blocks.h"

/* Where the class names of a field lie in an index. */
struct psti_dataset_classes {
    const char *field; /* the field's name, for messages */
    uint64_t n_classes;
    uint64_t offset, nbytes; /* location in the index; nbytes 0: there are no names */
};

/* Reads and checks all class names of a field. They stay in memory, because printing a label needs
 * them. *classes: freed by the caller with psti_free, after a failure too; NULL: there are none.
 *
 * PST_ERROR_LIMIT, PST_ERROR_MEMORY. PST_ERROR_CORRUPT and the errors of psti_dataset_blocks_read
 *     have an offset in the index. */
enum pst_status psti_dataset_classes_read(struct psti_blocks *blocks,
                                          const struct psti_dataset_classes *place, char **classes,
                                          struct pst_error *err);
/* Returns the name of a class. `classes` were checked. NULL: the label has no name, or `classes` is
 * NULL. */
const char *psti_dataset_classes_name(const char *classes, uint64_t n_classes, int64_t label);

#endif
