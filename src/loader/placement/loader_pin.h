/* loader_pin.h - slots in page-locked memory, for batches in host memory that a card will copy.
 *
 * Part of the placement in host memory, used only where options.pin_memory asks for it. */
#ifndef PST_LOADER_LOADER_PIN_H
#define PST_LOADER_LOADER_PIN_H

#include "batch/batch.h"

#include <penstock/penstock.h>

struct psti_loader_pins;

/* After the pool was opened, before its first slot. The pool closes the pins, with its last batch.
 */
enum pst_status psti_loader_pins_open(pst_loader *loader, struct psti_loader_pins **out,
                                      struct pst_error *err);
/* Before a slot is claimed: the last refusal is forgotten. The lock is held. */
void psti_loader_pins_begin(struct psti_loader_pins *pins);
/* Why the last claim failed, if that was for page-locked memory. The lock is held. */
bool psti_loader_pins_refused(const struct psti_loader_pins *pins,
                              const struct psti_batch_pool_stats *stats, struct pst_error *err);
/* Slots that were to be page-locked and lie in plain memory. Any thread. */
uint64_t psti_loader_pins_n_plain(const struct psti_loader_pins *pins);

#endif
