/* pli_jpeg_rows_neon.c - turns rows of samples into rows of pixels with NEON, 16 samples a step:
 * pli_jpeg_rows_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. Additions in 16 bits bound the time of upsampling in both directions.
 * Multiplications (ten for 16 pixels) and the interleaving store bound the time of colour. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)
#define TARGET
#define INLINE PSTI_NEON_INLINE
#define VECTOR uint8x16_t
#define TABLE psti_pli_jpeg_rows_neon

enum { STEP = 16 };

INLINE uint8x16_t load(const uint8_t *p) { return vld1q_u8(p); }
INLINE void store(uint8_t *p, uint8x16_t v) { vst1q_u8(p, v); }
INLINE void store_in_turn(uint8_t *to, uint8x16_t even, uint8x16_t odd)
{
    const uint8x16x2_t both = {{even, odd}};
    vst2q_u8(to, both);
}
INLINE void store_rgb(uint8_t *to, uint8x16_t r, uint8x16_t g, uint8x16_t b)
{
    const uint8x16x3_t all = {{r, g, b}};
    vst3q_u8(to, all);
}

INLINE uint8x16_t three_to_one_down(uint8x16_t near, uint8x16_t far)
{
    return vhaddq_u8(near, vrhaddq_u8(near, far));
}

INLINE uint8x16_t three_to_one_up(uint8x16_t near, uint8x16_t far)
{
    return vrhaddq_u8(near, vhaddq_u8(near, far));
}

/* Returns 3 near + far for 8 samples. */
INLINE uint16x8_t column_sums(const uint8_t *near, const uint8_t *far)
{
    return vmlal_u8(vmovl_u8(vld1_u8(far)), vld1_u8(near), vdup_n_u8(3));
}

/* Returns the even and the odd samples, made from the sums of 8 columns and of the columns next to
 * them. */
struct across {
    uint8x8_t even, odd;
};
INLINE struct across across(uint16x8_t left, uint16x8_t here, uint16x8_t right)
{
    uint16x8_t thrice = vaddq_u16(vaddq_u16(here, here), here);
    uint16x8_t odd = vaddq_u16(vaddq_u16(thrice, vdupq_n_u16(7)), right);
    return (struct across){vrshrn_n_u16(vaddq_u16(thrice, left), 4), vshrn_n_u16(odd, 4)};
}

static void h2v2(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n)
{
    /* Only its last lane is used. */
    uint16x8_t before = vdupq_n_u16((uint16_t)(3u * near[-1] + far[-1]));
    for (uint32_t i = 0; i < n; i += STEP) {
        uint16x8_t a = column_sums(near + i, far + i);
        uint16x8_t b = column_sums(near + i + 8, far + i + 8);
        uint16x8_t b_right = column_sums(near + i + 9, far + i + 9);
        struct across low = across(vextq_u16(before, a, 7), a, vextq_u16(a, b, 1));
        struct across high = across(vextq_u16(a, b, 7), b, b_right);
        store_in_turn(out + 2 * (size_t)i, vcombine_u8(low.even, high.even),
                      vcombine_u8(low.odd, high.odd));
        before = b;
    }
}

/* The next three functions return the terms that are added to Y for 8 pixels, from Cb - 128 and Cr
 * - 128. Only green needs sums of 32 bits. For red, (91881 r + 32768) >> 16 is r plus the rounded
 * high half of r * 13173, for all r of 8 bits. For blue, (116130 b + 32768) >> 16 is 2 b minus the
 * rounded high half of b * 7471. */
INLINE int16x8_t to_red(int16x8_t r) { return vaddq_s16(r, vqrdmulhq_n_s16(r, 13173)); }
INLINE int16x8_t to_blue(int16x8_t b)
{
    return vaddq_s16(vaddq_s16(b, b), vqrdmulhq_n_s16(b, -7471));
}
INLINE int16x8_t to_green(int16x8_t b, int16x8_t r)
{
    /* -46802 does not fit 16 bits. It is 18734 - 65536, and the product with -65536 is a
     * subtraction of r. */
    int32x4_t low = vmull_n_s16(vget_low_s16(b), -22554);
    int32x4_t high = vmull_high_n_s16(b, -22554);
    low = vmlal_n_s16(low, vget_low_s16(r), 18734);
    high = vmlal_high_n_s16(high, r, 18734);
    return vsubq_s16(vcombine_s16(vrshrn_n_s32(low, 16), vrshrn_n_s32(high, 16)), r);
}

/* Returns Y plus the terms, clamped, for 8 pixels and the next 8. */
INLINE uint8x16_t add_clamped(uint8x16_t y, int16x8_t low, int16x8_t high)
{
    uint16x8_t a = vaddw_u8(vreinterpretq_u16_s16(low), vget_low_u8(y));
    uint16x8_t b = vaddw_high_u8(vreinterpretq_u16_s16(high), y);
    return vcombine_u8(vqmovun_s16(vreinterpretq_s16_u16(a)),
                       vqmovun_s16(vreinterpretq_s16_u16(b)));
}

INLINE void make_rgb(uint8x16_t v[3])
{
    const uint8x16_t middle = vdupq_n_u8(128), y = v[0];
    int16x8_t b0 = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(v[1]), vget_low_u8(middle)));
    int16x8_t b1 = vreinterpretq_s16_u16(vsubl_high_u8(v[1], middle));
    int16x8_t r0 = vreinterpretq_s16_u16(vsubl_u8(vget_low_u8(v[2]), vget_low_u8(middle)));
    int16x8_t r1 = vreinterpretq_s16_u16(vsubl_high_u8(v[2], middle));
    v[0] = add_clamped(y, to_red(r0), to_red(r1));
    v[1] = add_clamped(y, to_green(b0, r0), to_green(b1, r1));
    v[2] = add_clamped(y, to_blue(b0), to_blue(b1));
}

#include "pli/decode/jpeg/pli_jpeg_rows_template.h"
#endif
