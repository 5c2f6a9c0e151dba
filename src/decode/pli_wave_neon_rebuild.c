/* pli_wave_neon_rebuild.c - from tokens to samples with NEON: signs, predictions, filters.
 *
 * In: tokens with raw bits added, and the bits of the unit; out: rows of samples by step. Pure
 * functions, any thread. Bands are taken one after another; in most only one plane has lanes, and
 * the loop is made for its predictor. Samples are kept less 128 (pli_wave_neon.h): sums, averages
 * and the order of samples are what they were, and a filter, whose coefficients of samples sum up
 * to 32, gives the prediction less 128 too. A step takes 105 instructions, 30 more with taps and
 * 60 with filters, nearly all of vectors; of those of filters 24 or 32 multiply, of which a
 * Neoverse N1 starts one a cycle. */
#include "decode/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#include <stddef.h>
#include <string.h>

/* What goes from step to step, apart so that loops can hold it in registers. */
struct state {
    uint64_t sign_at; /* bit */
    v32 last;         /* samples of the step before */
};

/* Two planes share a band while one begins and the other ends; `front` has the lanes that began.
 * Offsets lead from a row of residuals to that of plane 0 and 1 at the same place. */
struct part {
    const struct psti_pli_wave_plane *plane;
    ptrdiff_t to_0, to_1;
    int8_t a, b; /* taps */
};

/* Coefficients: of L, U, UL, UR, UU, LL, and the taps of planes 0 and 1; then 255 where it is MED.
 */
enum { C_L, C_U, C_UL, C_UR, C_UU, C_LL, C_A, C_B, C_MED, N_COEFFICIENTS };

struct rebuild {
    struct psti_pli_wave_neon_memory *memory;
    const uint8_t *bits;
    struct state state;
    uint32_t last; /* column */
    uint32_t bands_per_plane;
    struct part front, rear;
    /* Bytes c of each half: of block column c in the half's row of blocks; 0..3 the front's blocks,
     * 4..7 the rear's. */
    v32 filters[N_COEFFICIENTS];
    bool any_med, any_taps;
};

enum kind { LEFT, UP, AVERAGE, MED, FILTERS };

static enum kind kind_of(const struct psti_pli_wave_plane *plane)
{
    return plane->predictor == PSTI_PLI_PREDICT_FILTERS ? FILTERS
                                                        : (enum kind)(plane->predictor - 1);
}

#define SIGNED(v) vreinterpretq_s8_u8(v)
#define UNSIGNED(v) vreinterpretq_u8_s8(v)

/* -- Residuals -- */

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
PSTI_NEON_INLINE uint8x16_t signs_of(uint64_t bits, int64x2_t skip, uint8x16_t counts,
                                     uint8x16_t some)
{
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(8));
    uint8x16_t own = vreinterpretq_u8_u64(vshlq_u64(vdupq_n_u64(bits), skip));
    own = vqtbl1q_u8(own, first); /* the eight that a half may need */
    /* The n-th lane wants bit n - 1, and gets it at the top by 8 - n. */
    int8x16_t to_top = SIGNED(vaddq_u8(counts, vdupq_n_u8(8)));
    return vandq_u8(vcltq_s8(SIGNED(vshlq_u8(own, to_top)), vdupq_n_s8(0)), some);
}

/* Residuals of step t, left in place of the magnitudes. */
PSTI_NEON_INLINE v32 residuals(const struct rebuild *r, struct state *x, uint32_t t)
{
    uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    v32 value = row_load(row), some;
    uint8x16_t counts[2];
    int64x2_t minus[2]; /* of whole halves */
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        some.v[i] = vtstq_u8(value.v[i], value.v[i]);
        counts[i] = minus_counts(some.v[i]);
        minus[i] = vshrq_n_s64(vreinterpretq_s64_u8(counts[i]), 56);
    }
    int64x2_t before = vextq_s64(vdupq_n_s64(0), minus[0], 1);
    int64x2_t of_16 = vdupq_laneq_s64(vaddq_s64(before, minus[0]), 1);
    int64x2_t before_1 = vaddq_s64(vextq_s64(vdupq_n_s64(0), minus[1], 1), of_16);
    uint64_t bits = psti_load_u64(r->bits + (x->sign_at >> 3)) >> (x->sign_at & 7);
    x->sign_at -= (uint64_t)vgetq_lane_s64(vaddq_s64(before_1, minus[1]), 1);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t negative = signs_of(bits, i == 0 ? before : before_1, counts[i], some.v[i]);
        value.v[i] = vsubq_u8(veorq_u8(value.v[i], negative), negative);
    }
    row_store(row, value);
    return value;
}

