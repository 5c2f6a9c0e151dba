/* decode_png_unfilter_neon.c - undoes the filters of PNG rows with NEON. It defines vector
 * operations and includes decode_png_unfilter_template.h.
 *
 * In and out: see decode_png_unfilter.h. The bytes are the same as those of plain C. Pure
 * functions, any thread. */
#include "decode/png/decode_png_unfilter.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#define NAME "neon"
#define OPS psti_unfilter_ops_neon
#define TARGET
#define INLINE PSTI_NEON_INLINE

#define BYTES uint8x16_t
#define ADD_BEFORE(v, n)                                                                           \
    ((n) < 16 ? vaddq_u8(v, vextq_u8(vdupq_n_u8(0), v, (n) < 16 ? 16 - (n) : 0)) : (v))
INLINE uint8x16_t load_16(const uint8_t *p) { return vld1q_u8(p); }
INLINE void store_16(uint8_t *p, uint8x16_t v) { vst1q_u8(p, v); }
INLINE uint8x16_t add_16(uint8x16_t a, uint8x16_t b) { return vaddq_u8(a, b); }
INLINE uint8x16_t shuffled(uint8x16_t v, uint8x16_t order) { return vqtbl1q_u8(v, order); }
INLINE uint8x16_t choose(uint8x16_t mask, uint8x16_t yes, uint8x16_t no)
{
    return vbslq_u8(mask, yes, no);
}

#define PIXEL uint8x8_t
INLINE uint8x8_t load_pixel(const uint8_t *p) { return vld1_u8(p); }
INLINE uint64_t bits_of(uint8x8_t v) { return vget_lane_u64(vreinterpret_u64_u8(v), 0); }
INLINE uint8x8_t upper_half(uint8x8_t v) { return vext_u8(v, v, 4); }

#define AVERAGE_LEFT vdup_n_u8(0)
INLINE uint8x8_t average_bytes(uint8x8_t v) { return v; }
INLINE uint8x8_t average_pixel(uint8x8_t raw, uint8x8_t left, uint8x8_t above)
{
    return vadd_u8(raw, vhadd_u8(left, above));
}

#define WIDE int16x8_t
INLINE int16x8_t widened(uint8x8_t v) { return vreinterpretq_s16_u16(vmovl_u8(v)); }
INLINE uint8x8_t narrowed(int16x8_t v) { return vmovn_u16(vreinterpretq_u16_s16(v)); }
INLINE int16x8_t load_four(const uint8_t *p) { return widened(vcreate_u8(psti_load_u32(p))); }
INLINE int16x8_t load_two(const uint8_t *low, const uint8_t *high)
{
    uint32x2_t v = vcreate_u32(psti_load_u32(low));
    v = vset_lane_u32(psti_load_u32(high), v, 1);
    return widened(vreinterpret_u8_u32(v));
}
INLINE int16x8_t low_halves(int16x8_t a, int16x8_t b)
{
    return vcombine_s16(vget_low_s16(a), vget_low_s16(b));
}
INLINE int16x8_t add_low_bytes(int16x8_t a, int16x8_t b)
{
    return vreinterpretq_s16_u8(vaddq_u8(vreinterpretq_u8_s16(a), vreinterpretq_u8_s16(b)));
}

/* Undoes one pixel of filter Paeth. With t = 3c - a - b, the predictor is the larger of a and b if
 * t <= the smaller of them, the smaller if t >= the larger, and c otherwise. The upper byte of each
 * 16-bit sample is 0. Sums wrap in the lower byte. */
INLINE int16x8_t paeth_pixel(int16x8_t raw, int16x8_t late, int16x8_t early, int16x8_t c)
{
    int16x8_t t = vsubq_s16(vsubq_s16(vaddq_s16(c, vaddq_s16(c, c)), early), late);
    int16x8_t low = vminq_s16(late, early), high = vmaxq_s16(late, early);
    int16x8_t lower = vbslq_s16(vcgtq_s16(high, t), add_low_bytes(raw, c), add_low_bytes(raw, low));
    return vbslq_s16(vcgtq_s16(t, low), lower, add_low_bytes(raw, high));
}

#include "decode/png/decode_png_unfilter_template.h"
#endif
