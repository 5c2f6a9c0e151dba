/* pli_wave_tokens.c - from residuals to tokens, contexts and the records that pass two writes.
 *
 * Activities, which tell tokens, stand in rows with zeros around them, so that contexts at the
 * unit's edges need no thought; records in the streams of lanes. Pure; works in the caller's
 * memory. */
#include "pli/encode/wave/pli_wave_encode_int.h"

#include "base/bits.h"
#include "base/cpu.h"

#include <string.h>

/* The same as psti_pli_wave_code_pair(), without branches for most. */
static inline struct psti_pli_wave_coded_pair code_pair(int32_t x, int32_t y)
{
    int32_t right = x < 0 ? -x : x, up = y < 0 ? -y : y, d = right + up;
    bool odd = x == 0 || (x < 0 ? y > 0 : y < 0); /* turned once or three times */
    uint32_t q_5 = (uint32_t)(d * (d - 1) / 2 + (odd ? right : up) + 5);
    if (q_5 >= 128)
        return psti_pli_wave_code_pair(x, y);
    /* Tokens 1 to 10 begin where q + 5 is 4, 6, 8, 12, 16, 24, .., 96. */
    uint32_t e = 31u - (uint32_t)__builtin_clz(q_5), any = d > 0;
    uint32_t token = any * (2 * e - 3 + (q_5 >> (e - 1) & 1));
    uint32_t turns = (uint32_t)odd | (uint32_t)((odd ? y : x) < 0) << 1;
    return (struct psti_pli_wave_coded_pair){
        .token = (uint8_t)token,
        .first = (uint8_t)(any * (turns | (q_5 - 5 - psti_pli_wave_bases[token]) << 2))};
}

/* 32 pairs' activities and values. */
static void code_pairs(const int16_t *residuals, uint8_t *g, uint16_t *values)
{
    for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++) {
        struct psti_pli_wave_coded_pair c = code_pair(residuals[2 * p], residuals[2 * p + 1]);
        g[p] = psti_pli_wave_activities[c.token];
        values[p] = (uint16_t)(c.first | c.second << 8);
    }
}
/* 16 bits: tokens. From 32 on a token follows exponent and first bit of the fraction of a float,
 * which holds m. */
static void tokens_16(const int16_t *residuals, uint8_t *g)
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

/* What the unit has of a row, `width` residuals; behind it zeros. */
static void cut_row(const int16_t *residuals, uint32_t width, int16_t *row)
{
    memcpy(row, residuals, width * sizeof *row);
    memset(row + width, 0, (PSTI_WAVE_EDGE - width) * sizeof *row);
}

void psti_wave_find_activities(uint32_t bits, const int16_t *residuals, uint32_t width, uint8_t *g)
{
#if defined(__x86_64__)
    if (psti_cpu_features() & PSTI_CPU_AVX2) {
        if (bits == 8)
            psti_wave_find_activities8_avx2(residuals, width, g);
        else
            psti_wave_find_activities16_avx2(residuals, width, g);
        return;
    }
#endif
    int16_t row[PSTI_WAVE_EDGE];
    uint16_t values[PSTI_PLI_WAVE_PAIRS];
    cut_row(residuals, width, row);
    if (bits == 8)
        code_pairs(row, g, values);
    else
        tokens_16(row, g);
}

/* Where a plane's records go, and what they are made of. */
struct target {
    const struct psti_pli_source *source;
    struct psti_wave_work *work;
    uint32_t plane, first_band, stride;
    enum psti_pli_energy kind;
    /* 8 bits: the first context whose built-in table has a token, by its activity's lower half. */
    uint8_t first_with[16];
};

static inline size_t place(const struct target *t, uint32_t y)
{
    uint32_t band = t->first_band + y / PSTI_PLI_LANES;
    return (size_t)(y % PSTI_PLI_LANES) * t->stride + PSTI_WAVE_STREAM_PAD +
           (size_t)band * psti_wave_columns(t->source->bits);
}

static inline uint8_t *row_of(const struct target *t, uint32_t plane, uint32_t y)
{
    return t->work->padded[plane][PSTI_WAVE_PAD_ROWS + y] + PSTI_WAVE_PAD;
}

/* Contexts of a row of pairs. `z`: their part Z in E. */
static void find_contexts_8(const uint8_t *g, const uint8_t *z, uint8_t *contexts)
{
    enum { S = PSTI_WAVE_PADDED };
    for (int p = 0; p < PSTI_PLI_WAVE_PAIRS; p++)
        contexts[p] = psti_pli_wave_bucket[0][psti_pli_wave_pair_energy(
            g[p - 1], g[p - S], g[p - S - 1], g[p - 2 * S], g[p - 2 * S + 1], z[p])];
}

/* Where a context lacks a token the one that holds any pair takes its place. Energies grow by that,
 * and larger contexts lack no more than smaller ones. False: nowhere. */
static bool replace_lacking(const struct target *t, const int16_t *residuals,
                            const uint8_t *contexts, uint8_t *g, uint16_t *values)
{
    bool any = false;
    for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++)
        if (contexts[p] < t->first_with[g[p] % 16]) {
            g[p] = PSTI_PLI_WAVE_ANY_ACTIVITY;
            values[p] = (uint16_t)((uint8_t)residuals[2 * p] | (uint32_t)residuals[2 * p + 1] << 8);
            any = true;
        }
    return any;
}

