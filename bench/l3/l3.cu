/* l3.cu - kernel l3_decode_tiles decodes images of L3 (l3.h), for measuring beside PLI's kernels.
 *
 * Args: struct l3_gpu_args. A warp decodes a tile. Lane l decodes columns l and l + 32 of all three
 * channels, row by row. In the published kernel a thread decodes one column, and a block of two
 * warps has a barrier after each row, because it reads the row above from the image in memory. Here
 * lanes keep the row above in registers, get neighbours by shuffles, and need no barrier: a slow
 * kernel would make the format look bad. Some costs come from the layout of L3: a record's offset
 * is known only when the record before it is read, samples are loaded byte by byte, and the three
 * channels are interleaved when they are written.
 *
 * The bytes are not trusted: a record that leaves its tile ends the tile. */
#include "gpu/kernels/warp.cuh"
#include "l3_gpu.h"

namespace psti
{

/* A channel of a tile, while it is decoded. */
struct l3_channel {
    uint32_t at, end;  /* offsets in the image's bytes: the next record, the end */
    lane_u32 above[2]; /* samples of the row above, at columns l and l + 32 */
};

/* The two columns of a lane: whether the tile has them, and how wide the tile is. */
struct l3_columns {
    uint32_t width;
    lane_bool live[2];
};

PSTI_LANES lane_u32 l3_absolute(lane_i32 v)
{
    return as_u32(select(v < lane_i32(0), lane_i32(0) - v, v));
}

/* Returns the prediction: a, b or c, whichever is nearest to a + c - b. */
PSTI_LANES lane_u32 l3_nearest(lane_u32 a, lane_u32 b, lane_u32 c)
{
    lane_i32 right = as_i32(c) - as_i32(b), left = as_i32(a) - as_i32(b);
    lane_u32 from_a = l3_absolute(right), from_c = l3_absolute(left),
             from_b = l3_absolute(right + left);
    lane_bool prefers_b = from_b <= from_c;
    lane_u32 least = select(prefers_b, from_b, from_c);
    return select(from_a <= least, a, select(prefers_b, b, c));
}

/* Predicts the samples of a row from the row above. */
PSTI_LANES void l3_predict(const lane_u32 above[2], uint32_t width, lane_u32 predicted[2])
{
    lane_bool is_first = lane_id() == lane_u32(0), is_last = lane_id() == lane_u32(31);
    lane_u32 before[2] = {shift_up(above[0], 1),
                          select(is_first, lane_u32(lane_of(above[0], 31)), shift_up(above[1], 1))};
    lane_u32 after[2] = {select(is_last, lane_u32(lane_of(above[1], 0)), shift_down(above[0], 1)),
                         shift_down(above[1], 1)};
    PSTI_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        lane_u32 column = lane_id() + lane_u32(32 * s);
        lane_bool is_edge = (column == lane_u32(0)) | (column + lane_u32(1) >= lane_u32(width));
        predicted[s] = select(is_edge, above[s], l3_nearest(before[s], above[s], after[s]));
    }
}

/* Reads a delta of n bits in each lane, from the record at `at`. */
PSTI_LANES lane_u32 l3_delta(const uint8_t *coded, uint32_t at, uint32_t n, uint32_t end,
                             lane_u32 column, lane_bool live)
{
    lane_u32 bit = lane_u32(12) + column * lane_u32(n);
    lane_u32 place = lane_u32(at) + (bit >> lane_u32(3));
    lane_u32 low = load(coded, place, live);
    lane_u32 high = load(coded, place + lane_u32(1), live & (place + lane_u32(1) < lane_u32(end)));
    return (low | high << lane_u32(8)) >> (bit & lane_u32(7)) & lane_u32((1u << n) - 1u);
}

/* Decodes the next row of a channel into `above`. Returns false if the record ends after its
 * tile. */
PSTI_LANES bool l3_row(const uint8_t *coded, struct l3_channel &channel, bool is_first,
                       const struct l3_columns &columns)
{
    if (channel.end - channel.at < 2)
        return false;
    uint32_t head = load_uniform(coded, channel.at) | load_uniform(coded, channel.at + 1) << 8;
    uint32_t n = head & 15u, base = head >> 4 & 255u;
    uint32_t nbytes = (12u + n * columns.width + 7u) / 8u;
    if (n > 8 || nbytes > channel.end - channel.at)
        return false;
    lane_u32 predicted[2] = {lane_u32(0), lane_u32(0)};
    if (!is_first)
        l3_predict(channel.above, columns.width, predicted);
    uint32_t end = channel.at + nbytes;
    PSTI_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        lane_u32 delta = l3_delta(coded, channel.at, n, end, lane_id() + lane_u32(32 * s),
                                  columns.live[s] & lane_bool(n != 0));
        channel.above[s] = (predicted[s] + lane_u32(base) + delta) & lane_u32(255);
    }
    channel.at = end;
    return true;
}

struct l3_kernel {
    static const int n_phases = 1;

    /* Decodes one tile. Returns false if the bytes are corrupt. */
    static PSTI_LANES bool decode(const struct l3_gpu_image &image, const struct l3_gpu_tile &tile)
    {
        const uint8_t *coded = reinterpret_cast<const uint8_t *>(image.coded);
        uint8_t *pixels = reinterpret_cast<uint8_t *>(image.pixels);
        uint32_t y = tile.i_tile / image.n_across * image.edge;
        uint32_t x = tile.i_tile % image.n_across * image.edge;
        uint32_t height = image.height - y < image.edge ? image.height - y : image.edge;
        struct l3_columns columns;
        columns.width = image.width - x < image.edge ? image.width - x : image.edge;
        struct l3_channel channels[3];
        PSTI_UNROLL
        for (uint32_t s = 0; s < 2; s++)
            columns.live[s] = lane_id() + lane_u32(32 * s) < lane_u32(columns.width);
        PSTI_UNROLL
        for (uint32_t c = 0; c < 3; c++) {
            channels[c].at = tile.begin[c];
            channels[c].end = tile.begin[c] + tile.nbytes[c];
            channels[c].above[0] = channels[c].above[1] = lane_u32(0);
        }
        PSTI_LOOP
        for (uint32_t row = 0; row < height; row++) {
            uint8_t *to = pixels + ((uint64_t)(y + row) * image.width + x) * 3;
            PSTI_UNROLL
            for (uint32_t c = 0; c < 3; c++) {
                if (!l3_row(coded, channels[c], row == 0, columns))
                    return false;
                PSTI_UNROLL
                for (uint32_t s = 0; s < 2; s++)
                    store(to, (lane_id() + lane_u32(32 * s)) * lane_u32(3) + lane_u32(c),
                          channels[c].above[s], columns.live[s]);
            }
        }
        return channels[0].at == channels[0].end && channels[1].at == channels[1].end &&
               channels[2].at == channels[2].end;
    }

    template <int phase> static PSTI_LANES void run(const block &b, const struct l3_gpu_args &args)
    {
        uint32_t i = b.index * b.n_warps + b.warp;
        if (i >= args.n_tiles)
            return;
        const struct l3_gpu_tile &tile =
            reinterpret_cast<const struct l3_gpu_tile *>(args.tiles)[args.first_tile + i];
        const struct l3_gpu_image &image =
            reinterpret_cast<const struct l3_gpu_image *>(args.images)[tile.i_image];
        if (!decode(image, tile))
            store_uniform(reinterpret_cast<uint32_t *>(image.is_wrong), 0, 1u);
    }
};

} // namespace psti

PSTI_KERNEL(l3_decode_tiles, psti::l3_kernel, struct l3_gpu_args, L3_GPU_WARPS, 8)
