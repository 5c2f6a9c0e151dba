/* pli_wave_rows.c - 8-bit samples of a wave unit in plain C, row by row (docs/format-pli.md, 5.3).
 *
 * In: the residuals of all lanes and steps; out: rows of samples. Pure functions, any thread.
 * A row is made in pieces of 16 samples: what a prediction takes from the rows above and from the
 * residuals of other planes is found for 8 at once, what it takes from the left is added one by
 * one. As each sample waits for the one before it, two rows are made in step, the second two
 * pieces behind the first. What stands outside the unit is written beside the rows, so that pieces
 * know no edges but two: the first row, which sees only what is left of it, and the second column,
 * whose LL is L. */
#include "decode/pli_wave_rows.h"

#include <string.h>

enum {
    PIECE = 16,
    STREAMS = 2,
    LAG = 2, /* pieces */
    PIECES = PSTI_PLI_WAVE_EDGE / PIECE,
    ROW = PSTI_PLI_WAVE_ROW
};

/* Unsigned, as sums and products wrap modulo 2^16. */
typedef uint16_t words_8 __attribute__((vector_size(16)));
typedef int16_t signed_words_8 __attribute__((vector_size(16)));
typedef uint8_t bytes_8 __attribute__((vector_size(8)));
typedef int8_t signed_8 __attribute__((vector_size(8)));

/* Where a piece stands. */
struct piece {
    const int8_t *own, *of_0, *of_1; /* residuals of its plane, and of planes 0 and 1 */
    const uint8_t *u, *uu;           /* rows above */
    uint8_t *to;                     /* L and LL of its first sample stand before it */
};

struct plane {
    const struct psti_pli_wave_plane *coded;
    const int8_t *residuals;           /* of row 0 */
    ptrdiff_t to_0, to_1;              /* from there to those of planes 0 and 1 */
    uint8_t *samples;                  /* (0, 0) */
    uint32_t width, height, n_columns; /* columns of blocks */
};

static const uint8_t no_row[ROW];
static const int8_t no_residuals[PSTI_PLI_WAVE_EDGE];

static inline words_8 load_samples(const uint8_t *at)
{
    bytes_8 v;
    memcpy(&v, at, sizeof v);
    return __builtin_convertvector(v, words_8);
}
static inline words_8 load_residuals(const int8_t *at)
{
    signed_8 v;
    memcpy(&v, at, sizeof v);
    return (words_8) __builtin_convertvector(v, signed_words_8);
}
static inline words_8 shift(words_8 v, int n) { return (words_8)((signed_words_8)v >> n); }
static inline words_8 times(words_8 v, int k)
{
    uint16_t f = (uint16_t)k;
    return v * (words_8){f, f, f, f, f, f, f, f};
}

/* Residuals with what the taps add to them. */
static inline words_8 tapped(const struct piece *p, const struct psti_pli_wave_plane *plane, int i)
{
    words_8 own = load_residuals(p->own + i);
    if (plane->a == 0 && plane->b == 0)
        return own;
    words_8 taps =
        times(load_residuals(p->of_0 + i), plane->a) + times(load_residuals(p->of_1 + i), plane->b);
    return own + shift(taps + 16, 5);
}

static inline void left_piece(const struct piece *p, const words_8 *e)
{
    int16_t r[PIECE];
    uint8_t *to = p->to;
    uint32_t l = to[-1];
    memcpy(r, e, sizeof r);
    for (int i = 0; i < PIECE; i++)
        to[i] = (uint8_t)(l += (uint32_t)r[i]);
}

static inline void up_piece(const struct piece *p, const words_8 *e)
{
    for (int i = 0; i < PIECE; i += 8) {
        bytes_8 v = __builtin_convertvector(load_samples(p->u + i) + e[i / 8], bytes_8);
        memcpy(p->to + i, &v, sizeof v);
    }
}

static inline void average_piece(const struct piece *p, const words_8 *e)
{
    int16_t r[PIECE];
    uint8_t *to = p->to;
    uint32_t l = to[-1];
    memcpy(r, e, sizeof r);
    for (int i = 0; i < PIECE; i++) {
        l = (uint8_t)(((l + p->u[i]) >> 1) + (uint32_t)r[i]);
        to[i] = (uint8_t)l;
    }
}

/* -- Pieces of two rows in step -- */

/* What is known of a piece before its first sample is: for filters, sums and the factors of L and
 * LL; for MED, how far the prediction may be from L. */
struct ready {
    enum { DONE, FILTER, MIDDLE } kind;
    union {
        uint16_t sums[PIECE]; /* of what stands above, and of other planes */
        struct {
            int16_t low[PIECE], high[PIECE];
        };
    };
    int16_t r[PIECE];
    uint32_t kl, kll;
    const uint8_t *u;
    uint8_t *to;
    uint32_t l, ll;
    bool at_edge;
};

static inline uint32_t filtered(uint32_t sum, uint32_t r)
{
    int32_t v = (int16_t)(uint16_t)sum >> 5;
    if (__builtin_expect((uint32_t)v > 255, 0))
        v = v < 0 ? 0 : 255;
    return (uint8_t)((uint32_t)v + r);
}

