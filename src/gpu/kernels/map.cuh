/* map.cuh - passes that warp a picture: affine maps, perspective and elastic displacement.
 *
 * A lane computes one pixel of the result. Positions in the source are integers with 32 bits of
 * fraction, computed from doubles in the order of augment/augment_warp.c. Weights are floats,
 * computed in the same order as there. So the bits are the same. */
#ifndef PST_GPU_MAP_CUH
#define PST_GPU_MAP_CUH

#include "gpu/kernels/prepare.cuh"

namespace psti
{

/* Coordinates further outside than this are set to it, because no pixel is near them. */
#define PSTI_MAP_FAR 0x1p29

PSTI_LANES lane_i64 map_fixed(lane_f64 place)
{
    const lane_f64 least = lane_f64(-PSTI_MAP_FAR), most = lane_f64(PSTI_MAP_FAR);
    place = select(place > least, place, least); /* NaN also becomes `least` */
    return to_i64(mul_f64(select(place < most, place, most), lane_f64(0x1p32)));
}

/* Returns m[0] x + m[1] y + m[2] for the pixel centre (x, y). */
PSTI_LANES lane_f64 map_sum(const double *m, lane_f64 x, double y)
{
    lane_f64 sum = add_f64(mul_f64(lane_f64(m[0]), x), lane_f64(mul_f64(m[1], y)));
    return add_f64(sum, lane_f64(m[2]));
}

/* Computes the source positions of pixels `i` of a row. y is the distance of the row's centre from
 * the middle. */
PSTI_LANES void map_affine(const struct psti_gpu_pass &pass, double y, lane_u32 i, lane_i64 &to_x,
                           lane_i64 &to_y)
{
    const double *m = pass.map.m;
    double half_x = mul_f64(to_f64(pass.width), 0.5), half_y = mul_f64(to_f64(pass.height), 0.5);
    double x = add_f64(0.5, -half_x);
    double at_x = add_f64(add_f64(mul_f64(m[0], x), mul_f64(m[1], y)), m[2]);
    double at_y = add_f64(add_f64(mul_f64(m[3], x), mul_f64(m[4], y)), m[5]);
    at_x = add_f64(add_f64(at_x, half_x), -0.5);
    at_y = add_f64(add_f64(at_y, half_y), -0.5);
    to_x = map_fixed(add_f64(lane_f64(at_x), mul_f64(lane_f64(m[0]), to_f64(i))));
    to_y = map_fixed(add_f64(lane_f64(at_y), mul_f64(lane_f64(m[3]), to_f64(i))));
}

PSTI_LANES void map_perspective(const struct psti_gpu_pass &pass, double y, lane_u32 i,
                                lane_i64 &to_x, lane_i64 &to_y)
{
    const double *m = pass.map.m;
    double half_x = mul_f64(to_f64(pass.width), 0.5), half_y = mul_f64(to_f64(pass.height), 0.5);
    lane_f64 x = add_f64(add_f64(to_f64(i), lane_f64(0.5)), lane_f64(-half_x));
    lane_f64 below = add_f64(mul_f64(lane_f64(m[6]), x), lane_f64(mul_f64(m[7], y)));
    below = add_f64(below, lane_f64(1.0));
    lane_bool seen = below > lane_f64(1e-9);
    const lane_f64 away = lane_f64(PSTI_MAP_FAR);
    below = select(seen, below, lane_f64(1.0));
    lane_f64 at_x = add_f64(div_f64(map_sum(m, x, y), below), lane_f64(half_x));
    lane_f64 at_y = add_f64(div_f64(map_sum(m + 3, x, y), below), lane_f64(half_y));
    to_x = map_fixed(select(seen, add_f64(at_x, lane_f64(-0.5)), away));
    to_y = map_fixed(select(seen, add_f64(at_y, lane_f64(-0.5)), away));
}

/* Adds the displacements of an elastic warp to the positions of pixels `i` of row y. */
PSTI_LANES void map_shift(const struct psti_gpu_pass &pass, uint32_t y, lane_u32 i, lane_i64 &to_x,
                          lane_i64 &to_y)
{
    const lane_u32 at = lane_u32(y * pass.width) + i;
    lane_f32 x = load(global_at<const float>(pass.map.shifts[0]), at);
    lane_f32 down = load(global_at<const float>(pass.map.shifts[1]), at);
    to_x = to_x + map_fixed(to_f64(x));
    to_y = to_y + map_fixed(to_f64(down));
}

/* Loads pixel (x, y) of the source in each lane; zeros if it is outside. */
PSTI_LANES pixel map_pixel(const struct psti_gpu_pass &pass, const struct psti_gpu_finish &finish,
                           lane_u32 x, lane_u32 y, lane_bool &inside)
{
    inside = (x < lane_u32(pass.from_width)) & (y < lane_u32(pass.from_height));
    lane_u32 at = select(inside, y * lane_u32(pass.from_width) + x, lane_u32(0));
    return load_pixel(pass.from, at, finish.channels, finish.bits, inside);
}

PSTI_LANES pixel map_nearest(const struct psti_gpu_pass &pass, const struct psti_gpu_finish &finish,
                             lane_i64 x, lane_i64 y)
{
    const lane_i64 half = lane_i64((int64_t)1 << 31), whole = lane_i64((int64_t)32);
    lane_bool inside;
    pixel p =
        map_pixel(pass, finish, low_u32((x + half) >> whole), low_u32((y + half) >> whole), inside);
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++)
        p.v[c] = select(inside, p.v[c], lane_u32(pass.fill[c]));
    return p;
}

