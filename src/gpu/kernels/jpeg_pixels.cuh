/* jpeg_pixels.cuh - psti_gpu_jpeg turns samples of components into pixels (format-pli.md 9), a tile
 * per warp.
 *
 * Row by row, a lane makes two neighbouring pixels. With components of half the width these share
 * their samples. The pixels of a tile go through shared memory to the sink, which reads them in the
 * order in which it stores them. psti_gpu_coefs has written the samples that the region needs of
 * each component (pli_jpeg_area.c). Outside a component its edge samples are repeated. */
#ifndef PST_GPU_JPEG_PIXELS_CUH
#define PST_GPU_JPEG_PIXELS_CUH

#include "gpu/kernels/store_quads.cuh"
#include "gpu/kernels/warp.cuh"
#include "gpu/work/gpu_jpeg.h"

namespace psti
{

/* A component's samples at pixels 2p and 2p + 1, in lane p. */
struct jpeg_pair {
    lane_i32 v[2];
};

/* The rows of a component that are needed for one row of pixels. For sample x, they are near[x] and
 * far[x]. */
struct jpeg_row {
    const uint8_t *near, *far; /* the nearest row, and the other row of the interpolation */
    int32_t bias;              /* rounding if the component is interpolated only downwards: 1 or
                                * 2 */
};

PSTI_LANES jpeg_row row_of(const struct psti_gpu_jpeg_component &c, uint32_t y)
{
    uint32_t row = y >> c.down_log2, other = row;
    if (c.is_upright) {
        if ((y & 1) == 0)
            other -= row > 0 ? 1 : 0;
        else
            other += row + 1 < c.height ? 1 : 0;
    }
    /* address of sample (0, 0), which may lie outside the plane */
    uint64_t origin = c.samples - 8 * ((uint64_t)c.row0 * c.stride + c.column0);
    jpeg_row r;
    r.near = reinterpret_cast<const uint8_t *>(origin + (uint64_t)row * c.stride);
    r.far = reinterpret_cast<const uint8_t *>(origin + (uint64_t)other * c.stride);
    r.bias = y & 1 ? 2 : 1;
    return r;
}

/* Loads a component that is as wide as the image. After the image's last sample the plane continues
 * to the end of its block. */
PSTI_LANES jpeg_pair whole_pair(const struct psti_gpu_jpeg_component &c, const jpeg_row &r,
                                lane_u32 p)
{
    const uint16_t *near = reinterpret_cast<const uint16_t *>(r.near);
    const uint16_t *far = reinterpret_cast<const uint16_t *>(r.far);
    lane_u32 two = load(near, p), low = two & lane_u32(255), high = two >> lane_u32(8);
    if (c.is_upright) {
        lane_u32 other = load(far, p), bias = lane_u32((uint32_t)r.bias);
        low = (low * lane_u32(3) + (other & lane_u32(255)) + bias) >> lane_u32(2);
        high = (high * lane_u32(3) + (other >> lane_u32(8)) + bias) >> lane_u32(2);
    }
    return jpeg_pair{{as_i32(low), as_i32(high)}};
}

/* Loads a component of half the image's width: interpolates downwards first, then sideways
 * (format-pli.md 9). */
PSTI_LANES jpeg_pair smooth_pair(const struct psti_gpu_jpeg_component &c, const jpeg_row &r,
                                 lane_u32 p)
{
    lane_u32 left = p - select(p > lane_u32(0), lane_u32(1), lane_u32(0));
    lane_u32 right = p + select(p + lane_u32(1) < lane_u32(c.width), lane_u32(1), lane_u32(0));
    lane_u32 q = load(r.near, p), before = load(r.near, left), after = load(r.near, right);
    lane_u32 low, high;
    if (c.is_upright) {
        q = q * lane_u32(3) + load(r.far, p);
        before = before * lane_u32(3) + load(r.far, left);
        after = after * lane_u32(3) + load(r.far, right);
        low = (q * lane_u32(3) + before + lane_u32(8)) >> lane_u32(4);
        high = (q * lane_u32(3) + after + lane_u32(7)) >> lane_u32(4);
    } else {
        low = (q * lane_u32(3) + before + lane_u32(1)) >> lane_u32(2);
        high = (q * lane_u32(3) + after + lane_u32(2)) >> lane_u32(2);
    }
    return jpeg_pair{{as_i32(low), as_i32(high)}};
}

PSTI_LANES jpeg_pair pair_of(const struct psti_gpu_jpeg_component &c, uint32_t y, lane_u32 p)
{
    const jpeg_row r = row_of(c, y);
    if (c.across_log2 == 0)
        return whole_pair(c, r, p);
    if (c.is_sideways)
        return smooth_pair(c, r, p);
    lane_i32 v = as_i32(load(r.near, c.across_log2 == 1 ? p : p >> lane_u32(1)));
    return jpeg_pair{{v, v}};
}

/* Converts Y, Cb, Cr to R, G, B, packed as one byte each. */
PSTI_LANES lane_u32 rgb_of(lane_i32 y, lane_i32 cb, lane_i32 cr)
{
    const int32_t half = 32768;
    lane_i32 red = cr * lane_i32(91881) + lane_i32(half - 128 * 91881);
    lane_i32 green =
        cb * lane_i32(-22554) + cr * lane_i32(-46802) + lane_i32(half + 128 * (22554 + 46802));
    lane_i32 blue = cb * lane_i32(116130) + lane_i32(half - 128 * 116130);
    return pack_u8(y + (red >> lane_i32(16)), y + (green >> lane_i32(16)),
                   y + (blue >> lane_i32(16)), lane_i32(0));
}

/* Computes pixels 2p and 2p + 1 of row y, with one byte per channel. */
PSTI_LANES void pixels_of(const struct psti_gpu_jpeg_image &image, uint32_t y, lane_u32 p,
                          lane_u32 pixels[2])
{
    const jpeg_pair a = pair_of(image.components[0], y, p);
    if (image.n_components == 1) {
        pixels[0] = as_u32(a.v[0]);
        pixels[1] = as_u32(a.v[1]);
        return;
    }
    const jpeg_pair b = pair_of(image.components[1], y, p), c = pair_of(image.components[2], y, p);
    PSTI_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        pixels[i] = image.transform ? rgb_of(a.v[i], b.v[i], c.v[i])
                                    : pack_u8(a.v[i], b.v[i], c.v[i], lane_i32(0));
    }
}