static void put_records_8(const struct target *t, uint16_t *indices, uint16_t *to)
{
    const uint32_t width = t->source->width;
    for (uint32_t y = 0; y < t->source->height; y++) {
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *g = row_of(t, t->plane, y);
        const uint8_t *z = t->kind == PSTI_PLI_ENERGY_THIRD ? row_of(t, 1, y) : g - 2;
        uint8_t contexts[PSTI_PLI_WAVE_PAIRS];
        uint16_t values[PSTI_PLI_WAVE_PAIRS];
        int16_t row[PSTI_WAVE_EDGE];
        size_t at = place(t, y);
        cut_row(residuals, width, row);
        code_pairs(row, g, values);
        find_contexts_8(g, z, contexts);
        if (replace_lacking(t, row, contexts, g, values))
            find_contexts_8(g, z, contexts);
        for (uint32_t p = 0; p < (width + 1) / 2; p++)
            indices[at + p] = (uint16_t)(psti_pli_wave_tokens_of[g[p] % 16] |
                                         contexts[p] << PSTI_WAVE_TOKEN_BITS_8);
        memcpy(to + at, values, (width + 1) / 2 * sizeof *to);
    }
}

static void find_energies_16(const struct target *t, uint32_t y, uint8_t *energies)
{
    enum { S = PSTI_WAVE_PADDED };
    const uint8_t *g = row_of(t, t->plane, y), *g0 = row_of(t, 0, y), *g1 = row_of(t, 1, y);
    for (int x = 0; x < PSTI_WAVE_EDGE; x++)
        energies[x] = psti_pli_wave_energy(t->kind, g[x - 1], g[x - S], g[x - S - 1], g[x - S + 1],
                                           g[x - 2 * S], g[x - 2], g0[x], g1[x]);
}

/* A token's least magnitude has zeros where its raw bits are. */
static inline uint32_t raw_of_16(uint32_t token, uint32_t m)
{
    return m & ((1u << psti_pli_wave_raw_bits(token)) - 1);
}

static void put_records_16(const struct target *t, uint16_t *indices, uint16_t *values)
{
    for (uint32_t y = 0; y < t->source->height; y++) {
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *tokens = row_of(t, t->plane, y);
        size_t at = place(t, y);
        uint8_t energies[PSTI_WAVE_EDGE];
        psti_wave_find_activities(16, residuals, t->source->width, tokens);
        find_energies_16(t, y, energies);
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
static void put_records8_avx2(const struct target *t, uint16_t *indices, uint16_t *values)
{
    struct psti_wave_pair_rows rows = {.height = t->source->height,
                                       .width = t->source->width,
                                       .stride = t->stride,
                                       .residuals = t->work->residuals[t->plane],
                                       .first_with = t->first_with,
                                       .g = row_of(t, t->plane, 0),
                                       .indices = indices + place(t, 0),
                                       .values = values + place(t, 0)};
    if (t->kind == PSTI_PLI_ENERGY_THIRD)
        rows.z = row_of(t, 1, 0);
    psti_wave_put_pairs_avx2(&rows);
}

static void put_records16_avx2(const struct target *t, uint16_t *indices, uint16_t *values)
{
    for (uint32_t y = 0; y < t->source->height; y++) {
        size_t at = place(t, y);
        const int16_t *residuals = t->work->residuals[t->plane] + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *tokens = row_of(t, t->plane, y), contexts[PSTI_WAVE_EDGE];
        psti_wave_find_activities(16, residuals, t->source->width, tokens);
        psti_wave_find_contexts16_avx2(t->kind, tokens, row_of(t, 0, y), row_of(t, 1, y), contexts);
        psti_wave_find_records16_avx2(residuals, tokens, contexts, t->source->width, indices + at,
                                      values + at);
    }
}
#endif

/* `values` are those of the same plane's places. */
static void put_records(const struct target *t, uint16_t *indices, uint16_t *values)
{
#if defined(__x86_64__)
    if (psti_cpu_features() & PSTI_CPU_AVX2) {
        if (t->source->bits == 8)
            put_records8_avx2(t, indices, values);
        else
            put_records16_avx2(t, indices, values);
        return;
    }
#endif
    if (t->source->bits == 8)
        put_records_8(t, indices, values);
    else
        put_records_16(t, indices, values);
}

static void clear_streams(uint32_t bits, size_t n, uint16_t *streams)
{
    uint64_t none = psti_wave_none(bits);
    none |= none << 16;
    none |= none << 32;
    for (size_t i = 0; i < n; i += 4) /* strides are multiples of that */
        psti_store_u64(streams + i, none);
    memset(streams + n, 0, n * sizeof *streams);
}

/* Contexts that have a token are those from some one on (pli_wave_format.h). */
static void find_first_with(uint8_t *first_with)
{
    for (uint32_t i = 0; i < 16; i++) {
        uint8_t c = 0;
        while (c < PSTI_PLI_N_CONTEXTS &&
               psti_pli_wave_freqs[0][c][psti_pli_wave_tokens_of[i]] == 0)
            c++;
        first_with[i] = c;
    }
}

void psti_wave_tokenise(const struct psti_pli_source *source, struct psti_wave_plan *plan,
                        struct psti_wave_work *work)
{
    uint32_t plane_bands = psti_wave_plane_bands(source->height), n_bands = 0;
    for (uint32_t p = 0; p < source->channels; p++)
        n_bands += plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT ? 0 : plane_bands;
    struct target target = {
        .source = source, .work = work, .stride = psti_wave_stride(source->bits, n_bands)};
    if (source->bits == 8)
        find_first_with(target.first_with);
    size_t n = psti_wave_n_records(source->bits, n_bands);
    clear_streams(source->bits, n, plan->streams);
    for (uint32_t p = 0; p < source->channels; p++) {
        memset(work->padded[p], 0, sizeof work->padded[p]);
        if (plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT)
            continue;
        target.plane = p;
        target.kind = psti_pli_wave_energy_kind(p, source->transform, target.first_band == 0);
        put_records(&target, plan->streams, plan->streams + n);
        target.first_band += plane_bands;
    }
}
