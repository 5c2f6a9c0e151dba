/* decode_png_unfilter_avx2.c - undoing the filters of PNG rows with AVX2.
 *
 * In and out: see decode_png_unfilter.h; plain C gives the same bytes. Pure functions, any thread.
 * But for Up, each pixel waits for the one to its left, so what counts is how few operations lie
 * between two pixels: one for Sub (a running sum within a vector), two for Average, four for Paeth,
 * of which two rows are undone at once. A pixel of 3 or 6 bytes is stored with bytes too many,
 * which the next one overwrites; so the next is always loaded before. */
#include "decode/decode_png_unfilter.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

/* 8 bytes, of which the first pixel counts. */
INLINE __m128i load_pixel(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

/* The first n bytes: 1, 2, 3, 4, 6 or 8. */
INLINE void store(uint8_t *p, __m128i v, size_t n)
{
    uint32_t low = (uint32_t)_mm_cvtsi128_si32(v);
    uint64_t bits = (uint64_t)_mm_cvtsi128_si64(v);
    if (n <= 4)
        memcpy(p, &low, n);
    else
        memcpy(p, &bits, n);
}

/* The pixel, with as many bytes more as make one store; another pixel follows. */
INLINE void store_inner(uint8_t *p, __m128i v, size_t pixel)
{
    store(p, v, pixel == 3 ? 4 : pixel == 6 ? 8 : pixel);
}

static TARGET void undo_up(uint8_t *row, const uint8_t *above, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i *at = (__m256i *)(void *)(row + i);
        __m256i up = _mm256_loadu_si256((const __m256i *)(const void *)(above + i));
        _mm256_storeu_si256(at, _mm256_add_epi8(_mm256_loadu_si256(at), up));
    }
    for (; i < n; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

/* Sums of 1, 2, 4 ... pixels; the last sum of a vector goes on into the next. `used` bytes of a
 * vector are whole pixels; what lies behind them is stored back as it was. */
#define DEFINE_SUB(pixel)                                                                          \
    static TARGET void undo_sub_##pixel(uint8_t *row, const uint8_t *above, size_t n)              \
    {                                                                                              \
        enum { used = 16 / pixel * pixel, last = used - pixel };                                   \
        const __m128i lane = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);  \
        const __m128i behind = _mm_cmpgt_epi8(lane, _mm_set1_epi8(used - 1));                      \
        const __m128i repeat = _mm_setr_epi8(                                                      \
            last, last + 1 % pixel, last + 2 % pixel, last + 3 % pixel, last + 4 % pixel,          \
            last + 5 % pixel, last + 6 % pixel, last + 7 % pixel, last + 8 % pixel,                \
            last + 9 % pixel, last + 10 % pixel, last + 11 % pixel, last + 12 % pixel,             \
            last + 13 % pixel, last + 14 % pixel, last + 15 % pixel);                              \
        __m128i left = _mm_setzero_si128();                                                        \
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)row);                        \
        size_t i = 0;                                                                              \
        (void)above;                                                                               \
        for (; i + 16 <= n; i += used) {                                                           \
            __m128i stored = next, v = next;                                                       \
            next = _mm_loadu_si128((const __m128i *)(const void *)(row + i + used));               \
            v = _mm_add_epi8(v, _mm_slli_si128(v, pixel));                                         \
            v = _mm_add_epi8(v, _mm_slli_si128(v, 2 * pixel));                                     \
            v = _mm_add_epi8(v, _mm_slli_si128(v, 4 * pixel));                                     \
            v = _mm_add_epi8(v, _mm_slli_si128(v, 8 * pixel));                                     \
            v = _mm_add_epi8(v, left);                                                             \
            left = _mm_shuffle_epi8(v, repeat);                                                    \
            v = _mm_blendv_epi8(v, stored, behind);                                                \
            _mm_storeu_si128((__m128i *)(void *)(row + i), v);                                     \
        }                                                                                          \
        for (i = i ? i : pixel; i < n; i++)                                                        \
            row[i] = (uint8_t)(row[i] + row[i - pixel]);                                           \
    }

/* With ~x for x: ~(raw + floor((a + b) / 2)) = ceil((~a + ~b) / 2) - raw, and that rounding upwards
 * is one instruction. */
INLINE __m128i average_pixel(__m128i raw, __m128i inverse, __m128i above)
{
    return _mm_sub_epi8(_mm_avg_epu8(inverse, _mm_xor_si128(above, _mm_set1_epi8(-1))), raw);
}

INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    const __m128i ones = _mm_set1_epi8(-1);
    __m128i inverse = ones, raw = load_pixel(row);
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        __m128i next = load_pixel(row + i + pixel);
        inverse = average_pixel(raw, inverse, load_pixel(above + i));
        store_inner(row + i, _mm_xor_si128(inverse, ones), pixel);
        raw = next;
    }
    inverse = average_pixel(raw, inverse, load_pixel(above + i));
    store(row + i, _mm_xor_si128(inverse, ones), pixel);
}

