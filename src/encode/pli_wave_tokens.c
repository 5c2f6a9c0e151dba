/* pli_wave_tokens.c - from residuals to tokens, contexts and the records that pass two writes.
 *
 * Activities, which tell tokens, stand in rows with zeros around them, so that contexts at the
 * unit's edges need no thought; records in the streams of lanes. Pure; works in the caller's
 * memory. */
#include "encode/pli_wave_encode_int.h"

#include "base/bits.h"
#include "base/cpu.h"

#include <string.h>

/* Of 64 residuals of 8 bits; the same as psti_pli_wave_token_8(), without branches. */
static void activities_8(const int16_t *residuals, uint8_t *g)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        int16_t m = residuals[x] < 0 ? (int16_t)-residuals[x] : residuals[x];
        int16_t direct = m < 3 ? m : 3;
        g[x] = (uint8_t)(direct + 3 * (m > 4) + 6 * (m > 8) + 12 * (m > 16) + 5 * (m > 32));
    }
}
/* 16 bits: tokens. From 32 on a token follows exponent and first bit of the fraction of a float,
 * which holds m. */
static void activities_16(const int16_t *residuals, uint8_t *g)
{
    enum { FRACTION = 23, BIAS = 127, FIRST = 25 - 2 * 5 };
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++) {
        int32_t m = residuals[x] < 0 ? -residuals[x] : residuals[x];
        union {
            float number;
            int32_t bits;
        } v = {.number = (float)m};
        int32_t large = (v.bits >> (FRACTION - 1)) - 2 * BIAS + FIRST;
        int32_t direct = m < PSTI_PLI_DIRECT ? m : PSTI_PLI_DIRECT;
        g[x] = (uint8_t)(m < 32 ? direct : large);
    }
}

void psti_wave_find_activities(uint32_t bits, const int16_t *residuals, uint8_t *g)
{
#if defined(__x86_64__)
    if (psti_cpu_features() & PSTI_CPU_AVX2) {
        psti_wave_find_activities_avx2(bits, residuals, g);
        return;
    }
#endif
    if (bits == 16)
        activities_16(residuals, g);
    else
        activities_8(residuals, g);
}

