/* pli_jpeg_idct_neon.c - coefficients -> samples with NEON.
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. A vector holds
 * one coefficient of 8 blocks, so that nothing is transposed before the samples are bytes; rows of
 * samples then go from registers to their places. Blocks come with the largest ends first: the end
 * of a group's first block says which coefficients are all zeros, and a variant of the transform
 * that leaves them out is taken. Where a part of the unit is wanted, its blocks are moved together
 * first. What bounds the transform is 20 multiplications of four lanes for eight inputs of four
 * blocks, on cores that do one a cycle, and about as many other operations elsewhere. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/neon.h"

#if defined(PSTI_NEON)
#include <string.h>

enum {
    LANES = 8,
    SMALL_LAST = 24, /* the last coefficient of 4x4 frequencies */
    CHUNK = 64,      /* blocks that are moved together at a time */
    ROOM =
        CHUNK + 2 * LANES /* of a plane of them: those left from before, and a store's overhang */
};

struct work {
    int16x8_t in[64];   /* dequantised, [8 * row + column] */
    int16x8_t half[64]; /* after the columns */
    int16_t planes[64][ROOM];
    uint16_t order[ROOM];
    uint8_t *to[LANES]; /* where the blocks of a group go */
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* 8 blocks, next to one another in each plane. */
struct group {
    const int16_t *planes;
    size_t stride;
    const uint16_t *order; /* 8 of them are readable */
    uint32_t n, last;      /* blocks; planes above `last` are zeros */
};

/* What is the same for all groups of a unit. */
struct unit {
    const struct psti_pli_jpeg_blocks *blocks;
    uint32_t last;       /* planes above it are not there, or not wanted */
    uint16x8_t after[2]; /* 64 * first square of components 1 and 2; of 2, none if both are
                            quantised alike, as they nearly always are */
};

/* -- Transforms -- */

/* Factors, and their numbers: the lanes of two vectors. */
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
PSTI_NEON_INLINE struct factors load_factors(void)
{
    return (struct factors){vld1q_s16(factors), vld1q_s16(factors + 8)};
}

/* Sums of 8 lanes. */
struct sums {
    int32x4_t lo, hi;
};

/* v times factor number i, and sums with that added; macros, as a lane is a constant. `f` is there.
 */
#define HALF_OF(i) ((i) < 8 ? f.low : f.high)
#define TIMES(v, i)                                                                                \
    ((struct sums){vmull_laneq_s16(vget_low_s16(v), HALF_OF(i), (i)&7),                            \
                   vmull_high_laneq_s16(v, HALF_OF(i), (i)&7)})
#define PLUS_TIMES(s, v, i)                                                                        \
    ((struct sums){vmlal_laneq_s16((s).lo, vget_low_s16(v), HALF_OF(i), (i)&7),                    \
                   vmlal_high_laneq_s16((s).hi, v, HALF_OF(i), (i)&7)})

PSTI_NEON_INLINE struct sums plus(struct sums a, struct sums b)
{
    return (struct sums){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)};
}
PSTI_NEON_INLINE struct sums minus(struct sums a, struct sums b)
{
    return (struct sums){vsubq_s32(a.lo, b.lo), vsubq_s32(a.hi, b.hi)};
}
PSTI_NEON_INLINE struct sums times_8192(struct sums a)
{
    return (struct sums){vshlq_n_s32(a.lo, 13), vshlq_n_s32(a.hi, 13)};
}

/* (sum + 2^10) >> 11, clamped. */
PSTI_NEON_INLINE int16x8_t finish_column(struct sums s)
{
    return vcombine_s16(vqrshrn_n_s32(s.lo, 11), vqrshrn_n_s32(s.hi, 11));
}

/* (sum + 2^17) >> 18, clamped to 8 bits: what the first 16 bits of the shift drop does not count.
 */
PSTI_NEON_INLINE int8x8_t finish_row(struct sums s)
{
    int16x8_t high = vuzp2q_s16(vreinterpretq_s16_s32(s.lo), vreinterpretq_s16_s32(s.hi));
    return vqrshrn_n_s16(high, 2);
}

