/* jpeg_coefs.cuh - decodes a unit of coefficients (format-pli.md 8), one warp per unit, from its
 * bytes to planes of quantised coefficients in scratch.
 *
 * The stages are: the first parts of the unit; classes and ends of blocks (8.2); the list of
 * blocks, sorted by their ends; tokens of DC (8.3) and of AC (8.4); raw bits (8.3, 8.5). The raw
 * bits of a token are known only after all tokens are read. Until then the tokens wait in planes in
 * scratch, 16 bits each.
 *
 * The context of a token depends on earlier coefficients of its block. For each list position, a
 * history of 16 tokens of 4 bits holds them, in two words of shared memory. Coefficient k is stored
 * at index k modulo 16, so nothing has to be shifted; instead the weights of a plane are rotated
 * (gpu_jpeg.c). Planes and history of a list position are used only by the lane whose number is
 * that position modulo 32. Histories are near (in shared memory) or, of long lists, far (in
 * scratch): see PSTI_GPU_COEFS_NEAR.
 *
 * Safety with hostile bytes: all addresses follow from the image's geometry, which the host has
 * checked, and from the ends of blocks, which are checked here. Reads beyond the words and raw bits
 * return zeros. They are counted, and checked at the end; no loop depends on them. */
#ifndef PST_GPU_JPEG_COEFS_CUH
#define PST_GPU_JPEG_COEFS_CUH

#include "gpu/kernels/jpeg_bits.cuh"
#include "gpu/work/gpu_jpeg.h"

namespace psti
{

/* -- Layout of a unit's memory -- */

struct coefs_unit {
    const struct psti_gpu_jpeg_image *image;
    const struct psti_gpu_jpeg_tables *tables;
    coefs_states states;
    coefs_bits bits;
    uint32_t n_squares, n; /* numbers of the unit's squares and blocks */
    uint32_t last;         /* the largest end of a block */
    uint32_t first_side;   /* number of the first block of a component with side 1 */
    uint16_t
        /* planes in scratch with n_squares * 64 values each; plane 0 is indexed by block, others by
         * list position */
        *planes;
    uint32_t stride;
    uint16_t *order;  /* in scratch; for each list position: 64 * square + position of the block */
    uint16_t *wanted; /* lies in scratch; has the list positions of the blocks that the inverse DCT
                         transforms */

    shared<uint8_t> memory; /* this warp's part of the block's shared memory */
    shared<uint32_t> bounds, ac, counts, squares;
    shared<uint8_t> buckets;
    shared<uint32_t> sides;        /* a bit for each list position: is its block of side 1? */
    shared<uint8_t> classes, ends; /* for each block; overwritten once the list is made */
    /* The histories of the first n_near list positions and of the others, in scratch: two words
     * for each, n_near and n_far words apart. */
    shared<uint32_t> near;
    uint32_t *far;
    uint32_t n_near, n_far;
    shared<uint32_t> halves;
};

/* A square of 8 x 8 blocks of the unit. It is loaded from shared memory, and all lanes hold the
 * same values. */
struct coefs_square {
    uint32_t component, side, columns, rows, column, row;
};

PSTI_LANES coefs_square square_at(const coefs_unit &u, uint32_t s)
{
    uint32_t a = load_uniform(u.squares, 2 * s), b = load_uniform(u.squares, 2 * s + 1);
    return coefs_square{a & 3, a >> 2 & 1, a >> 4 & 15, a >> 8, b & 0xffff, b >> 16};
}

PSTI_LANES uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Lists the squares of component c, one in each lane. Returns the number of their blocks. */
PSTI_LANES uint32_t place_squares(coefs_unit &u, uint32_t c, uint32_t unit_y, uint32_t unit_x)
{
    const struct psti_gpu_jpeg_component &component = u.image->components[c];
    uint32_t x0 = unit_x * component.unit_columns, y0 = unit_y * component.unit_rows;
    /* Units in the last row or column may lie beyond all blocks of a subsampled component. */
    uint32_t columns = x0 < component.columns ? component.columns - x0 : 0;
    uint32_t rows = y0 < component.rows ? component.rows - y0 : 0;
    columns = smaller(columns, component.unit_columns);
    rows = smaller(rows, component.unit_rows);
    uint32_t across = (columns + 7) / 8, n = across * ((rows + 7) / 8);
    lane_u32 row = lane_id() / lane_u32(across > 0 ? across : 1);
    lane_u32 column = lane_id() - row * lane_u32(across);
    lane_u32 wide = lane_u32(columns) - (column << lane_u32(3));
    lane_u32 high = lane_u32(rows) - (row << lane_u32(3));
    wide = select(wide < lane_u32(8), wide, lane_u32(8));
    high = select(high < lane_u32(8), high, lane_u32(8));
    lane_bool has = lane_id() < lane_u32(n);
    lane_u32 i = (lane_u32(u.n_squares) + lane_id()) << lane_u32(1);
    store(u.squares, i,
          lane_u32(c | (uint32_t)component.side << 2) | wide << lane_u32(4) | high << lane_u32(8),
          has);
    store(u.squares, i + lane_u32(1),
          (lane_u32(x0) + (column << lane_u32(3))) | (lane_u32(y0) + (row << lane_u32(3)))
                                                         << lane_u32(16),
          has);
    u.n_squares += n;
    return columns * rows;
}

PSTI_LANES void place_unit(coefs_unit &u, uint32_t unit_y, uint32_t unit_x)
{
    u.n_squares = u.n = 0;
    for (uint32_t c = 0; c < u.image->n_components; c++) {
        u.n += place_squares(u, c, unit_y, unit_x);
        if (c == 0)
            u.first_side = u.image->transform ? 64 * u.n_squares : UINT32_MAX;
    }
    u.stride = 64 * u.n_squares;
    u.n_near = smaller(u.stride, PSTI_GPU_COEFS_NEAR);
    u.n_far = u.stride - u.n_near;
    u.order = u.planes + 64 * u.stride;
    u.wanted = u.order + u.stride;
    u.far = reinterpret_cast<uint32_t *>(u.wanted + u.stride);
    u.sides = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_SIDES);
    u.classes = u.memory + PSTI_GPU_COEFS_STAGES;
    u.ends = u.classes + u.stride;
    u.near = u.halves = shared_cast<uint32_t>(u.memory, PSTI_GPU_COEFS_STAGES);
}

