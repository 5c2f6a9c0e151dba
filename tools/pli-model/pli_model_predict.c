/* pli_model_predict.c - the format's prediction, and an encoder's choices: for each plane of a unit
 * the simple predictor, with taps or without, of the least cost; or, with a dictionary and if that
 * costs less, a filter for each block.
 *
 * The cost is the sum of the logarithms of the mean magnitude of parts of 4x4 samples. It orders
 * candidates much as a coder does whose contexts are neighbouring magnitudes. */
#include "pli_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_SIMPLE = 4,
    TAP_MAX = 127,
    RECORD_BYTES = 2, /* predictor and start sample */
    NUMBER_BITS = 6,  /* of a block's filter */
    PART = 4,         /* edge of the parts whose magnitudes are summed */
    PART_OFFSET = 5
};

struct neighbours neighbours_at(const uint16_t *plane, int y, int x, int width)
{
    const uint16_t *at = plane + y * EDGE + x;
    if (y == 0 && x == 0)
        return (struct neighbours){at[0], at[0], at[0], at[0], at[0], at[0]};
    struct neighbours n;
    if (y == 0) {
        n.left = n.up = n.up_left = n.up_right = n.up_up = at[-1];
        n.left_left = x > 1 ? at[-2] : n.left;
        return n;
    }
    n.up = at[-EDGE];
    n.left = x > 0 ? at[-1] : n.up;
    n.up_left = x > 0 ? at[-EDGE - 1] : n.up;
    n.left_left = x > 1 ? at[-2] : n.left;
    n.up_right = x + 1 < width ? at[1 - EDGE] : n.up;
    n.up_up = y > 1 ? at[-2 * EDGE] : n.up;
    return n;
}

int predict_med(const struct neighbours *n)
{
    int low = n->left < n->up ? n->left : n->up, high = n->left < n->up ? n->up : n->left;
    int middle = n->up_left < low ? low : n->up_left > high ? high : n->up_left;
    return n->left + n->up - middle;
}

int wrap(int value, int bits) { return bits == 8 ? (int8_t)value : (int16_t)value; }

/* Estimates the bits of rows y0..y1-1 and columns x0..x1-1 except for a constant. */
static double region_cost(const int16_t *residuals, int y0, int y1, int x0, int x1)
{
    double cost = 0;
    for (int y = y0; y < y1; y += PART)
        for (int x = x0; x < x1; x += PART) {
            int sum = 0, n = 0;
            for (int j = y; j < y + PART && j < y1; j++)
                for (int i = x; i < x + PART && i < x1; i++, n++)
                    sum += abs(residuals[j * EDGE + i]);
            cost += n * log2((double)PART_OFFSET / (PART * PART) + (double)sum / n);
        }
    return cost;
}

static double unit_cost(const struct unit *unit, const int16_t *residuals)
{
    return region_cost(residuals, 0, unit->height, 0, unit->width);
}

static int predict_simple(int which, const struct neighbours *n)
{
    switch (which) {
    case 0:
        return n->left;
    case 1:
        return n->up;
    case 2:
        return (n->left + n->up) >> 1;
    default:
        return predict_med(n);
    }
}

/* Fits taps that make `residuals` small, from the residuals of earlier planes: weighted least
 * squares with small weights for large errors, four rounds. */
static void fit_taps(const struct unit *unit, int plane, const int16_t *residuals, int taps[2])
{
    const int16_t *g = unit->residuals[0], *r = unit->residuals[1];
    double a = 0, b = 0;
    for (int round = 0; round < 4; round++) {
        double aa = 1e-3, ab = 0, bb = 1e-3, at = 0, bt = 0;
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                int o = y * EDGE + x;
                double u = g[o], v = plane == 2 ? r[o] : 0, t = residuals[o];
                double e = 1 + fabs(t - a * u - b * v), w = 1 / (e * e);
                aa += w * u * u;
                ab += w * u * v;
                bb += w * v * v;
                at += w * u * t;
                bt += w * v * t;
            }
        double d = aa * bb - ab * ab;
        if (d < 1e-9)
            break;
        a = (at * bb - bt * ab) / d;
        b = plane == 2 ? (bt * aa - at * ab) / d : 0;
    }
    taps[0] = (int)fmax(-TAP_MAX, fmin(TAP_MAX, rint(a * 32)));
    taps[1] = (int)fmax(-TAP_MAX, fmin(TAP_MAX, rint(b * 32)));
}

static void apply_taps(const struct unit *unit, int bits, const int taps[2],
                       const int16_t *residuals, int16_t *out)
{
    for (int y = 0; y < unit->height; y++)
        for (int x = 0; x < unit->width; x++) {
            int o = y * EDGE + x;
            int t = taps[0] * unit->residuals[0][o] + taps[1] * unit->residuals[1][o];
            out[o] = (int16_t)wrap(residuals[o] - ((t + 16) >> 5), bits);
        }
}

