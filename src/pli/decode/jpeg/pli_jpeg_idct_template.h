/* pli_jpeg_idct_template.h - turns coefficients into samples with vectors of any width.
 *
 * A vector holds one coefficient of LANES blocks, so nothing need be transposed before the samples
 * are bytes. Blocks with the largest ends come first. So the end of a group's first block says
 * which coefficients are all zeros. The group takes a variant of the transform that leaves these
 * out.
 *
 * A level includes this file once, after it has defined these names:
 *
 *     TARGET, INLINE   attributes of functions, and of functions that are always inlined
 *     VECTOR, LANES    a vector, and its number of 16-bit values
 *     MASK             the lanes that a comparison chose
 *     load(from)                       loads from any address
 *     set_pairs(two)                   sets the lanes in turn to the two halves of 32 bits
 *     multiply(a, b)                   returns the lower 16 bits of products
 *     above(a, b)                      returns the MASK of lanes where a > b, 16 bits, signed
 *     choose(mask, no, yes)            returns `yes` in the lanes of the mask, else `no`
 *     is_none(mask), is_all(mask)      return whether no lane is chosen, or all are
 *     struct work                      see below
 *     four_times(v)                    returns 4 v, clamped
 *     transform_column(in, n, out)     eight outputs of the first n of eight inputs, 8 apart
 *     rows(work, n)                    transforms rows of n values in work->half and stores samples
 *     store_flat(to, dc)               stores dc / 8 + 128, rounded and clamped, as bytes; it may
 *                                      write 2 * LANES bytes
 *     FLAT_AT(i)                       the index of lane i among these bytes
 *     small_column(work, u)            for blocks of 4x4: makes work->half from work->in
 *     small_row(work, y)               for blocks of 4x4: makes work->samples[y] from work->half
 *     SMALL_AT(i)                      the index of the four samples of lane i in work->samples[y]
 *
 * struct work has the vectors in[64] (dequantised coefficients, [8 * row + column]) and half[64]
 * (values after the transform of columns), order[LANES], and samples[4][4 * LANES] or more. For a
 * group of blocks it has their number n, the stride of samples, and to[LANES], the places of the
 * blocks. Lanes without a block have the place of the first block.
 *
 * This file defines do_group(), all_blocks() and open_unit(), which the level calls. */
#include <string.h>

enum { SMALL_LAST = 24 /* number of the last coefficient among the 4x4 frequencies */ };

_Static_assert(sizeof(struct work) <= PSTI_PLI_JPEG_IDCT_NBYTES, "the work fits");

/* LANES blocks whose coefficients are next to one another in each plane. */
struct group {
    const int16_t *planes;
    size_t stride;
    const uint16_t *order; /* LANES entries are readable */
    uint32_t n, last;      /* number of blocks; planes above number `last` are zeros */
};

/* Values that all groups of a unit share. */
struct unit {
    const struct psti_pli_jpeg_blocks *blocks;
    uint32_t last; /* planes above this number are not set, or not wanted */
    /* 64 * (first square of component 1) - 1, and the same for component 2. The second is above all
     * block numbers if both components have the same quantisation, as they nearly always have. */
    VECTOR before[2];
    ptrdiff_t places[64]; /* offsets of the blocks of a square from its first sample */
};

/* Transforms column u, in which only the first n rows may have values other than zero. */
INLINE void column(struct work *work, int u, int n)
{
    VECTOR out[8];
    if (n == 1)
        out[0] = out[1] = out[2] = out[3] = out[4] = out[5] = out[6] = out[7] =
            four_times(work->in[u]);
    else
        transform_column(work->in + u, n, out);
#pragma GCC unroll 8
    for (int y = 0; y < 8; y++)
        work->half[8 * y + u] = out[y];
}

/* Transforms column u if coefficients with row + column > d are zeros. */
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

/* Variants of the transform. `last` is the largest zigzag number up to the variant's diagonal. */
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
    return set_pairs(unit->blocks->quants->twice[component][k]);
}

/* Masks of the lanes of component 1 or 2 (`chroma`), and of component 2 (`third`). */
struct lanes {
    MASK chroma, third;
};
INLINE struct lanes lanes_of(const struct unit *unit, const struct group *group)
{
    VECTOR order = load((const void *)group->order);
    return (struct lanes){above(order, unit->before[0]), above(order, unit->before[1])};
}

INLINE VECTOR dequantised(const struct unit *unit, const struct group *group, uint32_t k,
                          struct lanes lanes)
{
    VECTOR q = choose(lanes.chroma, quants_of(unit, 0, k), quants_of(unit, 1, k));
    q = choose(lanes.third, q, quants_of(unit, 2, k));
    return multiply(coefs_of(group, k), q);
}

