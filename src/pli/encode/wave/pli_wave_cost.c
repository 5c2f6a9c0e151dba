/* pli_wave_cost.c - the cost of residuals in their contexts, for high efforts of PLI's wave mode.
 *
 * Predictions are first chosen without tables. The tokens of that choice give the image's tables,
 * and with these tables this file computes the costs. It works in the caller's memory, and in
 * integers, because files must not depend on the machine. */
#include "pli/encode/pli_encode_kernels.h"

#include <string.h>

enum { EDGE = PSTI_WAVE_EDGE, BLOCK = PSTI_WAVE_BLOCK };

/* Returns the address of the activities from a position on, in their padded rows. */
static const uint8_t *activities_at(const struct psti_wave_work *work, uint32_t plane, uint32_t y,
                                    uint32_t column)
{
    return work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD + column;
}

/* An area of tokens: `height` rows from y on, `columns` columns from `column` on. */
struct block {
    uint32_t y, column, height, columns;
};
/* Returns the tokens of a block of 16x16 samples, cut off at the unit's edge. */
static struct block block_at(const struct psti_pli_source *source, uint32_t y, uint32_t x)
{
    uint32_t per_token = EDGE / psti_pli_wave_columns(source->bits);
    uint32_t height = source->height - y, width = source->width - x;
    height = height < BLOCK ? height : BLOCK;
    width = width < BLOCK ? width : BLOCK;
    return (struct block){.y = y,
                          .column = x / per_token,
                          .height = height,
                          .columns = (width + per_token - 1) / per_token};
}

/* Returns the cost of the first `n` of 8 pairs. `g` are the activities around them. `z` is `extra`
 * of section 5.6. */