/* Inputs 0 and 4 (zeros unless n > 4) -> their sum and difference. */
PSTI_NEON_INLINE struct sums sum_of(int16x8_t i0, int16x8_t i4)
{
    return times_8192(
        (struct sums){vaddl_s16(vget_low_s16(i0), vget_low_s16(i4)), vaddl_high_s16(i0, i4)});
}
PSTI_NEON_INLINE struct sums difference_of(int16x8_t i0, int16x8_t i4)
{
    return times_8192(
        (struct sums){vsubl_s16(vget_low_s16(i0), vget_low_s16(i4)), vsubl_high_s16(i0, i4)});
}

/* The even part: sums of inputs 0, 2, 4, 6, `step` apart, of which those from n on are zeros. */
PSTI_NEON_INLINE void even_part(const int16x8_t *in, int step, int n, struct factors f,
                                struct sums out[4])
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

/* An odd part: sums of inputs 1, 3, 5, 7 times their factors. */
#define ODD_PART(s, f1, f3, f5, f7)                                                                \
    s = TIMES(i1, f1);                                                                             \
    if (n > 3)                                                                                     \
        s = PLUS_TIMES(s, i3, f3);                                                                 \
    if (n > 5)                                                                                     \
        s = PLUS_TIMES(s, i5, f5);                                                                 \
    if (n > 7)                                                                                     \
    s = PLUS_TIMES(s, i7, f7)

/* Eight sums of n inputs, 2..8, `step` apart. */
PSTI_NEON_INLINE void transform(const int16x8_t *in, int step, int n, struct factors f,
                                struct sums out[8])
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

/* Column u, of which the first n rows are not zeros. */
PSTI_NEON_INLINE void column(struct work *work, int u, int n, struct factors f)
{
    if (n == 1) { /* 4 times the input, clamped */
        int16x8_t v = vqshlq_n_s16(work->in[u], 2);
#pragma GCC unroll 8
        for (int y = 0; y < 8; y++)
            work->half[8 * y + u] = v;
    } else {
        struct sums out[8];
        transform(work->in + u, 8, n, f, out);
#pragma GCC unroll 8
        for (int y = 0; y < 8; y++)
            work->half[8 * y + u] = finish_column(out[y]);
    }
}

/* Two outputs of a row as samples, the first in the lower half. */
PSTI_NEON_INLINE uint8x16_t two_samples(struct sums a, struct sums b)
{
    uint8x16_t v = vreinterpretq_u8_s8(vcombine_s8(finish_row(a), finish_row(b)));
    return veorq_u8(v, vdupq_n_u8(128));
}

PSTI_NEON_INLINE void store_two(uint8_t *first, uint8_t *second, uint32x4_t v)
{
    vst1_u8(second, vreinterpret_u8_u32(vget_high_u32(v)));
    vst1_u8(first, vreinterpret_u8_u32(vget_low_u32(v)));
}

/* Outputs of a row of 8 blocks -> samples in their places. What has no place of its own goes to
 * that of the first block, which is stored last. */
PSTI_NEON_INLINE void store_row(const struct sums o[8], uint8_t *const to[LANES], size_t offset)
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

/* Rows of n values -> samples. */
PSTI_NEON_INLINE void rows(const struct work *work, int n, size_t stride, struct factors f)
{
    uint8_t *const to[LANES] = {work->to[0], work->to[1], work->to[2], work->to[3],
                                work->to[4], work->to[5], work->to[6], work->to[7]};
#pragma GCC unroll 1
    for (size_t y = 0; y < 8; y++) {
        struct sums out[8];
        transform(work->half + 8 * y, 1, n, f, out);
        store_row(out, to, y * stride);
    }
}

/* Coefficients with row + column > d are zeros. */
PSTI_NEON_INLINE void column_up_to(struct work *work, int u, int d, struct factors f)
{
    if (d >= u)
        column(work, u, d - u + 1 > 8 ? 8 : d - u + 1, f);
}
PSTI_NEON_INLINE void up_to_diagonal(struct work *work, int d, size_t stride)
{
    const struct factors f = load_factors();
    column_up_to(work, 0, d, f);
    column_up_to(work, 1, d, f);
    column_up_to(work, 2, d, f);
    column_up_to(work, 3, d, f);
    column_up_to(work, 4, d, f);
    column_up_to(work, 5, d, f);
    column_up_to(work, 6, d, f);
    column_up_to(work, 7, d, f);
    rows(work, d + 1 > 8 ? 8 : d + 1, stride, f);
}

