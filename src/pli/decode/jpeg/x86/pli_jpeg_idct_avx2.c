/* pli_jpeg_idct_avx2.c - coefficients -> samples with AVX2.
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. A vector holds
 * one coefficient of 16 blocks, so that nothing is transposed before the samples are bytes. Blocks
 * come with the largest ends first: the end of a group's first block says which coefficients are
 * all zeros, and a variant of the transform that leaves them out is taken. Where a part of the unit
 * is wanted, its blocks are moved together first. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

enum {
    LANES = 16,
    SMALL_LAST = 24, /* the last coefficient of 4x4 frequencies */
    CHUNK = 64,      /* blocks that are moved together at a time */
    ROOM =
        CHUNK + 2 * LANES /* of a plane of them: those left from before, and a store's overhang */
};

struct work {
    __m256i in[64];          /* dequantised, [8 * row + column] */
    __m256i half[64];        /* after the columns */
    uint8_t samples[8][128]; /* a row of 16 blocks: see store_lanes() */
    int16_t planes[64][ROOM];
    uint16_t order[ROOM];
    uint8_t *to[LANES]; /* where the blocks of a group go */
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* 16 blocks, next to one another in each plane. */
struct group {
    const int16_t *planes;
    size_t stride;
    const uint16_t *order; /* 16 of them are readable */
    uint32_t n, last;      /* blocks; planes above `last` are zeros */
};

/* What is the same for all groups of a unit. */
struct unit {
    const struct psti_pli_jpeg_blocks *blocks;
    uint32_t last;     /* planes above it are not there, or not wanted */
    __m256i before[2]; /* 64 * first square of components 1 and 2, minus 1; of 2, none if both are
                          quantised alike, as they nearly always are */
};

INLINE __m256i pair(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}

/* The even part: sums of inputs 0, 2, 4, 6, of which those from n on are zeros, with `bias`. */
INLINE void even_part(__m256i i04, __m256i i26, int n, __m256i bias, __m256i out[4])
{
    __m256i t0 = _mm256_add_epi32(_mm256_madd_epi16(i04, pair(8192, 8192)), bias), t1 = t0;
    if (n > 4)
        t1 = _mm256_add_epi32(_mm256_madd_epi16(i04, pair(8192, -8192)), bias);
    out[0] = out[3] = t0;
    out[1] = out[2] = t1;
    if (n > 2) {
        __m256i t3 = _mm256_madd_epi16(i26, pair(10703, 4433));
        __m256i t2 = _mm256_madd_epi16(i26, pair(4433, -10704));
        out[0] = _mm256_add_epi32(t0, t3);
        out[3] = _mm256_sub_epi32(t0, t3);
        out[1] = _mm256_add_epi32(t1, t2);
        out[2] = _mm256_sub_epi32(t1, t2);
    }
}

/* Sums of one output and its mirror image: even part (of the lower and the upper lanes) plus and
 * minus odd part. */
struct sums {
    __m256i lo, hi;
};
INLINE __m256i finish(__m256i lo, __m256i hi, int shift)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(lo, shift), _mm256_srai_epi32(hi, shift));
}
INLINE __m256i odd_part(__m256i i13, __m256i i57, int n, __m256i k13, __m256i k57)
{
    __m256i sum = _mm256_madd_epi16(i13, k13);
    return n > 5 ? _mm256_add_epi32(sum, _mm256_madd_epi16(i57, k57)) : sum;
}
INLINE void two_outputs(struct sums even, const __m256i i13[2], const __m256i i57[2], int n,
                        __m256i k13, __m256i k57, int shift, __m256i *out, __m256i *mirrored)
{
    __m256i lo = odd_part(i13[0], i57[0], n, k13, k57);
    __m256i hi = odd_part(i13[1], i57[1], n, k13, k57);
    *out = finish(_mm256_add_epi32(even.lo, lo), _mm256_add_epi32(even.hi, hi), shift);
    *mirrored = finish(_mm256_sub_epi32(even.lo, lo), _mm256_sub_epi32(even.hi, hi), shift);
}

