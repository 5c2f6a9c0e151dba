/* prepare.cuh - passes over pictures (gpu_prepare.h): resize, window, colours, flips, and the
 * conversion to the slot's dtype.
 *
 * A warp computes a tile of 32 columns of the result. A lane computes one column, from the first
 * filter tap to the stored pixel, so lanes exchange no data.
 *
 * Resize: each source row that the tile needs is filtered horizontally once. The result stays in
 * shared memory, one word per column and row (two for 16-bit samples), until the vertical filter
 * has used it. Source bytes are read a word at a time; one instruction multiplies two taps of a
 * channel. The weights are the same integers as on the CPU, and samples between the two filters
 * have the same precision, so the bits are the same.
 *
 * Colours follow augment/augment_color.c operation by operation. Every multiplication and addition
 * is rounded separately, so the bits are the same. */
#ifndef PST_GPU_PREPARE_CUH
#define PST_GPU_PREPARE_CUH

#include <penstock/augment.h>

#include "gpu/kernels/store.cuh"
#include "gpu/work/gpu_prepare.h"

namespace psti
{

/* One pixel in each lane, as a sample for each channel. */
struct pixel {
    lane_u32 v[4];
};

/* Colours
 * ------------------------------------------------------------------------------------------- */

struct color_range {
    uint32_t colors; /* number of channels without alpha, 1 or 3 */
    float most;
};

PSTI_LANES color_range color_range_of(const struct psti_gpu_finish &finish)
{
    color_range range = {finish.channels < 3 ? 1u : 3u, finish.bits == 8 ? 255.0f : 65535.0f};
    return range;
}

/* Rounds to the nearest integer, and a half to the even integer. |v| < 2^22. */
PSTI_LANES lane_f32 round_f32(lane_f32 v)
{
    return add_f32(add_f32(v, lane_f32(0x1.8p23f)), lane_f32(-0x1.8p23f));
}

/* Clamps a value to 0..most, then truncates it. */
PSTI_LANES lane_u32 color_cut(lane_f32 v, float most)
{
    v = select(v < lane_f32(0.0f), lane_f32(0.0f), v);
    return to_u32(select(v > lane_f32(most), lane_f32(most), v));
}

PSTI_LANES lane_f32 color_luma(const pixel &p, uint32_t colors)
{
    if (colors == 1)
        return to_f32(p.v[0]);
    lane_f32 sum = add_f32(mul_f32(to_f32(p.v[0]), lane_f32(0.2989f)),
                           mul_f32(to_f32(p.v[1]), lane_f32(0.587f)));
    return floor_f32(add_f32(sum, mul_f32(to_f32(p.v[2]), lane_f32(0.114f))));
}

/* Replaces each colour of the pixel by factor * colour + other, clamped and truncated. */
PSTI_LANES void color_blend(pixel &p, const color_range &range, float factor, lane_f32 other)
{
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c < range.colors)
            p.v[c] =
                color_cut(add_f32(mul_f32(to_f32(p.v[c]), lane_f32(factor)), other), range.most);
    }
}

PSTI_LANES void color_brightness(pixel &p, const color_range &range, float factor)
{
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c < range.colors)
            p.v[c] = color_cut(mul_f32(to_f32(p.v[c]), lane_f32(factor)), range.most);
    }
}

PSTI_LANES lane_f32 clamp01(lane_f32 v)
{
    v = select(v < lane_f32(0.0f), lane_f32(0.0f), v);
    return select(v > lane_f32(1.0f), lane_f32(1.0f), v);
}

/* Returns the hue of a colour as a fraction of the colour circle, 0..1. */
PSTI_LANES lane_f32 hue_of(lane_f32 r, lane_f32 g, lane_f32 b, lane_f32 high, lane_f32 range)
{
    lane_f32 rc = div_f32(sub_f32(high, r), range);
    lane_f32 gc = div_f32(sub_f32(high, g), range);
    lane_f32 bc = div_f32(sub_f32(high, b), range);
    lane_f32 if_g = sub_f32(add_f32(lane_f32(2.0f), rc), bc);
    lane_f32 if_b = sub_f32(add_f32(lane_f32(4.0f), gc), rc);
    lane_f32 sixths = select(high == r, sub_f32(bc, gc), select(high == g, if_g, if_b));
    lane_f32 h = add_f32(mul_f32(sixths, lane_f32(1.0f / 6.0f)), lane_f32(1.0f));
    return sub_f32(h, floor_f32(h));
}

