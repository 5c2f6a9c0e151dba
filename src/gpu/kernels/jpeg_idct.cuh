/* jpeg_idct.cuh - transforms the coefficients of a unit to samples (format-pli.md 9). A lane
 * transforms a block; 32 blocks of the list that the region needs are done at a time.
 *
 * Neighbours in the list have about the same number of coefficients. So columns and rows beyond
 * those of the first block are skipped. Columns come from scratch and go to shared memory, two rows
 * to a word. Rows go from there to the planes of samples. Lanes exchange nothing. */
#ifndef PST_GPU_JPEG_IDCT_CUH
#define PST_GPU_JPEG_IDCT_CUH

#include "gpu/kernels/jpeg_coefs.cuh"

namespace psti
{

/* Computes the transform's eight sums from n inputs; inputs from n on are 0. The sums of 16-bit
 * inputs do not wrap. */
template <int n> PSTI_LANES void idct_sums(const lane_i32 in[8], int32_t rounding, lane_i32 out[8])
{
    lane_i32 zero = lane_i32(0);
    lane_i32 i0 = in[0], i1 = n > 1 ? in[1] : zero, i2 = n > 2 ? in[2] : zero;
    lane_i32 i3 = n > 2 ? in[3] : zero, i4 = n > 4 ? in[4] : zero, i5 = n > 4 ? in[5] : zero;
    lane_i32 i6 = n > 4 ? in[6] : zero, i7 = n > 4 ? in[7] : zero;
    lane_i32 t0 = (i0 + i4) * lane_i32(8192) + lane_i32(rounding);
    lane_i32 t1 = (i0 - i4) * lane_i32(8192) + lane_i32(rounding);
    lane_i32 t2 = i2 * lane_i32(4433) - i6 * lane_i32(10704);
    lane_i32 t3 = i2 * lane_i32(10703) + i6 * lane_i32(4433);
    lane_i32 b0 =
        i1 * lane_i32(11363) + i3 * lane_i32(9633) + i5 * lane_i32(6437) + i7 * lane_i32(2260);
    lane_i32 b1 =
        i1 * lane_i32(9633) - i3 * lane_i32(2259) - i5 * lane_i32(11362) - i7 * lane_i32(6436);
    lane_i32 b2 =
        i1 * lane_i32(6437) - i3 * lane_i32(11362) + i5 * lane_i32(2261) + i7 * lane_i32(9633);
    lane_i32 b3 =
        i1 * lane_i32(2260) - i3 * lane_i32(6436) + i5 * lane_i32(9633) - i7 * lane_i32(11363);
    lane_i32 a0 = t0 + t3, a1 = t1 + t2, a2 = t1 - t2, a3 = t0 - t3;
    out[0] = a0 + b0;
    out[1] = a1 + b1;
    out[2] = a2 + b2;
    out[3] = a3 + b3;
    out[4] = a3 - b3;
    out[5] = a2 - b2;
    out[6] = a1 - b1;
    out[7] = a0 - b0;
}

PSTI_LANES lane_i32 low_i16(lane_u32 v) { return as_i32(v << lane_u32(16)) >> lane_i32(16); }
PSTI_LANES lane_i32 high_i16(lane_u32 v) { return as_i32(v) >> lane_i32(16); }

/* A group of 32 blocks for the inverse DCT, one in each lane. */
struct coefs_group {
    lane_u32 i, block; /* list position of the block, and its number: 64 * square + position */
    lane_u32 end;      /* all coefficients after it are 0 */
    lane_u32 component;
    lane_u32 at, step; /* address of the block's first sample, and distance of its rows, both in
                        * units of 4 bytes */
    lane_bool live;
};

/* Finds the address of the block's samples. Returns false in lanes whose block the region does not
 * need. */
PSTI_LANES lane_bool locate(const coefs_unit &u, coefs_group &g)
{
    lane_u32 square = g.block >> lane_u32(6) << lane_u32(1);
    lane_u32 a = load(u.squares, square), b = load(u.squares, square + lane_u32(1));
    lane_u32 column = (b & lane_u32(0xffff)) + (g.block & lane_u32(7));
    lane_u32 row = (b >> lane_u32(16)) + (g.block >> lane_u32(3) & lane_u32(7));
    lane_bool wanted = lane_bool(false);
    g.component = a & lane_u32(3);
    g.at = g.step = lane_u32(0);
    for (uint32_t c = 0; c < u.image->n_components; c++) {
        const struct psti_gpu_jpeg_component &plane = u.image->components[c];
        lane_bool here = g.component == lane_u32(c);
        lane_u32 x = column - lane_u32(plane.column0), y = row - lane_u32(plane.row0);
        lane_u32 step = lane_u32(plane.stride >> 2);
        lane_u32 first =
            lane_u32((uint32_t)((plane.samples - u.image->components[0].samples) >> 2));
        wanted = wanted | (here & (x < lane_u32(plane.column1 - plane.column0)) &
                           (y < lane_u32(plane.row1 - plane.row0)));
        g.at = select(here, first + ((y * step) << lane_u32(3)) + (x << lane_u32(1)), g.at);
        g.step = select(here, step, g.step);
    }
    return wanted;
}

/* Lists the list positions of blocks that the region needs. Returns their number. */
PSTI_LANES uint32_t list_wanted(coefs_unit &u)
{
    uint32_t n = 0;
    for (uint32_t base = 0; base < u.n; base += PSTI_WARP) {
        coefs_group g;
        g.i = lane_u32(base) + lane_id();
        lane_bool has = g.i < lane_u32(u.n);
        g.block = load(u.order, g.i, has, 0u);
        has = has & locate(u, g);
        uint32_t all = votes(has);
        store(u.wanted, lane_u32(n) + popc(lane_u32(all) & mask_below()), g.i, has);
        n += popc(all);
    }
    return n;
}

/* Returns the group of needed blocks number first..first + 31. There are n needed blocks. */
PSTI_LANES coefs_group group_at(const coefs_unit &u, uint32_t first, uint32_t n)
{
    coefs_group g;
    lane_u32 number = lane_u32(first) + lane_id();
    g.live = number < lane_u32(n);
    g.i = load(u.wanted, select(g.live, number, lane_u32(n - 1)));
    g.block = load(u.order, g.i);
    g.end = lane_u32(0);
    PSTI_UNROLL
    for (uint32_t step = 32; step > 0; step >>= 1) {
        lane_u32 n_k = load(u.counts, g.end + lane_u32(step));
        g.end += select(n_k > g.i, lane_u32(step), lane_u32(0));
    }
    (void)locate(u, g);
    return g;
}

/* Transforms column u of all blocks. Rows n and up are 0. Stores two rows in each word of
 * `halves`. */
template <int n>
PSTI_LANES void idct_column(const coefs_unit &unit, const struct psti_gpu_jpeg_constants *constants,
                            const coefs_group &g, uint32_t u)
{
    lane_i32 in[8], out[8];
    lane_u32 quants[4];
    const uint32_t zigzag[2] = {constants->zigzag[u][0], constants->zigzag[u][1]};
    load4(&unit.image->quants[0][0][0], (g.component << lane_u32(5)) + lane_u32(4 * u), quants);
    PSTI_UNROLL
    for (uint32_t y = 0; y < 8; y++) {
        if (y >= n)
            break;
        uint32_t k = zigzag[y >> 2] >> (8 * (y & 3)) & 63;
        lane_u32 i = lane_u32(k * unit.stride) + g.i;
        if (y == 0)
            i = u == 0 ? g.block : i;
        lane_u32 v = load(unit.planes, i, lane_u32(k) <= g.end, 0u);
        lane_u32 q = y & 1 ? quants[y >> 1] >> lane_u32(16) : quants[y >> 1] & lane_u32(0xffff);
        in[y] = low_i16(v * q);
    }
    idct_sums<n>(in, 1 << 10, out);
    PSTI_UNROLL
    for (uint32_t y = 0; y < 8; y += 2) {
        lane_u32 two = pack_i16(out[y] >> lane_i32(11), out[y + 1] >> lane_i32(11));
        store(unit.halves, lane_u32(32 * (4 * u + y / 2)) + lane_id(), two);
    }
}

/* Transforms rows 2 * pair and 2 * pair + 1 to samples. Columns n and up are 0. */
template <int n>
PSTI_LANES void idct_rows(const coefs_unit &unit, const coefs_group &g, uint32_t pair)
{
    uint32_t *samples = reinterpret_cast<uint32_t *>(unit.image->components[0].samples);
    lane_u32 two[8];
    PSTI_UNROLL
    for (uint32_t u = 0; u < 8; u++) {
        if (u < n)
            two[u] = load(unit.halves, lane_u32(32 * (4 * u + pair)) + lane_id());
    }
    PSTI_UNROLL
    for (uint32_t odd = 0; odd < 2; odd++) {
        lane_i32 in[8], out[8];
        PSTI_UNROLL
        for (uint32_t u = 0; u < 8; u++) {
            if (u < n)
                in[u] = odd ? high_i16(two[u]) : low_i16(two[u]);
        }
        idct_sums<n>(in, (128 << 18) + (1 << 17), out);
        PSTI_UNROLL
        for (uint32_t x = 0; x < 8; x++)
            out[x] = out[x] >> lane_i32(18);
        store2(samples, g.at + lane_u32(2 * pair + odd) * g.step,
               pack_u8(out[0], out[1], out[2], out[3]), pack_u8(out[4], out[5], out[6], out[7]),
               g.live);
    }
}

PSTI_LANES void transform_group(const coefs_unit &unit,
                                const struct psti_gpu_jpeg_constants *constants,
                                const coefs_group &g)
{
    /* The first block of the list has the largest end, so it limits all blocks. */
    uint32_t diagonal = constants->diagonals[lane_of(g.end, 0)];
    uint32_t n = smaller(diagonal + 1, 8), rounded = n <= 2 ? n : n <= 4 ? 4 : 8;
    for (uint32_t u = 0; u < rounded; u++) {
        uint32_t rows = diagonal + 1 - u;
        if (u >= n) {
            for (uint32_t pair = 0; pair < 4; pair++)
                store(unit.halves, lane_u32(32 * (4 * u + pair)) + lane_id(), lane_u32(0));
        } else if (rows > 4) {
            idct_column<8>(unit, constants, g, u);
        } else if (rows > 2) {
            idct_column<4>(unit, constants, g, u);
        } else {
            idct_column<2>(unit, constants, g, u);
        }
    }
    for (uint32_t pair = 0; pair < 4; pair++) {
        if (n > 4)
            idct_rows<8>(unit, g, pair);
        else if (n > 2)
            idct_rows<4>(unit, g, pair);
        else if (n > 1)
            idct_rows<2>(unit, g, pair);
        else
            idct_rows<1>(unit, g, pair);
    }
}

PSTI_LANES void transform(coefs_unit &u, const struct psti_gpu_jpeg_constants *constants)
{
    uint32_t n = list_wanted(u);
    warp_sync();
    for (uint32_t first = 0; first < n; first += PSTI_WARP)
        transform_group(u, constants, group_at(u, first, n));
}

} // namespace psti

#endif
