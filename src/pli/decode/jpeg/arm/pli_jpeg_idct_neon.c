/* pli_jpeg_idct_neon.c - turns coefficients into samples with NEON, 8 blocks at once:
 * pli_jpeg_idct_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. Rows of samples are stored from registers directly to their places.
 * Eight inputs of four blocks take 20 multiplications of four lanes. They limit the transform on
 * cores that do one per cycle; on other cores about as many other operations are the limit.
 */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)
#include <assert.h>

#define TARGET
#define INLINE PSTI_NEON_INLINE
#define VECTOR int16x8_t
#define MASK uint16x8_t

enum { LANES = 8 };

struct work {
    int16x8_t in[64];              /* dequantised coefficients, indexed by [8 * row + column] */
    int16x8_t half[64];            /* values after the transform of the columns */
    uint8_t samples[4][4 * LANES]; /* samples of blocks of 4x4 */
    uint16_t order[LANES];
    uint8_t *to[LANES];
    size_t stride;
    uint32_t n;
};

INLINE int16x8_t load(const int16_t *from) { return vld1q_s16(from); }
INLINE void store(int16_t *to, int16x8_t v) { vst1q_s16(to, v); }
INLINE int16x8_t set_pairs(uint32_t two) { return vreinterpretq_s16_u32(vdupq_n_u32(two)); }
INLINE int16x8_t multiply(int16x8_t a, int16x8_t b) { return vmulq_s16(a, b); }
INLINE uint16x8_t above(int16x8_t a, int16x8_t b) { return vcgtq_s16(a, b); }
INLINE int16x8_t choose(uint16x8_t mask, int16x8_t no, int16x8_t yes)
{
    return vbslq_s16(mask, yes, no);
}
/* If no lane of a mask is set, its largest lane is 0. If all lanes are set, its smallest lane is
 * 65535. */
INLINE bool is_none(uint16x8_t mask) { return vmaxvq_u16(mask) == 0; }
INLINE bool is_all(uint16x8_t mask) { return vminvq_u16(mask) == UINT16_MAX; }

/* -- Transforms -- */

/* The factors of the transform. Multiplications name a factor by its number. */
static const int16_t factors[16] = {11363,  9633,  6437,  2260,   10703,  4433, -10704,
                                    -10703, -2259, -6436, -11362, -11363, 2261};
enum {
    F_11363,
    F_9633,
    F_6437,
    F_2260,
    F_10703,
    F_4433,
    F_MINUS_10704,
    F_MINUS_10703,
    F_MINUS_2259,
    F_MINUS_6436,
    F_MINUS_11362,
    F_MINUS_11363,
    F_2261
};
struct factors {
    int16x8_t low, high;
};
INLINE struct factors load_factors(void)
{
    return (struct factors){vld1q_s16(factors), vld1q_s16(factors + 8)};
}

/* The sums of 8 lanes, 32 bits each. */
struct sums {
    int32x4_t lo, hi;
};

/* TIMES multiplies v by factor number i, and PLUS_TIMES adds that to sums. They are macros because
 * the number of a lane must be a constant. They use a variable `f`, the factors. */
#define HALF_OF(i) ((i) < 8 ? f.low : f.high)
#define TIMES(v, i)                                                                                \
    ((struct sums){vmull_laneq_s16(vget_low_s16(v), HALF_OF(i), (i)&7),                            \
                   vmull_high_laneq_s16(v, HALF_OF(i), (i)&7)})
#define PLUS_TIMES(s, v, i)                                                                        \
    ((struct sums){vmlal_laneq_s16((s).lo, vget_low_s16(v), HALF_OF(i), (i)&7),                    \
                   vmlal_high_laneq_s16((s).hi, v, HALF_OF(i), (i)&7)})

INLINE struct sums plus(struct sums a, struct sums b)
{
    return (struct sums){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)};
}
INLINE struct sums minus(struct sums a, struct sums b)
{
    return (struct sums){vsubq_s32(a.lo, b.lo), vsubq_s32(a.hi, b.hi)};
}
INLINE struct sums times_8192(struct sums a)
{
    return (struct sums){vshlq_n_s32(a.lo, 13), vshlq_n_s32(a.hi, 13)};
}

/* Returns (sum + 2^10) >> 11, clamped. */
INLINE int16x8_t finish_column(struct sums s)
{
    return vcombine_s16(vqrshrn_n_s32(s.lo, 11), vqrshrn_n_s32(s.hi, 11));
}

/* Returns (sum + 2^17) >> 18, clamped to 8 bits. The shift goes in two parts; the 16 bits that the
 * first part drops do not change the result. */
