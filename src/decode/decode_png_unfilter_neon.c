/* decode_png_unfilter_neon.c - undoing the filters of PNG rows with NEON.
 *
 * In and out: see decode_png_unfilter.h; plain C gives the same bytes. Pure functions, any thread.
 * But for Up, each pixel waits for the one to its left, so what counts is how few operations lie
 * between two pixels: one for Sub (a running sum within a vector), two for Average, four for Paeth,
 * of which two rows are undone at once. A pixel of 3 or 6 bytes is stored with bytes too many,
 * which the next one overwrites; so the next is always loaded before. */
#include "decode/decode_png_unfilter.h"

#include "base/neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

/* The first n bytes: 1, 2, 3, 4, 6 or 8. */
PSTI_NEON_INLINE void store(uint8_t *p, uint8x8_t v, size_t n)
{
    uint32_t low = vget_lane_u32(vreinterpret_u32_u8(v), 0);
    uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(v), 0);
    if (n == 1)
        vst1_lane_u8(p, v, 0);
    else if (n <= 4)
        memcpy(p, &low, n);
    else
        memcpy(p, &bits, n);
}

/* The pixel, with as many bytes more as make one store; another pixel follows. */
PSTI_NEON_INLINE void store_inner(uint8_t *p, uint8x8_t v, size_t pixel)
{
    store(p, v, pixel == 3 ? 4 : pixel == 6 ? 8 : pixel);
}

static void undo_up(uint8_t *row, const uint8_t *above, size_t n)
{
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        uint8x16_t a = vaddq_u8(vld1q_u8(row + i), vld1q_u8(above + i));
        uint8x16_t b = vaddq_u8(vld1q_u8(row + i + 16), vld1q_u8(above + i + 16));
        vst1q_u8(row + i, a);
        vst1q_u8(row + i + 16, b);
    }
    for (; i < n; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

/* Adds what lies `n` bytes before; nothing where that is no vector's. */
#define ADD_BEFORE(v, n)                                                                           \
    ((n) < 16 ? vaddq_u8(v, vextq_u8(vdupq_n_u8(0), v, (n) < 16 ? 16 - (n) : 0)) : (v))

/* Sums of 1, 2, 4 ... pixels; the last sum of a vector goes on into the next. `used` bytes of a
 * vector are whole pixels; what lies behind them is stored back as it was. */
#define DEFINE_SUB(pixel)                                                                          \
    static void undo_sub_##pixel(uint8_t *row, const uint8_t *above, size_t n)                     \
    {                                                                                              \
        enum { used = 16 / pixel * pixel };                                                        \
        uint8_t places[16], kept[16];                                                              \
        for (int k = 0; k < 16; k++) {                                                             \
            places[k] = (uint8_t)(used - pixel + k % pixel);                                       \
            kept[k] = k < used ? 255 : 0;                                                          \
        }                                                                                          \
        const uint8x16_t repeat = vld1q_u8(places), whole = vld1q_u8(kept);                        \
        uint8x16_t left = vdupq_n_u8(0), next = vld1q_u8(row);                                     \
        size_t i = 0;                                                                              \
        (void)above;                                                                               \
        for (; i + 16 <= n; i += used) {                                                           \
            uint8x16_t stored = next, v = next;                                                    \
            next = vld1q_u8(row + i + used);                                                       \
            v = ADD_BEFORE(v, pixel);                                                              \
            v = ADD_BEFORE(v, 2 * pixel);                                                          \
            v = ADD_BEFORE(v, 4 * pixel);                                                          \
            v = ADD_BEFORE(v, 8 * pixel);                                                          \
            v = vaddq_u8(v, left);                                                                 \
            left = vqtbl1q_u8(v, repeat);                                                          \
            vst1q_u8(row + i, used < 16 ? vbslq_u8(whole, v, stored) : v);                         \
        }                                                                                          \
        for (i = i ? i : pixel; i < n; i++)                                                        \
            row[i] = (uint8_t)(row[i] + row[i - pixel]);                                           \
    }

PSTI_NEON_INLINE void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    uint8x8_t left = vdup_n_u8(0), raw = vld1_u8(row);
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        uint8x8_t next = vld1_u8(row + i + pixel);
        left = vadd_u8(raw, vhadd_u8(left, vld1_u8(above + i)));
        store_inner(row + i, left, pixel);
        raw = next;
    }
    left = vadd_u8(raw, vhadd_u8(left, vld1_u8(above + i)));
    store(row + i, left, pixel);
}

PSTI_NEON_INLINE int16x8_t load_pixel(const uint8_t *p)
{
    return vreinterpretq_s16_u16(vmovl_u8(vld1_u8(p)));
}

PSTI_NEON_INLINE uint8x8_t narrow(int16x8_t v) { return vmovn_u16(vreinterpretq_u16_s16(v)); }

/* The sum of two vectors of bytes that lie in 16 bits each, with zeros above. */
PSTI_NEON_INLINE int16x8_t add_low_bytes(int16x8_t a, int16x8_t b)
{
    return vreinterpretq_s16_u8(vaddq_u8(vreinterpretq_u8_s16(a), vreinterpretq_u8_s16(b)));
}

/* With t = 3c - a - b: the larger of a and b where t <= the smaller, the smaller where t >= the
 * larger, c between. Samples are 16 bits wide, with zeros above; sums wrap in their lower byte. Of
 * a and b, `late` is the one to be waited for, and `early_t` what t is without it. */
