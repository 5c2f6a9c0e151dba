/* simde_neon.h - NEON by emulation: SIMDe turns each intrinsic into what this machine has. What
 * SIMDe 0.7 lacks or has wrong is written out here.
 *
 * A test's file includes this, gives the functions of a file of kernels other names by macros, and
 * includes that file; pst_simde() in its CMakeLists.txt compiles it. */
#ifndef PST_TESTS_SIMDE_NEON_H
#define PST_TESTS_SIMDE_NEON_H

#define PST_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>

/* Intrinsics that SIMDe 0.7 lacks. */
#ifndef vmlal_high_lane_s16
#define vmlal_high_lane_s16(sum, a, v, lane) vmlal_lane_s16(sum, vget_high_s16(a), v, lane)
#endif
#ifndef vmull_high_n_s16
#define vmull_high_n_s16(a, n) vmull_n_s16(vget_high_s16(a), n)
#endif
#ifndef vmull_laneq_s16
#define vmull_laneq_s16(a, v, lane) vmull_n_s16(a, vgetq_lane_s16(v, lane))
#endif
#ifndef vmull_high_laneq_s16
#define vmull_high_laneq_s16(a, v, lane) vmull_n_s16(vget_high_s16(a), vgetq_lane_s16(v, lane))
#endif
#ifndef vmlal_laneq_s16
#define vmlal_laneq_s16(sum, a, v, lane) vmlal_n_s16(sum, a, vgetq_lane_s16(v, lane))
#endif
#ifndef vmlal_high_laneq_s16
#define vmlal_high_laneq_s16(sum, a, v, lane)                                                      \
    vmlal_n_s16(sum, vget_high_s16(a), vgetq_lane_s16(v, lane))
#endif
#ifndef vshll_high_n_s16
#define vshll_high_n_s16(v, n) vshll_n_s16(vget_high_s16(v), n)
#endif
#ifndef vqshlq_n_s16
#define vqshlq_n_s16(v, n) vqshlq_s16(v, vdupq_n_s16(n))
#endif

static inline simde_float32x4_t quotients(simde_float32x4_t a, simde_float32x4_t b)
{
    float over[4], under[4];
    simde_vst1q_f32(over, a);
    simde_vst1q_f32(under, b);
    for (int i = 0; i < 4; i++)
        over[i] /= under[i];
    return simde_vld1q_f32(over);
}
#undef vdivq_f32
#define vdivq_f32 quotients

/* Half-precision floats are passed as bits, because the kernels do not compute with them. */
#include <simde/x86/f16c.h>
#define float16x4_t simde_uint16x4_t
#define float16x8_t simde_uint16x8_t
static inline simde_uint16x4_t narrow_floats(simde_float32x4_t v)
{
    float in[4];
    simde_vst1q_f32(in, v);
    simde__m128i halves = simde_mm_cvtps_ph(simde_mm_loadu_ps(in), 0); /* rounds to nearest even */
    uint16_t out[8];
    simde_mm_storeu_si128((simde__m128i *)(void *)out, halves);
    return simde_vld1_u16(out);
}
#undef vcvt_f16_f32
#define vcvt_f16_f32 narrow_floats
#undef vcvt_high_f16_f32
#define vcvt_high_f16_f32(low, v) simde_vcombine_u16(low, narrow_floats(v))
#undef vreinterpretq_u16_f16
#define vreinterpretq_u16_f16(v) (v)

#endif
