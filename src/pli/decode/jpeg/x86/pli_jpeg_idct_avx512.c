/* pli_jpeg_idct_avx512.c - coefficients -> samples with AVX-512 (VBMI2, VNNI).
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. A vector holds
 * one coefficient of 32 blocks, so that nothing is transposed before the samples are bytes. Blocks
 * come with the largest ends first: the end of a group's first block says which coefficients are
 * all zeros, and a variant of the transform that leaves them out is taken. Where a part of the unit
 * is wanted, its blocks alone are in the list (pli_coefs_avx512_values.c). Products are added where
 * they are made (VNNI); a full transform of 8 x 32 values takes 76 operations of the two vector
 * ports, which is what bounds it. Tests compile this file against SIMDe (base/avx512.h). */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include "base/avx512.h"

#include <assert.h>
#include <string.h>

#define TARGET PSTI_ICL_TARGET
#define INLINE PSTI_ICL_INLINE

enum {
    LANES = 32,
    SMALL_LAST = 24 /* the last coefficient of 4x4 frequencies */
};

struct work {
    __m512i in[64];          /* dequantised, [8 * row + column] */
    __m512i half[64];        /* after the columns */
    uint8_t samples[8][256]; /* a row of 32 blocks: see store_lanes() */
    uint16_t order[LANES];
    uint8_t *to[LANES]; /* where the blocks of a group go */
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* 32 blocks, next to one another in each plane. */
struct group {
    const int16_t *planes;
    size_t stride;
    const uint16_t *order; /* 32 of them are readable */
    uint32_t n, last;      /* blocks; planes above `last` are zeros */
};

/* What is the same for all groups of a unit. */
struct unit {
    const struct psti_pli_jpeg_blocks *blocks;
    uint32_t last;     /* planes above it are not there, or not wanted */
    __m512i before[2]; /* 64 * first square of components 1 and 2, minus 1; of 2, none if both are
                          quantised alike, as they nearly always are */
    ptrdiff_t places[64]; /* of the blocks of a square, from its first sample */
};

INLINE __m512i pair(int a, int b)
{
    return _mm512_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

/* sums + pairs of inputs times their factors */
INLINE __m512i add_products(__m512i sums, __m512i pairs, __m512i factors)
{
    return _mm512_dpwssd_epi32(sums, pairs, factors);
}

/* The even part: sums of inputs 0, 2, 4, 6, of which those from n on are zeros, with `bias`. */
INLINE void even_part(__m512i i04, __m512i i26, int n, __m512i bias, __m512i out[4])
{
    __m512i t0 = add_products(bias, i04, pair(8192, 8192)), t1 = t0;
    if (n > 4)
        t1 = add_products(bias, i04, pair(8192, -8192));
    out[0] = out[3] = t0;
    out[1] = out[2] = t1;
    if (n > 2) {
        out[0] = add_products(t0, i26, pair(10703, 4433));
        out[3] = add_products(t0, i26, pair(-10703, -4433));
        out[1] = add_products(t1, i26, pair(4433, -10704));
        out[2] = add_products(t1, i26, pair(-4433, 10704));
    }
}

/* Sums of one output and its mirror image: even part (of the lower and the upper lanes) plus and
 * minus odd part. */
struct sums {
    __m512i lo, hi;
};
INLINE __m512i finish(__m512i lo, __m512i hi, int shift)
{
    return _mm512_packs_epi32(_mm512_srai_epi32(lo, shift), _mm512_srai_epi32(hi, shift));
}
INLINE __m512i odd_part(__m512i i13, __m512i i57, int n, __m512i k13, __m512i k57)
{
    __m512i sum = _mm512_madd_epi16(i13, k13);
    return n > 5 ? add_products(sum, i57, k57) : sum;
}
INLINE void two_outputs(struct sums even, const __m512i i13[2], const __m512i i57[2], int n,
                        __m512i k13, __m512i k57, int shift, __m512i *out, __m512i *mirrored)
{
    __m512i lo = odd_part(i13[0], i57[0], n, k13, k57);
    __m512i hi = odd_part(i13[1], i57[1], n, k13, k57);
    *out = finish(_mm512_add_epi32(even.lo, lo), _mm512_add_epi32(even.hi, hi), shift);
    *mirrored = finish(_mm512_sub_epi32(even.lo, lo), _mm512_sub_epi32(even.hi, hi), shift);
}

/* Eight outputs of n inputs, `step` apart: (sum + bias) >> shift, clamped to 16 bits. */
INLINE void transform(const __m512i *in, int step, int n, __m512i bias, int shift, __m512i out[8])
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i lo[4], hi[4];
    __m512i i1 = n > 1 ? in[step] : zero, i3 = n > 3 ? in[3 * step] : zero;
    __m512i i2 = n > 2 ? in[2 * step] : zero, i4 = n > 4 ? in[4 * step] : zero;
    __m512i i5 = n > 5 ? in[5 * step] : zero, i6 = n > 6 ? in[6 * step] : zero;
    __m512i i7 = n > 7 ? in[7 * step] : zero;
    even_part(_mm512_unpacklo_epi16(in[0], i4), _mm512_unpacklo_epi16(i2, i6), n, bias, lo);
    even_part(_mm512_unpackhi_epi16(in[0], i4), _mm512_unpackhi_epi16(i2, i6), n, bias, hi);
    const __m512i i13[2] = {_mm512_unpacklo_epi16(i1, i3), _mm512_unpackhi_epi16(i1, i3)};
    const __m512i i57[2] = {_mm512_unpacklo_epi16(i5, i7), _mm512_unpackhi_epi16(i5, i7)};
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
    __m512i out[8];
    if (n == 1) { /* 4 times the input, clamped */
        __m512i v = _mm512_adds_epi16(work->in[u], work->in[u]);
        v = _mm512_adds_epi16(v, v);
        out[0] = out[1] = out[2] = out[3] = out[4] = out[5] = out[6] = out[7] = v;
    } else {
        transform(work->in + u, 8, n, _mm512_set1_epi32(1 << 10), 11, out);
    }
#pragma GCC unroll 8
    for (int y = 0; y < 8; y++)
        work->half[8 * y + u] = out[y];
}

/* Rows of n values -> samples. Of 32 blocks the eight samples of a row lie together: blocks 0 1 8 9
 * 16 17 24 25 2 3 10 11 and so on. */
INLINE void rows(struct work *work, int n)
{
    /* 128 is added before the shift: the sums are below 2^31 in size all the same. */
    const __m512i bias = _mm512_set1_epi32((1 << 17) + (128 << 18));
#pragma GCC unroll 1
    for (int y = 0; y < 8; y++) {
        __m512i o[8];
        transform(work->half + 8 * y, 1, n, bias, 18, o);
        __m512i b04 = _mm512_packus_epi16(o[0], o[4]), b15 = _mm512_packus_epi16(o[1], o[5]);
        __m512i b26 = _mm512_packus_epi16(o[2], o[6]), b37 = _mm512_packus_epi16(o[3], o[7]);
        __m512i b01 = _mm512_unpacklo_epi8(b04, b15), b45 = _mm512_unpackhi_epi8(b04, b15);
        __m512i b23 = _mm512_unpacklo_epi8(b26, b37), b67 = _mm512_unpackhi_epi8(b26, b37);
        __m512i l03 = _mm512_unpacklo_epi16(b01, b23), h03 = _mm512_unpackhi_epi16(b01, b23);
        __m512i l47 = _mm512_unpacklo_epi16(b45, b67), h47 = _mm512_unpackhi_epi16(b45, b67);
        __m512i *to = (__m512i *)(void *)work->samples[y];
        _mm512_store_si512(to, _mm512_unpacklo_epi32(l03, l47));
        _mm512_store_si512(to + 1, _mm512_unpackhi_epi32(l03, l47));
        _mm512_store_si512(to + 2, _mm512_unpacklo_epi32(h03, h47));
        _mm512_store_si512(to + 3, _mm512_unpackhi_epi32(h03, h47));
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

INLINE __m512i coefs_of(const struct group *group, uint32_t k)
{
    return _mm512_loadu_si512((const void *)(group->planes + k * group->stride));
}

INLINE __m512i quants_of(const struct unit *unit, uint32_t component, uint32_t k)
{
    return _mm512_set1_epi32((int)unit->blocks->quants->twice[component][k]);
}

/* Lanes of component 1 or above, and of 2. */
struct lanes {
    uint32_t chroma, third;
};
INLINE struct lanes lanes_of(const struct unit *unit, const struct group *group)
{
    __m512i order = _mm512_loadu_si512((const void *)group->order);
    return (struct lanes){_mm512_cmpgt_epi16_mask(order, unit->before[0]),
                          _mm512_cmpgt_epi16_mask(order, unit->before[1])};
}

INLINE __m512i dequantised(const struct unit *unit, const struct group *group, uint32_t k,
                           struct lanes lanes)
{
    __m512i q = quants_of(unit, 0, k);
    q = _mm512_mask_mov_epi16(q, lanes.chroma, quants_of(unit, 1, k));
    q = _mm512_mask_mov_epi16(q, lanes.third, quants_of(unit, 2, k));
    return _mm512_mullo_epi16(coefs_of(group, k), q);
}

/* Planes 0..last of the group, dequantised, in their places, and zeros up to `limit`. */
INLINE void load_group(const struct unit *unit, const struct group *group, uint32_t limit,
                       struct work *work)
{
    struct lanes lanes = lanes_of(unit, group);
    if (lanes.chroma == 0 ||
        (lanes.chroma == UINT32_MAX && (lanes.third == 0 || lanes.third == UINT32_MAX))) {
        uint32_t component = lanes.chroma == 0 ? 0 : lanes.third == 0 ? 1 : 2;
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] =
                _mm512_mullo_epi16(coefs_of(group, k), quants_of(unit, component, k));
    } else {
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] = dequantised(unit, group, k, lanes);
    }
    for (uint32_t k = group->last + 1; k <= limit; k++)
        work->in[psti_jpeg_zigzag[k]] = _mm512_setzero_si512();
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
        const uint8_t *from = work->samples[0] + (i >> 1 & 3) * 64 + (i >> 3) * 16 + (i & 1) * 8;
        uint8_t *to = work->to[i];
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, from + y * sizeof work->samples[0], 8);
    }
}

