/* cache_plan.c - chooses the samples that a cache admits: those that save the most seconds for
 * their bytes.
 *
 * In: bytes and seconds of each sample. Out: a byte for each sample, not 0 if it is admitted. The
 * choice is the greedy one for the knapsack problem (Dantzig 1957): samples in the order of seconds
 * per byte, each if it still fits. If samples could be split, this order would be optimal, and that
 * optimum is an upper bound for every choice. The greedy choice is below it by less than the
 * seconds of one sample. Pure functions, besides allocating memory. */
#include "cache/cache_int.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sample that saves time if it is admitted. */
struct candidate {
    double per_byte, seconds;
    uint64_t room, sample;
};

/* Sorts by seconds per byte, the most first; with equal values by sample number. */
static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->per_byte != y->per_byte)
        return x->per_byte > y->per_byte ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* Fills in the samples that save time. *n_found: their number. */
static enum pst_status find_candidates(const struct pst_cache_cost *costs, size_t cost_nbytes,
                                       uint64_t n, struct candidate *found, uint64_t *n_found,
                                       struct pst_error *err)
{
    *n_found = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct pst_cache_cost cost;
        uint64_t room;
        enum pst_status status =
            psti_struct_read(&cost, sizeof cost, (const char *)costs + i * cost_nbytes, cost_nbytes,
                             "cost_nbytes", "cache", err);
        if (status != PST_OK)
            return status;
        if (!isfinite(cost.seconds) || cost.seconds < 0 ||
            !psti_format_cache_room(cost.nbytes, &room))
            return psti_fail(err, PST_ERROR_ARGUMENT, "cache",
                             "sample %" PRIu64 ": %g seconds for %" PRIu64
                             " bytes are not possible",
                             i, cost.seconds, cost.nbytes);
        if (cost.seconds > 0)
            found[(*n_found)++] =
                (struct candidate){cost.seconds / (double)room, cost.seconds, room, i};
    }
    return PST_OK;
}

static void choose(const struct candidate *candidates, uint64_t n, uint64_t budget, uint8_t *plan,
                   struct pst_cache_plan_report *report)
{
    bool is_full = false;
    for (uint64_t i = 0; i < n; i++) {
        const struct candidate *candidate = &candidates[i];
        uint64_t left = budget - report->nbytes;
        if (!is_full && candidate->room > left)
            report->seconds_bound = report->seconds + candidate->per_byte * (double)left;
        is_full |= candidate->room > left;
        if (candidate->room > left)
            continue;
        plan[candidate->sample] = 1;
        report->n_samples++;
        report->nbytes += candidate->room;
        report->seconds += candidate->seconds;
    }
    if (!is_full)
        report->seconds_bound = report->seconds;
}

enum pst_status pst_cache_plan(const struct pst_cache_cost *costs, size_t cost_nbytes, uint64_t n,
                               uint64_t nbytes, uint8_t *plan, struct pst_cache_plan_report *report,
                               size_t report_nbytes, struct pst_error *err)
{
    struct pst_cache_plan_report full = {0};
    uint64_t n_found;
    if (n > SIZE_MAX / sizeof(struct candidate) || (n && (!costs || !plan)))
        return psti_fail(err, PST_ERROR_ARGUMENT, "cache", "costs or plan is NULL, or n too large");
    struct candidate *candidates = psti_alloc_array((size_t)n + 1, sizeof *candidates);
    if (!candidates)
        return psti_fail(err, PST_ERROR_MEMORY, "cache", "no memory to plan %" PRIu64 " samples",
                         n);
    enum pst_status status = find_candidates(costs, cost_nbytes, n, candidates, &n_found, err);
    if (status == PST_OK) {
        qsort(candidates, (size_t)n_found, sizeof *candidates, compare);
        if (n)
            memset(plan, 0, (size_t)n);
        choose(candidates, n_found, nbytes, plan, &full);
        if (report)
            psti_struct_write(report, report_nbytes, &full, sizeof full);
    }
    psti_free(candidates);
    return status;
}
