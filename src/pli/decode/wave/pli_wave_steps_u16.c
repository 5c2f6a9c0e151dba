/* pli_wave_steps_u16.c - 16-bit samples of a wave unit in plain C, step by step
 * (docs/format-pli.md, 5.3).
 *
 * In: residuals of all steps. Out: samples of the coded planes. All 32 lanes of a step are
 * predicted alike, from the rows of the steps before: the loops have 32 rounds and no conditions,
 * so that compilers turn them into vectors. Computed in 32 bits, as the law wants. Pure. */
#include "pli/decode/wave/pli_wave_steps.h"

#include <string.h>

enum {
    LANES = PSTI_PLI_LANES,
    EDGE = PSTI_PLI_WAVE_EDGE,
    HISTORY = 8,
    HISTORY_PREFIX = 8,
    HISTORY_STRIDE = HISTORY_PREFIX + LANES,
    LARGEST = UINT16_MAX
};

/* One unit. */
struct steps {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    const int16_t *residuals; /* [t][lane] */
    uint16_t *samples;
    struct psti_pli_wave_lanes lanes;
    /* Samples of the last steps, as lanes; [-2], [-1] of a row hold what lanes 0 and 1 find above.
     */
    int32_t rows[HISTORY][HISTORY_STRIDE];
};

static const int16_t no_residuals[LANES];

static const int16_t *residuals_of(const struct steps *s, uint32_t t,
                                   const struct psti_pli_wave_plane *plane, int index)
{
    uint32_t delta = EDGE * s->head->bands_per_plane;
    uint32_t back = delta * (uint32_t)(plane - s->head->planes - index);
    return index < 0 || t < back ? no_residuals : s->residuals + (size_t)(t - back) * LANES;
}

/* Masks of the lanes at edges in one step, 0 or -1 for each lane. */
struct edges {
    const int16_t *column0, *column1, *last, *row0, *row1;
    const int16_t *front; /* lanes in the front band */
    int32_t start;        /* sample that stands above lane 0 at (0, 0) of a plane; else -1 */
};

/* One lane of 32 set, and as many as wanted. */
static const int16_t one_lane[3 * LANES] = {[LANES] = -1};
#define X4 -1, -1, -1, -1
static const int16_t first_lanes[2 * LANES] = {X4, X4, X4, X4, X4, X4, X4, X4};
#undef X4

static void find_masks(const struct steps *s, uint32_t t, struct edges *e)
{
    struct psti_pli_wave_edges edges = psti_pli_wave_find_edges(s->unit, s->head, t);
    *e = (struct edges){
        .column0 = one_lane + edges.column0,
        .column1 = one_lane + edges.column1,
        .last = one_lane + edges.last,
        .row0 = one_lane + edges.row0,
        .row1 = one_lane + edges.row1,
        .front = first_lanes + (LANES - 1) - psti_pli_wave_front_lane(t),
        .start = edges.start,
    };
}

/* A lane enters a block of 16 columns: one in eight every second step. */
void psti_pli_wave_update_lanes(const struct psti_pli_unit *unit,
                                const struct psti_pli_wave_head *head, uint32_t t,
                                struct psti_pli_wave_lanes *lanes)
{
    uint32_t columns = (unit->width + PSTI_PLI_WAVE_BLOCK - 1) / PSTI_PLI_WAVE_BLOCK;
    if (t & 1)
        return;
    for (uint32_t l = (t >> 1) & 7; l < LANES; l += 8) {
        uint32_t u = t - 2 * l, band = u >> 6, x = u & 63;
        const struct psti_pli_wave_plane *plane = psti_pli_wave_plane_of(head, band);
        if (!plane || plane->predictor != PSTI_PLI_PREDICT_FILTERS || x >= unit->width)
            continue;
        uint32_t y = (band % head->bands_per_plane) * LANES + l;
        if (y >= unit->height)
            continue;
        uint32_t block = (y / PSTI_PLI_WAVE_BLOCK) * columns + x / PSTI_PLI_WAVE_BLOCK;
        uint32_t number = plane->filters[block];
        lanes->is_med[l] = number == 0 ? -1 : 0;
        if (number == 0)
            continue;
        const struct psti_pli_filter *filter = &psti_pli_filters[plane->list][number - 1];
        for (uint32_t k = 0; k < 5; k++)
            lanes->k[k][l] = filter->k[k];
        lanes->k[5][l] = filter->a;
        lanes->k[6][l] = filter->b;
    }
}

