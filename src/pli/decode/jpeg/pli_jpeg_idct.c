/* pli_jpeg_idct.c - turns coefficients into samples (docs/format-pli.md, section 9) in plain C, the
 * reference implementation.
 *
 * pli_jpeg_int.h says what goes in and out. The functions are pure; any thread may call them. 16
 * blocks are transformed side by side, which lets compilers vectorise the loops. Blocks with the
 * largest ends come first. So the end of a group's first block bounds the rows and columns that are
 * not zeros. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/bits.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

struct work {
    int16_t in[64][LANES];     /* dequantised coefficients, [8 * row + column] */
    int16_t half[64][LANES];   /* values after the transform of the columns */
    uint8_t samples[8][LANES]; /* samples of one row */
};
_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

struct group {
    uint32_t positions[LANES]; /* list positions of the blocks */
    uint32_t n, last;          /* number of blocks; planes above number `last` are zeros */
};

INLINE int32_t clamp(int32_t v, int32_t lowest, int32_t highest)
{
    v = v < lowest ? lowest : v;
    return v > highest ? highest : v;
}

/* Computes the eight sums of n inputs in lane l, with `bias` added. Inputs are `step` rows of lanes
 * apart. Sums of 16-bit inputs stay below 2^31, so they do not wrap. */
INLINE void sums(const int16_t (*in)[LANES], int step, int n, int l, int32_t bias, int32_t out[8])
{
    const int32_t i0 = in[0][l];
    const int32_t i1 = n > 1 ? in[step][l] : 0, i2 = n > 2 ? in[2 * step][l] : 0;
    const int32_t i3 = n > 3 ? in[3 * step][l] : 0, i4 = n > 4 ? in[4 * step][l] : 0;
    const int32_t i5 = n > 5 ? in[5 * step][l] : 0, i6 = n > 6 ? in[6 * step][l] : 0;
    const int32_t i7 = n > 7 ? in[7 * step][l] : 0;
    const int32_t t0 = (i0 + i4) * 8192 + bias, t1 = (i0 - i4) * 8192 + bias;
    const int32_t t2 = 4433 * i2 - 10704 * i6, t3 = 10703 * i2 + 4433 * i6;
    const int32_t b0 = 11363 * i1 + 9633 * i3 + 6437 * i5 + 2260 * i7;
    const int32_t b1 = 9633 * i1 - 2259 * i3 - 11362 * i5 - 6436 * i7;
    const int32_t b2 = 6437 * i1 - 11362 * i3 + 2261 * i5 + 9633 * i7;
    const int32_t b3 = 2260 * i1 - 6436 * i3 + 9633 * i5 - 11363 * i7;
    out[0] = t0 + t3 + b0;
    out[7] = t0 + t3 - b0;
    out[1] = t1 + t2 + b1;
    out[6] = t1 + t2 - b1;
    out[2] = t1 - t2 + b2;
    out[5] = t1 - t2 - b2;
    out[3] = t0 - t3 + b3;
    out[4] = t0 - t3 - b3;
}

/* Transforms a column in which rows from n on are zeros. `small`: no value needs to be clamped. */
INLINE void column_of(const int16_t (*restrict in)[LANES], int n, bool small,
                      int16_t (*restrict out)[LANES])
{
    for (int l = 0; l < LANES; l++) {
        int32_t o[8];
        sums(in, 8, n, l, 1 << 10, o);
#pragma GCC unroll 8
        for (int y = 0; y < 8; y++) {
            int32_t v = o[y] >> 11;
            out[8 * y][l] = (int16_t)(small ? v : clamp(v, INT16_MIN, INT16_MAX));
        }
    }
}

/* Transforms a row in which columns from n on are zeros. The shifted sums fit 16 bits. */
INLINE void row_of(const int16_t (*restrict in)[LANES], int n, uint8_t (*restrict out)[LANES])
{
    for (int l = 0; l < LANES; l++) {
        int32_t o[8];
        sums(in, 1, n, l, 1 << 17, o);
#pragma GCC unroll 8
        for (int x = 0; x < 8; x++) {
            int16_t v = (int16_t)(o[x] >> 18);
            v = v < -128 ? -128 : v;
            v = v > 127 ? 127 : v;
            out[x][l] = (uint8_t)(v + 128);
        }
    }
}

/* A pointer to constant lanes; C has no implicit conversion to it. */
typedef const int16_t (*const_lanes)[LANES];

static void large_column(struct work *work, int u)
{
    column_of((const_lanes)(work->in + u), 8, false, work->half + u);
}

/* Transforms column u, in which only the first n rows (1..8) may have values other than zero. It
 * uses a transform of at least n inputs, whose other inputs are zeros. */
