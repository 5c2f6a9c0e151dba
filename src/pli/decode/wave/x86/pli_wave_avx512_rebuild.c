/* pli_wave_avx512_rebuild.c - turns residuals into samples with AVX-512, by predictors and filters.
 *
 * It converts rows of residuals to rows of samples by step. The functions are pure; any thread
 * may call them. A vector holds a step of both units. The samples of the last four steps stay in
 * registers, unrotated and rotated to the lane below. Bands are done one after another. There are
 * loops for the common cases (MED with taps or without; filters) and one loop for everything else.
 */
#include "pli/decode/wave/x86/pli_wave_avx512.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

/* The samples that are passed from step to step. */
struct samples {
    __m512i own1, own2; /* samples of the last step and of the step before it */
    /* Samples of the last four steps, rotated to the lane below. */
    __m512i above1, above2, above3, above4;
};

/* The plane whose lanes begin in a band, or the plane whose lanes end in it. to_0 and to_1 lead
 * from a row of residuals to the rows of planes 0 and 1 at the same place. Masks have all lanes of
 * a unit or none. */
struct part {
    bool there;
    uint32_t index; /* index among the coded planes */
    ptrdiff_t to_0, to_1;
    __m512i a, b;                       /* taps as bytes */
    uint64_t left, up, average, filter; /* lanes of units with this predictor; units in no mask use
                                         * MED */
};

/* Coefficients of filters. An entry is 32 * unit + 16 * (lane / 16) + 2 * block column, + 8 for the
 * part that ends. It holds a pair of bytes, or a word. */
struct filter_tables {
    __m512i l_u, ul_ur, uu_ll, a_b, bias;
    __m512i med; /* 255 in an entry's first byte if the filter is MED */
};

/* Numbers that select the entry of each byte: `base`, plus bits of x = (t & 63) + `minus_2l`. */
struct entry_places {
    __m512i minus_2l, base;
};

struct rebuild {
    const struct psti_pli_wave512_job *job;
    struct psti_pli_wave512_memory *memory;
    struct samples samples;
    uint32_t last[WAVE_UNITS]; /* number of the unit's last column */
    uint32_t bands_per_plane;
    uint64_t first; /* lane 0 of both units, if this lane is in its plane's first row */
    struct part front, rear;
    struct filter_tables tables;
    bool has_places;
    /* `low` and `high` are for bytes in the order of unpacking, `all` is for bytes in their own
     * order. */
    struct entry_places low, high, all;
};

/* -- Neighbours -- */

struct near {
    __m512i l, u, ul, ur, uu, ll;
};

/* Returns the mask of the lane at column `last` of each unit, if there is one. */
INLINE __mmask64 last_lanes(const struct rebuild *r, uint32_t t)
{
    uint32_t d = (t - r->last[0]) & 63, e = (t - r->last[1]) & 63;
    return (d & 1 ? 0 : 1ull << (d >> 1)) | (e & 1 ? 0 : 1ull << (WAVE_LANES + (e >> 1)));
}

/* Returns the mask of lanes 0 and 1, if they are in their plane's first two rows. Lane 1 enters a
 * band two steps after lane 0. */
INLINE __mmask64 rows_01(const struct rebuild *r, uint32_t t)
{
    bool first_1 = (((t - 2) >> 6) & (r->bands_per_plane - 1)) == 0;
    return r->first | (first_1 ? WAVE_BOTH(2) : 0);
}

/* Returns the neighbours of each lane's sample (docs/format-pli.md, 5.3). Only filters read UL
 * outside the unit; the other predictors find L = U there. */
