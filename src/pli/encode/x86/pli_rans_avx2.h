/* pli_rans_avx2.h - eight rANS states take tokens at once, for the encoders of several modes. The
 * codes are those of pli_rans.h. */
#ifndef PST_PLI_RANS_AVX2_H
#define PST_PLI_RANS_AVX2_H

#include "pli/encode/pli_rans.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* For each mask of eight words 16 indices of bytes, which move the words of the mask to the end,
 * the last of them to byte 14 (pli_rans_avx2.c). */
struct psti_rans_picks {
    _Alignas(64) uint8_t bytes[256][16];
};
extern const struct psti_rans_picks psti_rans_picks;

#define PSTI_RANS_INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

/* Stores the low words of those states that `full` selects, so that they end at `end`. Returns the
 * address of the first word. Always overwrites eight words before `end`. */
PSTI_RANS_INLINE uint16_t *psti_pli_rans_put_words(__m256i states, __m256i full, uint16_t *end)
{
    uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(full));
    __m256i low = _mm256_blend_epi16(states, _mm256_setzero_si256(), 0xAA);
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    __m128i pick = _mm_load_si128((const __m128i *)(const void *)psti_rans_picks.bytes[mask]);
    _mm_storeu_si128((__m128i *)(void *)(end - 8), _mm_shuffle_epi8(words, pick));
    return end - _mm_popcnt_u32(mask);
}

/* Codes a token into each of eight states. `even` holds the codes for states 0, 2, 4, 6 and `odd`
 * those for states 1, 3, 5, 7. The words of full states are stored before `*end`, which moves to
 * where they begin. Eight words before it are overwritten in any case. */
PSTI_RANS_INLINE __m256i psti_pli_rans_take_eight(uint32_t prob_bits, __m256i even, __m256i odd,
                                                  __m256i x, uint16_t **end)
{
    const __m256i most = _mm256_set1_epi32((1 << prob_bits) - 1);
    __m256i fields = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
    __m256i first = _mm256_and_si256(fields, most);
    __m256i rest = _mm256_and_si256(_mm256_srli_epi32(fields, (int)prob_bits), most);
    /* A state is full if x >> (32 - prob_bits) is not below the frequency. */
    __m256i sum = _mm256_add_epi32(_mm256_srli_epi32(x, (int)(32 - prob_bits)), rest);
    __m256i full = _mm256_cmpgt_epi32(sum, most);
    *end = psti_pli_rans_put_words(x, full, *end);
    x = _mm256_blendv_epi8(x, _mm256_srli_epi32(x, 16), full);
    __m256i down = _mm256_srli_epi32(fields, PSTI_RANS_DOWN_SHIFT);
    __m256i dividend = _mm256_add_epi32(x, _mm256_and_si256(down, _mm256_set1_epi32(1)));
    __m256i low = _mm256_mul_epu32(dividend, even);
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(dividend, 32), odd);
    __m256i quotient = _mm256_blend_epi32(_mm256_srli_epi64(low, 32), high, 0xAA);
    quotient = _mm256_srlv_epi32(quotient, _mm256_srli_epi32(fields, PSTI_RANS_S_SHIFT));
    return _mm256_add_epi32(_mm256_add_epi32(x, first), _mm256_mullo_epi32(quotient, rest));
}

/* These functions load the codes of two tokens, or of four. Single loads are faster than a
 * gather. */
PSTI_RANS_INLINE __m128i psti_pli_rans_load_two(const uint64_t *a, const uint64_t *b)
{
    __m128d low = _mm_castsi128_pd(_mm_loadl_epi64((const __m128i *)(const void *)a));
    return _mm_castpd_si128(_mm_loadh_pd(low, (const double *)(const void *)b));
}
PSTI_RANS_INLINE __m256i psti_pli_rans_load_four(const uint64_t *a, const uint64_t *b,
                                                 const uint64_t *c, const uint64_t *d)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(psti_pli_rans_load_two(a, b)),
                                   psti_pli_rans_load_two(c, d), 1);
}
#endif

#endif
