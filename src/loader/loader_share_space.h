/* loader_share_space.h - slots in whose address space arrays of shared batches are mapped.
 *
 * A slot has the memory of any slot, which takes no page before it is written, and behind it an
 * area for each field that can be mapped. An area holds pages of extents while a batch uses them.
 */
#ifndef PST_LOADER_LOADER_SHARE_SPACE_H
#define PST_LOADER_LOADER_SHARE_SPACE_H

#include "batch/batch.h"
#include "share/share.h"

struct psti_loader_spaces;

/* Bytes of a row of the field's array; 0: it has none, or rows may differ. */
size_t psti_loader_space_row_nbytes(const struct psti_slot_field *field);

/* Gives the pool slots with areas. The pool closes the spaces with its last batch. */
enum pst_status psti_loader_spaces_open(struct psti_pool *pool,
                                        const struct psti_slot_field *fields, uint32_t n_fields,
                                        uint32_t batch_size, uint32_t extent_rows, size_t page,
                                        struct psti_loader_spaces **out, struct pst_error *err);
/* True if the field's rows make whole pages, so that its arrays are mapped. */
bool psti_loader_space_is_mapped(const struct psti_loader_spaces *spaces, uint32_t i_field);

/* The rows of n_rows positions from `first` on, in held extents. */
struct psti_loader_space_source {
    struct psti_staging *staging;
    const struct psti_stream_layout *layout;
    const struct psti_stream_ready *ready;
    uint64_t first;
    uint32_t n_rows;
};
/* Maps the fields' arrays into the batch, which then holds the extents until it is released or
 * dropped. False: there is nothing to map, or it cannot be; the batch holds nothing then. */
bool psti_loader_space_map(const struct psti_loader_spaces *spaces, pst_batch *batch,
                           const struct psti_loader_space_source *source);
/* Empties the areas and gives the extents back, if it holds any. */
void psti_loader_space_drop(pst_batch *batch);

#endif
