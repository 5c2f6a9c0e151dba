/* pli_wave_steps_u8.c - 8-bit samples of a wave unit in plain C, step by step (docs/format-pli.md,
 * 5.3).
 *
 * In: residuals of all steps; out: samples, a line for each lane. All 32 lanes of a step are
 * predicted alike, from the rows of the steps before: the loops have 32 rounds and no conditions,
 * on bytes and, where products are summed, on 16 bits, so that compilers turn them into vectors.
 * After eight steps the rows of lanes are turned into lines. Pure functions, any thread. */
#include "pli/decode/wave/pli_wave_steps.h"

#include "base/bits.h"

#include <string.h>

enum {
    LANES = PSTI_PLI_LANES,
    EDGE = PSTI_PLI_WAVE_EDGE,
    LINE = PSTI_PLI_WAVE_LINE,
    TURNED = 8, /* steps that are turned at once */
    HISTORY = 2 * TURNED,
    HISTORY_PREFIX = 16,
    HISTORY_STRIDE = 64 /* of HISTORY_PREFIX + LANES */
};

/* The lanes of a band: their plane, NULL outside the cylinder, and how many steps before residuals
 * of planes 0 and 1 at the same place are, 0 if those are not coded. */
struct side {
    const struct psti_pli_wave_plane *plane;
    uint32_t back_0, back_1;
};

/* One unit. */
struct steps {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    uint8_t (*residuals)[LANES]; /* [t][lane] */
    struct psti_pli_wave_lanes lanes;
    struct side front, rear; /* lanes up to the front lane, and the others: */
    bool alike;              /* what predicts these predicts those, too */
    /* Samples of the last steps, as lanes; [-2], [-1] of a row hold what lanes 0 and 1 find above.
     */
    _Alignas(64) uint8_t rows[HISTORY][HISTORY_STRIDE];
};

/* What the predictions of a step are made of. */
struct view {
    const uint8_t *before[5];                /* rows 1 to 4 steps before */
    const uint8_t *column0, *column1, *last; /* 255 for lanes that are there */
    const uint8_t *row0, *row1;
    const int8_t *own, *of_0, *of_1; /* residuals of the plane, and of planes 0 and 1 */
};

/* One lane of 32 set, from LANES - lane on; none from 2 * LANES on. */
static const uint8_t one_lane[3 * LANES] = {[LANES] = 255};
#define ALL_8 255, 255, 255, 255, 255, 255, 255, 255
static const uint8_t first_lanes[2 * LANES] = {ALL_8, ALL_8, ALL_8, ALL_8};
#undef ALL_8
static const int8_t no_residuals[LANES];

static uint8_t *row_of(struct steps *s, uint32_t step)
{
    return s->rows[step % HISTORY] + HISTORY_PREFIX;
}

static struct side find_side(const struct steps *s, uint32_t band)
{
    const struct psti_pli_wave_plane *plane = psti_pli_wave_plane_of(s->head, band);
    const uint32_t delta = EDGE * s->head->bands_per_plane;
    struct side side = {.plane = plane};
    if (plane) {
        const int index = (int)(plane - s->head->planes);
        side.back_0 = plane->index0 < 0 ? 0 : delta * (uint32_t)(index - plane->index0);
        side.back_1 = plane->index1 < 0 ? 0 : delta * (uint32_t)(index - plane->index1);
    }
    return side;
}

/* Whether planes have the same predictor, and nothing else to predict by. */
static bool are_alike(const struct psti_pli_wave_plane *a, const struct psti_pli_wave_plane *b)
{
    if (!a || !b || a == b)
        return a == b;
    return a->predictor == b->predictor && a->predictor != PSTI_PLI_PREDICT_FILTERS &&
           (a->a | a->b | b->a | b->b) == 0;
}

static const int8_t *residuals_of(const struct steps *s, uint32_t t, uint32_t back)
{
    return back == 0 ? no_residuals : (const int8_t *)s->residuals[t - back];
}

/* -- Neighbours of lane i's sample, as 5.3 states them -- */

