/* copy.cu - kernel psti_gpu_copy_rows copies rows that were finished elsewhere from the upload to
 * the slot.
 *
 * Args: struct psti_gpu_copy_args. A block of PSTI_GPU_COPY_WARPS warps copies one part of one row.
 * Source rows begin at multiples of 256, destination rows at multiples of their elements. So words
 * are copied that are as wide as the row's address and length allow. */
#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_copy.h"

namespace psti
{

/* Copies the part of n words that this warp is responsible for. */
template <class T>
PSTI_LANES void copy_words(const block &b, uint64_t from, uint64_t to, uint32_t n)
{
    const T *source = reinterpret_cast<const T *>(from);
    T *target = reinterpret_cast<T *>(to);
    for (uint32_t i = b.warp * PSTI_WARP; i < n; i += b.n_warps * PSTI_WARP) {
        lane_u32 at = lane_u32(i) + lane_id();
        lane_bool live = at < lane_u32(n);
        store(target, at, load(source, at, live), live);
    }
}

struct copy_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_copy_args &args)
    {
        const struct psti_gpu_copy &copy =
            reinterpret_cast<const struct psti_gpu_copy *>(args.copies)[b.index / args.n_parts];
        uint64_t begin = (uint64_t)(b.index % args.n_parts) * PSTI_GPU_COPY_PART_NBYTES;
        uint64_t left = args.nbytes - begin;
        uint32_t nbytes =
            left < PSTI_GPU_COPY_PART_NBYTES ? (uint32_t)left : (uint32_t)PSTI_GPU_COPY_PART_NBYTES;
        uint64_t from = copy.from + begin, to = copy.to + begin, odd = to | args.nbytes;
        if (odd % 8 == 0)
            copy_words<uint64_t>(b, from, to, nbytes / 8);
        else if (odd % 4 == 0)
            copy_words<uint32_t>(b, from, to, nbytes / 4);
        else if (odd % 2 == 0)
            copy_words<uint16_t>(b, from, to, nbytes / 2);
        else
            copy_words<uint8_t>(b, from, to, nbytes);
    }
};

} // namespace psti

PSTI_KERNEL(psti_gpu_copy_rows, psti::copy_kernel, struct psti_gpu_copy_args, PSTI_GPU_COPY_WARPS,
            8)
