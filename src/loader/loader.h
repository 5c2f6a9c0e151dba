/* loader.h - the inner door of the room, beside <penstock/loader.h>: a loader whose batches lie in
 * memory that its opener makes. */
#ifndef PST_LOADER_LOADER_H
#define PST_LOADER_LOADER_H

#include "base/gate.h"
#include "batch/batch.h"

#include <penstock/loader.h>

/* A shelf holds what loaders read and decode for each other, if they visit the same samples in the
 * same order (loader_shelf.h). These loaders are its members. Any thread. */
struct psti_shelf;
/* Counts of all members together since the shelf was opened. */
struct psti_shelf_counts {
    uint64_t n_decoded;           /* images and masks that members decoded */
    uint64_t n_decoded_shared;    /* that they took from another one's decode */
    uint64_t n_apart;             /* of n_decoded: another member needed other pixels of the item */
    uint64_t n_read, nbytes_read; /* items, and bytes, that members read */
    uint64_t n_read_shared, nbytes_read_shared; /* that they took from another one's read */
    uint64_t n_cached;                          /* items that they found in a cache */
    uint64_t n_given_up;  /* items that went although a member would have come to them */
    uint64_t nbytes_kept; /* now */
};
/* It takes at most a sixteenth of the memory that is free now, and 4 GiB. */
enum pst_status psti_loader_shelf_open(struct psti_shelf **out, struct pst_error *err);
struct psti_shelf *psti_loader_shelf_retain(struct psti_shelf *shelf);
/* Gives up a reference; its loaders have one each. *shelf may be NULL. */
void psti_loader_shelf_close(struct psti_shelf **shelf);
void psti_loader_shelf_limit(struct psti_shelf *shelf, uint64_t nbytes);
void psti_loader_shelf_counts(struct psti_shelf *shelf, struct psti_shelf_counts *counts);

struct psti_loader_slots {
    struct psti_slot_host host;
    size_t alignment;         /* of arrays */
    struct psti_gate *gate;   /* workers are inside while they fill rows; NULL: there is none */
    struct psti_shelf *shelf; /* the loader becomes its member; NULL: there is none */
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