PSTI_LANES void color_hue(pixel &p, const color_range &range, float shift)
{
    const lane_f32 one = lane_f32(1.0f), most = lane_f32(range.most);
    lane_f32 r = div_f32(to_f32(p.v[0]), most), g = div_f32(to_f32(p.v[1]), most),
             b = div_f32(to_f32(p.v[2]), most);
    lane_f32 high = select(r > g, r, g), low = select(r < g, r, g);
    high = select(b > high, b, high);
    low = select(b < low, b, low);
    lane_bool gray = high == low; /* gray has no hue and does not change */
    lane_f32 spread = select(gray, one, sub_f32(high, low));
    lane_f32 turned = add_f32(hue_of(r, g, b, high, spread), lane_f32(shift));
    turned = sub_f32(turned, floor_f32(turned));
    lane_f32 s = div_f32(spread, select(gray, one, high));
    lane_f32 h6 = mul_f32(turned, lane_f32(6.0f)), i = floor_f32(h6), f = sub_f32(h6, i);
    lane_f32 x = clamp01(mul_f32(high, sub_f32(one, s)));
    lane_f32 q = clamp01(mul_f32(high, sub_f32(one, mul_f32(s, f))));
    lane_f32 t = clamp01(mul_f32(high, sub_f32(one, mul_f32(s, sub_f32(one, f)))));
    /* Red, green and blue for each sixth of the hue (sixth 6 is sixth 0): high t x, q high x, x
     * high t, x q high, t x high, high x q. */
    lane_bool is_1 = i == lane_f32(1.0f), is_2 = i == lane_f32(2.0f), is_3 = i == lane_f32(3.0f),
              is_4 = i == lane_f32(4.0f), is_5 = i == lane_f32(5.0f);
    lane_f32 red = select(is_1, q, select(is_4, t, high));
    red = select(is_2, x, select(is_3, x, red));
    lane_f32 green = select(is_1, high, select(is_2, high, t));
    green = select(is_3, q, select(is_4, x, select(is_5, x, green)));
    lane_f32 blue = select(is_3, high, select(is_4, high, x));
    blue = select(is_2, t, select(is_5, q, blue));
    const lane_f32 scale = lane_f32(range.most + 1.0f - 1e-3f);
    p.v[0] = select(gray, p.v[0], color_cut(mul_f32(red, scale), range.most));
    p.v[1] = select(gray, p.v[1], color_cut(mul_f32(green, scale), range.most));
    p.v[2] = select(gray, p.v[2], color_cut(mul_f32(blue, scale), range.most));
}

/* Inverts the colours that are at least `least`. */
PSTI_LANES void color_invert(pixel &p, const color_range &range, float least)
{
    const lane_u32 most = lane_u32((uint32_t)range.most);
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c < range.colors)
            p.v[c] = select(to_f32(p.v[c]) >= lane_f32(least), p.v[c] ^ most, p.v[c]);
    }
}

PSTI_LANES void color_mask(pixel &p, const color_range &range, uint32_t mask)
{
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c < range.colors)
            p.v[c] = p.v[c] & lane_u32(mask);
    }
}

/* Replaces colours by the entries of a table. 16-bit colours are looked up by their upper byte. */
PSTI_LANES void color_table(pixel &p, const color_range &range, uint64_t table)
{
    const bool is_wide = range.most > 255.0f;
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c >= range.colors)
            continue;
        lane_u32 v = is_wide ? p.v[c] >> lane_u32(8) : p.v[c];
        v = load(global_at<const uint8_t>(table), v + lane_u32(256 * c));
        p.v[c] = is_wide ? v * lane_u32(257) : v;
    }
}

/* Returns a channel's value, stretched from the range low..high to the full range. low < high. */
PSTI_LANES lane_u32 color_stretched(lane_u32 v, float low, float high, float most)
{
    float inverse = (high - low) * (1.0f / most);
    return color_cut(div_f32(sub_f32(to_f32(v), lane_f32(low)), lane_f32(inverse)), most);
}

PSTI_LANES void color_stretch(pixel &p, const color_range &range, uint64_t ranges)
{
    PSTI_UNROLL
    for (uint32_t c = 0; c < 3; c++) {
        if (c >= range.colors)
            continue;
        uint32_t low = load_uniform(global_at<const uint32_t>(ranges), 2 * c);
        uint32_t high = load_uniform(global_at<const uint32_t>(ranges), 2 * c + 1);
        if (low < high)
            p.v[c] = color_stretched(p.v[c], (float)low, (float)high, range.most);
    }
}

/* Returns the mean of the picture, which a change of contrast keeps. */
PSTI_LANES float color_mean(const struct psti_gpu_pass &pass)
{
    if (pass.sum_from == 0)
        return 0;
    uint64_t sum = load_uniform(global_at<const uint64_t>(pass.sum_from), 0);
    return (float)((double)sum / (double)pass.sum_pixels);
}

