/* pli_wave_neon_rebuild_u16.c - from residuals to samples of 16 bits with NEON: predictions,
 * filters.
 *
 * In: rows of residuals; out: lines of samples. What other levels and sizes have, too, is in
 * pli_wave_rebuild_template.h. Pure functions, any thread. On the way samples are less 32768: as
 * signed numbers they can be multiplied, and as the coefficients of a filter make 32 with that of
 * L, the sum is that of the samples less 32 * 32768, whose clamp to 16 bits is that of narrowing.
 * Sums are of 32 bits, as the law wants. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include <string.h>

#define TARGET
#define INLINE PSTI_NEON_INLINE

#define UNSIGNED(v) vreinterpretq_u16_s16(v)

enum { EIGHTS = WAVE_LANES / 8 };

typedef struct {
    int16x8_t v[EIGHTS];
} vec;

struct taps {
    int16_t a, b;
};
INLINE struct taps taps_of(int a, int b) { return (struct taps){(int16_t)a, (int16_t)b}; }

/* Coefficients of each lane, for two steps. */
struct lane_filters {
    vec c[9];
};

INLINE vec blend(vec no, vec yes, vec mask)
{
    vec out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++)
        out.v[i] = vbslq_s16(UNSIGNED(mask.v[i]), yes.v[i], no.v[i]);
    return out;
}
/* Lane l gets what lane l - 1 had, lane 0 what lane 31 had. */
INLINE vec turned(vec v)
{
    return (vec){{vextq_s16(v.v[3], v.v[0], 7), vextq_s16(v.v[0], v.v[1], 7),
                  vextq_s16(v.v[1], v.v[2], 7), vextq_s16(v.v[2], v.v[3], 7)}};
}
INLINE vec plus(vec a, vec b)
{
    vec out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++)
        out.v[i] = vaddq_s16(a.v[i], b.v[i]);
    return out;
}
INLINE vec med_of(vec l, vec u, vec ul)
{
    vec out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++) {
        int16x8_t low = vminq_s16(l.v[i], u.v[i]), high = vmaxq_s16(l.v[i], u.v[i]);
        int16x8_t middle = vmaxq_s16(low, vminq_s16(ul.v[i], high));
        out.v[i] = vsubq_s16(vaddq_s16(low, high), middle);
    }
    return out;
}
INLINE vec average_of(vec l, vec u)
{
    vec out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++)
        out.v[i] = vhaddq_s16(l.v[i], u.v[i]);
    return out;
}
/* Signed bytes. */
INLINE vec widened(v32 bytes)
{
    int8x16_t a = vreinterpretq_s8_u8(bytes.v[0]), b = vreinterpretq_s8_u8(bytes.v[1]);
    return (vec){{vmovl_s8(vget_low_s8(a)), vmovl_s8(vget_high_s8(a)), vmovl_s8(vget_low_s8(b)),
                  vmovl_s8(vget_high_s8(b))}};
}
INLINE vec mask_of(const uint8_t *bytes) { return widened(row_load(bytes)); }
INLINE vec first_two(vec v, vec from, bool lane_0, bool lane_1)
{
    if (lane_0)
        v.v[0] = vsetq_lane_s16(vgetq_lane_s16(from.v[0], 0), v.v[0], 0);
    if (lane_1)
        v.v[0] = vsetq_lane_s16(vgetq_lane_s16(from.v[0], 1), v.v[0], 1);
    return v;
}

INLINE vec vec_load(const int16_t *at)
{
    return (vec){{vld1q_s16(at), vld1q_s16(at + 8), vld1q_s16(at + 16), vld1q_s16(at + 24)}};
}
INLINE void vec_store(int16_t *at, vec v)
{
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++)
        vst1q_s16(at + 8 * i, v.v[i]);
}
#define BITS 16
#define LESS 0x8000
#include "pli/decode/wave/pli_wave_rebuild_template.h"

/* -- Residuals and taps -- */

/* Of step t, `offset` bytes further on. */
INLINE vec residual_row(const struct psti_pli_wave_memory *m, uint32_t t, ptrdiff_t offset)
{
    const uint8_t *row = (const uint8_t *)(m->tokens + WAVE_BEFORE + t) + offset;
    vec out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++)
        out.v[i] = vreinterpretq_s16_u8(vld1q_u8(row + 16 * i));
    return out;
}

INLINE vec residuals(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return residual_row(m, t, 0);
}

