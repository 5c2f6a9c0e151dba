/* pli_wave_tokens.c - from a plan to residuals, tokens and contexts, in rows.
 *
 * Tokens stand in rows with zeros around them, so that contexts at the unit's edges need no
 * thought. Pure; works in the caller's memory. */
#include "encode/pli_wave_encode_int.h"

#include "base/cpu.h"

#include <string.h>

void psti_wave_apply_filters_16(const struct psti_pli_source *source, uint32_t plane, uint32_t y0,
                                const uint8_t *numbers, const int16_t *g, const int16_t *r,
                                const struct psti_wave_work *work, int16_t *spare, int16_t *out)
{
    uint32_t columns = (source->width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK;
    uint32_t list = psti_pli_wave_filter_list(plane, source->transform);
    const struct psti_wave_rows *rows = psti_wave_rows_for(psti_cpu_features(), source->bits);
    uint32_t n_rows = source->height - y0;
    size_t at = (size_t)y0 * PSTI_WAVE_EDGE;
    n_rows = n_rows < PSTI_WAVE_BLOCK ? n_rows : PSTI_WAVE_BLOCK;
    for (uint32_t i = 0; i < columns; i++) {
        bool done = false;
        for (uint32_t j = 0; j < i; j++)
            done = done || numbers[j] == numbers[i];
        if (done)
            continue;
        struct psti_wave_candidate candidate = psti_wave_filter(list, numbers[i]);
        rows->find_residuals(work, &candidate, n_rows, g + at, r + at, spare);
        for (uint32_t j = i; j < columns; j++)
            for (uint32_t y = 0; numbers[j] == numbers[i] && y < n_rows; y++) {
                size_t x = (size_t)y * PSTI_WAVE_EDGE + j * PSTI_WAVE_BLOCK;
                memcpy(out + at + x, spare + x, PSTI_WAVE_BLOCK * sizeof *out);
            }
    }
}

static void apply_filters(const struct psti_pli_source *source, uint32_t plane,
                          const struct psti_wave_plane_plan *plan, const int16_t *g,
                          const int16_t *r, struct psti_wave_work *work)
{
    uint32_t columns = (source->width + PSTI_WAVE_BLOCK - 1) / PSTI_WAVE_BLOCK;
    const struct psti_wave_rows *rows = psti_wave_rows_for(psti_cpu_features(), source->bits);
    for (uint32_t y0 = 0; y0 < source->height; y0 += PSTI_WAVE_BLOCK) {
        rows->gather(source, plane, y0, work);
        psti_wave_apply_filters_16(source, plane, y0,
                                   plan->filters + (y0 / PSTI_WAVE_BLOCK) * columns, g, r, work,
                                   work->trial[0], work->residuals[plane]);
    }
}

void psti_wave_apply(const struct psti_pli_source *source, const struct psti_wave_plan *plan,
                     struct psti_wave_work *work)
{
    const struct psti_wave_rows *rows = psti_wave_rows_for(psti_cpu_features(), source->bits);
    memset(work->zeros, 0, sizeof work->zeros);
    for (uint32_t p = 0; p < source->channels; p++) {
        const struct psti_wave_plane_plan *plane = &plan->planes[p];
        bool taps = psti_pli_wave_n_taps(p, source->transform) > 0;
        const int16_t *g = taps ? work->residuals[0] : work->zeros;
        const int16_t *r = taps && p == 2 ? work->residuals[1] : work->zeros;
        if (plane->predictor == PSTI_PLI_PREDICT_CONSTANT) {
            memset(work->residuals[p], 0, sizeof work->residuals[p]);
            continue;
        }
        if (plane->predictor == PSTI_PLI_PREDICT_FILTERS) {
            apply_filters(source, p, plane, g, r, work);
            continue;
        }
        struct psti_wave_candidate candidate = {
            .predictor = plane->predictor, .a = plane->a, .b = plane->b};
        for (uint32_t y0 = 0; y0 < source->height; y0 += PSTI_WAVE_BLOCK) {
            size_t at = (size_t)y0 * PSTI_WAVE_EDGE;
            uint32_t n_rows = source->height - y0;
            n_rows = n_rows < PSTI_WAVE_BLOCK ? n_rows : PSTI_WAVE_BLOCK;
            rows->gather(source, p, y0, work);
            rows->find_residuals(work, &candidate, n_rows, g + at, r + at, work->residuals[p] + at);
        }
    }
}

/* Of 64 residuals of 8 bits; the same as psti_pli_wave_token(), without branches. */
static void tokens_8(const int16_t *residuals, uint8_t *tokens)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        int16_t m = residuals[x] < 0 ? (int16_t)-residuals[x] : residuals[x];
        int16_t direct = m < PSTI_PLI_DIRECT ? m : PSTI_PLI_DIRECT;
        int16_t above = (int16_t)((m >= 32) + (m >= 48) + (m >= 64) + (m >= 96) + (m >= 128));
        tokens[x] = (uint8_t)(direct + above);
    }
}
static void tokens_16(const int16_t *residuals, uint8_t *tokens)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++)
        tokens[x] = (uint8_t)psti_pli_wave_token(
            (uint32_t)(residuals[x] < 0 ? -residuals[x] : residuals[x]));
}