/* -- Ends of blocks and DC. Their tables are in global memory, because these tokens are few -- */

/* Reads one token in each lane, from the lane's table of 16 entries. */
PSTI_LANES lane_u32 read_token(const uint32_t *tables, lane_u32 table, coefs_states &s,
                               lane_bool live)
{
    lane_u32 slot = s.x & lane_u32(4095), base = table << lane_u32(4), token = lane_u32(0);
    PSTI_UNROLL
    for (uint32_t step = 8; step > 0; step >>= 1) {
        lane_u32 begin = load(tables, base + token + lane_u32(step)) & lane_u32(0xffff);
        token += select(slot >= begin, lane_u32(step), lane_u32(0));
    }
    advance(s, load(tables, base + token), live);
    return token;
}

/* Returns the context of the odd block at (y, x). It depends on the classes of even blocks, which
 * lanes hold (format-pli.md 8.2). */
PSTI_LANES lane_u32 odd_context(const coefs_square &q, lane_u32 even, lane_u32 y, lane_u32 x)
{
    lane_u32 one = lane_u32(1);
    lane_u32 left = select(x > lane_u32(0), x - one, x + one);
    lane_u32 right = select(x + one < lane_u32(q.columns), x + one, x - one);
    lane_u32 above = select(y > lane_u32(0), y - one, y + one);
    lane_u32 below = select(y + one < lane_u32(q.rows), y + one, y - one);
    lane_u32 y4 = y << lane_u32(2), half = x >> one;
    lane_u32 across = shuffle(even, y4 + (left >> one)) + shuffle(even, y4 + (right >> one));
    lane_u32 along =
        shuffle(even, (above << lane_u32(2)) + half) + shuffle(even, (below << lane_u32(2)) + half);
    lane_u32 sum = q.columns == 1 ? along + along : q.rows == 1 ? across + across : across + along;
    sum = (sum + lane_u32(2)) >> lane_u32(2);
    return select(sum < lane_u32(14), sum, lane_u32(14));
}

PSTI_LANES void read_classes(coefs_unit &u)
{
    lane_u32 y = lane_id() >> lane_u32(2), x2 = (lane_id() & lane_u32(3)) << lane_u32(1);
    const uint32_t *tables = &u.tables->ends[0][0][0];
    for (uint32_t s = 0; s < u.n_squares; s++) {
        coefs_square q = square_at(u, s);
        lane_u32 even = lane_u32(0);
        for (uint32_t odd = 0; odd < 2; odd++) {
            lane_u32 x = x2 + ((y + lane_u32(odd)) & lane_u32(1));
            lane_bool live = (x < lane_u32(q.columns)) & (y < lane_u32(q.rows));
            lane_u32 context = odd ? odd_context(q, even, y, x) : lane_u32(15);
            lane_u32 t = read_token(tables, lane_u32(16 * q.side) + context, u.states, live);
            t = select(live, t, lane_u32(0));
            store(u.classes, lane_u32(64 * s) + (y << lane_u32(3)) + x, t);
            even = t;
        }
    }
}