/* Blocks of one value: that of DC / 8, rounded. */
INLINE void flat_group(const struct unit *unit, const struct group *group)
{
    __m512i dc = dequantised(unit, group, 0, lanes_of(unit, group));
    __m512i v = _mm512_srai_epi16(_mm512_adds_epi16(dc, _mm512_set1_epi16(4)), 3);
    size_t stride = unit->blocks->stride;
    uint8_t values[2 * LANES]; /* eight, and the same again */
    v = _mm512_packs_epi16(v, v);
    _mm512_storeu_si512((void *)values, _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)));
    for (uint32_t i = 0; i < group->n; i++) {
        uint64_t eight = values[i + (i & ~7u)] * UINT64_C(0x0101010101010101);
        uint8_t *to = place(unit, group->order[i]);
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, &eight, 8);
    }
}

/* Four outputs of four inputs, `step` apart, as pli_jpeg_small.c has them. */
INLINE void transform_4(const __m512i *in, int step, __m512i bias, int shift, __m512i out[4])
{
    __m512i lo02 = _mm512_unpacklo_epi16(in[0], in[2 * step]);
    __m512i hi02 = _mm512_unpackhi_epi16(in[0], in[2 * step]);
    __m512i lo13 = _mm512_unpacklo_epi16(in[step], in[3 * step]);
    __m512i hi13 = _mm512_unpackhi_epi16(in[step], in[3 * step]);
    __m512i lo = add_products(bias, lo02, pair(8192, 8192));
    __m512i hi = add_products(bias, hi02, pair(8192, 8192));
    out[0] = finish(add_products(lo, lo13, pair(10703, 4433)),
                    add_products(hi, hi13, pair(10703, 4433)), shift);
    out[3] = finish(add_products(lo, lo13, pair(-10703, -4433)),
                    add_products(hi, hi13, pair(-10703, -4433)), shift);
    lo = add_products(bias, lo02, pair(8192, -8192));
    hi = add_products(bias, hi02, pair(8192, -8192));
    out[1] = finish(add_products(lo, lo13, pair(4433, -10703)),
                    add_products(hi, hi13, pair(4433, -10703)), shift);
    out[2] = finish(add_products(lo, lo13, pair(-4433, 10703)),
                    add_products(hi, hi13, pair(-4433, 10703)), shift);
}