/* Stores the residuals of the best simple predictor in `best`; returns its cost. *side_bits are
 * not in the cost. */
static double choose_simple(const struct unit *unit, const struct image *image, int plane,
                            int16_t best[UNIT_SAMPLES], double *side_bits)
{
    static int16_t plain[UNIT_SAMPLES], tapped[UNIT_SAMPLES];
    double least = INFINITY;
    *side_bits = 8.0 * (RECORD_BYTES + plane + (image->bits == 16));
    for (int which = 0; which < N_SIMPLE; which++) {
        int taps[2] = {0, 0};
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                struct neighbours n = neighbours_at(unit->planes[plane], y, x, unit->width);
                int o = y * EDGE + x;
                plain[o] =
                    (int16_t)wrap(unit->planes[plane][o] - predict_simple(which, &n), image->bits);
            }
        const int16_t *candidate = plain;
        double cost = unit_cost(unit, plain);
        if (plane > 0) {
            fit_taps(unit, plane, plain, taps);
            apply_taps(unit, image->bits, taps, plain, tapped);
            double with_taps = unit_cost(unit, tapped);
            if (with_taps < cost) {
                cost = with_taps;
                candidate = tapped;
            }
        }
        if (cost < least) {
            least = cost;
            memcpy(best, candidate, UNIT_SAMPLES * sizeof best[0]);
        }
    }
    return least;
}

static int filter_residual(const struct unit *unit, const struct image *image, int plane,
                           const struct filter *filter, int y, int x)
{
    struct neighbours n = neighbours_at(unit->planes[plane], y, x, unit->width);
    int o = y * EDGE + x, max = (1 << image->bits) - 1;
    const int *k = filter->k;
    int v = 32 * n.left + 16 + k[0] * (n.up - n.left) + k[1] * (n.up_left - n.left) +
            k[2] * (n.up_right - n.left) + k[3] * (n.up_up - n.left) +
            k[4] * (n.left_left - n.left);
    if (plane > 0)
        v += k[5] * unit->residuals[0][o];
    if (plane > 1)
        v += k[6] * unit->residuals[1][o];
    if (image->bits == 8)
        v = (int16_t)v;
    int p = v >> 5;
    return wrap(unit->planes[plane][o] - (p < 0 ? 0 : p > max ? max : p), image->bits);
}

static int block_residual(const struct unit *unit, const struct image *image, int plane,
                          const struct dictionary *dictionary, int number, int y, int x)
{
    if (number > 0)
        return filter_residual(unit, image, plane, &dictionary->filters[plane][number - 1], y, x);
    struct neighbours n = neighbours_at(unit->planes[plane], y, x, unit->width);
    return wrap(unit->planes[plane][y * EDGE + x] - predict_med(&n), image->bits);
}

/* Stores the residuals of each block's best filter in `best`; returns the cost with
 * *side_bits. */
static double choose_filters(const struct unit *unit, const struct image *image, int plane,
                             const struct dictionary *dictionary, int16_t best[UNIT_SAMPLES],
                             double *side_bits)
{
    static int16_t tried[UNIT_SAMPLES];
    double sum = 0;
    *side_bits = 8.0 * (RECORD_BYTES + (image->bits == 16));
    for (int y0 = 0; y0 < unit->height; y0 += BLOCK)
        for (int x0 = 0; x0 < unit->width; x0 += BLOCK) {
            int y1 = y0 + BLOCK < unit->height ? y0 + BLOCK : unit->height;
            int x1 = x0 + BLOCK < unit->width ? x0 + BLOCK : unit->width;
            double least = INFINITY;
            for (int number = 0; number <= N_FILTERS; number++) {
                for (int y = y0; y < y1; y++)
                    for (int x = x0; x < x1; x++)
                        tried[y * EDGE + x] =
                            (int16_t)block_residual(unit, image, plane, dictionary, number, y, x);
                double cost = region_cost(tried, y0, y1, x0, x1);
                if (cost >= least)
                    continue;
                least = cost;
                for (int y = y0; y < y1; y++)
                    memcpy(best + y * EDGE + x0, tried + y * EDGE + x0,
                           (size_t)(x1 - x0) * sizeof best[0]);
            }
            sum += least;
            *side_bits += NUMBER_BITS;
        }
    return sum + *side_bits;
}

void unit_predict(struct unit *unit, const struct image *image, const struct dictionary *dictionary)
{
    static int16_t simple[UNIT_SAMPLES], filtered[UNIT_SAMPLES];
    unit->side_bits = 0;
    for (int c = 0; c < image->channels; c++) {
        double side = 0, filtered_side = 0;
        double cost = choose_simple(unit, image, c, simple, &side) + side;
        const int16_t *best = simple;
        if (dictionary != NULL &&
            choose_filters(unit, image, c, dictionary, filtered, &filtered_side) < cost) {
            best = filtered;
            side = filtered_side;
        }
        memcpy(unit->residuals[c], best, sizeof unit->residuals[c]);
        unit->side_bits += side;
    }
}
