/* augment_kernels_neon.c - the inner loops with NEON. It includes augment_kernels_template.h.
 *
 * In and out: see augment_kernels.h. The bits are the same as those of plain C. Pure functions, any
 * thread. The filters' speed is limited by multiply-adds: one instruction handles one tap of four
 * samples, half as much as SSE's multiply-add of pairs. Cores run one or two of them per cycle. The
 * instruction can take its weight from a lane of a register, so weights need not be copied to all
 * lanes. The horizontal pass still handles two rows at once, because both share the code that finds
 * the taps of an output. There is no sweep kernel, because a sweep multiplies some pixels by a
 * third weight. Tests compile this file against SIMDe (base/machine/neon.h), too. */
#include "augment/kernels/augment_kernels.h"

#include "base/machine/neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#define NAME "neon"
#define OPS psti_augment_ops_neon
#define SWEEPS NULL, NULL
#define PICK_X NULL
#define QUAD_X NULL
#define TARGET
#define INLINE PSTI_NEON_INLINE

#define Z 255 /* a shuffle index that gives 0 */

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

enum { LANES = 2 };

struct rows {
    uint8x16_t v[LANES];
};
struct sums {
    int32x4_t v[LANES];
};

INLINE struct sums set_sums(int32_t value)
{
    return (struct sums){{vdupq_n_s32(value), vdupq_n_s32(value)}};
}
INLINE struct rows load_16(const uint8_t *const *src, size_t at)
{
    return (struct rows){{vld1q_u8(src[0] + at), vld1q_u8(src[1] + at)}};
}
INLINE struct rows load_8(const uint8_t *const *src, size_t at)
{
    const uint8x8_t zero = vdup_n_u8(0);
    return (struct rows){
        {vcombine_u8(vld1_u8(src[0] + at), zero), vcombine_u8(vld1_u8(src[1] + at), zero)}};
}

INLINE int16x4_t weight_pair(const int16_t *weights) { return vcreate_s16(psti_load_u32(weights)); }

INLINE struct sums add_two_taps(struct sums sums, struct rows bytes, uint32_t half,
                                const int16_t *weights, uint32_t channels)
{
    /* The shuffles that widen the samples of two pixels to 16 bits. */
    static const uint8_t orders[2][2][16] = {
        {{0, Z, 1, Z, 2, Z, Z, Z, 3, Z, 4, Z, 5, Z, Z, Z},
         {6, Z, 7, Z, 8, Z, Z, Z, 9, Z, 10, Z, 11, Z, Z, Z}},
        {{0, Z, 1, Z, 2, Z, 3, Z, 4, Z, 5, Z, 6, Z, 7, Z},
         {8, Z, 9, Z, 10, Z, 11, Z, 12, Z, 13, Z, 14, Z, 15, Z}}};
    const uint8x16_t order = vld1q_u8(orders[channels - 3][half]);
    const int16x4_t w = weight_pair(weights);
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i++) {
        int16x8_t pixels = vreinterpretq_s16_u8(vqtbl1q_u8(bytes.v[i], order));
        sums.v[i] = vmlal_lane_s16(sums.v[i], vget_low_s16(pixels), w, 0);
        sums.v[i] = vmlal_high_lane_s16(sums.v[i], pixels, w, 1);
    }
    return sums;
}

INLINE struct sums add_eight_taps(struct sums sums, const uint8_t *const *src, size_t at,
                                  const int16_t *weights)
{
    const int16x8_t w = vld1q_s16(weights);
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i++) {
        int16x8_t samples = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(src[i] + at)));
        sums.v[i] = vmlal_s16(sums.v[i], vget_low_s16(samples), vget_low_s16(w));
        sums.v[i] = vmlal_high_s16(sums.v[i], samples, w);
    }
    return sums;
}

INLINE int32x4_t shifted_by(int32x4_t v, uint32_t precision)
{
    return vshlq_s32(v, vdupq_n_s32(-(int32_t)precision));
}
INLINE struct sums shifted(struct sums sums, uint32_t precision)
{
    return (struct sums){{shifted_by(sums.v[0], precision), shifted_by(sums.v[1], precision)}};
}

/* Returns 16 sums as bytes, clamped to 0..255. */
INLINE uint8x16_t clamped(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d)
{
    int16x8_t low = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b));
    int16x8_t high = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
    return vcombine_u8(vqmovun_s16(low), vqmovun_s16(high));
}