/* Blocks of 4x4 samples. Of 32 blocks the four samples of a row lie together: blocks
 * 0..3 8..11 16..19 24..27 4..7 and so on. */
INLINE void small_group(const struct unit *unit, const struct group *group, struct work *work)
{
    const __m512i column_bias = _mm512_set1_epi32(1 << 10);
    const __m512i row_bias = _mm512_set1_epi32((1 << 17) + (128 << 18));
    size_t stride = unit->blocks->stride;
    __m512i o[4];
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
        __m512i b02 = _mm512_packus_epi16(o[0], o[2]), b13 = _mm512_packus_epi16(o[1], o[3]);
        __m512i b01 = _mm512_unpacklo_epi8(b02, b13), b23 = _mm512_unpackhi_epi8(b02, b13);
        __m512i *to = (__m512i *)(void *)work->samples[y];
        _mm512_store_si512(to, _mm512_unpacklo_epi16(b01, b23));
        _mm512_store_si512(to + 1, _mm512_unpackhi_epi16(b01, b23));
    }
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from = work->samples[0] + (i >> 2 & 1) * 64 + (i >> 3) * 16 + (i & 3) * 4;
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

TARGET void psti_pli_jpeg_idct_avx512(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    struct unit unit = {.blocks = blocks, .last = blocks->coefs->last};
    assert(blocks->all);
    find_places(blocks, unit.places);
    if (blocks->edge == 4 && unit.last > SMALL_LAST)
        unit.last = SMALL_LAST;
    for (uint32_t c = 1; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        unit.before[c - 1] =
            _mm512_set1_epi16((short)(64 * (int)psti_pli_jpeg_first_square(blocks->coefs, c) - 1));
    if (memcmp(blocks->quants->twice[1], blocks->quants->twice[2],
               sizeof blocks->quants->twice[1]) == 0)
        unit.before[1] = _mm512_set1_epi16(INT16_MAX);
    all_blocks(&unit, work);
}
#endif
