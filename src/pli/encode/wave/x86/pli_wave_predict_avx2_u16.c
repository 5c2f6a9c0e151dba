/* pli_wave_predict_avx2_u16.c - the loops of pli_wave_predict.h for samples of 16 bits compiled for
 * AVX2, and by hand those that every unit goes through: the same numbers as plain C. */
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/pli_wave_filters.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { N_SIMPLE = 4, LANES = 16, N_VECTORS = PSTI_WAVE_EDGE / LANES };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

INLINE __m256i add_prices(__m256i sum, __m256i residuals, __m256i mask)
{
    __m256i prices = _mm256_sub_epi16(psti_pli_wave_biased_prices16(residuals),
                                      _mm256_set1_epi16(PSTI_WAVE_PRICE_BIAS));
    prices = _mm256_and_si256(prices, mask);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(prices, _mm256_set1_epi16(1)));
}

static TARGET uint64_t price_plane_16(const struct psti_pli_source *source,
                                      const int16_t *residuals)
{
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t x = 0; x < source->width; x += LANES) {
        const __m256i mask = psti_pli_wave_columns16(x, source->width);
        for (size_t y = 0; y < source->height; y++)
            sum = add_prices(sum, load(residuals + y * PSTI_WAVE_EDGE + x), mask);
    }
    return psti_pli_wave_sum32(sum);
}

/* Predictions 1..4. */
INLINE void predict_simple(__m256i l, __m256i u, __m256i ul, __m256i *p)
{
    __m256i least = _mm256_min_epu16(l, u), most = _mm256_max_epu16(l, u);
    __m256i middle = _mm256_min_epu16(_mm256_max_epu16(ul, least), most);
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(l, u), _mm256_set1_epi16(1));
    p[PSTI_PLI_PREDICT_LEFT - 1] = l;
    p[PSTI_PLI_PREDICT_UP - 1] = u;
    p[PSTI_PLI_PREDICT_AVERAGE - 1] = _mm256_sub_epi16(_mm256_avg_epu16(l, u), odd);
    p[PSTI_PLI_PREDICT_MED - 1] = _mm256_sub_epi16(_mm256_add_epi16(l, u), middle);
}

INLINE void try_rows(const struct psti_pli_source *source, uint32_t plane, uint32_t from,
                     struct psti_wave_work *work, uint64_t *prices)
{
    __m256i masks[N_VECTORS], sums[N_SIMPLE];
    /* Two rows with room before them, for the neighbour of column 0. */
    _Alignas(32) uint16_t rows[2][LANES + PSTI_WAVE_EDGE];
    for (uint32_t i = 0; i < N_VECTORS; i++)
        masks[i] = psti_pli_wave_columns16(i * LANES, source->width);
    for (uint32_t i = from; i < N_SIMPLE; i++)
        sums[i] = _mm256_setzero_si256();
    for (uint32_t y = 0; y < source->height; y++) {
        const uint16_t *s = (const uint16_t *)source->planes[plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint16_t *own = rows[y % 2] + LANES, *above = rows[(y + 1) % 2] + LANES;
        memcpy(own, s, PSTI_WAVE_EDGE * sizeof *s);
        own[-1] = y > 0 ? above[0] : s[0];
        if (y == 0) /* U and UL are L */
            memcpy(above, own - 1, PSTI_WAVE_EDGE * sizeof *s);
        /* UL of column 0 is U; of row 0, the start sample. */
        above[-1] = above[0];
        for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += LANES) {
            __m256i predictions[N_SIMPLE], v = load(own + x), u = load(above + x);
            __m256i ul = y > 0 ? load(above + x - 1) : u;
            predict_simple(load(own + x - 1), u, ul, predictions);
            for (uint32_t i = from; i < N_SIMPLE; i++) {
                __m256i residuals = _mm256_sub_epi16(v, predictions[i]);
                int16_t *to = work->trial[i] + (size_t)y * PSTI_WAVE_EDGE + x;
                _mm256_storeu_si256((__m256i *)to, residuals);
                sums[i] = add_prices(sums[i], residuals, masks[x / LANES]);
            }
        }
    }
    for (uint32_t i = from; i < N_SIMPLE; i++)
        prices[i] = psti_pli_wave_sum32(sums[i]);
}

static TARGET void try_simple_by_hand_16(const struct psti_pli_source *source, uint32_t plane,
                                         uint32_t from, struct psti_wave_work *work,
                                         uint64_t prices[4])
{
    if (from == 0)
        try_rows(source, plane, 0, work, prices);
    else
        try_rows(source, plane, PSTI_PLI_PREDICT_MED - 1, work, prices);
}

#define NAME(x) x##_16
#define NEAR struct psti_wave_near_16
#define LANE int32_t
#define SAMPLE uint16_t
#define SIGNED int16_t
#define BITS 16
#define PRODUCTS int64_t
#define price_lane psti_pli_wave_price_16
#define PSTI_WAVE_BY_HAND /* the loops above take the place of the template's */
#define PSTI_WAVE_MOMENTS
#include "pli/encode/wave/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows16_avx2 = {
    gather_16,   find_residuals_16,     psti_pli_wave_find_block16_avx2,
    find_row_16, try_simple_by_hand_16, price_plane_16,
    add_taps_16, price_taps_16,         add_moments_16};
#else
/* An empty file is none in C. */
typedef int psti_wave_no_predict16_avx2;
#endif