/* -- Neighbours and predictions -- */

/* The lane at column `last`, if one is. */
PSTI_NEON_INLINE v32 all_but_last(const struct rebuild *r, uint32_t t)
{
    uint32_t d = (t - r->last) & 63;
    return row_load(psti_pli_wave_neon_all_but_one + (d & 1 ? 32 : 31 - (d >> 1)));
}

struct near {
    v32 l, u, ul, ur, uu, ll;
};

/* Neighbours of each lane's sample (5.3). `first`: lane 0 is in row 0. */
PSTI_NEON_INLINE struct near neighbours(const struct rebuild *r, const struct state *x, uint32_t t,
                                        bool odd, bool first, bool filters)
{
    const uint8_t *own = r->memory->samples[WAVE_BEFORE + t];
    const uint8_t *above = r->memory->samples_above[WAVE_BEFORE + t];
    struct near n = {.l = x->last, .u = row_load(above - 64), .ul = row_load(above - 96)};
    v32 newest = all_but_newest(t);
    if (!odd) {
        n.l = pick(newest, n.l, n.u);
        n.ul = pick(newest, n.ul, n.u);
    }
    if (first) {
        n.u.v[0] = vsetq_lane_u8(vgetq_lane_u8(n.l.v[0], 0), n.u.v[0], 0);
        n.ul.v[0] = vsetq_lane_u8(vgetq_lane_u8(n.l.v[0], 0), n.ul.v[0], 0);
    }
    if (!filters)
        return n;
    n.ll = pick(newest, row_load(own - 64), n.l);
    n.ur = row_load(above - 32);
    n.uu = turn(row_load(above - 128));
    if (first) {
        n.ur.v[0] = vsetq_lane_u8(vgetq_lane_u8(n.l.v[0], 0), n.ur.v[0], 0);
        n.uu.v[0] = vsetq_lane_u8(vgetq_lane_u8(n.u.v[0], 0), n.uu.v[0], 0);
    }
    /* Lane 1 follows lane 0 into a band two steps later. */
    if ((((t - 2) >> 6) & (r->bands_per_plane - 1)) == 0)
        n.uu.v[0] = vsetq_lane_u8(vgetq_lane_u8(n.u.v[0], 1), n.uu.v[0], 1);
    n.ur = pick(all_but_last(r, t), n.ur, n.u);
    return n;
}

PSTI_NEON_INLINE v32 med(const struct near *n)
{
    v32 p;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        int8x16_t l = SIGNED(n->l.v[i]), u = SIGNED(n->u.v[i]), ul = SIGNED(n->ul.v[i]);
        int8x16_t low = vminq_s8(l, u), high = vmaxq_s8(l, u);
        int8x16_t middle = vmaxq_s8(low, vminq_s8(ul, high));
        p.v[i] = UNSIGNED(vsubq_s8(vaddq_s8(low, high), middle));
    }
    return p;
}

PSTI_NEON_INLINE v32 simple(enum kind kind, const struct near *n)
{
    if (kind == LEFT)
        return n->l;
    if (kind == UP)
        return n->u;
    if (kind == MED)
        return med(n);
    return (v32){{UNSIGNED(vhaddq_s8(SIGNED(n->l.v[0]), SIGNED(n->u.v[0]))),
                  UNSIGNED(vhaddq_s8(SIGNED(n->l.v[1]), SIGNED(n->u.v[1])))}};
}