/* With t = 3c - a - b: the larger of a and b where t <= the smaller, the smaller where t >= the
 * larger, c between. Samples are 16 bits wide, with zeros above; sums wrap in their lower byte. Of
 * a and b, `late` is the one to be waited for. */
INLINE __m128i paeth_pixel(__m128i raw, __m128i late, __m128i early, __m128i c)
{
    __m128i t = _mm_sub_epi16(_mm_add_epi16(c, _mm_add_epi16(c, c)), early);
    __asm__("" : "+x"(t)); /* or early + late comes first, and all else waits for it */
    t = _mm_sub_epi16(t, late);
    __m128i low = _mm_min_epi16(late, early), high = _mm_max_epi16(late, early);
    __m128i sum =
        _mm_blendv_epi8(_mm_add_epi8(raw, low), _mm_add_epi8(raw, c), _mm_cmpgt_epi16(high, t));
    return _mm_blendv_epi8(_mm_add_epi8(raw, high), sum, _mm_cmpgt_epi16(t, low));
}

INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    __m128i a = _mm_setzero_si128(), c = a, raw = _mm_cvtepu8_epi16(load_pixel(row));
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        __m128i next = _mm_cvtepu8_epi16(load_pixel(row + i + pixel));
        __m128i b = _mm_cvtepu8_epi16(load_pixel(above + i));
        a = paeth_pixel(raw, a, b, c);
        store_inner(row + i, _mm_packus_epi16(a, a), pixel);
        c = b;
        raw = next;
    }
    a = paeth_pixel(raw, a, _mm_cvtepu8_epi16(load_pixel(above + i)), c);
    store(row + i, _mm_packus_epi16(a, a), pixel);
}

INLINE __m128i load_two(const uint8_t *low, const uint8_t *high)
{
    return _mm_cvtepu8_epi16(_mm_unpacklo_epi32(load_pixel(low), load_pixel(high)));
}

/* Two rows, for pixels of up to 4 bytes: the lower half of a vector is a pixel of the first row,
 * the higher half the pixel one to the left in the second; what is above that one was made just
 * before.
 */
INLINE void undo_two_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step, size_t pixel)
{
    uint8_t *second = row + step;
    __m128i c = _mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)psti_load_u32(above)));
    __m128i a = _mm_cvtepu8_epi16(_mm_cvtsi32_si128((int)psti_load_u32(row)));
    __m128i raw = load_two(row + pixel, second), packed;
    size_t i = pixel;
    a = _mm_add_epi8(a,
                     c); /* nothing is to the left of the first pixel: it goes by what is above */
    packed = _mm_packus_epi16(a, a);
    if (n == pixel)
        store(row, packed, pixel);
    else
        store_inner(row, packed, pixel);
    for (; i < n; i += pixel) {
        __m128i next = load_two(row + i + pixel, second + i);
        __m128i b = _mm_unpacklo_epi64(_mm_cvtepu8_epi16(load_pixel(above + i)), a);
        a = paeth_pixel(raw, b, a, c);
        packed = _mm_packus_epi16(a, a);
        if (i + pixel < n)
            store_inner(row + i, packed, pixel);
        else
            store(row + i, packed, pixel);
        store_inner(second + i - pixel, _mm_srli_epi64(packed, 32), pixel);
        c = b;
        raw = next;
    }
    a = paeth_pixel(raw, _mm_unpacklo_epi64(a, a), a, c);
    store(second + i - pixel, _mm_srli_epi64(_mm_packus_epi16(a, a), 32), pixel);
}

#define DEFINE(pixel)                                                                              \
    DEFINE_SUB(pixel)                                                                              \
    static TARGET void undo_average_##pixel(uint8_t *row, const uint8_t *above, size_t n)          \
    {                                                                                              \
        undo_average(row, above, n, pixel);                                                        \
    }                                                                                              \
    static TARGET void undo_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n)            \
    {                                                                                              \
        undo_paeth(row, above, n, pixel);                                                          \
    }

#define DEFINE_TWO(pixel)                                                                          \
    DEFINE(pixel)                                                                                  \
    static TARGET void undo_two_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n,        \
                                              size_t step)                                         \
    {                                                                                              \
        undo_two_paeth(row, above, n, step, pixel);                                                \
    }

DEFINE_TWO(1)
DEFINE_TWO(2)
DEFINE_TWO(3)
DEFINE_TWO(4)
DEFINE(6)
DEFINE(8)

#define ENTRY(pixel)                                                                               \
    [pixel] = {NULL, undo_sub_##pixel, undo_up, undo_average_##pixel, undo_paeth_##pixel}

const struct psti_unfilter_ops psti_unfilter_ops_avx2 = {
    .name = "avx2",
    .row = {ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(6), ENTRY(8)},
    .two_paeth = {NULL, undo_two_paeth_1, undo_two_paeth_2, undo_two_paeth_3, undo_two_paeth_4}};
#endif