PSTI_LANES void color_all(pixel &p, const struct psti_gpu_pass &pass, const color_range &range,
                          float mean)
{
    for (uint32_t k = 0; k < pass.n_colors; k++) {
        float factor = pass.factors[k], rest = 1.0f - factor;
        switch (pass.colors[k]) {
        case PSTI_GPU_BRIGHTNESS:
            color_brightness(p, range, factor);
            break;
        case PSTI_GPU_CONTRAST:
            color_blend(p, range, factor, mul_f32(lane_f32(mean), lane_f32(rest)));
            break;
        case PSTI_GPU_SATURATION:
            color_blend(p, range, factor, mul_f32(color_luma(p, 3), lane_f32(rest)));
            break;
        case PSTI_GPU_HUE:
            color_hue(p, range, factor);
            break;
        case PSTI_GPU_INVERT:
            color_invert(p, range, factor);
            break;
        case PSTI_GPU_POSTERIZE:
            color_mask(p, range, (uint32_t)factor);
            break;
        case PSTI_GPU_TABLE:
        case PSTI_GPU_LABELS:
            color_table(p, range, pass.colors[k] == PSTI_GPU_TABLE ? pass.table : pass.labels);
            break;
        case PSTI_GPU_STRETCHED:
            color_stretch(p, range, pass.table);
            break;
        default:
            p.v[0] = p.v[1] = p.v[2] = luma_of(p.v);
            break;
        }
    }
}

/* A pixel of the result, for both kernels
 * --------------------------------------------------------------------------------------------- */

/* A tile of the result, with one column for each lane. Rows are numbered as before the flips. */
struct tile {
    uint32_t y0, y1;
    lane_u32 x; /* column of the lane before flips; lanes after the last column use the last one */
    lane_bool live;
    uint32_t stored_x; /* column in the stored result of the tile's first pixel */
    color_range range;
    float mean;
    lane_u32 sum; /* sum of the luma of the pixels of this lane */
};

PSTI_LANES tile tile_of(const struct psti_gpu_pass &pass, const struct psti_gpu_finish &finish,
                        uint32_t number, uint32_t rows)
{
    tile t;
    uint32_t per_row = (pass.width + PSTI_GPU_TILE_WIDTH - 1) / PSTI_GPU_TILE_WIDTH;
    t.y0 = number / per_row * rows;
    t.y1 = pass.height - t.y0 < rows ? pass.height : t.y0 + rows;
    t.stored_x = number % per_row * PSTI_GPU_TILE_WIDTH;
    lane_u32 stored = lane_u32(t.stored_x) + lane_id();
    t.live = stored < lane_u32(pass.width);
    stored = select(t.live, stored, lane_u32(pass.width - 1));
    t.x = pass.flip_x ? lane_u32(pass.width - 1) - stored : stored;
    t.range = color_range_of(finish);
    t.mean = color_mean(pass);
    t.sum = lane_u32(0);
    return t;
}

/* Finishes and stores row y of the result tile, one pixel per lane. */
PSTI_LANES void tile_put(tile &t, const struct psti_gpu_pass &pass,
                         const struct psti_gpu_finish &finish, uint32_t y, pixel &p)
{
    if (pass.n_colors > 0)
        color_all(p, pass, t.range, t.mean);
    if (pass.sum_to != 0)
        t.sum += select(t.live, to_u32(color_luma(p, t.range.colors)), lane_u32(0));
    if (pass.to == 0)
        return;
    uint32_t stored_y = pass.flip_y ? pass.height - 1 - y : y;
    put_target to = put_place(finish, pass.finished, pass.to, (uint64_t)pass.height * pass.width,
                              (uint64_t)stored_y * pass.width + t.stored_x, 1);
    put_pixels(to, finish, 0, p.v, t.live);
}

PSTI_LANES void tile_end(const tile &t, const struct psti_gpu_pass &pass)
{
    if (pass.sum_to != 0)
        atomic_add_uniform(global_at<uint64_t>(pass.sum_to), reduce_add(t.sum));
}

/* Finds the pass that this warp runs, and the number of its tile. Returns NULL if there is no work
 * for the warp. */
PSTI_LANES const struct psti_gpu_pass *tile_find(const block &b,
                                                 const struct psti_gpu_prepare_args &args,
                                                 uint32_t rows, uint32_t &number)
{
    uint32_t blocks = (args.n_tiles + b.n_warps - 1) / b.n_warps; /* blocks for each pass */
    number = b.index % blocks * b.n_warps + b.warp;
    const struct psti_gpu_pass *pass =
        global_at<const struct psti_gpu_pass>(args.passes) + b.index / blocks;
    uint32_t per_row = (pass->width + PSTI_GPU_TILE_WIDTH - 1) / PSTI_GPU_TILE_WIDTH;
    return number < per_row * ((pass->height + rows - 1) / rows) ? pass : NULL;
}

