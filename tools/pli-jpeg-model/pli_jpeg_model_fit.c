/* pli_jpeg_model_fit.c - fits weights, biases and limits.
 *
 * The coefficients of a side and a k are gathered in cells. A cell is a combination of the six
 * features that occurs, with the weights of the symbols (distance and token) seen there. Weights
 * begin as a weighted least-squares estimate of g from the features. Then three fits take turns:
 * limits, the best ones for the counts by x (dynamic programming); tables; and for each side and
 * k weights and bias, moved one at a time as long as the tokens cost less. */
#include "pli_jpeg_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_PARAMETERS = N_FEATURES + 1, /* weights and the bias */
    N_KEYS = 1 << 3 * N_FEATURES,  /* combinations of tokens of six features */
    SCALE = 24,                    /* scale of the first weights: x is 12 times the estimate */
    WEIGHT_MAX = 127,
    BIAS_MAX = 4095, /* with this limit, sums of products fit in 16 bits */
    ROUNDS_MAX = 40,
    STEP_MAX = 8
};

static const double ENOUGH = 2e-5; /* relative: fitting ends after a round that gains less */
static const double SMALL = 0.02;  /* added to each symbol's count before a logarithm */

const int token_values[N_AC_TOKENS] = {0, 1, 2, 4, 7, 12, 20, 32};

struct cell {
    uint8_t values[N_PARAMETERS]; /* g of the features, then 1 for the bias */
    uint32_t first, n;            /* entries of the cell */
};

struct entry {
    uint32_t symbol;
    double weight;
};

/* The coefficients k of one side. */
struct plane {
    struct cell *cells;
    size_t n_cells;
    struct entry *entries;
    bool moves[N_PARAMETERS]; /* false: stays 0, because there is no such feature or it repeats an
                                 earlier one */
};

void buckets_of(const int limits[N_LIMITS], uint8_t buckets[N_INDICES])
{
    for (int x = 0; x < N_INDICES; x++) {
        int b = 0;
        while (b < N_LIMITS && limits[b] <= x)
            b++;
        buckets[x] = (uint8_t)b;
    }
}

/* Gathers the weights of symbols by key, from all blocks that train. */
static void gather(const struct corpus *corpus, int side, int k, const uint8_t *positions,
                   double *weights)
{
    memset(weights, 0, (size_t)N_KEYS * N_SYMBOLS * sizeof *weights);
    for (size_t i = 0; i < corpus->n_images; i++) {
        const struct image *image = &corpus->images[i];
        double weight = image_weight(image);
        for (size_t b = image->first; image->trains && b < image->first + image->n; b++) {
            const struct block *block = &corpus->blocks[b];
            if (block->side != side || block->end < k)
                continue;
            uint32_t key = 0;
            for (int f = 0; f < N_FEATURES; f++)
                key |= (uint32_t)block->tokens[positions[f]] << 3 * f;
            int symbol = N_AC_TOKENS * distance_of(block->end - k) + block->tokens[k];
            weights[(size_t)key * N_SYMBOLS + (size_t)symbol] += weight;
        }
    }
}

static size_t count_entries(const double *weights, size_t *n_cells)
{
    size_t n = 0;
    *n_cells = 0;
    for (size_t key = 0; key < N_KEYS; key++) {
        size_t before = n;
        for (int s = 0; s < N_SYMBOLS; s++)
            n += weights[key * N_SYMBOLS + (size_t)s] > 0;
        *n_cells += n > before;
    }
    return n;
}

