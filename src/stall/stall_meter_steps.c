/* stall_meter_steps.c - times of the caller's steps: sums, a histogram, and a window of the latest
 * steps.
 *
 * In: the moments at which the caller asks for a batch and gets it. Out: mean, standard deviation,
 * percentiles, and what the caller waited for. The caller of each function holds the loader's lock.
 * Nothing is allocated. */
#include "stall/stall_meter.h"

#include <math.h>
#include <string.h>

static uint32_t bucket_of(uint64_t ns)
{
    if (ns < (uint64_t)1 << PSTI_METER_FIRST_LOG2)
        return 0;
    uint32_t log2 = 63 - (uint32_t)__builtin_clzll(ns);
    uint32_t sub =
        (uint32_t)(ns >> (log2 - PSTI_METER_SUB_LOG2)) & ((1u << PSTI_METER_SUB_LOG2) - 1);
    uint32_t octave = log2 - PSTI_METER_FIRST_LOG2;
    return octave < PSTI_METER_OCTAVES ? (octave << PSTI_METER_SUB_LOG2) + sub
                                       : PSTI_METER_BUCKETS - 1;
}

/* Returns the time in the middle of a histogram bucket. */
static double middle_of(uint32_t bucket)
{
    double subs = 1u << PSTI_METER_SUB_LOG2;
    double low = ldexp(1 + (bucket % (1u << PSTI_METER_SUB_LOG2)) / subs,
                       PSTI_METER_FIRST_LOG2 + (int)(bucket >> PSTI_METER_SUB_LOG2));
    return low * (1 + 0.5 / subs);
}

void psti_stall_meter_steps_begin(struct psti_meter_steps *steps)
{
    struct psti_meter_steps fresh = {.all_n = steps->all_n,
                                     .all_caller_ns = steps->all_caller_ns,
                                     .all_wait_ns = steps->all_wait_ns,
                                     .all_peers_ns = steps->all_peers_ns};
    memcpy(fresh.all_cause_ns, steps->all_cause_ns, sizeof fresh.all_cause_ns);
    *steps = fresh;
}

void psti_stall_meter_steps_ask(struct psti_meter_steps *steps, int64_t now_ns)
{
    if (steps->asked_ns == 0)
        steps->asked_ns = now_ns;
}

static void add_step(struct psti_meter_steps *steps, const struct psti_meter_step *step)
{
    double delta = (double)step->total_ns - steps->mean_ns;
    steps->window[steps->n % PSTI_METER_WINDOW] = *step;
    steps->n++;
    steps->mean_ns += delta / (double)steps->n;
    steps->m2_ns2 += delta * ((double)step->total_ns - steps->mean_ns);
    steps->total_ns += step->total_ns;
    steps->wait_ns += step->wait_ns;
    steps->peers_ns += step->peers_ns;
    if (step->total_ns > steps->max_ns)
        steps->max_ns = step->total_ns;
    if (step->wait_ns > steps->wait_max_ns)
        steps->wait_max_ns = step->wait_ns;
    for (int i = 0; i < PSTI_METER_CAUSES; i++)
        steps->cause_ns[i] += step->cause_ns[i];
    steps->buckets[bucket_of(step->total_ns)]++;
    steps->all_n++;
    steps->all_caller_ns += step->total_ns - step->wait_ns - step->peers_ns;
    steps->all_peers_ns += step->peers_ns;
}

bool psti_stall_meter_steps_deliver(struct psti_meter_steps *steps, int64_t now_ns, bool last,
                                    uint64_t busy_ns)
{
    struct psti_meter_step *step = &steps->open;
    bool ends = steps->returned_ns != 0 && steps->asked_ns != 0;
    uint64_t wait = steps->asked_ns ? (uint64_t)(now_ns - steps->asked_ns) : 0;
    steps->all_wait_ns += wait;
    if (ends) {
        step->total_ns = (uint64_t)(now_ns - steps->returned_ns);
        step->wait_ns = wait;
        uint64_t own = step->total_ns - wait;
        step->peers_ns = step->peers_ns < own ? step->peers_ns : own;
        step->busy_ns = busy_ns;
        step->end_ns = now_ns;
        add_step(steps, step);
    } else if (!last) {
        steps->first_wait_ns = wait;
    }
    memset(step, 0, sizeof *step);
    steps->returned_ns = last ? 0 : now_ns;
    steps->asked_ns = 0;
    return ends;
}

