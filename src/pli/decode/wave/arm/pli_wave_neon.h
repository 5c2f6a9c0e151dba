/* pli_wave_neon.h - declarations that the files of the wave decoder's NEON level share. A row of 32
 * bytes, one for each lane, is two vectors. */
#ifndef PST_PLI_WAVE_NEON_H
#define PST_PLI_WAVE_NEON_H

#include "pli/decode/wave/pli_wave_common.h"

#include "base/bits.h"
#include "base/machine/neon.h"

#if defined(PSTI_NEON)

/* Decodes words to rows of activities of pairs (pli_wave_neon_tokens_u8.c). */
void psti_pli_wave_neon_tokens(struct psti_pli_wave_job *job);
/* Converts activities to residuals (pli_wave_neon_raw_u8.c). Returns the number of bits that this
 * takes. If it is more than `n_bits`, some residuals were not made. */
uint64_t psti_pli_wave_neon_residuals(struct psti_pli_wave_job *job, uint64_t n_bits);
/* Turns residuals into lines of samples (pli_wave_neon_rebuild_u8.c). */
void psti_pli_wave_neon_rebuild(struct psti_pli_wave_job *job);

/* A row: lanes 0..15, then lanes 16..31. */
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
PSTI_WAVE_BOTH(row_and, vandq_u8)
PSTI_WAVE_BOTH(row_or, vorrq_u8)
PSTI_WAVE_BOTH(row_or_not, vornq_u8)
PSTI_WAVE_BOTH(row_and_not, vbicq_u8)

/* Returns v rotated by one lane: lane l gets the value of lane l - 1, and lane 0 that of lane 31.
 */
PSTI_NEON_INLINE v32 turn(v32 v)
{
    return (v32){{vextq_u8(v.v[1], v.v[0], 15), vextq_u8(v.v[0], v.v[1], 15)}};
}
PSTI_NEON_INLINE v32 pick(v32 mask, v32 yes, v32 no)
{
    return (v32){{vbslq_u8(mask.v[0], yes.v[0], no.v[0]), vbslq_u8(mask.v[1], yes.v[1], no.v[1])}};
}
/* Returns ((t mod 64) - 2 l) mod 256 for each lane l. */
PSTI_NEON_INLINE v32 columns_of(uint32_t t)
{
    return row_add(row_of((uint8_t)(t & 63)), row_load(psti_pli_wave_delay));
}

/* Returns a mask of the lanes that have a sample in step t of samples. `in_front` is the mask of
 * lanes in the front band. */
PSTI_NEON_INLINE v32 active_lanes(uint8_t width, const struct psti_pli_wave_shape *shape,
                                  v32 in_front, uint32_t t)
{
    v32 rows = pick(in_front, row_load(shape->front->rows), row_load(shape->front[-1].rows));
    if (width == PSTI_PLI_WAVE_EDGE)
        return rows;
    v32 x = row_and(columns_of(t), row_of(63));
    uint8x16_t n = vdupq_n_u8(width);
    return row_and((v32){{vcgtq_u8(n, x.v[0]), vcgtq_u8(n, x.v[1])}}, rows);
}

/* Returns for each of 16 bytes the sum of the bytes up to and including it. A product makes the
 * sums within four bytes, which fit a byte. Then the totals of all groups of four before are
 * added. */
PSTI_NEON_INLINE uint8x16_t sums_of_fours_up_to(uint8x16_t v)
{
#define NONE 255, 255, 255, 255
    static const uint8_t fours[16] = {NONE, 3, 3, 3, 3, NONE, 11, 11, 11, 11};
    static const uint8_t eights[16] = {NONE, NONE, 7, 7, 7, 7, 7, 7, 7, 7};
#undef NONE
    v = vaddq_u8(v, vqtbl1q_u8(v, vld1q_u8(fours)));
    return vaddq_u8(v, vqtbl1q_u8(v, vld1q_u8(eights)));
}
PSTI_NEON_INLINE uint8x16_t sums_up_to(uint8x16_t v)
{
    uint32x4_t sums = vmulq_u32(vreinterpretq_u32_u8(v), vdupq_n_u32(0x01010101));
    return sums_of_fours_up_to(vreinterpretq_u8_u32(sums));
}
/* Returns for each byte the number of bytes up to and including it that are 255. All other bytes
 * must be 0. */
PSTI_NEON_INLINE uint8x16_t counts_up_to(uint8x16_t v)
{
    enum { ONE_255TH = 0xfbfcfdff }; /* 0x01010101 / 255 modulo 2^32 */
    uint32x4_t sums = vmulq_u32(vreinterpretq_u32_u8(v), vdupq_n_u32(ONE_255TH));
    return sums_of_fours_up_to(vreinterpretq_u8_u32(sums));
}

#endif
#endif