/* Makes ends of blocks from raw bits, with 64 where there is no block. Returns false if an end is
 * above 63. */
PSTI_LANES bool read_ends(coefs_unit &u)
{
    lane_u32 worst = lane_u32(0);
    for (uint32_t s = 0; s < u.n_squares; s++) {
        coefs_square q = square_at(u, s);
        lane_u32 e[2], n_bits[2], i = lane_u32(64 * s) + lane_id();
        PSTI_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            lane_u32 t = load(u.classes, i + lane_u32(32 * half)), four = t >> lane_u32(2);
            n_bits[half] = select(t == lane_u32(15), lane_u32(4), four);
            /* lowest end of each class (format-pli.md 8.2): t << (t / 4), minus 0, 4, 20 or 68 */
            e[half] = (t << four) - (lane_u32(0x44140400) >> (four << lane_u32(3)) & lane_u32(255));
        }
        for (uint32_t n = 0; take_bit(u.bits, n, n_bits[0], n_bits[1], e[0], e[1]);)
            n++;
        PSTI_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            lane_u32 p = lane_id() + lane_u32(32 * half);
            lane_bool has =
                ((p & lane_u32(7)) < lane_u32(q.columns)) & ((p >> lane_u32(3)) < lane_u32(q.rows));
            worst |= e[half];
            store(u.ends, i + lane_u32(32 * half), select(has, e[half], lane_u32(64)));
        }
    }
    return !some((worst & lane_u32(64)) != lane_u32(0));
}

/* Reads the tokens of all DC coefficients into plane 0. */
PSTI_LANES void read_dc(coefs_unit &u)
{
    const uint32_t *tables = &u.tables->dc[0][0][0];
    for (uint32_t s = 0; s < u.n_squares; s++) {
        coefs_square q = square_at(u, s);
        for (uint32_t half = 0; half < 2; half++) {
            lane_u32 p = lane_id() + lane_u32(32 * half), i = lane_u32(64 * s) + p;
            lane_bool live =
                ((p & lane_u32(7)) < lane_u32(q.columns)) & ((p >> lane_u32(3)) < lane_u32(q.rows));
            lane_u32 context = lane_u32(16 * q.side) + load(u.classes, i);
            lane_u32 t = read_token(tables, context, u.states, live);
            store(u.planes, i, select(live, t, lane_u32(0)));
        }
    }
}

/* Adds the raw bits of DC, and replaces the differences by their sums. */
PSTI_LANES void place_dc(coefs_unit &u)
{
    lane_u32 x = lane_id() & lane_u32(7), y = lane_id() >> lane_u32(3);
    for (uint32_t s = 0; s < u.n_squares; s++) {
        lane_u32 v[2], n_bits[2], i = lane_u32(64 * s) + lane_id();
        lane_bool negative[2];
        need_bits(u.bits, 64);
        PSTI_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            lane_u32 t = load(u.planes, i + lane_u32(32 * half));
            lane_bool some_bits = t > lane_u32(2);
            negative[half] = take_bits(u.bits, votes(t > lane_u32(0))) != lane_u32(0);
            n_bits[half] = select(some_bits, t - lane_u32(2), lane_u32(0));
            v[half] = select(some_bits, (lane_u32(1) << n_bits[half]) + lane_u32(1), t);
        }
        for (uint32_t n = 0; take_bit(u.bits, n, n_bits[0], n_bits[1], v[0], v[1]);)
            n++;
        lane_u32 down = lane_u32(0); /* running sum of column 0 over the rows above */
        PSTI_UNROLL
        for (uint32_t half = 0; half < 2; half++) {
            lane_u32 d = select(negative[half], lane_u32(0) - v[half], v[half]);
            d = select(v[half] == lane_u32(0), lane_u32(0), d);
            lane_u32 sum = d;
            PSTI_UNROLL
            for (uint32_t step = 1; step < 8; step *= 2)
                sum += select(x >= lane_u32(step), shift_up(sum, step), lane_u32(0));
            PSTI_UNROLL
            for (uint32_t row = 0; row < 4; row++) {
                lane_u32 first = lane_u32(lane_of(d, 8 * row));
                sum += select(y > lane_u32(row), first, lane_u32(0));
                if (half == 0)
                    down += first;
            }
            store(u.planes, i + lane_u32(32 * half), half == 0 ? sum : sum + down);
        }
    }
}

