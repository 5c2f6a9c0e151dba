/* pad.cu - kernel psti_gpu_pad_rows copies finished rows that differ in size, and fills what lies
 * beside and below them.
 *
 * Args: struct psti_gpu_pad_args. A block of PSTI_GPU_PAD_WARPS warps writes PSTI_GPU_PAD_LINES
 * lines of one padded row, each warp a line at a time, in words that are as wide as addresses and
 * lengths of the row's lines allow. */
#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_pad.h"

namespace psti
{

/* Writes a line of to_nbytes: nbytes from `from`, then copies of the element. */
template <class T>
PSTI_LANES void pad_line(uint64_t from, uint64_t to, uint32_t nbytes, uint32_t to_nbytes,
                         uint64_t fill)
{
    const uint32_t n = nbytes / sizeof(T), to_n = to_nbytes / sizeof(T);
    for (uint32_t i = 0; i < to_n; i += PSTI_WARP) {
        lane_u32 at = lane_u32(i) + lane_id();
        store(global_at<T>(to), at, load(global_at<T>(from), at, at < lane_u32(n), (T)fill),
              at < lane_u32(to_n));
    }
}

struct pad_kernel {
    static const int n_phases = 1;

    template <class T>
    static PSTI_LANES void run_lines(const block &b, const struct psti_gpu_pad &pad, uint32_t begin,
                                     uint64_t fill)
    {
        const uint32_t n = pad.n_planes * pad.to_n_lines;
        const uint32_t end = n - begin < PSTI_GPU_PAD_LINES ? n : begin + PSTI_GPU_PAD_LINES;
        for (uint32_t line = begin + b.warp; line < end; line += b.n_warps) {
            const uint32_t plane = line / pad.to_n_lines, y = line % pad.to_n_lines;
            const uint64_t from = pad.from + ((uint64_t)plane * pad.n_lines + y) * pad.line_nbytes;
            pad_line<T>(from, pad.to + (uint64_t)line * pad.to_line_nbytes,
                        y < pad.n_lines ? pad.line_nbytes : 0, pad.to_line_nbytes, fill);
        }
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_pad_args &args)
    {
        const struct psti_gpu_pad &pad =
            global_at<struct psti_gpu_pad>(args.pads)[b.index / args.n_parts];
        const uint32_t begin = b.index % args.n_parts * PSTI_GPU_PAD_LINES;
        const uint64_t odd = pad.from | pad.to | pad.line_nbytes | pad.to_line_nbytes;
        if (begin >= pad.n_planes * pad.to_n_lines)
            return;
        if (odd % 8 == 0)
            run_lines<uint64_t>(b, pad, begin, args.fill);
        else if (odd % 4 == 0)
            run_lines<uint32_t>(b, pad, begin, args.fill);
        else if (odd % 2 == 0)
            run_lines<uint16_t>(b, pad, begin, args.fill);
        else
            run_lines<uint8_t>(b, pad, begin, args.fill);
    }
};

} // namespace psti

PSTI_KERNEL(psti_gpu_pad_rows, psti::pad_kernel, struct psti_gpu_pad_args, PSTI_GPU_PAD_WARPS, 8)