/* Dequantises planes 0..last of the group and stores them in their places, with zeros up to
 * `limit`. */
INLINE void load_group(const struct unit *unit, const struct group *group, uint32_t limit,
                       struct work *work)
{
    struct lanes lanes = lanes_of(unit, group);
    bool none = is_none(lanes.chroma), no_third = is_none(lanes.third);
    if (none || (is_all(lanes.chroma) && (no_third || is_all(lanes.third)))) {
        uint32_t component = none ? 0 : no_third ? 1 : 2;
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] =
                multiply(coefs_of(group, k), quants_of(unit, component, k));
    } else {
        for (uint32_t k = 0; k <= group->last; k++)
            work->in[psti_jpeg_zigzag[k]] = dequantised(unit, group, k, lanes);
    }
    for (uint32_t k = group->last + 1; k <= limit; k++)
        work->in[psti_jpeg_zigzag[k]] = set_pairs(0);
}

INLINE uint8_t *place(const struct unit *unit, uint32_t block)
{
    return unit->blocks->samples + unit->blocks->at[block >> 6] + unit->places[block & 63];
}

INLINE void find_places(const struct unit *unit, const struct group *group, struct work *work)
{
    work->stride = unit->blocks->stride;
    work->n = group->n;
    for (uint32_t i = 0; i < group->n; i++)
        work->to[i] = place(unit, group->order[i]);
    for (uint32_t i = group->n; i < LANES; i++)
        work->to[i] = work->to[0];
}

/* Writes the samples of blocks that have only a DC coefficient. */
INLINE void flat_group(const struct unit *unit, const struct group *group)
{
    size_t stride = unit->blocks->stride;
    uint8_t values[2 * LANES];
    store_flat(values, dequantised(unit, group, 0, lanes_of(unit, group)));
    for (uint32_t i = 0; i < group->n; i++) {
        uint64_t eight = values[FLAT_AT(i)] * UINT64_C(0x0101010101010101);
        uint8_t *to = place(unit, group->order[i]);
#pragma GCC unroll 8
        for (size_t y = 0; y < 8; y++)
            memcpy(to + y * stride, &eight, 8);
    }
}

/* Writes blocks of 4x4 samples. */
INLINE void small_group(const struct unit *unit, const struct group *group, struct work *work)
{
    size_t stride = unit->blocks->stride;
    find_places(unit, group, work);
    load_group(unit, group, SMALL_LAST, work);
    for (int u = 0; u < 4; u++)
        small_column(work, u);
    for (int y = 0; y < 4; y++)
        small_row(work, y);
    for (uint32_t i = 0; i < group->n; i++) {
        const uint8_t *from = work->samples[0] + SMALL_AT(i);
        uint8_t *to = work->to[i];
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
    /* Before the stores: their addresses come from the places. */
    find_places(unit, group, work);
    load_group(unit, group, variants[i].last, work);
    variants[i].run(work);
}

TARGET static void all_blocks(const struct unit *unit, struct work *work)
{
    const struct psti_pli_coefs *coefs = unit->blocks->coefs;
    struct group group = {.stride = coefs->stride, .n = LANES, .last = unit->last};
    for (uint32_t i = 0; i < coefs->n; i += LANES) {
        group.planes = coefs->planes + i;
        group.order = coefs->order + i;
        group.last = psti_pli_jpeg_end_at(coefs, i, group.last);
        if (coefs->n - i < LANES) { /* near the end of the list, entries after it must not be
                                     * read */
            group.n = coefs->n - i;
            memcpy(work->order, group.order, group.n * sizeof work->order[0]);
            group.order = work->order;
        }
        do_group(unit, &group, work);
    }
}

/* Returns the values that all groups of these blocks share. */
INLINE struct unit open_unit(const struct psti_pli_jpeg_blocks *blocks)
{
    struct unit unit = {.blocks = blocks, .last = blocks->coefs->last};
    for (uint32_t p = 0; p < 64; p++)
        unit.places[p] =
            (ptrdiff_t)((p >> 3) * blocks->edge * blocks->stride + (p & 7) * blocks->edge);
    if (blocks->edge == 4 && unit.last > SMALL_LAST)
        unit.last = SMALL_LAST;
    for (uint32_t c = 1; c < PSTI_JPEG_COMPONENTS_MAX; c++) {
        uint32_t before = 64 * psti_pli_jpeg_first_square(blocks->coefs, c) - 1;
        unit.before[c - 1] = set_pairs((uint16_t)before | before << 16);
    }
    if (memcmp(blocks->quants->twice[1], blocks->quants->twice[2],
               sizeof blocks->quants->twice[1]) == 0)
        unit.before[1] = set_pairs((uint32_t)INT16_MAX << 16 | INT16_MAX);
    return unit;
}
