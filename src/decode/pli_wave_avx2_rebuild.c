/* pli_wave_avx2_rebuild.c - from tokens to samples with AVX2: signs, predictions, filters.
 *
 * In: tokens with raw bits added, the masks of lanes that have signs, and the bits of the unit;
 * out: rows of samples by step. Pure functions, any thread. Bands are taken one after another; in
 * most only one plane has lanes, and the loop is made for its predictor. */
#include "decode/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

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
    v32 a, b; /* taps, as bytes */
};

struct filter_bytes {
    /* Of L, U, UL, UR, UU, LL, and the taps of planes 0 and 1; then 255 where it is MED. Byte c of
     * each half: of block column c in the half's row of blocks. */
    v32 c[9];
};

struct rebuild {
    struct psti_pli_wave_memory *memory;
    const uint8_t *bits;
    struct state state;
    uint32_t last; /* column */
    uint32_t bands_per_plane;
    struct part front, rear;
    struct filter_bytes filters; /* bytes 0..3: of the front's blocks, 4..7: the rear's */
    bool any_med;
};

enum kind { LEFT, UP, AVERAGE, MED, FILTERS };

static enum kind kind_of(const struct psti_pli_wave_plane *plane)
{
    return plane->predictor == PSTI_PLI_PREDICT_FILTERS ? FILTERS
                                                        : (enum kind)(plane->predictor - 1);
}

/* Residuals of step t, left in place of the magnitudes. */
INLINE v32 residuals(const struct rebuild *r, struct state *x, uint32_t t)
{
    uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    v32 value = row_load(row);
    uint32_t lanes =
        ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(value, _mm256_setzero_si256()));
    uint64_t bits = psti_load_u64(r->bits + (x->sign_at >> 3)) >> (x->sign_at & 7);
    uint32_t negative = _pdep_u32((uint32_t)bits, lanes);
    x->sign_at += (uint32_t)_mm_popcnt_u32(lanes);
    const v32 byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const v32 bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    v32 mask = _mm256_shuffle_epi8(_mm256_set1_epi32((int)negative), byte);
    mask = _mm256_cmpeq_epi8(_mm256_and_si256(mask, bit), bit);
    value = _mm256_sign_epi8(value, _mm256_or_si256(mask, _mm256_set1_epi8(1)));
    row_store(row, value);
    return value;
}

/* The lane at column `last`, if one is. */
INLINE v32 all_but_last(const struct rebuild *r, uint32_t t)
{
    uint32_t d = (t - r->last) & 63;
    return row_load(psti_pli_wave_all_but_one + (d & 1 ? 32 : 31 - (d >> 1)));
}

struct near {
    v32 l, u, ul, ur, uu, ll;
};

/* Neighbours of each lane's sample (5.3). `first`: lane 0 is in row 0. */
INLINE struct near neighbours(const struct rebuild *r, const struct state *x, uint32_t t, bool odd,
                              bool first, bool filters)
{
    const uint8_t *own = r->memory->samples[WAVE_BEFORE + t];
    const uint8_t *above = r->memory->samples_above[WAVE_BEFORE + t];
    struct near n = {.l = x->last, .u = row_load(above - 64), .ul = row_load(above - 96)};
    v32 newest = all_but_newest(t);
    if (!odd) {
        n.l = _mm256_blendv_epi8(n.u, n.l, newest);
        n.ul = _mm256_blendv_epi8(n.u, n.ul, newest);
    }
    const v32 lane_0 = _mm256_setr_epi32(0xff, 0, 0, 0, 0, 0, 0, 0);
    if (first) {
        n.u = _mm256_blendv_epi8(n.u, n.l, lane_0);
        n.ul = _mm256_blendv_epi8(n.ul, n.l, lane_0);
    }
    if (!filters)
        return n;
    n.ll = _mm256_blendv_epi8(n.l, row_load(own - 64), newest);
    n.ur = row_load(above - 32);
    n.uu = turn(row_load(above - 128));
    if (first)
        n.ur = _mm256_blendv_epi8(n.ur, n.l, lane_0);
    /* Lane 1 follows lane 0 into a band two steps later. */
    bool first_1 = (((t - 2) >> 6) & (r->bands_per_plane - 1)) == 0;
    static const uint32_t rows_01[4] = {0, 0xff, 0xff00, 0xffff};
    v32 in_rows_01 = _mm256_zextsi128_si256(
        _mm_cvtsi32_si128((int)rows_01[(first ? 1 : 0) + (first_1 ? 2 : 0)]));
    n.uu = _mm256_blendv_epi8(n.uu, n.u, in_rows_01);
    n.ur = _mm256_blendv_epi8(n.u, n.ur, all_but_last(r, t));
    return n;
}