/* Eight outputs of n inputs, `step` apart: (sum + bias) >> shift, clamped to 16 bits. */
INLINE void transform(const __m256i *in, int step, int n, __m256i bias, int shift, __m256i out[8])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i lo[4], hi[4];
    __m256i i1 = n > 1 ? in[step] : zero, i3 = n > 3 ? in[3 * step] : zero;
    __m256i i2 = n > 2 ? in[2 * step] : zero, i4 = n > 4 ? in[4 * step] : zero;
    __m256i i5 = n > 5 ? in[5 * step] : zero, i6 = n > 6 ? in[6 * step] : zero;
    __m256i i7 = n > 7 ? in[7 * step] : zero;
    even_part(_mm256_unpacklo_epi16(in[0], i4), _mm256_unpacklo_epi16(i2, i6), n, bias, lo);
    even_part(_mm256_unpackhi_epi16(in[0], i4), _mm256_unpackhi_epi16(i2, i6), n, bias, hi);
    const __m256i i13[2] = {_mm256_unpacklo_epi16(i1, i3), _mm256_unpackhi_epi16(i1, i3)};
    const __m256i i57[2] = {_mm256_unpacklo_epi16(i5, i7), _mm256_unpackhi_epi16(i5, i7)};
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
    __m256i out[8];
    if (n == 1) { /* 4 times the input, clamped */
        __m256i v = _mm256_adds_epi16(work->in[u], work->in[u]);
        v = _mm256_adds_epi16(v, v);
        out[0] = out[1] = out[2] = out[3] = out[4] = out[5] = out[6] = out[7] = v;
    } else {
        transform(work->in + u, 8, n, _mm256_set1_epi32(1 << 10), 11, out);
    }
#pragma GCC unroll 8
    for (int y = 0; y < 8; y++)
        work->half[8 * y + u] = out[y];
}

/* Rows of n values -> samples. Of 16 blocks the eight samples of a row lie together: blocks 0 1 8 9
 * 2 3 10 11 4 5 12 13 6 7 14 15. */
INLINE void rows(struct work *work, int n)
{
    /* 128 is added before the shift: the sums are below 2^31 in size all the same. */
    const __m256i bias = _mm256_set1_epi32((1 << 17) + (128 << 18));
#pragma GCC unroll 1
    for (int y = 0; y < 8; y++) {
        __m256i o[8];
        transform(work->half + 8 * y, 1, n, bias, 18, o);
        __m256i b04 = _mm256_packus_epi16(o[0], o[4]), b15 = _mm256_packus_epi16(o[1], o[5]);
        __m256i b26 = _mm256_packus_epi16(o[2], o[6]), b37 = _mm256_packus_epi16(o[3], o[7]);
        __m256i b01 = _mm256_unpacklo_epi8(b04, b15), b45 = _mm256_unpackhi_epi8(b04, b15);
        __m256i b23 = _mm256_unpacklo_epi8(b26, b37), b67 = _mm256_unpackhi_epi8(b26, b37);
        __m256i l03 = _mm256_unpacklo_epi16(b01, b23), h03 = _mm256_unpackhi_epi16(b01, b23);
        __m256i l47 = _mm256_unpacklo_epi16(b45, b67), h47 = _mm256_unpackhi_epi16(b45, b67);
        __m256i *to = (__m256i *)(void *)work->samples[y];
        _mm256_store_si256(to, _mm256_unpacklo_epi32(l03, l47));
        _mm256_store_si256(to + 1, _mm256_unpackhi_epi32(l03, l47));
        _mm256_store_si256(to + 2, _mm256_unpacklo_epi32(h03, h47));
        _mm256_store_si256(to + 3, _mm256_unpackhi_epi32(h03, h47));
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

INLINE __m256i coefs_of(const struct group *group, uint32_t k)
{
    return _mm256_loadu_si256((const void *)(group->planes + k * group->stride));
}

INLINE __m256i quants_of(const struct unit *unit, uint32_t component, uint32_t k)
{
    return _mm256_set1_epi32((int)unit->blocks->quants->twice[component][k]);
}

/* Which lanes are of component 1 or above, and which of 2. */
INLINE __m256i is_after(const struct unit *unit, const struct group *group, int i)
{
    return _mm256_cmpgt_epi16(_mm256_loadu_si256((const void *)group->order), unit->before[i]);
}

INLINE __m256i dequantised(const struct unit *unit, const struct group *group, uint32_t k,
                           __m256i chroma, __m256i third)
{
    __m256i q = _mm256_blendv_epi8(quants_of(unit, 0, k), quants_of(unit, 1, k), chroma);
    q = _mm256_blendv_epi8(q, quants_of(unit, 2, k), third);
    return _mm256_mullo_epi16(coefs_of(group, k), q);
}

/* Planes 0..last of the group, dequantised, in their places, and zeros up to `limit`. */
INLINE void load_group(const struct unit *unit, const struct group *group, uint32_t limit,
                       struct work *work)
{
    __m256i chroma = is_after(unit, group, 0), third = is_after(unit, group, 1);
    uint32_t some = (uint32_t)_mm256_movemask_epi8(chroma);
    uint32_t some_third = (uint32_t)_mm256_movemask_epi8(third);
    if (some == 0 || (some == UINT32_MAX && (some_third == 0 || some_third == UINT32_MAX))) {
        uint32_t component = some == 0 ? 0 : some_third == 0 ? 1 : 2;
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] =
                _mm256_mullo_epi16(coefs_of(group, k), quants_of(unit, component, k));
    } else {
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] = dequantised(unit, group, k, chroma, third);
    }
    for (uint32_t k = group->last + 1; k <= limit; k++)
        work->in[psti_jpeg_zigzag[k]] = _mm256_setzero_si256();
}

