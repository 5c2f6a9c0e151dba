/* dataset_walk_index.h - writes an index of all files, from walks over them or from records of
 * walks. */
#ifndef PST_DATASET_WALK_DATASET_WALK_INDEX_H
#define PST_DATASET_WALK_DATASET_WALK_INDEX_H

#include "dataset/walk/dataset_walk.h"

/* Writes the temporary file of making->saved; this process must be the maker. The caller publishes
 * it.
 *
 * PST_ERROR_INCOMPLETE: with making->merges, some file has no record. PST_ERROR_STATE: a file
 *     changed after its record was made, or during its walk. */
enum pst_status psti_dataset_walk_index(struct psti_making *making, struct pst_error *err);

#endif
