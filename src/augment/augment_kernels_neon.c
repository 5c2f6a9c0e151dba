/* augment_kernels_neon.c - the inner loops with NEON.
 *
 * In and out: see augment_kernels.h; plain C gives the same bits. Pure functions, any thread. What
 * bounds the filters is one multiply-add of four samples for each tap (half as many samples as with
 * SSE's multiply-add of pairs), which cores do one or two of a cycle; weights are taken from a lane
 * of a register, so nothing has to be spread. The horizontal pass takes two rows at once all the
 * same: what finds the taps of an output is shared. Conversion keeps scale and offset of 12
 * elements, a whole number of patterns of 1..4 channels, in registers. Tests compile this file
 * against SIMDe (base/neon.h), too. */
#include "augment/augment_kernels.h"

#include "base/neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#define Z 255 /* an index that gives 0 */

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

PSTI_NEON_INLINE int16x4_t weight_pair(const int16_t *weights)
{
    return vcreate_s16(psti_load_u32(weights));
}

/* Two pixels of 3 or 4 channels in 16 bits, from the first or the second 8 bytes that `order`
 * takes. */
struct orders {
    uint8x16_t first, second;
};

PSTI_NEON_INLINE int16x8_t picked(uint8x16_t v, uint8x16_t order)
{
    return vreinterpretq_s16_u8(vqtbl1q_u8(v, order));
}

PSTI_NEON_INLINE int32x4_t four_taps(const uint8_t *pixels, int16x4_t weights, struct orders orders,
                                     int32x4_t sum)
{
    uint8x16_t v = vld1q_u8(pixels);
    int16x8_t a = picked(v, orders.first), b = picked(v, orders.second);
    sum = vmlal_lane_s16(sum, vget_low_s16(a), weights, 0);
    sum = vmlal_high_lane_s16(sum, a, weights, 1);
    sum = vmlal_lane_s16(sum, vget_low_s16(b), weights, 2);
    return vmlal_high_lane_s16(sum, b, weights, 3);
}

PSTI_NEON_INLINE int32x4_t two_taps(const uint8_t *pixels, int16x4_t weights, struct orders orders,
                                    int32x4_t sum)
{
    uint8x16_t v = vcombine_u8(vld1_u8(pixels), vdup_n_u8(0));
    int16x8_t a = picked(v, orders.first);
    sum = vmlal_lane_s16(sum, vget_low_s16(a), weights, 0);
    return vmlal_high_lane_s16(sum, a, weights, 1);
}

/* One output of both rows: 4 sums each. */
struct pair {
    int32x4_t a, b;
};

PSTI_NEON_INLINE struct pair pixel_sums(const uint8_t *a, const uint8_t *b, const int16_t *weights,
                                        uint32_t taps, uint32_t channels, struct orders orders,
                                        int32x4_t round)
{
    struct pair sums = {round, round};
    uint32_t k = 0;
    for (; k + 4 <= taps; k += 4) {
        int16x4_t w = vld1_s16(weights + k);
        sums.a = four_taps(a, w, orders, sums.a);
        sums.b = four_taps(b, w, orders, sums.b);
        a += 4 * channels;
        b += 4 * channels;
    }
    if (k < taps) {
        int16x4_t w = weight_pair(weights + k);
        sums.a = two_taps(a, w, orders, sums.a);
        sums.b = two_taps(b, w, orders, sums.b);
    }
    return sums;
}

/* 16 sums, shifted by the negative of `shift`, as bytes. */
PSTI_NEON_INLINE uint8x16_t narrowed(int32x4_t s0, int32x4_t s1, int32x4_t s2, int32x4_t s3,
                                     int32x4_t shift)
{
    int16x8_t low =
        vcombine_s16(vqmovn_s32(vshlq_s32(s0, shift)), vqmovn_s32(vshlq_s32(s1, shift)));
    int16x8_t high =
        vcombine_s16(vqmovn_s32(vshlq_s32(s2, shift)), vqmovn_s32(vshlq_s32(s3, shift)));
    return vcombine_u8(vqmovun_s16(low), vqmovun_s16(high));
}