/* Sums of products of bytes: lanes 0..7 and 8..15 of a vector. */
struct sums {
    int16x8_t low, high;
};

PSTI_NEON_INLINE struct sums products(uint8x16_t v, uint8x16_t k)
{
    return (struct sums){vmull_s8(vget_low_s8(SIGNED(v)), vget_low_s8(SIGNED(k))),
                         vmull_high_s8(SIGNED(v), SIGNED(k))};
}
PSTI_NEON_INLINE void add_products(struct sums *sums, uint8x16_t v, uint8x16_t k)
{
    sums->low = vmlal_s8(sums->low, vget_low_s8(SIGNED(v)), vget_low_s8(SIGNED(k)));
    sums->high = vmlal_high_s8(sums->high, SIGNED(v), SIGNED(k));
}

/* (a r0 + b r1 + 16) >> 5 modulo 256: what exceeds 16 bits is not in it. */
PSTI_NEON_INLINE v32 tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    const uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    const uint8x16_t a = vdupq_n_u8((uint8_t)p->a), b = vdupq_n_u8((uint8_t)p->b);
    v32 r0 = row_load(row + p->to_0), r1 = row_load(row + p->to_1), out;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        struct sums sums = products(r0.v[i], a);
        add_products(&sums, r1.v[i], b);
        out.v[i] = UNSIGNED(vcombine_s8(vrshrn_n_s16(sums.low, 5), vrshrn_n_s16(sums.high, 5)));
    }
    return out;
}

PSTI_NEON_INLINE void keep_samples(const struct rebuild *r, struct state *x, uint32_t t,
                                   v32 prediction, v32 residual)
{
    v32 sample = row_add(prediction, residual);
    x->last = sample;
    row_store(r->memory->samples[WAVE_BEFORE + t], sample);
    row_store(r->memory->samples_above[WAVE_BEFORE + t], turn(sample));
}

/* -- Bands of one plane without filters -- */

PSTI_NEON_INLINE void one_step(const struct rebuild *r, struct state *x, uint32_t t, bool odd,
                               enum kind kind, bool first, bool taps)
{
    v32 residual = residuals(r, x, t);
    if (taps)
        residual = row_add(residual, tapped(r, &r->front, t));
    struct near n = neighbours(r, x, t, odd, first, false);
    keep_samples(r, x, t, simple(kind, &n), residual);
}

PSTI_NEON_INLINE void one_band(struct rebuild *r, uint32_t t, uint32_t end, enum kind kind,
                               bool first, bool taps)
{
    struct state x = r->state;
    for (; t < end; t += 2) {
        one_step(r, &x, t, false, kind, first, taps);
        one_step(r, &x, t + 1, true, kind, first, taps);
    }
    r->state = x;
}

#define BAND(name, kind)                                                                           \
    static void name(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool taps)           \
    {                                                                                              \
        if (first && taps)                                                                         \
            one_band(r, t, end, kind, true, true);                                                 \
        else if (first)                                                                            \
            one_band(r, t, end, kind, true, false);                                                \
        else if (taps)                                                                             \
            one_band(r, t, end, kind, false, true);                                                \
        else                                                                                       \
            one_band(r, t, end, kind, false, false);                                               \
    }
BAND(left_band, LEFT)
BAND(up_band, UP)
BAND(average_band, AVERAGE)
BAND(med_band, MED)

/* -- Filters -- */

/* Coefficients of each lane, for two steps. */
struct lane_filters {
    v32 c[N_COEFFICIENTS];
};

PSTI_NEON_INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, struct lane_filters *f)
{
    v32 x = columns_of(t);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        /* Bits 4 and 5: the column of blocks; bit 6 or 7 of a negative x: the rear band. */
        uint8x16_t block = vandq_u8(vshrq_n_u8(x.v[i], 4), vdupq_n_u8(7));
#pragma GCC unroll 9
        for (int k = 0; k < N_COEFFICIENTS; k++)
            f->c[k].v[i] = vqtbl1q_u8(r->filters[k].v[i], block);
    }
}