/* Returns the address of row y in the picture that the pass reads. */
PSTI_LANES uint64_t from_row(const struct psti_gpu_pass &pass, uint32_t pixel_nbytes, uint32_t y)
{
    return pass.from + (uint64_t)y * pass.from_width * pixel_nbytes;
}

/* Loads pixel x of a row, in each lane its own x. */
PSTI_LANES pixel load_pixel(uint64_t row, lane_u32 x, uint32_t channels, uint32_t bits,
                            lane_bool live)
{
    pixel p;
    lane_u32 at = x * lane_u32(channels);
    PSTI_UNROLL
    for (uint32_t c = 0; c < 4; c++) {
        p.v[c] = lane_u32(0);
        if (c < channels)
            p.v[c] = bits == 8 ? load(global_at<const uint8_t>(row), at + lane_u32(c), live)
                               : load(global_at<const uint16_t>(row), at + lane_u32(c), live);
    }
    return p;
}

/* Windows
 * ------------------------------------------------------------------------------------------- */

/* Returns the pixel, along a side of n pixels, that padding shows at i; -1 means the fill value. */
PSTI_LANES lane_i32 pad_index(lane_i32 i, uint32_t n_pixels, uint32_t mode)
{
    const lane_i32 n = lane_i32((int32_t)n_pixels), zero = lane_i32(0);
    lane_bool inside = (i >= zero) & (i < n);
    if (every(inside))
        return i;
    if (mode == PST_PAD_CONSTANT)
        return select(inside, i, lane_i32(-1));
    if (mode == PST_PAD_EDGE)
        return select(i < zero, zero, select(i < n, i, n - lane_i32(1)));
    bool reflects = mode == PST_PAD_REFLECT;
    if (reflects && n_pixels == 1)
        return zero;
    const lane_i32 period = reflects ? lane_i32(2) * (n - lane_i32(1)) : lane_i32(2) * n;
    i = i % period;
    i = select(i < zero, i + period, i);
    return select(i < n, i, period - (reflects ? i : i + lane_i32(1)));
}

struct point_kernel {
    static const int n_phases = 1;

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_prepare_args &args)
    {
        uint32_t number;
        const struct psti_gpu_pass *found = tile_find(b, args, PSTI_GPU_POINT_ROWS, number);
        if (found == NULL)
            return;
        const struct psti_gpu_pass &pass = *found;
        const uint32_t channels = args.finish.channels, bits = args.finish.bits;
        tile t = tile_of(pass, args.finish, number, PSTI_GPU_POINT_ROWS);
        lane_i32 from_x = pad_index(as_i32(t.x) + lane_i32(pass.x), pass.full_width, pass.pad_mode);
        lane_bool has_x = from_x >= lane_i32(0);
        lane_u32 x = select(has_x, as_u32(from_x) - lane_u32(pass.base_x), lane_u32(0));
        lane_i32 rows = pad_index(as_i32(lane_u32(t.y0) + lane_id()) + lane_i32(pass.y),
                                  pass.full_height, pass.pad_mode);
        for (uint32_t y = t.y0; y < t.y1; y++) {
            int32_t from_y = lane_of(rows, y - t.y0);
            uint32_t row = from_y < 0 ? 0 : (uint32_t)from_y - pass.base_y;
            lane_bool shown = has_x & lane_bool(from_y >= 0);
            pixel p =
                load_pixel(from_row(pass, channels * (bits / 8u), row), x, channels, bits, shown);
            if (!every(shown)) {
                PSTI_UNROLL
                for (uint32_t c = 0; c < 4; c++)
                    p.v[c] = select(shown, p.v[c], lane_u32(pass.fill[c]));
            }
            tile_put(t, pass, args.finish, y, p);
        }
        tile_end(t, pass);
    }
};

/* Resize
 * -------------------------------------------------------------------------------------------- */

/* The filters for the columns of a tile, one column per lane. */
struct columns {
    lane_u32 start;   /* first source pixel of the lane's filter */
    lane_u32 weights; /* index of the lane's first weight in the table */
    lane_u32 own;     /* number of taps of the lane's filter */
    uint32_t taps;    /* largest number of taps among the lanes */
    uint32_t precision;
    uint64_t table;    /* address of the table of weights */
    uint32_t n_pairs;  /* 8-bit samples: taps / 2, rounded up */
    lane_u32 pairs[4]; /* the filter's first weights, two i16 in each word */
};