/* The template for 3 and 4 channels; `taps` is a constant for the usual scales. */
PSTI_NEON_INLINE void resize_x_pixels(uint8_t *const *dst, const uint8_t *const *src,
                                      const struct psti_axis *axis, uint32_t begin, uint32_t end,
                                      uint32_t bias, uint32_t taps, uint32_t channels)
{
    static const uint8_t firsts[2][16] = {{0, Z, 1, Z, 2, Z, Z, Z, 3, Z, 4, Z, 5, Z, Z, Z},
                                          {0, Z, 1, Z, 2, Z, 3, Z, 4, Z, 5, Z, 6, Z, 7, Z}};
    static const uint8_t seconds[2][16] = {{6, Z, 7, Z, 8, Z, Z, Z, 9, Z, 10, Z, 11, Z, Z, Z},
                                           {8, Z, 9, Z, 10, Z, 11, Z, 12, Z, 13, Z, 14, Z, 15, Z}};
    static const uint8_t without_fourth[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z};
    const struct orders orders = {vld1q_u8(firsts[channels - 3]), vld1q_u8(seconds[channels - 3])};
    const uint8x16_t compress = vld1q_u8(without_fourth);
    const int32x4_t round = vdupq_n_s32(1 << (axis->precision - 1));
    const int32x4_t shift = vdupq_n_s32(-(int32_t)axis->precision);
    const uint32_t *start =
        axis->start; /* bytes are stored below: as members they would be read again each time */
    const int16_t *all_weights = axis->weights;
    const uint8_t *const src_a = src[0], *const src_b = src[1];
    uint8_t *const dst_a = dst[0], *const dst_b = dst[1];
    for (uint32_t i = begin; i < end; i += 4) {
        struct pair s[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            size_t offset = (size_t)(start[at] - bias) * channels;
            const int16_t *weights = all_weights + (size_t)at * taps;
            s[j] =
                pixel_sums(src_a + offset, src_b + offset, weights, taps, channels, orders, round);
        }
        uint8x16_t a = narrowed(s[0].a, s[1].a, s[2].a, s[3].a, shift);
        uint8x16_t b = narrowed(s[0].b, s[1].b, s[2].b, s[3].b, shift);
        size_t to = (size_t)i * channels;
        vst1q_u8(dst_a + to, channels == 3 ? vqtbl1q_u8(a, compress) : a);
        vst1q_u8(dst_b + to, channels == 3 ? vqtbl1q_u8(b, compress) : b);
    }
}

static void resize_x_3(uint8_t *const *dst, const uint8_t *const *src, const struct psti_axis *axis,
                       uint32_t begin, uint32_t end, uint32_t bias)
{
    if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 3);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 3);
    else if (axis->stride == 6)
        resize_x_pixels(dst, src, axis, begin, end, bias, 6, 3);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 3);
}

static void resize_x_4(uint8_t *const *dst, const uint8_t *const *src, const struct psti_axis *axis,
                       uint32_t begin, uint32_t end, uint32_t bias)
{
    if (axis->stride == 2)
        resize_x_pixels(dst, src, axis, begin, end, bias, 2, 4);
    else if (axis->stride == 4)
        resize_x_pixels(dst, src, axis, begin, end, bias, 4, 4);
    else
        resize_x_pixels(dst, src, axis, begin, end, bias, axis->stride, 4);
}

PSTI_NEON_INLINE int32x4_t eight_taps(const uint8_t *samples, int16x8_t weights, int32x4_t sum)
{
    int16x8_t v = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(samples)));
    sum = vmlal_s16(sum, vget_low_s16(v), vget_low_s16(weights));
    return vmlal_high_s16(sum, v, weights);
}

