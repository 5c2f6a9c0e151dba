/* pli_wave_neon_rebuild_u8.c - turns residuals into samples of 8 bits with NEON, by predictors and
 * filters.
 *
 * It converts rows of residuals to lines of samples. pli_wave_rebuild_template.h has the code
 * that is common to other levels and sizes. The functions are pure; any thread may call them.
 * Samples are stored less 128, as signed bytes, because these can be multiplied by coefficients.
 * This changes neither sums, averages nor the order of samples. The coefficients of a filter's
 * samples sum up to 32, so that its prediction is less by 128, too. A step takes 65 instructions,
 * 24 more with taps, and 90 more with filters (125 if those have taps). Of the instructions of
 * filters 24 or 32 multiply; a Neoverse N1 starts one of these a cycle. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include <string.h>

#define TARGET
#define INLINE PSTI_NEON_INLINE

#define SIGNED(v) vreinterpretq_s8_u8(v)
#define UNSIGNED(v) vreinterpretq_u8_s8(v)

typedef v32 vec;

struct taps {
    uint8x16_t a, b;
};
INLINE struct taps taps_of(int a, int b)
{
    return (struct taps){vdupq_n_u8((uint8_t)a), vdupq_n_u8((uint8_t)b)};
}

/* The coefficients of each lane, for two steps. */
struct lane_filters {
    v32 c[9];
};

INLINE vec vec_load(const uint8_t *at) { return row_load(at); }
INLINE void vec_store(uint8_t *at, vec v) { row_store(at, v); }
INLINE vec blend(vec no, vec yes, vec mask) { return pick(mask, yes, no); }
INLINE vec turned(vec v) { return turn(v); }
INLINE vec plus(vec a, vec b) { return row_add(a, b); }
INLINE uint8x16_t med_of_half(int8x16_t l, int8x16_t u, int8x16_t ul)
{
    int8x16_t low = vminq_s8(l, u), high = vmaxq_s8(l, u);
    int8x16_t middle = vmaxq_s8(low, vminq_s8(ul, high));
    return UNSIGNED(vsubq_s8(vaddq_s8(low, high), middle));
}
INLINE vec med_of(vec l, vec u, vec ul)
{
    return (vec){{med_of_half(SIGNED(l.v[0]), SIGNED(u.v[0]), SIGNED(ul.v[0])),
                  med_of_half(SIGNED(l.v[1]), SIGNED(u.v[1]), SIGNED(ul.v[1]))}};
}
INLINE vec average_of(vec l, vec u)
{
    return (vec){{UNSIGNED(vhaddq_s8(SIGNED(l.v[0]), SIGNED(u.v[0]))),
                  UNSIGNED(vhaddq_s8(SIGNED(l.v[1]), SIGNED(u.v[1])))}};
}
INLINE vec mask_of(const uint8_t *bytes) { return row_load(bytes); }
INLINE vec first_two(vec v, vec from, bool lane_0, bool lane_1)
{
    if (lane_0)
        v.v[0] = vsetq_lane_u8(vgetq_lane_u8(from.v[0], 0), v.v[0], 0);
    if (lane_1)
        v.v[0] = vsetq_lane_u8(vgetq_lane_u8(from.v[0], 1), v.v[0], 1);
    return v;
}

#define BITS 8
#define LESS 0x80
#include "pli/decode/wave/pli_wave_rebuild_template.h"

/* -- Residuals and the terms of taps -- */

INLINE const uint8_t *residual_row(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return m->tokens[WAVE_BEFORE + t / 2].residuals[t % 2];
}
INLINE vec residuals(const struct psti_pli_wave_memory *m, uint32_t t)
{
    return row_load(residual_row(m, t));
}

/* Sums of products of bytes, for lanes 0..7 and 8..15 of a vector. */
struct sums {
    int16x8_t low, high;
};

INLINE struct sums products(uint8x16_t v, uint8x16_t k)
{
    return (struct sums){vmull_s8(vget_low_s8(SIGNED(v)), vget_low_s8(SIGNED(k))),
                         vmull_high_s8(SIGNED(v), SIGNED(k))};
}
INLINE void add_products(struct sums *sums, uint8x16_t v, uint8x16_t k)
{
    sums->low = vmlal_s8(sums->low, vget_low_s8(SIGNED(v)), vget_low_s8(SIGNED(k)));
    sums->high = vmlal_high_s8(sums->high, SIGNED(v), SIGNED(k));
}