PSTI_LANES columns columns_of(const struct psti_gpu_axis &axis, lane_u32 x, uint32_t bits)
{
    columns k;
    k.start = load(global_at<const uint32_t>(axis.start), x);
    k.own = load(global_at<const uint32_t>(axis.taps), x);
    k.taps = reduce_max(k.own);
    k.weights = x * lane_u32(axis.stride);
    k.precision = axis.precision;
    k.table = axis.weights;
    k.n_pairs = (k.taps + 1) / 2;
    PSTI_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        k.pairs[i] = lane_u32(0);
        if (bits == 8 && axis.precision != 0 && i < k.n_pairs)
            k.pairs[i] = load(global_at<const uint32_t>(axis.weights),
                              (k.weights >> lane_u32(1)) + lane_u32(i));
    }
    return k;
}

/* Adds the products of four pixels and four weights to the sums. The pixels are in as many words as
 * they have channels. */
template <uint32_t channels>
PSTI_LANES void dot_pixels(const lane_u32 *b, lane_u32 w01, lane_u32 w23, lane_i32 *sum)
{
    if constexpr (channels == 1) {
        sum[0] = dot2_high(w23, b[0], dot2_low(w01, b[0], sum[0]));
    } else if constexpr (channels == 2) {
        lane_u32 ga01 = pick_bytes(b[0], b[0], 0x3120), ga23 = pick_bytes(b[1], b[1], 0x3120);
        sum[0] = dot2_low(w23, ga23, dot2_low(w01, ga01, sum[0]));
        sum[1] = dot2_high(w23, ga23, dot2_high(w01, ga01, sum[1]));
    } else if constexpr (channels == 3) {
        lane_u32 rg01 = pick_bytes(b[0], b[1], 0x4130), rg23 = pick_bytes(b[1], b[2], 0x6352);
        lane_u32 blue = pick_bytes(pick_bytes(b[0], b[1], 0x5252), b[2], 0x7410);
        sum[0] = dot2_low(w23, rg23, dot2_low(w01, rg01, sum[0]));
        sum[1] = dot2_high(w23, rg23, dot2_high(w01, rg01, sum[1]));
        sum[2] = dot2_high(w23, blue, dot2_low(w01, blue, sum[2]));
    } else {
        lane_u32 rg01 = pick_bytes(b[0], b[1], 0x5140), ba01 = pick_bytes(b[0], b[1], 0x7362);
        lane_u32 rg23 = pick_bytes(b[2], b[3], 0x5140), ba23 = pick_bytes(b[2], b[3], 0x7362);
        sum[0] = dot2_low(w23, rg23, dot2_low(w01, rg01, sum[0]));
        sum[1] = dot2_high(w23, rg23, dot2_high(w01, rg01, sum[1]));
        sum[2] = dot2_low(w23, ba23, dot2_low(w01, ba01, sum[2]));
        sum[3] = dot2_high(w23, ba23, dot2_high(w01, ba01, sum[3]));
    }
}