INLINE void store_pixels(uint8_t *const *dst, size_t at, const struct sums sums[4],
                         uint32_t channels)
{
    static const uint8_t without_fourth[16] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z};
    const uint8x16_t compress = vld1q_u8(without_fourth);
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i++) {
        uint8x16_t v = clamped(sums[0].v[i], sums[1].v[i], sums[2].v[i], sums[3].v[i]);
        vst1q_u8(dst[i] + at, channels == 3 ? vqtbl1q_u8(v, compress) : v);
    }
}

INLINE void store_samples(uint8_t *const *dst, size_t at, const struct sums sums[4],
                          uint32_t precision)
{
    const int32x4_t round = vdupq_n_s32(1 << (precision - 1));
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i++) {
        int32x4_t v = vpaddq_s32(vpaddq_s32(sums[0].v[i], sums[1].v[i]),
                                 vpaddq_s32(sums[2].v[i], sums[3].v[i]));
        v = shifted_by(vaddq_s32(v, round), precision);
        vst1q_u8(dst[i] + at, clamped(v, v, v, v));
    }
}

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

enum { COLUMNS = 32 };
struct columns {
    int32x4_t v[COLUMNS / 4];
};

INLINE struct columns set_columns(int32_t value)
{
    const int32x4_t v = vdupq_n_s32(value);
    return (struct columns){{v, v, v, v, v, v, v, v}};
}

/* Adds the products of 16 samples and one weight to 16 sums. It is a macro because the lane number
 * must be a constant. */
#define ADD_ROW(sums, row, weights, lane)                                                          \
    do {                                                                                           \
        uint8x16_t bytes = vld1q_u8(row);                                                          \
        int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));                       \
        int16x8_t high = vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(bytes)));                     \
        (sums)[0] = vmlal_lane_s16((sums)[0], vget_low_s16(low), weights, lane);                   \
        (sums)[1] = vmlal_high_lane_s16((sums)[1], low, weights, lane);                            \
        (sums)[2] = vmlal_lane_s16((sums)[2], vget_low_s16(high), weights, lane);                  \
        (sums)[3] = vmlal_high_lane_s16((sums)[3], high, weights, lane);                           \
    } while (0)

INLINE void add_two_rows(struct columns *sums, const uint8_t *a, const uint8_t *b,
                         const int16_t *weights)
{
    const int16x4_t w = weight_pair(weights);
    ADD_ROW(sums->v, a, w, 0);
    ADD_ROW(sums->v, b, w, 1);
    ADD_ROW(sums->v + 4, a + 16, w, 0);
    ADD_ROW(sums->v + 4, b + 16, w, 1);
}

INLINE void store_columns(uint8_t *to, const struct columns *sums, uint32_t precision)
{
    int32x4_t v[COLUMNS / 4];
#pragma GCC unroll 8
    for (int i = 0; i < COLUMNS / 4; i++)
        v[i] = shifted_by(sums->v[i], precision);
    vst1q_u8(to, clamped(v[0], v[1], v[2], v[3]));
    vst1q_u8(to + 16, clamped(v[4], v[5], v[6], v[7]));
}

/* Order of samples
 * ------------------------------------------------------------------------------------ */

#define BYTES uint8x16_t

INLINE uint8x16_t load_bytes(const uint8_t *p) { return vld1q_u8(p); }
INLINE void store_bytes(uint8_t *p, uint8x16_t v) { vst1q_u8(p, v); }
INLINE uint8x16_t shuffled(uint8x16_t v, uint8x16_t order) { return vqtbl1q_u8(v, order); }
INLINE void load_planes(const uint8_t *src, uint8x16_t v[3])
{
    uint8x16x3_t planes = vld3q_u8(src);
    v[0] = planes.val[0];
    v[1] = planes.val[1];
    v[2] = planes.val[2];
}

/* Conversion
 * ------------------------------------------------------------------------------------------ */

struct floats {
    float32x4_t low, high;
};
#define FLOATS struct floats
enum { N_FLOATS = 8 };

INLINE struct floats load_floats(const float *p)
{
    return (struct floats){vld1q_f32(p), vld1q_f32(p + 4)};
}

