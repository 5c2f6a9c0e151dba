/* pli_jpeg_idct_template.h - coefficients -> samples by vectors of any width.
 *
 * A vector holds one coefficient of LANES blocks, so that nothing is transposed before the samples
 * are bytes. Blocks come with the largest ends first: the end of a group's first block says which
 * coefficients are all zeros, and a variant of the transform that leaves them out is taken.
 *
 * A level includes this file once, behind definitions of these:
 *
 *     TARGET, INLINE   attributes of functions, and of those that are always inlined
 *     VECTOR, LANES    a vector, and its number of 16-bit values
 *     OP(name)         the intrinsic `name` of that width
 *     MASK             which lanes a comparison chose
 *     load(from), store(to, vector)          at any address
 *     above(a, b)                            the MASK of lanes where a > b, 16 bits, signed
 *     choose(mask, no, yes)                  `yes` in the lanes of the mask
 *     bits_of(mask)                          0 if no lane is chosen, UINT32_MAX if all are
 *     add_products(sums, pairs, factors)     sums + the sums of pairs' products, of 32 bits
 *     plus_minus(sums, pairs, a, b, &minus)  returns sums + products of pairs by a and b, and sets
 *                                            `minus` to sums - products
 *
 * It defines do_group() and all_blocks(), which the level calls. */
#include <string.h>

enum { SMALL_LAST = 24 /* the last coefficient of 4x4 frequencies */ };

