/* pli_wave_tokens.c - turns residuals into tokens, contexts, and the records that the encoder's
 * second pass writes.
 *
 * Activities stand for tokens. Their rows have zeros around them, so contexts at the unit's edges
 * need no special code. Records go to the streams of lanes. Pure; works in the caller's memory. */
#include "pli/encode/pli_encode_kernels.h"

#include "base/bits.h"

#include <string.h>

/* Returns the result of psti_pli_wave_code_pair(), without branches for most pairs. */
static inline struct psti_pli_wave_coded_pair code_pair(int32_t x, int32_t y)
{
    int32_t right = x < 0 ? -x : x, up = y < 0 ? -y : y, d = right + up;
    bool odd = x == 0 || (x < 0 ? y > 0 : y < 0); /* true if rotated by one or three right angles */
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

/* Computes the activities and values of 32 pairs. */
static void code_pairs(const int16_t *residuals, uint8_t *g, uint16_t *values)
{
    for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++) {
        struct psti_pli_wave_coded_pair c = code_pair(residuals[2 * p], residuals[2 * p + 1]);
        g[p] = psti_pli_wave_activities[c.token];
        values[p] = (uint16_t)(c.first | c.second << 8);
    }
}
/* Computes the tokens of a row of 16-bit samples. From m = 32 on, the token follows from the
 * exponent and the first fraction bit of a float, which holds m exactly. */
static void tokens_u16(const int16_t *residuals, uint8_t *g)
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

/* Copies the `width` residuals of a row that lie in the unit, followed by zeros. */
static void cut_row(const int16_t *residuals, uint32_t width, int16_t *row)
{
    memcpy(row, residuals, width * sizeof *row);
    memset(row + width, 0, (PSTI_WAVE_EDGE - width) * sizeof *row);
}

void psti_pli_wave_find_activities_u8_c(const int16_t *residuals, uint32_t width, uint8_t *g)
{
    int16_t row[PSTI_WAVE_EDGE];
    uint16_t values[PSTI_PLI_WAVE_PAIRS];
    cut_row(residuals, width, row);
    code_pairs(row, g, values);
}

void psti_pli_wave_find_activities_u16_c(const int16_t *residuals, uint32_t width, uint8_t *g)
{
    int16_t row[PSTI_WAVE_EDGE];
    cut_row(residuals, width, row);
    tokens_u16(row, g);
}

/* Finds the contexts of a row of pairs. `z` is `extra` of section 5.6. */
static void find_contexts_u8(const uint8_t *g, const uint8_t *z, uint8_t *contexts)
{
    enum { S = PSTI_WAVE_PADDED };
    for (int p = 0; p < PSTI_PLI_WAVE_PAIRS; p++)
        contexts[p] = psti_pli_wave_bucket[0][psti_pli_wave_pair_energy(
            g[p - 1], g[p - S], g[p - S - 1], g[p - 2 * S], g[p - 2 * S + 1], z[p])];
}

/* Replaces tokens that their contexts lack by the token that stands for any pair. This raises
 * energies, but higher contexts lack no more tokens than lower contexts. Returns false if no token
 * was replaced. */
static bool replace_lacking(const uint8_t *first_with, const int16_t *residuals,
                            const uint8_t *contexts, uint8_t *g, uint16_t *values)
{
    bool any = false;
    for (uint32_t p = 0; p < PSTI_PLI_WAVE_PAIRS; p++)
        if (contexts[p] < first_with[g[p] % 16]) {
            g[p] = PSTI_PLI_WAVE_ANY_ACTIVITY;
            values[p] = (uint16_t)((uint8_t)residuals[2 * p] | (uint32_t)residuals[2 * p + 1] << 8);
            any = true;
        }
    return any;
}

void psti_pli_wave_put_records_u8_c(const struct psti_wave_record_rows *rows)
{
    const uint32_t width = rows->width;
    for (uint32_t y = 0; y < rows->height; y++) {
        uint8_t *g = rows->g + (size_t)y * PSTI_WAVE_PADDED;
        const uint8_t *z = rows->z ? rows->z + (size_t)y * PSTI_WAVE_PADDED : g - 2;
        uint8_t contexts[PSTI_PLI_WAVE_PAIRS];
        uint16_t values[PSTI_PLI_WAVE_PAIRS];
        int16_t row[PSTI_WAVE_EDGE];
        size_t at = psti_pli_wave_record_at(8, rows->stride, y);
        cut_row(rows->residuals + (size_t)y * PSTI_WAVE_EDGE, width, row);
        code_pairs(row, g, values);
        find_contexts_u8(g, z, contexts);
        if (replace_lacking(rows->first_with, row, contexts, g, values))
            find_contexts_u8(g, z, contexts);
        for (uint32_t p = 0; p < (width + 1) / 2; p++)
            rows->indices[at + p] = (uint16_t)(psti_pli_wave_tokens_of[g[p] % 16] |
                                               contexts[p] << PSTI_WAVE_TOKEN_BITS_8);
        memcpy(rows->values + at, values, (width + 1) / 2 * sizeof *values);
    }
}

