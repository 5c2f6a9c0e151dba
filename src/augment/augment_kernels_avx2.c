/* augment_kernels_avx2.c - the inner loops with AVX2 and F16C: augment_kernels_template.h, over
 * augment_kernels_x86_template.h.
 *
 * In and out: see augment_kernels.h; plain C gives the same bits. Pure functions, any thread. */
#include "augment/augment_kernels.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>

#define NAME "avx2"
#define OPS psti_augment_ops_avx2
#define TARGET __attribute__((target("avx2,bmi,bmi2,f16c")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,f16c")))
#define VECTOR __m256i
#define OP(name) _mm256_##name
#define FLOATS __m256

enum { N_FLOATS = 8 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE void store(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
INLINE __m256i in_all_parts(__m128i v) { return _mm256_broadcastsi128_si256(v); }

INLINE __m256i two(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}
INLINE __m256i load_parts_16(const uint8_t *const *rows, size_t at)
{
    return two(_mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at)),
               _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + at)));
}
INLINE __m256i load_parts_8(const uint8_t *const *rows, size_t at)
{
    return two(_mm_loadl_epi64((const __m128i *)(const void *)(rows[0] + at)),
               _mm_loadl_epi64((const __m128i *)(const void *)(rows[1] + at)));
}
INLINE void store_parts(uint8_t *const *rows, size_t at, __m256i v)
{
    _mm_storeu_si128((__m128i *)(void *)(rows[0] + at), _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(void *)(rows[1] + at), _mm256_extracti128_si256(v, 1));
}

INLINE __m256i widened(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
INLINE __m256i bits_of(__m256 v) { return _mm256_castps_si256(v); }
INLINE void store_low_halves(void *to, __m256i v)
{
    __m128i upper = _mm256_extracti128_si256(v, 1);
    _mm_storeu_si128((__m128i *)to, _mm_packus_epi32(_mm256_castsi256_si128(v), upper));
}
INLINE void store_f16(void *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

#include "augment/augment_kernels_x86_template.h"

#include "augment/augment_kernels_template.h"
#endif