struct work {
    VECTOR in[64];                 /* dequantised, [8 * row + column] */
    VECTOR half[64];               /* after the columns */
    uint8_t samples[8][8 * LANES]; /* a row of LANES blocks: see store_lanes() */
    uint16_t order[LANES];
    uint8_t *to[LANES]; /* where the blocks of a group go */
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* LANES blocks, next to one another in each plane. */
struct group {
    const int16_t *planes;
    size_t stride;
    const uint16_t *order; /* LANES of them are readable */
    uint32_t n, last;      /* blocks; planes above `last` are zeros */
};

/* What is the same for all groups of a unit. */
struct unit {
    const struct psti_pli_jpeg_blocks *blocks;
    uint32_t last;    /* planes above it are not there, or not wanted */
    VECTOR before[2]; /* 64 * first square of components 1 and 2, minus 1; of 2, none if both are
                          quantised alike, as they nearly always are */
    ptrdiff_t places[64]; /* of the blocks of a square, from its first sample */
};

/* The even part: sums of inputs 0, 2, 4, 6, of which those from n on are zeros, with `bias`. */
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

/* Sums of one output and its mirror image: even part (of the lower and the upper lanes) plus and
 * minus odd part. */
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

/* Eight outputs of n inputs, `step` apart: (sum + bias) >> shift, clamped to 16 bits. */
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

/* Column u, of which the first n rows are not zeros. */
INLINE void column(struct work *work, int u, int n)
{
    VECTOR out[8];
    if (n == 1) { /* 4 times the input, clamped */
        VECTOR v = OP(adds_epi16)(work->in[u], work->in[u]);
        v = OP(adds_epi16)(v, v);
        out[0] = out[1] = out[2] = out[3] = out[4] = out[5] = out[6] = out[7] = v;
    } else {
        transform(work->in + u, 8, n, OP(set1_epi32)(1 << 10), 11, out);
    }
#pragma GCC unroll 8
    for (int y = 0; y < 8; y++)
        work->half[8 * y + u] = out[y];
}

/* Rows of n values -> samples. The eight samples that a block has in a row lie together: of
 * 16 blocks 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15, of 32 blocks 0 1 8 9 16 17 24 25 2 3 and so on.
 */
INLINE void rows(struct work *work, int n)
{
    /* 128 is added before the shift: the sums are below 2^31 in size all the same. */
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
}

/* Coefficients with row + column > d are zeros. */
INLINE void column_up_to(struct work *work, int u, int d)
{
    if (d >= u)
        column(work, u, d - u + 1 > 8 ? 8 : d - u + 1);
}
INLINE void up_to_diagonal(struct work *work, int d)
{
    column_up_to(work, 0, d);
    column_up_to(work, 1, d);
    column_up_to(work, 2, d);
    column_up_to(work, 3, d);
    column_up_to(work, 4, d);
    column_up_to(work, 5, d);
    column_up_to(work, 6, d);
    column_up_to(work, 7, d);
    rows(work, d + 1 > 8 ? 8 : d + 1);
}

TARGET static void diagonal_1(struct work *work) { up_to_diagonal(work, 1); }
TARGET static void diagonal_3(struct work *work) { up_to_diagonal(work, 3); }
TARGET static void diagonal_5(struct work *work) { up_to_diagonal(work, 5); }
TARGET static void diagonal_6(struct work *work) { up_to_diagonal(work, 6); }
TARGET static void diagonal_7(struct work *work) { up_to_diagonal(work, 7); }
TARGET static void diagonal_9(struct work *work) { up_to_diagonal(work, 9); }
TARGET static void whole(struct work *work)
{
#pragma GCC unroll 1
    for (int u = 0; u < 8; u++)
        column(work, u, 8);
    rows(work, 8);
}

/* The largest zigzag number up to each diagonal. */
static const struct {
    uint8_t last;
    void (*run)(struct work *work);
} variants[] = {{2, diagonal_1},  {9, diagonal_3},  {20, diagonal_5}, {27, diagonal_6},
                {35, diagonal_7}, {48, diagonal_9}, {63, whole}};

INLINE VECTOR coefs_of(const struct group *group, uint32_t k)
{
    return load(group->planes + k * group->stride);
}

INLINE VECTOR quants_of(const struct unit *unit, uint32_t component, uint32_t k)
{
    return OP(set1_epi32)((int)unit->blocks->quants->twice[component][k]);
}

/* Lanes of component 1 or above, and of 2. */
struct lanes {
    MASK chroma, third;
};
INLINE struct lanes lanes_of(const struct unit *unit, const struct group *group)
{
    VECTOR order = load(group->order);
    return (struct lanes){above(order, unit->before[0]), above(order, unit->before[1])};
}

INLINE VECTOR dequantised(const struct unit *unit, const struct group *group, uint32_t k,
                          struct lanes lanes)
{
    VECTOR q = choose(lanes.chroma, quants_of(unit, 0, k), quants_of(unit, 1, k));
    q = choose(lanes.third, q, quants_of(unit, 2, k));
    return OP(mullo_epi16)(coefs_of(group, k), q);
}

/* Planes 0..last of the group, dequantised, in their places, and zeros up to `limit`. */
INLINE void load_group(const struct unit *unit, const struct group *group, uint32_t limit,
                       struct work *work)
{
    struct lanes lanes = lanes_of(unit, group);
    uint32_t chroma = bits_of(lanes.chroma), third = bits_of(lanes.third);
    if (chroma == 0 || (chroma == UINT32_MAX && (third == 0 || third == UINT32_MAX))) {
        uint32_t component = chroma == 0 ? 0 : third == 0 ? 1 : 2;
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] =
                OP(mullo_epi16)(coefs_of(group, k), quants_of(unit, component, k));
    } else {
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] = dequantised(unit, group, k, lanes);
    }
    for (uint32_t k = group->last + 1; k <= limit; k++)
        work->in[psti_jpeg_zigzag[k]] = OP(set1_epi32)(0);
}

INLINE void find_places(const struct psti_pli_jpeg_blocks *blocks, ptrdiff_t places[64])
{
    for (uint32_t p = 0; p < 64; p++)
        places[p] = (ptrdiff_t)((p >> 3) * blocks->edge * blocks->stride + (p & 7) * blocks->edge);
}

INLINE uint8_t *place(const struct unit *unit, uint32_t block)
{
    return unit->blocks->samples + unit->blocks->at[block >> 6] + unit->places[block & 63];
}

INLINE void store_lanes(const struct unit *unit, const struct group *group, const struct work *work)
{
    size_t stride = unit->blocks->stride;
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from =
            work->samples[0] + (i >> 1 & 3) * (2 * LANES) + (i >> 3) * 16 + (i & 1) * 8;
        uint8_t *to = work->to[i];
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, from + y * sizeof work->samples[0], 8);
    }
}

