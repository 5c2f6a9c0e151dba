/* pli_jpeg_rows_neon.c - rows of samples -> rows of pixels with NEON.
 *
 * In and out: see pli_jpeg_int.h; plain C gives the same bytes. Pure; any thread. 16 samples a
 * step; the pixels of a last, shorter step go through a buffer. Upsampling one way stays within
 * bytes: two halving additions, of which one rounds up, are the same as a sum of 10 bits and a
 * shift. What bounds the others: both ways the additions in 16 bits, colour its multiplications
 * (ten for 16 pixels) and the interleaving store. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/neon.h"

#if defined(PSTI_NEON)
#include <string.h>

enum { STEP = 16 };

/* (3 near + far + 1) >> 2 */
PSTI_NEON_INLINE uint8x16_t three_to_one_down(uint8x16_t near, uint8x16_t far)
{
    return vhaddq_u8(near, vrhaddq_u8(near, far));
}

/* (3 near + far + 2) >> 2 */
PSTI_NEON_INLINE uint8x16_t three_to_one_up(uint8x16_t near, uint8x16_t far)
{
    return vrhaddq_u8(near, vhaddq_u8(near, far));
}

static void h2(const uint8_t *in, uint8_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += STEP) {
        uint8x16_t here = vld1q_u8(in + i);
        uint8x16x2_t both = {{three_to_one_down(here, vld1q_u8(in + (ptrdiff_t)i - 1)),
                              three_to_one_up(here, vld1q_u8(in + i + 1))}};
        vst2q_u8(out + 2 * i, both);
    }
}

static void v2(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out, uint32_t n)
{
    if (bias == 1)
        for (uint32_t i = 0; i < n; i += STEP)
            vst1q_u8(out + i, three_to_one_down(vld1q_u8(near + i), vld1q_u8(far + i)));
    else
        for (uint32_t i = 0; i < n; i += STEP)
            vst1q_u8(out + i, three_to_one_up(vld1q_u8(near + i), vld1q_u8(far + i)));
}

/* 3 near + far, of 8 samples. */
PSTI_NEON_INLINE uint16x8_t column_sums(const uint8_t *near, const uint8_t *far)
{
    return vmlal_u8(vmovl_u8(vld1_u8(far)), vld1_u8(near), vdup_n_u8(3));
}

/* Sums of 8 columns and those next to them -> even and odd samples. */
struct across {
    uint8x8_t even, odd;
};
PSTI_NEON_INLINE struct across across(uint16x8_t left, uint16x8_t here, uint16x8_t right)
{
    uint16x8_t thrice = vaddq_u16(vaddq_u16(here, here), here);
    uint16x8_t odd = vaddq_u16(vaddq_u16(thrice, vdupq_n_u16(7)), right);
    return (struct across){vrshrn_n_u16(vaddq_u16(thrice, left), 4), vshrn_n_u16(odd, 4)};
}

static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    uint16x8_t before = vdupq_n_u16((uint16_t)(3u * near[-1] + far[-1])); /* its last one counts */
    for (uint32_t i = 0; i < n; i += STEP) {
        uint16x8_t a = column_sums(near + i, far + i);
        uint16x8_t b = column_sums(near + i + 8, far + i + 8);
        uint16x8_t b_right = column_sums(near + i + 9, far + i + 9);
        struct across low = across(vextq_u16(before, a, 7), a, vextq_u16(a, b, 1));
        struct across high = across(vextq_u16(a, b, 7), b, b_right);
        uint8x16x2_t both = {{vcombine_u8(low.even, high.even), vcombine_u8(low.odd, high.odd)}};
        vst2q_u8(out + 2 * i, both);
        before = b;
    }
}

/* What is added to Y, of 8 pixels, given Cb - 128 and Cr - 128. Sums are of 32 bits for green
 * alone: for red (91881 r + 32768) >> 16 is r plus the rounded high half of r * 13173, for all r of
 * 8 bits, and for blue (116130 b + 32768) >> 16 is 2 b minus that of b * 7471. */
PSTI_NEON_INLINE int16x8_t to_red(int16x8_t r) { return vaddq_s16(r, vqrdmulhq_n_s16(r, 13173)); }
PSTI_NEON_INLINE int16x8_t to_blue(int16x8_t b)
{
    return vaddq_s16(vaddq_s16(b, b), vqrdmulhq_n_s16(b, -7471));
}
PSTI_NEON_INLINE int16x8_t to_green(int16x8_t b, int16x8_t r)
{
    /* -46802 does not fit 16 bits: 65536 of it are a subtraction of r. */
    int32x4_t low = vmull_n_s16(vget_low_s16(b), -22554);
    int32x4_t high = vmull_high_n_s16(b, -22554);
    low = vmlal_n_s16(low, vget_low_s16(r), 18734);
    high = vmlal_high_n_s16(high, r, 18734);
    return vsubq_s16(vcombine_s16(vrshrn_n_s32(low, 16), vrshrn_n_s32(high, 16)), r);
}

/* Y plus what was found for 8 pixels and the next 8, clamped. */
PSTI_NEON_INLINE uint8x16_t add_clamped(uint8x16_t y, int16x8_t low, int16x8_t high)
{
    uint16x8_t a = vaddw_u8(vreinterpretq_u16_s16(low), vget_low_u8(y));
    uint16x8_t b = vaddw_high_u8(vreinterpretq_u16_s16(high), y);
    return vcombine_u8(vqmovun_s16(vreinterpretq_s16_u16(a)),
                       vqmovun_s16(vreinterpretq_s16_u16(b)));
}

PSTI_NEON_INLINE void ycc_step(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out)
{
    const uint8x16_t middle = vdupq_n_u8(128);
    uint8x16_t y8 = vld1q_u8(y), b8 = vld1q_u8(cb), r8 = vld1q_u8(cr);
    int16x8_t b0 = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(b8), vget_low_u8(middle)));
    int16x8_t b1 = vreinterpretq_s16_u16(vsubl_high_u8(b8, middle));
    int16x8_t r0 = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(r8), vget_low_u8(middle)));
    int16x8_t r1 = vreinterpretq_s16_u16(vsubl_high_u8(r8, middle));
    uint8x16x3_t pixels = {{add_clamped(y8, to_red(r0), to_red(r1)),
                            add_clamped(y8, to_green(b0, r0), to_green(b1, r1)),
                            add_clamped(y8, to_blue(b0), to_blue(b1))}};
    vst3q_u8(out, pixels);
}

static void ycc_rgb(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                    uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        ycc_step(y + x, cb + x, cr + x, out + (size_t)x * 3);
    if (x < n) {
        uint8_t last[STEP * 3];
        ycc_step(y + x, cb + x, cr + x, last);
        memcpy(out + (size_t)x * 3, last, (size_t)(n - x) * 3);
    }
}

PSTI_NEON_INLINE void plain_step(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2,
                                 uint8_t *out)
{
    uint8x16x3_t pixels = {{vld1q_u8(c0), vld1q_u8(c1), vld1q_u8(c2)}};
    vst3q_u8(out, pixels);
}

static void plain_rgb(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                      uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        plain_step(c0 + x, c1 + x, c2 + x, out + (size_t)x * 3);
    if (x < n) {
        uint8_t last[STEP * 3];
        plain_step(c0 + x, c1 + x, c2 + x, last);
        memcpy(out + (size_t)x * 3, last, (size_t)(n - x) * 3);
    }
}

const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_neon = {
    .h2 = h2, .h2v2 = h2v2, .v2 = v2, .ycc_rgb = ycc_rgb, .plain_rgb = plain_rgb};
#endif
