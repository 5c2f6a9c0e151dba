/* pli_jpeg_rows_avx512.c - rows of samples -> rows of pixels with AVX-512 (VBMI, VNNI).
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. 64 samples a
 * step; the last one of a row overlaps the one before it. Interpolation one way needs no 16
 * bits: averages of averages are exact. Colour is bound by the two ports for vectors: 55 operations
 * for 64 pixels, 9 of them permutations (docs/internals/cpu-decode.md has what mca says). Tests
 * compile this file against SIMDe (base/avx512.h). */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include "pli/decode/x86/pli_rgb_avx512.h"

#include <string.h>

enum { STEP = 64 };

PSTI_ICL_INLINE __m512i load(const uint8_t *p) { return _mm512_loadu_si512((const void *)p); }
PSTI_ICL_INLINE void store(uint8_t *p, __m512i v) { _mm512_storeu_si512((void *)p, v); }

/* -- Interpolation -- */

/* (3 near + far + 2) >> 2: the average, rounded up, of near and the average, rounded down. */
PSTI_ICL_INLINE __m512i three_to_one_up(__m512i near, __m512i far)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i odd = _mm512_ternarylogic_epi32(near, far, one, 0x28); /* (near ^ far) & one */
    return _mm512_avg_epu8(near, _mm512_sub_epi8(_mm512_avg_epu8(near, far), odd));
}

/* (3 near + far + 1) >> 2: the same with the roundings exchanged. */
PSTI_ICL_INLINE __m512i three_to_one_down(__m512i near, __m512i far)
{
    const __m512i one = _mm512_set1_epi8(1);
    __m512i middle = _mm512_avg_epu8(near, far);
    __m512i odd = _mm512_ternarylogic_epi32(near, middle, one, 0x28);
    return _mm512_sub_epi8(_mm512_avg_epu8(near, middle), odd);
}

/* Vectors whose 128-bit parts take turns: `lo` has the first one. */
PSTI_ICL_INLINE void store_parts(uint8_t *out, __m512i lo, __m512i hi)
{
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    store(out, _mm512_permutex2var_epi64(lo, first, hi));
    store(out + STEP, _mm512_permutex2var_epi64(lo, second, hi));
}

PSTI_ICL_TARGET static void h2(const uint8_t *in, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STEP) {
        __m512i here = load(in + i);
        __m512i even = three_to_one_down(here, load(in + (ptrdiff_t)i - 1));
        __m512i odd = three_to_one_up(here, load(in + i + 1));
        store_parts(out + 2 * (size_t)i, _mm512_unpacklo_epi8(even, odd),
                    _mm512_unpackhi_epi8(even, odd));
    }
}

PSTI_ICL_TARGET static void v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out,
                               uint32_t n)
{
    if (bias == 1)
        for (uint32_t i = 0; i < n; i += STEP)
            store(out + i, three_to_one_down(load(near + i), load(far + i)));
    else
        for (uint32_t i = 0; i < n; i += STEP)
            store(out + i, three_to_one_up(load(near + i), load(far + i)));
}

/* 64 samples as sums of 16 bits: of the lower and of the upper halves of 128-bit parts. */
struct sums {
    __m512i lo, hi;
};
/* a * (the lower byte of `weights`) + b * (the upper one). */
PSTI_ICL_INLINE struct sums weighted(__m512i a, __m512i b, __m512i weights)
{
    return (struct sums){_mm512_maddubs_epi16(_mm512_unpacklo_epi8(a, b), weights),
                         _mm512_maddubs_epi16(_mm512_unpackhi_epi8(a, b), weights)};
}

/* (left + here + 8) >> 4 in the lower bytes, (right + here + 7) >> 4 in the upper ones. `here` has
 * the 8. */
PSTI_ICL_INLINE __m512i in_turn(__m512i here, __m512i left, __m512i right)
{
    const __m512i upper = _mm512_set1_epi16((short)0xFF00), minus_1 = _mm512_set1_epi16(-1);
    __m512i even = _mm512_srli_epi16(_mm512_add_epi16(here, left), 4);
    __m512i odd = _mm512_add_epi16(_mm512_add_epi16(here, minus_1), right);
    return _mm512_ternarylogic_epi32(upper, _mm512_slli_epi16(odd, 4), even, 0xCA);
}

