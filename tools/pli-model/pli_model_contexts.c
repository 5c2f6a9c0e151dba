/* pli_model_contexts.c - tokens, their contexts, and tables: what they would cost.
 *
 * Counts are of tokens by activity (E in the law). Buckets are merged from activities, neighbours
 * only, where it costs the fewest bits; a frequency table is rounded so that each token that the
 * image may use keeps at least 1. */
#include "pli_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKEN_DIRECT = 24,    /* tokens below are magnitudes */
    STEPS_PER_OCTAVE = 5, /* of a coded frequency */
    FREQ_FIELD_BITS = 6,
    LENGTH_FIELD_BITS = 6
};

int token_of(int magnitude, int *raw_bits)
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

/* E at (y, x), from the tokens of the planes up to `plane`. */
static int activity(uint8_t tokens[N_PLANES][UNIT_SAMPLES], int plane, int y, int x, int width,
                    const struct image *image)
{
    const uint8_t *t = &tokens[plane][y * EDGE + x];
    int cross = (x > 0 ? t[-1] : 0) + (y > 0 ? t[-EDGE] : 0) +
                (y > 0 && x + 1 < width ? t[1 - EDGE] : 0) + (y > 1 ? t[-2 * EDGE] : 0);
    int far = (y > 0 && x > 0 ? t[-EDGE - 1] : 0) + (x > 1 ? t[-2] : 0);
    int e = 0;
    if (plane == 0)
        e = 2 * cross + far;
    else if (plane == 1)
        e = cross + half_up(cross) + far + half_up(tokens[0][y * EDGE + x]);
    else
        e = cross + half_up(cross) + far + 2 * tokens[1][y * EDGE + x];
    if (image->bits == 16)
        e >>= 1;
    return e < N_ACTIVITIES - 1 ? e : N_ACTIVITIES - 1;
}

void unit_count(const struct unit *unit, const struct image *image,
                double counts[N_ACTIVITIES][N_TOKENS], double *raw_bits)
{
    uint8_t tokens[N_PLANES][UNIT_SAMPLES];
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++) {
                int n_raw = 0, m = abs(unit->residuals[c][y * EDGE + x]);
                tokens[c][y * EDGE + x] = (uint8_t)token_of(m, &n_raw);
                *raw_bits += n_raw + (m > 0 ? 1 : 0);
            }
    for (int c = 0; c < image->channels; c++)
        for (int y = 0; y < unit->height; y++)
            for (int x = 0; x < unit->width; x++)
                counts[activity(tokens, c, y, x, unit->width, image)][tokens[c][y * EDGE + x]]++;
}

/* What the counts of 8-bit images weigh in the tables of 16 bits, where those have few. */
static const double PRIOR_OF_8 = 0.01;

/* Bits of the counts with an ideal table of their own. */
static double entropy(const double counts[N_TOKENS])
{
    double sum = 0, bits = 0;
    for (int t = 0; t < N_TOKENS; t++)
        if (counts[t] > 0) {
            sum += counts[t];
            bits -= counts[t] * log2(counts[t]);
        }
    return sum > 0 ? bits + sum * log2(sum) : 0;
}

struct bucket {
    int first; /* activity */
    double counts[N_TOKENS];
};

static double merge_loss(const struct bucket *a, const struct bucket *b)
{
    double both[N_TOKENS];
    for (int t = 0; t < N_TOKENS; t++)
        both[t] = a->counts[t] + b->counts[t];
    return entropy(both) - entropy(a->counts) - entropy(b->counts);
}

/* Frequencies of sum PROB_SUM; `n_tokens` tokens get at least 1. */
static void round_freqs(const double counts[N_TOKENS], int n_tokens, uint16_t freqs[N_TOKENS])
{
    double sum = 0;
    int left = PROB_SUM;
    memset(freqs, 0, N_TOKENS * sizeof freqs[0]);
    for (int t = 0; t < n_tokens; t++)
        sum += counts[t] + 1e-9;
    for (int t = 0; t < n_tokens; t++) {
        int f = (int)lrint((counts[t] + 1e-9) / sum * PROB_SUM);
        freqs[t] = (uint16_t)(f < 1 ? 1 : f);
        left -= freqs[t];
    }
    /* What is missing or too much goes where it changes the fewest bits. */
    while (left != 0) {
        int step = left > 0 ? 1 : -1, best = -1;
        double best_gain = -INFINITY;
        for (int t = 0; t < n_tokens; t++) {
            if (freqs[t] + step < 1)
                continue;
            double gain = counts[t] * log2((double)(freqs[t] + step) / freqs[t]);
            if (gain > best_gain) {
                best_gain = gain;
                best = t;
            }
        }
        freqs[best] = (uint16_t)(freqs[best] + step);
        left -= step;
    }
}

