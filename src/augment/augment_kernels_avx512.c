/* augment_kernels_avx512.c - the inner loops with AVX-512 (F, BW, DQ, VL).
 *
 * In and out: see augment_kernels.h; plain C gives the same bits. Pure functions, any thread. As
 * with AVX2, but the horizontal pass takes four rows at once, one in each 128-bit lane. Tests
 * compile this file against SIMDe (base/avx512.h), so that it is run on machines without
 * AVX-512 too. */
#include "augment/augment_kernels.h"

#if defined(__x86_64__)
#include "base/avx512.h"
#include "base/bits.h"

#define Z ((char)-1) /* a shuffle index that gives 0 */

PSTI_AVX512_INLINE __m128i load_128(const void *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}
PSTI_AVX512_INLINE __m128i load_64(const void *from)
{
    return _mm_loadl_epi64((const __m128i *)from);
}

PSTI_AVX512_INLINE __m512i four(__m128i a, __m128i b, __m128i c, __m128i d)
{
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

PSTI_AVX512_INLINE __m512i weight_pair(const int16_t *weights)
{
    return _mm512_set1_epi32((int)psti_load_u32(weights));
}

/* One pixel of 3 or 4 channels of four rows: 4 sums of 32 bits in each lane. */
PSTI_AVX512_INLINE __m512i pixel_sums(const uint8_t *const *src, size_t offset,
                                      const int16_t *weights, uint32_t taps, uint32_t channels,
                                      __m512i first, __m512i second, __m512i sum)
{
    const uint8_t *a = src[0] + offset, *b = src[1] + offset;
    const uint8_t *c = src[2] + offset, *d = src[3] + offset;
    uint32_t k = 0;
    for (; k + 4 <= taps; k += 4) {
        size_t at = (size_t)k * channels;
        __m512i v = four(load_128(a + at), load_128(b + at), load_128(c + at), load_128(d + at));
        __m512i low = _mm512_shuffle_epi8(v, first), high = _mm512_shuffle_epi8(v, second);
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(low, weight_pair(weights + k)));
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(high, weight_pair(weights + k + 2)));
    }
    if (k < taps) {
        size_t at = (size_t)k * channels;
        __m512i v = four(load_64(a + at), load_64(b + at), load_64(c + at), load_64(d + at));
        __m512i low = _mm512_shuffle_epi8(v, first);
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(low, weight_pair(weights + k)));
    }
    return sum;
}

PSTI_AVX512_INLINE __m512i every_lane(__m128i v) { return _mm512_broadcast_i32x4(v); }

PSTI_AVX512_INLINE void store_lanes(uint8_t *const *dst, size_t to, __m512i v)
{
    _mm_storeu_si128((__m128i *)(void *)(dst[0] + to), _mm512_extracti32x4_epi32(v, 0));
    _mm_storeu_si128((__m128i *)(void *)(dst[1] + to), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(void *)(dst[2] + to), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(void *)(dst[3] + to), _mm512_extracti32x4_epi32(v, 3));
}

/* The template for 3 and 4 channels; `taps` is a constant for the usual scales. */
PSTI_AVX512_INLINE void resize_x_pixels(uint8_t *const *dst, const uint8_t *const *src,
                                        const struct psti_axis *axis, uint32_t begin, uint32_t end,
                                        uint32_t bias, uint32_t taps, uint32_t channels)
{
    const __m512i first =
        every_lane(channels == 3 ? _mm_setr_epi8(0, Z, 3, Z, 1, Z, 4, Z, 2, Z, 5, Z, Z, Z, Z, Z)
                                 : _mm_setr_epi8(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z));
    const __m512i second = every_lane(
        channels == 3 ? _mm_setr_epi8(6, Z, 9, Z, 7, Z, 10, Z, 8, Z, 11, Z, Z, Z, Z, Z)
                      : _mm_setr_epi8(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z, 15, Z));
    const __m512i compress =
        every_lane(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z));
    const __m512i round = _mm512_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    const uint32_t *start =
        axis->start; /* bytes are stored below: as members they would be read again each time */
    const int16_t *all_weights = axis->weights;
    const uint8_t *const rows[4] = {src[0], src[1], src[2], src[3]};
    for (uint32_t i = begin; i < end; i += 4) {
        __m512i sums[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            size_t offset = (size_t)(start[at] - bias) * channels;
            const int16_t *weights = all_weights + (size_t)at * taps;
            sums[j] = pixel_sums(rows, offset, weights, taps, channels, first, second, round);
            sums[j] = _mm512_sra_epi32(sums[j], shift);
        }
        __m512i pixels = _mm512_packus_epi16(_mm512_packs_epi32(sums[0], sums[1]),
                                             _mm512_packs_epi32(sums[2], sums[3]));
        if (channels == 3)
            pixels = _mm512_shuffle_epi8(pixels, compress);
        store_lanes(dst, (size_t)i * channels, pixels);
    }
}

PSTI_AVX512_TARGET static void resize_x_3(uint8_t *const *dst, const uint8_t *const *src,
                                          const struct psti_axis *axis, uint32_t begin,
                                          uint32_t end, uint32_t bias)
{
    if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 3);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 3);
    else if (axis->stride == 6)
        resize_x_pixels(dst, src, axis, begin, end, bias, 6, 3);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 3);
}

PSTI_AVX512_TARGET static void resize_x_4(uint8_t *const *dst, const uint8_t *const *src,
                                          const struct psti_axis *axis, uint32_t begin,
                                          uint32_t end, uint32_t bias)
{
    if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 4);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 4);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 4);
}

