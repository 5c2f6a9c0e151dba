/* pli_plain.cuh - sends pixels that need no decoding to the sink: units of mode raw and constant
 * (format-pli.md 3), and units that the lz kernel has decoded to scratch. A warp sends some rows of
 * one unit. */
#ifndef PST_GPU_PLI_PLAIN_CUH
#define PST_GPU_PLI_PLAIN_CUH

#include "gpu/kernels/store.cuh"
#include "gpu/work/gpu_units.h"

namespace psti
{

/* Columns of a row that are read together. */
static const uint32_t RUN_PX = 64;

/* Start and length, in pixels, of unit number `unit_x` or `unit_y` along an axis. */
struct unit_span {
    uint32_t begin, n;
};
PSTI_LANES unit_span unit_along(uint32_t i, uint32_t log2, uint32_t size)
{
    uint32_t begin = i << log2, left = size - begin;
    return unit_span{begin, left < 1u << log2 ? left : 1u << log2};
}

/* Returns the sample value for a level of a near-lossless image (format-pli.md 2). scale = 2 *
 * max_error + 1. */
PSTI_LANES lane_u32 level(lane_u32 v, uint32_t scale, uint32_t bits)
{
    lane_u32 max = lane_u32(bits == 8 ? 255 : 65535);
    v = v * lane_u32(scale);
    return select(v < max, v, max);
}

PSTI_LANES void plain_decode(const struct psti_gpu_image &image, const struct psti_gpu_unit &unit,
                             const struct psti_gpu_finish &finish)
{
    const unit_span rows = unit_along(unit.unit_y, image.unit_log2, image.height);
    const unit_span columns = unit_along(unit.unit_x, image.unit_log2, image.width);
    const uint32_t sample_nbytes = image.bits / 8u, scale = 2u * image.max_error + 1;
    const uint64_t in_scratch = image.scratch + (uint64_t)unit.scratch * PSTI_GPU_SCRATCH_STEP;
    const uint8_t *samples = reinterpret_cast<const uint8_t *>(
        unit.is_in_scratch ? in_scratch : image.bytes + unit.offset + 1);
    /* A constant unit has one pixel; with stride 0 it is read for every pixel. */
    const uint32_t pixel_nbytes = unit.is_constant ? 0 : image.channels * sample_nbytes;
    const uint32_t end =
        image.x1 < columns.begin + columns.n ? image.x1 - columns.begin : columns.n;
    const uint32_t begin = image.x0 > columns.begin ? image.x0 - columns.begin : 0;
    for (uint32_t y = unit.first_row; y < (uint32_t)unit.first_row + unit.n_rows; y++) {
        for (uint32_t x = begin; x < end; x += RUN_PX) {
            const uint32_t at = (y * columns.n + x) * pixel_nbytes;
            const uint32_t n = end - x < RUN_PX ? end - x : RUN_PX;
            sink_row(image.sink, finish, rows.begin + y, columns.begin + x, n,
                     [&](lane_u32 i, uint32_t c) {
                         lane_u32 byte =
                             lane_u32(at + c * sample_nbytes) + i * lane_u32(pixel_nbytes);
                         lane_u32 v = load(samples, byte);
                         if (sample_nbytes == 2)
                             v = v | load(samples, byte + lane_u32(1)) << lane_u32(8);
                         return level(v, scale, image.bits);
                     });
        }
    }
}

} // namespace psti

#endif
