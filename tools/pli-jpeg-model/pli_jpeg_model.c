/* pli_jpeg_model.c - the trainer's command line: lists of JPEG files in,
 * src/pli/format/pli_jpeg_constants.c out.
 *
 *     pli-jpeg-model [--leave 0|1] [--against TABLES] [--output FILE] LIST...
 *
 * For each list it prints the bytes of each part of the format with the constants. */
#include "pli_jpeg_model.h"

#include <stdlib.h>
#include <string.h>

struct options {
    int leave;
    const char *against, *output;
};

static bool parse(int argc, char **argv, struct options *options, int *first)
{
    *options = (struct options){-1, NULL, NULL};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--leave") == 0 && strchr("01", argv[i + 1][0]) != NULL)
            options->leave = argv[i + 1][0] - '0';
        else if (strcmp(argv[i], "--against") == 0)
            options->against = argv[i + 1];
        else if (strcmp(argv[i], "--output") == 0)
            options->output = argv[i + 1];
        else
            return false;
    }
    *first = i;
    return i < argc;
}

/* Prints one line for each list: percent of the bytes of its files. If files were left out, only
 * those count. */
static void report(const struct corpus *corpus, const char *name, bool left_out,
                   const struct constants *constants)
{
    printf("%s, %s\n%-30s %9s | built-in: %6s %6s %6s | own too: %6s %6s %6s | %6s | %6s %6s\n",
           name, left_out ? "files left out" : "all files", "percent of the files", "bytes", "ac",
           "ends", "dc", "ac", "ends", "dc", "raw", "sum", "own");
    for (uint32_t g = 0; g < corpus->n_groups; g++) {
        double nbytes = 0, raw = 0, ac[2] = {0}, ends[2] = {0}, dc[2] = {0};
        for (size_t i = 0; i < corpus->n_images; i++) {
            const struct image *image = &corpus->images[i];
            static struct counts counts;
            if (image->group != g || (left_out && image->trains))
                continue;
            memset(&counts, 0, sizeof counts);
            counts_add(corpus, image, constants, 1, &counts);
            struct bits bits = image_bits(&counts, constants);
            for (int own = 0; own < 2; own++) {
                ac[own] += bits.ac[own];
                ends[own] += bits.ends[own];
                dc[own] += bits.dc[own];
            }
            nbytes += image->nbytes;
            raw += image->raw_bits;
        }
        double p = 100 / 8.0 / nbytes;
        printf("%-30.30s %9.0f | %17.3f %6.3f %6.3f | %16.3f %6.3f %6.3f | %6.3f | %6.3f %6.3f\n",
               corpus->groups[g], nbytes, p * ac[0], p * ends[0], p * dc[0], p * ac[1], p * ends[1],
               p * dc[1], p * raw, p * (ac[0] + ends[0] + dc[0] + raw),
               p * (ac[1] + ends[1] + dc[1] + raw));
    }
}

/* Prints `{0, 1, ...}` in lines of at most 96 columns; `indent` begins the later lines. */
static void print_numbers(FILE *out, const char *indent, const int *numbers, int n)
{
    int column = (int)strlen(indent);
    fprintf(out, "{");
    for (int i = 0; i < n; i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "%d%s", numbers[i], i + 1 < n ? "," : "}");
        if (i > 0 && column + 1 + length > 96) {
            fprintf(out, "\n%s", indent);
            column = (int)strlen(indent);
        } else if (i > 0) {
            fprintf(out, " ");
            column++;
        }
        fprintf(out, "%s", text);
        column += length;
    }
}

static void print_rows(FILE *out, const char *indent, const uint16_t *rows, int n_rows, int n)
{
    char inner[32];
    snprintf(inner, sizeof inner, "%s ", indent);
    for (int row = 0; row < n_rows; row++) {
        int numbers[N_TOKENS_MAX];
        for (int t = 0; t < n; t++)
            numbers[t] = rows[row * n + t];
        fprintf(out, "%s", indent);
        print_numbers(out, inner, numbers, n);
        fprintf(out, ",\n");
    }
}