/* Multiplies, then adds, without fusing the two, so that both results are rounded. */
INLINE float32x4_t four_floats(uint16x4_t v, float32x4_t scale, float32x4_t offset)
{
    return vaddq_f32(vmulq_f32(vcvtq_f32_u32(vmovl_u16(v)), scale), offset);
}
INLINE struct floats scaled_half(uint8x8_t bytes, struct floats scale, struct floats offset)
{
    uint16x8_t v = vmovl_u8(bytes);
    return (struct floats){four_floats(vget_low_u16(v), scale.low, offset.low),
                           four_floats(vget_high_u16(v), scale.high, offset.high)};
}
INLINE struct floats scaled(const uint8_t *src, struct floats scale, struct floats offset)
{
    return scaled_half(vld1_u8(src), scale, offset);
}
INLINE struct floats scaled_part(uint8x16_t v, size_t at, struct floats scale, struct floats offset)
{
    return scaled_half(at == 0 ? vget_low_u8(v) : vget_high_u8(v), scale, offset);
}
INLINE void settle(void) {}

/* Stores bytes, because the slot may begin at any address. */
INLINE void store_f32(unsigned char *to, struct floats v, bool streams)
{
    (void)streams;
    vst1q_u8(to, vreinterpretq_u8_f32(v.low));
    vst1q_u8(to + 16, vreinterpretq_u8_f32(v.high));
}
INLINE void store_f16(unsigned char *to, struct floats v, bool streams)
{
    (void)streams;
    float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(v.low), v.high);
    vst1q_u8(to, vreinterpretq_u8_u16(vreinterpretq_u16_f16(halves)));
}

/* Converts floats to bf16, rounded to nearest even: takes the upper half of bits + 0x7fff + (lowest
 * bit that is kept). */
INLINE uint16x4_t bf16_of(float32x4_t value)
{
    uint32x4_t v = vreinterpretq_u32_f32(value);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(v, 16), vdupq_n_u32(1));
    return vshrn_n_u32(vaddq_u32(vaddq_u32(v, vdupq_n_u32(0x7fff)), odd), 16);
}
INLINE void store_bf16(unsigned char *to, struct floats v, bool streams)
{
    (void)streams;
    vst1q_u8(to, vreinterpretq_u8_u16(vcombine_u16(bf16_of(v.low), bf16_of(v.high))));
}

/* Colours
 * --------------------------------------------------------------------------------------------- */

struct mask {
    uint32x4_t low, high;
};
#define MASK struct mask

INLINE struct floats all(float value)
{
    return (struct floats){vdupq_n_f32(value), vdupq_n_f32(value)};
}
INLINE struct floats plus(struct floats a, struct floats b)
{
    return (struct floats){vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
INLINE struct floats minus(struct floats a, struct floats b)
{
    return (struct floats){vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
INLINE struct floats times(struct floats a, struct floats b)
{
    return (struct floats){vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
INLINE struct floats over(struct floats a, struct floats b)
{
    return (struct floats){vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
INLINE struct floats least(struct floats a, struct floats b)
{
    return (struct floats){vminq_f32(a.low, b.low), vminq_f32(a.high, b.high)};
}
INLINE struct floats greatest(struct floats a, struct floats b)
{
    return (struct floats){vmaxq_f32(a.low, b.low), vmaxq_f32(a.high, b.high)};
}
INLINE struct floats floored(struct floats v)
{
    return (struct floats){vrndmq_f32(v.low), vrndmq_f32(v.high)};
}
INLINE struct mask equal(struct floats a, struct floats b)
{
    return (struct mask){vceqq_f32(a.low, b.low), vceqq_f32(a.high, b.high)};
}
INLINE struct floats chosen(struct mask mask, struct floats a, struct floats b)
{
    return (struct floats){vbslq_f32(mask.low, a.low, b.low), vbslq_f32(mask.high, a.high, b.high)};
}

INLINE uint8x8_t eight_bytes_of(const float *from)
{
    uint16x4_t low = vmovn_u32(vcvtq_u32_f32(vld1q_f32(from)));
    uint16x4_t high = vmovn_u32(vcvtq_u32_f32(vld1q_f32(from + 4)));
    return vmovn_u16(vcombine_u16(low, high));
}
INLINE uint8x16_t bytes_of(const float *from)
{
    return vcombine_u8(eight_bytes_of(from), eight_bytes_of(from + 8));
}
INLINE void store_planes(uint8_t *to, const uint8x16_t v[3])
{
    const uint8x16x3_t planes = {{v[0], v[1], v[2]}};
    vst3q_u8(to, planes);
}

#include "augment/kernels/augment_kernels_template.h"
#endif