struct jpeg_kernel {
    static const int n_phases = 1;

    /* Computes the pixels of a tile, in the warp's shared memory. */
    static PSTI_LANES void tile(const struct psti_gpu_jpeg_image &image,
                                const struct psti_gpu_jpeg_tile &tile,
                                const struct psti_gpu_finish &finish, shared<uint32_t> rows)
    {
        const uint32_t row_words = PSTI_GPU_JPEG_TILE_COLUMNS;
        uint32_t x0 = tile.x > image.x0 ? tile.x : image.x0;
        uint32_t x1 = tile.x + row_words, y0 = tile.y;
        uint32_t y1 = y0 + (uint32_t)PSTI_GPU_JPEG_TILE_ROWS;
        x1 = x1 < image.x1 ? x1 : image.x1;
        y1 = y1 < image.y1 ? y1 : image.y1;
        lane_u32 p = lane_u32(tile.x / 2u) + lane_id(), last = lane_u32((x1 - 1) / 2);
        p = select(p < last, p, last);
        for (uint32_t y = y0; y < y1; y++) {
            lane_u32 pixels[2];
            pixels_of(image, y, p, pixels);
            store2(rows, lane_u32((y - y0) * row_words) + (lane_id() << lane_u32(1)), pixels[0],
                   pixels[1]);
        }
        warp_sync();
        rows = rows + (x0 - tile.x);
        if (sink_takes_quads(image.sink, finish)) {
            sink_quads(image.sink, finish, y0, x0, y1 - y0, x1 - x0,
                       [&](lane_u32 row, lane_i32 column, lane_u32 q[4]) {
                           load_quad(rows, row * lane_u32(row_words), column, x1 - x0, q);
                       });
            return;
        }
        for (uint32_t y = y0; y < y1; y++)
            sink_row(image.sink, finish, y, x0, x1 - x0, [&](lane_u32 i, uint32_t c) {
                return load(rows, lane_u32((y - y0) * row_words) + i) >> lane_u32(8 * c) &
                       lane_u32(255);
            });
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_jpeg_args &args)
    {
        const struct psti_gpu_jpeg_image *images =
            reinterpret_cast<const struct psti_gpu_jpeg_image *>(args.images);
        const struct psti_gpu_jpeg_tile *tiles =
            reinterpret_cast<const struct psti_gpu_jpeg_tile *>(args.tiles);
        shared<uint32_t> rows = shared_at<uint32_t>(b, b.warp * PSTI_GPU_JPEG_WARP_NBYTES);
        for (uint32_t i = b.index * b.n_warps + b.warp; i < args.n_tiles;
             i += b.n_blocks * b.n_warps) {
            const struct psti_gpu_jpeg_tile one = tiles[i];
            warp_sync(); /* all lanes must have read the last tile before it is overwritten */
            tile(images[one.image], one, args.finish, rows);
        }
    }
};

} // namespace psti

#endif
