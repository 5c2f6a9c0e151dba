/* tones.cuh - passes that build tables from the histogram of a picture, for Equalize and
 * AutoContrast (augment/augment_tone.c).
 *
 * A block builds the table of one picture. Its warps count the samples of each colour in shared
 * memory or, for 16-bit AutoContrast, find the lowest and the highest sample. After that, warp c
 * builds the table of colour c. Sums are integers, so their order does not matter. */
#ifndef PST_GPU_TONES_CUH
#define PST_GPU_TONES_CUH

#include "gpu/kernels/prepare.cuh"

namespace psti
{

struct tones_kernel {
    static const int n_phases = 3;
    static const uint32_t bins = 256, per_lane = bins / PSTI_WARP;

    static PSTI_LANES bool finds_range(const struct psti_gpu_pass &pass,
                                       const struct psti_gpu_finish &finish)
    {
        return pass.kind == PSTI_GPU_STRETCH && finish.bits == 16;
    }

    /* Returns the index of the word in which a warp stores the range of a colour that it has
     * found. */
    static PSTI_LANES uint32_t range_at(uint32_t warp, uint32_t color)
    {
        return bins * PSTI_GPU_TONES_COLORS + 2 * (PSTI_GPU_TONES_COLORS * warp + color);
    }

    static PSTI_LANES void clear(const block &b, shared<uint32_t> words)
    {
        for (uint32_t i = b.warp; i < bins * PSTI_GPU_TONES_COLORS / PSTI_WARP; i += b.n_warps)
            store(words, lane_u32(i * PSTI_WARP) + lane_id(), lane_u32(0));
    }

    static PSTI_LANES void count(const block &b, shared<uint32_t> words,
                                 const struct psti_gpu_pass &pass,
                                 const struct psti_gpu_finish &finish)
    {
        const bool is_range = finds_range(pass, finish);
        const uint32_t n_pixels = pass.from_height * pass.from_width;
        const uint32_t colors = color_range_of(finish).colors;
        lane_u32 up[3], down[3]; /* the largest sample, and the largest value of 65535 - sample */
        PSTI_UNROLL
        for (uint32_t c = 0; c < 3; c++)
            up[c] = down[c] = lane_u32(0);
        PSTI_LOOP
        for (uint32_t at = b.warp * PSTI_WARP; at < n_pixels; at += b.n_warps * PSTI_WARP) {
            lane_u32 i = lane_u32(at) + lane_id();
            lane_bool live = i < lane_u32(n_pixels);
            pixel p = load_pixel(pass.from, i, finish.channels, finish.bits, live);
            PSTI_UNROLL
            for (uint32_t c = 0; c < 3; c++) {
                if (c >= colors)
                    continue;
                lane_u32 v = p.v[c], w = lane_u32(65535) - v;
                if (!is_range) {
                    v = finish.bits == 8 ? v : v >> lane_u32(8);
                    atomic_add(words, v + lane_u32(bins * c), lane_u32(1), live);
                    continue;
                }
                up[c] = select(live & (v > up[c]), v, up[c]);
                down[c] = select(live & (w > down[c]), w, down[c]);
            }
        }
        PSTI_UNROLL
        for (uint32_t c = 0; c < 3; c++) {
            if (is_range && c < colors) {
                store_uniform(words, range_at(b.warp, c), reduce_max(down[c]));
                store_uniform(words, range_at(b.warp, c) + 1, reduce_max(up[c]));
            }
        }
    }

    static PSTI_LANES void make_range(const block &b, shared<uint32_t> words, uint32_t color,
                                      uint64_t table)
    {
        uint32_t down = 0, up = 0;
        for (uint32_t w = 0; w < b.n_warps; w++) {
            uint32_t warp_down = load_uniform(words, range_at(w, color));
            uint32_t warp_up = load_uniform(words, range_at(w, color) + 1);
            down = warp_down > down ? warp_down : down;
            up = warp_up > up ? warp_up : up;
        }
        store_uniform(global_at<uint32_t>(table), 2 * color, 65535 - down);
        store_uniform(global_at<uint32_t>(table), 2 * color + 1, up);
    }

    /* Makes the table of a colour. A lane has per_lane consecutive bins. */
    static PSTI_LANES void make_table(shared<uint32_t> words, const struct psti_gpu_pass &pass,
                                      uint32_t color)
    {
        const lane_u32 first = lane_id() * lane_u32(per_lane), zero = lane_u32(0);
        lane_u32 counts[per_lane], total = zero, lowest = zero, highest = zero;
        PSTI_UNROLL
        for (uint32_t k = 0; k < per_lane; k++) {
            lane_u32 v = first + lane_u32(k), below = lane_u32(bins - 1) - v;
            counts[k] = load(words, v + lane_u32(bins * color));
            total += counts[k];
            highest = select(counts[k] > zero, v, highest);
            lowest = select((counts[k] > zero) & (below > lowest), below, lowest);
        }
        const uint32_t high = reduce_max(highest), low = bins - 1 - reduce_max(lowest);
        const uint32_t of_high = load_uniform(words, bins * color + high);
        const uint32_t step = (pass.from_height * pass.from_width - of_high) / (bins - 1);
        lane_u32 sum = lane_u32(step / 2) + scan_add_below(total);
        PSTI_UNROLL
        for (uint32_t k = 0; k < per_lane; k++) {
            lane_u32 v = first + lane_u32(k), to = v;
            if (pass.kind == PSTI_GPU_LEVEL && step > 0) {
                to = sum / lane_u32(step);
                to = select(to > lane_u32(bins - 1), lane_u32(bins - 1), to);
            }
            if (pass.kind == PSTI_GPU_STRETCH && low < high)
                to = color_stretched(v, (float)low, (float)high, 255.0f);
            store(global_at<uint8_t>(pass.table), v + lane_u32(bins * color), to);
            sum += counts[k];
        }
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_prepare_args &args)
    {
        const struct psti_gpu_pass &pass =
            global_at<const struct psti_gpu_pass>(args.passes)[b.index];
        shared<uint32_t> words = shared_at<uint32_t>(b, 0);
        if (phase == 0) {
            clear(b, words);
        } else if (phase == 1) {
            count(b, words, pass, args.finish);
        } else if (b.warp < color_range_of(args.finish).colors) {
            if (finds_range(pass, args.finish))
                make_range(b, words, b.warp, pass.table);
            else
                make_table(words, pass, b.warp);
        }
    }
};

} // namespace psti

#endif
