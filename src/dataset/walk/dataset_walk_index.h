/* dataset_walk_index.h - writes an index of all files, by walks over them or by records of walks.
 */
#ifndef PST_DATASET_WALK_DATASET_WALK_INDEX_H
#define PST_DATASET_WALK_DATASET_WALK_INDEX_H

#include "dataset/walk/dataset_walk.h"

/* Writes the temporary file of making->saved, whose maker this process is. It is not yet the index.
 *
 * PST_ERROR_INCOMPLETE: making->merges, and some file has no record. PST_ERROR_STATE: a file
 * changed since its record was made, or while it was walked over. */
enum pst_status psti_dataset_walk_index(struct psti_making *making, struct pst_error *err);

#endif