INLINE struct near neighbours(const struct rebuild *r, const struct samples *x, uint32_t t,
                              bool odd, bool filters)
{
    const __mmask64 newest = wave512_newest(t), first = r->first;
    struct near n = {.l = x->own1, .u = x->above2, .ul = x->above3};
    if (!odd)
        n.l = choose_bits(row_load(wave512_all_but(psti_pli_wave_front_lane(t))), n.l, n.u);
    n.u = _mm512_mask_mov_epi8(n.u, first, n.l);
    if (!filters)
        return n;
    if (!odd)
        n.ul = _mm512_mask_mov_epi8(n.ul, newest, x->above2);
    n.ul = _mm512_mask_mov_epi8(n.ul, first, n.l);
    n.ll = _mm512_mask_mov_epi8(x->own2, newest, n.l);
    n.ur = _mm512_mask_mov_epi8(x->above1, first, n.l);
    n.ur = _mm512_mask_mov_epi8(n.ur, last_lanes(r, t), n.u);
    n.uu = _mm512_mask_mov_epi8(turn(x->above4), rows_01(r, t), n.u);
    return n;
}

INLINE void keep(const struct rebuild *r, struct samples *x, uint32_t t, __m512i sample)
{
    row_store(r->memory->samples[t], sample);
    x->own2 = x->own1;
    x->own1 = sample;
    x->above4 = x->above3;
    x->above3 = x->above2;
    x->above2 = x->above1;
    x->above1 = turn(sample);
}

/* -- Predictors other than filters -- */

INLINE __m512i med(const struct near *n)
{
    return _mm512_sub_epi8(_mm512_add_epi8(n->l, n->u), wave512_middle(n->l, n->u, n->ul));
}

INLINE __m512i average(const struct near *n)
{
    __m512i odd = _mm512_and_si512(_mm512_xor_si512(n->l, n->u), _mm512_set1_epi8(1));
    return _mm512_sub_epi8(_mm512_avg_epu8(n->l, n->u), odd);
}

/* Returns the units of one part in the lanes of `front`, and the units of the other part in other
 * lanes. */
INLINE __mmask64 of_parts(uint64_t front_units, uint64_t rear_units, uint64_t front)
{
    return (front_units & front) | (rear_units & ~front);
}

INLINE __m512i simple(const struct rebuild *r, const struct near *n, uint64_t front)
{
    __m512i p = med(n);
    p = _mm512_mask_mov_epi8(p, of_parts(r->front.left, r->rear.left, front), n->l);
    p = _mm512_mask_mov_epi8(p, of_parts(r->front.up, r->rear.up, front), n->u);
    return _mm512_mask_mov_epi8(p, of_parts(r->front.average, r->rear.average, front), average(n));
}

/* -- Taps -- */

/* Words of 16 bits, made from the bytes that unpacking puts low and high. */
struct words {
    __m512i low, high;
};
/* Pairs of coefficients, and the start value of their sums: 16, for rounding, less 128 times both
 * coefficients, because 128 is added to residuals to make them unsigned. Nothing saturates, since
 * |a| + |b| <= 128. */
struct taps {
    struct words a_b, bias;
};

INLINE struct words unpack(__m512i a, __m512i b)
{
    return (struct words){_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)};
}

/* Returns the taps of a step. With `mixed` the lanes of `front` have the taps of the part that
 * begins, and other lanes those of the part that ends. Without it all lanes have the taps of the
 * front. */
INLINE struct taps find_taps(const struct rebuild *r, uint64_t front, bool mixed)
{
    const __m512i top = _mm512_set1_epi8((char)0x80), half = _mm512_set1_epi16(16);
    __m512i a = r->front.a, b = r->front.b;
    if (mixed) {
        a = _mm512_mask_mov_epi8(r->rear.a, front, a);
        b = _mm512_mask_mov_epi8(r->rear.b, front, b);
    }
    struct words w = unpack(a, b);
    return (struct taps){w,
                         {_mm512_sub_epi16(half, _mm512_maddubs_epi16(top, w.low)),
                          _mm512_sub_epi16(half, _mm512_maddubs_epi16(top, w.high))}};
}

