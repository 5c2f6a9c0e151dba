/* pli_wave_plan.c - chooses the predictions of a unit of PLI's wave mode, and counts its tokens.
 *
 * Predictions are compared by an estimate of their residuals' cost: log2(1 + |r|) in 1/16 bit, as a
 * piecewise linear function, which vectors can compute for rows of residuals. Once the image has
 * tables, predictions are compared by their cost with these. Taps are fitted by least squares, then
 * tried.
 * All computations are in integers: the same pixels give the same file everywhere. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/bits.h"

#include <stddef.h>
#include <string.h>

enum {
    N_SIMPLE = 4,
    EFFORT_TAPS = 3,   /* from this effort on, taps near the best ones are tried */
    EFFORT_REFINE = 5, /* from this effort on, more taps are tried, and filters block by block */
    /* A plain unit has MED and no taps in all planes and decodes faster. For that it may take 1/8
     * bit more for each sample (docs/internals/pli-encode.md has the curve). */
    PLAIN_WORTH = PSTI_WAVE_PRICE_UNIT / 8,
    FILTERS_PRICE =
        PSTI_WAVE_PRICE_UNIT * PSTI_PLI_FILTER_BITS * PSTI_PLI_WAVE_N_BLOCKS /* in 1/16 bit */
};

/* A plane that is being planned. */
struct choice {
    const struct psti_pli_source *source;
    const struct psti_wave_rows *rows;
    struct psti_wave_work *work;
    uint32_t plane, effort;
    uint32_t n_taps;
    bool dense, by_cost;
    enum psti_pli_energy kind;
    const int16_t *g, *r; /* residuals of planes 0 and 1; taps multiply them and add them to
                           * predictions */
};

static uint32_t rows_from(const struct psti_pli_source *s, uint32_t y0)
{
    return s->height - y0 < PSTI_WAVE_BLOCK ? s->height - y0 : PSTI_WAVE_BLOCK;
}

static uint64_t price_plane(const struct choice *c, const int16_t *residuals)
{
    if (c->by_cost)
        return psti_pli_wave_cost_plane(c->source, c->plane, c->kind, residuals, c->work);
    return c->rows->price(c->source, residuals);
}

static int8_t to_tap(int64_t numerator, int64_t denominator)
{
    /* The division rounds 32 * numerator / denominator. The denominator is above 0. */
    int64_t twice = 64 * numerator + denominator;
    int64_t tap = twice >= 0 ? twice / (2 * denominator)
                             : -((-twice + 2 * denominator - 1) / (2 * denominator));
    return (int8_t)(tap < -127 ? -127 : tap > 127 ? 127 : tap);
}

static struct psti_wave_moments find_moments(const struct choice *c, const int16_t *residuals)
{
    struct psti_wave_moments m = {0};
    c->rows->add_moments(c->source, c->g, c->r, residuals, &m);
    /* The product of any two of the sums, times 64, must fit in 63 bits. */
    while (m.gg >= 1 << 26 || m.rr >= 1 << 26 || m.gs >= 1 << 28 || m.gs <= -(1 << 28) ||
           m.rs >= 1 << 28 || m.rs <= -(1 << 28))
        m = (struct psti_wave_moments){m.gg >> 1, m.gr >> 1, m.rr >> 1, m.gs >> 1, m.rs >> 1};
    return m;
}

/* Fits taps by least squares: with them the residuals of planes 0 and 1 predict `residuals` as well
 * as possible. */
static void fit_taps(const struct choice *c, const int16_t *residuals, int8_t *a, int8_t *b)
{
    struct psti_wave_moments m = find_moments(c, residuals);
    int64_t determinant = m.gg * m.rr - m.gr * m.gr;
    *a = *b = 0;
    if (c->n_taps > 1 && m.rr > 0 && determinant > 0) {
        *a = to_tap(m.gs * m.rr - m.rs * m.gr, determinant);
        *b = to_tap(m.rs * m.gg - m.gs * m.gr, determinant);
    } else if (m.gg > 0) {
        *a = to_tap(m.gs, m.gg);
    } else if (c->n_taps > 1 && m.rr > 0) {
        *b = to_tap(m.rs, m.rr);
    }
}

/* Returns the cost after taps a and b are added to the residuals `from`, which belong to a
 * predictor without taps. */
static uint64_t price_taps(const struct choice *c, const int16_t *from, int a, int b)
{
    int16_t *to = c->work->trial[N_SIMPLE];
    if (!c->by_cost)
        return c->rows->price_taps(c->source, from, (int8_t)a, (int8_t)b, c->g, c->r);
    c->rows->add_taps(from, c->source->height, (int8_t)a, (int8_t)b, c->g, c->r, to);
    return price_plane(c, to);
}

