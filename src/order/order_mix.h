/* order_mix.h - the schedule of a mixture with weights: the source of each slot of an epoch. */
#ifndef PST_ORDER_ORDER_MIX_H
#define PST_ORDER_ORDER_MIX_H

#include "order/order.h"

/* The result of a draw: the source, and how often it was drawn in earlier slots of the epoch. */
struct psti_order_drawn {
    uint32_t i_source;
    uint64_t n_before;
};

struct psti_order_schedule {
    uint32_t n_sources;
    uint32_t period;     /* number of slots after which the schedule repeats */
    uint32_t *parts;     /* u32 (n_sources): slots of a source in one period; the sum is `period` */
    uint32_t *sources;   /* u32 (period): the source of each slot */
    uint32_t *n_befores; /* u32 (period): how many earlier slots of the period have the same
                          * source */
};

/* Refuses options that cannot be combined with `mix`, and a mixture whose firsts are not in
 * order. */
enum pst_status psti_order_check_mix(const struct psti_order_options *options,
                                     struct pst_error *err);

/* Makes a schedule. `weights`: f64 (n_sources). `rounded`: the period to use if no period
 * represents the weights exactly. The caller closes `schedule` even after an error. */
enum pst_status psti_order_schedule_open(const double *weights, uint32_t n_sources,
                                         uint32_t rounded, struct psti_order_schedule *schedule,
                                         struct pst_error *err);
void psti_order_schedule_close(struct psti_order_schedule *schedule);
struct psti_order_drawn psti_order_schedule_at(const struct psti_order_schedule *schedule,
                                               uint64_t slot);
/* Adds to `counts`, u64 (n_sources), the number of slots that each source has among the first
 * n_slots. */
void psti_order_schedule_count(const struct psti_order_schedule *schedule, uint64_t n_slots,
                               uint64_t *counts);
/* Refuses a source that gets slots but has no samples. `counts` is u64 (n_sources). */
enum pst_status psti_order_schedule_check(const struct psti_order_schedule *schedule,
                                          const uint64_t *counts, struct pst_error *err);
/* Computes the number of slots of an epoch by the rule `stop`: whole blocks of `quota` slots, or
 * any number if quota is 0. `counts`: u64 (n_sources), the samples of each source. */
enum pst_status psti_order_schedule_end(const struct psti_order_schedule *schedule,
                                        const uint64_t *counts, uint32_t quota,
                                        enum pst_source_stop stop, uint64_t *n_slots,
                                        struct pst_error *err);

#endif