INLINE struct words tap_words(const struct rebuild *r, const struct taps *taps, uint32_t t,
                              uint64_t front, bool mixed)
{
    const __m512i top = _mm512_set1_epi8((char)0x80);
    const uint8_t *row = r->memory->rows[t];
    __m512i r0 = row_load(row + r->front.to_0), r1 = row_load(row + r->front.to_1);
    if (mixed) {
        r0 = _mm512_mask_mov_epi8(row_load(row + r->rear.to_0), front, r0);
        r1 = _mm512_mask_mov_epi8(row_load(row + r->rear.to_1), front, r1);
    }
    struct words w = unpack(_mm512_xor_si512(r0, top), _mm512_xor_si512(r1, top));
    w.low = _mm512_add_epi16(taps->bias.low, _mm512_maddubs_epi16(w.low, taps->a_b.low));
    w.high = _mm512_add_epi16(taps->bias.high, _mm512_maddubs_epi16(w.high, taps->a_b.high));
    return w;
}

/* Returns (a r0 + b r1 + 16) >> 5 modulo 256. */
INLINE __m512i tap_bytes(struct words w)
{
    const __m512i byte = _mm512_set1_epi16(255);
    return _mm512_packus_epi16(_mm512_and_si512(_mm512_srai_epi16(w.low, 5), byte),
                               _mm512_and_si512(_mm512_srai_epi16(w.high, 5), byte));
}

/* -- Filters -- */

/* The coefficients of each lane, in pairs of bytes, for two steps. */
struct lane_filters {
    struct words l_u, ul_ur, uu_ll;
    struct taps taps;
    __mmask64 med;
};

INLINE struct words look_up(__m512i low, __m512i high, __m512i table)
{
    return (struct words){_mm512_permutexvar_epi8(low, table),
                          _mm512_permutexvar_epi8(high, table)};
}

/* Returns the entry of each byte. Bits 4 and 5 of x are the column of blocks. If x is negative, bit
 * 6 is set, and the lane is in the part that ends. */
INLINE __m512i entries(const struct entry_places *places, uint32_t t)
{
    __m512i x = _mm512_add_epi8(_mm512_set1_epi8((char)(t & 63)), places->minus_2l);
    return _mm512_ternarylogic_epi32(_mm512_srli_epi16(x, 3), _mm512_set1_epi8(14), places->base,
                                     0xEA); /* a & b | c */
}

INLINE struct lane_filters find_lane_filters(const struct rebuild *r, uint32_t t)
{
    const struct filter_tables *f = &r->tables;
    __m512i low = entries(&r->low, t), high = entries(&r->high, t);
    __m512i is_med = _mm512_permutexvar_epi8(entries(&r->all, t), f->med);
    return (struct lane_filters){
        .l_u = look_up(low, high, f->l_u),
        .ul_ur = look_up(low, high, f->ul_ur),
        .uu_ll = look_up(low, high, f->uu_ll),
        .taps = {look_up(low, high, f->a_b), look_up(low, high, f->bias)},
        .med = _mm512_movepi8_mask(is_med),
    };
}

INLINE void add_products(struct words *sums, __m512i a, __m512i b, const struct words *pairs)
{
    struct words w = unpack(a, b);
    sums->low = _mm512_add_epi16(sums->low, _mm512_maddubs_epi16(w.low, pairs->low));
    sums->high = _mm512_add_epi16(sums->high, _mm512_maddubs_epi16(w.high, pairs->high));
}

/* Returns the predictions by filters. The products of the left neighbour are added last, because
 * all other operands are ready earlier. */
INLINE __m512i filtered(const struct lane_filters *f, const struct near *n, struct words sums)
{
    add_products(&sums, n->uu, n->ll, &f->uu_ll);
    add_products(&sums, n->ul, n->ur, &f->ul_ur);
    add_products(&sums, n->l, n->u, &f->l_u);
    __m512i p =
        _mm512_packus_epi16(_mm512_srai_epi16(sums.low, 5), _mm512_srai_epi16(sums.high, 5));
    return _mm512_mask_mov_epi8(p, f->med, med(n));
}

/* -- Bands -- */

/* The properties of a band for which its loop is compiled. */
struct kind {
    bool filters; /* true if some lanes have filters */
    bool others;  /* true if some lanes have predictors other than filters */
    bool not_med; /* true if some lanes have a predictor that is neither a filter nor MED */
    bool taps;    /* true if some taps are not 0 */
    bool mixed;   /* true if two different planes share the steps */
};