/* Tries taps near those of least squares and uses them if they cost less. Returns the cost. */
static uint64_t refine_taps(const struct choice *c, struct psti_wave_plane_plan *plan,
                            uint64_t price)
{
    const int16_t *from = c->work->trial[plan->predictor - 1];
    for (int step = c->effort >= EFFORT_REFINE ? 8 : 4; step >= 1; step /= 2)
        for (uint32_t k = 0; k < 2 * c->n_taps; k++) {
            int tap[2] = {plan->a, plan->b};
            tap[k / 2] += k % 2 ? step : -step;
            if (tap[k / 2] < -INT8_MAX || tap[k / 2] > INT8_MAX)
                continue;
            uint64_t now = price_taps(c, from, tap[0], tap[1]);
            if (now >= price)
                continue;
            price = now;
            plan->a = (int8_t)tap[0];
            plan->b = (int8_t)tap[1];
        }
    return price;
}

/* Chooses the best of predictors 1..4, with taps. Returns its cost. Stores the costs without taps
 * in `prices`, and leaves the residuals without taps in work->trial. */
static uint64_t choose_simple(const struct choice *c, struct psti_wave_plane_plan *plan,
                              uint64_t prices[N_SIMPLE])
{
    struct psti_wave_work *work = c->work;
    uint64_t best_price;
    /* If filters are tried next, only MED is tried here: filters are compared with it. */
    uint32_t from = c->dense && !c->by_cost ? PSTI_PLI_PREDICT_MED - 1 : 0;
    uint32_t best = from;
    c->rows->try_simple(c->source, c->plane, from, work, prices);
    for (uint32_t i = from; i < N_SIMPLE; i++) {
        if (c->by_cost)
            prices[i] = price_plane(c, work->trial[i]);
        best = prices[i] < prices[best] ? i : best;
    }
    best_price = prices[best];
    plan->predictor = (uint8_t)(best + 1);
    plan->a = plan->b = 0;
    /* Taps change the choice of the predictor only if two predictors are nearly equal. Low efforts
     * fit taps to the best predictor only. */
    for (uint32_t i = from; c->n_taps > 0 && i < N_SIMPLE; i++) {
        int8_t a, b;
        if (i != best && (c->effort < 2 || prices[i] > prices[best] + prices[best] / 16))
            continue;
        fit_taps(c, work->trial[i], &a, &b);
        if (a == 0 && b == 0)
            continue;
        uint64_t price = price_taps(c, work->trial[i], a, b);
        if (price >= best_price)
            continue;
        best_price = price;
        plan->predictor = (uint8_t)(i + 1);
        plan->a = a;
        plan->b = b;
    }
    if (c->effort >= EFFORT_TAPS && !c->dense)
        best_price = refine_taps(c, plan, best_price);
    return best_price;
}

/* Stores the residuals of the choice of choose_simple(), which has left those without taps in
 * work->trial. */
static void apply_simple(const struct choice *c, const struct psti_wave_plane_plan *plan)
{
    const int16_t *from = c->work->trial[plan->predictor - 1];
    int16_t *to = c->work->residuals[c->plane];
    if (plan->a == 0 && plan->b == 0)
        memcpy(to, from, sizeof c->work->residuals[c->plane]);
    else
        c->rows->add_taps(from, c->source->height, plan->a, plan->b, c->g, c->r, to);
}

/* Returns the effort for filters. Estimates for 16 bits take four times as long, so the default
 * effort tries fewer filters then. */
static uint32_t spent_on_filters(const struct choice *c)
{
    return c->source->bits == 16 && c->effort == 3 ? 2 : c->effort;
}
/* Returns the distance between the rows of a block on which filters are estimated. Low efforts use
 * every second or fourth row. */
static uint32_t row_step(uint32_t effort) { return effort <= 1 ? 4 : effort <= 2 ? 2 : 1; }
/* Returns how many filters are tried, fewer at low efforts. Filters are sorted: the first n are the
 * best n. */
static uint32_t n_filters(uint32_t effort)
{
    return effort <= 1 ? 16 : effort <= 2 ? 32 : PSTI_PLI_N_FILTERS + 1;
}