static void diagonal_1(struct work *work, size_t stride) { up_to_diagonal(work, 1, stride); }
static void diagonal_3(struct work *work, size_t stride) { up_to_diagonal(work, 3, stride); }
static void diagonal_5(struct work *work, size_t stride) { up_to_diagonal(work, 5, stride); }
static void diagonal_6(struct work *work, size_t stride) { up_to_diagonal(work, 6, stride); }
static void diagonal_7(struct work *work, size_t stride) { up_to_diagonal(work, 7, stride); }
static void diagonal_9(struct work *work, size_t stride) { up_to_diagonal(work, 9, stride); }
static void whole(struct work *work, size_t stride)
{
    const struct factors f = load_factors();
#pragma GCC unroll 1
    for (int u = 0; u < 8; u++)
        column(work, u, 8, f);
    rows(work, 8, stride, f);
}

/* The largest zigzag number up to each diagonal. */
static const struct {
    uint8_t last;
    void (*run)(struct work *work, size_t stride);
} variants[] = {{2, diagonal_1},  {9, diagonal_3},  {20, diagonal_5}, {27, diagonal_6},
                {35, diagonal_7}, {48, diagonal_9}, {63, whole}};

/* -- Groups -- */

PSTI_NEON_INLINE int16x8_t coefs_of(const struct group *group, uint32_t k)
{
    return vld1q_s16(group->planes + k * group->stride);
}

PSTI_NEON_INLINE int16_t quant_of(const struct unit *unit, uint32_t component, uint32_t k)
{
    return (int16_t)(uint16_t)unit->blocks->quants->twice[component][k];
}

/* Which lanes are of component 1 or above, and which of 2. */
struct components {
    uint16x8_t chroma, third;
};
PSTI_NEON_INLINE struct components components_of(const struct unit *unit, const struct group *group)
{
    uint16x8_t order = vld1q_u16(group->order);
    return (struct components){vcgeq_u16(order, unit->after[0]), vcgeq_u16(order, unit->after[1])};
}

PSTI_NEON_INLINE int16x8_t dequantised(const struct unit *unit, const struct group *group,
                                       uint32_t k, struct components which)
{
    int16x8_t q = vbslq_s16(which.chroma, vdupq_n_s16(quant_of(unit, 1, k)),
                            vdupq_n_s16(quant_of(unit, 0, k)));
    q = vbslq_s16(which.third, vdupq_n_s16(quant_of(unit, 2, k)), q);
    return vmulq_s16(coefs_of(group, k), q);
}

/* A mask of no lane has its largest one 0, one of all lanes its smallest one 65535. */
PSTI_NEON_INLINE bool has_none(uint16x8_t mask) { return vmaxvq_u16(mask) == 0; }
PSTI_NEON_INLINE bool has_all(uint16x8_t mask) { return vminvq_u16(mask) == UINT16_MAX; }

/* Planes 0..last of the group, dequantised, in their places, and zeros up to `limit`. */
PSTI_NEON_INLINE void load_group(const struct unit *unit, const struct group *group, uint32_t limit,
                                 struct work *work)
{
    struct components which = components_of(unit, group);
    bool none = has_none(which.chroma), no_third = has_none(which.third);
    if (none || (has_all(which.chroma) && (no_third || has_all(which.third)))) {
        uint32_t component = none ? 0 : no_third ? 1 : 2;
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] =
                vmulq_n_s16(coefs_of(group, k), quant_of(unit, component, k));
    } else {
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] = dequantised(unit, group, k, which);
    }
    for (uint32_t k = group->last + 1; k <= limit; k++)
        work->in[psti_jpeg_zigzag[k]] = vdupq_n_s16(0);
}

PSTI_NEON_INLINE uint8_t *place(const struct psti_pli_jpeg_blocks *blocks, uint32_t block)
{
    return blocks->samples + blocks->at[block >> 6] +
           (ptrdiff_t)((block >> 3 & 7) * blocks->edge * blocks->stride +
                       (block & 7) * blocks->edge);
}

