/* pli_wave_lanes_avx2_u16.h - 16 lanes of 16 bits: estimated costs of residuals of 16-bit samples,
 * masks, sums. */
#ifndef PST_PLI_WAVE_LANES_AVX2_U16_H
#define PST_PLI_WAVE_LANES_AVX2_U16_H

#include "pli/encode/wave/pli_wave_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PSTI_WAVE_INLINE static inline __attribute__((always_inline, target("avx2")))

/* The amount by which psti_pli_wave_biased_prices_u16() exceeds the estimate: the bias of the
 * exponent. */
enum { PSTI_WAVE_PRICE_FRACTION = 4, PSTI_WAVE_PRICE_BIAS = 127 << PSTI_WAVE_PRICE_FRACTION };

/* Returns psti_pli_wave_price_u16() of the magnitudes, plus the bias; the sum is below 4096. -32768
 * counts as 32768. */
PSTI_WAVE_INLINE __m256i psti_pli_wave_biased_prices_u16(__m256i residuals)
{
    enum { SHIFT = 23 - PSTI_WAVE_PRICE_FRACTION };
    const __m256i zero = _mm256_setzero_si256();
    __m256i v = _mm256_add_epi16(_mm256_abs_epi16(residuals), _mm256_set1_epi16(1));
    __m256 low = _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(v, zero));
    __m256 high = _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(v, zero));
    return _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), SHIFT),
                               _mm256_srli_epi32(_mm256_castps_si256(high), SHIFT));
}

/* Returns all ones in the lanes of columns x .. x + 15 that lie in the unit. */
PSTI_WAVE_INLINE __m256i psti_pli_wave_columns_u16(uint32_t x, uint32_t width)
{
    __m256i columns = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    columns = _mm256_add_epi16(columns, _mm256_set1_epi16((int16_t)x));
    return _mm256_cmpgt_epi16(_mm256_set1_epi16((int16_t)width), columns);
}

/* Returns masks for tokens in lanes of 16 bits. A mask has as many bits set as its token has raw
 * bits: (token - 17) / 2 from token 24 on. */
PSTI_WAVE_INLINE __m256i psti_pli_wave_raw_masks_u16(__m256i tokens)
{
    /* The bytes of 1 << n, by n: `low` has byte 0, `high` has byte 1. */
    const __m256i low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i high = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 0));
    __m256i large = _mm256_cmpgt_epi16(tokens, _mm256_set1_epi16(PSTI_PLI_DIRECT - 1));
    __m256i n = _mm256_srli_epi16(_mm256_sub_epi16(tokens, _mm256_set1_epi16(17)), 1);
    n = _mm256_and_si256(n, large);
    __m256i power = _mm256_or_si256(_mm256_shuffle_epi8(low, n),
                                    _mm256_shuffle_epi8(high, _mm256_slli_epi16(n, 8)));
    return _mm256_subs_epu16(power, _mm256_set1_epi16(1));
}

/* Returns the sum of eight numbers of 32 bits. */
PSTI_WAVE_INLINE uint32_t psti_pli_wave_sum32(__m256i v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(four) + (uint32_t)_mm_extract_epi32(four, 1);
}
#endif

#endif