/* The counts of contexts. */
static void gather(double counts[N_ACTIVITIES][N_TOKENS], const struct tables *tables,
                   double by_context[N_CONTEXTS][N_TOKENS])
{
    for (int e = 0; e < N_ACTIVITIES; e++)
        for (int t = 0; t < N_TOKENS; t++)
            by_context[tables->context_of[e]][t] += counts[e][t];
}

/* Buckets by merging neighbours. */
static void fit_buckets(double counts[N_ACTIVITIES][N_TOKENS], struct tables *out)
{
    static struct bucket buckets[N_ACTIVITIES];
    int n = 0;
    for (int e = 0; e < N_ACTIVITIES; e++) {
        if (e < FREE_ACTIVITIES || e % 16 == 0) {
            buckets[n].first = e;
            memset(buckets[n++].counts, 0, sizeof buckets[0].counts);
        }
        for (int t = 0; t < N_TOKENS; t++)
            buckets[n - 1].counts[t] += counts[e][t];
    }
    while (n > N_CONTEXTS) {
        int at = 0;
        double least = INFINITY;
        for (int i = 0; i + 1 < n; i++) {
            double loss = merge_loss(&buckets[i], &buckets[i + 1]);
            if (loss < least) {
                least = loss;
                at = i;
            }
        }
        for (int t = 0; t < N_TOKENS; t++)
            buckets[at].counts[t] += buckets[at + 1].counts[t];
        memmove(&buckets[at + 1], &buckets[at + 2], (size_t)(n - at - 2) * sizeof buckets[0]);
        n--;
    }
    for (int e = 0, k = 0; e < N_ACTIVITIES; e++) {
        if (k + 1 < n && e >= buckets[k + 1].first)
            k++;
        out->context_of[e] = (uint8_t)k;
    }
}

void tables_fit(double counts_8[N_ACTIVITIES][N_TOKENS], double counts_16[N_ACTIVITIES][N_TOKENS],
                struct tables *out)
{
    static double by_context[2][N_CONTEXTS][N_TOKENS];
    memset(by_context, 0, sizeof by_context);
    fit_buckets(counts_8, out);
    gather(counts_8, out, by_context[0]);
    gather(counts_16, out, by_context[1]);
    for (int k = 0; k < N_CONTEXTS; k++) {
        for (int t = 0; t < N_TOKENS; t++)
            by_context[1][k][t] += PRIOR_OF_8 * by_context[0][k][t];
        round_freqs(by_context[0][k], N_TOKENS_8, out->freqs[0][k]);
        round_freqs(by_context[1][k], N_TOKENS, out->freqs[1][k]);
    }
}

/* Bits of a table as an image codes it, and of the counts with it. */
static double own_cost(const double counts[N_TOKENS], double share)
{
    double sum = 0, rounded[N_TOKENS] = {0};
    uint16_t freqs[N_TOKENS];
    int n_tokens = 0;
    for (int t = 0; t < N_TOKENS; t++) {
        sum += counts[t];
        if (counts[t] > 0)
            n_tokens = t + 1;
    }
    if (n_tokens == 0)
        return 0;
    for (int t = 0; t < n_tokens; t++)
        if (counts[t] > 0) {
            double code = rint(log2(counts[t] / sum * PROB_SUM) * STEPS_PER_OCTAVE);
            rounded[t] = exp2((code < 0 ? 0 : code) / STEPS_PER_OCTAVE);
        }
    round_freqs(rounded, n_tokens, freqs);
    double bits = (LENGTH_FIELD_BITS + FREQ_FIELD_BITS * n_tokens) * share;
    for (int t = 0; t < n_tokens; t++)
        if (counts[t] > 0)
            bits -= counts[t] * log2((double)freqs[t] / PROB_SUM);
    return bits;
}

double tables_cost(double counts[N_ACTIVITIES][N_TOKENS], const struct tables *tables, int bits,
                   double share)
{
    static double by_context[N_CONTEXTS][N_TOKENS];
    memset(by_context, 0, sizeof by_context);
    gather(counts, tables, by_context);
    double sum = 0;
    for (int k = 0; k < N_CONTEXTS; k++) {
        double own = own_cost(by_context[k], share), built_in = 0;
        for (int t = 0; t < N_TOKENS; t++)
            if (by_context[k][t] > 0)
                built_in -=
                    by_context[k][t] * log2((double)tables->freqs[bits == 16][k][t] / PROB_SUM);
        sum += share + (own < built_in ? own : built_in);
    }
    return sum;
}