static void column(struct work *work, int u, int n)
{
    const_lanes in = (const_lanes)(work->in + u);
    if (n <= 1)
        column_of(in, 1, true, work->half + u);
    else if (n <= 2)
        column_of(in, 2, true, work->half + u);
    else if (n <= 4)
        column_of(in, 4, true, work->half + u);
    else if (n <= 6)
        column_of(in, 6, true, work->half + u);
    else
        column_of(in, 8, true, work->half + u);
}

static void row(struct work *work, int y, int n)
{
    const_lanes in = (const_lanes)(work->half + 8 * y);
    if (n <= 2)
        row_of(in, 2, work->samples);
    else if (n <= 4)
        row_of(in, 4, work->samples);
    else if (n <= 6)
        row_of(in, 6, work->samples);
    else
        row_of(in, 8, work->samples);
}

/* Stores one row of samples of all blocks to their places. Samples are first joined to numbers of
 * two bytes, then of four bytes, which compilers vectorise. */
static void store_row(const struct work *work, uint8_t *const to[LANES], uint32_t n, size_t offset)
{
    uint16_t twos[4][LANES];
    uint32_t fours[2][LANES];
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < LANES; l++)
            twos[i][l] =
                (uint16_t)(work->samples[2 * i][l] | (uint16_t)(work->samples[2 * i + 1][l] << 8));
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < LANES; l++)
            fours[i][l] = twos[2 * i][l] | (uint32_t)twos[2 * i + 1][l] << 16;
    for (uint32_t l = 0; l < n; l++) {
        psti_store_u32(to[l] + offset, fours[0][l]);
        psti_store_u32(to[l] + offset + 4, fours[1][l]);
    }
}

/* Masks with all bits set in the lanes of component 1, and of component 2. */
struct masks {
    uint16_t second[LANES], third[LANES];
    bool mixed;
    uint32_t component; /* component of all lanes; not set if lanes have different components */
};

static struct masks components_of(const struct psti_pli_coefs *coefs, const struct group *group)
{
    struct masks masks = {.mixed = false};
    for (uint32_t l = 0; l < group->n; l++) {
        uint32_t block = coefs->order[group->positions[l]];
        uint32_t component = coefs->squares[block >> 6].component;
        masks.second[l] = component == 1 ? UINT16_MAX : 0;
        masks.third[l] = component == 2 ? UINT16_MAX : 0;
        if (l == 0)
            masks.component = component;
        masks.mixed = masks.mixed || component != masks.component;
    }
    return masks;
}

/* Sets `out` to `in` times the quantisation value of each lane, modulo 2^16. */
INLINE void dequantise(const struct psti_pli_jpeg_quants *quants, uint32_t k,
                       const struct masks *masks, const int16_t *restrict in, int16_t *restrict out)
{
    const uint16_t q0 = (uint16_t)quants->twice[0][k], q1 = (uint16_t)quants->twice[1][k];
    const uint16_t q2 = (uint16_t)quants->twice[2][k];
    const uint16_t q = (uint16_t)quants->twice[masks->component][k];
    if (!masks->mixed) {
        for (int l = 0; l < LANES; l++)
            out[l] = (int16_t)(uint16_t)((uint32_t)(uint16_t)in[l] * q);
        return;
    }
    for (int l = 0; l < LANES; l++) {
        uint16_t lane =
            (uint16_t)(q0 ^ ((q0 ^ q1) & masks->second[l]) ^ ((q0 ^ q2) & masks->third[l]));
        out[l] = (int16_t)(uint16_t)((uint32_t)(uint16_t)in[l] * lane);
    }
}

/* Dequantises the group's coefficients and stores them in their places, with zeros elsewhere. */
static void load_group(const struct psti_pli_jpeg_blocks *blocks, const struct group *group,
                       struct work *work)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    const struct masks masks = components_of(coefs, group);
    const uint32_t *positions = group->positions;
    uint32_t n = group->n;
    bool adjacent =
        n == LANES && positions[0] % LANES == 0 && positions[LANES - 1] == positions[0] + LANES - 1;
    for (uint32_t k = 0; k <= group->last; k++) {
        const int16_t *plane = coefs->planes + k * coefs->stride;
        int16_t *in = work->in[psti_jpeg_zigzag[k]];
        /* Entries past the last one of a plane are zeros up to the end of the group. */
        if (adjacent) {
            dequantise(blocks->quants, k, &masks, plane + positions[0], in);
            continue;
        }
        int16_t lanes[LANES] = {0};
        while (positions[n - 1] >= coefs->n_k[k])
            n--;
        for (uint32_t l = 0; l < n; l++)
            lanes[l] = plane[positions[l]];
        dequantise(blocks->quants, k, &masks, lanes, in);
    }
    for (uint32_t k = group->last + 1; k < 64; k++)
        memset(work->in[psti_jpeg_zigzag[k]], 0, sizeof work->in[0]);
}