/* Returns (a r0 + b r1 + 16) >> 5 modulo 256. Bits of the sum above 16 do not matter. */
INLINE vec tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    const uint8_t *row = residual_row(r->memory, t);
    v32 r0 = row_load(row + p->to_0), r1 = row_load(row + p->to_1), out;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        struct sums sums = products(r0.v[i], p->taps.a);
        add_products(&sums, r1.v[i], p->taps.b);
        out.v[i] = UNSIGNED(vcombine_s8(vrshrn_n_s16(sums.low, 5), vrshrn_n_s16(sums.high, 5)));
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
    v32 x = columns_of(t);
    (void)taps; /* filters without taps have no shorter code, because taps add hardly any time */
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        /* Bits 4 and 5 of x are the column of blocks. If x is negative, bit 6 or 7 is set, and the
         * lane is in the rear band. */
        uint8x16_t block = vandq_u8(vshrq_n_u8(x.v[i], 4), vdupq_n_u8(7));
#pragma GCC unroll 9
        for (int k = 0; k < N_COEFFICIENTS; k++)
            f->c[k].v[i] = vqtbl1q_u8(vld1q_u8(r->filters[k] + 16 * i), block);
    }
}

INLINE vec filtered(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                    const struct near *n, uint32_t t, bool taps)
{
    const uint8_t *row = residual_row(r->memory, t);
    v32 out;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        struct sums sums = products(n->l.v[i], f->c[C_L].v[i]);
        add_products(&sums, n->u.v[i], f->c[C_U].v[i]);
        add_products(&sums, n->ul.v[i], f->c[C_UL].v[i]);
        add_products(&sums, n->ur.v[i], f->c[C_UR].v[i]);
        add_products(&sums, n->uu.v[i], f->c[C_UU].v[i]);
        add_products(&sums, n->ll.v[i], f->c[C_LL].v[i]);
        if (taps) {
            add_products(&sums, vld1q_u8(row + p->to_0 + 16 * i), f->c[C_A].v[i]);
            add_products(&sums, vld1q_u8(row + p->to_1 + 16 * i), f->c[C_B].v[i]);
        }
        out.v[i] = UNSIGNED(vcombine_s8(vqrshrn_n_s16(sums.low, 5), vqrshrn_n_s16(sums.high, 5)));
    }
    return r->any_med ? blend(out, simple(MED, n), f->c[C_MED]) : out;
}

/* -- Transposition of rows of lanes to lines of samples -- */

INLINE void interleave(const uint8x16_t *in, uint8x16_t *out)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        out[2 * i] = vzip1q_u8(in[i], in[i + 8]);
        out[2 * i + 1] = vzip2q_u8(in[i], in[i + 8]);
    }
}

/* Transposes 16 lanes of 16 steps to lines. Interleaving rows i and i + 8 four times transposes 16
 * x 16 bytes. */
INLINE void turn_16(const uint8_t (*rows)[WAVE_LANES], uint32_t lane, uint8_t *lines)
{
    const uint8x16_t top = vdupq_n_u8(LESS);
    uint8x16_t a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = veorq_u8(vld1q_u8(rows[i] + lane), top);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        vst1q_u8(lines + (i + lane) * WAVE_LINE, a[i]);
}

INLINE void end_band(struct psti_pli_wave_memory *m, uint32_t t, uint32_t end)
{
    for (; t < end; t += 16)
        for (uint32_t lane = 0; lane < WAVE_LANES; lane += 16)
            turn_16((const uint8_t(*)[WAVE_LANES])m->of_u8.samples + WAVE_BEFORE + t, lane,
                    m->of_u8.lines + t);
}

/* -- A whole unit -- */

void psti_pli_wave_neon_rebuild(struct psti_pli_wave_job *job)
{
    struct psti_pli_wave_memory *m = job->memory;
    memset(m->of_u8.samples, 0, WAVE_BEFORE * WAVE_LANES);
    rebuild_unit(job);
}
#endif
