/* dataset_container_parts.h - exchanges checksums between processes that each read a part of the
 * items.
 *
 * A rank sees only some samples. It writes the checksums it has collected to its own file beside
 * the index, and reads those of the others: docs/internals/saved-indexes.md. */
#ifndef PST_DATASET_DATASET_CONTAINER_PARTS_H
#define PST_DATASET_DATASET_CONTAINER_PARTS_H

#include "dataset/dataset_container.h"

struct psti_saved;
struct psti_sums_parts;

/* Begins an exchange for the index of `dataset`. `fields`: bit f is set if checksums of field f are
 * collected. The data set must outlive *out. PST_ERROR_MEMORY. */
enum pst_status psti_dataset_parts_open(const pst_dataset *dataset, uint64_t fields,
                                        struct psti_sums_parts **out, struct pst_error *err);
void psti_dataset_parts_close(struct psti_sums_parts **parts);

/* Writes the known checksums to a new file, unless the last file has them all and still exists.
 * Then removes the files whose checksums are in it. n: number of known checksums. place: where the
 * index lies.
 *
 * PST_ERROR_NO_SPACE, PST_ERROR_IO, PST_ERROR_NOT_FOUND: no file was written, and none removed. */
enum pst_status psti_dataset_parts_write(struct psti_sums_parts *parts, struct psti_saved *saved,
                                         unsigned place, const struct psti_container_known *known,
                                         uint64_t n, struct pst_error *err);
/* Adds the checksums in the files of other processes to the known ones, and their number to *n.
 * Reads the files only if together they may have all n_wanted checksums. Skips files that are
 * damaged, for another index, or of an owner who is not trusted.
 *
 * PST_ERROR_CHECKSUM: two processes have seen different bytes of an item. */
enum pst_status psti_dataset_parts_join(struct psti_sums_parts *parts, struct psti_saved *saved,
                                        unsigned place, struct psti_container_known *known,
                                        _Atomic uint64_t *n, uint64_t n_wanted,
                                        struct pst_error *err);
/* Removes the file of checksums that this process has written. */
void psti_dataset_parts_remove(struct psti_sums_parts *parts, struct psti_saved *saved,
                               unsigned place);

#endif