/* The sums of four vectors, each across, rounded and shifted, as four bytes. */
PSTI_NEON_INLINE uint32_t four_bytes(const int32x4_t sums[4], int32x4_t round, int32x4_t shift)
{
    int32x4_t sum = vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
    uint8x16_t v = narrowed(vaddq_s32(sum, round), sum, sum, sum, shift);
    return vgetq_lane_u32(vreinterpretq_u32_u8(v), 0);
}

/* One channel: 8 taps of both rows at once, four outputs summed across together. */
static void resize_x_1(uint8_t *const *dst, const uint8_t *const *src, const struct psti_axis *axis,
                       uint32_t begin, uint32_t end, uint32_t bias)
{
    const int32x4_t round = vdupq_n_s32(1 << (axis->precision - 1));
    const int32x4_t shift = vdupq_n_s32(-(int32_t)axis->precision);
    for (uint32_t i = begin; i < end; i += 4) {
        int32x4_t a[4], b[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t at = i + j < end ? i + j : end - 1;
            size_t offset = axis->start[at] - bias;
            const int16_t *weights = axis->weights + (size_t)at * axis->stride;
            a[j] = b[j] = vdupq_n_s32(0);
            for (uint32_t k = 0; k < axis->stride; k += 8) {
                int16x8_t w = vld1q_s16(weights + k);
                a[j] = eight_taps(src[0] + offset + k, w, a[j]);
                b[j] = eight_taps(src[1] + offset + k, w, b[j]);
            }
        }
        psti_store_u32(dst[0] + i, four_bytes(a, round, shift));
        psti_store_u32(dst[1] + i, four_bytes(b, round, shift));
    }
}

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

/* Adds two rows of 16 samples to 16 sums. */
PSTI_NEON_INLINE void two_rows(const uint8_t *a, const uint8_t *b, int16x4_t weights,
                               int32x4_t sums[4])
{
    uint8x16_t a8 = vld1q_u8(a), b8 = vld1q_u8(b);
    int16x8_t a0 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(a8)));
    int16x8_t a1 = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(a8)));
    int16x8_t b0 = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(b8)));
    int16x8_t b1 = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(b8)));
    sums[0] = vmlal_lane_s16(sums[0], vget_low_s16(a0), weights, 0);
    sums[1] = vmlal_high_lane_s16(sums[1], a0, weights, 0);
    sums[2] = vmlal_lane_s16(sums[2], vget_low_s16(a1), weights, 0);
    sums[3] = vmlal_high_lane_s16(sums[3], a1, weights, 0);
    sums[0] = vmlal_lane_s16(sums[0], vget_low_s16(b0), weights, 1);
    sums[1] = vmlal_high_lane_s16(sums[1], b0, weights, 1);
    sums[2] = vmlal_lane_s16(sums[2], vget_low_s16(b1), weights, 1);
    sums[3] = vmlal_high_lane_s16(sums[3], b1, weights, 1);
}

static void resize_y(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                     uint32_t taps, uint32_t precision, size_t n)
{
    const int32x4_t round = vdupq_n_s32(1 << (precision - 1));
    const int32x4_t shift = vdupq_n_s32(-(int32_t)precision);
    for (size_t i = 0; i < n; i += 32) {
        int32x4_t low[4] = {round, round, round, round}, high[4] = {round, round, round, round};
        for (uint32_t k = 0; k < taps; k += 2) {
            int16x4_t w = weight_pair(weights + k);
            const uint8_t *a = rows[k] + i, *b = rows[k + 1] + i;
            two_rows(a, b, w, low);
            two_rows(a + 16, b + 16, w, high);
        }
        vst1q_u8(dst + i, narrowed(low[0], low[1], low[2], low[3], shift));
        vst1q_u8(dst + i + 16, narrowed(high[0], high[1], high[2], high[3], shift));
    }
}

/* Order of samples
 * ------------------------------------------------------------------------------------ */

static void reverse_1(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        uint8x16_t v = vrev64q_u8(vld1q_u8(src + width - 16 - x));
        vst1q_u8(dst + x, vextq_u8(v, v, 8));
    }
    psti_augment_reverse_1_c(dst + x, src, width - x);
}