/* Lanes without a block have the place of the first one. */
static void find_places(const struct unit *unit, const struct group *group, struct work *work)
{
    for (uint32_t l = 0; l < group->n; l++)
        work->to[l] = place(unit->blocks, group->order[l]);
    for (uint32_t l = group->n; l < LANES; l++)
        work->to[l] = work->to[0];
}

/* Blocks of one value: that of DC / 8, rounded. */
static void flat_group(const struct unit *unit, const struct group *group)
{
    int16x8_t dc = dequantised(unit, group, 0, components_of(unit, group));
    uint8x8_t v = veor_u8(vreinterpret_u8_s8(vqrshrn_n_s16(dc, 3)), vdup_n_u8(128));
    size_t stride = unit->blocks->stride;
    uint8_t values[LANES];
    vst1_u8(values, v);
    for (uint32_t l = 0; l < group->n; l++) {
        uint8x8_t eight = vdup_n_u8(values[l]);
        uint8_t *to = place(unit->blocks, group->order[l]);
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            vst1_u8(to + y * stride, eight);
    }
}

/* Four sums of four inputs, `step` apart, as pli_jpeg_small.c has them. */
PSTI_NEON_INLINE void transform_4(const int16x8_t *in, int step, struct factors f,
                                  struct sums out[4])
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

/* Blocks of 4x4 samples. */
static void small_group(const struct unit *unit, const struct group *group, struct work *work)
{
    const struct factors f = load_factors();
    size_t stride = unit->blocks->stride;
    struct sums o[4];
    load_group(unit, group, SMALL_LAST, work);
    find_places(unit, group, work);
    for (int u = 0; u < 4; u++) {
        transform_4(work->in + u, 8, f, o);
#pragma GCC unroll 4
        for (int y = 0; y < 4; y++)
            work->half[8 * y + u] = finish_column(o[y]);
    }
    for (size_t y = 0; y < 4; y++) {
        uint8_t samples[4 * LANES];
        transform_4(work->half + 8 * y, 1, f, o);
        uint8x16_t b02 = two_samples(o[0], o[2]), b13 = two_samples(o[1], o[3]);
        uint16x8_t b01 = vreinterpretq_u16_u8(vzip1q_u8(b02, b13));
        uint16x8_t b23 = vreinterpretq_u16_u8(vzip2q_u8(b02, b13));
        vst1q_u8(samples, vreinterpretq_u8_u16(vzip1q_u16(b01, b23)));
        vst1q_u8(samples + 16, vreinterpretq_u8_u16(vzip2q_u16(b01, b23)));
        for (uint32_t l = 0; l < group->n; l++)
            memcpy(work->to[l] + y * stride, samples + 4 * (size_t)l, 4);
    }
}

static void do_group(const struct unit *unit, const struct group *group, struct work *work)
{
    uint32_t i = 0;
    if (unit->blocks->edge == 4) {
        small_group(unit, group, work);
        return;
    }
    if (group->last == 0) {
        flat_group(unit, group);
        return;
    }
    while (variants[i].last < group->last)
        i++;
    find_places(unit, group, work);
    load_group(unit, group, variants[i].last, work);
    variants[i].run(work, unit->blocks->stride);
}

static void all_blocks(const struct unit *unit, struct work *work)
{
    const struct psti_pli_coefs *coefs = unit->blocks->coefs;
    struct group group = {.stride = coefs->stride, .n = LANES, .last = unit->last};
    for (uint32_t i = 0; i < coefs->n; i += LANES) {
        group.planes = coefs->planes + i;
        group.order = coefs->order + i;
        group.last = psti_pli_jpeg_end_at(coefs, i, group.last);
        if (coefs->n - i < LANES) { /* the list ends here: nothing behind it is read */
            group.n = coefs->n - i;
            memcpy(work->order, group.order, group.n * sizeof work->order[0]);
            group.order = work->order;
        }
        do_group(unit, &group, work);
    }
}

/* -- Some blocks -- */

/* Blocks that have been moved together: lanes 0..n-1 of work->planes. */
struct gathered {
    uint32_t n, last; /* planes above `last` are not there */
};