/* -- The list of blocks, sorted by their ends, largest first -- */

PSTI_LANES void sort_blocks(coefs_unit &u)
{
    lane_u32 l = lane_id(), high = l + lane_u32(32);
    store(u.counts, l, lane_u32(0));
    store(u.counts, high, lane_u32(0));
    store(u.counts, high + lane_u32(32), lane_u32(0), l < lane_u32(8));
    warp_sync();
    for (uint32_t base = 0; base < u.stride; base += PSTI_WARP) {
        lane_u32 e = load(u.ends, lane_u32(base) + l);
        atomic_add(u.counts, e, lane_u32(1), e < lane_u32(64));
    }
    warp_sync();
    lane_u32 n_low = load(u.counts, l), n_high = load(u.counts, high);
    lane_u32 sum_high = scan_add(n_high), sum_low = scan_add(n_low);
    uint32_t all_high = lane_of(sum_high, 31);
    /* Counts the blocks with a larger end. Blocks with this end come after them in the list. */
    lane_u32 behind_high = lane_u32(all_high) - sum_high;
    lane_u32 behind_low = lane_u32(u.n) - sum_low;
    uint32_t has_high = votes(n_high > lane_u32(0)), has_low = votes(n_low > lane_u32(0));
    u.last = has_high ? 63 - clz(has_high) : 31 - clz(has_low);
    warp_sync();
    store(u.counts, l, behind_low);
    store(u.counts, high, behind_high);
    warp_sync();
    for (uint32_t base = 0; base < u.stride; base += PSTI_WARP) {
        lane_u32 b = lane_u32(base) + l, e = load(u.ends, b);
        lane_bool has = e < lane_u32(64);
        lane_u32 same = same_lanes(e), before = popc(same & mask_below());
        lane_u32 at = load(u.counts, e, has, 0u);
        store(u.order, at + before, b, has);
        warp_sync();
        lane_bool first = has & (before == lane_u32(0));
        store(u.counts, e, at + popc(same), first);
        warp_sync();
    }
    for (uint32_t base = 0; base < u.n; base += PSTI_WARP) {
        lane_u32 i = lane_u32(base) + l;
        lane_bool has = i < lane_u32(u.n);
        lane_bool is_side = has & (load(u.order, i, has, 0u) >= lane_u32(u.first_side));
        store_uniform(u.sides, base / PSTI_WARP, votes(is_side));
    }
    /* counts[e] is now the number of blocks with an end of at least e. In the list, the blocks with
     * an end of e stop there. */
}

/* -- AC -- */

/* Values of a plane (one coefficient of all blocks) that all its steps share. */
struct coefs_plane {
    /* numbers of blocks with an end >= k, k + 1, k + 3 and k + 7 */
    uint32_t n, n1, n3, n7;
    uint32_t weights[2][4];
    int32_t bias[2];
    uint32_t nibble, word; /* place of coefficient k in the history: nibble and word */
    uint32_t plane;        /* where the plane begins in scratch */
};

PSTI_LANES coefs_plane open_plane(const coefs_unit &u,
                                  const struct psti_gpu_jpeg_constants *constants, uint32_t k)
{
    coefs_plane p;
    p.n = load_uniform(u.counts, k);
    p.n1 = load_uniform(u.counts, k + 1);
    p.n3 = load_uniform(u.counts, k + 3);
    p.n7 = load_uniform(u.counts, k + 7);
    PSTI_UNROLL
    for (uint32_t side = 0; side < 2; side++) {
        p.bias[side] = constants->biases[k][side];
        PSTI_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            p.weights[side][i] = constants->weights[k][side][i];
    }
    p.nibble = 4 * (k & 7);
    p.word = k >> 3 & 1;
    p.plane = k * u.stride;
    return p;
}

/* Returns the activities g (format-pli.md 8.4) of the four tokens in bits 0..15, one byte each. */
PSTI_LANES lane_u32 g_of(lane_u32 tokens)
{
    return pick_bytes(lane_u32(0x04020100), lane_u32(0x20140c07), tokens);
}

/* Returns the context bucket that follows from earlier tokens of the same block (format-pli.md
 * 8.4). */