PSTI_NEON_INLINE v32 filtered(const struct rebuild *r, const struct part *p,
                              const struct lane_filters *f, const struct near *n, uint32_t t)
{
    const uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    v32 out;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        struct sums sums = products(n->l.v[i], f->c[C_L].v[i]);
        add_products(&sums, n->u.v[i], f->c[C_U].v[i]);
        add_products(&sums, n->ul.v[i], f->c[C_UL].v[i]);
        add_products(&sums, n->ur.v[i], f->c[C_UR].v[i]);
        add_products(&sums, n->uu.v[i], f->c[C_UU].v[i]);
        add_products(&sums, n->ll.v[i], f->c[C_LL].v[i]);
        if (r->any_taps) {
            add_products(&sums, vld1q_u8(row + p->to_0 + 16 * i), f->c[C_A].v[i]);
            add_products(&sums, vld1q_u8(row + p->to_1 + 16 * i), f->c[C_B].v[i]);
        }
        out.v[i] = UNSIGNED(vcombine_s8(vqrshrn_n_s16(sums.low, 5), vqrshrn_n_s16(sums.high, 5)));
    }
    return r->any_med ? pick(f->c[C_MED], med(n), out) : out;
}

/* -- Bands of two planes, or with filters -- */

PSTI_NEON_INLINE v32 predict_part(const struct rebuild *r, const struct part *p,
                                  const struct lane_filters *f, const struct near *n, uint32_t t)
{
    enum kind kind = kind_of(p->plane);
    if (kind == FILTERS)
        return filtered(r, p, f, n, t);
    v32 v = kind == LEFT      ? simple(LEFT, n)
            : kind == UP      ? simple(UP, n)
            : kind == AVERAGE ? simple(AVERAGE, n)
                              : simple(MED, n);
    return row_add(v, tapped(r, p, t));
}

PSTI_NEON_INLINE void any_step(const struct rebuild *r, struct state *x,
                               const struct lane_filters *f, uint32_t t, bool odd, bool first,
                               bool mixed)
{
    v32 residual = residuals(r, x, t);
    struct near n = neighbours(r, x, t, odd, first, true);
    v32 p = predict_part(r, &r->front, f, &n, t);
    if (mixed)
        p = pick(front_lanes(t), p, predict_part(r, &r->rear, f, &n, t));
    keep_samples(r, x, t, p, residual);
}

PSTI_NEON_INLINE void any_band(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool mixed)
{
    struct lane_filters f;
    struct state x = r->state;
    for (; t < end; t += 2) {
        find_lane_filters(r, t, &f);
        any_step(r, &x, &f, t, false, first, mixed);
        any_step(r, &x, &f, t + 1, true, first, mixed);
    }
    r->state = x;
}

static void mixed_band(struct rebuild *r, uint32_t t, uint32_t end)
{
    any_band(r, t, end, true, true);
}
static void filters_band(struct rebuild *r, uint32_t t, uint32_t end, bool first)
{
    if (first)
        any_band(r, t, end, true, false);
    else
        any_band(r, t, end, false, false);
}

/* -- The unit -- */

static void open_part(const struct psti_pli_wave_neon_job *job, uint32_t band, struct part *p)
{
    const struct psti_pli_wave_head *head = job->head;
    *p = (struct part){.plane = NULL};
    if (band >= head->n_bands)
        return;
    uint32_t j = band / head->bands_per_plane;
    ptrdiff_t delay =
        64 * (ptrdiff_t)(head->bands_per_plane * sizeof(struct psti_pli_wave_neon_row));
    p->plane = head->planes + j;
    p->to_0 = p->plane->index0 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index0);
    p->to_1 = p->plane->index1 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index1);
    p->a = p->to_0 == 0 ? 0 : p->plane->a;
    p->b = p->to_1 == 0 ? 0 : p->plane->b;
}

