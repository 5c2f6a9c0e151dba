/* pli_jpeg_rows_avx2.c - turns rows of samples into rows of pixels with AVX2, 32 samples a step:
 * pli_jpeg_rows_x86_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "pli/decode/x86/pli_rgb_avx2.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))
#define VECTOR __m256i
#define OP(name) _mm256_##name
#define TABLE psti_pli_jpeg_rows_avx2

enum { STEP = 32 };

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const void *)p); }
INLINE void store(uint8_t *p, __m256i v) { _mm256_storeu_si256((void *)p, v); }
INLINE void store_parts(uint8_t *to, __m256i lo, __m256i hi)
{
    store(to, _mm256_permute2x128_si256(lo, hi, 0x20));
    store(to + STEP, _mm256_permute2x128_si256(lo, hi, 0x31));
}
INLINE void store_rgb(uint8_t *to, __m256i r, __m256i g, __m256i b)
{
    psti_pli_store_rgb(to, r, g, b);
}

INLINE __m256i odd_bits(__m256i a, __m256i b)
{
    return _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
}
INLINE __m256i odd_bytes(__m256i even, __m256i odd)
{
    return _mm256_blendv_epi8(even, odd, _mm256_set1_epi16((short)0xFF00));
}
INLINE __m256i add_products(__m256i sums, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}

#include "pli/decode/jpeg/x86/pli_jpeg_rows_x86_template.h"
#endif
