/* augment_kernels_avx2.c - the inner loops with AVX2 and F16C.
 *
 * In and out: see augment_kernels.h; plain C gives the same bits. Pure functions, any thread. The
 * horizontal pass takes four rows at once (two of one channel), one in each 128-bit lane, so that
 * weights are loaded once for all: a shuffle makes pairs of 16-bit samples (taps k and k + 1 of one
 * channel), a multiply-add sums them. */
#include "augment/augment_kernels.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,f16c")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,f16c")))

#define Z -1 /* a shuffle index that gives 0 */

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

INLINE __m256i two(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}

INLINE __m256i load_16(const uint8_t *a, const uint8_t *b)
{
    return two(_mm_loadu_si128((const __m128i *)(const void *)a),
               _mm_loadu_si128((const __m128i *)(const void *)b));
}

INLINE __m256i load_8(const uint8_t *a, const uint8_t *b)
{
    return two(_mm_loadl_epi64((const __m128i *)(const void *)a),
               _mm_loadl_epi64((const __m128i *)(const void *)b));
}

INLINE __m256i weight_pair(const void *weights)
{
    return _mm256_set1_epi32((int)psti_load_u32(weights));
}

INLINE __m256i both_lanes(__m128i v) { return _mm256_broadcastsi128_si256(v); }

/* Of 3 or 4 channels: the samples of a load's pixels 0 and 1 (half 0) or 2 and 3 (half 1) in
 * pairs. */
INLINE __m256i pairs_order(uint32_t channels, uint32_t half)
{
    if (channels == 3 && half == 0)
        return both_lanes(_mm_setr_epi8(0, Z, 3, Z, 1, Z, 4, Z, 2, Z, 5, Z, Z, Z, Z, Z));
    if (channels == 3)
        return both_lanes(_mm_setr_epi8(6, Z, 9, Z, 7, Z, 10, Z, 8, Z, 11, Z, Z, Z, Z, Z));
    if (half == 0)
        return both_lanes(_mm_setr_epi8(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z));
    return both_lanes(_mm_setr_epi8(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z, 15, Z));
}

/* Four sums of both lanes' rows, shifted, as four pixels. */
INLINE void store_pixels(uint8_t *a, uint8_t *b, const __m256i sums[4], uint32_t channels)
{
    const __m256i compress =
        both_lanes(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z));
    __m256i pixels = _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]),
                                         _mm256_packs_epi32(sums[2], sums[3]));
    if (channels == 3)
        pixels = _mm256_shuffle_epi8(pixels, compress);
    _mm_storeu_si128((__m128i *)(void *)a, _mm256_castsi256_si128(pixels));
    _mm_storeu_si128((__m128i *)(void *)b, _mm256_extracti128_si256(pixels, 1));
}

/* Of rows 0 and 1, of rows 2 and 3: sums of an output, or samples in pairs. */
struct four_rows {
    __m256i upper, lower;
};

INLINE void add_pairs(struct four_rows *sums, struct four_rows pairs, __m256i weights)
{
    sums->upper = _mm256_add_epi32(sums->upper, _mm256_madd_epi16(pairs.upper, weights));
    sums->lower = _mm256_add_epi32(sums->lower, _mm256_madd_epi16(pairs.lower, weights));
}

INLINE struct four_rows ordered(__m256i upper, __m256i lower, __m256i order)
{
    struct four_rows pairs = {_mm256_shuffle_epi8(upper, order), _mm256_shuffle_epi8(lower, order)};
    return pairs;
}

/* `sums` and the products of one window. */
INLINE struct four_rows window_sums(struct four_rows sums, const uint8_t *const *src, size_t offset,
                                    const int16_t *weights, uint32_t taps, uint32_t channels)
{
    const __m256i first = pairs_order(channels, 0), second = pairs_order(channels, 1);
    const uint8_t *a = src[0] + offset, *b = src[1] + offset;
    const uint8_t *c = src[2] + offset, *d = src[3] + offset;
    uint32_t k = 0;
    for (; k + 4 <= taps; k += 4) {
        __m256i upper = load_16(a, b), lower = load_16(c, d);
        add_pairs(&sums, ordered(upper, lower, first), weight_pair(weights + k));
        add_pairs(&sums, ordered(upper, lower, second), weight_pair(weights + k + 2));
        a += 4 * channels;
        b += 4 * channels;
        c += 4 * channels;
        d += 4 * channels;
    }
    if (k < taps)
        add_pairs(&sums, ordered(load_8(a, b), load_8(c, d), first), weight_pair(weights + k));
    return sums;
}

