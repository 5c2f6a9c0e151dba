/* noise.cuh - passes that make random numbers: the displacements of an elastic warp before they are
 * blurred (augment/augment_warp.c), and the noise of RandomErasing (augment/augment_erase.c).
 *
 * Numbers come from the generator of base/philox.h, which takes integers only. The sine and cosine
 * of the normal noise repeat augment/augment_math.c operation by operation. Each
 * operation is rounded separately, so the bits are those of the CPU. */
#ifndef PST_GPU_NOISE_CUH
#define PST_GPU_NOISE_CUH

#include "gpu/kernels/logarithm.cuh"
#include "gpu/kernels/prepare.cuh"

namespace psti
{

/* Computes the four random numbers of a try, in each lane of its own try (psti_augment_numbers). */
PSTI_LANES void noise_numbers(const struct psti_gpu_stream &stream, lane_u32 attempt, lane_u32 r[4])
{
    uint32_t k0 = stream.key[0], k1 = stream.key[1];
    r[0] = lane_u32((uint32_t)stream.sample);
    r[1] = lane_u32((uint32_t)(stream.sample >> 32));
    r[2] = lane_u32(stream.number);
    r[3] = attempt;
    PSTI_LOOP
    for (uint32_t round = 0; round < 10; round++) {
        const lane_u32 m0 = lane_u32(0xD2511F53u), m1 = lane_u32(0xCD9E8D57u);
        lane_u32 high0 = mul_high_u32(m0, r[0]), low0 = m0 * r[0];
        lane_u32 high1 = mul_high_u32(m1, r[2]), low1 = m1 * r[2];
        r[0] = high1 ^ r[1] ^ lane_u32(k0);
        r[1] = low1;
        r[2] = high0 ^ r[3] ^ lane_u32(k1);
        r[3] = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Does what psti_logarithm does, for normal numbers above 0. */
PSTI_LANES lane_f64 noise_log(lane_f64 x)
{
    const lane_u32 high = high_u32_of(x), one = lane_u32(1023u << 20); /* the upper half of 1.0 */
    const lane_i32 k = as_i32(high >> lane_u32(20)) - lane_i32(1023);
    return logarithm_of(f64_of((high & lane_u32(0xfffff)) | one, low_u32_of(x)), to_f64(k));
}

/* Does what psti_augment_sincos does, for 0 <= degrees <= 360. */
PSTI_LANES void noise_sincos(lane_f64 degrees, lane_f64 &sine, lane_f64 &cosine)
{
    const lane_f64 one = lane_f64(1.0), minus = lane_f64(-1.0);
    lane_f64 quadrants = div_f64(degrees, lane_f64(90.0));
    lane_u32 q = low_u32(to_i64(add_f64(quadrants, lane_f64(0.5))));
    lane_f64 x = add_f64(degrees, mul_f64(lane_f64(-90.0), to_f64(q)));
    x = mul_f64(x, lane_f64(0x1.1df46a2529d39p-6));
    lane_f64 s = one, c = one;
    PSTI_LOOP
    for (uint32_t n = 16; n >= 2; n -= 2) {
        s = div_f64(mul_f64(mul_f64(s, x), x), lane_f64(to_f64(n * (n + 1))));
        c = div_f64(mul_f64(mul_f64(c, x), x), lane_f64(to_f64(n * (n - 1))));
        s = add_f64(one, mul_f64(s, minus));
        c = add_f64(one, mul_f64(c, minus));
    }
    s = mul_f64(s, x);
    const lane_bool swaps = (q & lane_u32(1)) != lane_u32(0);
    sine = select(swaps, c, s);
    cosine = select(swaps, s, c);
    sine = select((q & lane_u32(2)) != lane_u32(0), mul_f64(sine, minus), sine);
    cosine =
        select(((q + lane_u32(1)) & lane_u32(2)) != lane_u32(0), mul_f64(cosine, minus), cosine);
}

/* Computes the numbers 2 * pair and 2 * pair + 1 of the normal noise. */
PSTI_LANES void noise_pair(const struct psti_gpu_stream &stream, lane_u32 pair, lane_f32 &even,
                           lane_f32 &odd)
{
    const lane_f64 whole = lane_f64(0x1p-32);
    lane_u32 r[4];
    lane_f64 sine, cosine;
    noise_numbers(stream, lane_u32(16) + pair, r);
    lane_f64 uniform = mul_f64(add_f64(to_f64(r[0]), lane_f64(0.5)), whole);
    lane_f64 radius = sqrt_f64(mul_f64(lane_f64(-2.0), noise_log(uniform)));
    noise_sincos(mul_f64(lane_f64(360.0), mul_f64(to_f64(r[1]), whole)), sine, cosine);
    even = to_f32(mul_f64(radius, cosine));
    odd = to_f32(mul_f64(radius, sine));
}

/* Returns the bits of the slot's element for a number, as psti_augment_erase_value does. */
PSTI_LANES lane_u32 noise_element(const struct psti_gpu_finish &finish, lane_f32 v)
{
    switch (finish.dtype) {
    case PST_DTYPE_U8:
        return color_cut(floor_f32(add_f32(v, lane_f32(0.5f))), 255.0f);
    case PST_DTYPE_U16:
        return color_cut(floor_f32(add_f32(v, lane_f32(0.5f))), 65535.0f);
    case PST_DTYPE_F16:
        return f16_bits(v);
    case PST_DTYPE_BF16:
        return bf16_bits(v);
    default:
        return bits_of(v);
    }
}

struct noise_kernel {
    static const int n_phases = 1;

    /* Makes the noise of displacements. A lane makes the four numbers of a try. */
    static PSTI_LANES void shifts(const tile &t, const struct psti_gpu_pass &pass)
    {
        const lane_u32 n = lane_u32(pass.from_height * pass.from_width);
        float *to = global_at<float>(pass.to);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const lane_u32 number = lane_u32(y * pass.width) + t.x, at = number * lane_u32(4);
            lane_u32 r[4];
            noise_numbers(pass.stream, (number + lane_u32(1)) | lane_u32(pass.stream.axis << 31),
                          r);
            PSTI_UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                lane_f32 v = mul_f32(to_f32(r[k] >> lane_u32(8)), lane_f32(0x1p-24f));
                v = add_f32(mul_f32(v, lane_f32(2.0f)), lane_f32(-1.0f));
                store(to, at + lane_u32(k), mul_f32(v, lane_f32(pass.scale)), at + lane_u32(k) < n);
            }
        }
    }

    /* Overwrites a tile of the rectangle. The numbers of a pixel's channels are those of one or two
     * pairs; with three channels, the first number of every other pixel is an odd one. */
    static PSTI_LANES void erase(const tile &t, const struct psti_gpu_pass &pass,
                                 const struct psti_gpu_finish &finish)
    {
        const uint32_t n_pairs = (finish.channels + 1u) / 2;
        for (uint32_t y = t.y0; y < t.y1; y++) {
            const lane_u32 first =
                (lane_u32(y * pass.width) + t.x) * lane_u32((uint32_t)finish.channels);
            const lane_bool is_odd = (first & lane_u32(1)) != lane_u32(0);
            lane_f32 v[5];
            PSTI_UNROLL
            for (uint32_t k = 0; k < 5; k++)
                v[k] = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t k = 0; k < n_pairs; k++) {
                lane_f32 even, odd;
                noise_pair(pass.stream, (first >> lane_u32(1)) + lane_u32(k), even, odd);
                v[0] = k == 0 ? even : v[0];
                v[1] = k == 0 ? odd : v[1];
                v[2] = k == 0 ? v[2] : even;
                v[3] = k == 0 ? v[3] : odd;
            }
            const uint64_t row = (uint64_t)((uint32_t)pass.y + y) * pass.full_width;
            const put_target to =
                put_place(finish, true, pass.to, (uint64_t)pass.full_height * pass.full_width,
                          row + (uint32_t)pass.x + t.stored_x, 1);
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++) {
                if (c < finish.channels)
                    store_element(to.at + c * to.plane, to.nbytes, lane_id() * lane_u32(to.step),
                                  noise_element(finish, select(is_odd, v[c + 1], v[c])), t.live);
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
        const tile t = tile_of(pass, args.finish, number, PSTI_GPU_POINT_ROWS);
        if (pass.kind == PSTI_GPU_SHIFTS)
            shifts(t, pass);
        else
            erase(t, pass, args.finish);
    }
};

} // namespace psti

#endif
