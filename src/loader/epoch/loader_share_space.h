/* loader_share_space.h - slots that can show the arrays of shared batches.
 *
 * Each slot has memory of its own like any other slot, but pages that are never written take no
 * memory. A shared batch instead shows the arrays in the extents in place (share/share_view.h).
 * Other values are copied. */
#ifndef PST_LOADER_LOADER_SHARE_SPACE_H
#define PST_LOADER_LOADER_SHARE_SPACE_H

#include "batch/batch.h"
#include "share/share.h"

struct psti_loader_spaces;

/* Returns the bytes of a row of the field's array; 0: the field has no array, or rows may
 * differ. */
size_t psti_loader_space_row_nbytes(const struct psti_slot_field *field);

/* Makes the pool use slots that can show extents. */
enum pst_status psti_loader_spaces_open(struct psti_pool *pool,
                                        const struct psti_slot_field *fields, uint32_t n_fields,
                                        uint32_t extent_rows, size_t page,
                                        struct psti_loader_spaces **out, struct pst_error *err);
/* True if the field's rows fill whole pages, so that its array can be mapped. */
bool psti_loader_space_is_mapped(const struct psti_loader_spaces *spaces, uint32_t i_field);

/* Where the rows of a batch lie: n_rows positions from `first` on, in extents that are held. */
struct psti_loader_space_source {
    struct psti_staging *staging;
    const struct psti_stream_ready *ready;
    uint64_t first;
    uint32_t n_rows;
};
/* Makes the batch show its fields' arrays in the extents. It holds the extents until it is released
 * or dropped. False: no field can be mapped, or mapping failed, and the batch holds no extents. */
bool psti_loader_space_map(const struct psti_loader_spaces *spaces, pst_batch *batch,
                           const struct psti_loader_space_source *source);
/* Gives back the extents that the batch holds, if any. */
void psti_loader_space_drop(pst_batch *batch);

#endif
