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
/* Finds the items of the sample, of which the turn may choose the form: they are ASKED. Acquires
 * files; points to items that are in memory. items->block_nbytes: memory that the others need.
 * After failure nothing is held. */
enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_items *items,
                                       struct pst_error *err);
/* True if writing the located row only copies bytes. */
bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_items *items);
/* Cuts buffers from `block` for the items that must be read, and makes items->reads. */
void psti_loader_row_place(pst_loader *loader, struct psti_loader_items *items, void *block);
/* All that the row waits for has come. Takes it, and goes on to the next state in which the row
 * waits: items->reads are to be done then. False: the row is READY, or *status, which is PST_OK
 * before, is the error of the first read that failed. */
bool psti_loader_row_advance(pst_loader *loader, struct psti_loader_items *items,
                             enum pst_status *status, struct pst_error *err);
/* True if a row that was filled, with that status, failed, and bytes that came from the fleet may
 * be why: it is to be made without the fleet. */
bool psti_loader_row_is_suspect(const struct psti_loader_worker *worker,
                                const struct psti_loader_items *items, enum pst_status status);
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