INLINE uint8_t *place(const struct psti_pli_jpeg_blocks *blocks, uint32_t block)
{
    return blocks->samples + blocks->at[block >> 6] +
           (ptrdiff_t)((block >> 3 & 7) * blocks->edge * blocks->stride +
                       (block & 7) * blocks->edge);
}

INLINE void store_lanes(const struct unit *unit, const struct group *group, const struct work *work)
{
    size_t stride = unit->blocks->stride;
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from = work->samples[0] + (i >> 1 & 3) * 32 + (i >> 3) * 16 + (i & 1) * 8;
        uint8_t *to = work->to[i];
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, from + y * sizeof work->samples[0], 8);
    }
}

/* Blocks of one value: that of DC / 8, rounded. */
INLINE void flat_group(const struct unit *unit, const struct group *group)
{
    __m256i chroma = is_after(unit, group, 0), third = is_after(unit, group, 1);
    __m256i dc = dequantised(unit, group, 0, chroma, third);
    __m256i v = _mm256_srai_epi16(_mm256_adds_epi16(dc, _mm256_set1_epi16(4)), 3);
    size_t stride = unit->blocks->stride;
    uint8_t values[32];
    v = _mm256_packs_epi16(v, v);
    _mm256_storeu_si256((void *)values, _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80)));
    for (uint32_t i = 0; i < group->n; i++) {
        uint64_t eight = values[i + (i & 8)] * UINT64_C(0x0101010101010101);
        uint8_t *to = place(unit->blocks, group->order[i]);
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, &eight, 8);
    }
}

/* Four outputs of four inputs, `step` apart, as pli_jpeg_small.c has them. */
INLINE void transform_4(const __m256i *in, int step, __m256i bias, int shift, __m256i out[4])
{
    __m256i lo02 = _mm256_unpacklo_epi16(in[0], in[2 * step]);
    __m256i hi02 = _mm256_unpackhi_epi16(in[0], in[2 * step]);
    __m256i lo13 = _mm256_unpacklo_epi16(in[step], in[3 * step]);
    __m256i hi13 = _mm256_unpackhi_epi16(in[step], in[3 * step]);
    __m256i lo = _mm256_add_epi32(_mm256_madd_epi16(lo02, pair(8192, 8192)), bias);
    __m256i hi = _mm256_add_epi32(_mm256_madd_epi16(hi02, pair(8192, 8192)), bias);
    __m256i lo_odd = _mm256_madd_epi16(lo13, pair(10703, 4433));
    __m256i hi_odd = _mm256_madd_epi16(hi13, pair(10703, 4433));
    out[0] = finish(_mm256_add_epi32(lo, lo_odd), _mm256_add_epi32(hi, hi_odd), shift);
    out[3] = finish(_mm256_sub_epi32(lo, lo_odd), _mm256_sub_epi32(hi, hi_odd), shift);
    lo = _mm256_add_epi32(_mm256_madd_epi16(lo02, pair(8192, -8192)), bias);
    hi = _mm256_add_epi32(_mm256_madd_epi16(hi02, pair(8192, -8192)), bias);
    lo_odd = _mm256_madd_epi16(lo13, pair(4433, -10703));
    hi_odd = _mm256_madd_epi16(hi13, pair(4433, -10703));
    out[1] = finish(_mm256_add_epi32(lo, lo_odd), _mm256_add_epi32(hi, hi_odd), shift);
    out[2] = finish(_mm256_sub_epi32(lo, lo_odd), _mm256_sub_epi32(hi, hi_odd), shift);
}

