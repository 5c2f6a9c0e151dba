/* latency.h - measures requests: their number, their durations, and their rate during the time in
 * which at least one was in progress. Any thread; each call holds the lock for a moment. */
#ifndef PST_BASE_LATENCY_H
#define PST_BASE_LATENCY_H

#include <pthread.h>
#include <stdint.h>

/* The histogram has four buckets for each power of two of nanoseconds, so a quantile is at most a
 * quarter too high. */
#define PSTI_LATENCY_BUCKETS 256

struct psti_latency {
    pthread_mutex_t lock; /* guards all members below */
    uint64_t n, nbytes, sum_ns;
    uint64_t busy_ns; /* ns with a request in progress, counted up to `since_ns` */
    int64_t since_ns;
    uint32_t n_under_way;
    uint64_t buckets[PSTI_LATENCY_BUCKETS];
};

struct psti_latency_figures {
    uint64_t n, nbytes;
    uint64_t mean_ns, p99_ns; /* 0 if n is 0 */
    double bytes_per_second;  /* 0 if no request was ever in progress */
};

void psti_latency_open(struct psti_latency *latency);
void psti_latency_close(struct psti_latency *latency);
/* Records that n requests begin. */
void psti_latency_begin(struct psti_latency *latency, uint32_t n);
/* Records the end of a request that psti_latency_begin has counted. If `counts` is not 0, the
 * request is measured: it delivered nbytes and took took_ns. */
void psti_latency_end(struct psti_latency *latency, int counts, uint64_t nbytes, int64_t took_ns);
/* Records a request that psti_latency_begin did not count. It does not affect the rate. */
void psti_latency_note(struct psti_latency *latency, uint64_t nbytes, int64_t took_ns);
void psti_latency_read(struct psti_latency *latency, struct psti_latency_figures *figures);

#endif
