/* filter.cuh - passes that combine each pixel with its neighbours (sharpen, blur), passes that add
 * up pictures (AugMix), and the pass that erases a rectangle.
 *
 * A lane (GPU thread) computes one pixel of the result. Sums are added in the order of
 * augment/augment_blur.c and each operation is rounded separately, so the bits are those of the
 * CPU. A blur takes two passes: the first writes floats, the second converts them to pixels. The
 * displacements of an elastic warp are blurred alike, as planes of floats. */
#ifndef PST_GPU_FILTER_CUH
#define PST_GPU_FILTER_CUH

#include "gpu/kernels/prepare.cuh"

namespace psti
{

/* Returns the address of row y of a picture of floats, which has one float for each sample. */
PSTI_LANES uint64_t float_row(uint64_t at, const struct psti_gpu_pass &pass, uint32_t channels,
                              uint32_t y)
{
    return at + (uint64_t)y * pass.width * channels * sizeof(float);
}

struct filter_kernel {
    static const int n_phases = 1;

    /* Sharpens a tile of pixels. Pixels at the border of the picture are not changed. */
    static PSTI_LANES void sharpen(tile &t, const struct psti_gpu_pass &pass,
                                   const struct psti_gpu_finish &finish)
    {
        const uint32_t channels = finish.channels, bits = finish.bits;
        const lane_u32 last = lane_u32(pass.width - 1);
        const lane_bool inner_x = (t.x > lane_u32(0)) & (t.x < last);
        const float rest = 1.0f - pass.sharpness;
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const bool inner_y = y > 0 && y < pass.height - 1;
            pixel p = load_pixel(from_row(pass, channels * (bits / 8u), y), t.x, channels, bits,
                                 lane_bool(true));
            lane_u32 sums[4];
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                sums[c] = lane_u32(6);
            PSTI_LOOP
            for (uint32_t k = 0; inner_y && k < 9; k++) {
                lane_u32 x = select(inner_x, t.x + lane_u32(k % 3) - lane_u32(1), t.x);
                pixel other = load_pixel(from_row(pass, channels * (bits / 8u), y + k / 3 - 1), x,
                                         channels, bits, lane_bool(true));
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    sums[c] += other.v[c] * lane_u32(k == 4 ? 5 : 1);
            }
            PSTI_UNROLL
            for (uint32_t c = 0; c < 3; c++) {
                lane_f32 own = to_f32(p.v[c]), smooth = to_f32(sums[c] / lane_u32(13));
                lane_f32 v = add_f32(own, mul_f32(lane_f32(rest), sub_f32(smooth, own)));
                lane_bool changes = inner_x & lane_bool(inner_y && c < t.range.colors);
                p.v[c] = select(changes, color_cut(v, t.range.most), p.v[c]);
            }
            tile_put(t, pass, finish, y, p);
        }
        tile_end(t, pass);
    }

