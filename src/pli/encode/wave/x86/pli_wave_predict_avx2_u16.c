/* pli_wave_predict_avx2_u16.c - the loops of pli_wave_predict.h for samples of 16 bits, compiled
 * for AVX2. The loops that every unit needs are written by hand. The numbers are those of plain
 * C. */
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/pli_wave_filters.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { LANES = 16 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

INLINE __m256i add_costs(__m256i sum, __m256i residuals, __m256i mask)
{
    __m256i prices = _mm256_sub_epi16(psti_pli_wave_biased_prices_u16(residuals),
                                      _mm256_set1_epi16(PSTI_WAVE_PRICE_BIAS));
    prices = _mm256_and_si256(prices, mask);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(prices, _mm256_set1_epi16(1)));
}

static TARGET uint64_t price_plane_u16(const struct psti_pli_source *source,
                                       const int16_t *residuals)
{
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t x = 0; x < source->width; x += LANES) {
        const __m256i mask = psti_pli_wave_columns_u16(x, source->width);
        for (size_t y = 0; y < source->height; y++)
            sum = add_costs(sum, load(residuals + y * PSTI_WAVE_EDGE + x), mask);
    }
    return psti_pli_wave_sum32(sum);
}

#define SAMPLE uint16_t
#define OP(name) _mm256_##name##16
#define columns_of psti_pli_wave_columns_u16
#define sum_of psti_pli_wave_sum32
INLINE void store_residuals(int16_t *to, __m256i v) { _mm256_storeu_si256((__m256i *)to, v); }
#include "pli/encode/wave/x86/pli_wave_simple_avx2_template.h"

#define NAME(x) x##_u16
#define NEAR struct psti_wave_near_u16
#define LANE int32_t
#define SIGNED int16_t
#define BITS 16
#define PRODUCTS int64_t
#define price_lane psti_pli_wave_price_u16
#define PSTI_WAVE_BY_HAND /* the loops above replace the template's loops */
#define PSTI_WAVE_MOMENTS
#include "pli/encode/wave/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows_u16_avx2 = {
    gather_u16,   find_residuals_u16, psti_pli_wave_find_block_u16_avx2,
    find_row_u16, try_simple_by_hand, price_plane_u16,
    add_taps_u16, price_taps_u16,     add_moments_u16};
#endif