/* Adds the filters of one band to the tables, `shift` bytes from the start of each half. */
static void add_filters(struct rebuild *r, const struct psti_pli_wave_neon_job *job,
                        const struct part *p, uint32_t band, uint32_t shift)
{
    if (!p->plane || p->plane->predictor != PSTI_PLI_PREDICT_FILTERS)
        return;
    uint8_t table[N_COEFFICIENTS][32];
    memset(table, 0, sizeof table);
    uint32_t columns = (job->unit->width + 15) / 16;
    uint32_t rows = (job->unit->height + 15) / 16;
    uint32_t first_row = 2 * (band % job->head->bands_per_plane);
    for (uint32_t half = 0; half < 2 && first_row + half < rows; half++) {
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t number = p->plane->filters[(first_row + half) * columns + c];
            uint32_t at = 16 * half + shift + c;
            if (number == 0) {
                table[C_MED][at] = 255;
                r->any_med = true;
                continue;
            }
            const struct psti_pli_filter *f = &psti_pli_filters[p->plane->list][number - 1];
            table[C_L][at] = (uint8_t)(32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4]);
            for (uint32_t k = 0; k < 5; k++)
                table[C_U + k][at] = (uint8_t)f->k[k];
            table[C_A][at] = p->to_0 == 0 ? 0 : (uint8_t)f->a;
            table[C_B][at] = p->to_1 == 0 ? 0 : (uint8_t)f->b;
            r->any_taps |= table[C_A][at] != 0 || table[C_B][at] != 0;
        }
    }
    for (uint32_t k = 0; k < N_COEFFICIENTS; k++)
        r->filters[k] = row_or(r->filters[k], row_load(table[k]));
}

static void rebuild_band(struct rebuild *r, const struct psti_pli_wave_neon_job *job, uint32_t k,
                         uint32_t t, uint32_t end)
{
    const struct psti_pli_wave_head *head = job->head;
    bool first = k < head->n_bands && k % head->bands_per_plane == 0;
    if (first) /* stands above lane 0 at (0, 0) */
        r->memory->samples_above[WAVE_BEFORE + t - 2][0] =
            (uint8_t)(head->planes[k / head->bands_per_plane].start ^ 0x80);
    open_part(job, k, &r->front);
    open_part(job, k - 1, &r->rear);
    for (uint32_t i = 0; i < N_COEFFICIENTS; i++)
        r->filters[i] = row_of(0);
    r->any_med = r->any_taps = false;
    add_filters(r, job, &r->front, k, 0);
    add_filters(r, job, &r->rear, k - 1, 4);
    if (r->front.plane && r->rear.plane && r->front.plane != r->rear.plane) {
        mixed_band(r, t, end);
        return;
    }
    if (!r->front.plane)
        r->front = r->rear;
    bool taps = r->front.a != 0 || r->front.b != 0;
    switch (kind_of(r->front.plane)) {
    case LEFT:
        left_band(r, t, end, first, taps);
        break;
    case UP:
        up_band(r, t, end, first, taps);
        break;
    case AVERAGE:
        average_band(r, t, end, first, taps);
        break;
    case MED:
        med_band(r, t, end, first, taps);
        break;
    default:
        filters_band(r, t, end, first);
    }
}

void psti_pli_wave_neon_rebuild(struct psti_pli_wave_neon_job *job)
{
    struct psti_pli_wave_neon_memory *m = job->memory;
    struct rebuild r = {.memory = m,
                        .bits = m->bits,
                        .state = {0, row_of(0)},
                        .last = job->unit->width - 1u,
                        .bands_per_plane = job->head->bands_per_plane};
    memset(m->samples, 0, WAVE_BEFORE * WAVE_LANES);
    memset(m->samples_above, 0, WAVE_BEFORE * WAVE_LANES);
    for (uint32_t t = 0; t < job->head->n_steps; t += 64) {
        uint32_t end = t + 64 < job->head->n_steps ? t + 64 : job->head->n_steps;
        rebuild_band(&r, job, t >> 6, t, end);
    }
}
#endif
