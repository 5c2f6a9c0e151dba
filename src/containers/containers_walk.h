/* containers_walk.h - walks over one container and gives its samples. */
#ifndef PST_CONTAINERS_CONTAINERS_WALK_H
#define PST_CONTAINERS_CONTAINERS_WALK_H

#include "containers/containers_group.h"

/* Walks over the file once and gives its samples to the taker, in the order of their first members.
 * All members are read before the first sample is given, so the taker gets no sample of a faulty
 * file.
 *
 * counts: what was in the file; set after success.
 *
 * PST_ERROR_CORRUPT: the file is no such container, or a sample has a suffix twice.
 * PST_ERROR_TRUNCATED: the file ends early; the message names the last whole member and the last
 *     complete sample.
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole, holds sparse files, or is of a kind
 *     that has no walk.
 * PST_ERROR_LIMIT: see containers_group.h and containers_tar.h.
 * Errors of the taker are returned as they are. */
enum pst_status psti_containers_walk(const struct psti_walk_source *source,
                                     enum psti_container_kind kind,
                                     const struct psti_sample_taker *taker,
                                     struct psti_walk_counts *counts, struct pst_error *err);

#endif
