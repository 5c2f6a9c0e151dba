/* order_mix.c - gives each slot of an epoch to a source, by the sources' weights.
 *
 * In: a weight for each source. Out: a schedule. Each slot belongs to one source. Of the first t
 * slots, each source has t * weight / sum of weights, rounded down or up, for every t. So each run
 * of Q slots from a multiple of Q has exact quotas if Q * weight / sum is an integer, and a weight
 * below 1/Q gets its slot in one block of several. Nothing changes after open.
 *
 * Slots are given out one at a time, to the earliest deadline. A source with a share of w that had
 * c slots may have the next one from slot floor(c / w) on, and must have it before slot ceil((c +
 * 1) / w). Among the sources that may have the slot, the one with the earliest deadline gets it; on
 * a tie the lower number wins. For shares with the sum 1 each deadline is kept (Tijdeman, "The
 * chairman assignment problem", 1980; Baruah et al., "Proportionate progress", 1996). The largest
 * remainder alone does not keep them.
 *
 * Shares are fractions with one denominator, the period, so all machines compute the same schedule,
 * and the table of one period gives the source of any slot directly. The denominator is the
 * smallest one up to 65,536 that gives the weights exactly, else one that the caller chooses, with
 * the parts rounded by the largest remainder. A source of weight 0 gets no slot, and rules for the
 * end of an epoch ignore it. */
#include "order/order_mix.h"

#include "base/alloc.h"
#include "base/bits.h"
#include "base/fail.h"

#include <math.h>

#define EXACT_MAX 65536u
#define SOURCES_MAX 1024u
#define SLOTS_MAX ((uint64_t)1 << 62)

enum pst_status psti_order_check_mix(const struct psti_order_options *options,
                                     struct pst_error *err)
{
    const char *other = options->kind == PST_ORDER_PAGES ? "the page order"
                        : options->weights               ? "weights of samples"
                        : options->repeats > 1           ? "repeats"
                                                         : NULL;
    if (other)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "weights of sources are not possible with %s", other);
    for (uint32_t k = 0; k < options->mix->n_sources; k++) {
        uint64_t first = options->mix->firsts[k], before = k ? options->mix->firsts[k - 1] : 0;
        if (first < before || first > options->n_samples || (k == 0 && first != 0))
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "source %u begins at sample %llu, after %llu, of %llu: sources follow "
                             "each other from sample 0 on",
                             k, (unsigned long long)first, (unsigned long long)before,
                             (unsigned long long)options->n_samples);
    }
    return PST_OK;
}

/* Returns whether all weights are integer multiples of 1/period of the sum, apart from rounding
 * errors of doubles; *parts receives these integers. */
static bool parts_of(const double *weights, uint32_t n, double sum, uint32_t period,
                     uint32_t *parts)
{
    uint64_t total = 0;
    for (uint32_t k = 0; k < n; k++) {
        double part = weights[k] / sum * period, whole = floor(part + 0.5);
        if ((whole < 1 && weights[k] > 0) || fabs(part - whole) > whole * 0x1p-40)
            return false;
        parts[k] = (uint32_t)whole;
        total += parts[k];
    }
    return total == period;
}

/* Rounds the parts down, and gives the remaining slots to the sources with the largest remainders.
 * Of equal remainders, the source with the lower number comes first. */
static enum pst_status round_parts(const double *weights, uint32_t n, double sum, uint32_t period,
                                   uint32_t *parts, struct pst_error *err)
{
    uint64_t total = 0;
    double *rests = psti_alloc_array(n, sizeof *rests);
    if (!rests)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u weights", n);
    for (uint32_t k = 0; k < n; k++) {
        double part = weights[k] / sum * period;
        parts[k] = (uint32_t)part;
        rests[k] = part - floor(part);
        total += parts[k];
    }
    while (total < period) { /* takes fewer than n rounds, because each remainder is below 1 */
        uint32_t best = 0;
        for (uint32_t k = 1; k < n; k++)
            if (rests[k] > rests[best])
                best = k;
        parts[best]++;
        rests[best] -= 1;
        total++;
    }
    while (total > period) { /* rounding errors can make the sum of the quotients slightly larger
                              * than 1 */
        uint32_t largest = 0;
        for (uint32_t k = 1; k < n; k++)
            if (parts[k] > parts[largest])
                largest = k;
        parts[largest]--;
        total--;
    }
    psti_free(rests);
    for (uint32_t k = 0; k < n; k++)
        if (parts[k] == 0 && weights[k] > 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "source %u has the weight %g, which is too little of the sum %g: "
                             "a share is 1/%u or more; give it the weight 0, or leave it out",
                             k, weights[k], sum, period);
    return PST_OK;
}

