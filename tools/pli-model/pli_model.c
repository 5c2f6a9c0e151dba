/* pli_model.c - the trainer's command line: folders in, src/pli/format/pli_wave_constants.c out.
 *
 *     pli-model [--images N] [--units N] [--leave 0|1] [--output FILE] FOLDER...
 *
 * For each folder it prints the bits per pixel of an ideal coder of the format. */
#include "pli_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of mode, raw length, exponents of the states, and index. */
static const int UNIT_OVERHEAD_NBYTES[N_CODES] = {1 + 2 + 12 + 6, 1 + 2 + 16 + 6};
enum { FILE_OVERHEAD_NBYTES = 40 + 4 };

struct options {
    size_t n_images, n_units;
    int leave;
    const char *output;
};

static bool parse(int argc, char **argv, struct options *options, int *first)
{
    *options = (struct options){1000000, 64, -1, NULL};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        long n = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--images") == 0 && n > 0)
            options->n_images = (size_t)n;
        else if (strcmp(argv[i], "--units") == 0 && n > 0)
            options->n_units = (size_t)n;
        else if (strcmp(argv[i], "--leave") == 0 && (n == 0 || n == 1))
            options->leave = (int)n;
        else if (strcmp(argv[i], "--output") == 0)
            options->output = argv[i + 1];
        else
            return false;
    }
    *first = i;
    return i < argc;
}

/* Counts of an image's units, coded with `dictionary` (NULL: the small tier). */
struct tally {
    struct counts own, as_16; /* by the code of its bit depth; by the code of 16 bits */
    double raw_bits, side_bits;
};

static enum code code_of(const struct image *image) { return image->bits == 8 ? CODE_8 : CODE_16; }

static void count_images(struct corpus *corpus, const struct dictionary *dictionary,
                         struct tally *tallies)
{
    memset(tallies, 0, corpus->n_images * sizeof *tallies);
    for (size_t u = 0; u < corpus->n_units; u++) {
        struct unit *unit = &corpus->units[u];
        struct tally *tally = &tallies[unit->image];
        const struct image *image = &corpus->images[unit->image];
        unit_predict(unit, image, dictionary);
        double raw_bits_as_16 = 0;
        unit_count(unit, image, code_of(image), &tally->own, &tally->raw_bits);
        unit_count(unit, image, CODE_16, &tally->as_16, &raw_bits_as_16);
        tally->side_bits += unit->side_bits;
    }
}

/* Counts of the images that train, by the code of their bit depth; and of 8-bit images by the
 * code of 16 bits. */
struct pools {
    struct counts own[N_CODES], as_16;
};

static void pool_image(const struct image *image, const struct counts *counts, struct counts *pool)
{
    for (int e = 0; e < N_ENERGIES; e++)
        for (int t = 0; t < N_TOKENS; t++)
            pool->n[e][t] += counts->n[e][t] * 1e5 / (image->sample_px * image->channels);
}

/* Adds up the images' counts with weights that make all images weigh alike. */
static void pool_images(const struct corpus *corpus, const struct tally *tallies,
                        struct pools *pools)
{
    for (size_t i = 0; i < corpus->n_images; i++) {
        const struct image *image = &corpus->images[i];
        if (!image->trains)
            continue;
        pool_image(image, &tallies[i].own, &pools->own[code_of(image)]);
        if (code_of(image) == CODE_8)
            pool_image(image, &tallies[i].as_16, &pools->as_16);
    }
}

static double image_bytes(const struct image *image, struct tally *tally,
                          const struct tables *tables)
{
    enum code code = code_of(image);
    double share = image->sample_px / image->n_px;
    double bits =
        tables_cost(&tally->own, tables, code, share) + tally->raw_bits + tally->side_bits;
    return bits / share / 8 + image->n_units * UNIT_OVERHEAD_NBYTES[code] + FILE_OVERHEAD_NBYTES;
}

static void report(const struct corpus *corpus, struct tally *small, struct tally *dense,
                   const struct tables *tables, bool left_out)
{
    printf("%-40s %9s %9s\n", left_out ? "bits per pixel, images left out" : "bits per pixel",
           "small", "dense");
    for (size_t g = 0; g < corpus->n_groups; g++) {
        double n_px = 0, bytes[2] = {0, 0};
        for (size_t i = 0; i < corpus->n_images; i++) {
            const struct image *image = &corpus->images[i];
            if (image->group != g || (left_out && image->trains))
                continue;
            double s = image_bytes(image, &small[i], tables);
            double d = image_bytes(image, &dense[i], tables);
            printf("  %-38.38s %9.0f %9.0f\n", image->name, s, d);
            n_px += image->n_px;
            bytes[0] += s;
            bytes[1] += d;
        }
        printf("%-40.40s %9.3f %9.3f\n", corpus->groups[g], 8 * bytes[0] / n_px,
               8 * bytes[1] / n_px);
    }
}

