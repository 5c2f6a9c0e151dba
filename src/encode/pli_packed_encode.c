/* pli_packed_encode.c - units of mode packed (docs/format-pli.md, section 4): choosing predictors
 * and taps.
 *
 * In: a unit's planes. Out: the unit's bytes, written by pli_packed_write.c. Pure; any thread. For
 * every 16 rows of a plane each predictor is tried and the one kept that costs the fewest bits,
 * those of widths included. All is done on 64 columns in 16-bit lanes; columns behind the last are
 * copies of it. */
#include "encode/pli_packed_encode.h"

#include "base/bits.h"

#include <string.h>

enum { EDGE = PSTI_PACKED_EDGE, BLOCK = 16, N_PREDICTORS = 5, ROW_GROUPS = EDGE / 8 };

/* A plane with a sample to the left and right of each row: row y begins at row[y] + 8. */
struct samples {
    uint16_t row[EDGE][EDGE + 16];
};

/* Returns the first sample. */
static uint16_t load_samples(const struct psti_pli_source *source, uint32_t p, struct samples *out)
{
    uint32_t w = source->width;
    uint16_t first = 0;
    for (uint32_t y = 0; y < source->height; y++) {
        uint16_t *row = out->row[y] + 8;
        if (source->bits == 8) {
            const uint8_t *from = (const uint8_t *)source->planes[p] + (size_t)y * EDGE;
            for (uint32_t x = 0; x < EDGE; x++)
                row[x] = from[x];
        } else {
            memcpy(row, (const uint16_t *)source->planes[p] + (size_t)y * EDGE, EDGE * 2);
        }
        for (uint32_t x = w; x <= EDGE; x++)
            row[x] = row[w - 1];
        row[-1] = row[0];
        first = y ? first : row[0];
    }
    return first;
}

static bool is_constant(const struct samples *samples, uint32_t height)
{
    uint16_t differs = 0;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < EDGE; x++)
            differs |= samples->row[y][8 + x] ^ samples->row[0][8];
    return differs == 0;
}

/* Residuals of rows `y`.. of a block, for each predictor. */
struct candidates {
    int16_t residuals[N_PREDICTORS][BLOCK][EDGE];
    uint8_t widths[N_PREDICTORS][BLOCK][ROW_GROUPS];
};

/* The averages of two numbers of 16 bits, rounded down and up, within 16 bits. */
static inline uint16_t average_down(uint16_t a, uint16_t b)
{
    return (uint16_t)((a & b) + ((a ^ b) >> 1));
}
static inline uint16_t average_up(uint16_t a, uint16_t b)
{
    return (uint16_t)((a | b) - ((a ^ b) >> 1));
}

/* Residuals of one row without taps, modulo 2^16; `x` and `u` are the row and the one above. */
static void predict_row(const uint16_t *x, const uint16_t *u, uint16_t out[N_PREDICTORS][EDGE])
{
    uint16_t smooth[EDGE + 8];
    for (int i = 0; i < EDGE; i++) {
        smooth[8 + i] = average_up(average_down(u[i - 1], u[i + 1]), u[i]);
        out[PSTI_PACKED_LEFT - 1][i] = (uint16_t)(x[i] - x[i - 1]);
        out[PSTI_PACKED_UP - 1][i] = (uint16_t)(x[i] - u[i]);
    }
    smooth[7] = 0;
    for (int i = 0; i < EDGE; i++) {
        uint16_t left = out[PSTI_PACKED_LEFT - 1][i];
        out[PSTI_PACKED_GRADIENT - 1][i] = (uint16_t)(left - u[i] + u[i - 1]);
        out[PSTI_PACKED_SMOOTH - 1][i] = (uint16_t)(x[i] - smooth[8 + i]);
        out[PSTI_PACKED_SMOOTH_GRADIENT - 1][i] = (uint16_t)(left - smooth[8 + i] + smooth[7 + i]);
    }
    out[PSTI_PACKED_LEFT - 1][0] = out[PSTI_PACKED_GRADIENT - 1][0] = out[PSTI_PACKED_UP - 1][0];
    out[PSTI_PACKED_SMOOTH_GRADIENT - 1][0] = out[PSTI_PACKED_SMOOTH - 1][0];
}

/* Row 0 is predicted from the left, whatever the predictor. */
static void predict_first_row(const uint16_t *x, uint16_t out[N_PREDICTORS][EDGE])
{
    for (int i = 0; i < EDGE; i++)
        out[0][i] = (uint16_t)(x[i] - x[i - 1]);
    for (int m = 1; m < N_PREDICTORS; m++)
        memcpy(out[m], out[0], sizeof out[0]);
}