static void find_energies_u16(const struct psti_wave_record_rows *rows, size_t row,
                              uint8_t *energies)
{
    enum { S = PSTI_WAVE_PADDED };
    const uint8_t *g = rows->g + row, *g0 = rows->g0 + row, *g1 = rows->g1 + row;
    for (int x = 0; x < PSTI_WAVE_EDGE; x++)
        energies[x] = psti_pli_wave_energy(rows->kind, g[x - 1], g[x - S], g[x - S - 1],
                                           g[x - S + 1], g[x - 2 * S], g[x - 2], g0[x], g1[x]);
}

/* Returns the raw bits of a magnitude. In a token's least magnitude these bits are zeros. */
static inline uint32_t raw_of_u16(uint32_t token, uint32_t m)
{
    return m & ((1u << psti_pli_wave_raw_bits(token)) - 1);
}

void psti_pli_wave_put_records_u16_c(const struct psti_wave_record_rows *rows)
{
    for (uint32_t y = 0; y < rows->height; y++) {
        const int16_t *residuals = rows->residuals + (size_t)y * PSTI_WAVE_EDGE;
        uint8_t *tokens = rows->g + (size_t)y * PSTI_WAVE_PADDED;
        size_t at = psti_pli_wave_record_at(16, rows->stride, y);
        uint8_t energies[PSTI_WAVE_EDGE];
        psti_pli_wave_find_activities_u16_c(residuals, rows->width, tokens);
        find_energies_u16(rows, (size_t)y * PSTI_WAVE_PADDED, energies);
        for (uint32_t x = 0; x < rows->width; x++) {
            int32_t r = residuals[x];
            uint32_t raw = raw_of_u16(tokens[x], (uint32_t)(r < 0 ? -r : r));
            uint32_t context = psti_pli_wave_bucket[1][energies[x]];
            rows->indices[at + x] = (uint16_t)(tokens[x] | context << PSTI_WAVE_TOKEN_BITS);
            rows->values[at + x] = (uint16_t)(raw | (uint32_t)(r < 0) << 15);
        }
    }
}

static void clear_streams(uint32_t bits, size_t n, uint16_t *streams)
{
    uint64_t none = psti_pli_wave_none(bits);
    none |= none << 16;
    none |= none << 32;
    for (size_t i = 0; i < n; i += 4) /* the strides of streams are multiples of 4 */
        psti_store_u64(streams + i, none);
    memset(streams + n, 0, n * sizeof *streams);
}

/* Finds the first context that has each token. All higher contexts have it, too
 * (pli_wave_format.h). */
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

void psti_pli_wave_tokenise(const struct psti_pli_source *source, struct psti_wave_plan *plan,
                            struct psti_wave_work *work)
{
    const uint32_t bits = source->bits, plane_bands = psti_pli_wave_plane_bands(source->height);
    uint8_t *rows[4], first_with[16];
    uint32_t n_bands = 0, first_band = 0;
    for (uint32_t p = 0; p < source->channels; p++)
        n_bands += plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT ? 0 : plane_bands;
    find_first_with(first_with);
    size_t n = psti_pli_wave_n_records(bits, n_bands);
    clear_streams(bits, n, plan->streams);
    for (uint32_t p = 0; p < 4; p++)
        rows[p] = work->padded[p][PSTI_WAVE_PAD_ROWS] + PSTI_WAVE_PAD;
    for (uint32_t p = 0; p < source->channels; p++) {
        memset(work->padded[p], 0, sizeof work->padded[p]);
        if (plan->planes[p].predictor == PSTI_PLI_PREDICT_CONSTANT)
            continue;
        uint16_t *indices =
            plan->streams + PSTI_WAVE_STREAM_PAD + (size_t)first_band * psti_pli_wave_columns(bits);
        enum psti_pli_energy kind =
            psti_pli_wave_energy_kind(p, source->transform, first_band == 0);
        const struct psti_wave_record_rows plane = {
            .height = source->height,
            .width = source->width,
            .stride = psti_pli_wave_stride(bits, n_bands),
            .residuals = work->residuals[p],
            .kind = kind,
            .g = rows[p],
            .g0 = rows[0],
            .g1 = rows[1],
            .z = kind == PSTI_PLI_ENERGY_THIRD ? rows[1] : NULL,
            .first_with = first_with,
            .indices = indices,
            .values = indices + n,
        };
        psti_pli_wave_kernels_of(source)->put_records(&plane);
        first_band += plane_bands;
    }
}