INLINE void one_step(const struct rebuild *r, struct samples *x, const struct lane_filters *f,
                     const struct taps *taps, uint32_t t, bool odd, struct kind kind)
{
    const uint64_t front = wave512_front(t);
    __m512i residual = row_load(r->memory->rows[t]), p = residual;
    struct near n = neighbours(r, x, t, odd, kind.filters);
    if (kind.filters)
        p = filtered(f, &n, tap_words(r, &f->taps, t, front, kind.mixed));
    if (kind.others) {
        __m512i q = kind.not_med ? simple(r, &n, front) : med(&n);
        if (kind.taps) /* a plane with filters has no taps besides those of its filters */
            residual =
                _mm512_add_epi8(residual, tap_bytes(tap_words(r, taps, t, front, kind.mixed)));
        p = kind.filters
                ? _mm512_mask_mov_epi8(q, of_parts(r->front.filter, r->rear.filter, front), p)
                : q;
    }
    keep(r, x, t, _mm512_add_epi8(p, residual));
}

INLINE void run_band(struct rebuild *r, uint32_t t, uint32_t end, struct kind kind)
{
    struct samples x = r->samples;
    struct lane_filters f;
    struct taps taps;
    if (kind.taps && !kind.mixed)
        taps = find_taps(r, 0, false);
    for (; t < end; t += 2) {
        psti_pli_wave_ask(r->job->units, WAVE_UNITS, r->job->next, t);
        if (kind.filters)
            f = find_lane_filters(r, t);
        if (kind.taps && kind.mixed)
            taps = find_taps(r, wave512_front(t), true);
        one_step(r, &x, &f, &taps, t, false, kind);
        one_step(r, &x, &f, &taps, t + 1, true, kind);
    }
    r->samples = x;
}

#define BAND(name, ...)                                                                            \
    TARGET static void name(struct rebuild *r, uint32_t t, uint32_t end)                           \
    {                                                                                              \
        run_band(r, t, end, (struct kind){__VA_ARGS__});                                           \
    }
BAND(med_band, .others = true)
BAND(med_taps_band, .others = true, .taps = true)
BAND(med_mixed_band, .others = true, .taps = true, .mixed = true)
BAND(simple_band, .others = true, .not_med = true)
BAND(simple_taps_band, .others = true, .not_med = true, .taps = true)
BAND(simple_mixed_band, .others = true, .not_med = true, .taps = true, .mixed = true)
BAND(filters_band, .filters = true)
BAND(filters_mixed_band, .filters = true, .mixed = true)
BAND(any_band, .filters = true, .others = true, .not_med = true, .taps = true, .mixed = true)

typedef void band_loop(struct rebuild *r, uint32_t t, uint32_t end);

/* -- Parts -- */

TARGET static __m512i of_units(uint8_t first, uint8_t second)
{
    return _mm512_mask_mov_epi8(_mm512_set1_epi8((char)second), WAVE_FIRST_UNIT,
                                _mm512_set1_epi8((char)first));
}
static uint64_t lanes_of(uint32_t unit) { return unit == 0 ? WAVE_FIRST_UNIT : ~WAVE_FIRST_UNIT; }