static inline uint8_t pick(uint8_t mask, uint8_t a, uint8_t b)
{
    return (uint8_t)(b ^ (mask & (a ^ b)));
}
static inline uint8_t left(const struct view *v, int i)
{
    return pick(v->column0[i], v->before[2][i - 1], v->before[1][i]);
}
static inline uint8_t up(const struct view *v, int i)
{
    return pick(v->row0[i], left(v, i), v->before[2][i - 1]);
}
static inline uint8_t up_left(const struct view *v, int i)
{
    uint8_t inside = pick(v->column0[i], v->before[2][i - 1], v->before[3][i - 1]);
    return pick(v->row0[i], left(v, i), inside);
}
static inline uint8_t up_right(const struct view *v, int i)
{
    return pick(v->last[i], up(v, i), pick(v->row0[i], left(v, i), v->before[1][i - 1]));
}
static inline uint8_t up_up(const struct view *v, int i)
{
    return pick(v->row0[i] | v->row1[i], up(v, i), v->before[4][i - 2]);
}
static inline uint8_t left_left(const struct view *v, int i)
{
    return pick(v->column0[i] | v->column1[i], left(v, i), v->before[2][i]);
}

static inline uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }
static inline uint8_t most(uint8_t a, uint8_t b) { return a > b ? a : b; }
static inline uint8_t med(uint8_t l, uint8_t u, uint8_t ul)
{
    return (uint8_t)(l + u - least(most(ul, least(l, u)), most(l, u)));
}

/* -- Predictors: predictions of 32 lanes -- */

static inline void predict_left(const struct view *view, uint8_t *restrict p)
{
    const struct view v = *view;
    for (int i = 0; i < LANES; i++)
        p[i] = left(&v, i);
}
static inline void predict_up(const struct view *view, uint8_t *restrict p)
{
    const struct view v = *view;
    for (int i = 0; i < LANES; i++)
        p[i] = up(&v, i);
}
static inline void predict_average(const struct view *view, uint8_t *restrict p)
{
    const struct view v = *view;
    for (int i = 0; i < LANES; i++)
        p[i] = (uint8_t)((left(&v, i) + up(&v, i)) >> 1);
}
static inline void predict_med(const struct view *view, uint8_t *restrict p)
{
    const struct view v = *view;
    for (int i = 0; i < LANES; i++)
        p[i] = med(left(&v, i), up(&v, i), up_left(&v, i));
}

/* What the taps add; sums and products are modulo 2^16. */
static inline void add_taps(const struct view *view, int a, int b, uint8_t *restrict p)
{
    const int8_t *g = view->of_0, *r = view->of_1;
    for (int i = 0; i < LANES; i++)
        p[i] = (uint8_t)(p[i] + ((int16_t)(a * g[i] + b * r[i] + 16) >> 5));
}

static inline void predict_by_filters(const struct view *view,
                                      const struct psti_pli_wave_lanes *lanes, uint8_t *restrict p)
{
    const struct view v = *view;
    uint8_t by_med[LANES];
    predict_med(view, by_med);
    for (int i = 0; i < LANES; i++) {
        int l = left(&v, i), x = 32 * l + 16;
        x += lanes->k[0][i] * (up(&v, i) - l);
        x += lanes->k[1][i] * (up_left(&v, i) - l);
        x += lanes->k[2][i] * (up_right(&v, i) - l);
        x += lanes->k[3][i] * (up_up(&v, i) - l);
        x += lanes->k[4][i] * (left_left(&v, i) - l);
        x += lanes->k[5][i] * v.of_0[i];
        x += lanes->k[6][i] * v.of_1[i];
        int16_t q = (int16_t)((int16_t)x >> 5);
        q = q < 0 ? 0 : q;
        q = q > UINT8_MAX ? UINT8_MAX : q;
        p[i] = pick((uint8_t)lanes->is_med[i], by_med[i], (uint8_t)q);
    }
}

/* Samples of step t of all lanes, as if they were on that side. */
static void make_samples(const struct steps *s, uint32_t t, const struct side *side,
                         struct view *view, uint8_t *restrict to)
{
    const struct psti_pli_wave_plane *plane = side->plane;
    uint8_t p[LANES];
    view->of_0 = residuals_of(s, t, side->back_0);
    view->of_1 = residuals_of(s, t, side->back_1);
    switch (plane->predictor) {
    case PSTI_PLI_PREDICT_LEFT:
        predict_left(view, p);
        break;
    case PSTI_PLI_PREDICT_UP:
        predict_up(view, p);
        break;
    case PSTI_PLI_PREDICT_AVERAGE:
        predict_average(view, p);
        break;
    case PSTI_PLI_PREDICT_FILTERS:
        predict_by_filters(view, &s->lanes, p);
        break;
    default:
        predict_med(view, p);
    }
    if (plane->a != 0 || plane->b != 0)
        add_taps(view, plane->a, plane->b, p);
    for (int i = 0; i < LANES; i++)
        to[i] = (uint8_t)(p[i] + view->own[i]);
}