/* Blocks of 4x4 samples. Of 16 blocks the four samples of a row lie together: blocks
 * 0..3 8..11 4..7 12..15. */
INLINE void small_group(const struct unit *unit, const struct group *group, struct work *work)
{
    const __m256i column_bias = _mm256_set1_epi32(1 << 10);
    const __m256i row_bias = _mm256_set1_epi32((1 << 17) + (128 << 18));
    size_t stride = unit->blocks->stride;
    __m256i o[4];
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
        __m256i b02 = _mm256_packus_epi16(o[0], o[2]), b13 = _mm256_packus_epi16(o[1], o[3]);
        __m256i b01 = _mm256_unpacklo_epi8(b02, b13), b23 = _mm256_unpackhi_epi8(b02, b13);
        __m256i *to = (__m256i *)(void *)work->samples[y];
        _mm256_store_si256(to, _mm256_unpacklo_epi16(b01, b23));
        _mm256_store_si256(to + 1, _mm256_unpackhi_epi16(b01, b23));
    }
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from = work->samples[0] + (i >> 2 & 1) * 32 + (i >> 3) * 16 + (i & 3) * 4;
        uint8_t *to = place(unit->blocks, group->order[i]);
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
        work->to[l] = place(unit->blocks, group->order[l]);
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

/* Blocks that have been moved together: lanes 0..n-1 of work->planes. */
struct gathered {
    uint32_t n, last; /* planes above `last` are not there */
};

/* The shuffle that moves those of eight 16-bit values together whose bit is set. */
INLINE __m128i moving_together(uint32_t mask)
{
    uint64_t bytes = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 255;
    uint64_t numbers = _pext_u64(UINT64_C(0x0706050403020100), bytes);
    __m128i v = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)numbers));
    return _mm_add_epi16(_mm_mullo_epi16(v, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
}

/* Adds the wanted ones of the 64 blocks from list position i on, whose ends are at most `last`. */
TARGET static void gather(const struct psti_pli_jpeg_blocks *blocks, uint32_t i, uint32_t last,
                          struct gathered *g, struct work *work)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    uint64_t mask = psti_pli_jpeg_wanted_of(blocks, i, work->order + g->n);
    __m128i shuffles[8];
    uint32_t offsets[8], n = g->n;
    for (int j = 0; j < 8; j++) {
        shuffles[j] = moving_together((uint32_t)(mask >> (8 * j)) & 255);
        offsets[j] = n;
        n += (uint32_t)__builtin_popcount((uint32_t)(mask >> (8 * j)) & 255);
    }
    if (g->n == 0)
        g->last = last;
    for (uint32_t k = 0; k <= last && n > g->n; k++) {
        const int16_t *from = coefs->planes + k * coefs->stride + i;
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            _mm_storeu_si128(
                (void *)(work->planes[k] + offsets[j]),
                _mm_shuffle_epi8(_mm_load_si128((const void *)(from + 8 * j)), shuffles[j]));
    }
    for (uint32_t k = last + 1; k <= g->last; k++) /* blocks before these have more */
        memset(work->planes[k] + g->n, 0, CHUNK * sizeof work->planes[0][0]);
    g->n = n;
}

/* Whole groups of what has been gathered are done, the rest moves to the front. */
TARGET static void do_gathered(const struct unit *unit, uint32_t last, struct gathered *g,
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
        _mm256_store_si256((void *)work->planes[k],
                           _mm256_loadu_si256((const void *)(work->planes[k] + done)));
}

TARGET static void some_blocks(const struct unit *unit, struct work *work)
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

TARGET void psti_pli_jpeg_idct_avx2(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    struct unit unit = {.blocks = blocks, .last = blocks->coefs->last};
    if (blocks->edge == 4 && unit.last > SMALL_LAST)
        unit.last = SMALL_LAST;
    for (uint32_t c = 1; c < PSTI_JPEG_COMPONENTS_MAX; c++)
        unit.before[c - 1] =
            _mm256_set1_epi16((short)(64 * (int)psti_pli_jpeg_first_square(blocks->coefs, c) - 1));
    if (memcmp(blocks->quants->twice[1], blocks->quants->twice[2],
               sizeof blocks->quants->twice[1]) == 0)
        unit.before[1] = _mm256_set1_epi16(INT16_MAX);
    if (blocks->all)
        all_blocks(&unit, work);
    else
        some_blocks(&unit, work);
}
#endif
