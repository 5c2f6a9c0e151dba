/* order_changes.c - weights of a mixture's sources that change at given positions of the order.
 *
 * In: (epoch, position) with new weights. Out: the schedule in force at a position. A change takes
 * effect with the first block that begins at its position or later, because slots are shuffled
 * within a block. In the epoch of the change, each source continues behind the samples that it gave
 * before, so a pass still gives each sample once. In later epochs, the schedule begins at slot 0,
 * as if the order had been opened with these weights.
 *
 * Each change has a table of one period. Weights that need a long period are rounded to 1/65,536 of
 * their sum, so a table takes at most 512 KiB. When changes are added, the tables of earlier
 * changes are kept. */
#include "order/order_changes.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

#define OPENING_PERIOD (1u << 20)
#define CHANGE_PERIOD (1u << 16)
#define CHANGES_MAX 1024u

static void close_era(struct psti_order_era *era)
{
    psti_order_schedule_close(&era->schedule);
    psti_free(era->weights);
    psti_free(era->n_befores);
    *era = (struct psti_order_era){0};
}

void psti_order_eras_end(struct psti_order_eras *eras, uint32_t n_kept)
{
    for (uint32_t i = n_kept; i < eras->n; i++)
        close_era(&eras->eras[i]);
    psti_free(eras->eras);
    *eras = (struct psti_order_eras){0};
}

void psti_order_eras_close(struct psti_order_eras *eras) { psti_order_eras_end(eras, 0); }

enum pst_status psti_order_eras_open(const double *weights, uint32_t n_sources,
                                     struct psti_order_eras *eras, struct pst_error *err)
{
    eras->eras = psti_calloc(1, sizeof *eras->eras);
    if (!eras->eras)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for weights");
    eras->n = 1;
    enum pst_status status =
        psti_order_schedule_open(weights, n_sources, OPENING_PERIOD, &eras->eras[0].schedule, err);
    if (status != PST_OK)
        return status;
    eras->eras[0].n_befores = psti_calloc(n_sources, sizeof *eras->eras[0].n_befores);
    return eras->eras[0].n_befores
               ? PST_OK
               : psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u weights", n_sources);
}

static bool is_before(uint64_t epoch, uint64_t position, uint64_t other_epoch,
                      uint64_t other_position)
{
    return epoch < other_epoch || (epoch == other_epoch && position < other_position);
}

static const struct psti_order_era *era_at(const struct psti_order_era *eras, uint32_t n,
                                           uint64_t epoch, uint64_t position)
{
    uint32_t low = 0, high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (is_before(epoch, position, eras[middle].epoch, eras[middle].position))
            high = middle;
        else
            low = middle;
    }
    return &eras[low];
}

/* Moves (epoch, position) to the first block that begins there or later. */
static void to_block(uint64_t block, uint64_t n_positions, uint64_t *epoch, uint64_t *position)
{
    uint64_t rest = *position % block;
    if (rest > 0)
        *position += block - rest;
    if (*position >= n_positions) {
        *position = 0;
        *epoch += 1;
    }
}

/* Makes the schedule of an era, whose predecessor is `before`. */
static enum pst_status open_era(struct psti_order_era *era, const struct psti_order_era *before,
                                const uint64_t *counts, const double *weights,
                                struct pst_error *err)
{
    uint32_t n_sources = before->schedule.n_sources;
    enum pst_status status =
        psti_order_schedule_open(weights, n_sources, CHANGE_PERIOD, &era->schedule, err);
    if (status == PST_OK)
        status = psti_order_schedule_check(&era->schedule, counts, err);
    if (status != PST_OK)
        return status;
    era->weights = psti_alloc_array(n_sources, sizeof *era->weights);
    era->n_befores = psti_calloc(n_sources, sizeof *era->n_befores);
    if (!era->weights || !era->n_befores)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u weights", n_sources);
    memcpy(era->weights, weights, n_sources * sizeof *era->weights);
    if (era->position == 0)
        return PST_OK;
    bool goes_on = before->epoch == era->epoch;
    if (goes_on)
        memcpy(era->n_befores, before->n_befores, n_sources * sizeof *era->n_befores);
    psti_order_schedule_count(&before->schedule, era->position - (goes_on ? before->position : 0),
                              era->n_befores);
    return PST_OK;
}

