/* stall_model.h - the parts of the what-if model that its files share. Pure functions. */
#ifndef PST_STALL_STALL_MODEL_H
#define PST_STALL_STALL_MODEL_H

#include "stall/stall_predict.h"

/* Parts of the samples that cache, page cache and storage give. They add up to 1. */
struct psti_stall_hits {
    double cache, page, misses;
};

/* Checks all numbers, and fills in what zero stands for. `full` is the library's own copy. */
enum pst_status psti_stall_setup_read(const struct psti_stall_setup *given,
                                      struct psti_stall_setup *full, struct pst_error *err);

struct psti_stall_hits psti_stall_hits(const struct psti_stall_setup *s);

/* Samples/s of n workers that each hold a sample for `wait` seconds without a core and work for
 * `cpu` seconds on one of `cores`, which they share evenly. */
double psti_stall_workers_rate(double n, double wait, double cpu, double cores);

/* Batches/s, or samples/s, of a consumer behind a producer, when up to `slots` of them lie between
 * both. The rates are those that each would have alone, the squared coefficients of variation those
 * of the time for one batch or sample. At most the slower rate, and at least half of it. */
double psti_stall_coupled_rate(double producer, double producer_cv2, double consumer,
                               double consumer_cv2, double slots);

/* The mean of the largest of n normal values: how many standard deviations above their mean. */
double psti_stall_largest_of(double n);

/* The rate, with the pauses between epochs, at which accelerators compute for this part of the time
 * outside of the pauses. */
double psti_stall_rate_at(const struct psti_stall_setup *s, double utilisation);

/* The rate alone, without band and the other stalls. `answer` receives bounds, hits, start_stall
 * and rate. */
void psti_stall_rate(const struct psti_stall_setup *s, struct psti_stall_answer *answer);

#endif