/* Five pixels, the upper 15 bytes of a load. */
static void reverse_3(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    static const uint8_t backwards[16] = {13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, Z};
    const uint8x16_t order = vld1q_u8(backwards);
    uint32_t left = width;
    for (; left >= 6; left -= 5) {
        vst1q_u8(dst, vqtbl1q_u8(vld1q_u8(src + (size_t)left * 3 - 16), order));
        dst += 15;
    }
    psti_augment_reverse_3_c(dst, src, left);
}

static void reverse_4(uint8_t *dst, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 4 <= width; x += 4) {
        uint8x16_t v = vld1q_u8(src + ((size_t)width - 4 - x) * 4);
        uint32x4_t pixels = vrev64q_u32(vreinterpretq_u32_u8(v));
        vst1q_u8(dst + (size_t)x * 4, vreinterpretq_u8_u32(vextq_u32(pixels, pixels, 2)));
    }
    psti_augment_reverse_4_c(dst + (size_t)x * 4, src, width - x);
}

static void split_2(uint8_t *const *planes, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        uint8x16x2_t v = vld2q_u8(src + (size_t)x * 2);
        vst1q_u8(planes[0] + x, v.val[0]);
        vst1q_u8(planes[1] + x, v.val[1]);
    }
    uint8_t *const rest[2] = {planes[0] + x, planes[1] + x};
    psti_augment_split_2_c(rest, src + (size_t)x * 2, width - x);
}

static void split_3(uint8_t *const *planes, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        uint8x16x3_t v = vld3q_u8(src + (size_t)x * 3);
        vst1q_u8(planes[0] + x, v.val[0]);
        vst1q_u8(planes[1] + x, v.val[1]);
        vst1q_u8(planes[2] + x, v.val[2]);
    }
    uint8_t *const rest[3] = {planes[0] + x, planes[1] + x, planes[2] + x};
    psti_augment_split_3_c(rest, src + (size_t)x * 3, width - x);
}

static void split_4(uint8_t *const *planes, const uint8_t *src, uint32_t width)
{
    uint32_t x = 0;
    for (; x + 16 <= width; x += 16) {
        uint8x16x4_t v = vld4q_u8(src + (size_t)x * 4);
        vst1q_u8(planes[0] + x, v.val[0]);
        vst1q_u8(planes[1] + x, v.val[1]);
        vst1q_u8(planes[2] + x, v.val[2]);
        vst1q_u8(planes[3] + x, v.val[3]);
    }
    uint8_t *const rest[4] = {planes[0] + x, planes[1] + x, planes[2] + x, planes[3] + x};
    psti_augment_split_4_c(rest, src + (size_t)x * 4, width - x);
}

/* Conversion
 * ------------------------------------------------------------------------------------------ */

enum { PERIOD = 12, STEP = 2 * PERIOD };

struct pattern {
    float32x4_t scale[3], offset[3];
};

PSTI_NEON_INLINE struct pattern load_pattern(const float *scale, const float *offset)
{
    return (struct pattern){{vld1q_f32(scale), vld1q_f32(scale + 4), vld1q_f32(scale + 8)},
                            {vld1q_f32(offset), vld1q_f32(offset + 4), vld1q_f32(offset + 8)}};
}

/* A multiplication and an addition: both roundings count. */
PSTI_NEON_INLINE float32x4_t four_floats(uint16x4_t v, float32x4_t scale, float32x4_t offset)
{
    return vaddq_f32(vmulq_f32(vcvtq_f32_u32(vmovl_u16(v)), scale), offset);
}

struct eight {
    float32x4_t low, high;
};

/* Elements 8 part .. 8 part + 7 of a step, part below 3. */
PSTI_NEON_INLINE struct eight eight_floats(const uint8_t *src, const struct pattern *p, int part)
{
    int low = 2 * part % 3, high = (2 * part + 1) % 3;
    uint16x8_t v = vmovl_u8(vld1_u8(src));
    return (struct eight){four_floats(vget_low_u16(v), p->scale[low], p->offset[low]),
                          four_floats(vget_high_u16(v), p->scale[high], p->offset[high])};
}