PSTI_NEON_INLINE int16x8_t paeth_pixel(int16x8_t raw, int16x8_t late, int16x8_t early, int16x8_t c,
                                       int16x8_t early_t)
{
    int16x8_t t = vsubq_s16(early_t, late);
    int16x8_t low = vminq_s16(late, early), high = vmaxq_s16(late, early);
    int16x8_t lower = vbslq_s16(vcgtq_s16(high, t), add_low_bytes(raw, c), add_low_bytes(raw, low));
    return vbslq_s16(vcgtq_s16(t, low), lower, add_low_bytes(raw, high));
}

PSTI_NEON_INLINE int16x8_t t_without_late(int16x8_t early, int16x8_t c)
{
    return vsubq_s16(vaddq_s16(c, vaddq_s16(c, c)), early);
}

PSTI_NEON_INLINE void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t pixel)
{
    int16x8_t a = vdupq_n_s16(0), c = a, raw = load_pixel(row);
    size_t i = 0;
    for (; i + pixel < n; i += pixel) {
        int16x8_t next = load_pixel(row + i + pixel), b = load_pixel(above + i);
        a = paeth_pixel(raw, a, b, c, t_without_late(b, c));
        store_inner(row + i, narrow(a), pixel);
        c = b;
        raw = next;
    }
    int16x8_t b = load_pixel(above + i);
    a = paeth_pixel(raw, a, b, c, t_without_late(b, c));
    store(row + i, narrow(a), pixel);
}

/* Four bytes of each, in 16 bits. */
PSTI_NEON_INLINE int16x8_t load_two(const uint8_t *low, const uint8_t *high)
{
    uint32x2_t v = vcreate_u32(psti_load_u32(low));
    v = vset_lane_u32(psti_load_u32(high), v, 1);
    return vreinterpretq_s16_u16(vmovl_u8(vreinterpret_u8_u32(v)));
}

/* Two rows, for pixels of up to 4 bytes: the lower half of a vector is a pixel of the first row,
 * the higher half the pixel one to the left in the second; what is above that one was made just
 * before. */
PSTI_NEON_INLINE void undo_two_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step,
                                     size_t pixel)
{
    uint8_t *second = row + step;
    const int16x8_t zero = vdupq_n_s16(0);
    int16x8_t c = vcombine_s16(vget_low_s16(load_pixel(above)), vget_low_s16(zero));
    int16x8_t a = vcombine_s16(vget_low_s16(load_pixel(row)), vget_low_s16(zero));
    int16x8_t raw = load_two(row + pixel, second);
    uint8x8_t packed;
    size_t i = pixel;
    a = add_low_bytes(a, c); /* nothing is to the left of the first pixel: it goes by what is
                                above */
    packed = narrow(a);
    if (n == pixel)
        store(row, packed, pixel);
    else
        store_inner(row, packed, pixel);
    for (; i < n; i += pixel) {
        int16x8_t next = load_two(row + i + pixel, second + i);
        int16x8_t b = vcombine_s16(vget_low_s16(load_pixel(above + i)), vget_low_s16(a));
        a = paeth_pixel(raw, b, a, c, t_without_late(a, c));
        packed = narrow(a);
        if (i + pixel < n)
            store_inner(row + i, packed, pixel);
        else
            store(row + i, packed, pixel);
        store_inner(second + i - pixel, vext_u8(packed, packed, 4), pixel);
        c = b;
        raw = next;
    }
    int16x8_t b = vcombine_s16(vget_low_s16(a), vget_low_s16(a));
    packed = narrow(paeth_pixel(raw, b, a, c, t_without_late(a, c)));
    store(second + i - pixel, vext_u8(packed, packed, 4), pixel);
}

#define DEFINE(pixel)                                                                              \
    DEFINE_SUB(pixel)                                                                              \
    static void undo_average_##pixel(uint8_t *row, const uint8_t *above, size_t n)                 \
    {                                                                                              \
        undo_average(row, above, n, pixel);                                                        \
    }                                                                                              \
    static void undo_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n)                   \
    {                                                                                              \
        undo_paeth(row, above, n, pixel);                                                          \
    }

#define DEFINE_TWO(pixel)                                                                          \
    DEFINE(pixel)                                                                                  \
    static void undo_two_paeth_##pixel(uint8_t *row, const uint8_t *above, size_t n, size_t step)  \
    {                                                                                              \
        undo_two_paeth(row, above, n, step, pixel);                                                \
    }

DEFINE_TWO(1)
DEFINE_TWO(2)
DEFINE_TWO(3)
DEFINE_TWO(4)
DEFINE(6)
DEFINE(8)

#define ENTRY(pixel)                                                                               \
    [pixel] = {NULL, undo_sub_##pixel, undo_up, undo_average_##pixel, undo_paeth_##pixel}

const struct psti_unfilter_ops psti_unfilter_ops_neon = {
    .name = "neon",
    .row = {ENTRY(1), ENTRY(2), ENTRY(3), ENTRY(4), ENTRY(6), ENTRY(8)},
    .two_paeth = {NULL, undo_two_paeth_1, undo_two_paeth_2, undo_two_paeth_3, undo_two_paeth_4}};
#endif
