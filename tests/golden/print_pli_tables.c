/* print_pli_tables.c - prints the constants of PLI's wave, lz and coefficient modes in the form of
 * docs/format-pli-tables.txt. With a path it compares that file with them and prints the first
 * difference. After a change of constants: print_pli_tables >docs/format-pli-tables.txt */
#include "pli/format/pli_jpeg_format.h"
#include "pli/format/pli_lz_format.h"
#include "pli/format/pli_wave_format.h"

#include <stdio.h>
#include <string.h>

static void print_buckets(FILE *out, uint32_t bits)
{
    fprintf(out, "# Q of %u bits: the context of E = 0..255, 16 to a line\n", bits);
    for (int e = 0; e < 256; e++) {
        if (e % 16 == 0)
            fprintf(out, "buckets%u", bits);
        fprintf(out, " %d%s", psti_pli_wave_bucket[bits == 16][e], e % 16 == 15 ? "\n" : "");
    }
}

static void print_freqs(FILE *out, uint32_t bits)
{
    fprintf(out, "# built-in tables of images of %u bits: context, f of tokens 0, 1, ...\n", bits);
    for (int c = 0; c < PSTI_PLI_N_CONTEXTS; c++) {
        fprintf(out, "freqs%u %d", bits, c);
        for (uint32_t t = 0; t < psti_pli_wave_n_tokens(bits); t++)
            fprintf(out, " %d", psti_pli_wave_freqs[bits == 16][c][t]);
        fprintf(out, "\n");
    }
}

static void print_filters(FILE *out)
{
    fprintf(out, "# filters: list (0: plane 0, plane 3, and all planes with transform 0; else the "
                 "plane), number, k1..k5, a, b\n");
    for (int list = 0; list < 3; list++)
        for (int n = 0; n < PSTI_PLI_N_FILTERS; n++) {
            const struct psti_pli_filter *f = &psti_pli_filters[list][n];
            fprintf(out, "filter %d %d %d %d %d %d %d %d %d\n", list, n + 1, f->k[0], f->k[1],
                    f->k[2], f->k[3], f->k[4], f->a, f->b);
        }
}

static void print_rows(FILE *out, const char *name, int set, const uint16_t *rows, int n_rows,
                       int n_symbols)
{
    for (int c = 0; c < n_rows; c++) {
        fprintf(out, "%s %d %d", name, set, c);
        for (int i = 0; i < n_symbols; i++)
            fprintf(out, " %d", rows[c * n_symbols + i]);
        fprintf(out, "\n");
    }
}

static void print_lz(FILE *out)
{
    fprintf(out, "# lz, built-in tables: set (0 labels, 1 graphics), context, f of tokens 0, 1, "
                 "...\n");
    for (int set = 0; set < 2; set++) {
        const struct psti_pli_lz_built_in *b = &psti_pli_lz_built_in[set];
        print_rows(out, "lz_run", set, b->run[0], PSTI_PLI_LZ_RUN_CONTEXTS, PSTI_PLI_LZ_N_RUNS);
        print_rows(out, "lz_offset", set, b->offset[0], PSTI_PLI_LZ_OFFSET_CONTEXTS,
                   PSTI_PLI_LZ_N_OFFSETS);
        print_rows(out, "lz_length", set, b->length[0], PSTI_PLI_LZ_LENGTH_CONTEXTS,
                   PSTI_PLI_LZ_N_LENGTHS);
    }
}

static void print_jpeg(FILE *out)
{
    const struct psti_jpeg_tables *b = &psti_jpeg_builtin;
    fprintf(out, "# coefficients: side, k, the weights of the six earlier ones, bias\n");
    for (int side = 0; side < 2; side++)
        for (int k = 0; k < 64; k++) {
            fprintf(out, "jpeg_weights %d %d", side, k);
            for (int i = 0; i < PSTI_JPEG_N_FEATURES; i++)
                fprintf(out, " %d", psti_jpeg_weights[side][k][i]);
            fprintf(out, " %d\n", psti_jpeg_biases[side][k]);
        }
    fprintf(out, "# limits of buckets\njpeg_limits");
    for (int i = 0; i < PSTI_JPEG_N_LIMITS; i++)
        fprintf(out, " %d", psti_jpeg_limits[i]);
    fprintf(out, "\n# coefficients, built-in tables: side (of ac 0), context, f of tokens 0, 1, "
                 "...\n");
    print_rows(out, "jpeg_ac", 0, b->ac[0], PSTI_JPEG_N_AC_CONTEXTS, PSTI_JPEG_N_AC_TOKENS);
    for (int side = 0; side < 2; side++)
        print_rows(out, "jpeg_ends", side, b->ends[side][0], PSTI_JPEG_N_ENDS, PSTI_JPEG_N_ENDS);
    for (int side = 0; side < 2; side++)
        print_rows(out, "jpeg_dc", side, b->dc[side][0], PSTI_JPEG_N_ENDS, PSTI_JPEG_N_DC_TOKENS);
}

static void print_dictionary(FILE *out)
{
    fprintf(out, "# restoration: the bytes of the dictionary, 32 to a line\n");
    for (size_t i = 0; i < psti_jpeg_dictionary_nbytes; i++) {
        bool is_last = i % 32 == 31 || i + 1 == psti_jpeg_dictionary_nbytes;
        fprintf(out, "%s%d%s", i % 32 == 0 ? "jpeg_dictionary " : " ", psti_jpeg_dictionary[i],
                is_last ? "\n" : "");
    }
}

/* Returns 0 if both files are equal. */
static int compare(FILE *a, FILE *b, const char *path)
{
    char line_a[1024], line_b[1024];
    for (int n = 1;; n++) {
        char *got_a = fgets(line_a, sizeof line_a, a), *got_b = fgets(line_b, sizeof line_b, b);
        if (!got_a && !got_b)
            return 0;
        if (!got_a || !got_b || strcmp(line_a, line_b) != 0) {
            fprintf(stderr, "%s:%d: is not what the library has: print_pli_tables >%s\n", path, n,
                    path);
            return 1;
        }
    }
}

int main(int argc, char **argv)
{
    FILE *out = argc > 1 ? tmpfile() : stdout, *file = NULL;
    int status = 1;
    if (!out)
        return 1;
    fprintf(out,
            "# Trained constants of PLI, part of the format: docs/format-pli.md, sections 5.8, "
            "6.3, 8.7 and 10. Written by tests/golden/print_pli_tables.c\n");
    print_buckets(out, 8);
    print_buckets(out, 16);
    print_freqs(out, 8);
    print_freqs(out, 16);
    print_filters(out);
    print_lz(out);
    print_jpeg(out);
    print_dictionary(out);
    if (argc < 2)
        return fflush(out) != 0;
    file = fopen(argv[1], "r");
    if (!file)
        goto out;
    rewind(out);
    status = compare(file, out, argv[1]);
out:
    if (file)
        fclose(file);
    fclose(out);
    return status;
}
