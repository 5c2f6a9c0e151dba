/* pli_model_contexts.c - fits contexts and tables to counts of tokens, and computes their cost.
 *
 * A context is a range of energies. Frequencies are rounded such that each token of the code
 * keeps at least 1, except for rare ones of 8 bits. */
#include "pli_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS_PER_OCTAVE = 5, /* steps of a coded frequency */
    FREQ_FIELD_BITS = 6,
    LENGTH_FIELD_BITS = 6
};

/* Code of 8 bits: the last token can replace any other except 0, with more raw bits. */
enum { LAST_OF_8 = 15 };

/* Weight of 8-bit images' counts in the tables of 16 bits; it matters where these have few
 * counts. */
static const double PRIOR_OF_8 = 0.01;

/* Returns the bits of the counts with an ideal table of their own. */
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

/* Rounds counts to frequencies of sum `prob_sum`. Each of `n_tokens` tokens gets at least 1,
 * except those with negative counts. */
static void round_freqs(const double counts[N_TOKENS], int n_tokens, int prob_sum,
                        uint16_t freqs[N_TOKENS])
{
    double sum = 0;
    int left = prob_sum;
    memset(freqs, 0, N_TOKENS * sizeof freqs[0]);
    for (int t = 0; t < n_tokens; t++)
        sum += counts[t] < 0 ? 0 : counts[t] + 1e-9;
    for (int t = 0; t < n_tokens; t++) {
        if (counts[t] < 0)
            continue;
        int f = (int)lrint((counts[t] + 1e-9) / sum * prob_sum);
        freqs[t] = (uint16_t)(f < 1 ? 1 : f);
        left -= freqs[t];
    }
    /* Corrects the sum at the frequencies where that changes the fewest bits. */
    while (left != 0) {
        int step = left > 0 ? 1 : -1, best = -1;
        double best_gain = -INFINITY;
        for (int t = 0; t < n_tokens; t++) {
            if (freqs[t] + step < 1 || freqs[t] == 0)
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

/* Adds up the counts of each context. */
static void gather(const struct counts *counts, const uint8_t context_of[N_ENERGIES],
                   double by_context[N_CONTEXTS][N_TOKENS])
{
    memset(by_context, 0, N_CONTEXTS * sizeof by_context[0]);
    for (int e = 0; e < N_ENERGIES; e++)
        for (int t = 0; t < N_TOKENS; t++)
            by_context[context_of[e]][t] += counts->n[e][t];
}

/* Energies of one piece cannot be told apart. */
enum { N_PIECES = FREE_ENERGIES + (N_ENERGIES - FREE_ENERGIES) / 16 };

static int piece_of(int energy)
{
    return energy < FREE_ENERGIES ? energy : FREE_ENERGIES + (energy - FREE_ENERGIES) / 16;
}

/* Sets costs[i][j] to the bits of pieces i..j-1 as one context. */
static void find_costs(const struct counts *counts, double costs[N_PIECES][N_PIECES + 1])
{
    static double pieces[N_PIECES][N_TOKENS];
    memset(pieces, 0, sizeof pieces);
    for (int e = 0; e < N_ENERGIES; e++)
        for (int t = 0; t < N_TOKENS; t++)
            pieces[piece_of(e)][t] += counts->n[e][t];
    for (int i = 0; i < N_PIECES; i++) {
        double sum[N_TOKENS] = {0};
        for (int j = i; j < N_PIECES; j++) {
            for (int t = 0; t < N_TOKENS; t++)
                sum[t] += pieces[j][t];
            costs[i][j + 1] = entropy(sum);
        }
    }
}

/* Finds the contexts that cost the fewest bits, by the best k contexts of the first j pieces,
 * for all k and j. */
static void fit_buckets(const struct counts *counts, uint8_t context_of[N_ENERGIES])
{
    static double costs[N_PIECES][N_PIECES + 1], least[N_CONTEXTS + 1][N_PIECES + 1];
    static int last[N_CONTEXTS + 1][N_PIECES + 1]; /* first piece of the last of k contexts */
    int context_of_piece[N_PIECES];
    find_costs(counts, costs);
    for (int k = 0; k <= N_CONTEXTS; k++)
        for (int j = 0; j <= N_PIECES; j++) {
            least[k][j] = k == 0 && j == 0 ? 0 : INFINITY;
            for (int i = 0; k > 0 && i < j; i++)
                if (least[k - 1][i] + costs[i][j] < least[k][j]) {
                    least[k][j] = least[k - 1][i] + costs[i][j];
                    last[k][j] = i;
                }
        }
    for (int k = N_CONTEXTS, end = N_PIECES; k > 0; end = last[k][end], k--)
        for (int i = last[k][end]; i < end; i++)
            context_of_piece[i] = k - 1;
    for (int e = 0; e < N_ENERGIES; e++)
        context_of[e] = (uint8_t)context_of_piece[piece_of(e)];
}

struct bucket {
    int first; /* its first energy */
    double counts[N_TOKENS];
};

static double merge_loss(const struct bucket *a, const struct bucket *b)
{
    double both[N_TOKENS];
    for (int t = 0; t < N_TOKENS; t++)
        both[t] = a->counts[t] + b->counts[t];
    return entropy(both) - entropy(a->counts) - entropy(b->counts);
}

/* Makes contexts by merging neighbours with the least cost. It is used for 16 bits, whose counts
 * are of 8-bit images. The contexts that are best for these counts take 0.2 to 0.35 % more for
 * images of 16 bits. */
static void merge_buckets(const struct counts *counts, uint8_t context_of[N_ENERGIES])
{
    static struct bucket buckets[N_ENERGIES];
    int n = 0;
    for (int e = 0; e < N_ENERGIES; e++) {
        if (e < FREE_ENERGIES || e % 16 == 0) {
            buckets[n].first = e;
            memset(buckets[n++].counts, 0, sizeof buckets[0].counts);
        }
        for (int t = 0; t < N_TOKENS; t++)
            buckets[n - 1].counts[t] += counts->n[e][t];
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
    for (int e = 0, k = 0; e < N_ENERGIES; e++) {
        if (k + 1 < n && e >= buckets[k + 1].first)
            k++;
        context_of[e] = (uint8_t)k;
    }
}

/* Removes a token from contexts 0, 1.. as long as it is so rare that the other tokens gain more
 * by its 1 / 256. Its counts become -1. The effect on neighbours' contexts is neglected. */
static void replace_rare(double by_context[N_CONTEXTS][N_TOKENS])
{
    for (int t = 1; t < LAST_OF_8; t++)
        for (int k = 0; k < N_CONTEXTS; k++) {
            double sum = 0;
            for (int i = 0; i <= LAST_OF_8; i++)
                sum += by_context[k][i] > 0 ? by_context[k][i] : 0;
            if (by_context[k][t] * token_replaced_bits(t) > sum * log2(256 / 255.0))
                break;
            by_context[k][LAST_OF_8] += by_context[k][t];
            by_context[k][t] = -1;
        }
}

static void fit_freqs(double by_context[N_CONTEXTS][N_TOKENS], enum code code, struct tables *out)
{
    for (int k = 0; k < N_CONTEXTS; k++)
        round_freqs(by_context[k], code_n_tokens(code), code_prob_sum(code), out->freqs[code][k]);
}

void tables_fit(const struct counts *of_u8, const struct counts *as_16, const struct counts *of_u16,
                struct tables *out)
{
    static double by_context[N_CONTEXTS][N_TOKENS], prior[N_CONTEXTS][N_TOKENS];
    fit_buckets(of_u8, out->context_of[CODE_8]);
    gather(of_u8, out->context_of[CODE_8], by_context);
    replace_rare(by_context);
    fit_freqs(by_context, CODE_8, out);

    merge_buckets(as_16, out->context_of[CODE_16]);
    gather(as_16, out->context_of[CODE_16], prior);
    gather(of_u16, out->context_of[CODE_16], by_context);
    for (int k = 0; k < N_CONTEXTS; k++)
        for (int t = 0; t < N_TOKENS; t++)
            by_context[k][t] += PRIOR_OF_8 * prior[k][t];
    fit_freqs(by_context, CODE_16, out);
}

/* Returns the bits of an image's own table and of the counts with it. */
static double own_cost(const double counts[N_TOKENS], int prob_sum, double share)
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
            double code = rint(log2(counts[t] / sum * prob_sum) * STEPS_PER_OCTAVE);
            rounded[t] = exp2((code < 0 ? 0 : code) / STEPS_PER_OCTAVE);
        }
    round_freqs(rounded, n_tokens, prob_sum, freqs);
    double bits = (LENGTH_FIELD_BITS + FREQ_FIELD_BITS * n_tokens) * share;
    for (int t = 0; t < n_tokens; t++)
        if (counts[t] > 0)
            bits -= counts[t] * log2((double)freqs[t] / prob_sum);
    return bits;
}

double tables_cost(const struct counts *counts, const struct tables *tables, enum code code,
                   double share)
{
    static double by_context[N_CONTEXTS][N_TOKENS];
    double sum = 0, prob_sum = code_prob_sum(code);
    gather(counts, tables->context_of[code], by_context);
    for (int k = 0; k < N_CONTEXTS; k++) {
        for (int t = 1; code == CODE_8 && t < LAST_OF_8; t++)
            if (tables->freqs[code][k][t] == 0) {
                sum += by_context[k][t] * token_replaced_bits(t);
                by_context[k][LAST_OF_8] += by_context[k][t];
                by_context[k][t] = 0;
            }
        double own = own_cost(by_context[k], code_prob_sum(code), share), built_in = 0;
        for (int t = 0; t < N_TOKENS; t++)
            if (by_context[k][t] > 0)
                built_in -= by_context[k][t] * log2(tables->freqs[code][k][t] / prob_sum);
        sum += share + (own < built_in ? own : built_in);
    }
    return sum;
}