static uint8_t *place(const struct psti_pli_jpeg_blocks *blocks, uint32_t block)
{
    return blocks->samples + blocks->at[block >> 6] +
           (ptrdiff_t)((block >> 3 & 7) * 8 * blocks->stride + (block & 7) * 8);
}

/* This loop must not be unrolled: if compilers unroll it by 16 inside another loop, they do not
 * vectorise it. */
INLINE void add_bits(const int16_t *restrict in, uint16_t *restrict bits)
{
#pragma GCC unroll 1
    for (int l = 0; l < LANES; l++)
        bits[l] = (uint16_t)(bits[l] | (uint16_t)(in[l] ^ (int16_t)(in[l] >> 15)));
}

/* Returns whether the magnitudes of all coefficients up to `last` are below 1024. Then no column
 * comes near 2^15, because the factors of a sum add up to less than 61213. */
static bool is_small(const struct work *work, uint32_t last)
{
    uint16_t bits[LANES] = {0}, all = 0;
    for (uint32_t k = 0; k <= last; k++)
        add_bits(work->in[psti_jpeg_zigzag[k]], bits);
    for (int l = 0; l < LANES; l++)
        all |= bits[l];
    return all < 1024;
}

static void transform_group(const struct psti_pli_jpeg_blocks *blocks, const struct group *group,
                            struct work *work)
{
    /* The last zigzag number of each diagonal of coefficients. */
    static const uint8_t ends[15] = {0, 2, 5, 9, 14, 20, 27, 35, 42, 48, 53, 57, 60, 62, 63};
    uint8_t *to[LANES];
    int d = 0;
    while (ends[d] < group->last)
        d++;
    int n = d + 1 < 8 ? d + 1 : 8;
    load_group(blocks, group, work);
    bool small = is_small(work, group->last);
    for (int u = 0; u < n; u++)
        if (small)
            column(work, u, d - u + 1);
        else
            large_column(work, u);
    int n_rounded = (n + 1) / 2 * 2;
    for (int y = 0; y < 8; y++)
        for (int u = n; u < n_rounded; u++)
            memset(work->half[8 * y + u], 0, sizeof work->half[0]);
    for (uint32_t l = 0; l < group->n; l++)
        to[l] = place(blocks, blocks->coefs->order[group->positions[l]]);
    for (int y = 0; y < 8; y++) {
        row(work, y, n);
        store_row(work, to, group->n, (size_t)y * blocks->stride);
    }
}

/* Returns the next wanted blocks, at most 16, from list position *next on. Also finds their largest
 * end. */
static struct group next_group(const struct psti_pli_jpeg_blocks *blocks, uint32_t *next,
                               uint32_t *last)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    struct group group = {.n = 0};
    for (; *next < coefs->n && group.n < LANES; ++*next) {
        uint32_t block = coefs->order[*next];
        if (blocks->all || (blocks->wanted[block >> 6] >> (block & 63) & 1) != 0)
            group.positions[group.n++] = *next;
    }
    while (group.n > 0 && *last > 0 && coefs->n_k[*last] <= group.positions[0])
        --*last;
    group.last = *last;
    return group;
}

/* Writes the samples of blocks that have only a DC coefficient, without a transform: all samples
 * are DC / 8, rounded. */
static void flat_group(const struct psti_pli_jpeg_blocks *blocks, const struct group *group)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    for (uint32_t l = 0; l < group->n; l++) {
        uint32_t block = coefs->order[group->positions[l]];
        uint32_t component = coefs->squares[block >> 6].component;
        uint32_t product = (uint32_t)coefs->planes[group->positions[l]] *
                           (blocks->quants->twice[component][0] & 0xFFFF);
        int32_t value = clamp(((int16_t)(uint16_t)product + 4) >> 3, -128, 127) + 128;
        uint8_t *to = place(blocks, block);
        for (size_t y = 0; y < 8; y++)
            memset(to + y * blocks->stride, value, 8);
    }
}

void psti_pli_jpeg_idct_c(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    uint32_t next = 0, last = blocks->coefs->last;
    for (;;) {
        struct group group = next_group(blocks, &next, &last);
        if (group.n == 0)
            return;
        if (group.last == 0)
            flat_group(blocks, &group);
        else
            transform_group(blocks, &group, work);
    }
}
