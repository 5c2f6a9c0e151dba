/* pli_jpeg_model_tables.c - counts tokens by context, makes frequency tables, and computes the
 * cost of tokens with them. */
#include "pli_jpeg_model.h"

#include <math.h>
#include <string.h>

enum { STEPS_PER_OCTAVE = 5, CODES_MAX = 63, FIELD_BITS = 6 }; /* of coded frequencies */

/* Added to every token's count, so that none has a frequency by chance. */
static const double PRIOR = 0.05;

void counts_add(const struct corpus *corpus, const struct image *image,
                const struct constants *constants, double weight, struct counts *counts)
{
    uint8_t positions[64][N_FEATURES], buckets[N_INDICES];
    for (int k = 0; k < 64; k++)
        features_of(k, positions[k]);
    buckets_of(constants->limits, buckets);
    for (size_t i = image->first; i < image->first + image->n; i++) {
        const struct block *block = &corpus->blocks[i];
        int side = block->side, class = end_class(block->end);
        counts->ends[side][block->end_context][class] += weight;
        counts->dc[side][class][block->dc_token] += weight;
        for (int k = 1; k <= block->end; k++) {
            int sum = constants->biases[side][k];
            for (int f = 0; f < N_FEATURES; f++)
                sum +=
                    constants->weights[side][k][f] * token_values[block->tokens[positions[k][f]]];
            int context = N_BUCKETS * distance_of(block->end - k) + buckets[clamp_index(sum)];
            counts->ac[context][block->tokens[k]] += weight;
        }
    }
}

void round_freqs(const double *counts, int n, uint16_t *freqs)
{
    double sum = 0;
    int left = PROB_SUM;
    for (int t = 0; t < n; t++)
        sum += counts[t] + PRIOR;
    for (int t = 0; t < n; t++) {
        int f = (int)lrint((counts[t] + PRIOR) / sum * PROB_SUM);
        freqs[t] = (uint16_t)(f < 1 ? 1 : f);
        left -= freqs[t];
    }
    /* Corrects the sum at the frequencies where that changes the fewest bits. */
    while (left != 0) {
        int step = left > 0 ? 1 : -1, best = -1;
        double best_gain = -INFINITY;
        for (int t = 0; t < n; t++) {
            if (freqs[t] + step < 1)
                continue;
            double gain = (counts[t] + PRIOR) * log2((double)(freqs[t] + step) / freqs[t]);
            if (gain > best_gain) {
                best_gain = gain;
                best = t;
            }
        }
        freqs[best] = (uint16_t)(freqs[best] + step);
        left -= step;
    }
}

void tables_fit(const struct counts *counts, struct constants *out)
{
    for (int c = 0; c < N_AC_CONTEXTS; c++)
        round_freqs(counts->ac[c], N_AC_TOKENS, out->ac[c]);
    for (int side = 0; side < 2; side++)
        for (int c = 0; c < N_CLASSES; c++) {
            round_freqs(counts->ends[side][c], N_CLASSES, out->ends[side][c]);
            round_freqs(counts->dc[side][c], N_DC_TOKENS, out->dc[side][c]);
        }
}

static double cost(const double *counts, const double *freqs, int n)
{
    double bits = 0;
    for (int t = 0; t < n; t++)
        if (counts[t] > 0)
            bits -= counts[t] * log2(freqs[t] / PROB_SUM);
    return bits;
}

/* Returns the bits of an image's own table (section 8.6) and of the counts with it. */
static double own_cost(const double *counts, int n)
{
    double sum = 0, widths_sum = 0, freqs[N_TOKENS_MAX] = {0};
    int used = 0, largest = 0, left = PROB_SUM;
    for (int t = 0; t < n; t++) {
        sum += counts[t];
        used = counts[t] > 0 ? t + 1 : used;
    }
    for (int t = 0; t < used; t++)
        if (counts[t] > 0) {
            double code = rint(log2(counts[t] / sum * PROB_SUM) * STEPS_PER_OCTAVE);
            freqs[t] = rint(exp2(fmin(fmax(code, 0), CODES_MAX - 1) / STEPS_PER_OCTAVE));
            widths_sum += freqs[t];
        }
    for (int t = 0; t < used; t++)
        if (counts[t] > 0) {
            freqs[t] = fmax(1, floor(PROB_SUM * freqs[t] / widths_sum));
            left -= (int)freqs[t];
            largest = freqs[t] > freqs[largest] ? t : largest;
        }
    freqs[largest] += left;
    return FIELD_BITS + FIELD_BITS * used + cost(counts, freqs, used);
}

