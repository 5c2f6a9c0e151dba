/* pli_jpeg_rows_x86_template.h - the code that AVX2 and AVX-512 share below
 * pli_jpeg_rows_template.h, which this file includes.
 *
 * Besides TARGET, INLINE, VECTOR, STEP, TABLE, load(), store() and store_rgb() a level defines:
 *
 *     OP(name)                  the intrinsic `name` of that width
 *     odd_bits(a, b)            returns (a ^ b) & 1, byte by byte
 *     odd_bytes(even, odd)      returns the upper byte of each 16 bits of `odd`, the lower of
 * `even` store_parts(to, lo, hi)   stores 128-bit parts by turns; the first one is of `lo`
 *     add_products(sums, a, b)  returns sums + the sums of products of pairs, of 32 bits */

/* Returns (3 near + far + 1) >> 2: the rounded-down average of `near` and the rounded-up average of
 * `near` and `far`. */
INLINE VECTOR three_to_one_down(VECTOR near, VECTOR far)
{
    VECTOR middle = OP(avg_epu8)(near, far);
    return OP(sub_epi8)(OP(avg_epu8)(near, middle), odd_bits(near, middle));
}

/* Returns (3 near + far + 2) >> 2: the rounded-up average of `near` and the rounded-down average of
 * `near` and `far`. */
INLINE VECTOR three_to_one_up(VECTOR near, VECTOR far)
{
    VECTOR middle = OP(sub_epi8)(OP(avg_epu8)(near, far), odd_bits(near, far));
    return OP(avg_epu8)(near, middle);
}

INLINE void store_in_turn(uint8_t *to, VECTOR even, VECTOR odd)
{
    store_parts(to, OP(unpacklo_epi8)(even, odd), OP(unpackhi_epi8)(even, odd));
}

/* -- Interpolation in both directions -- */

/* Sums of 16 bits for STEP samples: of the lower and of the upper halves of 128-bit parts. */
struct sums {
    VECTOR lo, hi;
};

/* Returns a * (the lower byte of `weights`) + b * (the upper byte). */
INLINE struct sums weighted(VECTOR a, VECTOR b, VECTOR weights)
{
    return (struct sums){OP(maddubs_epi16)(OP(unpacklo_epi8)(a, b), weights),
                         OP(maddubs_epi16)(OP(unpackhi_epi8)(a, b), weights)};
}

/* Returns (left + here + 8) >> 4 in the lower bytes, and (right + here + 7) >> 4 in the upper ones.
 */
INLINE VECTOR in_turn(VECTOR here, VECTOR left, VECTOR right)
{
    here = OP(add_epi16)(here, OP(set1_epi16)(8));
    VECTOR even = OP(srli_epi16)(OP(add_epi16)(here, left), 4);
    VECTOR odd = OP(add_epi16)(OP(add_epi16)(here, OP(set1_epi16)(-1)), right);
    return odd_bytes(even, OP(slli_epi16)(odd, 4));
}

/* With q = 3 near + far, 3 q[i] + q[i +- 1] is 9 near[i] + 3 far[i] + 3 near[i +- 1] + far[i +- 1].
 */
TARGET static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    const VECTOR nine_three = OP(set1_epi16)(9 | 3 << 8), three_one = OP(set1_epi16)(3 | 1 << 8);
    for (uint32_t i = 0; i < n; i += STEP) {
        ptrdiff_t at = (ptrdiff_t)i;
        struct sums here = weighted(load(near + at), load(far + at), nine_three);
        struct sums left = weighted(load(near + at - 1), load(far + at - 1), three_one);
        struct sums right = weighted(load(near + at + 1), load(far + at + 1), three_one);
        store_parts(out + 2 * at, in_turn(here.lo, left.lo, right.lo),
                    in_turn(here.hi, left.hi, right.hi));
    }
}

/* -- Colour -- */

/* The next three functions return the terms that are added to Y, from Cb - 128 and Cr - 128 in 16
 * bits. Only green needs sums of 32 bits. For red, (91881 r + 32768) >> 16 is r plus the rounded
 * high half of r * 13173, for all r of 8 bits. For blue, (116130 b + 32768) >> 16 is 2 b minus the
 * rounded high half of b * 7471. */
INLINE VECTOR to_red(VECTOR r)
{
    return OP(add_epi16)(r, OP(mulhrs_epi16)(r, OP(set1_epi16)(13173)));
}
INLINE VECTOR to_blue(VECTOR b)
{
    return OP(add_epi16)(OP(add_epi16)(b, b), OP(mulhrs_epi16)(b, OP(set1_epi16)(-7471)));
}
INLINE VECTOR to_green(VECTOR b, VECTOR r)
{
    /* -46802 does not fit 16 bits. It is 18734 - 65536, and the product with -65536 is a
     * subtraction of r. */
    const VECTOR k = OP(set1_epi32)((int)((uint32_t)(uint16_t)-22554 | (uint32_t)18734 << 16));
    const VECTOR half = OP(set1_epi32)(32768);
    VECTOR lo = OP(srai_epi32)(add_products(half, OP(unpacklo_epi16)(b, r), k), 16);
    VECTOR hi = OP(srai_epi32)(add_products(half, OP(unpackhi_epi16)(b, r), k), 16);
    return OP(sub_epi16)(OP(packs_epi32)(lo, hi), r);
}

INLINE void make_rgb(VECTOR v[3])
{
    const VECTOR zero = OP(set1_epi32)(0), middle = OP(set1_epi16)(128);
    VECTOR y0 = OP(unpacklo_epi8)(v[0], zero), y1 = OP(unpackhi_epi8)(v[0], zero);
    VECTOR b0 = OP(sub_epi16)(OP(unpacklo_epi8)(v[1], zero), middle);
    VECTOR b1 = OP(sub_epi16)(OP(unpackhi_epi8)(v[1], zero), middle);
    VECTOR r0 = OP(sub_epi16)(OP(unpacklo_epi8)(v[2], zero), middle);
    VECTOR r1 = OP(sub_epi16)(OP(unpackhi_epi8)(v[2], zero), middle);
    v[0] = OP(packus_epi16)(OP(add_epi16)(y0, to_red(r0)), OP(add_epi16)(y1, to_red(r1)));
    v[1] =
        OP(packus_epi16)(OP(add_epi16)(y0, to_green(b0, r0)), OP(add_epi16)(y1, to_green(b1, r1)));
    v[2] = OP(packus_epi16)(OP(add_epi16)(y0, to_blue(b0)), OP(add_epi16)(y1, to_blue(b1)));
}

#include "pli/decode/jpeg/pli_jpeg_rows_template.h"