/* The index that moves those of eight 16-bit values together whose bit is set. */
PSTI_NEON_INLINE uint8x16_t moving_together(uint32_t mask)
{
    /* The numbers of a mask's ones, a byte each. */
    static const uint32_t ones[16] = {0x0,    0x0,      0x1,      0x0100,    0x2,    0x0200,
                                      0x0201, 0x020100, 0x3,      0x0300,    0x0301, 0x030100,
                                      0x0302, 0x030200, 0x030201, 0x03020100};
    uint32_t low = mask & 15, high = mask >> 4;
    uint32_t n_low = (uint32_t)__builtin_popcount(low);
    uint64_t numbers = ones[low] | (uint64_t)(ones[high] + 0x04040404) << (8 * n_low);
    uint16x8_t v = vmovl_u8(vcreate_u8(numbers & UINT64_C(0x0707070707070707)));
    return vreinterpretq_u8_u16(vmlaq_n_u16(vdupq_n_u16(0x0100), v, 0x0202));
}

/* Adds the wanted ones of the 64 blocks from list position i on, whose ends are at most `last`. */
static void gather(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t last,
                   struct gathered *g, struct work *work)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    uint64_t mask = psti_pli_jpeg_wanted_of(blocks, i, work->order + g->n);
    uint8x16_t indices[8];
    uint32_t offsets[8], n = g->n;
    for (int j = 0; j < 8; j++) {
        uint32_t eight = (uint32_t)(mask >> (8 * j)) & 255;
        indices[j] = moving_together(eight);
        offsets[j] = n;
        n += (uint32_t)__builtin_popcount(eight);
    }
    if (g->n == 0)
        g->last = last;
    for (uint32_t k = 0; k <= last && n > g->n; k++) {
        const uint8_t *from = (const uint8_t *)(coefs->planes + k * coefs->stride + i);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            vst1q_u8((uint8_t *)(work->planes[k] + offsets[j]),
                     vqtbl1q_u8(vld1q_u8(from + 16 * j), indices[j]));
    }
    for (uint32_t k = last + 1; k <= g->last; k++) /* blocks before these have more */
        memset(work->planes[k] + g->n, 0, CHUNK * sizeof work->planes[0][0]);
    g->n = n;
}

/* Whole groups of what has been gathered are done, the rest moves to the front. */
static void do_gathered(const struct unit *unit, uint32_t last, struct gathered *g,
                        struct work *work)
{
    uint32_t done = 0;
    for (; g->n - done >= LANES; done += LANES) {
        struct group group = {work->planes[0] + done, ROOM, work->order + done, LANES, g->last};
        do_group(unit, &group, work);
        g->last = last;
    }
    if (done == 0)
        return;
    g->n -= done;
    memmove(work->order, work->order + done, g->n * sizeof work->order[0]);
    for (uint32_t k = 0; k <= last && g->n > 0; k++)
        vst1q_s16(work->planes[k], vld1q_s16(work->planes[k] + done));
}

static void some_blocks(const struct unit *unit, struct work *work)
{
    const struct psti_pli_coefs *coefs = unit->blocks->coefs;
    struct gathered g = {0, unit->last};
    uint32_t last = unit->last;
    for (uint32_t i = 0; i < coefs->n; i += CHUNK) {
        last = psti_pli_jpeg_end_at(coefs, i, last);
        gather(unit->blocks, i, last, &g, work);
        do_gathered(unit, last, &g, work);
    }
    if (g.n > 0) {
        struct group group = {work->planes[0], ROOM, work->order, g.n, g.last};
        do_group(unit, &group, work);
    }
}

void psti_pli_jpeg_idct_neon(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    struct unit unit = {.blocks = blocks, .last = blocks->coefs->last};
    if (blocks->edge == 4 && unit.last > SMALL_LAST)
        unit.last = SMALL_LAST;
    for (uint32_t c = 1; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        unit.after[c - 1] =
            vdupq_n_u16((uint16_t)(64 * psti_pli_jpeg_first_square(blocks->coefs, c)));
    if (memcmp(blocks->quants->twice[1], blocks->quants->twice[2],
               sizeof blocks->quants->twice[1]) == 0)
        unit.after[1] = vdupq_n_u16(UINT16_MAX);
    if (blocks->all)
        all_blocks(&unit, work);
    else
        some_blocks(&unit, work);
}
#endif