/* Outputs at[0..3] of four rows, put at output `i`. */
INLINE void four_pixels(uint8_t *const *dst, const uint8_t *const *src,
                        const struct psti_axis *axis, size_t i, const size_t at[4], uint32_t bias,
                        uint32_t taps, uint32_t channels)
{
    const __m256i round = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    __m256i upper[4], lower[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        struct four_rows sums = {round, round};
        sums = window_sums(sums, src, (size_t)(axis->start[at[j]] - bias) * channels,
                           axis->weights + at[j] * taps, taps, channels);
        upper[j] = _mm256_sra_epi32(sums.upper, shift);
        lower[j] = _mm256_sra_epi32(sums.lower, shift);
    }
    store_pixels(dst[0] + i * channels, dst[1] + i * channels, upper, channels);
    store_pixels(dst[2] + i * channels, dst[3] + i * channels, lower, channels);
}

/* The template for 3 and 4 channels; `taps` is a constant for the usual scales. Four outputs at
 * least; some are made twice where they are not a multiple of four. */
INLINE void resize_x_pixels(uint8_t *const *dst, const uint8_t *const *src,
                            const struct psti_axis *axis, uint32_t begin, uint32_t end,
                            uint32_t bias, uint32_t taps, uint32_t channels)
{
    /* Bytes are stored below: what is not a local would be read again each time. */
    const struct psti_axis own = *axis;
    const uint8_t *const from[4] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[4] = {dst[0], dst[1], dst[2], dst[3]};
    for (size_t i = begin, last = (size_t)end - 4;;) {
        const size_t at[4] = {i, i + 1, i + 2, i + 3};
        four_pixels(to, from, &own, i, at, bias, taps, channels);
        if (i == last)
            return;
        i = i + 4 < last ? i + 4 : last;
    }
}

/* One to three outputs. */
INLINE void resize_x_few(uint8_t *const *dst, const uint8_t *const *src,
                         const struct psti_axis *axis, uint32_t begin, uint32_t end, uint32_t bias,
                         uint32_t channels)
{
    const size_t last = (size_t)end - 1;
    const size_t at[4] = {begin, begin < last ? begin + 1 : last, last, last};
    four_pixels(dst, src, axis, begin, at, bias, axis->stride, channels);
}

TARGET static void resize_x_3(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    if (end - begin < 4)
        resize_x_few(dst, src, axis, begin, end, bias, 3);
    else if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 3);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 3);
    else if (axis->stride == 6)
        resize_x_pixels(dst, src, axis, begin, end, bias, 6, 3);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 3);
}

TARGET static void resize_x_4(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    if (end - begin < 4)
        resize_x_few(dst, src, axis, begin, end, bias, 4);
    else if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 4);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 4);
    else if (axis->stride == 6)
        resize_x_pixels(dst, src, axis, begin, end, bias, 6, 4);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 4);
}

/* Pixels 0 and 1 of four rows, in pairs. */
INLINE struct four_rows sweep_pairs(const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                    const uint8_t *d, uint32_t channels)
{
    return ordered(load_16(a, b), load_16(c, d), pairs_order(channels, 0));
}

/* The template of sweeps: sums of the windows of this output, the next and the next but one. */
INLINE void sweep_pixels(uint8_t *const *dst, const uint8_t *const *src,
                         const struct psti_axis *axis, const struct psti_sweep *sweep,
                         uint32_t channels)
{
    const __m256i round = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    const size_t offset = (size_t)sweep->first * channels;
    const uint8_t *a = src[0] + offset, *b = src[1] + offset;
    const uint8_t *c = src[2] + offset, *d = src[3] + offset;
    uint8_t *const to[4] = {dst[0], dst[1], dst[2], dst[3]};
    const ptrdiff_t step = (sweep->falls ? -2 : 2) * (ptrdiff_t)channels;
    const uint32_t *words = sweep->words, end = sweep->end;
    const struct four_rows none = {round, round};
    struct four_rows now = none, next = none;
    ptrdiff_t at = 0;
    for (uint32_t i = axis->safe_begin; i < end; i += 4) {
        __m256i upper[4], lower[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            struct four_rows later = none, pairs;
            if (i + j < end) {
                uint32_t n = *words++;
                do {
                    pairs = sweep_pairs(a + at, b + at, c + at, d + at, channels);
                    add_pairs(&now, pairs, weight_pair(words));
                    add_pairs(&next, pairs, weight_pair(words + 1));
                    words += 2;
                    at += step;
                } while (--n > 0);
                add_pairs(&later, pairs, weight_pair(words++));
            }
            upper[j] = _mm256_sra_epi32(now.upper, shift);
            lower[j] = _mm256_sra_epi32(now.lower, shift);
            now = next;
            next = later;
        }
        store_pixels(to[0] + (size_t)i * channels, to[1] + (size_t)i * channels, upper, channels);
        store_pixels(to[2] + (size_t)i * channels, to[3] + (size_t)i * channels, lower, channels);
    }
}