INLINE v32 med(const struct near *n)
{
    v32 low = _mm256_min_epu8(n->l, n->u), high = _mm256_max_epu8(n->l, n->u);
    v32 middle = _mm256_max_epu8(low, _mm256_min_epu8(n->ul, high));
    return _mm256_sub_epi8(_mm256_add_epi8(low, high), middle);
}

INLINE v32 simple(enum kind kind, const struct near *n)
{
    if (kind == LEFT)
        return n->l;
    if (kind == UP)
        return n->u;
    if (kind == MED)
        return med(n);
    v32 odd = _mm256_and_si256(_mm256_xor_si256(n->l, n->u), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(n->l, n->u), odd);
}

/* Products with taps, 16 bits: of the lanes that unpacking puts low and high. Residuals are made
 * unsigned by adding 128, which the last sum takes back; nothing saturates as |a| + |b| <= 128. */
struct words {
    v32 low, high;
};

INLINE struct words tap_words(v32 r0, v32 r1, v32 a, v32 b)
{
    const v32 top = _mm256_set1_epi8((char)0x80), half = _mm256_set1_epi16(16);
    v32 low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    r0 = _mm256_xor_si256(r0, top);
    r1 = _mm256_xor_si256(r1, top);
    struct words w = {_mm256_maddubs_epi16(_mm256_unpacklo_epi8(r0, r1), low),
                      _mm256_maddubs_epi16(_mm256_unpackhi_epi8(r0, r1), high)};
    w.low = _mm256_add_epi16(w.low, _mm256_sub_epi16(half, _mm256_maddubs_epi16(top, low)));
    w.high = _mm256_add_epi16(w.high, _mm256_sub_epi16(half, _mm256_maddubs_epi16(top, high)));
    return w;
}

/* (a r0 + b r1 + 16) >> 5 modulo 256. */
INLINE v32 tap_bytes(v32 r0, v32 r1, v32 a, v32 b)
{
    const v32 byte = _mm256_set1_epi16(255);
    struct words w = tap_words(r0, r1, a, b);
    return _mm256_packus_epi16(_mm256_and_si256(_mm256_srai_epi16(w.low, 5), byte),
                               _mm256_and_si256(_mm256_srai_epi16(w.high, 5), byte));
}

INLINE v32 tapped(const struct rebuild *r, const struct part *p, uint32_t t)
{
    const uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    return tap_bytes(row_load(row + p->to_0), row_load(row + p->to_1), p->a, p->b);
}

INLINE void finish(const struct rebuild *r, struct state *x, uint32_t t, v32 prediction,
                   v32 residual)
{
    v32 sample = _mm256_add_epi8(prediction, residual);
    x->last = sample;
    row_store(r->memory->samples[WAVE_BEFORE + t], sample);
    row_store(r->memory->samples_above[WAVE_BEFORE + t], turn(sample));
}

/* -- Bands of one plane without filters -- */

INLINE void one_step(const struct rebuild *r, struct state *x, uint32_t t, bool odd, enum kind kind,
                     bool first, bool taps)
{
    v32 residual = residuals(r, x, t);
    if (taps)
        residual = _mm256_add_epi8(residual, tapped(r, &r->front, t));
    struct near n = neighbours(r, x, t, odd, first, false);
    finish(r, x, t, simple(kind, &n), residual);
}

INLINE void one_band(struct rebuild *r, uint32_t t, uint32_t end, enum kind kind, bool first,
                     bool taps)
{
    struct state x = r->state;
    for (; t < end; t += 2) {
        one_step(r, &x, t, false, kind, first, taps);
        one_step(r, &x, t + 1, true, kind, first, taps);
    }
    r->state = x;
}

#define BAND(name, kind)                                                                           \
    static void TARGET name(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool taps)    \
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

/* Coefficients of each lane, in pairs of bytes, for two steps. */
struct lane_filters {
    v32 l_u[2], ul_ur[2], uu_ll[2], a, b, med;
};

INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, struct lane_filters *f)
{
    const v32 minus_2l = _mm256_setr_epi8(0, -2, -4, -6, -8, -10, -12, -14, -16, -18, -20, -22, -24,
                                          -26, -28, -30, -32, -34, -36, -38, -40, -42, -44, -46,
                                          -48, -50, -52, -54, -56, -58, -60, -62);
    v32 x = _mm256_add_epi8(_mm256_set1_epi8((char)(t & 63)), minus_2l);
    /* Bits 4 and 5: the column of blocks; bit 6 or 7 of a negative x: the rear band. */
    v32 block = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(7));
    v32 c[9];
    for (int k = 0; k < 9; k++)
        c[k] = _mm256_shuffle_epi8(r->filters.c[k], block);
    f->l_u[0] = _mm256_unpacklo_epi8(c[0], c[1]);
    f->l_u[1] = _mm256_unpackhi_epi8(c[0], c[1]);
    f->ul_ur[0] = _mm256_unpacklo_epi8(c[2], c[3]);
    f->ul_ur[1] = _mm256_unpackhi_epi8(c[2], c[3]);
    f->uu_ll[0] = _mm256_unpacklo_epi8(c[4], c[5]);
    f->uu_ll[1] = _mm256_unpackhi_epi8(c[4], c[5]);
    f->a = c[6];
    f->b = c[7];
    f->med = c[8];
}

INLINE v32 filtered(const struct rebuild *r, const struct lane_filters *f, const struct near *n,
                    v32 r0, v32 r1)
{
    struct words w = tap_words(r0, r1, f->a, f->b);
    v32 x[2] = {w.low, w.high};
    x[0] =
        _mm256_add_epi16(x[0], _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->l, n->u), f->l_u[0]));
    x[1] =
        _mm256_add_epi16(x[1], _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->l, n->u), f->l_u[1]));
    x[0] = _mm256_add_epi16(x[0],
                            _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->ul, n->ur), f->ul_ur[0]));
    x[1] = _mm256_add_epi16(x[1],
                            _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->ul, n->ur), f->ul_ur[1]));
    x[0] = _mm256_add_epi16(x[0],
                            _mm256_maddubs_epi16(_mm256_unpacklo_epi8(n->uu, n->ll), f->uu_ll[0]));
    x[1] = _mm256_add_epi16(x[1],
                            _mm256_maddubs_epi16(_mm256_unpackhi_epi8(n->uu, n->ll), f->uu_ll[1]));
    v32 p = _mm256_packus_epi16(_mm256_srai_epi16(x[0], 5), _mm256_srai_epi16(x[1], 5));
    return r->any_med ? _mm256_blendv_epi8(p, med(n), f->med) : p;
}

/* -- Bands of two planes, or with filters -- */

INLINE v32 predict_part(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                        const struct near *n, uint32_t t)
{
    enum kind kind = kind_of(p->plane);
    if (kind != FILTERS) {
        v32 v = kind == LEFT      ? simple(LEFT, n)
                : kind == UP      ? simple(UP, n)
                : kind == AVERAGE ? simple(AVERAGE, n)
                                  : simple(MED, n);
        return _mm256_add_epi8(v, tapped(r, p, t));
    }
    const uint8_t *row = r->memory->tokens[WAVE_BEFORE + t].lanes;
    return filtered(r, f, n, row_load(row + p->to_0), row_load(row + p->to_1));
}

INLINE void any_step(const struct rebuild *r, struct state *x, const struct lane_filters *f,
                     uint32_t t, bool odd, bool first, bool mixed)
{
    v32 residual = residuals(r, x, t);
    struct near n = neighbours(r, x, t, odd, first, true);
    v32 p = predict_part(r, &r->front, f, &n, t);
    if (mixed)
        p = pick(front_lanes(t), p, predict_part(r, &r->rear, f, &n, t));
    finish(r, x, t, p, residual);
}

INLINE void any_band(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool mixed)
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

static void TARGET mixed_band(struct rebuild *r, uint32_t t, uint32_t end)
{
    any_band(r, t, end, true, true);
}
static void TARGET filters_band(struct rebuild *r, uint32_t t, uint32_t end, bool first)
{
    if (first)
        any_band(r, t, end, true, false);
    else
        any_band(r, t, end, false, false);
}

/* -- The unit -- */

static void TARGET open_part(const struct psti_pli_wave_job *job, uint32_t band, struct part *p)
{
    const struct psti_pli_wave_head *head = job->head;
    *p = (struct part){.plane = NULL};
    if (band >= head->n_bands)
        return;
    uint32_t j = band / head->bands_per_plane;
    ptrdiff_t delay = 64 * (ptrdiff_t)(head->bands_per_plane * sizeof(struct psti_pli_wave_row));
    p->plane = head->planes + j;
    p->to_0 = p->plane->index0 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index0);
    p->to_1 = p->plane->index1 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index1);
    p->a = _mm256_set1_epi8((char)(p->to_0 == 0 ? 0 : p->plane->a));
    p->b = _mm256_set1_epi8((char)(p->to_1 == 0 ? 0 : p->plane->b));
}

