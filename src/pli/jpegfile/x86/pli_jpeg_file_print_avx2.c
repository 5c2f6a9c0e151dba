/* pli_jpeg_file_print_avx2.c - prints MCUs of a sequential scan with AVX2 and BMI. The bits are
 * those of pli_jpeg_file_print_blocks.c. Pure; any thread. */
#include "pli/jpegfile/pli_jpeg_file_print_mcus.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2")))

enum { WORDS = 16 /* in a vector */, HALF = 32 };

/* Returns a bit for each of 32 coefficients that is 0. */
TARGET static inline uint32_t zeros_of(const int16_t *block)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)block);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(block + WORDS));
    __m256i ab = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, zero), _mm256_cmpeq_epi16(b, zero));
    return (uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(ab, 0xD8));
}

TARGET static inline uint64_t nonzeros(const int16_t *block)
{
    return ~(zeros_of(block) | (uint64_t)zeros_of(block + HALF) << HALF);
}

TARGET void psti_pli_jpeg_print_sequential_avx2(struct psti_jpeg_printer *p, uint32_t row,
                                                uint32_t column, uint32_t n)
{
    psti_pli_jpeg_print_mcus(p, row, column, n, nonzeros);
}
#endif