/* (a r0 + b r1 + 16) >> 5 modulo 2^16. */
INLINE vec tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    vec r0 = residual_row(r->memory, t, p->to_0), r1 = residual_row(r->memory, t, p->to_1), out;
    const int16x8_t a = vdupq_n_s16(p->taps.a), b = vdupq_n_s16(p->taps.b);
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++) {
        int32x4_t low = vmull_s16(vget_low_s16(r0.v[i]), vget_low_s16(a));
        int32x4_t high = vmull_high_s16(r0.v[i], a);
        low = vmlal_s16(low, vget_low_s16(r1.v[i]), vget_low_s16(b));
        high = vmlal_high_s16(high, r1.v[i], b);
        out.v[i] = vcombine_s16(vrshrn_n_s32(low, 5), vrshrn_n_s32(high, 5));
    }
    return out;
}

INLINE vec tapped_either(const struct rebuild *r, uint32_t t, vec in_front)
{
    return blend(tapped(r, &r->rear, t), tapped(r, &r->front, t), in_front);
}

/* -- Filters -- */

INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, bool taps,
                              struct lane_filters *f)
{
    v32 x = columns_of(t), block;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) /* bits 4 and 5: the column of blocks; 6 or 7: the rear band */
        block.v[i] = vandq_u8(vshrq_n_u8(x.v[i], 4), vdupq_n_u8(7));
#pragma GCC unroll 9
    for (int k = 0; k < N_COEFFICIENTS; k++) {
        if (!taps && (k == C_A || k == C_B))
            continue;
        f->c[k] = widened((v32){{vqtbl1q_u8(vld1q_u8(r->filters[k]), block.v[0]),
                                 vqtbl1q_u8(vld1q_u8(r->filters[k] + 16), block.v[1])}});
    }
}

/* Sums of products: lanes 0..3 and 4..7 of a vector. */
struct sums {
    int32x4_t low, high;
};

INLINE void add_products(struct sums *sums, int16x8_t v, int16x8_t k)
{
    sums->low = vmlal_s16(sums->low, vget_low_s16(v), vget_low_s16(k));
    sums->high = vmlal_high_s16(sums->high, v, k);
}

INLINE vec filtered(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                    const struct near *n, uint32_t t, bool taps)
{
    vec r0 = residual_row(r->memory, t, p->to_0), r1 = residual_row(r->memory, t, p->to_1), out;
#pragma GCC unroll 4
    for (int i = 0; i < EIGHTS; i++) {
        int16x8_t l = n->l.v[i], k = f->c[C_L].v[i];
        struct sums sums = {vmull_s16(vget_low_s16(l), vget_low_s16(k)), vmull_high_s16(l, k)};
        add_products(&sums, n->u.v[i], f->c[C_U].v[i]);
        add_products(&sums, n->ul.v[i], f->c[C_UL].v[i]);
        add_products(&sums, n->ur.v[i], f->c[C_UR].v[i]);
        add_products(&sums, n->uu.v[i], f->c[C_UU].v[i]);
        add_products(&sums, n->ll.v[i], f->c[C_LL].v[i]);
        if (taps) {
            add_products(&sums, r0.v[i], f->c[C_A].v[i]);
            add_products(&sums, r1.v[i], f->c[C_B].v[i]);
        }
        out.v[i] = vcombine_s16(vqrshrn_n_s32(sums.low, 5), vqrshrn_n_s32(sums.high, 5));
    }
    return r->any_med ? blend(out, simple(MED, n), f->c[C_MED]) : out;
}

/* -- From rows of lanes to lines of samples -- */

INLINE void interleave(const uint16x8_t *in, uint16x8_t *out)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[2 * i] = vzip1q_u16(in[i], in[i + 4]);
        out[2 * i + 1] = vzip2q_u16(in[i], in[i + 4]);
    }
}

/* 8 lanes of 8 steps: interleaving rows i and i + 4 three times turns 8 x 8 samples around. */
INLINE void turn_8(const int16_t (*rows)[WAVE_LANES], uint16_t *lines)
{
    uint16x8_t a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = veorq_u16(UNSIGNED(vld1q_s16(rows[i])), vdupq_n_u16(LESS));
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        vst1q_u16(lines + i * WAVE_LINE, b[i]);
}

INLINE void end_band(struct psti_pli_wave_memory *m, uint32_t t, uint32_t end)
{
    for (; t < end; t += 8)
        for (uint32_t l = 0; l < WAVE_LANES; l += 8)
            turn_8((const int16_t(*)[WAVE_LANES])(m->of_16.samples[t % WAVE_BAND] + l),
                   m->of_16.lines + (size_t)l * WAVE_LINE + t);
}

/* -- The unit -- */

void psti_pli_wave_neon_rebuild16(struct psti_pli_wave_job *job)
{
    struct psti_pli_wave_memory *m = job->memory;
    memset(m->of_16.samples, 0, sizeof m->of_16.samples);
    rebuild_unit(job);
}
#endif
