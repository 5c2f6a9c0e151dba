/* augment_kernels_template.h - the inner loops, written for vectors of any width.
 *
 * In and out: see augment_kernels.h. The bits are the same as those of plain C. Pure functions, any
 * thread. The file of a CPU level includes this file once, after it has defined these names:
 *
 *     NAME, OPS, SWEEPS    the level's name, its table, and sweep_x of 3 and 4 channels there
 *     PICK_X, QUAD_X       pick_x and quad_x there
 *     TARGET, INLINE       attributes of functions, and of those that are always inlined
 *
 * for the horizontal pass, with four sums of 32 bits for each of LANES rows:
 *
 *     struct rows          16 bytes of each row
 *     struct sums          the sums of each row
 *     set_sums(value)      the value in all sums
 *     load_16(rows, at), load_8(rows, at)   bytes from offset `at` on of each row
 *     add_two_taps(sums, bytes, half, weights, channels)   pixels 0 and 1 of what load_16() or
 *                          load_8() loaded (half 1: pixels 2 and 3 of 16 bytes), of 3 or 4
 *                          channels, times two weights
 *     add_eight_taps(sums, rows, at, weights)   one channel; a row's four sums are parts of one
 *     shifted(sums, precision)                  sums >> precision
 *     store_pixels(rows, at, sums, channels)    sums[0..3] are four pixels of each row, clamped
 *     store_samples(rows, at, sums, precision)  the same of one channel; they are not shifted yet
 *
 * for the vertical pass, with COLUMNS sums at a time:
 *
 *     struct columns, set_columns(value)        the sums
 *     add_two_rows(&columns, a, b, weights)     two rows of COLUMNS samples, times two weights
 *     store_columns(to, &columns, precision)
 *
 * and for what follows:
 *
 *     BYTES, load_bytes(from), store_bytes(to, v)    16 bytes at any address
 *     shuffled(v, order)                        bytes of v by their numbers; 255 gives 0
 *     load_planes(from, v)                      16 pixels of three channels as v[0..2]
 *     FLOATS, N_FLOATS, load_floats(from)       floats, 8 or 16
 *     scaled(from, scale, offset)               bytes, times scale, plus offset; both round
 *     scaled_part(v, at, scale, offset)     the same of N_FLOATS of 16 bytes, from byte `at` on
 *     store_f32(to, v, streams), store_f16(...), store_bf16(...)   finite floats to any address;
 *                          `streams`: past the caches, if the level can, to an aligned address
 *     settle()             orders stores that streamed before all later stores
 *
 * and for colours:
 *
 *     all(value)           the value in all FLOATS
 *     plus(a, b), minus(a, b), times(a, b), over(a, b), least(a, b), greatest(a, b), floored(a)
 *     MASK, equal(a, b), chosen(mask, a, b)     a where the mask is set, else b
 *     bytes_of(from)       16 floats, which hold 0..255, as BYTES
 *     store_planes(to, v)  writes what load_planes() loads
 */

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

/* Adds the products of one window to `sums` and returns the result. */
INLINE struct sums add_window(struct sums sums, const uint8_t *const *src, size_t at,
                              const int16_t *weights, uint32_t taps, uint32_t channels)
{
    uint32_t k = 0;
    for (; k + 4 <= taps; k += 4, at += (size_t)4 * channels) {
        struct rows bytes = load_16(src, at);
        sums = add_two_taps(sums, bytes, 0, weights + k, channels);
        sums = add_two_taps(sums, bytes, 1, weights + k + 2, channels);
    }
    if (k < taps)
        sums = add_two_taps(sums, load_8(src, at), 0, weights + k, channels);
    return sums;
}

