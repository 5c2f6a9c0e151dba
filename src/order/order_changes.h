/* order_changes.h - the schedules of a mixture whose weights change, and which of them is in force
 * at a place. */
#ifndef PST_ORDER_ORDER_CHANGES_H
#define PST_ORDER_ORDER_CHANGES_H

#include "order/order_mix.h"

/* An era: from one place on a schedule is in force, until the next era begins. Its slots are
 * counted from that place and, in later epochs, from position 0. */
struct psti_order_era {
    uint64_t epoch, position;
    struct psti_order_schedule schedule;
    double *weights;     /* f64 (n_sources), as given; NULL: the weights given at open */
    uint64_t *n_befores; /* u64 (n_sources): how often each source was drawn in its epoch before the
                          * place */
};

struct psti_order_eras {
    struct psti_order_era *eras; /* sorted by place; the first has the weights given at open, from
                                  * (0, 0) on */
    uint32_t n;
};

/* Opens a list with one era, with `weights` from the beginning on. The caller closes `eras` even
 * after an error. */
enum pst_status psti_order_eras_open(const double *weights, uint32_t n_sources,
                                     struct psti_order_eras *eras, struct pst_error *err);
void psti_order_eras_close(struct psti_order_eras *eras);
/* Makes in *wanted the eras of all changes, as psti_order_set_changes says. counts: u64
 * (n_sources), samples of each. block: positions of a block; n_positions: those of an epoch. The
 * first *n_kept eras belong to `eras` and to *wanted, so the caller calls psti_order_eras_end for
 * one of the two. After an error there is no *wanted. */
enum pst_status psti_order_eras_make(const struct psti_order_eras *eras, const uint64_t *counts,
                                     uint64_t block, uint64_t n_positions, const uint64_t *places,
                                     const double *weights, uint32_t n,
                                     struct psti_order_eras *wanted, uint32_t *n_kept,
                                     struct pst_error *err);
/* Closes all eras but the first n_kept, which belong to another list, too. */
void psti_order_eras_end(struct psti_order_eras *eras, uint32_t n_kept);
/* Returns which source has the slot of a position. `block_first` is the first position of its
 * block. The schedule that is in force there decides for the whole block. */
struct psti_order_drawn psti_order_eras_at(const struct psti_order_eras *eras, uint64_t epoch,
                                           uint64_t block_first, uint64_t slot);
uint64_t psti_order_eras_nbytes(const struct psti_order_eras *eras);

#endif
