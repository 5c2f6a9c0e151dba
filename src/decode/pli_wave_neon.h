/* pli_wave_neon.h - inside the NEON level of the wave decoder: what its files tell each other. A
 * row of 32 bytes, one for each lane, is two vectors. */
#ifndef PST_DECODE_PLI_WAVE_NEON_H
#define PST_DECODE_PLI_WAVE_NEON_H

#include "decode/pli_wave_rows.h"

#include "base/bits.h"
#include "base/neon.h"

#if defined(PSTI_NEON)

/* pli_wave_neon_tokens.c */
void psti_pli_wave_neon_tokens(struct psti_pli_wave_job *job);
/* pli_wave_neon_rebuild.c, pli_wave_neon_rebuild16.c: tokens with raw bits, or residuals of 16
 * bits -> lines of samples. */
void psti_pli_wave_neon_rebuild(struct psti_pli_wave_job *job);
void psti_pli_wave_neon_rebuild16(struct psti_pli_wave_job *job);
/* pli_wave_neon_raw16.c: tokens -> residuals of 16 bits; returns how many bits that takes: if more
 * than `n_bits`, it was not done. */
uint64_t psti_pli_wave_neon_residuals16(struct psti_pli_wave_job *job, uint64_t n_bits);

/* Rows: lanes 0..15, 16..31. */
typedef struct {
    uint8x16_t v[2];
} v32;

PSTI_NEON_INLINE v32 row_load(const uint8_t *at)
{
    return (v32){{vld1q_u8(at), vld1q_u8(at + 16)}};
}
PSTI_NEON_INLINE void row_store(uint8_t *at, v32 v)
{
    vst1q_u8(at, v.v[0]);
    vst1q_u8(at + 16, v.v[1]);
}
PSTI_NEON_INLINE v32 row_of(uint8_t value) { return (v32){{vdupq_n_u8(value), vdupq_n_u8(value)}}; }
#define PSTI_WAVE_BOTH(name, call)                                                                 \
    PSTI_NEON_INLINE v32 name(v32 a, v32 b)                                                        \
    {                                                                                              \
        return (v32){{call(a.v[0], b.v[0]), call(a.v[1], b.v[1])}};                                \
    }
PSTI_WAVE_BOTH(row_add, vaddq_u8)
PSTI_WAVE_BOTH(row_add_saturated, vqaddq_u8)
PSTI_WAVE_BOTH(row_average_up, vrhaddq_u8)
PSTI_WAVE_BOTH(row_average_down, vhaddq_u8)
PSTI_WAVE_BOTH(row_and, vandq_u8)
PSTI_WAVE_BOTH(row_and_not, vbicq_u8)
PSTI_WAVE_BOTH(row_sub, vsubq_u8)

/* Lane l gets what lane l - 1 had, lane 0 what lane 31 had. */
PSTI_NEON_INLINE v32 turn(v32 v)
{
    return (v32){{vextq_u8(v.v[1], v.v[0], 15), vextq_u8(v.v[0], v.v[1], 15)}};
}
PSTI_NEON_INLINE v32 pick(v32 mask, v32 yes, v32 no)
{
    return (v32){{vbslq_u8(mask.v[0], yes.v[0], no.v[0]), vbslq_u8(mask.v[1], yes.v[1], no.v[1])}};
}
/* (t mod 64) - 2 l mod 256. */
PSTI_NEON_INLINE v32 columns_of(uint32_t t)
{
    return row_add(row_of((uint8_t)(t & 63)), row_load(psti_pli_wave_delay));
}

/* In each half, minus the number of bytes of `mask` (0 or 255) up to and including each. */
PSTI_NEON_INLINE uint8x16_t minus_counts(uint8x16_t mask)
{
#define UP(v, n) vreinterpretq_u8_u64(vshlq_n_u64(vreinterpretq_u64_u8(v), n))
    mask = vaddq_u8(mask, UP(mask, 8));
    mask = vaddq_u8(mask, UP(mask, 16));
    return vaddq_u8(mask, UP(mask, 32));
#undef UP
}

/* 255 in each lane of `some` for which the next sign is 1. `skip`: minus how many of `bits` belong
 * to lanes before each half; `counts`: of minus_counts. */
PSTI_NEON_INLINE uint8x16_t half_signs(uint64_t bits, int64x2_t skip, uint8x16_t counts,
                                       uint8x16_t some)
{
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(8));
    uint8x16_t own = vreinterpretq_u8_u64(vshlq_u64(vdupq_n_u64(bits), skip));
    own = vqtbl1q_u8(own, first); /* the eight that a half may need */
    /* The n-th lane wants bit n - 1, and gets it at the top by 8 - n. */
    int8x16_t to_top = vreinterpretq_s8_u8(vaddq_u8(counts, vdupq_n_u8(8)));
    return vandq_u8(vcltq_s8(vreinterpretq_s8_u8(vshlq_u8(own, to_top)), vdupq_n_s8(0)), some);
}

/* 255 in the lanes of `tokens`, those of them that are not 0, of which the next sign is 1. Signs
 * begin at bit `*at`, which goes on. */
PSTI_NEON_INLINE v32 take_signs(const uint8_t *bytes, uint64_t *at, v32 tokens)
{
    v32 some, negative;
    uint8x16_t counts[2];
    int64x2_t minus[2]; /* of whole halves */
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        some.v[i] = vtstq_u8(tokens.v[i], tokens.v[i]);
        counts[i] = minus_counts(some.v[i]);
        minus[i] = vshrq_n_s64(vreinterpretq_s64_u8(counts[i]), 56);
    }
    int64x2_t before = vextq_s64(vdupq_n_s64(0), minus[0], 1);
    int64x2_t of_16 = vdupq_laneq_s64(vaddq_s64(before, minus[0]), 1);
    int64x2_t before_1 = vaddq_s64(vextq_s64(vdupq_n_s64(0), minus[1], 1), of_16);
    uint64_t bits = psti_load_u64(bytes + (*at >> 3)) >> (*at & 7);
    *at -= (uint64_t)vgetq_lane_s64(vaddq_s64(before_1, minus[1]), 1);
    negative.v[0] = half_signs(bits, before, counts[0], some.v[0]);
    negative.v[1] = half_signs(bits, before_1, counts[1], some.v[1]);
    return negative;
}

#endif
#endif
