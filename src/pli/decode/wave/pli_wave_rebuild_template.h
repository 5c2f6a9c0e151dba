/* pli_wave_rebuild_template.h - template that turns residuals into samples with AVX2 or NEON, step
 * by step, for any size of sample.
 *
 * It is included once for each level and size. Bands are done one after another. In most bands only
 * one plane has lanes, and the band's loop is compiled for that plane's predictor. The includer
 * defines before the #include:
 *
 *   - INLINE, TARGET: attributes of the level's functions;
 *   - vec: 32 lanes of samples, residuals or masks; blend(no, yes, mask), turned(v), plus(a, b),
 *     med_of(l, u, ul), average_of(l, u), mask_of(32 bytes); first_two(v, from, lane 0?, lane 1?):
 *     returns v with the lanes named replaced by those of `from`;
 *   - BITS: bits of a sample; LESS: stored samples are less by so much; vec_load(at), vec_store(at,
 *     v): load and store rows;
 *   - struct taps, taps_of(a, b); struct lane_filters: the coefficients of each lane.
 *
 * After the #include it defines the functions that are declared here. The functions are pure; any
 * thread may call them. */
#include "pli/decode/wave/pli_wave_common.h"

#include <string.h>

/* One of the two planes that share a band while one begins and the other ends: `front` is the plane
 * that begins, `rear` the one that ends. to_0 and to_1 lead from a row of residuals to the rows of
 * planes 0 and 1 at the same place. */
struct part {
    const struct psti_pli_wave_plane *plane;
    ptrdiff_t to_0, to_1;
    struct taps taps;
};

/* Indices of the coefficients of L, U, UL, UR, UU and LL, and of the taps of planes 0 and 1. C_MED
 * holds 255 where the filter is MED. */
enum { C_L, C_U, C_UL, C_UR, C_UU, C_LL, C_A, C_B, C_MED, N_COEFFICIENTS };

struct rebuild {
    struct psti_pli_wave_memory *memory;
    uint32_t last; /* number of the unit's last column */
    uint32_t bands_per_plane;
    struct part front, rear;
    /* Coefficients of the blocks. Lanes 0..15 and 16..31 are halves of 16 bytes, each for one row
     * of blocks. Byte c of a half is for block column c: bytes 0..3 are for the blocks of the
     * front's plane, bytes 4..7 for those of the rear's. */
    _Alignas(32) uint8_t filters[N_COEFFICIENTS][WAVE_LANES];
    bool any_med;
    bool any_taps; /* true if the front or the rear plane has taps in addition to those of its
                    * filters */
};

enum kind { LEFT, UP, AVERAGE, MED, FILTERS };

static enum kind kind_of(const struct psti_pli_wave_plane *plane)
{
    return plane->predictor == PSTI_PLI_PREDICT_FILTERS ? FILTERS
                                                        : (enum kind)(plane->predictor - 1);
}

struct near {
    vec l, u, ul, ur, uu, ll;
};

/* Returns the residuals of step t. */
INLINE vec residuals(const struct psti_pli_wave_memory *m, uint32_t t);
/* Returns the terms that taps add to the predictions of step t. */
INLINE vec tapped(const struct rebuild *r, const struct part *p, uint32_t t);
/* Returns the terms like tapped(), where some lanes have the taps of the plane that begins (front)
 * and the others those of the plane that ends (rear). Taps of filters are not included. */
INLINE vec tapped_either(const struct rebuild *r, uint32_t t, vec in_front);
/* Finds the coefficients of each lane for steps t and t + 1. `taps`: the filters may have taps. */
INLINE void find_lane_filters(const struct rebuild *r, uint32_t t, bool taps,
                              struct lane_filters *f);
INLINE vec filtered(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                    const struct near *n, uint32_t t, bool taps);
/* Copies the samples of steps t .. end - 1 from rows (the lanes of one step) to lines (all samples
 * of one lane). */