INLINE int8x8_t finish_row(struct sums s)
{
    int16x8_t high = vuzp2q_s16(vreinterpretq_s16_s32(s.lo), vreinterpretq_s16_s32(s.hi));
    return vqrshrn_n_s16(high, 2);
}

/* The next two functions return the sum and the difference of inputs 0 and 4, times 8192. */
INLINE struct sums sum_of(int16x8_t i0, int16x8_t i4)
{
    return times_8192(
        (struct sums){vaddl_s16(vget_low_s16(i0), vget_low_s16(i4)), vaddl_high_s16(i0, i4)});
}
INLINE struct sums difference_of(int16x8_t i0, int16x8_t i4)
{
    return times_8192(
        (struct sums){vsubl_s16(vget_low_s16(i0), vget_low_s16(i4)), vsubl_high_s16(i0, i4)});
}

/* Computes the even part: sums of inputs 0, 2, 4, 6, which are `step` apart. Inputs from n on are
 * zeros. */
INLINE void even_part(const int16x8_t *in, int step, int n, struct factors f, struct sums out[4])
{
    struct sums t0, t1;
    if (n > 4) {
        t0 = sum_of(in[0], in[4 * step]);
        t1 = difference_of(in[0], in[4 * step]);
    } else {
        t0 = t1 = (struct sums){vshll_n_s16(vget_low_s16(in[0]), 13), vshll_high_n_s16(in[0], 13)};
    }
    out[0] = out[3] = t0;
    out[1] = out[2] = t1;
    if (n > 2) {
        int16x8_t i2 = in[2 * step];
        struct sums t2 = TIMES(i2, F_4433), t3 = TIMES(i2, F_10703);
        if (n > 6) {
            int16x8_t i6 = in[6 * step];
            t2 = PLUS_TIMES(t2, i6, F_MINUS_10704);
            t3 = PLUS_TIMES(t3, i6, F_4433);
        }
        out[0] = plus(t0, t3);
        out[3] = minus(t0, t3);
        out[1] = plus(t1, t2);
        out[2] = minus(t1, t2);
    }
}

/* Computes an odd part: the sum of inputs 1, 3, 5, 7 times their factors. */
#define ODD_PART(s, f1, f3, f5, f7)                                                                \
    s = TIMES(i1, f1);                                                                             \
    if (n > 3)                                                                                     \
        s = PLUS_TIMES(s, i3, f3);                                                                 \
    if (n > 5)                                                                                     \
        s = PLUS_TIMES(s, i5, f5);                                                                 \
    if (n > 7)                                                                                     \
    s = PLUS_TIMES(s, i7, f7)

/* Computes eight sums of n inputs, 2..8, which are `step` apart. */
INLINE void transform(const int16x8_t *in, int step, int n, struct factors f, struct sums out[8])
{
    struct sums even[4], odd;
    even_part(in, step, n, f, even);
    int16x8_t i1 = in[step], i3 = i1, i5 = i1, i7 = i1;
    if (n > 3)
        i3 = in[3 * step];
    if (n > 5)
        i5 = in[5 * step];
    if (n > 7)
        i7 = in[7 * step];
    ODD_PART(odd, F_11363, F_9633, F_6437, F_2260);
    out[0] = plus(even[0], odd);
    out[7] = minus(even[0], odd);
    ODD_PART(odd, F_9633, F_MINUS_2259, F_MINUS_11362, F_MINUS_6436);
    out[1] = plus(even[1], odd);
    out[6] = minus(even[1], odd);
    ODD_PART(odd, F_6437, F_MINUS_11362, F_2261, F_9633);
    out[2] = plus(even[2], odd);
    out[5] = minus(even[2], odd);
    ODD_PART(odd, F_2260, F_MINUS_6436, F_9633, F_MINUS_11363);
    out[3] = plus(even[3], odd);
    out[4] = minus(even[3], odd);
}

INLINE int16x8_t four_times(int16x8_t v) { return vqshlq_n_s16(v, 2); }

INLINE void transform_column(const int16x8_t *in, int n, int16x8_t out[8])
{
    struct sums sums[8];
    transform(in, 8, n, load_factors(), sums);
#pragma GCC unroll 8
    for (int y = 0; y < 8; y++)
        out[y] = finish_column(sums[y]);
}

/* Returns two outputs of a row as samples. The first output is in the lower half. */
INLINE uint8x16_t two_samples(struct sums a, struct sums b)
{
    uint8x16_t v = vreinterpretq_u8_s8(vcombine_s8(finish_row(a), finish_row(b)));
    return veorq_u8(v, vdupq_n_u8(128));
}

INLINE void store_two(uint8_t *first, uint8_t *second, uint32x4_t v)
{
    vst1_u8(second, vreinterpret_u8_u32(vget_high_u32(v)));
    vst1_u8(first, vreinterpret_u8_u32(vget_low_u32(v)));
}