/* Filters of 8-bit samples. A pixel is one word, with channel 0 in the lowest byte. */
template <uint32_t channels> struct narrow {
    static const uint32_t words = 1; /* words of a pixel after the horizontal filter */
    static const uint32_t rows = 2;  /* source rows that are filtered at a time */
    typedef lane_i32 sum_type;

    /* Reads a row from left to right. Rows may begin at any byte, so the reader starts at the word
     * that contains the first tap. */
    struct reader {
        const uint32_t *from;
        lane_u32 word, low, shift;
    };

    template <uint32_t n_rows>
    static PSTI_LANES void filter(const columns &k, const uint64_t *at, lane_u32 (*out)[2])
    {
        reader r[n_rows];
        lane_i32 sum[n_rows][4];
        PSTI_UNROLL
        for (uint32_t i = 0; i < n_rows; i++) {
            r[i].from = global_at<const uint32_t>(at[i] & ~(uint64_t)3);
            lane_u32 byte = k.start * lane_u32(channels) + lane_u32((uint32_t)at[i] & 3u);
            r[i].shift = (byte & lane_u32(3)) * lane_u32(8);
            r[i].word = byte >> lane_u32(2);
            r[i].low = load(r[i].from, r[i].word);
        }
        if (k.precision == 0) {
            PSTI_UNROLL
            for (uint32_t i = 0; i < n_rows; i++) {
                lane_u32 next = channels == 1 ? r[i].low : load(r[i].from, r[i].word + lane_u32(1));
                out[i][0] = funnel_right(r[i].low, next, r[i].shift);
            }
            return;
        }
        PSTI_UNROLL
        for (uint32_t i = 0; i < n_rows; i++) {
            PSTI_UNROLL
            for (uint32_t c = 0; c < 4; c++)
                sum[i][c] = half(k.precision);
        }
        const lane_bool all = lane_bool(true);
        step<n_rows>(r, k.pairs[0], k.pairs[1], all, sum);
        if (k.n_pairs > 2)
            step<n_rows>(r, k.pairs[2], k.pairs[3], all, sum);
        const uint32_t *weights = global_at<const uint32_t>(k.table);
        PSTI_LOOP
        for (uint32_t i = 4; i < k.n_pairs; i += 2) {
            lane_u32 at_pair = (k.weights >> lane_u32(1)) + lane_u32(i);
            lane_u32 w01 = load(weights, at_pair);
            lane_u32 w23 = load(weights, at_pair + lane_u32(1), lane_bool(i + 1 < k.n_pairs));
            step<n_rows>(r, w01, w23, k.own > lane_u32(2 * i), sum);
        }
        PSTI_UNROLL
        for (uint32_t i = 0; i < n_rows; i++)
            out[i][0] = pack(sum[i], k.precision);
    }

    /* Adds the next four taps of each row. Lanes without further taps do not read: they would read
     * beyond the slack after a picture. */
    template <uint32_t n_rows>
    static PSTI_LANES void step(reader *r, lane_u32 w01, lane_u32 w23, lane_bool has_taps,
                                lane_i32 (*sum)[4])
    {
        lane_u32 b[n_rows][channels];
        PSTI_UNROLL
        for (uint32_t n = 0; n < n_rows; n++) {
            PSTI_UNROLL
            for (uint32_t i = 0; i < channels; i++)
                b[n][i] = load(r[n].from, r[n].word + lane_u32(i + 1), has_taps);
            r[n].word = r[n].word + lane_u32(channels);
        }
        PSTI_UNROLL
        for (uint32_t n = 0; n < n_rows; n++) {
            PSTI_UNROLL
            for (uint32_t i = 0; i < channels; i++) {
                lane_u32 next = b[n][i];
                b[n][i] = funnel_right(r[n].low, next, r[n].shift);
                r[n].low = next;
            }
            dot_pixels<channels>(b[n], w01, w23, sum[n]);
        }
    }

    static PSTI_LANES lane_u32 pack(const lane_i32 *sum, uint32_t precision)
    {
        lane_i32 v[4];
        PSTI_UNROLL
        for (uint32_t c = 0; c < 4; c++)
            v[c] = c < channels ? sum[c] >> lane_i32((int32_t)precision) : lane_i32(0);
        return pack_u8(v[0], v[1], v[2], v[3]);
    }

    static PSTI_LANES void unpack(const lane_u32 in[2], pixel &p)
    {
        PSTI_UNROLL
        for (uint32_t c = 0; c < channels; c++)
            p.v[c] = (in[0] >> lane_u32(8 * c)) & lane_u32(255);
    }

    /* Adds two rows, each times a weight, to the sums. */
    static PSTI_LANES void add_rows(const lane_u32 a[2], const lane_u32 b[2], uint32_t w,
                                    lane_i32 *sum)
    {
        lane_u32 weights = lane_u32(w), low = pick_bytes(a[0], b[0], 0x5140);
        sum[0] = dot2_low(weights, low, sum[0]);
        if constexpr (channels > 1)
            sum[1] = dot2_high(weights, low, sum[1]);
        if constexpr (channels > 2) {
            lane_u32 high = pick_bytes(a[0], b[0], 0x7362);
            sum[2] = dot2_low(weights, high, sum[2]);
            if constexpr (channels > 3)
                sum[3] = dot2_high(weights, high, sum[3]);
        }
    }

    /* Adds taps k and k + 1 of an output. */
    static PSTI_LANES void add_taps(uint64_t table, uint32_t at, uint32_t, const lane_u32 a[2],
                                    const lane_u32 b[2], lane_i32 *sum)
    {
        add_rows(a, b, load_uniform(global_at<const uint32_t>(table), at / 2), sum);
    }

    static PSTI_LANES lane_i32 half(uint32_t precision) { return lane_i32(1 << (precision - 1)); }
    static PSTI_LANES void finish(const lane_i32 *sum, uint32_t precision, pixel &p)
    {
        lane_u32 packed[2];
        packed[0] = pack(sum, precision);
        unpack(packed, p);
    }
};

PSTI_LANES lane_u32 clamp_wide(lane_i64 sum, uint32_t precision)
{
    lane_i64 v = sum >> lane_i64((int64_t)precision);
    v = select(v < lane_i64((int64_t)0), lane_i64((int64_t)0), v);
    return low_u32(select(v > lane_i64((int64_t)65535), lane_i64((int64_t)65535), v));
}