/* Computes the outputs at[0..3] for all rows and stores them as outputs i..i+3. */
INLINE void four_pixels(uint8_t *const *dst, const uint8_t *const *src,
                        const struct psti_axis *axis, size_t i, const size_t at[4], uint32_t bias,
                        uint32_t taps, uint32_t channels)
{
    const struct sums round = set_sums(1 << (axis->precision - 1));
    struct sums sums[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        sums[j] = shifted(add_window(round, src, (size_t)(axis->start[at[j]] - bias) * channels,
                                     axis->weights + at[j] * taps, taps, channels),
                          axis->precision);
    store_pixels(dst, i * channels, sums, channels);
}

/* Computes outputs begin..end-1, at least four. If their number is not a multiple of four, the last
 * four overlap outputs that were computed before. */
INLINE void resize_x_pixels(uint8_t *const *dst, const uint8_t *const *src,
                            const struct psti_axis *axis, uint32_t begin, uint32_t end,
                            uint32_t bias, uint32_t taps, uint32_t channels)
{
    /* A local copy. Bytes are stored in the loop, and the compiler would have to reload other
     * memory after each store. */
    const struct psti_axis own = *axis;
    const uint8_t *from[LANES];
    uint8_t *to[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        from[lane] = src[lane];
        to[lane] = dst[lane];
    }
    for (size_t i = begin, last = (size_t)end - 4;;) {
        const size_t at[4] = {i, i + 1, i + 2, i + 3};
        four_pixels(to, from, &own, i, at, bias, taps, channels);
        if (i == last)
            return;
        i = i + 4 < last ? i + 4 : last;
    }
}

/* The loop for 3 and 4 channels. It is compiled separately for the numbers of taps of the usual
 * scales. */
INLINE void resize_x(uint8_t *const *dst, const uint8_t *const *src, const struct psti_axis *axis,
                     uint32_t begin, uint32_t end, uint32_t bias, uint32_t channels)
{
    if (end - begin < 4) {
        const size_t last = (size_t)end - 1;
        const size_t at[4] = {begin, begin < last ? begin + 1 : last, last, last};
        four_pixels(dst, src, axis, begin, at, bias, axis->stride, channels);
    } else if (axis->stride == 2) {
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, channels);
    } else if (axis->stride == 4) {
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, channels);
    } else if (axis->stride == 6) {
        resize_x_pixels(dst, src, axis, begin, end, bias, 6, channels);
    } else {
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, channels);
    }
}

TARGET static void resize_x_3(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    resize_x(dst, src, axis, begin, end, bias, 3);
}

TARGET static void resize_x_4(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    resize_x(dst, src, axis, begin, end, bias, 4);
}

TARGET static void resize_x_1(uint8_t *const *dst, const uint8_t *const *src,
                              const struct psti_axis *axis, uint32_t begin, uint32_t end,
                              uint32_t bias)
{
    for (uint32_t i = begin; i < end; i += 4) {
        struct sums sums[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            const int16_t *weights = axis->weights + (size_t)at * axis->stride;
            sums[j] = set_sums(0);
            for (uint32_t k = 0; k < axis->stride; k += 8)
                sums[j] = add_eight_taps(sums[j], src, axis->start[at] - bias + k, weights + k);
        }
        store_samples(dst, i, sums, axis->precision);
    }
}

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

INLINE struct columns sums_of_columns(const uint8_t *const *rows, size_t i, const int16_t *weights,
                                      uint32_t taps, uint32_t precision)
{
    struct columns sums = set_columns(1 << (precision - 1));
    for (uint32_t k = 0; k < taps; k += 2)
        add_two_rows(&sums, rows[k] + i, rows[k + 1] + i, weights + k);
    return sums;
}

TARGET static void resize_y(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                            uint32_t taps, uint32_t precision, size_t n)
{
    size_t i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS) {
        struct columns sums = sums_of_columns(rows, i, weights, taps, precision);
        store_columns(dst + i, &sums, precision);
    }
    if (i < n) {
        uint8_t rest[COLUMNS];
        struct columns sums = sums_of_columns(rows, i, weights, taps, precision);
        store_columns(rest, &sums, precision);
        memcpy(dst + i, rest, n - i);
    }
}

/* Order of samples
 * ------------------------------------------------------------------------------------ */

