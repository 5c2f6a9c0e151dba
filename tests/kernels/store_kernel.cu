/* store_kernel.cu - psti_test_store stores a picture. Each block takes every n_blocks-th row and
 * each of its warps every n_warps-th run of the row; or they take rectangles of up to 64 rows. */
#include "gpu/kernels/store_quads.cuh"
#include "store_kernel.h"

namespace psti
{

struct store_kernel {
    static const int n_phases = 1;

    static PSTI_LANES void bring_quads(const block &b, const struct test_store_args &args)
    {
        const struct psti_gpu_sink &sink = args.sink;
        const uint16_t *pixels = reinterpret_cast<const uint16_t *>(args.pixels);
        uint32_t *asked = reinterpret_cast<uint32_t *>(args.asked);
        const uint32_t edge = args.run_px;
        atomic_add(asked, lane_u32(1), lane_u32(1), lane_id() == lane_u32(0));
        for (uint32_t y = b.index * edge; y < sink.height; y += b.n_blocks * edge) {
            const uint32_t n_rows = sink.height - y < edge ? sink.height - y : edge;
            for (uint32_t x = b.warp * edge; x < sink.width; x += b.n_warps * edge) {
                const uint32_t n = sink.width - x < edge ? sink.width - x : edge;
                sink_quads(sink, args.finish, y, x, n_rows, n,
                           [&](lane_u32 row, lane_i32 column, lane_u32 q[4]) {
                               lane_i32 most = lane_i32((int32_t)n + 2);
                               atomic_add(asked, lane_u32(0), lane_u32(1),
                                          (row >= lane_u32(n_rows)) | (column < lane_i32(-6)) |
                                              (column > most));
                               for (uint32_t c = 0; c < sink.channels; c++)
                                   q[c] = quad_of(pixels, sink, lane_u32(y) + row,
                                                  lane_i32((int32_t)x) + column, c);
                           });
            }
        }
    }

    static PSTI_LANES lane_u32 quad_of(const uint16_t *pixels, const struct psti_gpu_sink &sink,
                                       lane_u32 y, lane_i32 x, uint32_t c)
    {
        lane_u32 word = lane_u32(0);
        for (uint32_t j = 0; j < 4; j++) {
            lane_u32 column = as_u32(x) + lane_u32(j);
            lane_bool is_one = column < lane_u32(sink.width);
            lane_u32 at = (y * lane_u32(sink.width) + column) * lane_u32(sink.channels);
            word = word | load(pixels, select(is_one, at + lane_u32(c), lane_u32(0)), is_one)
                              << lane_u32(8 * j);
        }
        return word;
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct test_store_args &args)
    {
        const struct psti_gpu_sink &sink = args.sink;
        const uint16_t *pixels = reinterpret_cast<const uint16_t *>(args.pixels);
        uint32_t *asked = reinterpret_cast<uint32_t *>(args.asked);
        if (args.quads && sink_takes_quads(sink, args.finish)) {
            bring_quads(b, args);
            return;
        }
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
