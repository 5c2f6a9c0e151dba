/* dataset_classes.h - the names of classes as an index holds them: u64 [n_classes + 1] offsets, and
 * the names, each with its NUL (docs/format-dataset.md). */
#ifndef PST_DATASET_DATASET_CLASSES_H
#define PST_DATASET_DATASET_CLASSES_H

#include <stdint.h>

/* Most bytes that the names of one field take. */
#define PSTI_DATASET_CLASSES_LIMIT ((uint64_t)1 << 30)

/* Returns NULL or the problem with nbytes of class names. */
const char *psti_dataset_classes_problem(const char *classes, uint64_t n_classes, uint64_t nbytes);
/* The name of a class, in `classes`, which have been checked. NULL: there is none, or `classes` is
 * NULL. */
const char *psti_dataset_classes_name(const char *classes, uint64_t n_classes, int64_t label);

#endif
