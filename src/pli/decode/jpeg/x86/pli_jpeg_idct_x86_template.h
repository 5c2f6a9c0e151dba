/* pli_jpeg_idct_x86_template.h - the inverse DCT by sums of pairs of products, of 16 or 32 blocks.
 * It is the code that AVX2 and AVX-512 share below pli_jpeg_idct_template.h, which this file
 * includes.
 *
 * Besides TARGET, INLINE, VECTOR, LANES, MASK, load(), store(), above(), choose() a level defines:
 *
 *     OP(name)         the intrinsic `name` of that width
 *     bits_of(mask)                          returns 0 if no lane is chosen, UINT32_MAX if all are
 *     pair(a, b)                             returns two factors of 16 bits, by turns
 *     add_products(sums, pairs, factors)     returns sums + the sums of pairs' products, of 32 bits
 *     plus_minus(sums, pairs, a, b, &minus)  returns sums + products of pairs by a and b, and sets
 *                                            `minus` to sums - products */
#include <string.h>

struct work {
    VECTOR in[64];                 /* dequantised coefficients, [8 * row + column] */
    VECTOR half[64];               /* values after the transform of the columns */
    uint8_t samples[8][8 * LANES]; /* rows of LANES blocks, in the order of store_lanes() */
    uint16_t order[LANES];
    uint8_t *to[LANES];
    size_t stride;
    uint32_t n;
};

INLINE VECTOR set_pairs(uint32_t two) { return OP(set1_epi32)((int)two); }
INLINE VECTOR multiply(VECTOR a, VECTOR b) { return OP(mullo_epi16)(a, b); }
INLINE bool is_none(MASK mask) { return bits_of(mask) == 0; }
INLINE bool is_all(MASK mask) { return bits_of(mask) == UINT32_MAX; }

/* Computes the even part: sums of inputs 0, 2, 4, 6, with `bias`. Inputs from n on are zeros. */
INLINE void even_part(VECTOR i04, VECTOR i26, int n, VECTOR bias, VECTOR out[4])
{
    VECTOR t0 = add_products(bias, i04, pair(8192, 8192)), t1 = t0;
    if (n > 4)
        t1 = add_products(bias, i04, pair(8192, -8192));
    out[0] = out[3] = t0;
    out[1] = out[2] = t1;
    if (n > 2) {
        out[0] = plus_minus(t0, i26, 10703, 4433, &out[3]);
        out[1] = plus_minus(t1, i26, 4433, -10704, &out[2]);
    }
}

/* The even part of the lower and of the upper lanes. An output is the even part plus the odd part,
 * and its mirror image is the even part minus the odd part. */
struct sums {
    VECTOR lo, hi;
};
INLINE VECTOR finish(VECTOR lo, VECTOR hi, int shift)
{
    return OP(packs_epi32)(OP(srai_epi32)(lo, shift), OP(srai_epi32)(hi, shift));
}
INLINE VECTOR odd_part(VECTOR i13, VECTOR i57, int n, VECTOR k13, VECTOR k57)
{
    VECTOR sum = OP(madd_epi16)(i13, k13);
    return n > 5 ? add_products(sum, i57, k57) : sum;
}
INLINE void two_outputs(struct sums even, const VECTOR i13[2], const VECTOR i57[2], int n,
                        VECTOR k13, VECTOR k57, int shift, VECTOR *out, VECTOR *mirrored)
{
    VECTOR lo = odd_part(i13[0], i57[0], n, k13, k57);
    VECTOR hi = odd_part(i13[1], i57[1], n, k13, k57);
    *out = finish(OP(add_epi32)(even.lo, lo), OP(add_epi32)(even.hi, hi), shift);
    *mirrored = finish(OP(sub_epi32)(even.lo, lo), OP(sub_epi32)(even.hi, hi), shift);
}

/* Computes eight outputs of n inputs, which are `step` apart: (sum + bias) >> shift, clamped to 16
 * bits. */
