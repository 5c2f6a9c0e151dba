/* pli_wave_scan_avx2.c - what the wave mode's encoder does to every sample beside prediction, with
 * AVX2: contexts from energies, and signs in the order of tokens. The same numbers as plain C. */
#include "encode/pli_wave_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))

/* Q[E] in three shuffles: from E = 32 on it depends on E >> 4 only (docs/format-pli.md, 5.6). */
TARGET void psti_wave_find_buckets_avx2(const uint8_t *energies, uint8_t *contexts)
{
    _Alignas(16) uint8_t coarse[16];
    for (uint32_t i = 0; i < 16; i++)
        coarse[i] = psti_pli_wave_bucket[16 * i];
    const __m128i *fine = (const __m128i *)psti_pli_wave_bucket;
    __m256i below_16 = _mm256_broadcastsi128_si256(_mm_loadu_si128(fine));
    __m256i below_32 = _mm256_broadcastsi128_si256(_mm_loadu_si128(fine + 1));
    __m256i others = _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)coarse));
    __m256i nibble = _mm256_set1_epi8(15);
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += 32) {
        __m256i e = _mm256_loadu_si256((const __m256i *)(energies + x));
        __m256i low = _mm256_and_si256(e, nibble);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(e, 4), nibble);
        __m256i of_1 = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(1));
        __m256i of_0 = _mm256_cmpeq_epi8(high, _mm256_setzero_si256());
        __m256i c = _mm256_shuffle_epi8(others, high);
        c = _mm256_blendv_epi8(c, _mm256_shuffle_epi8(below_32, low), of_1);
        c = _mm256_blendv_epi8(c, _mm256_shuffle_epi8(below_16, low), of_0);
        _mm256_storeu_si256((__m256i *)(contexts + x), c);
    }
}

/* Signs of whole groups of 32 samples; residuals are the samples' upper halves. */
TARGET uint32_t psti_wave_scan_avx2(const uint32_t *ordered, uint32_t n,
                                    struct psti_wave_signs *signs, uint32_t *large)
{
    const __m256i token = _mm256_set1_epi32(PSTI_WAVE_TOKEN_MAX - 1);
    const __m256i direct = _mm256_set1_epi32(PSTI_PLI_DIRECT - 1);
    uint32_t n_large = 0;
    for (uint32_t i = 0; i + 32 <= n; i += 32) {
        uint32_t negative = 0, zero = 0, long_ones = 0;
        for (uint32_t k = 0; k < 32; k += 8) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(ordered + i + k));
            __m256i none = _mm256_cmpeq_epi32(_mm256_srli_epi32(v, 16), _mm256_setzero_si256());
            __m256i above = _mm256_cmpgt_epi32(_mm256_and_si256(v, token), direct);
            negative |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(v)) << k;
            zero |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(none)) << k;
            long_ones |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above)) << k;
        }
        signs[i / 32] =
            (struct psti_wave_signs){_pext_u32(negative, ~zero), (uint32_t)_mm_popcnt_u32(~zero)};
        for (; long_ones != 0; long_ones &= long_ones - 1)
            large[n_large++] = ordered[i + (uint32_t)__builtin_ctz(long_ones)];
    }
    return n_large;
}
#else
/* An empty file is none in C. */
typedef int psti_wave_no_scan_avx2;
#endif