/* Stores the outputs of a row of 8 blocks as samples in their places. Lanes without a block are
 * stored to the place of the first block, which is stored last. */
INLINE void store_row(const struct sums o[8], uint8_t *const to[LANES], size_t offset)
{
    uint8x16_t b04 = two_samples(o[0], o[4]), b15 = two_samples(o[1], o[5]);
    uint8x16_t b26 = two_samples(o[2], o[6]), b37 = two_samples(o[3], o[7]);
    uint16x8_t b01 = vreinterpretq_u16_u8(vzip1q_u8(b04, b15));
    uint16x8_t b45 = vreinterpretq_u16_u8(vzip2q_u8(b04, b15));
    uint16x8_t b23 = vreinterpretq_u16_u8(vzip1q_u8(b26, b37));
    uint16x8_t b67 = vreinterpretq_u16_u8(vzip2q_u8(b26, b37));
    uint32x4_t l03 = vreinterpretq_u32_u16(vzip1q_u16(b01, b23));
    uint32x4_t h03 = vreinterpretq_u32_u16(vzip2q_u16(b01, b23));
    uint32x4_t l47 = vreinterpretq_u32_u16(vzip1q_u16(b45, b67));
    uint32x4_t h47 = vreinterpretq_u32_u16(vzip2q_u16(b45, b67));
    store_two(to[6] + offset, to[7] + offset, vzip2q_u32(h03, h47));
    store_two(to[4] + offset, to[5] + offset, vzip1q_u32(h03, h47));
    store_two(to[2] + offset, to[3] + offset, vzip2q_u32(l03, l47));
    store_two(to[0] + offset, to[1] + offset, vzip1q_u32(l03, l47));
}

INLINE void rows(const struct work *work, int n)
{
    const struct factors f = load_factors();
    const size_t stride = work->stride;
    uint8_t *const to[LANES] = {work->to[0], work->to[1], work->to[2], work->to[3],
                                work->to[4], work->to[5], work->to[6], work->to[7]};
#pragma GCC unroll 1
    for (size_t y = 0; y < 8; y++) {
        struct sums out[8];
        transform(work->half + 8 * y, 1, n, f, out);
        store_row(out, to, y * stride);
    }
}

#define FLAT_AT(i) (i)
INLINE void store_flat(uint8_t *to, int16x8_t dc)
{
    vst1_u8(to, veor_u8(vreinterpret_u8_s8(vqrshrn_n_s16(dc, 3)), vdup_n_u8(128)));
}

/* Computes four sums of four inputs, `step` apart, as pli_jpeg_small.c does. */
INLINE void transform_4(const int16x8_t *in, int step, struct factors f, struct sums out[4])
{
    int16x8_t i1 = in[step], i3 = in[3 * step];
    struct sums a = sum_of(in[0], in[2 * step]), b = difference_of(in[0], in[2 * step]);
    struct sums c = TIMES(i1, F_10703), d = TIMES(i1, F_4433);
    c = PLUS_TIMES(c, i3, F_4433);
    d = PLUS_TIMES(d, i3, F_MINUS_10703);
    out[0] = plus(a, c);
    out[3] = minus(a, c);
    out[1] = plus(b, d);
    out[2] = minus(b, d);
}

INLINE void small_column(struct work *work, int u)
{
    struct sums o[4];
    transform_4(work->in + u, 8, load_factors(), o);
#pragma GCC unroll 4
    for (int y = 0; y < 4; y++)
        work->half[8 * y + u] = finish_column(o[y]);
}

#define SMALL_AT(i) (4 * (i))
INLINE void small_row(struct work *work, int y)
{
    struct sums o[4];
    transform_4(work->half + (ptrdiff_t)8 * y, 1, load_factors(), o);
    uint8x16_t b02 = two_samples(o[0], o[2]), b13 = two_samples(o[1], o[3]);
    uint16x8_t b01 = vreinterpretq_u16_u8(vzip1q_u8(b02, b13));
    uint16x8_t b23 = vreinterpretq_u16_u8(vzip2q_u8(b02, b13));
    vst1q_u8(work->samples[y], vreinterpretq_u8_u16(vzip1q_u16(b01, b23)));
    vst1q_u8(work->samples[y] + 16, vreinterpretq_u8_u16(vzip2q_u16(b01, b23)));
}

#include "pli/decode/jpeg/pli_jpeg_idct_template.h"

void psti_pli_jpeg_idct_neon(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    const struct unit unit = open_unit(blocks);
    assert(blocks->all);
    all_blocks(&unit, work);
}
#endif