/* Stores by bytes: a slot may lie at any address. */
PSTI_NEON_INLINE void store_4(unsigned char *to, float32x4_t v)
{
    vst1q_u8(to, vreinterpretq_u8_f32(v));
}
PSTI_NEON_INLINE void store_8(unsigned char *to, uint16x8_t v)
{
    vst1q_u8(to, vreinterpretq_u8_u16(v));
}

static void to_f32(void *dst, const uint8_t *src, size_t n, const float *scale, const float *offset)
{
    const struct pattern p = load_pattern(scale, offset);
    unsigned char *to = dst;
    size_t i = 0, k = 0;
    for (; i + STEP <= n; i += STEP) {
#pragma GCC unroll 3
        for (int part = 0; part < 3; part++) {
            size_t at = i + 8 * (size_t)part;
            struct eight v = eight_floats(src + at, &p, part);
            store_4(to + 4 * at, v.low);
            store_4(to + 4 * at + 16, v.high);
        }
    }
    for (; i + 8 <= n; i += 8, k += 8) {
        uint16x8_t v = vmovl_u8(vld1_u8(src + i));
        store_4(to + 4 * i,
                four_floats(vget_low_u16(v), vld1q_f32(scale + k), vld1q_f32(offset + k)));
        store_4(to + 4 * i + 16,
                four_floats(vget_high_u16(v), vld1q_f32(scale + k + 4), vld1q_f32(offset + k + 4)));
    }
    psti_augment_ops_c.to_f32(to + 4 * i, src + i, n - i, scale + k, offset + k);
}

static void to_f16(void *dst, const uint8_t *src, size_t n, const float *scale, const float *offset)
{
    const struct pattern p = load_pattern(scale, offset);
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
#pragma GCC unroll 3
        for (int part = 0; part < 3; part++) {
            size_t at = i + 8 * (size_t)part;
            struct eight v = eight_floats(src + at, &p, part);
            float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high);
            store_8(to + 2 * at, vreinterpretq_u16_f16(halves));
        }
    }
    psti_augment_ops_c.to_f16(to + 2 * i, src + i, n - i, scale, offset);
}

/* bits + 0x7fff + the bit that stays last, upper half. The values are finite. */
PSTI_NEON_INLINE uint16x4_t bf16_of(float32x4_t value)
{
    uint32x4_t v = vreinterpretq_u32_f32(value);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(v, 16), vdupq_n_u32(1));
    return vshrn_n_u32(vaddq_u32(vaddq_u32(v, vdupq_n_u32(0x7fff)), odd), 16);
}

static void to_bf16(void *dst, const uint8_t *src, size_t n, const float *scale,
                    const float *offset)
{
    const struct pattern p = load_pattern(scale, offset);
    unsigned char *to = dst;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP) {
#pragma GCC unroll 3
        for (int part = 0; part < 3; part++) {
            size_t at = i + 8 * (size_t)part;
            struct eight v = eight_floats(src + at, &p, part);
            store_8(to + 2 * at, vcombine_u16(bf16_of(v.low), bf16_of(v.high)));
        }
    }
    psti_augment_ops_c.to_bf16(to + 2 * i, src + i, n - i, scale, offset);
}

const struct psti_augment_ops psti_augment_ops_neon = {
    .name = "neon",
    .lanes = {1, 2, 1, 2, 2},
    .resize_x = {NULL, resize_x_1, psti_augment_resize_x_2_c, resize_x_3, resize_x_4},
    .resize_y = resize_y,
    .reverse = {NULL, reverse_1, psti_augment_reverse_2_c, reverse_3, reverse_4},
    .split = {NULL, NULL, split_2, split_3, split_4},
    .to_f32 = to_f32,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
};
#endif