/* [channels]: the shuffle that mirrors the last whole pixels in 16 bytes. */
static const uint8_t backwards[5][16] = {
    {0},
    {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
    {14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
    {13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 255},
    {12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3},
};

INLINE void reverse(uint8_t *dst, const uint8_t *src, uint32_t width, uint32_t channels)
{
    const uint32_t n = 16 / channels, least = (15 + channels) / channels;
    const BYTES order = load_bytes(backwards[channels]);
    uint32_t left = width;
    for (; left >= least; left -= n) {
        const uint8_t *from = src + (size_t)left * channels - 16;
        store_bytes(dst, shuffled(load_bytes(from), order));
        dst += n * channels;
    }
    psti_augment_ops_c.reverse[channels](dst, src, left);
}

#define DEFINE_REVERSE(channels)                                                                   \
    TARGET static void reverse_##channels(uint8_t *dst, const uint8_t *src, uint32_t width)        \
    {                                                                                              \
        reverse(dst, src, width, channels);                                                        \
    }
DEFINE_REVERSE(1)
DEFINE_REVERSE(2)
DEFINE_REVERSE(3)
DEFINE_REVERSE(4)

TARGET static void split_3(uint8_t *const *planes, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        BYTES v[3];
        load_planes(src + (size_t)x * 3, v);
        store_bytes(planes[0] + x, v[0]);
        store_bytes(planes[1] + x, v[1]);
        store_bytes(planes[2] + x, v[2]);
    }
    uint8_t *const rest[3] = {planes[0] + x, planes[1] + x, planes[2] + x};
    psti_augment_ops_c.split[3](rest, src + (size_t)x * 3, width - x);
}

/* Conversion
 * ------------------------------------------------------------------------------------------ */

enum kind { F32, F16, BF16 };

INLINE void store_floats(unsigned char *to, FLOATS v, enum kind kind, bool streams)
{
    if (kind == F32)
        store_f32(to, v, streams);
    else if (kind == F16)
        store_f16(to, v, streams);
    else
        store_bf16(to, v, streams);
}

/* Converts as many elements as fill whole vectors, and returns how many are left. *pattern is the
 * index of the scale and offset for the first one left. Three vectors hold a number of elements
 * that is a multiple of 1..4 channels, so each of the three always uses the same scale and
 * offset. */
INLINE size_t convert(unsigned char *to, const uint8_t *src, size_t n, const float *scale,
                      const float *offset, enum kind kind, size_t *pattern)
{
    const size_t nbytes = kind == F32 ? 4 : 2, step = 3 * N_FLOATS;
    size_t i = 0, k = 0;
    for (; i + step <= n; i += step) {
#pragma GCC unroll 3
        for (size_t j = 0; j < step; j += N_FLOATS) {
            FLOATS v = scaled(src + i + j, load_floats(scale + j), load_floats(offset + j));
            store_floats(to + nbytes * (i + j), v, kind, false);
        }
    }
    for (; i + N_FLOATS <= n; i += N_FLOATS, k += N_FLOATS) {
        FLOATS v = scaled(src + i, load_floats(scale + k), load_floats(offset + k));
        store_floats(to + nbytes * i, v, kind, false);
    }
    *pattern = k;
    return n - i;
}

TARGET static void to_f32(void *dst, const uint8_t *src, size_t n, const float *scale,
                          const float *offset)
{
    size_t k, left = convert(dst, src, n, scale, offset, F32, &k), i = n - left;
    psti_augment_ops_c.to_f32((char *)dst + 4 * i, src + i, left, scale + k, offset + k);
}

TARGET static void to_f16(void *dst, const uint8_t *src, size_t n, const float *scale,
                          const float *offset)
{
    size_t k, left = convert(dst, src, n, scale, offset, F16, &k), i = n - left;
    psti_augment_ops_c.to_f16((char *)dst + 2 * i, src + i, left, scale + k, offset + k);
}

TARGET static void to_bf16(void *dst, const uint8_t *src, size_t n, const float *scale,
                           const float *offset)
{
    size_t k, left = convert(dst, src, n, scale, offset, BF16, &k), i = n - left;
    psti_augment_ops_c.to_bf16((char *)dst + 2 * i, src + i, left, scale + k, offset + k);
}

/* Splits a row of three channels and converts it in one pass, `block` pixels at a time: 16, or 32
 * where that fills a cache line of a plane. If the number of pixels is not a multiple of a block,
 * the last block overlaps the one before. */
INLINE void planes(unsigned char *const *to, const uint8_t *src, uint32_t width,
                   const float (*scale)[PSTI_PATTERN], const float (*offset)[PSTI_PATTERN],
                   enum kind kind, size_t block, bool streams)
{
    const size_t nbytes = kind == F32 ? 4 : 2;
    const FLOATS scales[3] = {load_floats(scale[0]), load_floats(scale[1]), load_floats(scale[2])};
    const FLOATS offsets[3] = {load_floats(offset[0]), load_floats(offset[1]),
                               load_floats(offset[2])};
    unsigned char *const out[3] = {to[0], to[1], to[2]};
    for (size_t x = 0, last = width - block;;) {
        BYTES v[2][3];
        load_planes(src + 3 * x, v[0]);
        if (block == 32)
            load_planes(src + 3 * x + 48, v[1]);
#pragma GCC unroll 3
        for (int c = 0; c < 3; c++) {
#pragma GCC unroll 4
            for (size_t j = 0; j < block; j += N_FLOATS) {
                FLOATS floats = scaled_part(v[j / 16][c], j % 16, scales[c], offsets[c]);
                store_floats(out[c] + nbytes * (x + j), floats, kind, streams);
            }
        }
        if (x == last)
            return;
        x = x + block < last ? x + block : last;
    }
}

TARGET static void settle_stores(void) { settle(); }

TARGET static void planes_f32(unsigned char *const *to, const uint8_t *src, uint32_t width,
                              const float (*scale)[PSTI_PATTERN],
                              const float (*offset)[PSTI_PATTERN], bool streams)
{
    if (streams && width % 16 == 0)
        planes(to, src, width, scale, offset, F32, 16, true);
    else
        planes(to, src, width, scale, offset, F32, 16, false);
}

TARGET static void planes_f16(unsigned char *const *to, const uint8_t *src, uint32_t width,
                              const float (*scale)[PSTI_PATTERN],
                              const float (*offset)[PSTI_PATTERN], bool streams)
{
    if (streams && width % 32 == 0)
        planes(to, src, width, scale, offset, F16, 32, true);
    else
        planes(to, src, width, scale, offset, F16, 16, false);
}

TARGET static void planes_bf16(unsigned char *const *to, const uint8_t *src, uint32_t width,
                               const float (*scale)[PSTI_PATTERN],
                               const float (*offset)[PSTI_PATTERN], bool streams)
{
    if (streams && width % 32 == 0)
        planes(to, src, width, scale, offset, BF16, 32, true);
    else
        planes(to, src, width, scale, offset, BF16, 16, false);
}

#include "augment/kernels/augment_colors_template.h"

const struct psti_augment_ops OPS = {
    .name = NAME,
    .lanes = {1, LANES, 1, LANES, LANES},
    .resize_x = {NULL, resize_x_1, psti_augment_resize_x_2_c, resize_x_3, resize_x_4},
    .sweep_x = {NULL, NULL, NULL, SWEEPS},
    .pick_x = PICK_X,
    .quad_x = QUAD_X,
    .resize_y = resize_y,
    .reverse = {NULL, reverse_1, reverse_2, reverse_3, reverse_4},
    .split = {NULL, NULL, psti_augment_split_2_c, split_3, psti_augment_split_4_c},
    .planes_f32 = planes_f32,
    .planes_f16 = planes_f16,
    .planes_bf16 = planes_bf16,
    .settle = settle_stores,
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
    .colors = {colors_load, colors_store, colors_blend, colors_saturate, colors_turn, colors_luma},
};
