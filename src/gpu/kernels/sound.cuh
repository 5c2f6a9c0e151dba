/* sound.cuh - features of sound: the operations of src/sound from the spectrogram on, each in the
 * order and with the rounding of the CPU.
 *
 * A warp makes one frame in shared memory: real parts of the FFT's numbers, then imaginary parts.
 * Each stage of the FFT is KISS FFT's (third_party/kissfft): its butterflies do not depend on each
 * other, so the lanes take them in any order. The bins replace the FFT's numbers. */
#ifndef PST_GPU_SOUND_CUH
#define PST_GPU_SOUND_CUH

#include "gpu/kernels/logarithm.cuh"
#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_sound.h"

namespace psti
{

/* Complex numbers
 * ------------------------------------------------------------------------------------------------
 */

struct complex_lanes {
    lane_f32 r, i;
};

PSTI_LANES complex_lanes add(const complex_lanes &a, const complex_lanes &b)
{
    return {add_f32(a.r, b.r), add_f32(a.i, b.i)};
}
PSTI_LANES complex_lanes sub(const complex_lanes &a, const complex_lanes &b)
{
    return {sub_f32(a.r, b.r), sub_f32(a.i, b.i)};
}
PSTI_LANES complex_lanes mul(const complex_lanes &a, const complex_lanes &b)
{
    return {sub_f32(mul_f32(a.r, b.r), mul_f32(a.i, b.i)),
            add_f32(mul_f32(a.r, b.i), mul_f32(a.i, b.r))};
}
PSTI_LANES lane_f32 negated(lane_f32 v) { return float_of(bits_of(v) ^ lane_u32(0x80000000u)); }

/* The numbers of a frame in shared memory, and the factors of its FFT. */
struct frame {
    shared<float> at;
    uint32_t n;
    const float *twiddles;
};

PSTI_LANES complex_lanes load_complex(const frame &f, lane_u32 i, lane_bool live)
{
    return {load(f.at, i, live), load(f.at, i + lane_u32(f.n), live)};
}
PSTI_LANES void store_complex(const frame &f, lane_u32 i, const complex_lanes &v, lane_bool live)
{
    store(f.at, i, v.r, live);
    store(f.at, i + lane_u32(f.n), v.i, live);
}
PSTI_LANES complex_lanes factor_at(const float *factors, lane_u32 i, lane_bool live)
{
    i = i + i;
    return {load(factors, i, live), load(factors, i + lane_u32(1), live)};
}

/* Stages of the FFT
 * ------------------------------------------------------------------------------------------------
 */

/* The butterflies of the lanes. A lane's butterfly begins at number `at`, and its numbers are m
 * apart. Its place u in its group chooses its factors. */
struct butterflies {
    lane_u32 at, u;
    uint32_t m, stride;
    lane_bool live;
};

PSTI_LANES lane_u32 member(const butterflies &b, uint32_t q) { return b.at + lane_u32(q * b.m); }
PSTI_LANES complex_lanes factor(const frame &f, const butterflies &b, uint32_t q)
{
    return factor_at(f.twiddles, b.u * lane_u32(q * b.stride), b.live);
}
/* Returns member q times its factor. */
PSTI_LANES complex_lanes turned(const frame &f, const butterflies &b, uint32_t q)
{
    return mul(load_complex(f, member(b, q), b.live), factor(f, b, q));
}

PSTI_LANES void radix2(const frame &f, const butterflies &b)
{
    complex_lanes a = load_complex(f, b.at, b.live), t = turned(f, b, 1);
    store_complex(f, member(b, 1), sub(a, t), b.live);
    store_complex(f, b.at, add(a, t), b.live);
}

PSTI_LANES void radix3(const frame &f, const butterflies &b)
{
    const lane_f32 half = lane_f32(0.5f);
    const lane_f32 epi3 = lane_f32(load_uniform(f.twiddles, 2 * b.stride * b.m + 1));
    complex_lanes a = load_complex(f, b.at, b.live), t1 = turned(f, b, 1), t2 = turned(f, b, 2);
    complex_lanes s = add(t1, t2), d = sub(t1, t2);
    complex_lanes mid = {sub_f32(a.r, mul_f32(s.r, half)), sub_f32(a.i, mul_f32(s.i, half))};
    d.r = mul_f32(d.r, epi3);
    d.i = mul_f32(d.i, epi3);
    store_complex(f, b.at, add(a, s), b.live);
    store_complex(f, member(b, 2), {add_f32(mid.r, d.i), sub_f32(mid.i, d.r)}, b.live);
    store_complex(f, member(b, 1), {sub_f32(mid.r, d.i), add_f32(mid.i, d.r)}, b.live);
}

PSTI_LANES void radix4(const frame &f, const butterflies &b)
{
    complex_lanes a = load_complex(f, b.at, b.live);
    complex_lanes t1 = turned(f, b, 1), t2 = turned(f, b, 2), t3 = turned(f, b, 3);
    complex_lanes s5 = sub(a, t2), s3 = add(t1, t3), s4 = sub(t1, t3);
    a = add(a, t2);
    store_complex(f, member(b, 2), sub(a, s3), b.live);
    store_complex(f, b.at, add(a, s3), b.live);
    store_complex(f, member(b, 1), {add_f32(s5.r, s4.i), sub_f32(s5.i, s4.r)}, b.live);
    store_complex(f, member(b, 3), {sub_f32(s5.r, s4.i), add_f32(s5.i, s4.r)}, b.live);
}

/* Returns a + b * v + c * w. */
PSTI_LANES lane_f32 sum3(lane_f32 a, lane_f32 b, float v, lane_f32 c, float w)
{
    return add_f32(add_f32(a, mul_f32(b, lane_f32(v))), mul_f32(c, lane_f32(w)));
}

PSTI_LANES void radix5(const frame &f, const butterflies &b)
{
    const uint32_t at_a = 2 * b.stride * b.m, at_b = 2 * at_a;
    const float ya_r = load_uniform(f.twiddles, at_a), ya_i = load_uniform(f.twiddles, at_a + 1);
    const float yb_r = load_uniform(f.twiddles, at_b), yb_i = load_uniform(f.twiddles, at_b + 1);
    const lane_f32 ai = lane_f32(ya_i), bi = lane_f32(yb_i);
    complex_lanes s0 = load_complex(f, b.at, b.live);
    complex_lanes t1 = turned(f, b, 1), t2 = turned(f, b, 2), t3 = turned(f, b, 3),
                  t4 = turned(f, b, 4);
    complex_lanes s7 = add(t1, t4), s10 = sub(t1, t4), s8 = add(t2, t3), s9 = sub(t2, t3);
    store_complex(f, b.at, add(s0, add(s7, s8)), b.live);
    complex_lanes s5 = {sum3(s0.r, s7.r, ya_r, s8.r, yb_r), sum3(s0.i, s7.i, ya_r, s8.i, yb_r)};
    complex_lanes s6 = {add_f32(mul_f32(s10.i, ai), mul_f32(s9.i, bi)),
                        sub_f32(negated(mul_f32(s10.r, ai)), mul_f32(s9.r, bi))};
    store_complex(f, member(b, 1), sub(s5, s6), b.live);
    store_complex(f, member(b, 4), add(s5, s6), b.live);
    complex_lanes s11 = {sum3(s0.r, s7.r, yb_r, s8.r, ya_r), sum3(s0.i, s7.i, yb_r, s8.i, ya_r)};
    complex_lanes s12 = {add_f32(negated(mul_f32(s10.i, bi)), mul_f32(s9.i, ai)),
                         sub_f32(mul_f32(s10.r, bi), mul_f32(s9.r, ai))};
    store_complex(f, member(b, 2), add(s11, s12), b.live);
    store_complex(f, member(b, 3), sub(s11, s12), b.live);
}

template <uint32_t radix> PSTI_LANES void radix_other(const frame &f, const butterflies &b)
{
    complex_lanes s[radix];
    PSTI_UNROLL
    for (uint32_t q = 0; q < radix; q++)
        s[q] = load_complex(f, member(b, q), b.live);
    PSTI_LOOP
    for (uint32_t q1 = 0; q1 < radix; q1++) {
        const lane_u32 step = (b.u + lane_u32(q1 * b.m)) * lane_u32(b.stride), n = lane_u32(f.n);
        lane_u32 index = lane_u32(0);
        complex_lanes sum = s[0];
        PSTI_UNROLL
        for (uint32_t q = 1; q < radix; q++) {
            index = index + step;
            index = select(index >= n, index - n, index);
            sum = add(sum, mul(s[q], factor_at(f.twiddles, index, b.live)));
        }
        store_complex(f, member(b, q1), sum, b.live);
    }
}

/* Runs a stage. Its groups of radix * m numbers are next to each other; `stride` is their number,
 * too. */
PSTI_LANES void run_stage(const frame &f, uint32_t radix, uint32_t m, uint32_t stride)
{
    const uint32_t n = f.n / radix;
    PSTI_LOOP
    for (uint32_t i = 0; i < n; i += PSTI_WARP) {
        butterflies b;
        const lane_u32 number = lane_u32(i) + lane_id(), group = number / lane_u32(m);
        b.live = number < lane_u32(n);
        b.u = number - group * lane_u32(m);
        b.at = group * lane_u32(radix * m) + b.u;
        b.m = m;
        b.stride = stride;
        switch (radix) {
        case 2:
            radix2(f, b);
            break;
        case 3:
            radix3(f, b);
            break;
        case 4:
            radix4(f, b);
            break;
        case 5:
            radix5(f, b);
            break;
        case 7:
            radix_other<7>(f, b);
            break;
        case 11:
            radix_other<11>(f, b);
            break;
        case 13:
            radix_other<13>(f, b);
            break;
        default: /* 1: nothing is to be done */
            break;
        }
    }
    warp_sync();
}

PSTI_LANES void run_fft(const frame &f, const struct psti_gpu_sound_args &args)
{
    uint32_t m = 1, stride = f.n;
    for (uint32_t k = args.n_radices; k-- > 0;) {
        const uint32_t radix = args.radices[k];
        stride /= radix;
        run_stage(f, radix, m, stride);
        m *= radix;
    }
}

/* Frames
 * ------------------------------------------------------------------------------------------------
 */

/* Returns the sample of a frame times the window. It is 0 where the window has no weights. */
PSTI_LANES lane_f32 windowed(const struct psti_gpu_sound_args &args, const float *wave, lane_u32 i,
                             lane_bool live)
{
    live = live & (i >= lane_u32(args.first)) & (i < lane_u32(args.end));
    const lane_f32 v =
        mul_f32(load(wave, i, live), load(global_at<const float>(args.window), i, live));
    return select(live, v, lane_f32(0.0f));
}

/* Loads a frame into shared memory, in the order in which the FFT begins. */
PSTI_LANES void load_frame(const frame &f, const struct psti_gpu_sound_args &args,
                           const float *wave)
{
    const uint32_t *order = global_at<const uint32_t>(args.order);
    const bool is_even = args.n_fft % 2 == 0;
    PSTI_LOOP
    for (uint32_t i = 0; i < f.n; i += PSTI_WARP) {
        const lane_u32 at = lane_u32(i) + lane_id();
        const lane_bool live = at < lane_u32(f.n);
        const lane_u32 from = load(order, at, live) * lane_u32(is_even ? 2u : 1u);
        complex_lanes v = {windowed(args, wave, from, live), lane_f32(0.0f)};
        if (is_even)
            v.i = windowed(args, wave, from + lane_u32(1), live);
        store_complex(f, at, v, live);
    }
    warp_sync();
}

PSTI_LANES lane_f32 measured(const complex_lanes &bin, uint32_t power)
{
    const lane_f32 v = add_f32(mul_f32(bin.r, bin.r), mul_f32(bin.i, bin.i));
    return power == 1 ? sqrt_f32(v) : v;
}

/* Replaces the numbers of a complex FFT of half the size by the bins of the real FFT. Bins k and
 * n - k come from the same two numbers, so a lane makes both. */
PSTI_LANES void measure_even(const frame &f, const struct psti_gpu_sound_args &args)
{
    const float *last = global_at<const float>(args.last);
    const lane_f32 half = lane_f32(0.5f);
    PSTI_LOOP
    for (uint32_t i = 0; i <= f.n / 2; i += PSTI_WARP) {
        const lane_u32 k = lane_u32(i) + lane_id(), other = lane_u32(f.n) - k;
        const lane_bool is_first = k == lane_u32(0);
        const lane_bool live = (k > lane_u32(0)) & (k <= lane_u32(f.n / 2));
        complex_lanes first = load_complex(f, k, is_first);
        complex_lanes a = load_complex(f, k, live), b = load_complex(f, other, live);
        b.i = negated(b.i);
        const complex_lanes s = add(a, b);
        const complex_lanes t = mul(sub(a, b), factor_at(last, k - lane_u32(1), live));
        a = {mul_f32(add_f32(s.r, t.r), half), mul_f32(add_f32(s.i, t.i), half)};
        b = {mul_f32(sub_f32(s.r, t.r), half), mul_f32(sub_f32(t.i, s.i), half)};
        const lane_f32 zero = lane_f32(0.0f);
        const complex_lanes dc = {add_f32(first.r, first.i), zero};
        const complex_lanes nyquist = {sub_f32(first.r, first.i), zero};
        a = {select(is_first, dc.r, a.r), select(is_first, dc.i, a.i)};
        b = {select(is_first, nyquist.r, b.r), select(is_first, nyquist.i, b.i)};
        store(f.at, k, measured(a, args.power), live | is_first);
        store(f.at, other, measured(b, args.power), live | is_first);
    }
    warp_sync();
}

PSTI_LANES void measure_odd(const frame &f, const struct psti_gpu_sound_args &args)
{
    PSTI_LOOP
    for (uint32_t i = 0; i <= f.n / 2; i += PSTI_WARP) {
        const lane_u32 k = lane_u32(i) + lane_id();
        const lane_bool live = k <= lane_u32(f.n / 2);
        store(f.at, k, measured(load_complex(f, k, live), args.power), live);
    }
    warp_sync();
}

/* Returns the sums of the lanes' bands. */
PSTI_LANES lane_f32 band_sum(const frame &f, const struct psti_gpu_sound_args &args, lane_u32 band,
                             lane_bool live)
{
    const uint32_t *bands = global_at<const uint32_t>(args.bands);
    const float *weights = global_at<const float>(args.weights);
    const lane_u32 at = band * lane_u32(3), begin = load(bands, at, live);
    const lane_u32 n = load(bands, at + lane_u32(1), live) - begin;
    const lane_u32 first = load(bands, at + lane_u32(2), live);
    lane_f32 sum = lane_f32(0.0f);
    PSTI_LOOP
    for (uint32_t i = 0; some(lane_u32(i) < n); i++) {
        const lane_bool more = lane_u32(i) < n;
        const lane_f32 bin = load(f.at, begin + lane_u32(i), more);
        const lane_f32 weight = load(weights, first + lane_u32(i), more);
        sum = select(more, add_f32(sum, mul_f32(bin, weight)), sum);
    }
    return sum;
}

/* Changes of single values
 * ------------------------------------------------------------------------------------------------
 */

/* Returns factor * log(x), by the operations of psti_logarithm(). */
PSTI_LANES lane_f32 scaled_log(lane_f32 x, double factor)
{
    const lane_f32 zero = lane_f32(0.0f), infinity = lane_f32(float_of(0x7f800000u));
    const lane_bool is_tiny = x < lane_f32(0x1p-126f); /* multiplied by 2^32 first */
    const lane_u32 bits = bits_of(select(is_tiny, mul_f32(x, lane_f32(0x1p32f)), x));
    const lane_f64 stored = to_f64(bits >> lane_u32(23) & lane_u32(255));
    const lane_f64 m = to_f64(float_of((bits & lane_u32(0x7fffffu)) | lane_u32(0x3f800000u)));
    const lane_f64 k = add_f64(stored, select(is_tiny, lane_f64(-159.0), lane_f64(-127.0)));
    const lane_f64 log = logarithm_of(m, k);
    lane_f32 result = select(x < infinity, to_f32(mul_f64(log, lane_f64(factor))), x);
    result = select(x > zero, result, lane_f32(float_of(0x7fc00000u)));
    return select(x == zero, lane_f32(float_of(0xff800000u)), result);
}

/* The key of a number is greater than that of a smaller number. It is never 0. */
PSTI_LANES lane_u32 key_of(lane_f32 v)
{
    const lane_u32 bits = bits_of(v), sign = lane_u32(0x80000000u);
    return select((bits & sign) == lane_u32(0), bits | sign, ~bits);
}
PSTI_LANES float value_of(uint32_t key)
{
    if (key == 0) /* there was no number */
        return float_of(0xff800000u);
    return float_of(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The values of one bin: those of the lanes' frames or, in the first step, those of the lanes' bins
 * in one frame. */
struct values {
    lane_f32 v;
    lane_u32 bin, frame;
    lane_bool live;
};

PSTI_LANES lane_bool is_within(lane_u32 i, const struct psti_gpu_sound_row &row, uint32_t range)
{
    return (i >= lane_u32(row.begin[range])) & (i < lane_u32(row.end[range]));
}

PSTI_LANES void change(values &x, const struct psti_gpu_sound_row &row,
                       const struct psti_gpu_sound_point &point)
{
    const lane_f32 a = lane_f32(point.a);
    const bool is_log = point.kind == PSTI_GPU_SOUND_LOG;
    if (is_log || point.kind == PSTI_GPU_SOUND_DECIBEL) {
        const lane_f32 v = is_log ? add_f32(x.v, a) : select(x.v > a, x.v, a);
        x.v = scaled_log(v, is_log ? 1.0 : PSTI_LOG10_OF_E);
        if (!is_log)
            x.v = sub_f32(mul_f32(lane_f32(point.factor), x.v), lane_f32(point.b));
        return;
    }
    const bool by_bin = point.kind == PSTI_GPU_SOUND_MASK_BINS;
    x.v = select(is_within(by_bin ? x.bin : x.frame, row, point.range), a, x.v);
}

/* Changes values and stores them; `first` is the index of the channel's first value in the row.
 * Updates the largest key. */
PSTI_LANES void finish(values &x, const struct psti_gpu_sound_args &args,
                       const struct psti_gpu_sound_row &row, uint32_t channel, lane_u32 &largest)
{
    PSTI_LOOP
    for (uint32_t i = 0; i < args.n_points; i++)
        change(x, row, global_at<const struct psti_gpu_sound_point>(args.points)[i]);
    const lane_bool is_number = x.v == x.v;
    const lane_u32 key = select(x.live & is_number, key_of(x.v), lane_u32(0));
    largest = select(key > largest, key, largest);
    const lane_u32 bin = x.bin + lane_u32(channel * args.n_bins);
    const lane_u32 at = bin * lane_u32(args.n_frames) + x.frame;
    if (!args.finishes) {
        store(global_at<float>(row.values[args.to]), at, x.v, x.live);
        return;
    }
    const lane_f32 v = select(is_number, x.v, lane_f32(float_of(0x7fc00000u)));
    if (args.is_f16)
        store(global_at<uint16_t>(row.to), at, select(is_number, f16_bits(v), lane_u32(0x7e00)),
              x.live);
    else
        store(global_at<float>(row.to), at, v, x.live);
}

PSTI_LANES void tell_largest(const struct psti_gpu_sound_args &args,
                             const struct psti_gpu_sound_row &row, lane_u32 largest)
{
    if (args.to_largest != PSTI_GPU_SOUND_NO_LARGEST)
        atomic_max(global_at<uint32_t>(row.largest), lane_u32(args.to_largest),
                   lane_u32(reduce_max(largest)), lane_id() == lane_u32(0));
}

/* The kernels
 * ------------------------------------------------------------------------------------------------
 */

struct sound_frames_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_sound_args &args)
    {
        const struct psti_gpu_sound_row &row =
            global_at<const struct psti_gpu_sound_row>(args.rows)[b.index / args.n_blocks];
        const uint32_t number = b.index % args.n_blocks * b.n_warps + b.warp;
        const uint32_t channel = number / args.n_frames, t = number % args.n_frames;
        if (channel >= args.channels)
            return;
        const uint32_t floats = 2 * args.n_complex;
        const frame f = {shared_at<float>(b, b.warp * floats * (uint32_t)sizeof(float)),
                         args.n_complex, global_at<const float>(args.twiddles)};
        const float *wave = global_at<const float>(row.wave) +
                            (uint64_t)channel * args.wave_floats + (uint64_t)t * args.hop;
        load_frame(f, args, wave);
        run_fft(f, args);
        if (args.n_fft % 2 == 0)
            measure_even(f, args);
        else
            measure_odd(f, args);
        lane_u32 largest = lane_u32(0);
        PSTI_LOOP
        for (uint32_t i = 0; i < args.n_bins; i += PSTI_WARP) {
            values x;
            x.bin = lane_u32(i) + lane_id();
            x.frame = lane_u32(t);
            x.live = x.bin < lane_u32(args.n_bins);
            x.v = args.has_bands ? band_sum(f, args, x.bin, x.live) : load(f.at, x.bin, x.live);
            finish(x, args, row, channel, largest);
        }
        tell_largest(args, row, largest);
    }
};

struct sound_values_kernel {
    static const int n_phases = 1;

