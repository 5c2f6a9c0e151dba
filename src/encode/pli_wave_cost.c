/* pli_wave_cost.c - what residuals cost in context, for high efforts of PLI's wave mode.
 *
 * Costs are those of the tables that a first choice led to. Works in the caller's memory; in
 * integers, so that files do not depend on the machine. */
#include "encode/pli_wave_encode_int.h"

#include "base/cpu.h"

#include <string.h>

enum { EDGE = PSTI_WAVE_EDGE, BLOCK = PSTI_WAVE_BLOCK };

/* Energies of 16 samples from (y, x) on; those beyond the unit mean nothing. */
static inline __attribute__((always_inline)) void energies_of(const struct psti_wave_work *work,
                                                              uint32_t plane,
                                                              enum psti_pli_energy kind,
                                                              uint32_t bits, uint32_t y, uint32_t x,
                                                              uint8_t *restrict energies)
{
    enum { S = PSTI_WAVE_PADDED };
    const uint8_t *g = work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD + x;
    const uint8_t *g0 = work->padded[0][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD + x;
    const uint8_t *g1 = work->padded[1][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD + x;
    for (int i = 0; i < BLOCK; i++)
        energies[i] = psti_pli_wave_energy(kind, bits, g[i - 1], g[i - S], g[i - S - 1],
                                           g[i - S + 1], g[i - 2 * S], g[i - 2], g0[i], g1[i]);
}

/* Of samples (y, x) .. (y, x + n - 1) of a plane, n at most 16. */
static uint32_t cost_row(const struct psti_wave_work *work, uint32_t plane,
                         enum psti_pli_energy kind, uint32_t bits, uint32_t y, uint32_t x,
                         uint32_t n)
{
    const uint8_t *g = work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD + x;
    const uint8_t *bucket = psti_pli_wave_bucket[bits == 16];
    uint8_t energies[BLOCK];
    uint32_t sum = 0;
    if (bits == 16)
        energies_of(work, plane, kind, 16, y, x, energies);
    else if (kind == PSTI_PLI_ENERGY_FIRST)
        energies_of(work, plane, PSTI_PLI_ENERGY_FIRST, 8, y, x, energies);
    else if (kind == PSTI_PLI_ENERGY_SECOND)
        energies_of(work, plane, PSTI_PLI_ENERGY_SECOND, 8, y, x, energies);
    else
        energies_of(work, plane, PSTI_PLI_ENERGY_THIRD, 8, y, x, energies);
    for (uint32_t i = 0; i < n; i++)
        sum += work->costs[bucket[energies[i]]][g[i]];
    return sum;
}

static void set_activities(const struct psti_pli_source *source, uint32_t plane,
                           const int16_t *residuals, struct psti_wave_work *work)
{
    memset(work->padded[plane], 0, sizeof work->padded[plane]);
    for (uint32_t y = 0; y < source->height; y++) {
        uint8_t g[EDGE];
        psti_wave_find_activities(source->bits, residuals + (size_t)y * EDGE, g);
        memcpy(work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD, g, source->width);
    }
}

uint64_t psti_wave_cost_plane(const struct psti_pli_source *source, uint32_t plane,
                              enum psti_pli_energy kind, const int16_t *residuals,
                              struct psti_wave_work *work)
{
    uint64_t sum = 0;
    set_activities(source, plane, residuals, work);
    for (uint32_t y = 0; y < source->height; y++)
        for (uint32_t x = 0; x < source->width; x += BLOCK)
            sum += cost_row(work, plane, kind, source->bits, y, x,
                            source->width - x < BLOCK ? source->width - x : BLOCK);
    return sum;
}

/* A block of a plane, cut at the unit's edge. */
struct block {
    uint32_t y, x, height, width;
};

/* Puts a filter's activities where the block is and says what they cost. Those of the blocks to the
 * right and below change with it, but are not counted: they are about to be chosen. */
static uint32_t try_filter(const struct psti_pli_source *source, uint32_t plane,
                           enum psti_pli_energy kind, const struct block *b, uint32_t number,
                           struct psti_wave_work *work)
{
    uint32_t sum = 0;
    for (uint32_t y = 0; y < b->height; y++) {
        uint8_t *to = work->padded[plane][PSTI_WAVE_PAD_ROWS + b->y + y] + PSTI_WAVE_PAD + b->x;
        memcpy(to, work->filtered_g[number] + (size_t)y * EDGE + b->x, b->width);
    }
    for (uint32_t y = 0; y < b->height; y++)
        sum += cost_row(work, plane, kind, source->bits, b->y + y, b->x, b->width);
    return sum;
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

void psti_wave_refine(const struct psti_pli_source *source, uint32_t plane,
                      enum psti_pli_energy kind, const int16_t *g, const int16_t *r,
                      uint8_t *filters, int16_t *residuals, struct psti_wave_work *work)
{
    const struct psti_wave_rows *rows = psti_wave_rows_for(psti_cpu_features(), source->bits);
    uint32_t columns = (source->width + BLOCK - 1) / BLOCK;
    uint32_t list = psti_pli_wave_filter_list(plane, source->transform);
    set_activities(source, plane, residuals, work);
    for (uint32_t y = 0; y < source->height; y += BLOCK) {
        uint32_t n_rows = source->height - y < BLOCK ? source->height - y : BLOCK;
        size_t at = (size_t)y * EDGE;
        rows->gather(source, plane, y, work);
        for (uint32_t number = 0; number <= PSTI_PLI_N_FILTERS; number++) {
            struct psti_wave_candidate c = psti_wave_filter(list, number);
            rows->find_residuals(work, &c, n_rows, g + at, r + at, work->filtered[number]);
            for (size_t k = 0; k < (size_t)n_rows * EDGE; k += EDGE)
                psti_wave_find_activities(source->bits, work->filtered[number] + k,
                                          work->filtered_g[number] + k);
        }
        for (uint32_t i = 0; i < columns; i++) {
            uint32_t x = i * BLOCK, width = source->width - x < BLOCK ? source->width - x : BLOCK;
            struct block b = {.y = y, .x = x, .height = n_rows, .width = width};
            uint8_t number = choose(source, plane, kind, &b, work);
            filters[(y / BLOCK) * columns + i] = number;
            for (uint32_t k = 0; k < n_rows; k++)
                memcpy(residuals + at + k * EDGE + x, work->filtered[number] + k * EDGE + x,
                       BLOCK * sizeof *residuals);
        }
    }
}
