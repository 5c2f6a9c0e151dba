/* pli_model_filters.c - trains the dictionary of filters, by a kind of k-means.
 *
 * Blocks of 16x16 samples are assigned to the filter that predicts them with the fewest bits, or
 * to MED, which is always there. Each filter is fitted anew to its blocks by least squares, with
 * small weights for large errors, and rounded to 1/32. One filter becomes 2, 4, .. 63 by
 * splitting. Planes follow each other: plane 1 sees the residuals that plane 0's filters leave,
 * and so on. All images weigh alike. */
#include "pli_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS_PER_SIZE = 5,
    ROUNDS_AT_END = 12,
    COEFFICIENT_MAX = 127,
    PART = 4, /* edge of the parts of a block whose magnitudes are summed */
    BLOCK_PARTS = BLOCK_SAMPLES / (PART * PART),
    PART_OFFSET = 5
};

struct block {
    int16_t features[N_COEFFICIENTS][BLOCK_SAMPLES];
    int16_t left[BLOCK_SAMPLES], sample[BLOCK_SAMPLES], med[BLOCK_SAMPLES];
    struct unit *unit;
    int y0, x0;
    float weight;
    int chosen; /* 0 MED, else a filter */
};

/* Returns log2(v) of a positive whole number, linear between powers of two, in units of 2^-15. */
static inline int32_t log2_of(int v)
{
    float f = (float)v;
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (bits - 0x3f800000) >> 8;
}

static void filter_block(const struct block *block, const struct filter *filter,
                         int16_t residuals[BLOCK_SAMPLES])
{
    int16_t k[N_COEFFICIENTS];
    for (int j = 0; j < N_COEFFICIENTS; j++)
        k[j] = (int16_t)filter->k[j];
    for (int i = 0; i < BLOCK_SAMPLES; i++) {
        int16_t x = (int16_t)(32 * block->left[i] + 16);
        for (int j = 0; j < N_COEFFICIENTS; j++)
            x = (int16_t)(x + (int16_t)(k[j] * block->features[j][i]));
        int16_t p = (int16_t)(x >> 5);
        p = p < 0 ? 0 : p > 255 ? 255 : p;
        residuals[i] = (int8_t)(block->sample[i] - p);
    }
}

/* Sums magnitudes of the parts of 4x4, row by row. */
static void part_sums(const int16_t residuals[BLOCK_SAMPLES], int sums[BLOCK_PARTS])
{
    int16_t columns[BLOCK];
    for (int part = 0; part < BLOCK_PARTS; part += BLOCK / PART) {
        const int16_t *r = residuals + part / (BLOCK / PART) * PART * BLOCK;
        for (int x = 0; x < BLOCK; x++) {
            int16_t sum = 0;
            for (int y = 0; y < PART; y++)
                sum = (int16_t)(sum + abs(r[y * BLOCK + x]));
            columns[x] = sum;
        }
        for (int x = 0; x < BLOCK / PART; x++)
            sums[part + x] = columns[PART * x] + columns[PART * x + 1] + columns[PART * x + 2] +
                             columns[PART * x + 3];
    }
}

/* Estimates the bits of an adaptive coder except for a constant: 16 log2(5 + sum of magnitudes)
 * for each part. */
static int64_t block_cost(const int16_t residuals[BLOCK_SAMPLES])
{
    int sums[BLOCK_PARTS];
    int64_t cost = 0;
    part_sums(residuals, sums);
    for (int part = 0; part < BLOCK_PARTS; part++)
        cost += log2_of(PART_OFFSET + sums[part]);
    return cost * PART * PART;
}