    /* Returns values of the step before, raised to the least one. */
    static PSTI_LANES lane_f32 load_values(const float *from, lane_u32 i, lane_bool live,
                                           bool raises, float least)
    {
        const lane_f32 v = load(from, i, live);
        return raises ? select(v > lane_f32(least), v, lane_f32(least)) : v;
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_sound_args &args)
    {
        const struct psti_gpu_sound_row &row =
            global_at<const struct psti_gpu_sound_row>(args.rows)[b.index / args.n_blocks];
        const uint32_t number = b.index % args.n_blocks * b.n_warps + b.warp;
        const uint32_t n_runs = (args.n_frames + PSTI_WARP - 1) / PSTI_WARP;
        const uint32_t line = number / n_runs, channel = line / args.n_bins;
        if (channel >= args.channels)
            return;
        values x;
        x.bin = lane_u32(line % args.n_bins);
        x.frame = lane_u32(number % n_runs * PSTI_WARP) + lane_id();
        x.live = x.frame < lane_u32(args.n_frames);
        const bool raises = args.from_largest != PSTI_GPU_SOUND_NO_LARGEST;
        float least = 0;
        if (raises)
            least = add_f32(sub_f32(value_of(load_uniform(global_at<const uint32_t>(row.largest),
                                                          args.from_largest)),
                                    args.top_db),
                            0.0f);
        const float *from = global_at<const float>(row.values[args.from]) +
                            (uint64_t)channel * args.n_before * args.n_frames;
        if (args.has_matrix) {
            const float *matrix = global_at<const float>(args.matrix) +
                                  (uint64_t)(line % args.n_bins) * args.n_before;
            x.v = lane_f32(0.0f);
            PSTI_LOOP
            for (uint32_t i = 0; i < args.n_before; i++) {
                const lane_u32 at = lane_u32(i * args.n_frames) + x.frame;
                const lane_f32 v = load_values(from, at, x.live, raises, least);
                x.v = add_f32(x.v, mul_f32(lane_f32(load_uniform(matrix, i)), v));
            }
        } else {
            const lane_u32 at = x.bin * lane_u32(args.n_frames) + x.frame;
            x.v = load_values(from, at, x.live, raises, least);
        }
        lane_u32 largest = lane_u32(0);
        finish(x, args, row, channel, largest);
        tell_largest(args, row, largest);
    }
};

} // namespace psti

#endif
