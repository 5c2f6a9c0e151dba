/* decode_png_unfilter_avx2.c - undoes the filters of PNG rows with AVX2. It defines vector
 * operations and includes decode_png_unfilter_template.h.
 *
 * In and out: see decode_png_unfilter.h. The bytes are the same as those of plain C. Pure
 * functions, any thread. */
#include "decode/png/decode_png_unfilter.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>

#define NAME "avx2"
#define OPS psti_unfilter_ops_avx2
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#define BYTES __m128i
#define ADD_BEFORE(v, n) _mm_add_epi8(v, _mm_slli_si128(v, n))
INLINE __m128i load_16(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE void store_16(void *p, __m128i v) { _mm_storeu_si128((__m128i *)p, v); }
INLINE __m128i add_16(__m128i a, __m128i b) { return _mm_add_epi8(a, b); }
INLINE __m128i shuffled(__m128i v, __m128i order) { return _mm_shuffle_epi8(v, order); }
INLINE __m128i choose(__m128i mask, __m128i yes, __m128i no)
{
    return _mm_blendv_epi8(no, yes, mask);
}

#define PIXEL __m128i
INLINE __m128i load_pixel(const void *p) { return _mm_loadl_epi64((const __m128i *)p); }
INLINE uint64_t bits_of(__m128i v) { return (uint64_t)_mm_cvtsi128_si64(v); }
INLINE __m128i upper_half(__m128i v) { return _mm_srli_epi64(v, 32); }

/* The filter Average is undone on inverted bytes ~x: ~(raw + floor((a + b) / 2)) = ceil((~a + ~b) /
 * 2) - raw. The CPU has one instruction for an average that rounds up. */
#define AVERAGE_LEFT _mm_set1_epi8(-1)
INLINE __m128i average_bytes(__m128i v) { return _mm_xor_si128(v, _mm_set1_epi8(-1)); }
INLINE __m128i average_pixel(__m128i raw, __m128i inverse, __m128i above)
{
    return _mm_sub_epi8(_mm_avg_epu8(inverse, average_bytes(above)), raw);
}

#define WIDE __m128i
INLINE __m128i widened(__m128i v) { return _mm_cvtepu8_epi16(v); }
INLINE __m128i narrowed(__m128i v) { return _mm_packus_epi16(v, v); }
INLINE __m128i load_four(const uint8_t *p)
{
    return widened(_mm_cvtsi32_si128((int)psti_load_u32(p)));
}
INLINE __m128i load_two(const uint8_t *low, const uint8_t *high)
{
    return widened(_mm_unpacklo_epi32(load_pixel(low), load_pixel(high)));
}
INLINE __m128i low_halves(__m128i a, __m128i b) { return _mm_unpacklo_epi64(a, b); }
INLINE __m128i add_low_bytes(__m128i a, __m128i b) { return _mm_add_epi8(a, b); }

/* Undoes one pixel of filter Paeth. With t = 3c - a - b, the predictor is the larger of a and b if
 * t <= the smaller of them, the smaller if t >= the larger, and c otherwise. The upper byte of each
 * 16-bit sample is 0. Sums wrap in the lower byte. */
INLINE __m128i paeth_pixel(__m128i raw, __m128i late, __m128i early, __m128i c)
{
    __m128i t = _mm_sub_epi16(_mm_add_epi16(c, _mm_add_epi16(c, c)), early);
    /* Stops the compiler from adding early + late first, which would make everything wait for
     * `late`. */
    __asm__("" : "+x"(t));
    t = _mm_sub_epi16(t, late);
    __m128i low = _mm_min_epi16(late, early), high = _mm_max_epi16(late, early);
    __m128i sum =
        _mm_blendv_epi8(_mm_add_epi8(raw, low), _mm_add_epi8(raw, c), _mm_cmpgt_epi16(high, t));
    return _mm_blendv_epi8(_mm_add_epi8(raw, high), sum, _mm_cmpgt_epi16(t, low));
}

#include "decode/png/decode_png_unfilter_template.h"
#endif
