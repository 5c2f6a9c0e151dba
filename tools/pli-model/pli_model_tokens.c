/* pli_model_tokens.c - the format's tokens, and the energy of the neighbours of a sample or
 * pair, which gives its context (docs/format-pli.md, 5.4 and 5.6). */
#include "pli_model.h"

#include <stdlib.h>
#include <string.h>

enum {
    N_TOKENS_8 = 16,
    PROB_SUM_8 = 256,
    PROB_SUM_16 = 1024,
    PAIRS = EDGE / 2, /* in a row */
    FIRST_SQUARE = 11,
    ANY_PAIR = 15,
    ANY_PAIR_RAW_BITS = 16,
    TOKEN_DIRECT = 24 /* code of 16 bits: tokens below are magnitudes */
};

/* Code of 8 bits, by token. */
static const struct {
    uint8_t first_bits, second_bits, base, activity;
} TOKENS_8[N_TOKENS_8] = {{0, 0, 0, 0},   {2, 0, 0, 1},   {3, 0, 1, 2},   {4, 0, 3, 3},
                          {4, 0, 7, 4},   {5, 0, 11, 6},  {5, 0, 19, 7},  {6, 0, 27, 8},
                          {6, 0, 43, 10}, {7, 0, 59, 12}, {7, 0, 91, 15}, {6, 4, 7, 21},
                          {5, 4, 15, 25}, {7, 5, 15, 43}, {6, 5, 31, 45}, {8, 8, 0, 46}};

int code_n_tokens(enum code code) { return code == CODE_8 ? N_TOKENS_8 : N_TOKENS; }
int code_prob_sum(enum code code) { return code == CODE_8 ? PROB_SUM_8 : PROB_SUM_16; }

static int raw_bits_of_u8(int token)
{
    return TOKENS_8[token].first_bits + TOKENS_8[token].second_bits;
}

int token_replaced_bits(int token) { return ANY_PAIR_RAW_BITS - raw_bits_of_u8(token); }

/* [x modulo 256][y modulo 256]: the least token that holds the pair. */
static uint8_t token_of_pair[256][256];

/* Finds the pair of a token, 1 to 14, with raw bits `first` and `second`. */
static void find_pair(int token, int first, int second, int *x, int *y)
{
    int base = TOKENS_8[token].base, index = first >> 2, a, b;
    if (token < FIRST_SQUARE) {
        int sum = 1;
        for (b = base + index; b >= sum; sum++)
            b -= sum;
        a = sum - b;
    } else {
        int sum = (1 << TOKENS_8[token].second_bits) + second;
        b = (sum >> 1) - base + index;
        a = sum - b;
    }
    const int turned[4][2] = {{a, b}, {-b, a}, {-a, -b}, {b, -a}};
    *x = turned[first & 3][0];
    *y = turned[first & 3][1];
}

static void fill_token_of_pair(void)
{
    memset(token_of_pair, ANY_PAIR, sizeof token_of_pair);
    for (int token = ANY_PAIR - 1; token > 0; token--)
        for (int first = 0; first < 1 << TOKENS_8[token].first_bits; first++)
            for (int second = 0; second < 1 << TOKENS_8[token].second_bits; second++) {
                int x, y;
                find_pair(token, first, second, &x, &y);
                token_of_pair[x & 255][y & 255] = (uint8_t)token;
            }
    token_of_pair[0][0] = 0;
}

static int token_of_u16(int magnitude, int *raw_bits)
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

/* Returns E of 16 bits at (y, x), from the tokens of the planes up to `plane`. `bits` is that of
 * the image's samples. */
static int energy(uint8_t tokens[N_PLANES][UNIT_SAMPLES], int plane, int y, int x, int width,
                  int bits)
{
    const uint8_t *g = &tokens[plane][y * EDGE + x];
    int cross = (x > 0 ? g[-1] : 0) + (y > 0 ? g[-EDGE] : 0) +
                (y > 0 && x + 1 < width ? g[1 - EDGE] : 0) + (y > 1 ? g[-2 * EDGE] : 0);
    int far = (y > 0 && x > 0 ? g[-EDGE - 1] : 0) + (x > 1 ? g[-2] : 0);
    int e = 0;
    if (plane == 0)
        e = 2 * cross + far;
    else if (plane == 1)
        e = cross + half_up(cross) + far + half_up(tokens[0][y * EDGE + x]);
    else
        e = cross + half_up(cross) + far + 2 * tokens[1][y * EDGE + x];
    if (bits == 16)
        e >>= 1;
    return e < N_ENERGIES - 1 ? e : N_ENERGIES - 1;
}

static void count_samples(const struct unit *unit, const struct image *image, struct counts *counts,
                          double *raw_bits)
{
    uint8_t tokens[N_PLANES][UNIT_SAMPLES];
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                int o = y * EDGE + x, n_raw = 0, m = abs(unit->residuals[c][o]);
                tokens[c][o] = (uint8_t)token_of_u16(m, &n_raw);
                *raw_bits += n_raw + (m > 0 ? 1 : 0);
            }
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++)
                counts->n[energy(tokens, c, y, x, unit->width, image->bits)]
                         [tokens[c][y * EDGE + x]]++;
}

/* Activities of pairs. Around the unit they are 0: two rows above, two pairs before, one past. */
enum { ABOVE = 2, BEFORE = 2, ROOM_HEIGHT = ABOVE + EDGE, ROOM_WIDTH = BEFORE + PAIRS + 1 };
typedef uint8_t activities[ROOM_HEIGHT][ROOM_WIDTH];

static int energy_of_pair(activities planes[N_PLANES], int plane, int y, int p)
{
    const uint8_t *g = &planes[plane][ABOVE + y][BEFORE + p], *above = g - ROOM_WIDTH;
    const uint8_t *higher = above - ROOM_WIDTH;
    int z = plane == 2 ? planes[1][ABOVE + y][BEFORE + p] : g[-2];
    int e = 2 * (g[-1] + above[0]) + higher[0] + half_up(above[-1] + higher[1]) + z;
    return e < N_ENERGIES - 1 ? e : N_ENERGIES - 1;
}

static void count_pairs(const struct unit *unit, const struct image *image, struct counts *counts,
                        double *raw_bits)
{
    static activities planes[N_PLANES];
    if (token_of_pair[0][1] == 0)
        fill_token_of_pair();
    memset(planes, 0, sizeof planes);
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x += 2) {
                const int16_t *r = &unit->residuals[c][y * EDGE + x];
                int token = token_of_pair[r[0] & 255][x + 1 < unit->width ? r[1] & 255 : 0];
                counts->n[energy_of_pair(planes, c, y, x / 2)][token]++;
                planes[c][ABOVE + y][BEFORE + x / 2] = TOKENS_8[token].activity;
                *raw_bits += raw_bits_of_u8(token);
            }
}

void unit_count(const struct unit *unit, const struct image *image, enum code code,
                struct counts *counts, double *raw_bits)
{
    if (code == CODE_8)
        count_pairs(unit, image, counts, raw_bits);
    else
        count_samples(unit, image, counts, raw_bits);
}