/* Blocks of one value: that of DC / 8, rounded. */
INLINE void flat_group(const struct unit *unit, const struct group *group)
{
    VECTOR dc = dequantised(unit, group, 0, lanes_of(unit, group));
    VECTOR v = OP(srai_epi16)(OP(adds_epi16)(dc, OP(set1_epi16)(4)), 3);
    size_t stride = unit->blocks->stride;
    uint8_t values[2 * LANES]; /* eight, and the same again */
    v = OP(packs_epi16)(v, v);
    store(values, OP(sub_epi8)(v, OP(set1_epi8)(INT8_MIN)));
    for (uint32_t i = 0; i < group->n; i++) {
        uint64_t eight = values[i + (i & ~7u)] * UINT64_C(0x0101010101010101);
        uint8_t *to = place(unit, group->order[i]);
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, &eight, 8);
    }
}

/* Four outputs of four inputs, `step` apart, as pli_jpeg_small.c has them. */
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

/* Blocks of 4x4 samples. The four samples that a block has in a row lie together: of 16
 * blocks 0..3 8..11 4..7 12..15, of 32 blocks 0..3 8..11 16..19 24..27 4..7 and so on. */
INLINE void small_group(const struct unit *unit, const struct group *group, struct work *work)
{
    const VECTOR column_bias = OP(set1_epi32)(1 << 10);
    const VECTOR row_bias = OP(set1_epi32)((1 << 17) + (128 << 18));
    size_t stride = unit->blocks->stride;
    VECTOR o[4];
    load_group(unit, group, SMALL_LAST, work);
    for (int u = 0; u < 4; u++) {
        transform_4(work->in + u, 8, column_bias, 11, o);
        work->half[u] = o[0];
        work->half[8 + u] = o[1];
        work->half[16 + u] = o[2];
        work->half[24 + u] = o[3];
    }
    for (int y = 0; y < 4; y++) {
        transform_4(work->half + 8 * y, 1, row_bias, 18, o);
        VECTOR b02 = OP(packus_epi16)(o[0], o[2]), b13 = OP(packus_epi16)(o[1], o[3]);
        VECTOR b01 = OP(unpacklo_epi8)(b02, b13), b23 = OP(unpackhi_epi8)(b02, b13);
        VECTOR *to = (VECTOR *)(void *)work->samples[y];
        store(to, OP(unpacklo_epi16)(b01, b23));
        store(to + 1, OP(unpackhi_epi16)(b01, b23));
    }
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from =
            work->samples[0] + (i >> 2 & 1) * (2 * LANES) + (i >> 3) * 16 + (i & 3) * 4;
        uint8_t *to = place(unit, group->order[i]);
        for (size_t y = 0; y < 4; y++)
            memcpy(to + y * stride, from + y * sizeof work->samples[0], 4);
    }
}

TARGET static void do_group(const struct unit *unit, const struct group *group, struct work *work)
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
    for (uint32_t l = 0; l < group->n; l++) /* early, so that the stores need not wait for them */
        work->to[l] = place(unit, group->order[l]);
    load_group(unit, group, variants[i].last, work);
    variants[i].run(work);
    store_lanes(unit, group, work);
}

TARGET static void all_blocks(const struct unit *unit, struct work *work)
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

/* What all groups of these blocks share. */
INLINE struct unit open_unit(const struct psti_pli_jpeg_blocks *blocks)
{
    struct unit unit = {.blocks = blocks, .last = blocks->coefs->last};
    find_places(blocks, unit.places);
    if (blocks->edge == 4 && unit.last > SMALL_LAST)
        unit.last = SMALL_LAST;
    for (uint32_t c = 1; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        unit.before[c - 1] =
            OP(set1_epi16)((short)(64 * (int)psti_pli_jpeg_first_square(blocks->coefs, c) - 1));
    if (memcmp(blocks->quants->twice[1], blocks->quants->twice[2],
               sizeof blocks->quants->twice[1]) == 0)
        unit.before[1] = OP(set1_epi16)(INT16_MAX);
    return unit;
}
