/* pli_jpeg_rows_avx2.c - rows of samples -> rows of pixels with AVX2.
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. 32 samples a
 * step; the pixels of a last, shorter step go through a buffer. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "pli/decode/x86/pli_rgb_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { STEP = 32 };

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const void *)p); }
INLINE void store(uint8_t *p, __m256i v) { _mm256_storeu_si256((void *)p, v); }

/* 32 samples as sums of 16 bits: 0..7 and 16..23, and 8..15 and 24..31. */
struct sums {
    __m256i lo, hi;
};

/* a * (the lower byte of `weights`) + b * (the upper one). */
INLINE struct sums weighted(__m256i a, __m256i b, __m256i weights)
{
    return (struct sums){_mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), weights),
                         _mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), weights)};
}
INLINE __m256i weights(int a, int b) { return _mm256_set1_epi16((short)(a | b << 8)); }

INLINE struct sums plus(struct sums a, struct sums b)
{
    return (struct sums){_mm256_add_epi16(a.lo, b.lo), _mm256_add_epi16(a.hi, b.hi)};
}

INLINE struct sums rounded(struct sums a, int bias, int shift)
{
    const __m256i v = _mm256_set1_epi16((short)bias);
    return (struct sums){_mm256_srli_epi16(_mm256_add_epi16(a.lo, v), shift),
                         _mm256_srli_epi16(_mm256_add_epi16(a.hi, v), shift)};
}

/* Samples in turn: 32 of `even`, 32 of `odd`, each below 256. */
INLINE void store_in_turn(uint8_t *out, struct sums even, struct sums odd)
{
    __m256i lo = _mm256_or_si256(even.lo, _mm256_slli_epi16(odd.lo, 8));
    __m256i hi = _mm256_or_si256(even.hi, _mm256_slli_epi16(odd.hi, 8));
    store(out, _mm256_permute2x128_si256(lo, hi, 0x20));
    store(out + STEP, _mm256_permute2x128_si256(lo, hi, 0x31));
}

TARGET static void h2(const uint8_t *in, uint8_t *out, uint32_t n)
{
    const __m256i three_one = weights(3, 1);
    for (uint32_t i = 0; i < n; i += STEP) {
        __m256i here = load(in + i);
        struct sums even = weighted(here, load(in + (ptrdiff_t)i - 1), three_one);
        struct sums odd = weighted(here, load(in + i + 1), three_one);
        store_in_turn(out + 2 * i, rounded(even, 1, 2), rounded(odd, 2, 2));
    }
}

/* (3 q[i] + q[i +- 1]) with q = 3 near + far is 9 near[i] + 3 far[i] + 3 near[i +- 1] + far[i +-
 * 1].
 */
TARGET static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    const __m256i nine_three = weights(9, 3), three_one = weights(3, 1);
    for (uint32_t i = 0; i < n; i += STEP) {
        ptrdiff_t left = (ptrdiff_t)i - 1;
        struct sums here = weighted(load(near + i), load(far + i), nine_three);
        struct sums even = weighted(load(near + left), load(far + left), three_one);
        struct sums odd = weighted(load(near + i + 1), load(far + i + 1), three_one);
        store_in_turn(out + 2 * i, rounded(plus(here, even), 8, 4), rounded(plus(here, odd), 7, 4));
    }
}

TARGET static void v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out,
                      uint32_t n)
{
    const __m256i three_one = weights(3, 1);
    for (uint32_t i = 0; i < n; i += STEP) {
        struct sums v = rounded(weighted(load(near + i), load(far + i), three_one), (int)bias, 2);
        store(out + i, _mm256_packus_epi16(v.lo, v.hi));
    }
}

/* What is added to Y, of 16 pixels, given Cb - 128 and Cr - 128. Sums are of 32 bits for green
 * alone: for red (91881 r + 32768) >> 16 is r plus the rounded high half of r * 13173, for all
 * r of 8 bits, and for blue (116130 b + 32768) >> 16 is 2 b minus that of b * 7471. */
INLINE __m256i to_red(__m256i r)
{
    return _mm256_add_epi16(r, _mm256_mulhrs_epi16(r, _mm256_set1_epi16(13173)));
}
INLINE __m256i to_blue(__m256i b)
{
    return _mm256_add_epi16(_mm256_add_epi16(b, b),
                            _mm256_mulhrs_epi16(b, _mm256_set1_epi16(-7471)));
}
INLINE __m256i to_green(__m256i b, __m256i r)
{
    /* -46802 does not fit 16 bits: 65536 of it are a subtraction of r. */
    const __m256i k = _mm256_set1_epi32((int)((uint32_t)(uint16_t)-22554 | (uint32_t)18734 << 16));
    const __m256i half = _mm256_set1_epi32(32768);
    __m256i lo = _mm256_madd_epi16(_mm256_unpacklo_epi16(b, r), k);
    __m256i hi = _mm256_madd_epi16(_mm256_unpackhi_epi16(b, r), k);
    lo = _mm256_srai_epi32(_mm256_add_epi32(lo, half), 16);
    hi = _mm256_srai_epi32(_mm256_add_epi32(hi, half), 16);
    return _mm256_sub_epi16(_mm256_packs_epi32(lo, hi), r);
}

INLINE void ycc_step(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out)
{
    const __m256i zero = _mm256_setzero_si256(), middle = _mm256_set1_epi16(128);
    __m256i y8 = load(y), b8 = load(cb), r8 = load(cr);
    __m256i y0 = _mm256_unpacklo_epi8(y8, zero), y1 = _mm256_unpackhi_epi8(y8, zero);
    __m256i b0 = _mm256_sub_epi16(_mm256_unpacklo_epi8(b8, zero), middle);
    __m256i b1 = _mm256_sub_epi16(_mm256_unpackhi_epi8(b8, zero), middle);
    __m256i r0 = _mm256_sub_epi16(_mm256_unpacklo_epi8(r8, zero), middle);
    __m256i r1 = _mm256_sub_epi16(_mm256_unpackhi_epi8(r8, zero), middle);
    __m256i red =
        _mm256_packus_epi16(_mm256_add_epi16(y0, to_red(r0)), _mm256_add_epi16(y1, to_red(r1)));
    __m256i green = _mm256_packus_epi16(_mm256_add_epi16(y0, to_green(b0, r0)),
                                        _mm256_add_epi16(y1, to_green(b1, r1)));
    __m256i blue =
        _mm256_packus_epi16(_mm256_add_epi16(y0, to_blue(b0)), _mm256_add_epi16(y1, to_blue(b1)));
    psti_pli_store_rgb(out, red, green, blue);
}

TARGET static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                           uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        ycc_step(y + x, cb + x, cr + x, out + (size_t)x * 3);
    if (x < n) {
        uint8_t last[STEP * 3];
        ycc_step(y + x, cb + x, cr + x, last);
        memcpy(out + (size_t)x * 3, last, (size_t)(n - x) * 3);
    }
}

TARGET static void plain_rgb(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                             uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        psti_pli_store_rgb(out + (size_t)x * 3, load(c0 + x), load(c1 + x), load(c2 + x));
    if (x < n) {
        uint8_t last[STEP * 3];
        psti_pli_store_rgb(last, load(c0 + x), load(c1 + x), load(c2 + x));
        memcpy(out + (size_t)x * 3, last, (size_t)(n - x) * 3);
    }
}

const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_avx2 = {
    .h2 = h2, .h2v2 = h2v2, .v2 = v2, .ycc_rgb = ycc_rgb, .plain_rgb = plain_rgb};
#endif
