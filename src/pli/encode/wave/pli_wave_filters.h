/* pli_wave_filters.h - estimated costs (prices) of filters for the blocks of 16 rows, in plain C
 * and AVX2. */
#ifndef PST_PLI_WAVE_FILTERS_H
#define PST_PLI_WAVE_FILTERS_H

#include "pli/encode/wave/pli_wave_encode_int.h"

enum {
    PSTI_WAVE_PATCH_WIDTH = 8,
    PSTI_WAVE_PATCH_SHIFT = 8, /* fraction bits of the estimated cost of a patch */
    PSTI_WAVE_PATCH_BASE = 5   /* added to a patch's sum: about 0.3 for each of 16 samples */
};

/* The filters whose costs are estimated, and the rows that are used: filters 0 .. n_filters - 1,
 * and the first two rows (16 bits: the first row) of every `step` rows in work->near. `g` and `r`
 * are the residuals of planes 0 and 1 in these rows. */
struct psti_wave_filter_query {
    uint32_t list, n_filters, n_rows, step, width;
    const int16_t *g, *r;
};
/* Estimated costs: of[filter][block]. best[block] is the number of the filter of lowest cost, the
 * first one if several are equal. */
struct psti_wave_filter_prices {
    uint32_t of[PSTI_PLI_N_FILTERS + 1][PSTI_WAVE_EDGE / PSTI_WAVE_BLOCK];
    uint32_t best[PSTI_WAVE_EDGE / PSTI_WAVE_BLOCK];
};

static inline uint32_t psti_pli_wave_patch_price(uint32_t sum)
{
    uint32_t v = sum + PSTI_WAVE_PATCH_BASE, e = 31u - (uint32_t)__builtin_clz(v);
    return e << PSTI_WAVE_PATCH_SHIFT | ((v - (1u << e)) << PSTI_WAVE_PATCH_SHIFT) >> e;
}

/* Estimates the costs. With 8 bits they are sums over patches, with 16 bits sums of
 * psti_pli_wave_price_u16(). */
typedef void psti_wave_price_filters(const struct psti_wave_work *work,
                                     const struct psti_wave_filter_query *q,
                                     struct psti_wave_filter_prices *prices);
psti_wave_price_filters psti_pli_wave_price_filters_c, psti_pli_wave_price_filters_avx2,
    psti_pli_wave_price_filters_u16_c, psti_pli_wave_price_filters_u16_avx2;
/* Functions of struct psti_wave_rows that compute residuals of filters, and of MED without taps. */
void psti_pli_wave_find_block_avx2(const struct psti_wave_work *work,
                                   const struct psti_wave_candidate *c, uint32_t n_rows,
                                   uint32_t x0, const int16_t *g, const int16_t *r, int16_t *out);
void psti_pli_wave_find_block_u16_avx2(const struct psti_wave_work *work,
                                       const struct psti_wave_candidate *c, uint32_t n_rows,
                                       uint32_t x0, const int16_t *g, const int16_t *r,
                                       int16_t *out);

#endif
