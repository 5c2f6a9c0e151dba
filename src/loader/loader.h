/* loader.h - what other rooms use of this one, besides <penstock/loader.h>: loaders whose batches
 * lie in memory that the opener provides, and shelves. */
#ifndef PST_LOADER_LOADER_H
#define PST_LOADER_LOADER_H

#include "base/gate.h"
#include "batch/batch.h"

#include <penstock/loader.h>

/* A shelf holds what loaders read and decode for each other, if they visit the same samples in the
 * same order (loader_shelf.h). These loaders are its members. Any thread. */
struct psti_shelf;
/* Counts of all members of a shelf together, since it was opened. */
struct psti_shelf_counts {
    uint64_t n_decoded;           /* number of images and masks that members decoded */
    uint64_t n_decoded_shared;    /* number of values that members took from another member's
                                     decode */
    uint64_t n_apart;             /* part of n_decoded: decoded again because another member
                                     needed other pixels of the item */
    uint64_t n_read, nbytes_read; /* items that members read, and their bytes */
    uint64_t n_read_shared, nbytes_read_shared; /* items that members took from another member's
                                                   read */
    uint64_t n_cached;                          /* number of items that members found in a cache */
    uint64_t n_given_up;  /* number of items dropped although a member would still have needed
                             them */
    uint64_t nbytes_kept; /* bytes held now */
};
/* Opens a shelf. It takes at most a sixteenth of the memory that is free now, and at most 4 GiB. */
enum pst_status psti_loader_shelf_open(struct psti_shelf **out, struct pst_error *err);
struct psti_shelf *psti_loader_shelf_retain(struct psti_shelf *shelf);
/* Gives up a reference; each member loader has its own. *shelf may be NULL. */
void psti_loader_shelf_close(struct psti_shelf **shelf);
void psti_loader_shelf_limit(struct psti_shelf *shelf, uint64_t nbytes);
void psti_loader_shelf_counts(struct psti_shelf *shelf, struct psti_shelf_counts *counts);

struct psti_loader_slots {
    struct psti_slot_host host;
    size_t alignment;         /* alignment of the arrays, in bytes */
    struct psti_gate *gate;   /* workers enter it while they fill rows, which limits how many do;
                                 NULL: no limit */
    struct psti_shelf *shelf; /* the loader becomes its member; NULL: there is none */
};
/* Opens a loader like pst_loader_open, but its slots come from the caller. For batches in host
 * memory without pin_memory. */
enum pst_status psti_loader_open_in(pst_dataset *dataset, const struct pst_loader_options *options,
                                    const struct psti_loader_slots *slots, pst_loader **out,
                                    struct pst_error *err);
/* Returns the number of fields of the loader's batches. *fields lives as long as the loader. */
uint32_t psti_loader_slot_fields(const pst_loader *loader, const struct psti_slot_field **fields);
/* Gives the offset of a field's array in a slot, and the bytes of one of its rows. False: the field
 * has no array, or its rows may differ. */
bool psti_loader_slot_place(const pst_loader *loader, uint32_t i_field, size_t *offset,
                            size_t *row_nbytes);

#endif
