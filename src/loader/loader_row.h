/* loader_row.h - one row: its items, the places of their bytes, and the way into a row of a batch.
 *
 * Any worker calls these for rows of its own; none takes the loader's lock. */
#ifndef PST_LOADER_LOADER_ROW_H
#define PST_LOADER_LOADER_ROW_H

#include "augment/augment.h"
#include "loader/loader_source.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

struct psti_loader_worker;

/* A row is a sample and the key of its random parameters. `draw` comes from psti_order_draw. */
struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw);
/* Finds the items of the sample, of which the turn may choose the form. Acquires files; points to
 * items that are in memory. *nbytes: memory that the others need. After failure nothing is held. */
enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_source *sources,
                                       char *paths, size_t *nbytes, struct pst_error *err);
/* True if writing the located row only copies bytes. */
bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_source *sources);
/* Cuts buffers from `block` for the items that must be read. Fills `reads` and returns how many. */
uint32_t psti_loader_row_reads(pst_loader *loader, struct psti_loader_source *sources, void *block,
                               struct psti_read *reads);
/* The reads have completed. Points `sources` to their bytes, or returns the first one's error. */
enum pst_status psti_loader_row_take_reads(pst_loader *loader, uint64_t sample,
                                           struct psti_loader_source *sources,
                                           const struct psti_read *reads, struct pst_error *err);
void psti_loader_row_release(pst_loader *loader, struct psti_loader_source *sources);
/* Locates, reads and fills the row in this thread. If it fails with bytes of the fleet, it is made
 * again without those. */
enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key, uint64_t turn,
                                     struct pst_error *err);
/* Makes the row as psti_loader_row_make does, after the fleet's bytes could not be used: no item
 * comes from the fleet. A row that is good now is counted. */
enum pst_status psti_loader_row_make_without_fleet(struct psti_loader_worker *worker,
                                                   pst_batch *batch, uint32_t row,
                                                   const struct psti_draw_key *key, uint64_t turn,
                                                   struct pst_error *err);

#endif