/* The six neighbours of each lane's sample, as 5.3 states them. */
struct near {
    _Alignas(64) int32_t l[LANES], u[LANES], ul[LANES], ur[LANES], uu[LANES], ll[LANES];
};

static int32_t *row_of(struct steps *s, uint32_t step)
{
    return s->rows[step % HISTORY] + HISTORY_PREFIX;
}

static inline int32_t pick(int32_t mask, int32_t a, int32_t b) { return (a & mask) | (b & ~mask); }

static void gather(struct steps *s, uint32_t t, const struct edges *edges, struct near *restrict n)
{
    const int32_t *r1 = row_of(s, t - 1), *r2 = row_of(s, t - 2), *r3 = row_of(s, t - 3);
    const int32_t *r4 = row_of(s, t - 4);
    const int16_t *column0 = edges->column0, *column1 = edges->column1, *last = edges->last;
    const int16_t *row0 = edges->row0, *row1 = edges->row1;
    for (int i = 0; i < LANES; i++) {
        int32_t l = r1[i], u = r2[i - 1], ul = r3[i - 1], ur = r1[i - 1], uu = r4[i - 2];
        int32_t ll = r2[i], c0 = column0[i], c1 = column1[i], y0 = row0[i], y1 = row1[i];
        l = pick(c0, u, l);
        ul = pick(c0, u, ul);
        ll = pick(c0 | c1, l, ll);
        u = pick(y0, l, u);
        n->l[i] = l;
        n->u[i] = u;
        n->ul[i] = pick(y0, l, ul);
        n->ur[i] = pick(last[i], u, pick(y0, l, ur));
        n->uu[i] = pick(y0 | y1, u, uu);
        n->ll[i] = ll;
    }
}

