/* pli_jpeg_file_direct_avx2.c - reads MCUs of a sequential scan into planes of coefficients, or
 * skips them, with BMI2, and finds blocks with large coefficients with AVX2. The results are those
 * of pli_jpeg_file_direct.c. Pure; any thread. */
#include "pli/jpegfile/pli_jpeg_file_direct_mcus.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2")))

TARGET uint32_t psti_pli_jpeg_direct_read_bmi2(struct psti_jpeg_direct *r, uint32_t n)
{
    return psti_pli_jpeg_direct_mcus(r, n, false);
}

TARGET uint32_t psti_pli_jpeg_direct_skip_bmi2(struct psti_jpeg_direct *r, uint32_t n)
{
    return psti_pli_jpeg_direct_mcus(r, n, true);
}

/* Tells whether the sum of a block is above `most`. Sums of 16 bits saturate, so they never wrap. A
 * product of more than 16 bits is found by its upper half, which is then not 0. */
TARGET bool psti_pli_jpeg_is_beyond_avx2(const int16_t *planes, uint32_t n, uint32_t last,
                                         const uint16_t quants[64], uint32_t most)
{
    const __m256i limit = _mm256_set1_epi16((short)most);
    __m256i beyond = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i += 16) {
        __m256i sum = _mm256_setzero_si256();
        for (uint32_t k = 0; k <= last; k++) {
            const int16_t *from = planes + (size_t)k * PSTI_JPEG_LANES + i;
            __m256i v = _mm256_abs_epi16(_mm256_loadu_si256((const void *)from));
            __m256i q = _mm256_set1_epi16((short)quants[k]);
            sum = _mm256_adds_epu16(sum, _mm256_mullo_epi16(v, q));
            beyond = _mm256_or_si256(beyond, _mm256_mulhi_epu16(v, q));
        }
        beyond = _mm256_or_si256(beyond, _mm256_subs_epu16(sum, limit));
    }
    return !_mm256_testz_si256(beyond, beyond);
}
#endif