PSTI_LANES lane_f32 map_part(lane_i64 place)
{
    return mul_f32(to_f32(low_u32(place) >> lane_u32(8)), lane_f32(0x1p-24f));
}

PSTI_LANES pixel map_bilinear(const struct psti_gpu_pass &pass,
                              const struct psti_gpu_finish &finish, lane_i64 x, lane_i64 y)
{
    const lane_i64 whole = lane_i64((int64_t)32);
    const lane_u32 left = low_u32(x >> whole), top = low_u32(y >> whole);
    const lane_f32 part_x = map_part(x), part_y = map_part(y), one = lane_f32(1.0f);
    const float most = finish.bits == 8 ? 255.0f : 65535.0f;
    lane_f32 inside = lane_f32(0.0f), sums[4];
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++)
        sums[c] = lane_f32(0.0f);
    PSTI_UNROLL
    for (uint32_t k = 0; k < 4; k++) {
        lane_bool is_in;
        pixel p = map_pixel(pass, finish, left + lane_u32(k & 1), top + lane_u32(k >> 1), is_in);
        lane_f32 along_x = (k & 1) != 0 ? part_x : sub_f32(one, part_x);
        lane_f32 along_y = k >> 1 != 0 ? part_y : sub_f32(one, part_y);
        lane_f32 weight = select(is_in, mul_f32(along_x, along_y), lane_f32(0.0f));
        inside = add_f32(inside, weight);
        PSTI_UNROLL
        for (uint32_t c = 0; c < 4; c++)
            sums[c] = add_f32(sums[c], mul_f32(weight, to_f32(p.v[c])));
    }
    pixel result;
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        const lane_f32 fill = lane_f32((float)pass.fill[c]);
        lane_f32 v = sums[c];
        if (pass.blends)
            v = add_f32(mul_f32(sub_f32(v, fill), inside), fill);
        result.v[c] = color_cut(round_f32(v), most);
    }
    return result;
}

struct map_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_prepare_args &args)
    {
        uint32_t number;
        const struct psti_gpu_pass *found = tile_find(b, args, PSTI_GPU_POINT_ROWS, number);
        if (found == NULL)
            return;
        const struct psti_gpu_pass &pass = *found;
        const bool is_perspective = pass.map.m[6] != 0 || pass.map.m[7] != 0;
        tile t = tile_of(pass, args.finish, number, PSTI_GPU_POINT_ROWS);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            double half_y = mul_f64(to_f64(pass.height), 0.5);
            double center = add_f64(add_f64(to_f64(y), 0.5), -half_y);
            lane_i64 from_x, from_y;
            if (is_perspective)
                map_perspective(pass, center, t.x, from_x, from_y);
            else
                map_affine(pass, center, t.x, from_x, from_y);
            if (pass.map.shifts[0] != 0)
                map_shift(pass, y, t.x, from_x, from_y);
            pixel p = pass.nearest ? map_nearest(pass, args.finish, from_x, from_y)
                                   : map_bilinear(pass, args.finish, from_x, from_y);
            tile_put(t, pass, args.finish, y, p);
        }
        tile_end(t, pass);
    }
};

} // namespace psti

#endif