static void fill_block(struct block *block, int plane)
{
    const struct unit *unit = block->unit;
    for (int i = 0; i < BLOCK_SAMPLES; i++) {
        int y = block->y0 + i / BLOCK, x = block->x0 + i % BLOCK, o = y * EDGE + x;
        struct neighbours n = neighbours_at(unit->planes[plane], y, x, unit->width);
        block->features[0][i] = (int16_t)(n.up - n.left);
        block->features[1][i] = (int16_t)(n.up_left - n.left);
        block->features[2][i] = (int16_t)(n.up_right - n.left);
        block->features[3][i] = (int16_t)(n.up_up - n.left);
        block->features[4][i] = (int16_t)(n.left_left - n.left);
        block->features[5][i] = plane > 0 ? unit->residuals[0][o] : 0;
        block->features[6][i] = plane > 1 ? unit->residuals[1][o] : 0;
        block->left[i] = (int16_t)n.left;
        block->sample[i] = (int16_t)unit->planes[plane][o];
        block->med[i] = (int8_t)(block->sample[i] - predict_med(&n));
    }
}

/* Assigns each block to its best filter; returns the mean cost of a sample in bits. */
static double assign(struct block *blocks, size_t n_blocks, const struct filter *filters, int n)
{
    int16_t residuals[BLOCK_SAMPLES];
    double sum = 0, weights = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        struct block *block = &blocks[b];
        int64_t least = block_cost(block->med);
        block->chosen = 0;
        for (int f = 0; f < n; f++) {
            filter_block(block, &filters[f], residuals);
            int64_t cost = block_cost(residuals);
            if (cost < least) {
                least = cost;
                block->chosen = f + 1;
            }
        }
        sum += block->weight * (double)least / (1 << 15) / BLOCK_SAMPLES;
        weights += block->weight;
    }
    return sum / weights;
}

struct equations {
    double a[N_COEFFICIENTS][N_COEFFICIENTS], b[N_COEFFICIENTS];
    double weight;
};

/* Adds a block's samples, with weights that make the squares approximate the cost: 1 / (mean
 * magnitude of the part * (that + own magnitude)), with the filter's present residuals. */
static void add_block(struct equations *equations, const struct block *block,
                      const struct filter *filter)
{
    int16_t residuals[BLOCK_SAMPLES];
    int sums[BLOCK_PARTS];
    filter_block(block, filter, residuals);
    part_sums(residuals, sums);
    for (int i = 0; i < BLOCK_SAMPLES; i++) {
        int part = i / BLOCK / PART * (BLOCK / PART) + i % BLOCK / PART;
        double mean = (PART_OFFSET + sums[part]) / (double)(PART * PART);
        double w = block->weight / (mean * (0.5 * mean + abs(residuals[i])));
        double f[N_COEFFICIENTS], target = block->sample[i] - block->left[i];
        for (int j = 0; j < N_COEFFICIENTS; j++)
            f[j] = block->features[j][i];
        for (int j = 0; j < N_COEFFICIENTS; j++) {
            for (int k = 0; k <= j; k++)
                equations->a[j][k] += w * f[j] * f[k];
            equations->b[j] += w * f[j] * target;
        }
    }
    equations->weight += block->weight;
}

/* Solves by Cholesky with a small ridge; unused features get 0. */
static void solve(struct equations *e, double x[N_COEFFICIENTS])
{
    enum { N = N_COEFFICIENTS };
    double l[N][N] = {{0}}, y[N];
    for (int i = 0; i < N; i++)
        e->a[i][i] += 1e-4 * e->a[i][i] + 1e-6;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++) {
            double s = e->a[i][j];
            for (int k = 0; k < j; k++)
                s -= l[i][k] * l[j][k];
            l[i][j] = i == j ? sqrt(fmax(s, 1e-12)) : s / l[j][j];
        }
        y[i] = e->b[i];
        for (int k = 0; k < i; k++)
            y[i] -= l[i][k] * y[k];
        y[i] /= l[i][i];
    }
    for (int i = N - 1; i >= 0; i--) {
        x[i] = y[i];
        for (int k = i + 1; k < N; k++)
            x[i] -= l[k][i] * x[k];
        x[i] /= l[i][i];
    }
}

/* True if products of two bytes each, added in pairs, fit in 16 bits. Vector units add them so
 * (maddubs), with L's own coefficient first. */