TARGET static void sweep_x_3(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep)
{
    sweep_pixels(dst, src, axis, sweep, 3);
}

TARGET static void sweep_x_4(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep)
{
    sweep_pixels(dst, src, axis, sweep, 4);
}

/* One channel: 8 taps of both rows at once, four outputs summed across together. */
TARGET static void resize_x_1(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    const __m256i round = _mm256_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    for (uint32_t i = begin; i < end; i += 4) {
        __m256i sums[4];
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            size_t offset = axis->start[at] - bias;
            const int16_t *weights = axis->weights + (size_t)at * axis->stride;
            sums[j] = _mm256_setzero_si256();
            for (uint32_t k = 0; k < axis->stride; k += 8) {
                __m128i a = _mm_cvtepu8_epi16(
                    _mm_loadl_epi64((const __m128i *)(const void *)(src[0] + offset + k)));
                __m128i b = _mm_cvtepu8_epi16(
                    _mm_loadl_epi64((const __m128i *)(const void *)(src[1] + offset + k)));
                __m256i w = _mm256_broadcastsi128_si256(
                    _mm_loadu_si128((const __m128i *)(const void *)(weights + k)));
                sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(two(a, b), w));
            }
        }
        __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]),
                                        _mm256_hadd_epi32(sums[2], sums[3]));
        sum = _mm256_sra_epi32(_mm256_add_epi32(sum, round), shift);
        sum = _mm256_packs_epi32(sum, sum);
        sum = _mm256_packus_epi16(sum, sum);
        psti_store_u32(dst[0] + i, (uint32_t)_mm256_extract_epi32(sum, 0));
        psti_store_u32(dst[1] + i, (uint32_t)_mm256_extract_epi32(sum, 4));
    }
}

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

TARGET static void resize_y(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                            uint32_t taps, uint32_t precision, size_t n)
{
    const __m256i round = _mm256_set1_epi32(1 << (precision - 1)), zero = _mm256_setzero_si256();
    const __m128i shift = _mm_cvtsi32_si128((int)precision);
    for (size_t i = 0; i < n; i += 32) {
        __m256i s0 = round, s1 = round, s2 = round, s3 = round;
        for (uint32_t k = 0; k < taps; k += 2) {
            __m256i w = weight_pair(weights + k);
            __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(rows[k] + i));
            __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(rows[k + 1] + i));
            __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
            s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_unpacklo_epi8(low, zero), w));
            s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_unpackhi_epi8(low, zero), w));
            s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(_mm256_unpacklo_epi8(high, zero), w));
            s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(_mm256_unpackhi_epi8(high, zero), w));
        }
        s0 = _mm256_packs_epi32(_mm256_sra_epi32(s0, shift), _mm256_sra_epi32(s1, shift));
        s2 = _mm256_packs_epi32(_mm256_sra_epi32(s2, shift), _mm256_sra_epi32(s3, shift));
        _mm256_storeu_si256((__m256i *)(void *)(dst + i), _mm256_packus_epi16(s0, s2));
    }
}

/* Order of samples
 * ------------------------------------------------------------------------------------ */

TARGET void psti_augment_reverse_1_avx2(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    const __m128i order = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(src + width - 16 - x));
        _mm_storeu_si128((__m128i *)(void *)(dst + x), _mm_shuffle_epi8(v, order));
    }
    psti_augment_reverse_1_c(dst + x, src, width - x);
}

/* Five pixels, the upper 15 bytes of a load. */
TARGET void psti_augment_reverse_3_avx2(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, Z);
    uint32_t left = width;
    for (; left >= 6; left -= 5) {
        const uint8_t *from = src + (size_t)left * 3 - 16;
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)from);
        _mm_storeu_si128((__m128i *)(void *)dst, _mm_shuffle_epi8(v, order));
        dst += 15;
    }
    psti_augment_reverse_3_c(dst, src, left);
}

TARGET void psti_augment_reverse_4_avx2(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 4 <= width; x += 4) {
        const uint8_t *from = src + ((size_t)width - 4 - x) * 4;
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)from);
        _mm_storeu_si128((__m128i *)(void *)(dst + (size_t)x * 4), _mm_shuffle_epi32(v, 0x1b));
    }
    psti_augment_reverse_4_c(dst + (size_t)x * 4, src, width - x);
}

