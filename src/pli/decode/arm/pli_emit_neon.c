/* pli_emit_neon.c - the row kernels of emission with NEON.
 *
 * In and out: see pli_emit.h; plain C gives the same bytes. Pure; any thread. 16 pixels a step (8
 * of 16 bits); the pixels of a last, shorter step go through a buffer. Bound by st3 and st4, which
 * a Neoverse N1 takes 3 and 4 cycles over. */
#include "pli/decode/pli_emit.h"

#include "base/neon.h"

#include <string.h>

#if defined(PSTI_NEON)

enum { STEP = 16 };

/* Pixels x .. x + 15 of a row of `n_channels`, of which 3 may be colours after green. */
PSTI_NEON_INLINE void step(const uint8_t *const planes[4], uint32_t x, uint32_t n_channels,
                           bool green, uint8_t *out)
{
    uint8x16_t v0 = vld1q_u8(planes[0] + x), v1 = vld1q_u8(planes[1] + x);
    uint8x16_t v2 = vld1q_u8(planes[2] + x);
    if (green) {
        uint8x16_t g = v0, offset = veorq_u8(g, vdupq_n_u8(0x80)); /* g - 128 */
        v0 = vaddq_u8(v1, offset);
        v1 = g;
        v2 = vaddq_u8(v2, offset);
    }
    const uint8x16x3_t v012 = {{v0, v1, v2}};
    if (n_channels == 3) {
        vst3q_u8(out, v012);
        return;
    }
    const uint8x16x4_t all = {{v0, v1, v2, vld1q_u8(planes[3] + x)}};
    vst4q_u8(out, all);
}

PSTI_NEON_INLINE void row(const uint8_t *const planes[4], uint32_t n, uint32_t n_channels,
                          bool green, uint8_t *out)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        step(planes, x, n_channels, green, out + (size_t)x * n_channels);
    if (x < n) {
        uint8_t last[STEP * 4];
        step(planes, x, n_channels, green, last);
        memcpy(out + (size_t)x * n_channels, last, (size_t)(n - x) * n_channels);
    }
}

static void green_rgb8(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                       uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, NULL}, n, 3, true, out);
}

static void green_rgba8(const uint8_t *g, const uint8_t *r, const uint8_t *b, const uint8_t *a,
                        uint8_t *out, uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, a}, n, 4, true, out);
}

static void plain_rgb8(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                       uint32_t n)
{
    row((const uint8_t *const[4]){c0, c1, c2, NULL}, n, 3, false, out);
}

PSTI_NEON_INLINE uint8x16_t add_green(const uint8_t *g, const uint8_t *p)
{
    return vaddq_u8(vld1q_u8(p), veorq_u8(vld1q_u8(g), vdupq_n_u8(0x80)));
}

static void green_one8(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        vst1q_u8(out + x, add_green(g + x, p + x));
    if (x < n) {
        uint8_t last[STEP];
        vst1q_u8(last, add_green(g + x, p + x));
        memcpy(out + x, last, n - x);
    }
}

PSTI_NEON_INLINE void step_rgb16(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2,
                                 bool green, uint8_t *out)
{
    uint16x8x3_t v = {{vreinterpretq_u16_u8(vld1q_u8(p0)), vreinterpretq_u16_u8(vld1q_u8(p1)),
                       vreinterpretq_u16_u8(vld1q_u8(p2))}};
    if (green) {
        uint16x8_t g = v.val[0], offset = veorq_u16(g, vdupq_n_u16(0x8000)); /* g - 32768 */
        v.val[0] = vaddq_u16(v.val[1], offset);
        v.val[1] = g;
        v.val[2] = vaddq_u16(v.val[2], offset);
    }
    vst3q_u16((void *)out, v);
}

static void rgb16(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green, uint8_t *out,
                  uint32_t n)
{
    enum { PIXELS = STEP / 2 };
    size_t x = 0;
    for (; x + PIXELS <= n; x += PIXELS)
        step_rgb16(p0 + 2 * x, p1 + 2 * x, p2 + 2 * x, green, out + 6 * x);
    if (x < n) {
        uint8_t last[6 * PIXELS];
        step_rgb16(p0 + 2 * x, p1 + 2 * x, p2 + 2 * x, green, last);
        memcpy(out + 6 * x, last, 6 * (n - x));
    }
}

const struct psti_pli_emit_kernels psti_pli_emit_kernels_neon = {
    .green_rgb8 = green_rgb8,
    .green_rgba8 = green_rgba8,
    .green_one8 = green_one8,
    .plain_rgb8 = plain_rgb8,
    .rgb16 = rgb16,
};
#endif