static bool fits(const int *k)
{
    int own = 32 - k[0] - k[1] - k[2] - k[3] - k[4];
    int pairs[4][2] = {{own, k[0]}, {k[1], k[2]}, {k[3], k[4]}, {k[5], k[6]}};
    for (int i = 0; i < 4; i++) {
        int a = pairs[i][0], b = pairs[i][1];
        int above = (a > 0 ? a : 0) + (b > 0 ? b : 0), below = (a < 0 ? a : 0) + (b < 0 ? b : 0);
        if (above > 127 || below < -128)
            return false;
    }
    return true;
}

/* Rounds to 1/32. Coefficients that do not fit are shrunk together. */
static void round_filter(const double x[N_COEFFICIENTS], struct filter *out)
{
    for (double scale = 1; scale > 0; scale -= 0.05) {
        for (int j = 0; j < N_COEFFICIENTS; j++)
            out->k[j] = (int)fmax(-COEFFICIENT_MAX, fmin(COEFFICIENT_MAX, rint(x[j] * scale * 32)));
        if (fits(out->k))
            return;
    }
}

/* Fits every filter to its blocks. A filter with almost no blocks becomes a neighbour of the
 * filter with the most. */
static void refit(const struct block *blocks, size_t n_blocks, struct filter *filters, int n,
                  bool all)
{
    static struct equations equations[N_FILTERS];
    memset(equations, 0, sizeof equations);
    double total = 0;
    for (size_t b = 0; b < n_blocks; b++) {
        int f = all ? 0 : blocks[b].chosen - 1;
        if (f >= 0)
            add_block(&equations[f], &blocks[b], &filters[f]);
        total += blocks[b].weight;
    }
    int most = 0;
    for (int f = 1; f < n; f++)
        if (equations[f].weight > equations[most].weight)
            most = f;
    for (int f = 0; f < n; f++) {
        double x[N_COEFFICIENTS];
        if (equations[f].weight < 0.002 * total / n) {
            struct filter near = filters[most];
            near.k[f % 5] += f % 2 ? 3 : -3;
            filters[f] = fits(near.k) ? near : filters[most];
            continue;
        }
        solve(&equations[f], x);
        round_filter(x, &filters[f]);
    }
}

/* A small deterministic generator, because the split must be the same everywhere. */
static int jitter(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (int)(*state >> 24) % 5 - 2;
}

/* Makes two filters of each while there are fewer than the limit. */
static int split(struct filter *filters, int n, uint32_t *state)
{
    int n_new = 2 * n < N_FILTERS ? 2 * n : N_FILTERS;
    for (int f = 0; n + f < n_new; f++) {
        struct filter one = filters[f], other = filters[f];
        for (int j = 0; j < N_COEFFICIENTS; j++) {
            int d = jitter(state);
            one.k[j] -= d;
            other.k[j] += d;
        }
        filters[n + f] = fits(other.k) ? other : filters[f];
        filters[f] = fits(one.k) ? one : filters[f];
    }
    return n_new;
}

static void train_plane(struct block *blocks, size_t n_blocks, int plane, struct filter *filters)
{
    uint32_t state = 1 + (uint32_t)plane;
    int n = 1;
    memset(filters, 0, N_FILTERS * sizeof filters[0]);
    filters[0].k[0] = 16;
    for (int round = 0; round < ROUNDS_PER_SIZE; round++)
        refit(blocks, n_blocks, filters, 1, true);
    for (;;) {
        struct filter best[N_FILTERS];
        double least = INFINITY;
        int rounds = n == N_FILTERS ? ROUNDS_AT_END : ROUNDS_PER_SIZE;
        for (int round = 0; round <= rounds; round++) {
            double bits = assign(blocks, n_blocks, filters, n);
            if (bits < least) {
                least = bits;
                memcpy(best, filters, sizeof best);
            }
            if (round < rounds)
                refit(blocks, n_blocks, filters, n, false);
        }
        memcpy(filters, best, sizeof best);
        fprintf(stderr, "plane %d: %2d filters: %.4f\n", plane, n, least);
        if (n == N_FILTERS)
            break;
        n = split(filters, n, &state);
    }
}