/* One channel: 8 taps of four rows; the four sums of a lane are added across by two rounds of
 * shuffles, as the 512-bit instructions have no horizontal addition. */
PSTI_AVX512_TARGET static void resize_x_1(uint8_t *const *dst, const uint8_t *const *src,
                                          const struct psti_axis *axis, uint32_t begin,
                                          uint32_t end, uint32_t bias)
{
    const __m512i round = _mm512_set1_epi32(1 << (axis->precision - 1));
    const __m128i shift = _mm_cvtsi32_si128((int)axis->precision);
    for (uint32_t i = begin; i < end; i += 4) {
        __m512i s[4];
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            size_t offset = axis->start[at] - bias;
            const int16_t *weights = axis->weights + (size_t)at * axis->stride;
            s[j] = _mm512_setzero_si512();
            for (uint32_t k = 0; k < axis->stride; k += 8) {
                __m512i v = four(_mm_cvtepu8_epi16(load_64(src[0] + offset + k)),
                                 _mm_cvtepu8_epi16(load_64(src[1] + offset + k)),
                                 _mm_cvtepu8_epi16(load_64(src[2] + offset + k)),
                                 _mm_cvtepu8_epi16(load_64(src[3] + offset + k)));
                s[j] =
                    _mm512_add_epi32(s[j], _mm512_madd_epi16(v, every_lane(load_128(weights + k))));
            }
        }
        __m512i a =
            _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]), _mm512_unpackhi_epi32(s[0], s[1]));
        __m512i b =
            _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]), _mm512_unpackhi_epi32(s[2], s[3]));
        __m512i sum = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        sum = _mm512_sra_epi32(_mm512_add_epi32(sum, round), shift);
        sum = _mm512_packs_epi32(sum, sum);
        sum = _mm512_packus_epi16(sum, sum);
        store_lanes(dst, i, sum);
    }
}

PSTI_AVX512_TARGET static void resize_y(uint8_t *dst, const uint8_t *const *rows,
                                        const int16_t *weights, uint32_t taps, uint32_t precision,
                                        size_t n)
{
    const __m512i round = _mm512_set1_epi32(1 << (precision - 1)), zero = _mm512_setzero_si512();
    const __m128i shift = _mm_cvtsi32_si128((int)precision);
    for (size_t i = 0; i < n; i += 64) {
        __m512i s0 = round, s1 = round, s2 = round, s3 = round;
        for (uint32_t k = 0; k < taps; k += 2) {
            __m512i w = weight_pair(weights + k);
            __m512i a = _mm512_loadu_si512((const void *)(rows[k] + i));
            __m512i b = _mm512_loadu_si512((const void *)(rows[k + 1] + i));
            __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
            s0 = _mm512_add_epi32(s0, _mm512_madd_epi16(_mm512_unpacklo_epi8(low, zero), w));
            s1 = _mm512_add_epi32(s1, _mm512_madd_epi16(_mm512_unpackhi_epi8(low, zero), w));
            s2 = _mm512_add_epi32(s2, _mm512_madd_epi16(_mm512_unpacklo_epi8(high, zero), w));
            s3 = _mm512_add_epi32(s3, _mm512_madd_epi16(_mm512_unpackhi_epi8(high, zero), w));
        }
        s0 = _mm512_packs_epi32(_mm512_sra_epi32(s0, shift), _mm512_sra_epi32(s1, shift));
        s2 = _mm512_packs_epi32(_mm512_sra_epi32(s2, shift), _mm512_sra_epi32(s3, shift));
        _mm512_storeu_si512((void *)(dst + i), _mm512_packus_epi16(s0, s2));
    }
}

PSTI_AVX512_INLINE __m512 sixteen_floats(const uint8_t *src, const float *scale,
                                         const float *offset)
{
    __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(src)));
    return _mm512_add_ps(_mm512_mul_ps(v, _mm512_loadu_ps(scale)), _mm512_loadu_ps(offset));
}

PSTI_AVX512_TARGET static void to_f32(void *dst, const uint8_t *src, size_t n, const float *scale,
                                      const float *offset)
{
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + 48 <= n; i += 48) {
        for (int k = 0; k < 48; k += 16)
            _mm512_storeu_ps((void *)(to + 4 * (i + (size_t)k)),
                             sixteen_floats(src + i + k, scale + k, offset + k));
    }
    psti_augment_ops_c.to_f32(to + 4 * i, src + i, n - i, scale, offset);
}

PSTI_AVX512_TARGET static void to_bf16(void *dst, const uint8_t *src, size_t n, const float *scale,
                                       const float *offset)
{
    const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1);
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + 48 <= n; i += 48) {
        for (int k = 0; k < 48; k += 16) {
            __m512i v = _mm512_castps_si512(sixteen_floats(src + i + k, scale + k, offset + k));
            __m512i odd = _mm512_and_si512(_mm512_srli_epi32(v, 16), one);
            v = _mm512_srli_epi32(_mm512_add_epi32(v, _mm512_add_epi32(half, odd)), 16);
            _mm256_storeu_si256((__m256i *)(void *)(to + 2 * (i + (size_t)k)),
                                _mm512_cvtepi32_epi16(v));
        }
    }
    psti_augment_ops_c.to_bf16(to + 2 * i, src + i, n - i, scale, offset);
}

const struct psti_augment_ops psti_augment_ops_avx512 = {
    .name = "avx512",
    .lanes = {1, 4, 1, 4, 4},
    .resize_x = {NULL, resize_x_1, psti_augment_resize_x_2_c, resize_x_3, resize_x_4},
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
