/* containers_walk.h - walks over one container and gives its samples. */
#ifndef PST_CONTAINERS_CONTAINERS_WALK_H
#define PST_CONTAINERS_CONTAINERS_WALK_H

#include "containers/containers_group.h"

/* Walks over the file once and gives its samples to the taker, in the order of their first members.
 * All members are known before the first sample is given, so that an error of the file means that
 * none is given.
 *
 * counts: what was in the file; set after success.
 *
 * PST_ERROR_CORRUPT: the file is no such container, or a sample has a suffix twice.
 * PST_ERROR_TRUNCATED: the file ends early; the text names the last whole member, and the last
 *     sample that is whole.
 * PST_ERROR_UNSUPPORTED: the file is compressed as a whole, holds sparse files, or is of a kind
 *     that has no walk.
 * PST_ERROR_LIMIT: see containers_group.h and containers_tar.h. And what the taker returns. */
enum pst_status psti_containers_walk(const struct psti_walk_source *source,
                                     enum psti_container_kind kind,
                                     const struct psti_sample_taker *taker,
                                     struct psti_walk_counts *counts, struct pst_error *err);

#endif
