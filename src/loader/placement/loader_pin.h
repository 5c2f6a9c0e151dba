/* loader_pin.h - slots in page-locked memory, for batches in host memory that a GPU will copy.
 *
 * This is part of the placement in host memory, used only if options.pin_memory asks for it. */
#ifndef PST_LOADER_LOADER_PIN_H
#define PST_LOADER_LOADER_PIN_H

#include "batch/batch.h"

#include <penstock/penstock.h>

struct psti_loader_pins;

/* Called after the pool was opened and before its first slot. The pool closes the pins after its
 * last batch. */
enum pst_status psti_loader_pins_open(pst_loader *loader, struct psti_loader_pins **out,
                                      struct pst_error *err);
/* Clears the last refusal. Called before a slot is claimed. The lock is held. */
void psti_loader_pins_begin(struct psti_loader_pins *pins);
/* True if the last claim failed for lack of page-locked memory; err says why. The lock is held. */
bool psti_loader_pins_refused(const struct psti_loader_pins *pins,
                              const struct psti_batch_pool_stats *stats, struct pst_error *err);
/* Returns the number of slots in plain memory that should be page-locked. Any thread. */
uint64_t psti_loader_pins_n_plain(const struct psti_loader_pins *pins);

#endif
