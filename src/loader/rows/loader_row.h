/* loader_row.h - one row: finds its items, places their bytes in memory, and makes the row of a
 * batch.
 *
 * Any worker calls these for its own rows; no function takes the loader's lock. */
#ifndef PST_LOADER_LOADER_ROW_H
#define PST_LOADER_LOADER_ROW_H

#include "augment/augment.h"
#include "loader/loader_source.h"
#include "storage/storage.h"

#include <penstock/penstock.h>

struct psti_loader_worker;

/* Returns the key of a row's random parameters. `draw` comes from psti_order_draw. */
struct psti_draw_key psti_loader_row_key(const pst_loader *loader, uint64_t epoch, uint64_t sample,
                                         uint64_t draw);
/* Finds the items of the sample; the row's state is ASKED then. turn: number of the row among the
 * rank's rows, which may choose the form. Opens files, and points to items that are in memory.
 * items->block_nbytes: bytes of memory that the other items need. After failure nothing is held. */
enum pst_status psti_loader_row_locate(pst_loader *loader, const struct psti_draw_key *key,
                                       uint64_t turn, struct psti_loader_items *items,
                                       struct pst_error *err);
/* True if writing the located row only copies bytes. */
bool psti_loader_row_copies(const pst_loader *loader, const struct psti_loader_items *items);
/* Divides `block` into buffers for the items that must be read, and makes items->reads. */
void psti_loader_row_place(pst_loader *loader, struct psti_loader_items *items, void *block);
/* Called when everything that the row waits for has arrived. Takes it, and goes on to the next
 * state in which the row waits. True: items->reads are to be done now. False: the row is READY, or
 * *status, which must be PST_OK before, is the error of the first read that failed. */
bool psti_loader_row_advance(pst_loader *loader, struct psti_loader_items *items,
                             enum pst_status *status, struct pst_error *err);
/* True if filling the row failed with `status`, and bytes from the fleet may be the cause. The row
 * should then be made without the fleet. */
bool psti_loader_row_is_suspect(const struct psti_loader_worker *worker,
                                const struct psti_loader_items *items, enum pst_status status);
/* Locates, reads and fills the row in this thread. If that fails with bytes of the fleet, makes the
 * row again without them. */
enum pst_status psti_loader_row_make(struct psti_loader_worker *worker, pst_batch *batch,
                                     uint32_t row, const struct psti_draw_key *key, uint64_t turn,
                                     struct pst_error *err);
/* Makes the row like psti_loader_row_make, but takes no item from the fleet, because the fleet's
 * bytes failed before. If the row is good now, that is counted. */
enum pst_status psti_loader_row_make_without_fleet(struct psti_loader_worker *worker,
                                                   pst_batch *batch, uint32_t row,
                                                   const struct psti_draw_key *key, uint64_t turn,
                                                   struct pst_error *err);

#endif