PSTI_LANES lane_u32 ac_bucket(const coefs_unit &u, const coefs_plane &p, lane_bool is_side,
                              lane_u32 h0, lane_u32 h1)
{
    lane_u32 g[4] = {g_of(h0), g_of(h0 >> lane_u32(16)), g_of(h1), g_of(h1 >> lane_u32(16))};
    lane_i32 x = select(is_side, lane_i32(p.bias[1]), lane_i32(p.bias[0]));
    PSTI_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        x = dot4(g[i], select(is_side, lane_u32(p.weights[1][i]), lane_u32(p.weights[0][i])), x);
    /* x is never negative, so a logical shift halves it */
    lane_u32 half = as_u32(x) >> lane_u32(1);
    return load(u.buckets, select(half < lane_u32(127), half, lane_u32(127)));
}

/* Returns the token that a slot belongs to: the number of tokens 1..7 whose first slot is <= the
 * slot. */
PSTI_LANES lane_u32 ac_token(const coefs_unit &u, lane_u32 context, lane_u32 slot)
{
    const lane_u32 high = lane_u32(0x80008000);
    lane_u32 bounds[4], two = pick_bytes(slot | lane_u32(0x8000), lane_u32(0), lane_u32(0x1010));
    load4(u.bounds, context << lane_u32(2), bounds);
    lane_u32 a = ((two - bounds[0]) & high) | ((two - bounds[1]) & high) >> lane_u32(1);
    lane_u32 b = ((two - bounds[2]) & high) | ((two - bounds[3]) & high) >> lane_u32(1);
    return popc(a | b >> lane_u32(2));
}

/* Reads 32 tokens of a plane, from list position `base` on, whose histories are h0 and h1. If
 * `inside` is set, all their blocks have an end of at least k + 7, as most blocks do. Returns the
 * word of the history that has changed. */
template <bool inside>
PSTI_LANES lane_u32 read_step(coefs_unit &u, const coefs_plane &p, uint32_t base, lane_u32 h0,
                              lane_u32 h1)
{
    lane_u32 i = lane_u32(base) + lane_id();
    lane_bool live = inside ? lane_bool(true) : i < lane_u32(p.n);
    lane_u32 sides = lane_u32(load_uniform(u.sides, base / PSTI_WARP)) >> lane_id();
    lane_bool is_side = (sides & lane_u32(1)) != lane_u32(0);
    lane_u32 context = ac_bucket(u, p, is_side, h0, h1);
    if (inside) {
        context += lane_u32(24);
    } else {
        context += select(i < lane_u32(p.n1), lane_u32(8), lane_u32(0));
        context += select(i < lane_u32(p.n3), lane_u32(8), lane_u32(0));
        context += select(i < lane_u32(p.n7), lane_u32(8), lane_u32(0));
    }
    lane_u32 token = ac_token(u, context, u.states.x & lane_u32(4095));
    advance(u.states, load(u.ac, (context << lane_u32(3)) + token), live);
    store(u.planes, i + lane_u32(p.plane), token);
    lane_u32 h = p.word ? h1 : h0;
    return (h & lane_u32(~(15u << p.nibble))) | token << lane_u32(p.nibble);
}

template <bool inside> PSTI_LANES void read_near(coefs_unit &u, const coefs_plane &p, uint32_t base)
{
    lane_u32 i = lane_u32(base) + lane_id();
    lane_u32 h0 = load(u.near, i), h1 = load(u.near, i + lane_u32(u.n_near));
    lane_u32 h = read_step<inside>(u, p, base, h0, h1);
    store(u.near, i + lane_u32(p.word * u.n_near), h);
}

/* Reads the tokens of a plane at list positions n_near and up. The histories of each step are
 * loaded before the step before it is done, because memory answers late. */
PSTI_LANES void read_far(coefs_unit &u, const coefs_plane &p)
{
    lane_u32 i = lane_id(), n_far = lane_u32(u.n_far);
    lane_u32 h0 = load(u.far, i), h1 = load(u.far, i + n_far);
    for (uint32_t base = u.n_near; base < p.n; base += PSTI_WARP) {
        lane_u32 next = i + lane_u32(PSTI_WARP);
        lane_bool has = next < lane_u32(p.n - u.n_near);
        lane_u32 next0 = load(u.far, next, has, 0u), next1 = load(u.far, next + n_far, has, 0u);
        lane_u32 h = read_step<false>(u, p, base, h0, h1);
        store(u.far, i + lane_u32(p.word * u.n_far), h);
        i = next;
        h0 = next0;
        h1 = next1;
    }
}