/* Filters of 16-bit samples. A pixel is two words, with channel 0 in the lowest half. */
template <uint32_t channels> struct broad {
    static const uint32_t words = channels > 2 ? 2 : 1, rows = 1;
    typedef lane_i64 sum_type;

    template <uint32_t n_rows>
    static PSTI_LANES void filter(const columns &k, const uint64_t *at, lane_u32 (*out)[2])
    {
        static_assert(n_rows == 1, "a row at a time");
        pixel p;
        if (k.precision == 0) {
            p = load_pixel(at[0], k.start, channels, 16, lane_bool(true));
            pack(p, out[0]);
            return;
        }
        lane_i64 sum[4];
        PSTI_UNROLL
        for (uint32_t c = 0; c < channels; c++)
            sum[c] = half(k.precision);
        const int32_t *weights = global_at<const int32_t>(k.table);
        PSTI_LOOP
        for (uint32_t i = 0; i < k.taps; i++) {
            lane_i32 w = load(weights, k.weights + lane_u32(i));
            /* A lane must not read pixels after its own taps, because the picture may end there. */
            p = load_pixel(at[0], k.start + lane_u32(i), channels, 16, w != lane_i32(0));
            add(p, w, sum);
        }
        finish(sum, k.precision, p);
        pack(p, out[0]);
    }

    static PSTI_LANES void add(const pixel &p, lane_i32 w, lane_i64 *sum)
    {
        PSTI_UNROLL
        for (uint32_t c = 0; c < channels; c++)
            sum[c] = mul_add_wide(w, as_i32(p.v[c]), sum[c]);
    }

    static PSTI_LANES void pack(const pixel &p, lane_u32 out[2])
    {
        out[0] = p.v[0];
        if constexpr (channels > 1)
            out[0] = out[0] | (p.v[1] << lane_u32(16));
        if constexpr (channels > 2)
            out[1] = p.v[2];
        if constexpr (channels > 3)
            out[1] = out[1] | (p.v[3] << lane_u32(16));
    }
    static PSTI_LANES void unpack(const lane_u32 in[2], pixel &p)
    {
        PSTI_UNROLL
        for (uint32_t c = 0; c < channels; c++)
            p.v[c] = (in[c / 2] >> lane_u32(c % 2 * 16)) & lane_u32(0xffff);
    }

    static PSTI_LANES void add_taps(uint64_t table, uint32_t at, uint32_t n, const lane_u32 a[2],
                                    const lane_u32 b[2], lane_i64 *sum)
    {
        const int32_t *weights = global_at<const int32_t>(table);
        pixel p;
        unpack(a, p);
        add(p, lane_i32(load_uniform(weights, at)), sum);
        if (n < 2)
            return;
        unpack(b, p);
        add(p, lane_i32(load_uniform(weights, at + 1)), sum);
    }

    static PSTI_LANES lane_i64 half(uint32_t precision)
    {
        return lane_i64((int64_t)1 << (precision - 1));
    }
    static PSTI_LANES void finish(const lane_i64 *sum, uint32_t precision, pixel &p)
    {
        PSTI_UNROLL
        for (uint32_t c = 0; c < channels; c++)
            p.v[c] = clamp_wide(sum[c], precision);
    }
};

struct resize_kernel {
    static const int n_phases = 1;

    template <class Samples>
    static PSTI_LANES void ring_put(shared<uint32_t> ring, uint32_t row, const lane_u32 in[2])
    {
        uint32_t at = row % PSTI_GPU_RING * PSTI_WARP;
        store(ring, lane_u32(at) + lane_id(), in[0]);
        if constexpr (Samples::words == 2)
            store(ring, lane_u32(PSTI_GPU_RING * PSTI_WARP + at) + lane_id(), in[1]);
    }
    template <class Samples>
    static PSTI_LANES void ring_get(shared<uint32_t> ring, uint32_t row, lane_u32 out[2])
    {
        uint32_t at = row % PSTI_GPU_RING * PSTI_WARP;
        out[0] = load(ring, lane_u32(at) + lane_id());
        if constexpr (Samples::words == 2)
            out[1] = load(ring, lane_u32(PSTI_GPU_RING * PSTI_WARP + at) + lane_id());
    }

    /* Filters row `y` horizontally into the ring. With 8-bit samples it also filters the next row,
     * which is needed soon, because the loads of both rows then overlap. */
    template <class Samples>
    static PSTI_LANES void fill(shared<uint32_t> ring, const columns &k,
                                const struct psti_gpu_pass &pass, uint32_t pixel_nbytes, uint32_t y)
    {
        lane_u32 rows[Samples::rows][2];
        uint64_t at[Samples::rows];
        PSTI_UNROLL
        for (uint32_t i = 0; i < Samples::rows; i++)
            at[i] = from_row(pass, pixel_nbytes, y + i < pass.from_height ? y + i : y);
        Samples::template filter<Samples::rows>(k, at, rows);
        PSTI_UNROLL
        for (uint32_t i = 0; i < Samples::rows; i++)
            ring_put<Samples>(ring, y + i, rows[i]);
    }