/* What the taps add to the prediction of row `y`. */
static void tap_row(const struct psti_packed_coded *r0, const struct psti_packed_coded *r1,
                    const int8_t tap[2], uint32_t y, uint16_t *out)
{
    for (int i = 0; i < EDGE; i++)
        out[i] =
            (uint16_t)((tap[0] * r0->residuals[y][i] + 16 + tap[1] * r1->residuals[y][i]) >> 5);
}

/* Subtracts the taps' share, wraps to `bits` and returns the residuals; their groups' widths. */
static void finish_row(const uint16_t *raw, const uint16_t *taps, uint8_t bits, int16_t *residuals,
                       uint8_t *widths)
{
    uint16_t zigzag[EDGE];
    int unused = 16 - bits;
    for (int i = 0; i < EDGE; i++) {
        int16_t r = (int16_t)((uint16_t)(raw[i] - taps[i]) << unused);
        residuals[i] = (int16_t)(r >> unused);
    }
    for (int i = 0; i < EDGE; i++)
        zigzag[i] =
            (uint16_t)((uint16_t)((uint16_t)residuals[i] << 1) ^ (uint16_t)(residuals[i] >> 15));
    for (int g = 0; g < ROW_GROUPS; g++) {
        uint64_t any = psti_load_u64(zigzag + 8 * g) | psti_load_u64(zigzag + 8 * g + 4);
        any |= any >> 32;
        any |= any >> 16;
        widths[g] = (uint8_t)(31 - __builtin_clz(2 * ((uint32_t)any & UINT16_MAX) + 1));
    }
}

/* Bits that `n` groups cost below groups of width `above`. */
static uint32_t row_cost(const uint8_t *widths, const uint8_t *above, uint32_t n)
{
    uint32_t bits = 0;
    for (uint32_t g = 0; g < n; g++) {
        uint32_t d = (uint32_t)(widths[g] > above[g] ? widths[g] - above[g] : above[g] - widths[g]);
        bits += 8u * widths[g] + d + (d ? 2 : 1);
    }
    return bits;
}

/* The first width that makes row 0 cheapest. */
static uint8_t choose_first_width(const uint8_t *widths, uint32_t n, uint8_t bits)
{
    uint32_t best = UINT32_MAX;
    uint8_t choice = 0;
    for (uint8_t first = 0; first <= bits; first++) {
        uint8_t above[ROW_GROUPS];
        memset(above, first, sizeof above);
        uint32_t cost = row_cost(widths, above, n);
        if (cost < best) {
            best = cost;
            choice = first;
        }
    }
    return choice;
}

/* What a plane is coded from. */
struct task {
    const struct psti_pli_source *source;
    const struct samples *samples;
    const struct psti_packed_coded *r0, *r1; /* of planes 0 and 1, for taps */
};

static void fill_candidates(const struct task *task, const int8_t tap[2], uint32_t first_row,
                            uint32_t n_rows, struct candidates *out)
{
    uint16_t raw[N_PREDICTORS][EDGE], taps[EDGE] = {0};
    for (uint32_t k = 0; k < n_rows; k++) {
        uint32_t y = first_row + k;
        const uint16_t *row = task->samples->row[y] + 8;
        if (y == 0)
            predict_first_row(row, raw);
        else
            predict_row(row, task->samples->row[y - 1] + 8, raw);
        if (tap[0] || tap[1])
            tap_row(task->r0, task->r1, tap, y, taps);
        for (int m = 0; m < N_PREDICTORS; m++)
            finish_row(raw[m], taps, task->source->bits, out->residuals[m][k], out->widths[m][k]);
    }
}

/* Codes the plane with the taps given; returns the bits it costs. */
static uint32_t code_plane(const struct task *task, const int8_t tap[2],
                           struct psti_packed_coded *out)
{
    uint32_t groups = (task->source->width + 7) / 8, total = 0;
    struct candidates candidates;
    memcpy(out->tap, tap, 2);
    for (uint32_t first = 0; first < task->source->height; first += BLOCK) {
        uint32_t left = task->source->height - first, n = left < BLOCK ? left : BLOCK;
        uint32_t best = UINT32_MAX, choice = 0;
        fill_candidates(task, tap, first, n, &candidates);
        if (first == 0)
            out->first_width =
                choose_first_width(candidates.widths[0][0], groups, task->source->bits);
        uint8_t above[ROW_GROUPS];
        if (first == 0)
            memset(above, out->first_width, sizeof above);
        else
            memcpy(above, out->widths[first - 1], sizeof above);
        for (uint32_t m = 0; m < N_PREDICTORS; m++) {
            uint32_t cost = row_cost(candidates.widths[m][0], above, groups);
            for (uint32_t k = 1; k < n; k++)
                cost += row_cost(candidates.widths[m][k], candidates.widths[m][k - 1], groups);
            if (cost < best) {
                best = cost;
                choice = m;
            }
        }
        total += best;
        out->predictor[first / BLOCK] = (uint8_t)(choice + 1);
        memcpy(out->residuals[first], candidates.residuals[choice], n * sizeof out->residuals[0]);
        memcpy(out->widths[first], candidates.widths[choice], n * sizeof out->widths[0]);
    }
    return total;
}