static uint32_t cost_pairs(const uint8_t *g, const uint8_t *z, uint32_t n, const uint16_t *costs)
{
    enum { S = PSTI_WAVE_PADDED };
    uint8_t energies[BLOCK / 2];
    uint32_t sum = 0;
    for (int i = 0; i < BLOCK / 2; i++)
        energies[i] = psti_pli_wave_pair_energy(g[i - 1], g[i - S], g[i - S - 1], g[i - 2 * S],
                                                g[i - 2 * S + 1], z[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += costs[psti_pli_wave_cost_index(8, psti_pli_wave_bucket[0][energies[i]], g[i])];
    return sum;
}

/* Returns the cost of the first `n` of 16 samples of 16 bits. */
static uint32_t cost_samples(enum psti_pli_energy kind, const uint8_t *g, const uint8_t *g0,
                             const uint8_t *g1, uint32_t n, const uint16_t *costs)
{
    enum { S = PSTI_WAVE_PADDED };
    uint8_t energies[BLOCK];
    uint32_t sum = 0;
    for (int i = 0; i < BLOCK; i++)
        energies[i] = psti_pli_wave_energy(kind, g[i - 1], g[i - S], g[i - S - 1], g[i - S + 1],
                                           g[i - 2 * S], g[i - 2], g0[i], g1[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += costs[psti_pli_wave_cost_index(16, psti_pli_wave_bucket[1][energies[i]], g[i])];
    return sum;
}

uint32_t psti_pli_wave_cost_u8_c(const struct psti_wave_cost_rows *rows, const uint16_t *costs)
{
    uint32_t sum = 0;
    for (size_t at = 0, y = 0; y < rows->n_rows; y++, at += PSTI_WAVE_PADDED)
        for (uint32_t i = 0; i < rows->columns; i += BLOCK / 2) {
            uint32_t n = rows->columns - i < BLOCK / 2 ? rows->columns - i : BLOCK / 2;
            sum += cost_pairs(rows->g + at + i, rows->z + at + i, n, costs);
        }
    return sum;
}

uint32_t psti_pli_wave_cost_u16_c(const struct psti_wave_cost_rows *rows, const uint16_t *costs)
{
    uint32_t sum = 0;
    for (size_t at = 0, y = 0; y < rows->n_rows; y++, at += PSTI_WAVE_PADDED)
        for (uint32_t i = 0; i < rows->columns; i += BLOCK) {
            uint32_t n = rows->columns - i < BLOCK ? rows->columns - i : BLOCK;
            sum += cost_samples(rows->kind, rows->g + at + i, rows->g0 + at + i, rows->g1 + at + i,
                                n, costs);
        }
    return sum;
}

static uint32_t cost_block(const struct psti_pli_source *source, uint32_t plane,
                           enum psti_pli_energy kind, const struct block *b,
                           const struct psti_wave_work *work)
{
    struct psti_wave_cost_rows rows = {.kind = kind,
                                       .g = activities_at(work, plane, b->y, b->column),
                                       .g0 = activities_at(work, 0, b->y, b->column),
                                       .g1 = activities_at(work, 1, b->y, b->column),
                                       .n_rows = b->height,
                                       .columns = b->columns};
    rows.z = kind == PSTI_PLI_ENERGY_THIRD ? rows.g1 : rows.g - 2;
    return psti_pli_wave_kernels_of(source)->cost(&rows, work->costs);
}

static void set_activities(const struct psti_pli_source *source, uint32_t plane,
                           const int16_t *residuals, struct psti_wave_work *work)
{
    memset(work->padded[plane], 0, sizeof work->padded[plane]);
    for (uint32_t y = 0; y < source->height; y++)
        psti_pli_wave_kernels_of(source)->find_activities(
            residuals + (size_t)y * EDGE, source->width,
            work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD);
}

uint32_t psti_pli_wave_cost_plane(const struct psti_pli_source *source, uint32_t plane,
                                  enum psti_pli_energy kind, const int16_t *residuals,
                                  struct psti_wave_work *work)
{
    const struct block whole = {
        .height = source->height,
        .columns = (source->width * psti_pli_wave_columns(source->bits) + EDGE - 1) / EDGE};
    set_activities(source, plane, residuals, work);
    return cost_block(source, plane, kind, &whole, work);
}

/* Stores a filter's activities in the block and returns their cost. The costs of the blocks to the
 * right and below also change, but are not counted, because those blocks are chosen later. */
static uint32_t try_filter(const struct psti_pli_source *source, uint32_t plane,
                           enum psti_pli_energy kind, const struct block *b, uint32_t number,
                           struct psti_wave_work *work)
{
    for (uint32_t y = 0; y < b->height; y++) {
        uint8_t *to = work->padded[plane][PSTI_WAVE_PAD_ROWS + b->y + y] + PSTI_WAVE_PAD;
        memcpy(to + b->column, work->filtered_g[number] + (size_t)y * EDGE + b->column, b->columns);
    }
    return cost_block(source, plane, kind, b, work);
}

static uint8_t choose(const struct psti_pli_source *source, uint32_t plane,
                      enum psti_pli_energy kind, const struct block *b, struct psti_wave_work *work)
{
    uint32_t best = 0, best_cost = UINT32_MAX;
    for (uint32_t number = 0; number <= PSTI_PLI_N_FILTERS; number++) {
        uint32_t cost = try_filter(source, plane, kind, b, number, work);
        if (cost < best_cost) {
            best_cost = cost;
            best = number;
        }
    }
    (void)try_filter(source, plane, kind, b, best, work);
    return (uint8_t)best;
}

void psti_pli_wave_refine(const struct psti_pli_source *source, uint32_t plane,
                          enum psti_pli_energy kind, const int16_t *g, const int16_t *r,
                          uint8_t *filters, int16_t *residuals, struct psti_wave_work *work)
{
    const struct psti_wave_kernels *kernels = psti_pli_wave_kernels_of(source);
    const struct psti_wave_rows *rows = kernels->rows;
    uint32_t columns = (source->width + BLOCK - 1) / BLOCK;
    uint32_t list = psti_pli_wave_filter_list(plane, source->transform);
    set_activities(source, plane, residuals, work);
    for (uint32_t y = 0; y < source->height; y += BLOCK) {
        uint32_t n_rows = source->height - y < BLOCK ? source->height - y : BLOCK;
        size_t at = (size_t)y * EDGE;
        rows->gather(source, plane, y, work);
        for (uint32_t number = 0; number <= PSTI_PLI_N_FILTERS; number++) {
            struct psti_wave_candidate c = psti_pli_wave_filter(list, number);
            rows->find_residuals(work, &c, n_rows, g + at, r + at, work->filtered[number]);
            for (size_t k = 0; k < (size_t)n_rows * EDGE; k += EDGE)
                kernels->find_activities(work->filtered[number] + k, source->width,
                                         work->filtered_g[number] + k);
        }
        for (uint32_t i = 0; i < columns; i++) {
            uint32_t x = i * BLOCK;
            struct block b = block_at(source, y, x);
            uint8_t number = choose(source, plane, kind, &b, work);
            filters[(y / BLOCK) * columns + i] = number;
            for (uint32_t k = 0; k < n_rows; k++)
                memcpy(residuals + at + k * EDGE + x, work->filtered[number] + k * EDGE + x,
                       BLOCK * sizeof *residuals);
        }
    }
}