static inline void ready_filter(struct ready *o, const struct piece *p,
                                const struct psti_pli_filter *f, bool first)
{
    static const int8_t none[5];
    const int8_t *k = first ? none : f->k; /* of the rows above */
    o->kind = FILTER;
    o->kll = (uint32_t)f->k[4];
    o->kl = (uint32_t)(32 - f->k[4] - k[0] - k[1] - k[2] - k[3]);
    for (int i = 0; i < PIECE; i += 8) {
        words_8 x = times(load_samples(p->u + i), k[0]) + times(load_samples(p->u + i - 1), k[1]) +
                    times(load_samples(p->u + i + 1), k[2]) + times(load_samples(p->uu + i), k[3]) +
                    16;
        if (f->a != 0 || f->b != 0)
            x +=
                times(load_residuals(p->of_0 + i), f->a) + times(load_residuals(p->of_1 + i), f->b);
        memcpy(o->sums + i, &x, sizeof x);
        words_8 r = load_residuals(p->own + i);
        memcpy(o->r + i, &r, sizeof r);
    }
}

/* The prediction is the middle one of L, U and L + U - UL: L and as much of U - L as U - UL allows.
 */
static inline void ready_middle(struct ready *o, const struct piece *p, const words_8 *e)
{
    o->kind = MIDDLE;
    for (int i = 0; i < PIECE; i += 8) {
        words_8 d = load_samples(p->u + i) - load_samples(p->u + i - 1);
        words_8 below = d & shift(d, 15), above = d - below;
        memcpy(o->low + i, &below, sizeof below);
        memcpy(o->high + i, &above, sizeof above);
        memcpy(o->r + i, &e[i / 8], sizeof *e);
    }
}

static void run_filter(const struct ready *o)
{
    uint32_t l = o->l, ll = o->ll, kl = o->kl, kll = o->kll;
    uint8_t *to = o->to;
    for (int i = 0; i < PIECE; i++) {
        uint32_t s = filtered(o->sums[i] + kll * ll + kl * l, (uint32_t)o->r[i]);
        ll = i == 0 && o->at_edge ? s : l;
        l = s;
        to[i] = (uint8_t)s;
    }
}

static void run_middle(const struct ready *o)
{
    const uint8_t *u = o->u;
    uint8_t *to = o->to;
    int l = (int)o->l;
    for (int i = 0; i < PIECE; i++) {
        int step = u[i] - l;
        step = step < o->low[i] ? o->low[i] : step;
        step = step > o->high[i] ? o->high[i] : step;
        l = (uint8_t)(l + step + o->r[i]);
        to[i] = (uint8_t)l;
    }
}

static void run_middles(const struct ready *one, const struct ready *two)
{
    const uint8_t *u = one->u, *u2 = two->u;
    uint8_t *to = one->to, *to_2 = two->to;
    int l = (int)one->l, m = (int)two->l;
    for (int i = 0; i < PIECE; i++) {
        int step = u[i] - l, step_2 = u2[i] - m;
        step = step < one->low[i] ? one->low[i] : step;
        step_2 = step_2 < two->low[i] ? two->low[i] : step_2;
        step = step > one->high[i] ? one->high[i] : step;
        step_2 = step_2 > two->high[i] ? two->high[i] : step_2;
        l = (uint8_t)(l + step + one->r[i]);
        m = (uint8_t)(m + step_2 + two->r[i]);
        to[i] = (uint8_t)l;
        to_2[i] = (uint8_t)m;
    }
}

static inline void run(const struct ready *o)
{
    if (o->kind == FILTER)
        run_filter(o);
    else if (o->kind == MIDDLE)
        run_middle(o);
}

static void run_filters(const struct ready *one, const struct ready *two)
{
    uint32_t l = one->l, ll = one->ll, kl = one->kl, kll = one->kll;
    uint32_t m = two->l, mm = two->ll, km = two->kl, kmm = two->kll;
    uint8_t *to = one->to, *to_2 = two->to;
    for (int i = 0; i < PIECE; i++) {
        uint32_t s = filtered(one->sums[i] + kll * ll + kl * l, (uint32_t)one->r[i]);
        uint32_t z = filtered(two->sums[i] + kmm * mm + km * m, (uint32_t)two->r[i]);
        ll = i == 0 && one->at_edge ? s : l;
        mm = i == 0 && two->at_edge ? z : m;
        l = s;
        m = z;
        to[i] = (uint8_t)s;
        to_2[i] = (uint8_t)z;
    }
}

static inline void run_both(const struct ready *one, const struct ready *two)
{
    if (one->kind == FILTER && two->kind == FILTER) {
        run_filters(one, two);
    } else if (one->kind == MIDDLE && two->kind == MIDDLE) {
        run_middles(one, two);
    } else {
        run(one);
        run(two);
    }
}