static void add_bits(const double *counts, const uint16_t *built_in, int n, double bits[2])
{
    double freqs[N_TOKENS_MAX], sum = 0;
    for (int t = 0; t < n; t++) {
        sum += counts[t];
        freqs[t] = built_in[t];
    }
    double with_built_in = cost(counts, freqs, n);
    double with_own = sum > 0 ? own_cost(counts, n) : with_built_in;
    bits[0] += with_built_in;
    bits[1] += 1 + (with_own < with_built_in ? with_own : with_built_in);
}

struct bits image_bits(const struct counts *counts, const struct constants *constants)
{
    struct bits bits = {0};
    for (int c = 0; c < N_AC_CONTEXTS; c++)
        add_bits(counts->ac[c], constants->ac[c], N_AC_TOKENS, bits.ac);
    for (int side = 0; side < 2; side++)
        for (int c = 0; c < N_CLASSES; c++) {
            add_bits(counts->ends[side][c], constants->ends[side][c], N_CLASSES, bits.ends);
            add_bits(counts->dc[side][c], constants->dc[side][c], N_DC_TOKENS, bits.dc);
        }
    return bits;
}

/* Reads the first `n` numbers after the name. False if there are fewer. */
static bool read_numbers(const char *line, int *numbers, int n)
{
    int length = 0;
    if (sscanf(line, "%*s%n", &length) != 0)
        return false;
    for (int i = 0; i < n; i++) {
        int step = 0;
        if (sscanf(line + length, "%d%n", &numbers[i], &step) != 1)
            return false;
        length += step;
    }
    return true;
}

/* Reads a row of a table: "name set context f0 f1 ...". */
static bool read_row(const char *line, uint16_t *rows, int n_sets, int n_contexts, int n_tokens)
{
    int numbers[2 + N_TOKENS_MAX];
    if (!read_numbers(line, numbers, 2 + n_tokens) || numbers[0] < 0 || numbers[0] >= n_sets ||
        numbers[1] < 0 || numbers[1] >= n_contexts)
        return false;
    for (int t = 0; t < n_tokens; t++)
        rows[(numbers[0] * n_contexts + numbers[1]) * n_tokens + t] = (uint16_t)numbers[2 + t];
    return true;
}

static bool read_weights(const char *line, struct constants *out)
{
    int numbers[2 + N_FEATURES + 1];
    if (!read_numbers(line, numbers, 2 + N_FEATURES + 1) || numbers[0] < 0 || numbers[0] > 1 ||
        numbers[1] < 0 || numbers[1] > 63)
        return false;
    memcpy(out->weights[numbers[0]][numbers[1]], numbers + 2, N_FEATURES * sizeof numbers[0]);
    out->biases[numbers[0]][numbers[1]] = numbers[2 + N_FEATURES];
    return true;
}

bool constants_read(const char *path, struct constants *out)
{
    char line[1024];
    int n_lines = 0;
    bool good = true;
    FILE *file = fopen(path, "r");
    memset(out, 0, sizeof *out);
    while (good && file != NULL && fgets(line, sizeof line, file) != NULL) {
        n_lines += strncmp(line, "jpeg_", 5) == 0;
        if (strncmp(line, "jpeg_weights ", 13) == 0)
            good = read_weights(line, out);
        else if (strncmp(line, "jpeg_limits ", 12) == 0)
            good = read_numbers(line, out->limits, N_LIMITS);
        else if (strncmp(line, "jpeg_ac ", 8) == 0)
            good = read_row(line, out->ac[0], 1, N_AC_CONTEXTS, N_AC_TOKENS);
        else if (strncmp(line, "jpeg_ends ", 10) == 0)
            good = read_row(line, out->ends[0][0], 2, N_CLASSES, N_CLASSES);
        else if (strncmp(line, "jpeg_dc ", 8) == 0)
            good = read_row(line, out->dc[0][0], 2, N_CLASSES, N_DC_TOKENS);
    }
    good = good && n_lines == 2 * 64 + 1 + N_AC_CONTEXTS + 4 * N_CLASSES;
    if (!good)
        fprintf(stderr, "pli-jpeg-model: %s: does not have the constants\n", path);
    if (file != NULL)
        fclose(file);
    return good;
}