/* As pli_jpeg_rows_avx2.c has it: 9 near[i] + 3 far[i] + 3 near[i +- 1] + far[i +- 1]. */
PSTI_ICL_TARGET static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    const __m512i nine_three = _mm512_set1_epi16(9 | 3 << 8);
    const __m512i three_one = _mm512_set1_epi16(3 | 1 << 8), eight = _mm512_set1_epi16(8);
    for (uint32_t i = 0; i < n; i += STEP) {
        ptrdiff_t at = (ptrdiff_t)i;
        struct sums here = weighted(load(near + at), load(far + at), nine_three);
        struct sums left = weighted(load(near + at - 1), load(far + at - 1), three_one);
        struct sums right = weighted(load(near + at + 1), load(far + at + 1), three_one);
        here.lo = _mm512_add_epi16(here.lo, eight);
        here.hi = _mm512_add_epi16(here.hi, eight);
        store_parts(out + 2 * at, in_turn(here.lo, left.lo, right.lo),
                    in_turn(here.hi, left.hi, right.hi));
    }
}

/* -- Colour -- */

/* What is added to Y, of 32 pixels, given Cb - 128 and Cr - 128: pli_jpeg_rows_avx2.c says why 16
 * bits are enough for red and blue. */
PSTI_ICL_INLINE __m512i to_red(__m512i r)
{
    return _mm512_add_epi16(r, _mm512_mulhrs_epi16(r, _mm512_set1_epi16(13173)));
}
PSTI_ICL_INLINE __m512i to_blue(__m512i b)
{
    return _mm512_add_epi16(_mm512_add_epi16(b, b),
                            _mm512_mulhrs_epi16(b, _mm512_set1_epi16(-7471)));
}
PSTI_ICL_INLINE __m512i to_green(__m512i b, __m512i r)
{
    const __m512i k = _mm512_set1_epi32((int)((uint32_t)(uint16_t)-22554 | (uint32_t)18734 << 16));
    const __m512i half = _mm512_set1_epi32(32768);
    __m512i lo = _mm512_dpwssd_epi32(half, _mm512_unpacklo_epi16(b, r), k);
    __m512i hi = _mm512_dpwssd_epi32(half, _mm512_unpackhi_epi16(b, r), k);
    lo = _mm512_srai_epi32(lo, 16);
    hi = _mm512_srai_epi32(hi, 16);
    return _mm512_sub_epi16(_mm512_packs_epi32(lo, hi), r);
}

PSTI_ICL_INLINE void ycc_step(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out)
{
    const __m512i zero = _mm512_setzero_si512(), middle = _mm512_set1_epi16(128);
    __m512i y8 = load(y), b8 = load(cb), r8 = load(cr);
    __m512i y0 = _mm512_unpacklo_epi8(y8, zero), y1 = _mm512_unpackhi_epi8(y8, zero);
    __m512i b0 = _mm512_sub_epi16(_mm512_unpacklo_epi8(b8, zero), middle);
    __m512i b1 = _mm512_sub_epi16(_mm512_unpackhi_epi8(b8, zero), middle);
    __m512i r0 = _mm512_sub_epi16(_mm512_unpacklo_epi8(r8, zero), middle);
    __m512i r1 = _mm512_sub_epi16(_mm512_unpackhi_epi8(r8, zero), middle);
    __m512i red =
        _mm512_packus_epi16(_mm512_add_epi16(y0, to_red(r0)), _mm512_add_epi16(y1, to_red(r1)));
    __m512i green = _mm512_packus_epi16(_mm512_add_epi16(y0, to_green(b0, r0)),
                                        _mm512_add_epi16(y1, to_green(b1, r1)));
    __m512i blue =
        _mm512_packus_epi16(_mm512_add_epi16(y0, to_blue(b0)), _mm512_add_epi16(y1, to_blue(b1)));
    psti_pli_store_rgb_avx512(out, red, green, blue);
}

PSTI_ICL_INLINE void step(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, bool ycc,
                          uint8_t *out)
{
    if (ycc)
        ycc_step(c0, c1, c2, out);
    else
        psti_pli_store_rgb_avx512(out, load(c0), load(c1), load(c2));
}

PSTI_ICL_INLINE void row(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, bool ycc,
                         uint8_t *out, uint32_t n)
{
    if (n < STEP) {
        uint8_t few[STEP * 3];
        step(c0, c1, c2, ycc, few);
        memcpy(out, few, (size_t)n * 3);
        return;
    }
    for (uint32_t x = 0; x < n; x += STEP) {
        size_t at = x + STEP <= n ? x : n - STEP; /* the last step makes some pixels again */
        step(c0 + at, c1 + at, c2 + at, ycc, out + at * 3);
    }
}

PSTI_ICL_TARGET static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr,
                                    uint8_t *out, uint32_t n)
{
    row(y, cb, cr, true, out, n);
}

PSTI_ICL_TARGET static void plain_rgb(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2,
                                      uint8_t *out, uint32_t n)
{
    row(c0, c1, c2, false, out, n);
}

const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_avx512 = {
    .h2 = h2, .h2v2 = h2v2, .v2 = v2, .ycc_rgb = ycc_rgb, .plain_rgb = plain_rgb};
#endif
