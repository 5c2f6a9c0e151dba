/* stall_model.h - functions that the files of the what-if model share. All are pure. */
#ifndef PST_STALL_STALL_MODEL_H
#define PST_STALL_STALL_MODEL_H

#include "stall/stall_predict.h"

/* Shares of the samples that come from the cache, the page cache and storage. They sum to 1. */
struct psti_stall_hits {
    double cache, page, misses;
};

/* Checks all numbers, and sets defaults where a member is 0. `full` receives the result. */
enum pst_status psti_stall_setup_read(const struct psti_stall_setup *given,
                                      struct psti_stall_setup *full, struct pst_error *err);

struct psti_stall_hits psti_stall_hits(const struct psti_stall_setup *s);

/* Returns the samples/s of n workers that for each sample wait `wait` seconds without a core and
 * then work `cpu` seconds on one of `cores`, which they share evenly. */
double psti_stall_workers_rate(double n, double wait, double cpu, double cores);

/* Returns the rate of a producer and a consumer (batches/s or samples/s) with a buffer of `slots`
 * between them. `producer` and `consumer` are the rates that each has alone; the cv2 are the
 * squared coefficients of variation of their times for one batch or sample. The result is at most
 * the slower rate, and at least half of it. */
double psti_stall_coupled_rate(double producer, double producer_cv2, double consumer,
                               double consumer_cv2, double slots);

/* Returns the expected largest of n normal values, in standard deviations above their mean. */
double psti_stall_largest_of(double n);

/* Returns the rate, including pauses between epochs, at which accelerators compute for the share
 * `utilisation` of the time outside of pauses. */
double psti_stall_rate_at(const struct psti_stall_setup *s, double utilisation);

/* Computes the rate only, without error band and other stalls. `answer` receives bounds, hits,
 * start_stall and rate. */
void psti_stall_rate(const struct psti_stall_setup *s, struct psti_stall_answer *answer);

#endif
