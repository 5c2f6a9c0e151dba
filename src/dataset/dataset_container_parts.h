/* dataset_container_parts.h - sums that several processes note, each of the items that it reads.
 *
 * A rank sees a part of the samples. It writes the sums that it noted to a file of its own beside
 * the index, and takes those of the others from theirs: docs/internals/saved-indexes.md. */
#ifndef PST_DATASET_DATASET_CONTAINER_PARTS_H
#define PST_DATASET_DATASET_CONTAINER_PARTS_H

#include "dataset/dataset_container.h"

struct psti_saved;
struct psti_sums_parts;

/* The parts of the sums of one index: the one of the data set. `fields`: bit f is set if sums of
 * field f are noted. The data set must outlive *out. PST_ERROR_MEMORY. */
enum pst_status psti_dataset_parts_open(const pst_dataset *dataset, uint64_t fields,
                                        struct psti_sums_parts **out, struct pst_error *err);
void psti_dataset_parts_close(struct psti_sums_parts **parts);

/* Writes the known sums to a new file, if there are more than in the last one, or if that is gone.
 * Then removes the files whose sums are in it. n: how many are known. place: where the index lies.
 *
 * PST_ERROR_NO_SPACE, PST_ERROR_IO, PST_ERROR_NOT_FOUND: no file was written, and none removed. */
enum pst_status psti_dataset_parts_write(struct psti_sums_parts *parts, struct psti_saved *saved,
                                         unsigned place, const struct psti_container_known *known,
                                         uint64_t n, struct pst_error *err);
/* Adds the sums of the others' files to the known ones, and their number to *n, if these may be the
 * n_wanted that are needed. Files that do not belong to this index, are damaged, or whose owner
 * does not count, are passed over.
 *
 * PST_ERROR_CHECKSUM: two processes have seen different bytes of an item. */
enum pst_status psti_dataset_parts_join(struct psti_sums_parts *parts, struct psti_saved *saved,
                                        unsigned place, struct psti_container_known *known,
                                        _Atomic uint64_t *n, uint64_t n_wanted,
                                        struct pst_error *err);
/* Removes this process's file. */
void psti_dataset_parts_remove(struct psti_sums_parts *parts, struct psti_saved *saved,
                               unsigned place);

#endif