static bool make_plane(const double *weights, const uint8_t *positions, struct plane *plane)
{
    size_t n = count_entries(weights, &plane->n_cells), at = 0;
    plane->cells = calloc(plane->n_cells + 1, sizeof *plane->cells);
    plane->entries = calloc(n + 1, sizeof *plane->entries);
    if (plane->cells == NULL || plane->entries == NULL)
        return false;
    struct cell *cell = plane->cells;
    for (size_t key = 0; key < N_KEYS; key++) {
        cell->first = (uint32_t)at;
        for (uint32_t s = 0; s < N_SYMBOLS; s++)
            if (weights[key * N_SYMBOLS + s] > 0)
                plane->entries[at++] = (struct entry){s, weights[key * N_SYMBOLS + s]};
        cell->n = (uint32_t)at - cell->first;
        if (cell->n == 0)
            continue;
        for (int f = 0; f < N_FEATURES; f++)
            cell->values[f] = (uint8_t)token_values[key >> 3 * f & 7];
        (cell++)->values[N_FEATURES] = 1;
    }
    for (int f = 0; f < N_FEATURES; f++) {
        plane->moves[f] = positions[f] != 0;
        for (int e = 0; e < f; e++)
            plane->moves[f] = plane->moves[f] && positions[e] != positions[f];
    }
    plane->moves[N_FEATURES] = true;
    return true;
}

static bool make_planes(const struct corpus *corpus, struct plane planes[2][64])
{
    double *weights = malloc((size_t)N_KEYS * N_SYMBOLS * sizeof *weights);
    bool good = weights != NULL;
    for (int side = 0; side < 2; side++)
        for (int k = 1; good && k < 64; k++) {
            uint8_t positions[N_FEATURES];
            features_of(k, positions);
            gather(corpus, side, k, positions, weights);
            good = make_plane(weights, positions, &planes[side][k]);
        }
    free(weights);
    return good;
}

/* Solves a * x = b for a symmetric a, in place: b becomes x. */
static void solve(double a[N_PARAMETERS][N_PARAMETERS], double b[N_PARAMETERS])
{
    for (int i = 0; i < N_PARAMETERS; i++) {
        a[i][i] += 1e-6 + 1e-4 * a[i][i]; /* so that no matrix is singular */
        for (int row = 0; row < N_PARAMETERS; row++) {
            double factor = a[row][i] / a[i][i];
            if (row == i || factor == 0)
                continue;
            for (int column = i; column < N_PARAMETERS; column++)
                a[row][column] -= factor * a[i][column];
            b[row] -= factor * b[i];
        }
    }
    for (int i = 0; i < N_PARAMETERS; i++)
        b[i] /= a[i][i];
}

static int bounded(double v, int most) { return (int)fmax(-most, fmin(most, floor(v + 0.5))); }

static void estimate(const struct plane *plane, int weights[N_FEATURES], int *bias)
{
    double a[N_PARAMETERS][N_PARAMETERS] = {0}, b[N_PARAMETERS] = {0};
    for (size_t c = 0; c < plane->n_cells; c++) {
        const struct cell *cell = &plane->cells[c];
        double activity = 1.5, n = 0, sum = 0;
        for (uint32_t e = 0; e < cell->n; e++) {
            const struct entry *entry = &plane->entries[cell->first + e];
            n += entry->weight;
            sum += entry->weight * token_values[entry->symbol % N_AC_TOKENS];
        }
        for (int f = 0; f < N_FEATURES; f++)
            activity += cell->values[f];
        for (int p = 0; p < N_PARAMETERS; p++) {
            double v = plane->moves[p] ? cell->values[p] / (activity * activity) : 0;
            b[p] += v * sum;
            for (int q = 0; q < N_PARAMETERS; q++)
                a[p][q] += plane->moves[q] ? v * n * cell->values[q] : 0;
        }
    }
    solve(a, b);
    for (int f = 0; f < N_FEATURES; f++)
        weights[f] = bounded(b[f] * SCALE, WEIGHT_MAX);
    *bias = bounded(b[N_FEATURES] * SCALE, BIAS_MAX);
}

static int weighted_sum(const struct cell *cell, const int weights[N_FEATURES], int bias)
{
    for (int f = 0; f < N_FEATURES; f++)
        bias += weights[f] * cell->values[f];
    return bias;
}