/* Chooses the best filter of each block of the 16 gathered rows. */
static void choose_numbers(const struct choice *c, uint32_t y0, uint32_t columns, uint8_t *numbers)
{
    struct psti_wave_filter_prices prices;
    struct psti_wave_filter_query query = {
        .list = psti_pli_wave_filter_list(c->plane, c->source->transform),
        .n_filters = n_filters(spent_on_filters(c)),
        .n_rows = rows_from(c->source, y0),
        .step = (c->source->bits == 8 ? 2 : 1) * row_step(spent_on_filters(c)),
        .width = c->source->width,
        .g = c->g + (size_t)y0 * PSTI_WAVE_EDGE,
        .r = c->r + (size_t)y0 * PSTI_WAVE_EDGE,
    };
    psti_pli_wave_kernels_of(c->source)->price_filters(c->work, &query, &prices);
    for (uint32_t i = 0; i < columns; i++)
        numbers[i] = (uint8_t)prices.best[i];
}

/* Stores the residuals of the filters of the 16 gathered rows in work->residuals. */
static void apply_filters(const struct choice *c, uint32_t y0, const uint8_t *numbers)
{
    uint32_t list = psti_pli_wave_filter_list(c->plane, c->source->transform);
    size_t at = (size_t)y0 * PSTI_WAVE_EDGE;
    for (uint32_t x = 0; x < c->source->width; x += PSTI_WAVE_BLOCK) {
        struct psti_wave_candidate candidate =
            psti_pli_wave_filter(list, numbers[x / PSTI_WAVE_BLOCK]);
        c->rows->find_block(c->work, &candidate, rows_from(c->source, y0), x, c->g + at, c->r + at,
                            c->work->residuals[c->plane] + at);
    }
}