/* Adds the filters of one band to the tables, `shift` bytes from the start of each half. */
static void TARGET add_filters(struct rebuild *r, const struct psti_pli_wave_job *job,
                               const struct part *p, uint32_t band, uint32_t shift)
{
    if (!p->plane || p->plane->predictor != PSTI_PLI_PREDICT_FILTERS)
        return;
    uint8_t table[9][32];
    memset(table, 0, sizeof table);
    uint32_t columns = (job->unit->width + 15) / 16;
    uint32_t rows = (job->unit->height + 15) / 16;
    uint32_t first_row = 2 * (band % job->head->bands_per_plane);
    for (uint32_t half = 0; half < 2 && first_row + half < rows; half++) {
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t number = p->plane->filters[(first_row + half) * columns + c];
            uint32_t at = 16 * half + shift + c;
            if (number == 0) {
                table[8][at] = 255;
                r->any_med = true;
                continue;
            }
            const struct psti_pli_filter *f = &psti_pli_filters[p->plane->list][number - 1];
            table[0][at] = (uint8_t)(32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4]);
            for (uint32_t k = 0; k < 5; k++)
                table[1 + k][at] = (uint8_t)f->k[k];
            table[6][at] = p->to_0 == 0 ? 0 : (uint8_t)f->a;
            table[7][at] = p->to_1 == 0 ? 0 : (uint8_t)f->b;
        }
    }
    for (uint32_t k = 0; k < 9; k++)
        r->filters.c[k] = _mm256_or_si256(r->filters.c[k], row_load(table[k]));
}

static void TARGET rebuild_band(struct rebuild *r, const struct psti_pli_wave_job *job, uint32_t k,
                                uint32_t t, uint32_t end)
{
    const struct psti_pli_wave_head *head = job->head;
    bool first = k < head->n_bands && k % head->bands_per_plane == 0;
    if (first) /* stands above lane 0 at (0, 0) */
        r->memory->samples_above[WAVE_BEFORE + t - 2][0] =
            (uint8_t)head->planes[k / head->bands_per_plane].start;
    open_part(job, k, &r->front);
    open_part(job, k - 1, &r->rear);
    memset(&r->filters, 0, sizeof r->filters);
    r->any_med = false;
    add_filters(r, job, &r->front, k, 0);
    add_filters(r, job, &r->rear, k - 1, 4);
    if (r->front.plane && r->rear.plane && r->front.plane != r->rear.plane) {
        mixed_band(r, t, end);
        return;
    }
    if (!r->front.plane)
        r->front = r->rear;
    bool taps = r->front.plane->a != 0 || r->front.plane->b != 0;
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

/* The largest and the smallest sum of two products of coefficients with 0..255 fit 16 bits. */
static bool pair_fits(int a, int b)
{
    int above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? a : 0) + (b < 0 ? b : 0);
    return above <= 128 && below >= -128 && a >= -128 && a <= 127 && b >= -128 && b <= 127;
}

static bool filter_fits(const struct psti_pli_filter *f)
{
    int own = 32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4];
    return pair_fits(own, f->k[0]) && pair_fits(f->k[1], f->k[2]) && pair_fits(f->k[3], f->k[4]) &&
           pair_fits(f->a, f->b);
}

bool psti_pli_wave_avx2_can_rebuild(const struct psti_pli_wave_head *head)
{
    for (uint32_t j = 0; j < head->n_coded; j++) {
        const struct psti_pli_wave_plane *plane = head->planes + j;
        if (plane->predictor != PSTI_PLI_PREDICT_FILTERS) {
            if (!pair_fits(plane->a, plane->b))
                return false;
            continue;
        }
        for (uint32_t i = 0; i < PSTI_PLI_WAVE_N_BLOCKS; i++) {
            uint32_t number = plane->filters[i];
            if (number > 0 && !filter_fits(&psti_pli_filters[plane->list][number - 1]))
                return false;
        }
    }
    return true;
}

void TARGET psti_pli_wave_avx2_rebuild(struct psti_pli_wave_job *job)
{
    struct psti_pli_wave_memory *m = job->memory;
    struct rebuild r = {.memory = m,
                        .bits = m->bits,
                        .state = {0, _mm256_setzero_si256()},
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