static void count_by_index(struct plane planes[2][64], const struct constants *constants,
                           double counts[N_INDICES][N_SYMBOLS])
{
    memset(counts, 0, N_INDICES * sizeof counts[0]);
    for (int side = 0; side < 2; side++)
        for (int k = 1; k < 64; k++) {
            const struct plane *plane = &planes[side][k];
            for (size_t c = 0; c < plane->n_cells; c++) {
                const struct cell *cell = &plane->cells[c];
                int x = clamp_index(
                    weighted_sum(cell, constants->weights[side][k], constants->biases[side][k]));
                for (uint32_t e = 0; e < cell->n; e++) {
                    const struct entry *entry = &plane->entries[cell->first + e];
                    counts[x][entry->symbol] += entry->weight;
                }
            }
        }
}

/* Returns the bits of the counted tokens with the best table for each distance. */
static double entropy(const double counts[N_SYMBOLS])
{
    double bits = 0;
    for (int d = 0; d < N_DISTANCES; d++) {
        double sum = 0;
        for (int t = 0; t < N_AC_TOKENS; t++) {
            double n = counts[d * N_AC_TOKENS + t];
            sum += n;
            bits -= n > 0 ? n * log2(n) : 0;
        }
        bits += sum > 0 ? sum * log2(sum) : 0;
    }
    return bits;
}

/* Finds the limits with which the counts cost least; returns their bits. */
static double fit_limits(double counts[N_INDICES][N_SYMBOLS], int limits[N_LIMITS])
{
    static double one[N_INDICES][N_INDICES + 1];      /* cost of a bucket of [from, to) */
    static double best[N_BUCKETS + 1][N_INDICES + 1]; /* least cost of n buckets up to x */
    static int from[N_BUCKETS + 1][N_INDICES + 1];    /* first value of the last of these buckets */
    for (int x = 0; x < N_INDICES; x++) {
        double sums[N_SYMBOLS] = {0};
        for (int to = x + 1; to <= N_INDICES; to++) {
            for (int s = 0; s < N_SYMBOLS; s++)
                sums[s] += counts[to - 1][s];
            one[x][to] = entropy(sums);
        }
    }
    for (int to = 0; to <= N_INDICES; to++)
        best[0][to] = to == 0 ? 0 : INFINITY;
    for (int n = 1; n <= N_BUCKETS; n++)
        for (int to = 0; to <= N_INDICES; to++) {
            best[n][to] = INFINITY;
            for (int x = 0; x < to; x++)
                if (best[n - 1][x] + one[x][to] < best[n][to]) {
                    best[n][to] = best[n - 1][x] + one[x][to];
                    from[n][to] = x;
                }
        }
    for (int n = N_BUCKETS, to = N_INDICES; n > 1; n--) {
        to = from[n][to];
        limits[n - 2] = to;
    }
    return best[N_BUCKETS][N_INDICES];
}

/* Computes the cost of each symbol in each bucket. */
static void fit_costs(double counts[N_INDICES][N_SYMBOLS], const uint8_t buckets[N_INDICES],
                      double costs[N_SYMBOLS][N_BUCKETS])
{
    double sums[N_BUCKETS][N_SYMBOLS] = {0};
    for (int x = 0; x < N_INDICES; x++)
        for (int s = 0; s < N_SYMBOLS; s++)
            sums[buckets[x]][s] += counts[x][s];
    for (int b = 0; b < N_BUCKETS; b++)
        for (int d = 0; d < N_DISTANCES; d++) {
            double all = 0;
            for (int t = 0; t < N_AC_TOKENS; t++)
                all += sums[b][d * N_AC_TOKENS + t] + SMALL;
            for (int t = 0; t < N_AC_TOKENS; t++)
                costs[d * N_AC_TOKENS + t][b] = log2(all / (sums[b][d * N_AC_TOKENS + t] + SMALL));
        }
}

/* State of a search for the parameters of one plane: costs of its cells by bucket, and their
 * sums. */
struct search {
    const struct plane *plane;
    const uint8_t *buckets;
    double (*costs)[N_BUCKETS]; /* [cell] */
    int *sums;                  /* [cell] */
};

