/* loader.h - the inner door of the room, beside <penstock/loader.h>: a loader whose batches lie in
 * memory that its opener makes. */
#ifndef PST_LOADER_LOADER_H
#define PST_LOADER_LOADER_H

#include "base/gate.h"
#include "batch/batch.h"

#include <penstock/loader.h>

struct psti_loader_slots {
    struct psti_slot_host host;
    size_t alignment;       /* of arrays */
    struct psti_gate *gate; /* workers are inside while they fill rows; NULL: there is none */
};
/* pst_loader_open with slots of its own, for batches in host memory without pin_memory. */
enum pst_status psti_loader_open_in(pst_dataset *dataset, const struct pst_loader_options *options,
                                    const struct psti_loader_slots *slots, pst_loader **out,
                                    struct pst_error *err);
/* The fields of its batches. Returns how many. They live as long as the loader. */
uint32_t psti_loader_slot_fields(const pst_loader *loader, const struct psti_slot_field **fields);
/* Offset in a slot of a field's array, and bytes of one of its rows. False: it has none, or its
 * rows may differ. */
bool psti_loader_slot_place(const pst_loader *loader, uint32_t i_field, size_t *offset,
                            size_t *row_nbytes);

#endif