/* Three loads of 16 bytes hold 16 pixels: each plane takes its bytes from all three. */
TARGET void psti_augment_split_3_avx2(uint8_t *const *planes, const uint8_t *src, uint32_t width)
{
    const __m128i order[3][3] = {
        {_mm_setr_epi8(0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 1, 4, 7, 10, 13)},
        {_mm_setr_epi8(1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14)},
        {_mm_setr_epi8(2, 5, 8, 11, 14, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, 1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15)},
    };
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        const __m128i *from = (const __m128i *)(const void *)(src + (size_t)x * 3);
        __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        __m128i d = _mm_loadu_si128(from + 2);
        for (int c = 0; c < 3; c++) {
            __m128i v =
                _mm_or_si128(_mm_shuffle_epi8(a, order[c][0]), _mm_shuffle_epi8(b, order[c][1]));
            v = _mm_or_si128(v, _mm_shuffle_epi8(d, order[c][2]));
            _mm_storeu_si128((__m128i *)(void *)(planes[c] + x), v);
        }
    }
    uint8_t *const rest[3] = {planes[0] + x, planes[1] + x, planes[2] + x};
    psti_augment_split_3_c(rest, src + (size_t)x * 3, width - x);
}

/* Conversion
 * ------------------------------------------------------------------------------------------ */

INLINE __m256 eight_floats(const uint8_t *src, const float *scale, const float *offset)
{
    __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)src);
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    return _mm256_add_ps(_mm256_mul_ps(v, _mm256_loadu_ps(scale)), _mm256_loadu_ps(offset));
}

/* 24 elements are a whole number of patterns of 1..4 channels. */
TARGET static void to_f32(void *dst, const uint8_t *src, size_t n, const float *scale,
                          const float *offset)
{
    unsigned char *to = dst;
    size_t i = 0, k = 0;
    for (; i + 24 <= n; i += 24) {
        __m256 a = eight_floats(src + i, scale, offset);
        __m256 b = eight_floats(src + i + 8, scale + 8, offset + 8);
        __m256 c = eight_floats(src + i + 16, scale + 16, offset + 16);
        unsigned char *at = to + 4 * i;
        _mm256_storeu_ps((float *)(void *)at, a);
        _mm256_storeu_ps((float *)(void *)(at + 32), b);
        _mm256_storeu_ps((float *)(void *)(at + 64), c);
    }
    for (; i + 8 <= n; i += 8, k += 8)
        _mm256_storeu_ps((float *)(void *)(to + 4 * i),
                         eight_floats(src + i, scale + k, offset + k));
    psti_augment_ops_c.to_f32(to + 4 * i, src + i, n - i, scale + k, offset + k);
}

TARGET void psti_augment_to_f16_avx2(void *dst, const uint8_t *src, size_t n, const float *scale,
                                     const float *offset)
{
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + 24 <= n; i += 24) {
        for (int k = 0; k < 24; k += 8) {
            __m256 v = eight_floats(src + i + k, scale + k, offset + k);
            _mm_storeu_si128((__m128i *)(void *)(to + 2 * (i + (size_t)k)),
                             _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
        }
    }
    psti_augment_ops_c.to_f16(to + 2 * i, src + i, n - i, scale, offset);
}

/* bits + 0x7fff + the bit that stays last, upper half. The values are finite. */
TARGET static void to_bf16(void *dst, const uint8_t *src, size_t n, const float *scale,
                           const float *offset)
{
    const __m256i half = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1);
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + 24 <= n; i += 24) {
        for (int k = 0; k < 24; k += 8) {
            __m256i v = _mm256_castps_si256(eight_floats(src + i + k, scale + k, offset + k));
            __m256i odd = _mm256_and_si256(_mm256_srli_epi32(v, 16), one);
            v = _mm256_srli_epi32(_mm256_add_epi32(v, _mm256_add_epi32(half, odd)), 16);
            __m128i packed =
                _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
            _mm_storeu_si128((__m128i *)(void *)(to + 2 * (i + (size_t)k)), packed);
        }
    }
    psti_augment_ops_c.to_bf16(to + 2 * i, src + i, n - i, scale, offset);
}

const struct psti_augment_ops psti_augment_ops_avx2 = {
    .name = "avx2",
    .lanes = {1, 2, 1, 4, 4},
    .resize_x = {NULL, resize_x_1, psti_augment_resize_x_2_c, resize_x_3, resize_x_4},
    .sweep_x = {NULL, NULL, NULL, sweep_x_3, sweep_x_4},
    .resize_y = resize_y,
    .reverse = {NULL, psti_augment_reverse_1_avx2, psti_augment_reverse_2_c,
                psti_augment_reverse_3_avx2, psti_augment_reverse_4_avx2},
    .split = {NULL, NULL, psti_augment_split_2_c, psti_augment_split_3_avx2,
              psti_augment_split_4_c},
    .to_f32 = to_f32,
    .to_f16 = psti_augment_to_f16_avx2,
    .to_bf16 = to_bf16,
};
#endif