/* Returns the plane's bits after a change of parameter p by `step`. */
static double bits_if(const struct search *search, int p, int step)
{
    double bits = 0;
    for (size_t c = 0; c < search->plane->n_cells; c++) {
        int sum = search->sums[c] + step * search->plane->cells[c].values[p];
        bits += search->costs[c][search->buckets[clamp_index(sum)]];
    }
    return bits;
}

/* Applies the best step of parameter p; returns the bits. */
static double improve(const struct search *search, int p, double bits, int most, int *parameter)
{
    int best_step = 0;
    for (int size = 1; size <= STEP_MAX; size *= 2)
        for (int step = -size; step <= size; step += 2 * size) {
            if (abs(*parameter + step) > most)
                continue;
            double now = bits_if(search, p, step);
            if (now < bits) {
                bits = now;
                best_step = step;
            }
        }
    *parameter += best_step;
    for (size_t c = 0; best_step != 0 && c < search->plane->n_cells; c++)
        search->sums[c] += best_step * search->plane->cells[c].values[p];
    return bits;
}

static bool descend(const struct plane *plane, const double costs[N_SYMBOLS][N_BUCKETS],
                    const uint8_t *buckets, int weights[N_FEATURES], int *bias)
{
    struct search search = {plane, buckets, calloc(plane->n_cells + 1, sizeof *search.costs),
                            calloc(plane->n_cells + 1, sizeof *search.sums)};
    bool good = search.costs != NULL && search.sums != NULL;
    for (size_t c = 0; good && c < plane->n_cells; c++) {
        const struct cell *cell = &plane->cells[c];
        search.sums[c] = weighted_sum(cell, weights, *bias);
        for (uint32_t e = 0; e < cell->n; e++) {
            const struct entry *entry = &plane->entries[cell->first + e];
            for (int b = 0; b < N_BUCKETS; b++)
                search.costs[c][b] += entry->weight * costs[entry->symbol][b];
        }
    }
    double bits = good ? bits_if(&search, N_FEATURES, 0) : 0, before = INFINITY;
    while (good && bits < before) {
        before = bits;
        for (int f = 0; f < N_FEATURES; f++)
            if (plane->moves[f])
                bits = improve(&search, f, bits, WEIGHT_MAX, &weights[f]);
        bits = improve(&search, N_FEATURES, bits, BIAS_MAX, bias);
    }
    free(search.costs);
    free(search.sums);
    return good;
}

static bool fit_rounds(struct plane planes[2][64], struct constants *out)
{
    static double counts[N_INDICES][N_SYMBOLS], costs[N_SYMBOLS][N_BUCKETS];
    uint8_t buckets[N_INDICES];
    double bits = INFINITY;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        double before = bits;
        count_by_index(planes, out, counts);
        bits = fit_limits(counts, out->limits);
        printf("round %2d: AC tokens %.0f\n", round, bits);
        fflush(stdout);
        if (before - bits < ENOUGH * bits)
            break;
        buckets_of(out->limits, buckets);
        fit_costs(counts, buckets, costs);
        for (int side = 0; side < 2; side++)
            for (int k = 1; k < 64; k++)
                if (!descend(&planes[side][k], costs, buckets, out->weights[side][k],
                             &out->biases[side][k]))
                    return false;
    }
    return true;
}

bool constants_fit(const struct corpus *corpus, struct constants *out)
{
    static struct plane planes[2][64];
    static struct counts counts;
    memset(out, 0, sizeof *out);
    memset(&counts, 0, sizeof counts);
    if (!make_planes(corpus, planes))
        return false;
    for (int side = 0; side < 2; side++)
        for (int k = 1; k < 64; k++)
            estimate(&planes[side][k], out->weights[side][k], &out->biases[side][k]);
    if (!fit_rounds(planes, out))
        return false;
    for (size_t i = 0; i < corpus->n_images; i++)
        if (corpus->images[i].trains)
            counts_add(corpus, &corpus->images[i], out, image_weight(&corpus->images[i]), &counts);
    tables_fit(&counts, out);
    return true;
}