INLINE void transform(const VECTOR *in, int step, int n, VECTOR bias, int shift, VECTOR out[8])
{
    const VECTOR zero = OP(set1_epi32)(0);
    VECTOR lo[4], hi[4];
    VECTOR i1 = n > 1 ? in[step] : zero, i3 = n > 3 ? in[3 * step] : zero;
    VECTOR i2 = n > 2 ? in[2 * step] : zero, i4 = n > 4 ? in[4 * step] : zero;
    VECTOR i5 = n > 5 ? in[5 * step] : zero, i6 = n > 6 ? in[6 * step] : zero;
    VECTOR i7 = n > 7 ? in[7 * step] : zero;
    even_part(OP(unpacklo_epi16)(in[0], i4), OP(unpacklo_epi16)(i2, i6), n, bias, lo);
    even_part(OP(unpackhi_epi16)(in[0], i4), OP(unpackhi_epi16)(i2, i6), n, bias, hi);
    const VECTOR i13[2] = {OP(unpacklo_epi16)(i1, i3), OP(unpackhi_epi16)(i1, i3)};
    const VECTOR i57[2] = {OP(unpacklo_epi16)(i5, i7), OP(unpackhi_epi16)(i5, i7)};
    two_outputs((struct sums){lo[0], hi[0]}, i13, i57, n, pair(11363, 9633), pair(6437, 2260),
                shift, &out[0], &out[7]);
    two_outputs((struct sums){lo[1], hi[1]}, i13, i57, n, pair(9633, -2259), pair(-11362, -6436),
                shift, &out[1], &out[6]);
    two_outputs((struct sums){lo[2], hi[2]}, i13, i57, n, pair(6437, -11362), pair(2261, 9633),
                shift, &out[2], &out[5]);
    two_outputs((struct sums){lo[3], hi[3]}, i13, i57, n, pair(2260, -6436), pair(9633, -11363),
                shift, &out[3], &out[4]);
}

INLINE VECTOR four_times(VECTOR v)
{
    v = OP(adds_epi16)(v, v);
    return OP(adds_epi16)(v, v);
}

INLINE void transform_column(const VECTOR *in, int n, VECTOR out[8])
{
    transform(in, 8, n, OP(set1_epi32)(1 << 10), 11, out);
}

TARGET static void store_lanes(const struct work *work)
{
    size_t stride = work->stride;
    for (uint32_t i = 0; i < work->n; i++) {
        const uint8_t *from =
            work->samples[0] + (i >> 1 & 3) * (2 * LANES) + (i >> 3) * 16 + (i & 1) * 8;
        uint8_t *to = work->to[i];
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, from + y * sizeof work->samples[0], 8);
    }
}

/* Transforms rows of n values and stores samples. The eight samples of a block's row lie together.
 * The order of 16 blocks is 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15. The order of 32 blocks is 0 1 8
 * 9 16 17 24 25 2 3 and so on. */
INLINE void rows(struct work *work, int n)
{
    /* 128 is added before the shift. The magnitudes of the sums are still below 2^31. */
    const VECTOR bias = OP(set1_epi32)((1 << 17) + (128 << 18));
#pragma GCC unroll 1
    for (int y = 0; y < 8; y++) {
        VECTOR o[8];
        transform(work->half + 8 * y, 1, n, bias, 18, o);
        VECTOR b04 = OP(packus_epi16)(o[0], o[4]), b15 = OP(packus_epi16)(o[1], o[5]);
        VECTOR b26 = OP(packus_epi16)(o[2], o[6]), b37 = OP(packus_epi16)(o[3], o[7]);
        VECTOR b01 = OP(unpacklo_epi8)(b04, b15), b45 = OP(unpackhi_epi8)(b04, b15);
        VECTOR b23 = OP(unpacklo_epi8)(b26, b37), b67 = OP(unpackhi_epi8)(b26, b37);
        VECTOR l03 = OP(unpacklo_epi16)(b01, b23), h03 = OP(unpackhi_epi16)(b01, b23);
        VECTOR l47 = OP(unpacklo_epi16)(b45, b67), h47 = OP(unpackhi_epi16)(b45, b67);
        VECTOR *to = (VECTOR *)(void *)work->samples[y];
        store(to, OP(unpacklo_epi32)(l03, l47));
        store(to + 1, OP(unpackhi_epi32)(l03, l47));
        store(to + 2, OP(unpacklo_epi32)(h03, h47));
        store(to + 3, OP(unpackhi_epi32)(h03, h47));
    }
    store_lanes(work);
}