INLINE void end_band(struct psti_pli_wave_memory *m, uint32_t t, uint32_t end);

/* -- The samples of the last steps -- */

/* The samples of the last steps, unshifted and shifted by one lane. Loops keep them in registers,
 * because reading memory that was written one or two steps ago takes longer than all other work. */
struct history {
    vec last, last_2;
    vec above, above_2, above_3, above_4;
};

/* Returns the row of samples of step t. */
#if BITS == 8
typedef uint8_t sample;
INLINE sample *sample_row(struct psti_pli_wave_memory *m, uint32_t t)
{
    return m->of_u8.samples[WAVE_BEFORE + t];
}
#else
typedef int16_t sample;
INLINE sample *sample_row(struct psti_pli_wave_memory *m, uint32_t t)
{
    return m->of_u16.samples[t % WAVE_BAND];
}
#endif

/* Returns the history before step t. If `first` is set, a plane begins at step t, and its start
 * sample is stored above (0, 0). */
INLINE struct history history_at(const struct rebuild *r, uint32_t t, bool first)
{
    struct psti_pli_wave_memory *m = r->memory;
    struct history x = {.last = vec_load(sample_row(m, t - 1)),
                        .last_2 = vec_load(sample_row(m, t - 2)),
                        .above_3 = turned(vec_load(sample_row(m, t - 3))),
                        .above_4 = turned(vec_load(sample_row(m, t - 4)))};
    x.above = turned(x.last);
    x.above_2 = turned(x.last_2);
    if (first) {
        sample row[WAVE_LANES] = {(sample)(r->front.plane->start ^ LESS)};
        x.above_2 = first_two(x.above_2, vec_load(row), true, false);
    }
    return x;
}

/* -- Neighbours -- */

/* Returns a mask of all lanes except the lane at column `last`, if there is one. */
INLINE vec all_but_last(const struct rebuild *r, uint32_t t)
{
    uint32_t d = (t - r->last) & 63;
    return mask_of(psti_pli_wave_all_but_one + (d & 1 ? 32 : 31 - (d >> 1)));
}

/* Returns the neighbours of each lane's sample (docs/format-pli.md, 5.3). `first` says that lane 0
 * is in row 0 of its plane. */
INLINE struct near neighbours(const struct rebuild *r, const struct history *x, uint32_t t,
                              bool odd, bool first, bool filters)
{
    struct near n = {.l = x->last, .u = x->above_2, .ul = x->above_3};
    const vec newest = mask_of(all_but_newest(t));
    if (!odd) {
        n.l = blend(n.u, n.l, newest);
        n.ul = blend(n.u, n.ul, newest);
    }
    if (first) {
        n.u = first_two(n.u, n.l, true, false);
        n.ul = first_two(n.ul, n.l, true, false);
    }
    if (!filters)
        return n;
    n.ll = blend(n.l, x->last_2, newest);
    n.ur = x->above;
    n.uu = turned(x->above_4);
    if (first)
        n.ur = first_two(n.ur, n.l, true, false);
    /* Lane 1 enters a band two steps after lane 0. */
    bool first_1 = (((t - 2) >> 6) & (r->bands_per_plane - 1)) == 0;
    n.uu = first_two(n.uu, n.u, first, first_1);
    n.ur = blend(n.u, n.ur, all_but_last(r, t));
    return n;
}

INLINE vec simple(enum kind kind, const struct near *n)
{
    if (kind == LEFT)
        return n->l;
    if (kind == UP)
        return n->u;
    if (kind == MED)
        return med_of(n->l, n->u, n->ul);
    return average_of(n->l, n->u);
}

INLINE void finish(const struct rebuild *r, struct history *x, uint32_t t, vec prediction,
                   vec residual)
{
    x->last_2 = x->last;
    x->last = plus(prediction, residual);
    x->above_4 = x->above_3;
    x->above_3 = x->above_2;
    x->above_2 = x->above;
    x->above = turned(x->last);
    vec_store(sample_row(r->memory, t), x->last);
}

