/* containers_foreign.h - compares an index that others made of a tar with the samples of a walk.
 *
 * Known are the index of Energon ("a.tar.idx": offsets of the samples' first headers and the end of
 * the last one, u64 little-endian) and that of DALI's wds2idx (text: "v1.2 SAMPLES", then a line
 * for each sample, of groups "suffix offset size name"; v1.1 has no names). The first bytes tell
 * which it is. Energon's index.sqlite is not read: that would need another library, and says the
 * same.
 *
 * The walk is the truth. An index that differs is worth a notice: the tar was changed after the
 * index was made, or other programs group its members in another way. Any thread. */
#ifndef PST_CONTAINERS_CONTAINERS_FOREIGN_H
#define PST_CONTAINERS_CONTAINERS_FOREIGN_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the index at `path` fit n samples, whose first headers begin at these offsets? They rise.
 *
 * notice: where it does not, or cannot be read, says why; it names the file. May be NULL. It is
 * never a reason to stop. */
bool psti_containers_foreign_check(const char *path, const uint64_t *offsets, uint64_t n,
                                   struct pst_error *notice);
/* The same for the bytes of an index. path: for messages. */
bool psti_containers_foreign_fits(const char *path, const void *bytes, size_t nbytes,
                                  const uint64_t *offsets, uint64_t n, struct pst_error *notice);

#endif