void psti_stall_meter_steps_fail(struct psti_meter_steps *steps)
{
    memset(&steps->open, 0, sizeof steps->open);
    steps->returned_ns = steps->asked_ns = 0;
}

void psti_stall_meter_steps_peers(struct psti_meter_steps *steps, uint64_t ns)
{
    if (steps->returned_ns)
        steps->open.peers_ns += ns;
}

void psti_stall_meter_steps_cause(struct psti_meter_steps *steps, enum psti_meter_cause cause,
                                  uint64_t ns)
{
    steps->open.cause_ns[cause] += ns;
    steps->all_cause_ns[cause] += ns;
}

/* Returns the time that the share `wanted` of the epoch's steps does not exceed. */
static double percentile(const struct psti_meter_steps *steps, double wanted)
{
    uint64_t rank = (uint64_t)ceil(wanted * (double)steps->n), seen = 0;
    for (uint32_t i = 0; i < PSTI_METER_BUCKETS; i++) {
        seen += steps->buckets[i];
        if (seen >= rank && seen > 0) {
            double middle = middle_of(i), max = (double)steps->max_ns;
            return middle < max ? middle : max;
        }
    }
    return 0;
}

void psti_stall_meter_steps_epoch(const struct psti_meter_steps *steps,
                                  struct psti_meter_figures *figures)
{
    *figures = (struct psti_meter_figures){.n = steps->n,
                                           .total_ns = steps->total_ns,
                                           .wait_ns = steps->wait_ns,
                                           .peers_ns = steps->peers_ns,
                                           .max_ns = steps->max_ns,
                                           .wait_max_ns = steps->wait_max_ns,
                                           .mean_ns = steps->mean_ns};
    memcpy(figures->cause_ns, steps->cause_ns, sizeof figures->cause_ns);
    if (steps->n > 1)
        figures->sd_ns = sqrt(steps->m2_ns2 / (double)(steps->n - 1));
    if (steps->n > 0) {
        figures->p50_ns = percentile(steps, 0.5);
        figures->p99_ns = percentile(steps, 0.99);
    }
}

/* Shell sort, because qsort may allocate memory. */
static void sort(uint64_t *times, uint64_t n)
{
    static const uint64_t gaps[] = {57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
        for (uint64_t gap = gaps[g], i = gap; i < n; i++) {
            uint64_t time = times[i], at = i;
            for (; at >= gap && times[at - gap] > time; at -= gap)
                times[at] = times[at - gap];
            times[at] = time;
        }
}

void psti_stall_meter_steps_window(const struct psti_meter_steps *steps,
                                   struct psti_meter_figures *figures)
{
    uint64_t times[PSTI_METER_WINDOW];
    uint64_t n = steps->n < PSTI_METER_WINDOW ? steps->n : PSTI_METER_WINDOW;
    uint64_t first = steps->n - n;
    double squares = 0;
    *figures = (struct psti_meter_figures){.n = n};
    for (uint64_t i = 0; i < n; i++) {
        const struct psti_meter_step *step = &steps->window[(first + i) % PSTI_METER_WINDOW];
        times[i] = step->total_ns;
        figures->total_ns += step->total_ns;
        figures->wait_ns += step->wait_ns;
        figures->peers_ns += step->peers_ns;
        if (step->total_ns > figures->max_ns)
            figures->max_ns = step->total_ns;
        if (step->wait_ns > figures->wait_max_ns)
            figures->wait_max_ns = step->wait_ns;
        for (int k = 0; k < PSTI_METER_CAUSES; k++)
            figures->cause_ns[k] += step->cause_ns[k];
    }
    if (n == 0)
        return;
    figures->mean_ns = (double)figures->total_ns / (double)n;
    for (uint64_t i = 0; i < n; i++)
        squares += ((double)times[i] - figures->mean_ns) * ((double)times[i] - figures->mean_ns);
    figures->sd_ns = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    sort(times, n);
    figures->p50_ns = (double)times[(n - 1) / 2];
    figures->p99_ns = (double)times[(uint64_t)ceil(0.99 * (double)n) - 1];
    /* Busy times are known only at the ends of steps, so the window's first step is left out. */
    const struct psti_meter_step *newest = &steps->window[(steps->n - 1) % PSTI_METER_WINDOW];
    const struct psti_meter_step *oldest = &steps->window[first % PSTI_METER_WINDOW];
    figures->busy_ns = newest->busy_ns - oldest->busy_ns;
    figures->busy_span_ns = (uint64_t)(newest->end_ns - oldest->end_ns);
}
