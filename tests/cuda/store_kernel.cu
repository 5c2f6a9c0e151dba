/* store_kernel.cu - psti_test_store: each block brings every n_blocks-th row of a picture, its
 * warps every n_warps-th run of a row. */
#include "cuda/store.cuh"
#include "store_kernel.h"

namespace psti
{

struct store_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct test_store_args &args)
    {
        const struct psti_cuda_sink &sink = args.sink;
        const uint16_t *pixels = reinterpret_cast<const uint16_t *>(args.pixels);
        uint32_t *asked = reinterpret_cast<uint32_t *>(args.asked);
        for (uint32_t y = b.index; y < sink.height; y += b.n_blocks) {
            for (uint32_t x = b.warp * args.run_px; x < sink.width; x += b.n_warps * args.run_px) {
                uint32_t n = sink.width - x < args.run_px ? sink.width - x : args.run_px;
                sink_row(sink, args.finish, y, x, n, [&](lane_u32 i, uint32_t c) {
                    atomic_add(asked, lane_u32(0), lane_u32(1), i >= lane_u32(n));
                    i = select(i < lane_u32(n), i, lane_u32(0));
                    lane_u32 pixel = lane_u32(y * sink.width + x) + i;
                    return load(pixels, pixel * lane_u32(sink.channels) + lane_u32(c));
                });
            }
        }
    }
};

} // namespace psti

PSTI_KERNEL(psti_test_store, psti::store_kernel, struct test_store_args, 8, 1)