/* Chooses the best filter of each block. Stores their residuals in work->residuals. */
static void choose_filters(const struct choice *c, uint8_t *filters)
{
    uint32_t columns = (c->source->width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK;
    for (uint32_t y0 = 0; y0 < c->source->height; y0 += PSTI_WAVE_BLOCK) {
        uint8_t *numbers = filters + (y0 / PSTI_WAVE_BLOCK) * columns;
        c->rows->gather(c->source, c->plane, y0, c->work);
        choose_numbers(c, y0, columns, numbers);
        apply_filters(c, y0, numbers);
    }
}

static uint16_t sample_at(const struct psti_pli_source *s, uint32_t plane, size_t at)
{
    return s->bits == 8 ? ((const uint8_t *)s->planes[plane])[at]
                        : ((const uint16_t *)s->planes[plane])[at];
}

/* Sets a plane's start sample. Returns false if the plane is constant and needs no more
 * planning. */
static bool start_plane(const struct choice *c, struct psti_wave_plane_plan *plan)
{
    struct psti_wave_work *work = c->work;
    *plan = (struct psti_wave_plane_plan){.start = sample_at(c->source, c->plane, 0)};
    if (!psti_pli_plane_is_constant(c->source, c->plane))
        return true;
    memset(work->residuals[c->plane], 0, sizeof work->residuals[c->plane]);
    return false;
}

static void plan_plane(const struct choice *c, struct psti_wave_plane_plan *plan)
{
    struct psti_wave_work *work = c->work;
    uint64_t prices[N_SIMPLE];
    if (!start_plane(c, plan))
        return;
    uint64_t price = choose_simple(c, plan, prices);
    int16_t *residuals = work->residuals[c->plane];
    struct psti_wave_plane_plan filtered = {.predictor = PSTI_PLI_PREDICT_FILTERS,
                                            .start = plan->start};
    if (c->dense) {
        choose_filters(c, filtered.filters);
        if (c->by_cost && c->effort >= EFFORT_REFINE)
            psti_pli_wave_refine(c->source, c->plane, c->kind, c->g, c->r, filtered.filters,
                                 residuals, work);
    }
    if (c->dense && price_plane(c, residuals) + FILTERS_PRICE < price)
        *plan = filtered;
    else
        apply_simple(c, plan);
}

/* Counts indices. Neighbours often have the same token and context, so four tables count in turn:
 * an addition then need not wait for the store before it. */
static void count_indices(const uint16_t *indices, size_t n, struct psti_wave_work *work)
{
    for (size_t i = 0; i < n; i += 4) { /* the strides of streams are also multiples of 4 */
        uint64_t four = psti_load_u64(indices + i);
        work->counts[0][four & UINT16_MAX]++;
        work->counts[1][four >> 16 & UINT16_MAX]++;
        work->counts[2][four >> 32 & UINT16_MAX]++;
        work->counts[3][four >> 48]++;
    }
}

static void count(const struct psti_pli_source *source, const struct psti_wave_plan *plan,
                  struct psti_wave_work *work, struct psti_pli_wave_counts *counts)
{
    uint32_t n_bands = 0;
    uint32_t log2 = psti_pli_wave_token_bits(source->bits);
    for (uint32_t p = 0; p < source->channels; p++)
        if (plan->planes[p].predictor != PSTI_PLI_PREDICT_CONSTANT)
            n_bands += psti_pli_wave_plane_bands(source->height);
    memset(work->counts, 0, sizeof work->counts);
    count_indices(plan->streams, psti_pli_wave_n_records(source->bits, n_bands), work);
    for (uint32_t c = 0; c < PSTI_PLI_N_CONTEXTS; c++)
        for (uint32_t i = 0; i < psti_pli_wave_n_tokens(source->bits); i++)
            for (uint32_t k = 0; k < 4; k++)
                counts->n[c][i] += work->counts[k][(c << log2) + i];
}

size_t psti_pli_wave_plan_nbytes(uint8_t channels, uint8_t bits)
{
    size_t n = 2 * psti_pli_wave_n_records(bits, 2u * channels);
    return psti_round_up(offsetof(struct psti_wave_plan, streams) + n * sizeof(uint16_t),
                         _Alignof(struct psti_wave_plan));
}

size_t psti_pli_wave_work_nbytes(void) { return sizeof(struct psti_wave_work); }

static struct choice open_choice(const struct psti_pli_source *source, uint32_t plane,
                                 uint32_t effort, struct psti_wave_work *work)
{
    uint32_t n_taps = psti_pli_wave_n_taps(plane, source->transform);
    return (struct choice){.source = source,
                           .rows = psti_pli_wave_kernels_of(source)->rows,
                           .work = work,
                           .plane = plane,
                           .effort = effort,
                           .n_taps = n_taps,
                           .g = n_taps > 0 ? work->residuals[0] : work->zeros,
                           .r = n_taps > 1 ? work->residuals[1] : work->zeros};
}

/* Returns whether a unit should be plain. `price` is its cost with MED, and `saved` is the saving
 * of other predictions. A file saves more than these estimates: 1 + 1 / p times as much, with p
 * bits per sample. */
static bool suits_plain(uint64_t saved, uint64_t price, uint64_t n_samples)
{
    return saved * (price + PSTI_WAVE_PRICE_UNIT * n_samples) <= PLAIN_WORTH * n_samples * price;
}

/* Plans a plain unit with its residuals. Returns true if it should stay plain. The saving of other
 * predictions is computed as with effort 1, with MED in the planes before. So the decoding speed of
 * a file does not depend on the effort. */
static bool plan_plain(const struct psti_pli_source *source, struct psti_wave_plan *p,
                       struct psti_wave_work *work)
{
    uint64_t saved = 0, price = 0, n_samples = 0;
    for (uint32_t i = 0; i < source->channels; i++) {
        const struct choice choice = open_choice(source, i, 1, work);
        struct psti_wave_plane_plan other;
        uint64_t prices[N_SIMPLE];
        if (!start_plane(&choice, &p->planes[i]))
            continue;
        uint64_t best = choose_simple(&choice, &other, prices);
        p->planes[i].predictor = PSTI_PLI_PREDICT_MED;
        apply_simple(&choice, &p->planes[i]);
        saved += prices[PSTI_PLI_PREDICT_MED - 1] - best;
        price += prices[PSTI_PLI_PREDICT_MED - 1];
        n_samples += source->height * source->width;
    }
    return suits_plain(saved, price, n_samples);
}

static void plan_planes(const struct psti_pli_source *source, bool dense, uint32_t effort,
                        bool by_cost, struct psti_wave_plan *p, struct psti_wave_work *work)
{
    bool first = true;
    for (uint32_t i = 0; i < source->channels; i++) {
        struct choice choice = open_choice(source, i, effort, work);
        choice.dense = dense;
        choice.by_cost = by_cost;
        choice.kind = psti_pli_wave_energy_kind(i, source->transform, first);
        plan_plane(&choice, &p->planes[i]);
        if (by_cost) /* stores this plane's activities, on which the contexts of later planes
                      * depend */
            (void)psti_pli_wave_cost_plane(source, i, choice.kind, work->residuals[i], work);
        first = first && p->planes[i].predictor == PSTI_PLI_PREDICT_CONSTANT;
    }
}

void psti_pli_wave_plan(const struct psti_pli_source *source, bool dense, uint32_t effort,
                        const struct psti_pli_wave_codes *codes, void *plan,
                        struct psti_pli_wave_counts *counts, void *work_)
{
    struct psti_wave_work *work = work_;
    struct psti_wave_plan *p = plan;
    memset(work->zeros, 0, sizeof work->zeros);
    if (codes)
        memcpy(work->costs, codes->costs, sizeof work->costs);
    if (dense || source->bits > 8 || !plan_plain(source, p, work))
        plan_planes(source, dense, effort, codes != NULL, p, work);
    psti_pli_wave_tokenise(source, p, work);
    count(source, p, work, counts);
}
