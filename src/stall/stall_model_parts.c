/* stall_model_parts.c - formulas of the what-if model: hit ratios, workers that share cores, and a
 * producer and a consumer with a buffer of some batches between them. Pure functions of numbers.
 * docs/internals/stall-model.md derives them; tests/stall compares each with a simulation. */
#include "stall/stall_model.h"

#include <math.h>

/* Random eviction: h = ((1 - e^-s) / s)^2 with s = (1 - h) / x. The right side falls as s grows, so
 * the fixed point below 1 is found by bisection over h. */
static double random_hits(double x)
{
    double low = 0, high = 1;
    for (int i = 0; i < 60; i++) {
        double h = (low + high) / 2, s = (1 - h) / x;
        double part = s < 1e-9 ? 1 : -expm1(-s) / s;
        /* Near 1, h itself solves the equation for every x; the wanted root is smaller. */
        if (part * part > h)
            low = h;
        else
            high = h;
    }
    return (low + high) / 2;
}

double psti_stall_hit_ratio(enum psti_stall_policy policy, double part)
{
    double x = part > 0 ? part : 0;
    if (x >= 1)
        return 1;
    if (!(x > 0))
        return 0;
    switch (policy) {
    case PSTI_STALL_RANDOM:
        return random_hits(x);
    case PSTI_STALL_LRU:
        return x + (1 - x) * log1p(-x);
    case PSTI_STALL_LRU_SEQUENTIAL:
        return 0;
    default:
        return x;
    }
}

static double part_of(double nbytes, double whole) { return whole > 0 ? nbytes / whole : 0; }

struct psti_stall_hits psti_stall_hits(const struct psti_stall_setup *s)
{
    struct psti_stall_hits hits;
    double own = s->cache_nbytes * s->hosts;
    /* Each rank and job reads samples of the whole data set. With separate caches, only a rank's
     * own cache, which has a share of the memory, can hold a sample for it. */
    if (!s->shared_cache)
        own /= s->ranks * s->jobs;
    hits.cache = psti_stall_hit_ratio(s->policy, part_of(own, s->dataset_nbytes));
    double rest = s->dataset_nbytes * (1 - hits.cache);
    double page = psti_stall_hit_ratio(s->page_policy, part_of(s->page_cache_nbytes, rest));
    hits.page = (1 - hits.cache) * page;
    hits.misses = (1 - hits.cache) * (1 - page);
    return hits;
}

/* Machine repair queue: k of n workers want a core, the others wait. With processor sharing only
 * the mean times matter, so no distribution is assumed. */
double psti_stall_workers_rate(double n, double wait, double cpu, double cores)
{
    if (cpu <= 0)
        return wait > 0 ? n / wait : INFINITY;
    double most = (n < cores ? n : cores) / cpu;
    if (wait <= 0)
        return most;
    /* State k goes to k + 1 at (n - k) / wait and to k - 1 at min(k, cores) / cpu. */
    double weight = 1, sum = 1, rate = 0;
    long n_workers = lround(n);
    for (long k = 1; k <= n_workers; k++) {
        double served = ((double)k < cores ? (double)k : cores) / cpu;
        weight *= (double)(n_workers - k + 1) / wait / served;
        if (weight > 1e200) {
            weight *= 1e-200, sum *= 1e-200, rate *= 1e-200;
        }
        sum += weight;
        rate += weight * served;
    }
    return rate / sum;
}

/* Brownian motion between two barriers (Harrison 1985): the buffer's level drifts by the difference
 * of the rates, and each barrier loses what is pushed back there. Both stations process as much as
 * the slower one, so the faster one works for a part of the time, and its variance is weighted by
 * that part. */
double psti_stall_coupled_rate(double producer, double producer_cv2, double consumer,
                               double consumer_cv2, double slots)
{
    if (isinf(producer))
        return consumer;
    if (isinf(consumer))
        return producer;
    double drift = producer - consumer, slower = producer < consumer ? producer : consumer;
    double variance = slower * slower * (producer_cv2 / producer + consumer_cv2 / consumer);
    if (!(variance > 0)) /* true also for NaN, which a rate of 0 gives */
        return slower;
    double reach = 2 * drift * slots / variance, idle;
    if (fabs(reach) < 1e-6)
        idle = variance / (2 * slots) - drift / 2;
    else
        idle = reach > 700 ? 0 : drift / expm1(reach);
    double rate = consumer - idle;
    /* With much variance and a small buffer, the approximation may fall below 0. */
    return rate < slower / 2 ? slower / 2 : rate > slower ? slower : rate;
}

/* Blom's approximation of the expected largest order statistic, with the normal quantile found by
 * bisection. */
double psti_stall_largest_of(double n)
{
    if (!(n > 1))
        return 0;
    double p = (n - 0.375) / (n + 0.25), low = 0, high = 8;
    for (int i = 0; i < 50; i++) {
        double z = (low + high) / 2;
        if (erfc(-z / sqrt(2)) / 2 < p)
            low = z;
        else
            high = z;
    }
    return low;
}
