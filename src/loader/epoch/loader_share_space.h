/* loader_share_space.h - slots whose arrays may be those of shared batches.
 *
 * A slot has the memory of any slot, which takes no page before it is written. A shared batch shows
 * the arrays of extents instead, where they are mapped (share/share_view.h), and copies the rest.
 */
#ifndef PST_LOADER_LOADER_SHARE_SPACE_H
#define PST_LOADER_LOADER_SHARE_SPACE_H

#include "batch/batch.h"
#include "share/share.h"

struct psti_loader_spaces;

/* Bytes of a row of the field's array; 0: it has none, or rows may differ. */
size_t psti_loader_space_row_nbytes(const struct psti_slot_field *field);

/* Gives the pool such slots. */
enum pst_status psti_loader_spaces_open(struct psti_pool *pool,
                                        const struct psti_slot_field *fields, uint32_t n_fields,
                                        uint32_t extent_rows, size_t page,
                                        struct psti_loader_spaces **out, struct pst_error *err);
/* True if the field's rows make whole pages, so that its arrays are mapped. */
bool psti_loader_space_is_mapped(const struct psti_loader_spaces *spaces, uint32_t i_field);

/* The rows of n_rows positions from `first` on, in held extents. */
struct psti_loader_space_source {
    struct psti_staging *staging;
    const struct psti_stream_ready *ready;
    uint64_t first;
    uint32_t n_rows;
};
/* Lets the batch have the fields' arrays where they are mapped; it then holds the extents until it
 * is released or dropped. False: there is nothing to map, or it cannot be; the batch holds nothing
 * then. */
bool psti_loader_space_map(const struct psti_loader_spaces *spaces, pst_batch *batch,
                           const struct psti_loader_space_source *source);
/* Gives the extents back, if it holds any. */
void psti_loader_space_drop(pst_batch *batch);

#endif