static enum pst_status check_weights(const double *weights, uint32_t n, double *sum,
                                     struct pst_error *err)
{
    *sum = 0;
    if (n == 0 || n > SOURCES_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "%u sources: a mixture with weights has 1 to %u", n, SOURCES_MAX);
    for (uint32_t k = 0; k < n; k++) {
        if (!(weights[k] >= 0) || !isfinite(weights[k]))
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "source %u has the weight %g: weights are finite, and 0 or more", k,
                             weights[k]);
        *sum += weights[k];
    }
    if (!(*sum > 0) || !isfinite(*sum))
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "the weights' sum is %g", *sum);
    return PST_OK;
}

/* State of a source while slots are given out: its slots so far, and the first slot and the
 * deadline of its next one. */
struct turn {
    uint64_t n_had, from, before;
};

static struct turn turn_of(uint64_t n_had, uint64_t part, uint64_t period)
{
    if (part == 0)
        return (struct turn){0, UINT64_MAX, UINT64_MAX};
    return (struct turn){n_had, n_had * period / part, ((n_had + 1) * period + part - 1) / part};
}

/* Fills the tables of one period. `turns` has room for n_sources entries. */
static void deal(struct psti_order_schedule *schedule, struct turn *turns)
{
    for (uint32_t k = 0; k < schedule->n_sources; k++)
        turns[k] = turn_of(0, schedule->parts[k], schedule->period);
    for (uint32_t t = 0; t < schedule->period; t++) {
        uint32_t best = 0;
        uint64_t deadline = UINT64_MAX;
        for (uint32_t k = 0; k < schedule->n_sources; k++)
            if (turns[k].from <= t && turns[k].before < deadline) {
                best = k;
                deadline = turns[k].before;
            }
        schedule->sources[t] = best;
        schedule->n_befores[t] = (uint32_t)turns[best].n_had;
        turns[best] = turn_of(turns[best].n_had + 1, schedule->parts[best], schedule->period);
    }
}

enum pst_status psti_order_schedule_open(const double *weights, uint32_t n_sources,
                                         uint32_t rounded, struct psti_order_schedule *schedule,
                                         struct pst_error *err)
{
    double sum;
    *schedule = (struct psti_order_schedule){.n_sources = n_sources};
    enum pst_status status = check_weights(weights, n_sources, &sum, err);
    if (status != PST_OK)
        return status;
    struct turn *turns = psti_calloc(n_sources, sizeof *turns);
    schedule->parts = psti_calloc(n_sources, sizeof *schedule->parts);
    if (!turns || !schedule->parts) {
        status = psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u weights", n_sources);
        goto out;
    }
    uint32_t period = n_sources;
    while (period <= EXACT_MAX && !parts_of(weights, n_sources, sum, period, schedule->parts))
        period++;
    if (period > EXACT_MAX) {
        period = rounded;
        status = round_parts(weights, n_sources, sum, period, schedule->parts, err);
        if (status != PST_OK)
            goto out;
    }
    schedule->period = period;
    schedule->sources = psti_alloc_array(period, sizeof *schedule->sources);
    schedule->n_befores = psti_alloc_array(period, sizeof *schedule->n_befores);
    if (!schedule->sources || !schedule->n_befores) {
        status = psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u slots", period);
        goto out;
    }
    deal(schedule, turns);
out:
    psti_free(turns);
    return status;
}

void psti_order_schedule_close(struct psti_order_schedule *schedule)
{
    psti_free(schedule->n_befores);
    psti_free(schedule->sources);
    psti_free(schedule->parts);
    *schedule = (struct psti_order_schedule){0};
}

