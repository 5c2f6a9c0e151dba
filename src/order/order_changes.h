/* order_changes.h - the schedules of a mixture whose weights change, and which of them is in force
 * at a position. */
#ifndef PST_ORDER_ORDER_CHANGES_H
#define PST_ORDER_ORDER_CHANGES_H

#include "order/order_mix.h"

/* An era: the time from one change of weights to the next, with one schedule. Slots are counted
 * from the era's first position; in later epochs of the era from position 0. */
struct psti_order_era {
    uint64_t epoch, position;
    struct psti_order_schedule schedule;
    double *weights;     /* f64 (n_sources), as given; NULL: the weights given at open */
    uint64_t *n_befores; /* u64 (n_sources): how often each source was drawn in the era's first
                          * epoch before the era began */
};

struct psti_order_eras {
    struct psti_order_era *eras; /* sorted by position; the first era begins at (0, 0), with the
                                  * weights given at open */
    uint32_t n;
};

/* Makes a list with one era, which has `weights` from the beginning on. The caller closes `eras`
 * even after an error. */
enum pst_status psti_order_eras_open(const double *weights, uint32_t n_sources,
                                     struct psti_order_eras *eras, struct pst_error *err);
void psti_order_eras_close(struct psti_order_eras *eras);
/* Makes *wanted: the eras for all changes, as psti_order_set_changes describes. counts: u64
 * (n_sources), samples of each source. block: positions of a block; n_positions: positions of an
 * epoch. The first *n_kept eras are shared by `eras` and *wanted, so the caller must call
 * psti_order_eras_end on one of the two lists. After an error *wanted is not set. */
enum pst_status psti_order_eras_make(const struct psti_order_eras *eras, const uint64_t *counts,
                                     uint64_t block, uint64_t n_positions, const uint64_t *places,
                                     const double *weights, uint32_t n,
                                     struct psti_order_eras *wanted, uint32_t *n_kept,
                                     struct pst_error *err);
/* Frees a list and its eras, except the first n_kept, which another list uses too. */
void psti_order_eras_end(struct psti_order_eras *eras, uint32_t n_kept);
/* Returns the source that a slot belongs to. `block_first` is the first position of the slot's
 * block; the schedule in force there decides for the whole block. */
struct psti_order_drawn psti_order_eras_at(const struct psti_order_eras *eras, uint64_t epoch,
                                           uint64_t block_first, uint64_t slot);
uint64_t psti_order_eras_nbytes(const struct psti_order_eras *eras);

#endif