static inline void make_piece(const struct plane *plane, const struct piece *p, uint32_t y,
                              uint32_t x, struct ready *o)
{
    const struct psti_pli_wave_plane *coded = plane->coded;
    uint32_t predictor = coded->predictor, number = 0;
    bool first = y == 0;
    o->kind = DONE;
    if (predictor == PSTI_PLI_PREDICT_FILTERS) {
        number =
            coded->filters[y / PSTI_PLI_WAVE_BLOCK * plane->n_columns + x / PSTI_PLI_WAVE_BLOCK];
        if (number > 0) {
            ready_filter(o, p, &psti_pli_filters[coded->list][number - 1], first);
            return;
        }
        predictor = PSTI_PLI_PREDICT_MED;
    }
    words_8 e[PIECE / 8];
    for (int i = 0; i < PIECE; i += 8)
        e[i / 8] = tapped(p, coded, i);
    if (first || predictor == PSTI_PLI_PREDICT_LEFT)
        left_piece(p, e);
    else if (predictor == PSTI_PLI_PREDICT_UP)
        up_piece(p, e);
    else if (predictor == PSTI_PLI_PREDICT_AVERAGE)
        average_piece(p, e);
    else
        ready_middle(o, p, e);
}

/* Prepares the piece at column x of row y. */
static inline void begin_piece(const struct plane *plane, uint32_t y, uint32_t x, struct ready *o)
{
    uint8_t *row = plane->samples + (size_t)y * ROW;
    const uint8_t *u = y > 0 ? row - ROW : no_row + PSTI_PLI_WAVE_ROW_BEFORE;
    const uint8_t *uu = y > 1 ? u - ROW : u;
    /* The lane of row y, and when it came to column x. */
    size_t lane = y % PSTI_PLI_LANES, band = y / PSTI_PLI_LANES;
    size_t at = lane * PSTI_PLI_WAVE_LINE + PSTI_PLI_WAVE_EDGE * band + 2 * lane + x;
    const int8_t *own = plane->residuals + at;
    struct piece p = {.own = own,
                      .of_0 = plane->to_0 == 0 ? no_residuals : own + plane->to_0,
                      .of_1 = plane->to_1 == 0 ? no_residuals : own + plane->to_1,
                      .u = u + x,
                      .uu = uu + x,
                      .to = row + x};
    if (x == 0)
        row[-1] = row[-2] = y > 0 ? u[0] : (uint8_t)plane->coded->start;
    o->u = p.u;
    o->to = p.to;
    o->l = p.to[-1];
    o->ll = p.to[-2];
    o->at_edge = x == 0;
    make_piece(plane, &p, y, x, o);
}

/* What belongs beside the row after its piece at column x. */
static inline void end_piece(const struct plane *plane, uint32_t y, uint32_t x)
{
    uint8_t *row = plane->samples + (size_t)y * ROW;
    if (x == 0)
        row[-1] = row[0]; /* UL of the row below */
    if (x + PIECE >= plane->width)
        row[plane->width] = row[plane->width - 1]; /* UR */
}

static void make_plane(const struct plane *plane)
{
    uint32_t n = PIECES * ((plane->height + STREAMS - 1) / STREAMS) + LAG;
    for (uint32_t turn = 0; turn < n; turn++) {
        struct ready one, two;
        uint32_t y = STREAMS * (turn / PIECES), x = turn % PIECES * PIECE;
        uint32_t v = turn - LAG, y2 = STREAMS * (v / PIECES) + 1, x2 = v % PIECES * PIECE;
        bool first = y < plane->height && x < plane->width;
        bool second = turn >= LAG && y2 < plane->height && x2 < plane->width;
        one.kind = two.kind = DONE;
        if (first)
            begin_piece(plane, y, x, &one);
        if (second)
            begin_piece(plane, y2, x2, &two);
        run_both(&one, &two);
        if (first)
            end_piece(plane, y, x);
        if (second)
            end_piece(plane, y2, x2);
    }
}

void psti_pli_wave_rows(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                        const int8_t *residuals, uint8_t *samples)
{
    ptrdiff_t delay = PSTI_PLI_WAVE_EDGE * (ptrdiff_t)head->bands_per_plane;
    for (uint32_t j = 0; j < head->n_coded; j++) {
        const struct psti_pli_wave_plane *coded = head->planes + j;
        struct plane plane = {
            .coded = coded,
            .residuals = residuals + (ptrdiff_t)j * delay,
            .to_0 = coded->index0 < 0 ? 0 : (coded->index0 - (ptrdiff_t)j) * delay,
            .to_1 = coded->index1 < 0 ? 0 : (coded->index1 - (ptrdiff_t)j) * delay,
            .samples = samples + coded->plane * (size_t)PSTI_PLI_WAVE_ROWS_PLANE +
                       PSTI_PLI_WAVE_ROW_BEFORE,
            .width = unit->width,
            .height = unit->height,
            .n_columns = (unit->width + PSTI_PLI_WAVE_BLOCK - 1) / PSTI_PLI_WAVE_BLOCK};
        make_plane(&plane);
    }
}