static void find_activities(const struct psti_pli_source *source, uint32_t plane,
                            struct psti_wave_work *work)
{
    memset(work->padded[plane], 0, sizeof work->padded[plane]);
    for (uint32_t y = 0; y < source->height; y++) {
        const int16_t *residuals = work->residuals[plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *g = work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD;
        psti_wave_find_activities(source->bits, residuals, g);
        memset(g + source->width, 0, PSTI_WAVE_EDGE - source->width);
    }
}

/* Where a plane's records go, and what they are made of. */
struct target {
    const struct psti_pli_source *source;
    struct psti_wave_work *work;
    uint32_t plane, first_band, stride;
    enum psti_pli_energy kind;
    uint8_t lacks[PSTI_PLI_N_CONTEXTS]; /* 8 bits: what built-in tables lack, a token a bit */
};

static inline size_t place(const struct target *t, uint32_t y)
{
    uint32_t band = t->first_band + y / PSTI_PLI_LANES;
    return (size_t)(y % PSTI_PLI_LANES) * t->stride + PSTI_WAVE_STREAM_PAD +
           (size_t)band * PSTI_WAVE_EDGE;
}

static inline void find_energies(const struct target *t, enum psti_pli_energy kind, uint32_t bits,
                                 uint32_t y, uint8_t *energies)
{
    enum { S = PSTI_WAVE_PADDED };
    size_t row = PSTI_WAVE_PAD_ROWS + y;
    const uint8_t *g = t->work->padded[t->plane][row] + PSTI_WAVE_PAD;
    const uint8_t *g0 = t->work->padded[0][row] + PSTI_WAVE_PAD;
    const uint8_t *g1 = t->work->padded[1][row] + PSTI_WAVE_PAD;
    for (int x = 0; x < PSTI_WAVE_EDGE; x++)
        energies[x] = psti_pli_wave_energy(kind, bits, g[x - 1], g[x - S], g[x - S - 1],
                                           g[x - S + 1], g[x - 2 * S], g[x - 2], g0[x], g1[x]);
}

static void find_energies_8(const struct target *t, uint32_t y, uint8_t *energies)
{
    if (t->kind == PSTI_PLI_ENERGY_FIRST)
        find_energies(t, PSTI_PLI_ENERGY_FIRST, 8, y, energies);
    else if (t->kind == PSTI_PLI_ENERGY_SECOND)
        find_energies(t, PSTI_PLI_ENERGY_SECOND, 8, y, energies);
    else
        find_energies(t, PSTI_PLI_ENERGY_THIRD, 8, y, energies);
}

/* Where a context lacks a token the last one, which holds any magnitude but 0, takes its place.
 * Energies grow by that, and larger contexts lack no more than smaller ones. False: nowhere. */
static bool replace_lacking(const struct target *t, const uint8_t *energies, uint8_t *g)
{
    bool any = false;
    for (uint32_t x = 0; x < t->source->width; x++)
        if (t->lacks[psti_pli_wave_bucket[0][energies[x]]] >> psti_pli_wave_tokens_of[g[x] % 16] &
            1) {
            g[x] = PSTI_PLI_WAVE_LAST_ACTIVITY;
            any = true;
        }
    return any;
}

static void put_records_8(const struct target *t, uint16_t *streams)
{
    for (uint32_t y = 0; y < t->source->height; y++) {
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *g = t->work->padded[t->plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD;
        uint16_t *records = streams + place(t, y);
        uint8_t energies[PSTI_WAVE_EDGE];
        find_energies_8(t, y, energies);
        if (replace_lacking(t, energies, g))
            find_energies_8(t, y, energies);
        for (uint32_t x = 0; x < t->source->width; x++) {
            int32_t r = residuals[x];
            uint32_t raw = (uint32_t)(r < 0 ? -r : r) - psti_pli_wave_bases_of[g[x] % 16];
            records[x] = psti_wave_record_8(psti_pli_wave_tokens_of[g[x] % 16],
                                            psti_pli_wave_bucket[0][energies[x]], raw, r < 0);
        }
    }
}

/* A token's least magnitude has zeros where its raw bits are. */
static inline uint32_t raw_of_16(uint32_t token, uint32_t m)
{
    return m & ((1u << psti_pli_wave_raw_bits(token)) - 1);
}

/* `values` are those of the same plane's places. */
static void put_records_16(const struct target *t, uint16_t *indices, uint16_t *values)
{
    for (uint32_t y = 0; y < t->source->height; y++) {
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        const uint8_t *tokens = t->work->padded[t->plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD;
        size_t at = place(t, y);
        uint8_t energies[PSTI_WAVE_EDGE];
        find_energies(t, t->kind, 16, y, energies);
        for (uint32_t x = 0; x < t->source->width; x++) {
            int32_t r = residuals[x];
            uint32_t raw = raw_of_16(tokens[x], (uint32_t)(r < 0 ? -r : r));
            uint32_t context = psti_pli_wave_bucket[1][energies[x]];
            indices[at + x] = (uint16_t)(tokens[x] | context << PSTI_WAVE_TOKEN_BITS);
            values[at + x] = (uint16_t)(raw | (uint32_t)(r < 0) << 15);
        }
    }
}

#if defined(__x86_64__)
static void put_records_avx2(const struct target *t, uint16_t *streams, uint16_t *values)
{
    for (uint32_t y = 0; y < t->source->height; y++) {
        size_t row = PSTI_WAVE_PAD_ROWS + y, at = place(t, y);
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *g = t->work->padded[t->plane][row] + PSTI_WAVE_PAD;
        const uint8_t *g0 = t->work->padded[0][row] + PSTI_WAVE_PAD;
        const uint8_t *g1 = t->work->padded[1][row] + PSTI_WAVE_PAD;
        uint8_t contexts[PSTI_WAVE_EDGE];
        psti_wave_find_contexts_avx2(t->kind, t->source->bits, g, g0, g1, contexts);
        if (t->source->bits == 16) {
            psti_wave_find_records16_avx2(residuals, g, contexts, t->source->width, streams + at,
                                          values + at);
            continue;
        }
        if (psti_wave_replace_lacking_avx2(t->lacks, contexts, g))
            psti_wave_find_contexts_avx2(t->kind, 8, g, g0, g1, contexts);
        psti_wave_find_records_avx2(residuals, g, contexts, t->source->width, streams + at);
    }
}
#endif

static void put_records(const struct target *t, uint16_t *streams, uint16_t *values)
{
#if defined(__x86_64__)
    if (psti_cpu_features() & PSTI_CPU_AVX2) {
        put_records_avx2(t, streams, values);
        return;
    }
#endif
    if (t->source->bits == 16)
        put_records_16(t, streams, values);
    else
        put_records_8(t, streams);
}

static void clear_streams(uint32_t bits, size_t n, uint16_t *streams)
{
    uint64_t none = bits == 8 ? PSTI_WAVE_NONE_8 : PSTI_WAVE_NONE_16;
    none |= none << 16;
    none |= none << 32;
    for (size_t i = 0; i < n; i += 4) /* strides are multiples of that */
        psti_store_u64(streams + i, none);
    if (bits == 16)
        memset(streams + n, 0, n * sizeof *streams);
}

void psti_wave_tokenise(const struct psti_pli_source *source, struct psti_wave_plan *plan,
                        struct psti_wave_work *work)
{
    uint32_t plane_bands = psti_wave_plane_bands(source->height), n_bands = 0;
    for (uint32_t p = 0; p < source->channels; p++)
        n_bands += plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT ? 0 : plane_bands;
    struct target target = {.source = source, .work = work, .stride = psti_wave_stride(n_bands)};
    for (uint32_t c = 0; source->bits == 8 && c < PSTI_PLI_N_CONTEXTS; c++)
        for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS_8; i++)
            target.lacks[c] |= (uint8_t)((psti_pli_wave_freqs[0][c][i] == 0) << i);
    size_t n = psti_wave_n_records(n_bands);
    clear_streams(source->bits, n, plan->streams);
    for (uint32_t p = 0; p < source->channels; p++) {
        if (plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT) {
            memset(work->padded[p], 0, sizeof work->padded[p]);
            continue;
        }
        find_activities(source, p, work);
        target.plane = p;
        target.kind = psti_pli_wave_energy_kind(p, source->transform, target.first_band == 0);
        put_records(&target, plan->streams, plan->streams + n);
        target.first_band += plane_bands;
    }
}