static void print_numbers(FILE *out, const char *indent, const int *numbers, int n)
{
    int column = 0;
    for (int i = 0; i < n; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d%s", numbers[i], i + 1 < n ? "," : "");
        if (column == 0 || column + 1 + length > 96) {
            fprintf(out, "%s%s", i == 0 ? "" : "\n", i == 0 ? "" : indent);
            column = (int)strlen(indent);
        } else {
            fprintf(out, " ");
            column++;
        }
        fprintf(out, "%s", text);
        column += length;
    }
}

static void print_tables(FILE *out, const struct tables *tables)
{
    int numbers[N_ENERGIES];
    fprintf(out, "/* clang-format off */\nconst uint8_t psti_pli_wave_bucket[2][256] = {\n");
    for (int code = 0; code < N_CODES; code++) {
        for (int e = 0; e < N_ENERGIES; e++)
            numbers[e] = tables->context_of[code][e];
        fprintf(out, "    {\n        ");
        print_numbers(out, "        ", numbers, N_ENERGIES);
        fprintf(out, "\n    },\n");
    }
    fprintf(out, "};\n\nconst uint16_t psti_pli_wave_freqs[2][PSTI_PLI_N_CONTEXTS]"
                 "[PSTI_PLI_N_TOKENS] = {\n");
    for (int code = 0; code < N_CODES; code++) {
        int n = code_n_tokens((enum code)code);
        fprintf(out, "    {\n");
        for (int k = 0; k < N_CONTEXTS; k++) {
            for (int t = 0; t < n; t++)
                numbers[t] = tables->freqs[code][k][t];
            fprintf(out, "        {");
            print_numbers(out, "         ", numbers, n);
            fprintf(out, "},\n");
        }
        fprintf(out, "    },\n");
    }
    fprintf(out, "};\n/* clang-format on */\n");
}

static bool print_model(const char *path, const struct dictionary *dictionary,
                        const struct tables *tables)
{
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return false;
    fprintf(out,
            "/* pli_wave_constants.c - trained constants of PLI's wave mode: contexts, built-in "
            "tables, filters.\n"
            " *\n"
            " * Printed by tools/pli-model (its README names the images and the command). They "
            "are part of the\n"
            " * format, version 2 (docs/format-pli.md, 5.8): a change is a new version of the "
            "format. */\n"
            "#include \"pli/format/pli_wave_format.h\"\n\n");
    print_tables(out, tables);
    fprintf(out, "\n/* clang-format off */\n"
                 "const struct psti_pli_filter psti_pli_filters[3][PSTI_PLI_N_FILTERS] = {\n");
    for (int plane = 0; plane < N_PLANES; plane++) {
        fprintf(out, "    {\n");
        for (int f = 0; f < N_FILTERS; f++) {
            const int *k = dictionary->filters[plane][f].k;
            fprintf(out, "        {{%d, %d, %d, %d, %d}, %d, %d},\n", k[0], k[1], k[2], k[3], k[4],
                    k[5], k[6]);
        }
        fprintf(out, "    },\n");
    }
    fprintf(out, "};\n/* clang-format on */\n");
    return fclose(out) == 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct corpus corpus = {0};
    static struct dictionary dictionary;
    static struct tables tables;
    static struct pools pools;
    int first;
    if (!parse(argc, argv, &options, &first)) {
        fprintf(stderr, "usage: pli-model [--images N] [--units N] [--leave 0|1] [--output FILE] "
                        "FOLDER...\n");
        return 2;
    }
    for (int i = first; i < argc; i++)
        if (!corpus_load(&corpus, argv[i], options.n_images, options.n_units, options.leave))
            return 1;
    struct tally *small = calloc(corpus.n_images, sizeof *small);
    struct tally *dense = calloc(corpus.n_images, sizeof *dense);
    if (small == NULL || dense == NULL)
        return 1;
    if (!filters_train(&corpus, &dictionary)) {
        fprintf(stderr, "pli-model: out of memory\n");
        return 1;
    }
    count_images(&corpus, NULL, small);
    count_images(&corpus, &dictionary, dense);
    pool_images(&corpus, small, &pools);
    pool_images(&corpus, dense, &pools);
    tables_fit(&pools.own[CODE_8], &pools.as_16, &pools.own[CODE_16], &tables);
    report(&corpus, small, dense, &tables, options.leave >= 0);
    if (options.output != NULL && !print_model(options.output, &dictionary, &tables)) {
        fprintf(stderr, "pli-model: %s: cannot be written\n", options.output);
        return 1;
    }
    return 0;
}