static bool is_same(const struct psti_order_era *era, uint64_t epoch, uint64_t position,
                    const double *weights)
{
    return era->epoch == epoch && era->position == position &&
           memcmp(era->weights, weights, era->schedule.n_sources * sizeof *weights) == 0;
}

static enum pst_status check_changes(uint64_t n_positions, const uint64_t *places, uint32_t n,
                                     struct pst_error *err)
{
    if (n > CHANGES_MAX)
        return psti_fail(err, PST_ERROR_LIMIT, "order",
                         "%u changes of weights are more than %u: those of epochs that are over "
                         "can be given as one",
                         n, CHANGES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *place = &places[(size_t)i * 2];
        if (place[1] >= n_positions || place[0] == UINT64_MAX)
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "change %u is at position %llu of epoch %llu: an epoch has %llu", i,
                             (unsigned long long)place[1], (unsigned long long)place[0],
                             (unsigned long long)n_positions);
        if (i > 0 && is_before(place[0], place[1], place[-2], place[-1]))
            return psti_fail(err, PST_ERROR_ARGUMENT, "order",
                             "change %u is at a place before that of change %u", i, i - 1);
    }
    return PST_OK;
}

enum pst_status psti_order_eras_make(const struct psti_order_eras *eras, const uint64_t *counts,
                                     uint64_t block, uint64_t n_positions, const uint64_t *places,
                                     const double *weights, uint32_t n,
                                     struct psti_order_eras *wanted, uint32_t *n_kept,
                                     struct pst_error *err)
{
    uint32_t n_sources = eras->eras[0].schedule.n_sources;
    enum pst_status status = check_changes(n_positions, places, n, err);
    if (status != PST_OK)
        return status;
    *wanted = (struct psti_order_eras){.eras = psti_calloc(n + (size_t)1, sizeof *wanted->eras)};
    if (!wanted->eras)
        return psti_fail(err, PST_ERROR_MEMORY, "order", "no memory for %u changes", n);
    wanted->eras[0] = eras->eras[0];
    wanted->n = *n_kept = 1;
    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        struct psti_order_era *era = &wanted->eras[wanted->n++];
        const double *of_change = weights + (size_t)i * n_sources;
        uint64_t epoch = places[(size_t)i * 2], position = places[(size_t)i * 2 + 1];
        to_block(block, n_positions, &epoch, &position);
        if (*n_kept == i + 1 && *n_kept < eras->n &&
            is_same(&eras->eras[*n_kept], epoch, position, of_change)) {
            *era = eras->eras[(*n_kept)++];
            continue;
        }
        era->epoch = epoch;
        era->position = position;
        status = open_era(era, era - 1, counts, of_change, err);
    }
    if (status != PST_OK)
        psti_order_eras_end(wanted, *n_kept);
    return status;
}

struct psti_order_drawn psti_order_eras_at(const struct psti_order_eras *eras, uint64_t epoch,
                                           uint64_t block_first, uint64_t slot)
{
    const struct psti_order_era *era = era_at(eras->eras, eras->n, epoch, block_first);
    if (era->epoch != epoch)
        return psti_order_schedule_at(&era->schedule, slot);
    struct psti_order_drawn drawn = psti_order_schedule_at(&era->schedule, slot - era->position);
    drawn.n_before += era->n_befores[drawn.i_source];
    return drawn;
}

uint64_t psti_order_eras_nbytes(const struct psti_order_eras *eras)
{
    uint64_t nbytes = 0;
    for (uint32_t i = 0; i < eras->n; i++) {
        const struct psti_order_schedule *schedule = &eras->eras[i].schedule;
        nbytes += sizeof eras->eras[i] + schedule->period * sizeof(uint32_t) * 2 +
                  schedule->n_sources * (sizeof *schedule->parts + sizeof(uint64_t) * 2);
    }
    return nbytes;
}