TARGET static void open_part(const struct psti_pli_wave512_job *job, uint32_t band, struct part *p)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    uint8_t a[WAVE_UNITS], b[WAVE_UNITS];
    memset(p, 0, sizeof *p);
    if (band >= head->n_bands)
        return;
    ptrdiff_t delay = 64 * (ptrdiff_t)(head->bands_per_plane * WAVE_ROW);
    p->there = true;
    p->index = band / head->bands_per_plane;
    const struct psti_pli_wave_plane *first = head->planes + p->index;
    p->to_0 = first->index0 < 0 ? 0 : -delay * ((ptrdiff_t)p->index - first->index0);
    p->to_1 = first->index1 < 0 ? 0 : -delay * ((ptrdiff_t)p->index - first->index1);
    for (uint32_t u = 0; u < WAVE_UNITS; u++) {
        const struct psti_pli_wave_plane *plane = job->heads[u]->planes + p->index;
        a[u] = p->to_0 == 0 ? 0 : (uint8_t)plane->a;
        b[u] = p->to_1 == 0 ? 0 : (uint8_t)plane->b;
        if (plane->predictor == PSTI_PLI_PREDICT_LEFT)
            p->left |= lanes_of(u);
        if (plane->predictor == PSTI_PLI_PREDICT_UP)
            p->up |= lanes_of(u);
        if (plane->predictor == PSTI_PLI_PREDICT_AVERAGE)
            p->average |= lanes_of(u);
        if (plane->predictor == PSTI_PLI_PREDICT_FILTERS)
            p->filter |= lanes_of(u);
    }
    p->a = of_units(a[0], a[1]);
    p->b = of_units(b[0], b[1]);
}

struct table_bytes {
    uint8_t l_u[64], ul_ur[64], uu_ll[64], a_b[64], bias[64], med[64];
};

static void add_filter(struct table_bytes *b, uint32_t entry, const struct psti_pli_filter *f,
                       const struct part *p)
{
    int8_t tap_a = p->to_0 == 0 ? 0 : f->a, tap_b = p->to_1 == 0 ? 0 : f->b;
    b->l_u[entry] = (uint8_t)(32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4]);
    b->l_u[entry + 1] = (uint8_t)f->k[0];
    b->ul_ur[entry] = (uint8_t)f->k[1];
    b->ul_ur[entry + 1] = (uint8_t)f->k[2];
    b->uu_ll[entry] = (uint8_t)f->k[3];
    b->uu_ll[entry + 1] = (uint8_t)f->k[4];
    b->a_b[entry] = (uint8_t)tap_a;
    b->a_b[entry + 1] = (uint8_t)tap_b;
    psti_store_u16(b->bias + entry, (uint16_t)(16 - 128 * (tap_a + tap_b)));
}

/* Adds the filters of one unit's band to the tables. `shift` is 8 if the band is the one that ends,
 * else 0. */
static void add_filters(struct table_bytes *b, const struct psti_pli_wave512_job *job, uint32_t u,
                        const struct part *p, uint32_t band, uint32_t shift)
{
    if (!p->there || (p->filter & lanes_of(u)) == 0)
        return;
    const struct psti_pli_wave_plane *plane = job->heads[u]->planes + p->index;
    uint32_t columns = (job->units[u]->width + 15) / 16;
    uint32_t rows = (job->units[0]->height + 15) / 16;
    uint32_t first_row = 2 * (band % job->heads[0]->bands_per_plane);
    for (uint32_t half = 0; half < 2 && first_row + half < rows; half++)
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t number = plane->filters[(first_row + half) * columns + c];
            uint32_t entry = 32 * u + 16 * half + shift + 2 * c;
            if (number == 0)
                b->med[entry] = 255;
            else
                add_filter(b, entry, &psti_pli_filters[plane->list][number - 1], p);
        }
}

TARGET static void open_tables(struct rebuild *r, const struct psti_pli_wave512_job *job,
                               uint32_t band)
{
    struct table_bytes b;
    memset(&b, 0, sizeof b);
    for (uint32_t u = 0; u < WAVE_UNITS; u++) {
        add_filters(&b, job, u, &r->front, band, 0);
        add_filters(&b, job, u, &r->rear, band - 1, 8);
    }
    r->tables = (struct filter_tables){row_load(b.l_u), row_load(b.ul_ur), row_load(b.uu_ll),
                                       row_load(b.a_b), row_load(b.bias),  row_load(b.med)};
}

/* Makes the numbers that select the entries of bytes. `order` says which byte of a row is at each
 * place. `pair`: bytes are parts of pairs. */
