/* pli_jpeg_idct_avx2.c - turns coefficients into samples with AVX2, 16 blocks at once:
 * pli_jpeg_idct_x86_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include <assert.h>
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))
#define VECTOR __m256i
#define MASK __m256i
#define OP(name) _mm256_##name

enum { LANES = 16 };

INLINE __m256i load(const void *from) { return _mm256_loadu_si256(from); }
INLINE void store(void *to, __m256i v) { _mm256_storeu_si256(to, v); }
INLINE __m256i above(__m256i a, __m256i b) { return _mm256_cmpgt_epi16(a, b); }
INLINE __m256i choose(__m256i mask, __m256i no, __m256i yes)
{
    return _mm256_blendv_epi8(no, yes, mask);
}
INLINE uint32_t bits_of(__m256i mask) { return (uint32_t)_mm256_movemask_epi8(mask); }

INLINE __m256i pair(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}
INLINE __m256i add_products(__m256i sums, __m256i pairs, __m256i factors)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, factors));
}
INLINE __m256i plus_minus(__m256i sums, __m256i pairs, int a, int b, __m256i *minus)
{
    __m256i products = _mm256_madd_epi16(pairs, pair(a, b));
    *minus = _mm256_sub_epi32(sums, products);
    return _mm256_add_epi32(sums, products);
}

#include "pli/decode/jpeg/x86/pli_jpeg_idct_x86_template.h"

TARGET void psti_pli_jpeg_idct_avx2(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    const struct unit unit = open_unit(blocks);
    assert(blocks->all);
    all_blocks(&unit, work);
}
#endif