    static PSTI_LANES void blur_x(const tile &t, const struct psti_gpu_pass &pass,
                                  const struct psti_gpu_finish &finish)
    {
        const uint32_t channels = finish.channels, bits = finish.bits;
        const lane_i32 first = as_i32(t.x) - lane_i32((int32_t)(pass.n_taps / 2));
        const float *taps = global_at<const float>(pass.taps);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const uint64_t row = from_row(pass, channels * (bits / 8u), y);
            lane_f32 sums[4];
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                sums[c] = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t k = 0; k < pass.n_taps; k++) {
                lane_i32 x =
                    pad_index(first + lane_i32((int32_t)k), pass.from_width, PST_PAD_REFLECT);
                pixel p = load_pixel(row, as_u32(x), channels, bits, lane_bool(true));
                const lane_f32 tap = lane_f32(load_uniform(taps, k));
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    sums[c] = add_f32(sums[c], mul_f32(tap, to_f32(p.v[c])));
            }
            float *to = global_at<float>(float_row(pass.to, pass, channels, y));
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++) {
                if (c < channels)
                    store(to, t.x * lane_u32(channels) + lane_u32(c), sums[c], t.live);
            }
        }
    }

    static PSTI_LANES void blur_y(tile &t, const struct psti_gpu_pass &pass,
                                  const struct psti_gpu_finish &finish)
    {
        const uint32_t channels = finish.channels;
        const float *taps = global_at<const float>(pass.taps);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const int32_t first = (int32_t)y - (int32_t)(pass.n_taps / 2);
            pixel p;
            lane_f32 sums[4];
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                sums[c] = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t k = 0; k < pass.n_taps; k++) {
                lane_i32 row =
                    pad_index(lane_i32(first + (int32_t)k), pass.from_height, PST_PAD_REFLECT);
                const float *from = global_at<const float>(
                    float_row(pass.from, pass, channels, (uint32_t)lane_of(row, 0)));
                const lane_f32 tap = lane_f32(load_uniform(taps, k));
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++) {
                    if (c < channels)
                        sums[c] = add_f32(
                            sums[c],
                            mul_f32(tap, load(from, t.x * lane_u32(channels) + lane_u32(c))));
                }
            }
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                p.v[c] = color_cut(round_f32(sums[c]), t.range.most);
            tile_put(t, pass, finish, y, p);
        }
        tile_end(t, pass);
    }

    /* Blurs a plane of floats along rows, or along columns and then multiplies by pass.scale. */
    template <bool is_y>
    static PSTI_LANES void blur_plane(const tile &t, const struct psti_gpu_pass &pass)
    {
        const float *taps = global_at<const float>(pass.taps), *from = global_at<float>(pass.from);
        const lane_i32 radius = lane_i32((int32_t)(pass.n_taps / 2));
        const lane_u32 width = lane_u32(pass.width);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const lane_u32 own_row = lane_u32(y) * width;
            const lane_i32 first = (is_y ? lane_i32((int32_t)y) : as_i32(t.x)) - radius;
            lane_f32 sum = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t k = 0; k < pass.n_taps; k++) {
                lane_u32 i = as_u32(pad_index(first + lane_i32((int32_t)k),
                                              is_y ? pass.height : pass.width, PST_PAD_REFLECT));
                lane_f32 v = load(from, is_y ? i * width + t.x : own_row + i);
                sum = add_f32(sum, mul_f32(lane_f32(load_uniform(taps, k)), v));
            }
            if (is_y)
                sum = mul_f32(sum, lane_f32(pass.scale));
            store(global_at<float>(pass.to), own_row + t.x, sum, t.live);
        }
    }

    /* Adds up a tile of pictures, as augment/augment_augmix.c does. */
    static PSTI_LANES void mix(tile &t, const struct psti_gpu_pass &pass,
                               const struct psti_gpu_finish &finish)
    {
        const uint32_t channels = finish.channels, bits = finish.bits;
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const uint64_t row = (uint64_t)y * pass.width * channels * (bits / 8u);
            pixel p;
            lane_f32 sums[4];
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                sums[c] = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t k = 0; k < pass.mix.n; k++) {
                const lane_f32 share = lane_f32(pass.mix.shares[k]);
                p = load_pixel(pass.mix.from[k] + row, t.x, channels, bits, lane_bool(true));
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    sums[c] = add_f32(sums[c], mul_f32(share, to_f32(p.v[c])));
            }
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                p.v[c] = color_cut(sums[c], t.range.most);
            tile_put(t, pass, finish, y, p);
        }
        tile_end(t, pass);
    }

    static PSTI_LANES void erase(const tile &t, const struct psti_gpu_pass &pass,
                                 const struct psti_gpu_finish &finish)
    {
        for (uint32_t y = t.y0; y < t.y1; y++) {
            uint64_t row = (uint64_t)((uint32_t)pass.y + y) * pass.full_width;
            const put_target to =
                put_place(finish, true, pass.to, (uint64_t)pass.full_height * pass.full_width,
                          row + (uint32_t)pass.x + t.stored_x, 1);
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++) {
                if (c < finish.channels)
                    store_element(to.at + c * to.plane, to.nbytes, lane_id() * lane_u32(to.step),
                                  lane_u32(pass.elements[c]), t.live);
            }
        }
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_prepare_args &args)
    {
        uint32_t number;
        const struct psti_gpu_pass *found = tile_find(b, args, PSTI_GPU_POINT_ROWS, number);
        if (found == NULL)
            return;
        const struct psti_gpu_pass &pass = *found;
        tile t = tile_of(pass, args.finish, number, PSTI_GPU_POINT_ROWS);
        switch (pass.kind) {
        case PSTI_GPU_SHARPEN:
            sharpen(t, pass, args.finish);
            break;
        case PSTI_GPU_BLUR_X:
            blur_x(t, pass, args.finish);
            break;
        case PSTI_GPU_BLUR_Y:
            blur_y(t, pass, args.finish);
            break;
        case PSTI_GPU_SHIFTS_X:
            blur_plane<false>(t, pass);
            break;
        case PSTI_GPU_SHIFTS_Y:
            blur_plane<true>(t, pass);
            break;
        case PSTI_GPU_MIX:
            mix(t, pass, args.finish);
            break;
        default:
            erase(t, pass, args.finish);
            break;
        }
    }
};

} // namespace psti

#endif