static void print_weights(FILE *out, const struct constants *constants)
{
    fprintf(out, "const int8_t psti_jpeg_weights[2][64][PSTI_JPEG_N_FEATURES] = {\n");
    for (int side = 0; side < 2; side++) {
        fprintf(out, "    {\n");
        for (int k = 0; k < 64; k++) {
            fprintf(out, "        ");
            print_numbers(out, "         ", constants->weights[side][k], N_FEATURES);
            fprintf(out, ",\n");
        }
        fprintf(out, "    },\n");
    }
    fprintf(out, "};\n\nconst int16_t psti_jpeg_biases[2][64] = {\n");
    for (int side = 0; side < 2; side++) {
        fprintf(out, "    ");
        print_numbers(out, "     ", constants->biases[side], 64);
        fprintf(out, ",\n");
    }
    fprintf(out, "};\n\nconst uint8_t psti_jpeg_limits[PSTI_JPEG_N_LIMITS] = ");
    print_numbers(out, "    ", constants->limits, N_LIMITS);
    fprintf(out, ";\n");
}

static void print_tables(FILE *out, const struct constants *constants)
{
    fprintf(out, "\nconst struct psti_jpeg_tables psti_jpeg_builtin = {\n    .ac = {\n");
    print_rows(out, "        ", constants->ac[0], N_AC_CONTEXTS, N_AC_TOKENS);
    fprintf(out, "    },\n    .ends = {\n");
    for (int side = 0; side < 2; side++) {
        fprintf(out, "        {\n");
        print_rows(out, "            ", constants->ends[side][0], N_CLASSES, N_CLASSES);
        fprintf(out, "        },\n");
    }
    fprintf(out, "    },\n    .dc = {\n");
    for (int side = 0; side < 2; side++) {
        fprintf(out, "        {\n");
        print_rows(out, "            ", constants->dc[side][0], N_CLASSES, N_DC_TOKENS);
        fprintf(out, "        },\n");
    }
    fprintf(out, "    },\n};\n");
}

static bool print_model(const char *path, const struct constants *constants)
{
    FILE *out = fopen(path, "w");
    if (out == NULL)
        return false;
    fprintf(out, "/* pli_jpeg_constants.c - trained constants of PLI's JPEG content: what "
                 "earlier coefficients say\n"
                 " * about the next one, and built-in tables.\n"
                 " *\n"
                 " * Printed by tools/pli-jpeg-model (its README names the files and the command). "
                 "They are part of\n"
                 " * the format (docs/format-pli.md, 8.7), model number 1: a change is a new "
                 "number. */\n"
                 "#include \"pli/format/pli_jpeg_format.h\"\n\n/* clang-format off */\n");
    print_weights(out, constants);
    print_tables(out, constants);
    fprintf(out, "/* clang-format on */\n");
    return fclose(out) == 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct corpus corpus = {0};
    static struct constants constants, other;
    int first;
    if (!parse(argc, argv, &options, &first)) {
        fprintf(stderr, "usage: pli-jpeg-model [--leave 0|1] [--against TABLES] [--output FILE] "
                        "LIST...\n");
        return 2;
    }
    if (options.against != NULL && !constants_read(options.against, &other))
        return 1;
    for (int i = first; i < argc; i++)
        if (!corpus_load(&corpus, argv[i], options.leave))
            return 1;
    printf("%zu files, %zu blocks\n", corpus.n_images, corpus.n_blocks);
    if (!constants_fit(&corpus, &constants)) {
        fprintf(stderr, "pli-jpeg-model: out of memory\n");
        return 1;
    }
    if (options.against != NULL)
        report(&corpus, options.against, options.leave >= 0, &other);
    report(&corpus, "trained", options.leave >= 0, &constants);
    if (options.output != NULL && !print_model(options.output, &constants)) {
        fprintf(stderr, "pli-jpeg-model: %s: cannot be written\n", options.output);
        return 1;
    }
    return 0;
}
