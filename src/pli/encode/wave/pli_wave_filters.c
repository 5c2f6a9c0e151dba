/* pli_wave_filters.c - estimates the cost of each filter of the wave mode for each block of 16x16
 * samples.
 *
 * With 8 bits the estimate is the sum of log2(5 + sum of |residual|) over patches of 8x2 samples,
 * cut at the unit's edge. It is in 1/256 bit, and straight lines give the fraction of the
 * logarithm. With 16 bits the estimate is the sum of the samples' own estimates. All are integers,
 * the same at every CPU level. Reads the neighbours that the caller gathered; pure. */
#include "pli/encode/wave/pli_wave_filters.h"

#include <string.h>

enum { EDGE = PSTI_WAVE_EDGE, BLOCK = PSTI_WAVE_BLOCK, PATCH = PSTI_WAVE_PATCH_WIDTH };

static void find_row(const struct psti_wave_rows *rows, const struct psti_wave_work *work,
                     const struct psti_wave_candidate *c, uint32_t i,
                     const struct psti_wave_filter_query *q, int16_t *residuals)
{
    size_t at = (size_t)i * EDGE;
    rows->find_row(work, c, i, q->g + at, q->r + at, residuals);
}

static int32_t magnitude(int16_t residual) { return residual < 0 ? -residual : residual; }

static void row_sums(const struct psti_wave_work *work, const struct psti_wave_candidate *c,
                     uint32_t i, const struct psti_wave_filter_query *q, uint32_t *sums)
{
    int16_t residuals[EDGE];
    find_row(&psti_wave_rows_u8_c, work, c, i, q, residuals);
    for (uint32_t x = 0; x < q->width; x++)
        sums[x / PATCH] += (uint32_t)magnitude(residuals[x]);
}

static void find_best(const struct psti_wave_filter_query *q,
                      struct psti_wave_filter_prices *prices)
{
    for (uint32_t k = 0; k < EDGE / BLOCK; k++) {
        prices->best[k] = 0;
        for (uint32_t number = 1; number < q->n_filters; number++)
            if (prices->of[number][k] < prices->of[prices->best[k]][k])
                prices->best[k] = number;
    }
}

void psti_pli_wave_price_filters_c(const struct psti_wave_work *work,
                                   const struct psti_wave_filter_query *q,
                                   struct psti_wave_filter_prices *prices)
{
    memset(prices, 0, sizeof *prices);
    for (uint32_t number = 0; number < q->n_filters; number++) {
        struct psti_wave_candidate c = psti_pli_wave_filter(q->list, number);
        for (uint32_t i = 0; i < q->n_rows; i += q->step) {
            uint32_t sums[EDGE / PATCH] = {0};
            row_sums(work, &c, i, q, sums);
            if (i + 1 < q->n_rows)
                row_sums(work, &c, i + 1, q, sums);
            for (uint32_t k = 0; k < EDGE / PATCH; k++)
                prices->of[number][k * PATCH / BLOCK] += psti_pli_wave_patch_price(sums[k]);
        }
    }
    find_best(q, prices);
}

void psti_pli_wave_price_filters_u16_c(const struct psti_wave_work *work,
                                       const struct psti_wave_filter_query *q,
                                       struct psti_wave_filter_prices *prices)
{
    memset(prices, 0, sizeof *prices);
    for (uint32_t number = 0; number < q->n_filters; number++) {
        struct psti_wave_candidate c = psti_pli_wave_filter(q->list, number);
        for (uint32_t i = 0; i < q->n_rows; i += q->step) {
            int16_t residuals[EDGE];
            find_row(&psti_wave_rows_u16_c, work, &c, i, q, residuals);
            for (uint32_t x = 0; x < q->width; x++)
                prices->of[number][x / BLOCK] +=
                    (uint32_t)psti_pli_wave_price_u16(magnitude(residuals[x]));
        }
    }
    find_best(q, prices);
}
