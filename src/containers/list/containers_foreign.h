/* containers_foreign.h - compares another program's index of a tar with the samples that a walk
 * found.
 *
 * Two indexes are known: Energon's ("a.tar.idx": offsets of the samples' first headers and the end
 * of the last sample, u64 little-endian) and that of DALI's wds2idx (text: "v1.2 SAMPLES", then a
 * line for each sample, of groups "suffix offset size name"; v1.1 has no names). The first bytes
 * tell them apart. Energon's index.sqlite is not read: it needs another library and says the same.
 *
 * The walk is what counts. If the index differs, a notice says so: the tar was changed after the
 * index was made, or the other program groups members in another way. Any thread. */
#ifndef PST_CONTAINERS_CONTAINERS_FOREIGN_H
#define PST_CONTAINERS_CONTAINERS_FOREIGN_H

#include <penstock/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True if the index at `path` fits n samples whose first headers begin at these rising offsets.
 *
 * notice: if the index does not fit or cannot be read, receives the reason with the file's name.
 * May be NULL. The caller should only report it, not stop. */
bool psti_containers_foreign_check(const char *path, const uint64_t *offsets, uint64_t n,
                                   struct pst_error *notice);
/* Compares the bytes of an index in memory as psti_containers_foreign_check does. path: for
 * messages. */
bool psti_containers_foreign_fits(const char *path, const void *bytes, size_t nbytes,
                                  const uint64_t *offsets, uint64_t n, struct pst_error *notice);

#endif