/* Taps
 * ------------------------------------------------------------------------------------- */

static int8_t to_tap(double v)
{
    double t = v * 32 + (v < 0 ? -0.5 : 0.5);
    return (int8_t)(t < -PSTI_PACKED_MAX_TAP  ? -PSTI_PACKED_MAX_TAP
                    : t > PSTI_PACKED_MAX_TAP ? PSTI_PACKED_MAX_TAP
                                              : t);
}

/* The taps of least squares over residuals that are not outliers, which cost their group's width
 * whatever the taps. */
static void fit_taps(const struct task *task, const struct psti_packed_coded *coded,
                     uint32_t n_taps, int8_t tap[2])
{
    int64_t s00 = 0, s01 = 0, s11 = 0, s0 = 0, s1 = 0;
    for (uint32_t y = 1; y < task->source->height; y++) {
        const int16_t *r = coded->residuals[y], *r0 = task->r0->residuals[y];
        const int16_t *r1 = task->r1->residuals[y];
        for (uint32_t x = 0; x < task->source->width; x++) {
            s00 += r0[x] * r0[x];
            s0 += r0[x] * r[x];
            if (n_taps == 2) {
                s01 += r0[x] * r1[x];
                s11 += r1[x] * r1[x];
                s1 += r1[x] * r[x];
            }
        }
    }
    double det = (double)s00 * (double)s11 - (double)s01 * (double)s01;
    tap[0] = tap[1] = 0;
    if (n_taps == 2 && det > 0) {
        tap[0] = to_tap(((double)s0 * (double)s11 - (double)s1 * (double)s01) / det);
        tap[1] = to_tap(((double)s1 * (double)s00 - (double)s0 * (double)s01) / det);
    } else if (s00 > 0) {
        tap[0] = to_tap((double)s0 / (double)s00);
    }
}

/* Codes with other taps and keeps the cheaper; returns its cost. `other` is room for it. */
static uint32_t try_taps(const struct task *task, const int8_t tap[2], uint32_t cost,
                         struct psti_packed_coded *best, struct psti_packed_coded *other)
{
    uint32_t now = code_plane(task, tap, other);
    if (now >= cost)
        return cost;
    memcpy(best, other, sizeof *best);
    return now;
}

static void code_with_taps(const struct task *task, uint32_t n_taps, uint32_t effort,
                           struct psti_packed_coded *out)
{
    struct psti_packed_coded other = {.start = out->start};
    int8_t tap[2] = {0, 0};
    uint32_t cost = code_plane(task, tap, out);
    if (n_taps == 0 || effort < 2)
        return;
    fit_taps(task, out, n_taps, tap);
    if (tap[0] || tap[1])
        cost = try_taps(task, tap, cost, out, &other);
    for (int step = effort >= 5 ? 8 : 4; effort >= 4 && step >= (effort >= 5 ? 1 : 4); step /= 2) {
        for (uint32_t k = 0; k < 2 * n_taps; k++) {
            memcpy(tap, out->tap, 2);
            int v = tap[k / 2] + (k & 1 ? step : -step);
            if (v < -PSTI_PACKED_MAX_TAP || v > PSTI_PACKED_MAX_TAP)
                continue;
            tap[k / 2] = (int8_t)v;
            cost = try_taps(task, tap, cost, out, &other);
        }
    }
}

size_t psti_pli_packed_encode(const struct psti_pli_source *source, uint32_t effort, uint8_t *out,
                              size_t capacity)
{
    struct psti_packed_coded coded[4] = {0};
    for (uint32_t p = 0; p < source->channels; p++) {
        struct samples samples;
        struct task task = {source, &samples, &coded[0], &coded[1]};
        coded[p].start = load_samples(source, p, &samples);
        coded[p].is_constant = is_constant(&samples, source->height);
        if (!coded[p].is_constant)
            code_with_taps(&task, psti_packed_n_taps(source->transform, p), effort, &coded[p]);
    }
    return psti_pli_packed_write(source, coded, out, capacity);
}