TARGET static struct entry_places places_of(const uint8_t order[64], bool pair)
{
    uint8_t minus_2l[64], base[64];
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t lane = order[i] & 31, unit = order[i] >> 5;
        minus_2l[i] = (uint8_t)(0 - 2 * lane);
        base[i] = (uint8_t)(32 * unit + 16 * (lane >> 4) + (pair ? i & 1 : 0));
    }
    return (struct entry_places){row_load(minus_2l), row_load(base)};
}

TARGET static void open_places(struct rebuild *r)
{
    uint8_t low[64], high[64], all[64];
    for (uint8_t i = 0; i < 64; i++) {
        low[i] = (uint8_t)((i & 48) + ((i & 15) >> 1));
        high[i] = (uint8_t)(low[i] + 8);
        all[i] = i;
    }
    r->has_places = true;
    r->low = places_of(low, true);
    r->high = places_of(high, true);
    r->all = places_of(all, false);
}

/* -- A job of one or two units -- */

TARGET static void open_band(struct rebuild *r, const struct psti_pli_wave512_job *job, uint32_t k)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    bool first = k < head->n_bands && k % head->bands_per_plane == 0;
    r->first = first ? WAVE_BOTH(1) : 0;
    if (first) { /* the start sample, stored above lane 0 as a neighbour of sample (0, 0) */
        uint32_t plane = k / head->bands_per_plane;
        __m512i starts = of_units((uint8_t)head->planes[plane].start,
                                  (uint8_t)job->heads[1]->planes[plane].start);
        r->samples.above2 = _mm512_mask_mov_epi8(r->samples.above2, r->first, starts);
    }
    open_part(job, k, &r->front);
    open_part(job, k - 1, &r->rear);
}

static bool has_taps(const struct psti_pli_wave512_job *job, const struct part *p)
{
    bool any = false;
    for (uint32_t u = 0; u < WAVE_UNITS; u++) {
        const struct psti_pli_wave_plane *plane = job->heads[u]->planes + p->index;
        any = any || (p->to_0 != 0 && plane->a != 0) || (p->to_1 != 0 && plane->b != 0);
    }
    return any;
}

TARGET static void rebuild_band(struct rebuild *r, const struct psti_pli_wave512_job *job,
                                uint32_t k, uint32_t t, uint32_t end)
{
    open_band(r, job, k);
    uint64_t filter = r->front.filter | r->rear.filter;
    if (filter != 0) {
        if (!r->has_places)
            open_places(r);
        open_tables(r, job, k);
    }
    bool mixed = r->front.there && r->rear.there && r->front.index != r->rear.index;
    if (!r->front.there)
        r->front = r->rear;
    if (!mixed)
        r->rear = r->front;
    bool all_filter = (r->front.filter & r->rear.filter) == UINT64_MAX;
    uint64_t simple = r->front.left | r->front.up | r->front.average | r->rear.left | r->rear.up |
                      r->rear.average;
    bool taps = has_taps(job, &r->front) || has_taps(job, &r->rear);
    static band_loop *const loops[2][3] = {{med_band, med_taps_band, med_mixed_band},
                                           {simple_band, simple_taps_band, simple_mixed_band}};
    if (all_filter)
        (mixed ? filters_mixed_band : filters_band)(r, t, end);
    else if (filter != 0)
        any_band(r, t, end);
    else if (taps)
        loops[simple != 0][mixed ? 2 : 1](r, t, end);
    else
        loops[simple != 0][0](r, t, end);
}

TARGET void psti_pli_wave512_rebuild(struct psti_pli_wave512_job *job)
{
    struct rebuild r;
    memset(&r, 0, sizeof r);
    r.job = job;
    r.memory = job->memory;
    for (uint32_t u = 0; u < WAVE_UNITS; u++)
        r.last[u] = job->units[u]->width - 1u;
    r.bands_per_plane = job->heads[0]->bands_per_plane;
    for (uint32_t t = 0, n_steps = job->heads[0]->n_steps; t < n_steps; t += 64)
        rebuild_band(&r, job, t >> 6, t, t + 64 < n_steps ? t + 64 : n_steps);
}
#endif