/* -- Bands of one plane without filters -- */

INLINE void one_step(const struct rebuild *r, struct history *x, uint32_t t, bool odd,
                     enum kind kind, bool first, bool taps)
{
    vec residual = residuals(r->memory, t);
    if (taps)
        residual = plus(residual, tapped(r, &r->front, t));
    struct near n = neighbours(r, x, t, odd, first, false);
    finish(r, x, t, simple(kind, &n), residual);
}

INLINE void one_band(struct rebuild *r, uint32_t t, uint32_t end, enum kind kind, bool first,
                     bool taps)
{
    struct history x = history_at(r, t, first);
    for (; t < end; t += 2) {
        one_step(r, &x, t, false, kind, first, taps);
        one_step(r, &x, t + 1, true, kind, first, taps);
    }
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

/* -- Bands of two planes, and bands with filters -- */

/* Returns the prediction of one part's lanes. It contains the taps of filters, but no other
 * taps. */
INLINE vec predict_part(const struct rebuild *r, const struct part *p, const struct lane_filters *f,
                        const struct near *n, uint32_t t, bool filters, bool taps)
{
    enum kind kind = kind_of(p->plane);
    if (filters && kind == FILTERS)
        return filtered(r, p, f, n, t, taps);
    return kind == LEFT      ? simple(LEFT, n)
           : kind == UP      ? simple(UP, n)
           : kind == AVERAGE ? simple(AVERAGE, n)
                             : simple(MED, n);
}

INLINE void any_step(const struct rebuild *r, struct history *x, const struct lane_filters *f,
                     uint32_t t, bool odd, bool first, bool mixed, bool filters, bool taps)
{
    vec residual = residuals(r->memory, t);
    struct near n = neighbours(r, x, t, odd, first, filters);
    vec p = predict_part(r, &r->front, f, &n, t, filters, taps);
    if (mixed) {
        const vec in_front = mask_of(front_lanes(t));
        p = blend(predict_part(r, &r->rear, f, &n, t, filters, taps), p, in_front);
        if (r->any_taps)
            residual = plus(residual, tapped_either(r, t, in_front));
    }
    finish(r, x, t, p, residual);
}

INLINE void any_band(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool mixed,
                     bool filters, bool taps)
{
    struct lane_filters f;
    struct history x = history_at(r, t, first);
    for (; t < end; t += 2) {
        if (filters)
            find_lane_filters(r, t, taps, &f);
        any_step(r, &x, &f, t, false, first, mixed, filters, taps);
        any_step(r, &x, &f, t + 1, true, first, mixed, filters, taps);
    }
}

static void TARGET mixed_band(struct rebuild *r, uint32_t t, uint32_t end)
{
    if (kind_of(r->front.plane) == FILTERS || kind_of(r->rear.plane) == FILTERS)
        any_band(r, t, end, true, true, true, true);
    else
        any_band(r, t, end, true, true, false, true);
}
static void TARGET filters_band(struct rebuild *r, uint32_t t, uint32_t end, bool first, bool taps)
{
    if (first && taps)
        any_band(r, t, end, true, false, true, true);
    else if (first)
        any_band(r, t, end, true, false, true, false);
    else if (taps)
        any_band(r, t, end, false, false, true, true);
    else
        any_band(r, t, end, false, false, true, false);
}

/* -- A whole unit -- */

static void TARGET open_part(const struct psti_pli_wave_job *job, uint32_t band, struct part *p)
{
    const struct psti_pli_wave_head *head = job->head;
    *p = (struct part){.plane = NULL};
    if (band >= head->n_bands)
        return;
    uint32_t j = band / head->bands_per_plane;
    ptrdiff_t delay = 64 * (ptrdiff_t)head->bands_per_plane * WAVE_LANES * (BITS / 8);
    p->plane = head->planes + j;
    p->to_0 = p->plane->index0 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index0);
    p->to_1 = p->plane->index1 < 0 ? 0 : -delay * ((ptrdiff_t)j - p->plane->index1);
    p->taps = taps_of(p->to_0 == 0 ? 0 : p->plane->a, p->to_1 == 0 ? 0 : p->plane->b);
}