/* Clears the histories of all blocks with AC coefficients. */
PSTI_LANES void clear_histories(coefs_unit &u)
{
    const uint32_t n = load_uniform(u.counts, 1);
    for (uint32_t i = 0; i < 2 * u.n_near; i += PSTI_WARP)
        store(u.near, lane_u32(i) + lane_id(), lane_u32(0));
    for (uint32_t base = u.n_near; base < n; base += PSTI_WARP) {
        lane_u32 i = lane_u32(base - u.n_near) + lane_id();
        store(u.far, i, lane_u32(0));
        store(u.far, i + lane_u32(u.n_far), lane_u32(0));
    }
}

/* Reads the tokens of planes 1..last, which are the AC coefficients. */
PSTI_LANES void read_ac(coefs_unit &u, const struct psti_gpu_jpeg_constants *constants)
{
    clear_histories(u);
    for (uint32_t k = 1; k <= u.last; k++) {
        const coefs_plane p = open_plane(u, constants, k);
        const uint32_t n = smaller(p.n, u.n_near), n7 = smaller(p.n7, u.n_near);
        uint32_t base = 0;
        for (; base + PSTI_WARP <= n7; base += PSTI_WARP)
            read_near<true>(u, p, base);
        for (; base < n; base += PSTI_WARP)
            read_near<false>(u, p, base);
        if (p.n > u.n_near)
            read_far(u, p);
    }
}

/* Reads the raw bits of the magnitudes of a group, for tokens of 3 and more (format-pli.md 8.5). */
PSTI_LANES void take_magnitudes(coefs_bits &b, lane_u32 v[2])
{
    lane_u32 n_bits[2];
    lane_bool goes_on[2] = {v[0] == lane_u32(7), v[1] == lane_u32(7)};
    PSTI_UNROLL
    for (uint32_t half = 0; half < 2; half++)
        n_bits[half] = select(v[half] > lane_u32(2), v[half] - lane_u32(2), lane_u32(0));
    for (uint32_t i = 0; i < 5; i++) { /* number of the octave of token 7, coded in unary (8.5) */
        uint32_t takers0 = votes(goes_on[0]), takers1 = votes(goes_on[1]);
        if ((takers0 | takers1) == 0)
            break;
        need_bits(b, 64);
        goes_on[0] = goes_on[0] & (take_bits(b, takers0) != lane_u32(0));
        goes_on[1] = goes_on[1] & (take_bits(b, takers1) != lane_u32(0));
        n_bits[0] += select(goes_on[0], lane_u32(1), lane_u32(0));
        n_bits[1] += select(goes_on[1], lane_u32(1), lane_u32(0));
    }
    PSTI_UNROLL
    for (uint32_t half = 0; half < 2; half++)
        v[half] =
            select(v[half] > lane_u32(2), (lane_u32(1) << n_bits[half]) + lane_u32(1), v[half]);
    for (uint32_t n = 0; take_bit(b, n, n_bits[0], n_bits[1], v[0], v[1]);)
        n++;
}

/* Makes coefficients of the tokens and raw bits of planes 1..last. */
PSTI_LANES void place_ac(coefs_unit &u)
{
    for (uint32_t k = 1; k <= u.last; k++) {
        uint32_t first = k * u.stride, end = first + load_uniform(u.counts, k);
        for (uint32_t base = first; base < end; base += 2 * PSTI_WARP) {
            lane_u32 i0 = lane_u32(base) + lane_id(), i1 = i0 + lane_u32(PSTI_WARP);
            lane_bool has0 = i0 < lane_u32(end), has1 = i1 < lane_u32(end);
            lane_u32 v[2] = {load(u.planes, i0, has0, 0u), load(u.planes, i1, has1, 0u)};
            need_bits(u.bits, 64);
            lane_u32 negative0 = take_bits(u.bits, votes(v[0] > lane_u32(0)));
            lane_u32 negative1 = take_bits(u.bits, votes(v[1] > lane_u32(0)));
            if (some((v[0] > lane_u32(2)) | (v[1] > lane_u32(2))))
                take_magnitudes(u.bits, v);
            store(u.planes, i0, (v[0] ^ (lane_u32(0) - negative0)) + negative0, has0);
            store(u.planes, i1, (v[1] ^ (lane_u32(0) - negative1)) + negative1, has1);
        }
    }
}

} // namespace psti

#endif