#define FLAT_AT(i) ((i) + ((i) & ~7u))
INLINE void store_flat(uint8_t to[2 * LANES], VECTOR dc)
{
    VECTOR v = OP(srai_epi16)(OP(adds_epi16)(dc, OP(set1_epi16)(4)), 3);
    v = OP(packs_epi16)(v, v); /* each eight bytes, and the same eight bytes again */
    store(to, OP(sub_epi8)(v, OP(set1_epi8)(INT8_MIN)));
}

/* Computes four outputs of four inputs, `step` apart, as pli_jpeg_small.c does. */
INLINE void transform_4(const VECTOR *in, int step, VECTOR bias, int shift, VECTOR out[4])
{
    const VECTOR i02[2] = {OP(unpacklo_epi16)(in[0], in[2 * step]),
                           OP(unpackhi_epi16)(in[0], in[2 * step])};
    const VECTOR i13[2] = {OP(unpacklo_epi16)(in[step], in[3 * step]),
                           OP(unpackhi_epi16)(in[step], in[3 * step])};
    VECTOR plus[2], minus[2];
    for (int i = 0; i < 2; i++)
        plus[i] = plus_minus(add_products(bias, i02[i], pair(8192, 8192)), i13[i], 10703, 4433,
                             &minus[i]);
    out[0] = finish(plus[0], plus[1], shift);
    out[3] = finish(minus[0], minus[1], shift);
    for (int i = 0; i < 2; i++)
        plus[i] = plus_minus(add_products(bias, i02[i], pair(8192, -8192)), i13[i], 4433, -10703,
                             &minus[i]);
    out[1] = finish(plus[0], plus[1], shift);
    out[2] = finish(minus[0], minus[1], shift);
}

INLINE void small_column(struct work *work, int u)
{
    VECTOR o[4];
    transform_4(work->in + u, 8, OP(set1_epi32)(1 << 10), 11, o);
#pragma GCC unroll 4
    for (int y = 0; y < 4; y++)
        work->half[8 * y + u] = o[y];
}

/* The four samples of a block's row lie together. The order of 16 blocks is 0..3 8..11 4..7 12..15.
 * The order of 32 blocks is 0..3 8..11 16..19 24..27 4..7 and so on. */
#define SMALL_AT(i) (((i) >> 2 & 1) * (2 * LANES) + ((i) >> 3) * 16 + ((i)&3) * 4)
INLINE void small_row(struct work *work, int y)
{
    VECTOR o[4];
    transform_4(work->half + 8 * y, 1, OP(set1_epi32)((1 << 17) + (128 << 18)), 18, o);
    VECTOR b02 = OP(packus_epi16)(o[0], o[2]), b13 = OP(packus_epi16)(o[1], o[3]);
    VECTOR b01 = OP(unpacklo_epi8)(b02, b13), b23 = OP(unpackhi_epi8)(b02, b13);
    VECTOR *to = (VECTOR *)(void *)work->samples[y];
    store(to, OP(unpacklo_epi16)(b01, b23));
    store(to + 1, OP(unpackhi_epi16)(b01, b23));
}

#include "pli/decode/jpeg/pli_jpeg_idct_template.h"