/* Orders the filters so that the first n are the best n beside MED, by greedy choice. */
static bool order_filters(const struct block *blocks, size_t n_blocks, struct filter *filters)
{
    float *costs = malloc(n_blocks * (N_FILTERS + 1) * sizeof *costs);
    if (costs == NULL)
        return false;
    int16_t residuals[BLOCK_SAMPLES];
    for (size_t b = 0; b < n_blocks; b++) {
        float *cost = costs + b * (N_FILTERS + 1);
        cost[N_FILTERS] = (float)block_cost(blocks[b].med); /* the least so far */
        for (int f = 0; f < N_FILTERS; f++) {
            filter_block(&blocks[b], &filters[f], residuals);
            cost[f] = (float)block_cost(residuals);
        }
    }
    for (int place = 0; place < N_FILTERS; place++) {
        double gains[N_FILTERS] = {0};
        int best = place;
        for (size_t b = 0; b < n_blocks; b++) {
            const float *cost = costs + b * (N_FILTERS + 1);
            for (int f = place; f < N_FILTERS; f++)
                if (cost[f] < cost[N_FILTERS])
                    gains[f] += blocks[b].weight * (double)(cost[N_FILTERS] - cost[f]);
        }
        for (int f = place; f < N_FILTERS; f++)
            if (gains[f] > gains[best])
                best = f;
        struct filter chosen = filters[best];
        filters[best] = filters[place];
        filters[place] = chosen;
        for (size_t b = 0; b < n_blocks; b++) {
            float *cost = costs + b * (N_FILTERS + 1), c = cost[best];
            cost[best] = cost[place];
            cost[place] = c;
            cost[N_FILTERS] = c < cost[N_FILTERS] ? c : cost[N_FILTERS];
        }
    }
    free(costs);
    return true;
}

static void leave_residuals(struct block *blocks, size_t n_blocks, int plane,
                            const struct filter *filters)
{
    int16_t residuals[BLOCK_SAMPLES];
    assign(blocks, n_blocks, filters, N_FILTERS);
    for (size_t b = 0; b < n_blocks; b++) {
        struct block *block = &blocks[b];
        if (block->chosen == 0)
            memcpy(residuals, block->med, sizeof residuals);
        else
            filter_block(block, &filters[block->chosen - 1], residuals);
        for (int i = 0; i < BLOCK_SAMPLES; i++)
            block->unit->residuals[plane][(block->y0 + i / BLOCK) * EDGE + block->x0 + i % BLOCK] =
                residuals[i];
    }
}

/* Collects the whole blocks of the units of 8-bit images that train. */
static size_t collect(struct corpus *corpus, struct block *blocks)
{
    size_t n = 0;
    for (size_t u = 0; u < corpus->n_units; u++) {
        struct unit *unit = &corpus->units[u];
        const struct image *image = &corpus->images[unit->image];
        if (!image->trains || image->bits != 8)
            continue;
        for (int y = 0; y + BLOCK <= unit->height; y += BLOCK)
            for (int x = 0; x + BLOCK <= unit->width; x += BLOCK) {
                struct block *block = &blocks[n++];
                block->unit = unit;
                block->y0 = y;
                block->x0 = x;
                block->weight = (float)(1e4 / image->sample_px);
            }
    }
    return n;
}

bool filters_train(struct corpus *corpus, struct dictionary *out)
{
    struct block *blocks = malloc(corpus->n_units * UNIT_BLOCKS * sizeof *blocks);
    bool good = blocks != NULL;
    if (!good)
        goto out;
    size_t n_blocks = collect(corpus, blocks), n_colour = 0;
    for (int plane = 0; plane < N_PLANES; plane++) {
        size_t n = n_blocks;
        if (plane > 0) {
            for (size_t b = n_colour = 0; b < n_blocks; b++)
                if (corpus->images[blocks[b].unit->image].channels == 3)
                    blocks[n_colour++] = blocks[b];
            n = n_blocks = n_colour;
        }
        for (size_t b = 0; b < n; b++)
            fill_block(&blocks[b], plane);
        train_plane(blocks, n, plane, out->filters[plane]);
        good = order_filters(blocks, n, out->filters[plane]);
        if (!good)
            goto out;
        leave_residuals(blocks, n, plane, out->filters[plane]);
    }
out:
    free(blocks);
    return good;
}