static inline int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t most(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t med(int32_t l, int32_t u, int32_t ul)
{
    return l + u - least(most(ul, least(l, u)), most(l, u));
}

/* Predictors 1..4 with taps; `g` and `r` are the residuals of planes 0 and 1. */
static void predict_simply(const struct psti_pli_wave_plane *plane, const struct near *n,
                           const int16_t *g, const int16_t *r, int32_t *restrict p)
{
    switch (plane->predictor) {
    case PSTI_PLI_PREDICT_LEFT:
        memcpy(p, n->l, sizeof n->l);
        break;
    case PSTI_PLI_PREDICT_UP:
        memcpy(p, n->u, sizeof n->u);
        break;
    case PSTI_PLI_PREDICT_AVERAGE:
        for (uint32_t i = 0; i < LANES; i++)
            p[i] = (n->l[i] + n->u[i]) >> 1;
        break;
    default:
        for (uint32_t i = 0; i < LANES; i++)
            p[i] = med(n->l[i], n->u[i], n->ul[i]);
    }
    if (plane->a == 0 && plane->b == 0)
        return;
    for (uint32_t i = 0; i < LANES; i++)
        p[i] += (plane->a * g[i] + plane->b * r[i] + 16) >> 5;
}

static void filter(const struct steps *s, const struct near *n, const int16_t *g, const int16_t *r,
                   int32_t *restrict p)
{
    for (uint32_t i = 0; i < LANES; i++) {
        int32_t l = n->l[i], x = 32 * l + 16;
        x += s->lanes.k[0][i] * (n->u[i] - l);
        x += s->lanes.k[1][i] * (n->ul[i] - l);
        x += s->lanes.k[2][i] * (n->ur[i] - l);
        x += s->lanes.k[3][i] * (n->uu[i] - l);
        x += s->lanes.k[4][i] * (n->ll[i] - l);
        x += s->lanes.k[5][i] * g[i];
        x += s->lanes.k[6][i] * r[i];
        p[i] = pick(s->lanes.is_med[i], med(l, n->u[i], n->ul[i]), least(most(x >> 5, 0), LARGEST));
    }
}

static void predict(const struct psti_pli_wave_plane *plane, const struct steps *s, uint32_t t,
                    const struct near *n, int32_t *restrict p)
{
    const int16_t *g = residuals_of(s, t, plane, plane->index0);
    const int16_t *r = residuals_of(s, t, plane, plane->index1);
    if (plane->predictor == PSTI_PLI_PREDICT_FILTERS)
        filter(s, n, g, r, p);
    else
        predict_simply(plane, n, g, r, p);
}

/* Where lane 0 of the front band and the lanes of the band behind it write in step t: lane l at
 * + l * (EDGE - 2). */
static size_t band_sample(const struct steps *s, uint32_t band)
{
    uint32_t bands = s->head->bands_per_plane;
    return s->head->planes[band / bands].plane * (size_t)PSTI_PLI_WAVE_STEPS_PLANE +
           (band % bands) * (size_t)(LANES * EDGE);
}

/* Lanes to the rows of their planes: lane l is 2 columns behind lane l - 1, one row below. */
static void scatter(const struct steps *s, uint32_t t, const int32_t *from)
{
    uint32_t band = t >> 6, n = psti_pli_wave_front_lane(t) + 1;
    if (band < s->head->n_bands) {
        uint16_t *to = s->samples + band_sample(s, band) + (t & 63);
        for (uint32_t l = 0; l < n; l++)
            to[l * (EDGE - 2)] = (uint16_t)from[l];
    }
    if (band > 0) {
        uint16_t *to = s->samples + band_sample(s, band - 1) + (t & 63) + EDGE;
        for (uint32_t l = n; l < LANES; l++)
            to[l * (EDGE - 2)] = (uint16_t)from[l];
    }
}

/* Samples of step t of all lanes; they go to the history and to their planes. */
static void rebuild(struct steps *s, uint32_t t)
{
    const struct psti_pli_wave_plane *front = psti_pli_wave_plane_of(s->head, t >> 6);
    const struct psti_pli_wave_plane *rear = psti_pli_wave_plane_of(s->head, (t >> 6) - 1);
    const int16_t *residuals = s->residuals + (size_t)t * LANES;
    _Alignas(64) int32_t p[LANES] = {0}, q[LANES];
    int32_t *to = row_of(s, t);
    struct near n;
    struct edges edges;
    find_masks(s, t, &edges);
    if (edges.start >= 0)
        row_of(s, t - 2)[-1] = edges.start;
    gather(s, t, &edges, &n);
    if (front)
        predict(front, s, t, &n, p);
    if (rear && rear != front) {
        predict(rear, s, t, &n, q);
        for (uint32_t i = 0; i < LANES; i++)
            p[i] = front ? pick(edges.front[i], p[i], q[i]) : q[i];
    }
    for (uint32_t i = 0; i < LANES; i++)
        to[i] = (p[i] + residuals[i]) & LARGEST;
    to[-1] = to[LANES - 1];
    to[-2] = to[LANES - 2];
    scatter(s, t, to);
}

void psti_pli_wave_steps(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                         const int16_t *residuals, uint16_t *samples)
{
    struct steps s = {.unit = unit, .head = head, .residuals = residuals, .samples = samples};
    for (uint32_t t = 0; t < head->n_steps; t++) {
        psti_pli_wave_update_lanes(unit, head, t, &s.lanes);
        rebuild(&s, t);
    }
}
