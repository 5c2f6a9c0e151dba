/* pli_model_tokens.c - the law's tokens, and the energy of a sample's neighbours, by which its
 * context is found (docs/format-pli.md, 5.4 and 5.6). */
#include "pli_model.h"

#include <stdlib.h>

enum {
    N_TOKENS_8 = 8,
    PROB_SUM_8 = 256,
    PROB_SUM_16 = 1024,
    TOKEN_DIRECT = 24 /* of 16 bits: tokens below are magnitudes */
};

/* Of 8 bits, by token. */
static const uint8_t BASES_8[N_TOKENS_8] = {0, 1, 2, 3, 5, 9, 17, 33};
static const uint8_t RAW_BITS_8[N_TOKENS_8] = {0, 0, 0, 1, 2, 3, 4, 7};
static const uint8_t ACTIVITIES_8[N_TOKENS_8] = {0, 1, 2, 3, 6, 12, 24, 29};

int code_n_tokens(enum code code) { return code == CODE_8 ? N_TOKENS_8 : N_TOKENS; }
int code_prob_sum(enum code code) { return code == CODE_8 ? PROB_SUM_8 : PROB_SUM_16; }

static int token_of_8(int magnitude, int *raw_bits)
{
    int token = N_TOKENS_8 - 1;
    while (magnitude < BASES_8[token])
        token--;
    *raw_bits = RAW_BITS_8[token];
    return token;
}

static int token_of_16(int magnitude, int *raw_bits)
{
    if (magnitude < TOKEN_DIRECT) {
        *raw_bits = 0;
        return magnitude;
    }
    if (magnitude < 32) {
        *raw_bits = 3;
        return TOKEN_DIRECT;
    }
    int e = 31 - __builtin_clz((unsigned)magnitude);
    *raw_bits = e - 1;
    return TOKEN_DIRECT + 1 + 2 * (e - 5) + (magnitude >> (e - 1) & 1);
}

static int half_up(int v) { return (v + 1) >> 1; }

/* E at (y, x), from the activities of the planes up to `plane`; `bits` of the image's samples. */
static int energy(uint8_t activities[N_PLANES][UNIT_SAMPLES], int plane, int y, int x, int width,
                  int bits)
{
    const uint8_t *g = &activities[plane][y * EDGE + x];
    int cross = (x > 0 ? g[-1] : 0) + (y > 0 ? g[-EDGE] : 0) +
                (y > 0 && x + 1 < width ? g[1 - EDGE] : 0) + (y > 1 ? g[-2 * EDGE] : 0);
    int far = (y > 0 && x > 0 ? g[-EDGE - 1] : 0) + (x > 1 ? g[-2] : 0);
    int e = 0;
    if (plane == 0)
        e = 2 * cross + far;
    else if (plane == 1)
        e = cross + half_up(cross) + far + half_up(activities[0][y * EDGE + x]);
    else
        e = cross + half_up(cross) + far + 2 * activities[1][y * EDGE + x];
    if (bits == 16)
        e >>= 1;
    return e < N_ENERGIES - 1 ? e : N_ENERGIES - 1;
}

void unit_count(const struct unit *unit, const struct image *image, enum code code,
                struct counts *counts, double *raw_bits)
{
    uint8_t tokens[N_PLANES][UNIT_SAMPLES], activities[N_PLANES][UNIT_SAMPLES];
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                int o = y * EDGE + x, n_raw = 0, m = abs(unit->residuals[c][o]);
                int token = code == CODE_8 ? token_of_8(m, &n_raw) : token_of_16(m, &n_raw);
                tokens[c][o] = (uint8_t)token;
                activities[c][o] = code == CODE_8 ? ACTIVITIES_8[token] : (uint8_t)token;
                *raw_bits += n_raw + (m > 0 ? 1 : 0);
            }
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                int e = energy(activities, c, y, x, unit->width, image->bits);
                counts->n[e][tokens[c][y * EDGE + x]]++;
            }
}