struct psti_order_drawn psti_order_schedule_at(const struct psti_order_schedule *schedule,
                                               uint64_t slot)
{
    uint64_t turn = slot / schedule->period, t = slot % schedule->period;
    uint32_t k = schedule->sources[t];
    return (struct psti_order_drawn){k, turn * schedule->parts[k] + schedule->n_befores[t]};
}

void psti_order_schedule_count(const struct psti_order_schedule *schedule, uint64_t n_slots,
                               uint64_t *counts)
{
    uint64_t turns = n_slots / schedule->period, rest = n_slots % schedule->period;
    for (uint32_t k = 0; k < schedule->n_sources; k++)
        counts[k] += turns * schedule->parts[k];
    for (uint64_t t = 0; t < rest; t++)
        counts[schedule->sources[t]]++;
}

enum pst_status psti_order_schedule_check(const struct psti_order_schedule *schedule,
                                          const uint64_t *counts, struct pst_error *err)
{
    for (uint32_t k = 0; k < schedule->n_sources; k++)
        if (counts[k] == 0 && schedule->parts[k] > 0)
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "source %u has no samples, so it cannot be drawn: give it the weight "
                             "0, or leave it out",
                             k);
    return PST_OK;
}

/* Finds two numbers of slots. *all: after so many slots, each source has given all its samples.
 * *first: before this slot, no source has given a sample twice. */
static void find_ends(const struct psti_order_schedule *schedule, const uint64_t *counts,
                      unsigned __int128 *all, unsigned __int128 *first)
{
    *all = 0;
    *first = ~(unsigned __int128)0;
    for (uint32_t t = 0; t < schedule->period; t++) {
        uint32_t k = schedule->sources[t];
        uint64_t part = schedule->parts[k], i = schedule->n_befores[t];
        if ((counts[k] - 1) % part == i) { /* slot in the period of the source's last sample */
            unsigned __int128 turn = (counts[k] - 1) / part;
            unsigned __int128 end = turn * schedule->period + t + 1;
            *all = end > *all ? end : *all;
        }
        if (counts[k] % part == i) { /* slot in the period of the source's first repeated sample */
            unsigned __int128 turn = counts[k] / part;
            unsigned __int128 end = turn * schedule->period + t;
            *first = end < *first ? end : *first;
        }
    }
}

/* Returns value % divisor. As with psti_divide_u128(), the operator would call the compiler's
 * runtime library, which wheels do not contain. */
static uint32_t remainder_of(unsigned __int128 value, uint32_t divisor)
{
    uint64_t remainder = 0;
    for (int shift = 96; shift >= 0; shift -= 32)
        remainder = (remainder << 32 | (uint32_t)(value >> shift)) % divisor;
    return (uint32_t)remainder;
}

enum pst_status psti_order_schedule_end(const struct psti_order_schedule *schedule,
                                        const uint64_t *counts, uint32_t quota,
                                        enum pst_source_stop stop, uint64_t *n_slots,
                                        struct pst_error *err)
{
    unsigned __int128 all, first, end = SLOTS_MAX;
    *n_slots = 0;
    enum pst_status status = psti_order_schedule_check(schedule, counts, err);
    if (status != PST_OK)
        return status;
    find_ends(schedule, counts, &all, &first);
    uint32_t block = quota ? quota : 1;
    if (stop == PST_SOURCE_STOP_ALL)
        end = remainder_of(all, block) ? all + (block - remainder_of(all, block)) : all;
    else if (stop == PST_SOURCE_STOP_FIRST)
        end = first - remainder_of(first, block);
    else if (stop != PST_SOURCE_STOP_NEVER)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order", "stop rule %d is not known", (int)stop);
    if (end == 0)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "no whole block of %u samples comes before the first source is exhausted: "
                         "make the block smaller",
                         block);
    if (end > SLOTS_MAX)
        return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                         "the epoch has more than 2^62 positions until all sources are exhausted");
    *n_slots = (uint64_t)end;
    return PST_OK;
}