    /* Computes one row of the result from the filtered rows start..start + taps - 1. */
    template <class Samples, class Row>
    static PSTI_LANES void vertical(const struct psti_gpu_axis &axis, uint32_t y, uint32_t start,
                                    uint32_t taps, const Row &row, pixel &p)
    {
        lane_u32 a[2], b[2];
        if (taps == 1) {
            row(start, a);
            Samples::unpack(a, p);
            return;
        }
        typename Samples::sum_type sum[4];
        PSTI_UNROLL
        for (uint32_t c = 0; c < 4; c++)
            sum[c] = Samples::half(axis.precision);
        PSTI_LOOP
        for (uint32_t i = 0; i < taps; i += 2) {
            bool two = i + 1 < taps; /* with one tap the second row's weight is 0 */
            row(start + i, a);
            row(start + (two ? i + 1 : i), b);
            Samples::add_taps(axis.weights, y * axis.stride + i, two ? 2 : 1, a, b, sum);
        }
        Samples::finish(sum, axis.precision, p);
    }

    template <class Samples>
    static PSTI_LANES void make_tile(const block &b, const struct psti_gpu_pass &pass,
                                     const struct psti_gpu_finish &finish, uint32_t number)
    {
        const uint32_t pixel_nbytes = finish.channels * (finish.bits / 8u);
        shared<uint32_t> ring =
            shared_at<uint32_t>(b, b.warp * PSTI_GPU_RING_NBYTES((uint32_t)finish.bits));
        tile t = tile_of(pass, finish, number, PSTI_GPU_RESIZE_ROWS);
        const columns k = columns_of(pass.axes.x, t.x, finish.bits);
        uint32_t next = 0; /* number of the next source row to filter */
        for (uint32_t y = t.y0; y < t.y1; y++) {
            uint32_t start = load_uniform(global_at<const uint32_t>(pass.axes.y.start), y);
            uint32_t taps = load_uniform(global_at<const uint32_t>(pass.axes.y.taps), y);
            pixel p;
            if (taps < PSTI_GPU_RING) {
                next = next < start ? start : next;
                for (; next < start + taps; next += Samples::rows)
                    fill<Samples>(ring, k, pass, pixel_nbytes, next);
                vertical<Samples>(
                    pass.axes.y, y, start, taps,
                    [&](uint32_t row, lane_u32 out[2]) { ring_get<Samples>(ring, row, out); }, p);
            } else {
                vertical<Samples>(
                    pass.axes.y, y, start, taps,
                    [&](uint32_t row, lane_u32 out[2]) {
                        uint64_t at = from_row(pass, pixel_nbytes, row);
                        lane_u32 filtered[1][2];
                        filtered[0][1] = lane_u32(0); /* not used for sums of one channel */
                        Samples::template filter<1>(k, &at, filtered);
                        out[0] = filtered[0][0];
                        out[1] = filtered[0][1];
                    },
                    p);
            }
            tile_put(t, pass, finish, y, p);
        }
        tile_end(t, pass);
    }

    template <int phase>
    static PSTI_LANES void run(const block &b, const struct psti_gpu_prepare_args &args)
    {
        uint32_t number;
        const struct psti_gpu_pass *found = tile_find(b, args, PSTI_GPU_RESIZE_ROWS, number);
        if (found == NULL)
            return;
        const struct psti_gpu_pass &pass = *found;
        const struct psti_gpu_finish &finish = args.finish;
        switch (finish.channels + (finish.bits == 16 ? 4u : 0u)) {
        case 1:
            make_tile<narrow<1>>(b, pass, finish, number);
            break;
        case 2:
            make_tile<narrow<2>>(b, pass, finish, number);
            break;
        case 3:
            make_tile<narrow<3>>(b, pass, finish, number);
            break;
        case 4:
            make_tile<narrow<4>>(b, pass, finish, number);
            break;
        case 5:
            make_tile<broad<1>>(b, pass, finish, number);
            break;
        case 6:
            make_tile<broad<2>>(b, pass, finish, number);
            break;
        case 7:
            make_tile<broad<3>>(b, pass, finish, number);
            break;
        default:
            make_tile<broad<4>>(b, pass, finish, number);
            break;
        }
    }
};

} // namespace psti

#endif
