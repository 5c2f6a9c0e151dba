/* latency.c - a histogram of the durations of requests, and a clock of the time in which at least
 * one request was in progress. */
#include "base/latency.h"

#include "base/clock.h"

#include <string.h>

#define SUB_LOG2 2 /* log2 of the number of buckets for each power of two */

void psti_latency_open(struct psti_latency *latency)
{
    memset(latency, 0, sizeof *latency);
    pthread_mutex_init(&latency->lock, NULL);
}

void psti_latency_close(struct psti_latency *latency) { pthread_mutex_destroy(&latency->lock); }

/* Returns the bucket of a duration in nanoseconds. Below 4 ns each duration has its own bucket. */
static uint32_t bucket_of(uint64_t ns)
{
    if (ns < 1 << SUB_LOG2)
        return (uint32_t)ns;
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(ns);
    return ((log2 - SUB_LOG2 + 1) << SUB_LOG2) |
           (uint32_t)(ns >> (log2 - SUB_LOG2) & ((1 << SUB_LOG2) - 1));
}

/* Returns the largest duration, in nanoseconds, that belongs to the bucket. */
static uint64_t end_of(uint32_t bucket)
{
    if (bucket < 1 << SUB_LOG2)
        return bucket;
    uint32_t shift = (bucket >> SUB_LOG2) - 1;
    uint64_t first = (uint64_t)((1 << SUB_LOG2) | (bucket & ((1 << SUB_LOG2) - 1))) << shift;
    return first + ((uint64_t)1 << shift) - 1;
}

static void count(struct psti_latency *latency, uint64_t nbytes, int64_t took_ns)
{
    uint64_t ns = took_ns > 0 ? (uint64_t)took_ns : 0;
    latency->n++;
    latency->nbytes += nbytes;
    latency->sum_ns += ns;
    latency->buckets[bucket_of(ns)]++;
}

void psti_latency_begin(struct psti_latency *latency, uint32_t n)
{
    pthread_mutex_lock(&latency->lock);
    if (latency->n_under_way == 0)
        latency->since_ns = psti_clock_ns();
    latency->n_under_way += n;
    pthread_mutex_unlock(&latency->lock);
}

void psti_latency_end(struct psti_latency *latency, int counts, uint64_t nbytes, int64_t took_ns)
{
    pthread_mutex_lock(&latency->lock);
    if (counts)
        count(latency, nbytes, took_ns);
    if (--latency->n_under_way == 0)
        latency->busy_ns += (uint64_t)(psti_clock_ns() - latency->since_ns);
    pthread_mutex_unlock(&latency->lock);
}

void psti_latency_note(struct psti_latency *latency, uint64_t nbytes, int64_t took_ns)
{
    pthread_mutex_lock(&latency->lock);
    count(latency, nbytes, took_ns);
    pthread_mutex_unlock(&latency->lock);
}

static uint64_t quantile(const struct psti_latency *latency, uint64_t n_below)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < PSTI_LATENCY_BUCKETS; i++) {
        n += latency->buckets[i];
        if (n > n_below)
            return end_of(i);
    }
    return 0;
}

void psti_latency_read(struct psti_latency *latency, struct psti_latency_figures *figures)
{
    pthread_mutex_lock(&latency->lock);
    uint64_t busy = latency->busy_ns, n = latency->n;
    if (latency->n_under_way)
        busy += (uint64_t)(psti_clock_ns() - latency->since_ns);
    *figures = (struct psti_latency_figures){.n = n, .nbytes = latency->nbytes};
    if (n) {
        figures->mean_ns = latency->sum_ns / n;
        figures->p99_ns = quantile(latency, n - n / 100 - 1);
    }
    if (busy)
        figures->bytes_per_second = (double)latency->nbytes * 1e9 / (double)busy;
    pthread_mutex_unlock(&latency->lock);
}