static void find_view(struct steps *s, uint32_t t, struct view *view)
{
    struct psti_pli_wave_edges edges = psti_pli_wave_find_edges(s->unit, s->head, t);
    if (edges.start >= 0)
        row_of(s, t - 2)[-1] = (uint8_t)edges.start;
    for (uint32_t i = 1; i <= 4; i++)
        view->before[i] = row_of(s, t - i);
    view->column0 = one_lane + edges.column0;
    view->column1 = one_lane + edges.column1;
    view->last = one_lane + edges.last;
    view->row0 = one_lane + edges.row0;
    view->row1 = one_lane + edges.row1;
    view->own = (const int8_t *)s->residuals[t];
}

static void rebuild(struct steps *s, uint32_t t)
{
    uint8_t *to = row_of(s, t);
    struct view view;
    find_view(s, t, &view);
    if (s->rear.plane)
        make_samples(s, t, &s->rear, &view, to);
    if (s->front.plane && !s->alike) {
        const uint8_t *mask = first_lanes + (LANES - 1) - psti_pli_wave_front_lane(t);
        uint8_t own[LANES];
        make_samples(s, t, &s->front, &view, own);
        for (int i = 0; i < LANES; i++)
            to[i] = pick(mask[i], own[i], to[i]);
    }
    to[-1] = to[LANES - 1];
    to[-2] = to[LANES - 2];
}

/* -- Rows to lines -- */

/* Bytes of 8 numbers, as rows, change places with their columns. */
static inline void turn_8x8(uint64_t *v)
{
    for (uint32_t k = 0; k < 4; k++) {
        uint64_t d = ((v[k] >> 32) ^ v[k + 4]) & 0xffffffff;
        v[k] ^= d << 32;
        v[k + 4] ^= d;
    }
    for (uint32_t k = 0; k < 8; k += k & 1 ? 3 : 1) {
        uint64_t d = ((v[k] >> 16) ^ v[k + 2]) & 0x0000ffff0000ffff;
        v[k] ^= d << 16;
        v[k + 2] ^= d;
    }
    for (uint32_t k = 0; k < 8; k += 2) {
        uint64_t d = ((v[k] >> 8) ^ v[k + 1]) & 0x00ff00ff00ff00ff;
        v[k] ^= d << 8;
        v[k + 1] ^= d;
    }
}

/* Steps t, t + 1, ... t + 7. */
static void turn_steps(struct steps *s, uint32_t t, uint8_t *lines)
{
    for (size_t l = 0; l < LANES; l += TURNED) {
        uint64_t v[TURNED];
        for (uint32_t i = 0; i < TURNED; i++)
            v[i] = psti_load_u64(row_of(s, t + i) + l);
        turn_8x8(v);
        for (size_t i = 0; i < TURNED; i++)
            psti_store_u64(lines + (l + i) * LINE + t, v[i]);
    }
}

void psti_pli_wave_steps_8(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                           uint8_t (*residuals)[PSTI_PLI_LANES], uint8_t *lines)
{
    struct steps s = {.unit = unit, .head = head, .residuals = residuals};
    bool has_filters = false;
    for (uint32_t j = 0; j < head->n_coded; j++)
        has_filters |= head->planes[j].predictor == PSTI_PLI_PREDICT_FILTERS;
    for (uint32_t t = 0; t < head->n_steps; t++) {
        if (t % EDGE == 0) {
            s.front = find_side(&s, t / EDGE);
            s.rear = find_side(&s, t / EDGE - 1);
            s.alike = are_alike(s.front.plane, s.rear.plane);
        }
        if (has_filters)
            psti_pli_wave_update_lanes(unit, head, t, &s.lanes);
        rebuild(&s, t);
        if (t % TURNED == TURNED - 1)
            turn_steps(&s, t + 1 - TURNED, lines);
    }
    turn_steps(&s, head->n_steps / TURNED * TURNED, lines);
}