void psti_wave_find_tokens(uint32_t bits, const int16_t *residuals, uint8_t *tokens)
{
    if (bits == 8)
        tokens_8(residuals, tokens);
    else
        tokens_16(residuals, tokens);
}

static void find_tokens(const struct psti_pli_source *source, uint32_t plane,
                        struct psti_wave_work *work)
{
    memset(work->padded[plane], 0, sizeof work->padded[plane]);
    for (uint32_t y = 0; y < source->height; y++) {
        const int16_t *residuals = work->residuals[plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *tokens = work->tokens[plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *g = work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD;
        psti_wave_find_tokens(source->bits, residuals, tokens);
        memcpy(g, tokens, source->width);
    }
}

static inline void find_contexts(const struct psti_pli_source *source, uint32_t plane,
                                 enum psti_pli_energy kind, uint32_t bits,
                                 struct psti_wave_work *work)
{
    enum { S = PSTI_WAVE_PADDED };
    bool avx2 = psti_cpu_features() & PSTI_CPU_AVX2;
    (void)avx2;
    for (uint32_t y = 0; y < source->height; y++) {
        size_t row = PSTI_WAVE_PAD_ROWS + y;
        const uint8_t *g = work->padded[plane][row] + PSTI_WAVE_PAD;
        const uint8_t *g0 = work->padded[0][row] + PSTI_WAVE_PAD;
        const uint8_t *g1 = work->padded[1][row] + PSTI_WAVE_PAD;
        uint8_t *contexts = work->contexts[plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t energies[PSTI_WAVE_EDGE];
        for (int x = 0; x < PSTI_WAVE_EDGE; x++)
            energies[x] = psti_pli_wave_energy(kind, bits, g[x - 1], g[x - S], g[x - S - 1],
                                               g[x - S + 1], g[x - 2 * S], g[x - 2], g0[x], g1[x]);
#if defined(__x86_64__)
        if (avx2) {
            psti_wave_find_buckets_avx2(energies, contexts);
            continue;
        }
#endif
        for (uint32_t x = 0; x < source->width; x++)
            contexts[x] = psti_pli_wave_bucket[energies[x]];
    }
}

void psti_wave_tokenise(const struct psti_pli_source *source, const struct psti_wave_plan *plan,
                        struct psti_wave_work *work)
{
    bool first = true;
    for (uint32_t p = 0; p < source->channels; p++) {
        if (plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT) {
            memset(work->padded[p], 0, sizeof work->padded[p]);
            continue;
        }
        find_tokens(source, p, work);
        enum psti_pli_energy kind = psti_pli_wave_energy_kind(p, source->transform, first);
        if (source->bits == 16)
            find_contexts(source, p, kind, 16, work);
        else if (kind == PSTI_PLI_ENERGY_FIRST)
            find_contexts(source, p, PSTI_PLI_ENERGY_FIRST, 8, work);
        else if (kind == PSTI_PLI_ENERGY_SECOND)
            find_contexts(source, p, PSTI_PLI_ENERGY_SECOND, 8, work);
        else
            find_contexts(source, p, PSTI_PLI_ENERGY_THIRD, 8, work);
        first = false;
    }
}