static bool has_taps(const struct psti_pli_wave_plane *plane)
{
    return plane->a != 0 || plane->b != 0;
}
static bool has_filters(const struct part *p)
{
    return p->plane && p->plane->predictor == PSTI_PLI_PREDICT_FILTERS;
}

/* Writes the filters of one band to the tables, from byte `shift` of each half on. */
static void add_filters(struct rebuild *r, const struct psti_pli_wave_job *job,
                        const struct part *p, uint32_t band, uint32_t shift)
{
    if (!has_filters(p))
        return;
    uint32_t columns = (job->unit->width + 15) / 16;
    uint32_t rows = (job->unit->height + 15) / 16;
    uint32_t first_row = 2 * (band % job->head->bands_per_plane);
    for (uint32_t half = 0; half < 2 && first_row + half < rows; half++) {
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t number = p->plane->filters[(first_row + half) * columns + c];
            uint32_t at = 16 * half + shift + c;
            if (number == 0) {
                r->filters[C_MED][at] = 255;
                r->any_med = true;
                continue;
            }
            const struct psti_pli_filter *f = &psti_pli_filters[p->plane->list][number - 1];
            r->filters[C_L][at] = (uint8_t)(32 - f->k[0] - f->k[1] - f->k[2] - f->k[3] - f->k[4]);
            for (uint32_t k = 0; k < 5; k++)
                r->filters[C_U + k][at] = (uint8_t)f->k[k];
            r->filters[C_A][at] = p->to_0 == 0 ? 0 : (uint8_t)f->a;
            r->filters[C_B][at] = p->to_1 == 0 ? 0 : (uint8_t)f->b;
        }
    }
}

static void open_filters(struct rebuild *r, const struct psti_pli_wave_job *job, uint32_t k)
{
    if (!has_filters(&r->front) && !has_filters(&r->rear))
        return;
    memset(r->filters, 0, sizeof r->filters);
    r->any_med = false;
    add_filters(r, job, &r->front, k, 0);
    add_filters(r, job, &r->rear, k - 1, 4);
}

static void TARGET rebuild_band(struct rebuild *r, const struct psti_pli_wave_job *job, uint32_t k,
                                uint32_t t, uint32_t end)
{
    const struct psti_pli_wave_head *head = job->head;
    bool first = k < head->n_bands && k % head->bands_per_plane == 0;
    open_part(job, k, &r->front);
    open_part(job, k - 1, &r->rear);
    open_filters(r, job, k);
    if (r->front.plane && r->rear.plane && r->front.plane != r->rear.plane) {
        r->any_taps = has_taps(r->front.plane) || has_taps(r->rear.plane);
        mixed_band(r, t, end);
        return;
    }
    if (!r->front.plane)
        r->front = r->rear;
    bool taps = has_taps(r->front.plane);
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
        filters_band(r, t, end, first, r->front.to_0 != 0 || r->front.to_1 != 0);
    }
}

/* Makes the samples of a unit. The rows of samples before step 0 must be set. */
INLINE void rebuild_unit(const struct psti_pli_wave_job *job)
{
    struct rebuild r; /* only partly initialised, because most units have no filters */
    r.memory = job->memory;
    r.last = job->unit->width - 1u;
    r.bands_per_plane = job->head->bands_per_plane;
    for (uint32_t t = 0; t < job->head->n_steps; t += 64) {
        uint32_t end = t + 64 < job->head->n_steps ? t + 64 : job->head->n_steps;
        rebuild_band(&r, job, t >> 6, t, end);
        end_band(r.memory, t, end);
    }
}
