/* pli_model.h - the trainer of PLI's wave mode: images in, constants out (docs/format-pli.md, 5).
 *
 * A corpus is a sample of units of 64x64 pixels of the images given. Filters are trained on blocks
 * of it, then residuals are made as an encoder would make them, then contexts and tables are fitted
 * to their tokens. One thread; memory is freed at exit only. */
#ifndef PST_PLI_MODEL_H
#define PST_PLI_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EDGE = 64,
    UNIT_SAMPLES = EDGE * EDGE,
    BLOCK = 16,
    BLOCK_SAMPLES = BLOCK * BLOCK,
    UNIT_BLOCKS = (EDGE / BLOCK) * (EDGE / BLOCK),
    N_PLANES = 3,
    N_FILTERS = 63,
    N_COEFFICIENTS = 7, /* U, UL, UR, UU, LL (each minus L), residuals of planes 0 and 1 */
    N_TOKENS = 47,
    N_CONTEXTS = 16,
    N_ENERGIES = 256,
    FREE_ENERGIES = 32 /* from here on only energy >> 4 counts */
};

/* The two ways of coding residuals: that of images of 8 bits and that of 16. */
enum code { CODE_8, CODE_16, N_CODES };

struct filter {
    int k[N_COEFFICIENTS]; /* in 1/32 */
};

struct dictionary {
    struct filter filters[N_PLANES][N_FILTERS];
};

/* How often which token came, by the energy of its neighbours (E in the law). */
struct counts {
    double n[N_ENERGIES][N_TOKENS];
};

struct tables {
    uint8_t context_of[N_CODES][N_ENERGIES];
    uint16_t freqs[N_CODES][N_CONTEXTS][N_TOKENS];
};

struct unit {
    uint32_t image;
    int height, width;
    uint16_t planes[N_PLANES][UNIT_SAMPLES];
    int16_t residuals[N_PLANES][UNIT_SAMPLES];
    double side_bits; /* of the choices that made the residuals */
};

struct image {
    char name[256]; /* of the file */
    uint32_t group; /* index of the folder */
    int channels, bits;
    bool trains;      /* else left out, and only reported on */
    double n_px;      /* of the whole image */
    double n_units;   /* of the whole image */
    double sample_px; /* in the corpus */
};

struct corpus {
    struct unit *units;
    size_t n_units;
    struct image *images;
    size_t n_images;
    const char **groups; /* folder names */
    size_t n_groups;
};

/* pli_model_load.c: adds at most `n_units` units, evenly spread, of each of the first `n_images`
 * images of `folder`. Of every two images one has `trains` off if `leave` is 0 or 1. False: said on
 * stderr. */
bool corpus_load(struct corpus *corpus, const char *folder, size_t n_images, size_t n_units,
                 int leave);

/* pli_model_predict.c: the law's prediction. */
struct neighbours {
    int left, up, up_left, up_right, up_up, left_left;
};
struct neighbours neighbours_at(const uint16_t *plane, int y, int x, int width);
int predict_med(const struct neighbours *n);
int wrap(int value, int bits);
/* Chooses predictors for each plane of a unit (small tier: one of four a plane, and taps; with
 * `dictionary`: also filters a block) and leaves the residuals and their side bits in the unit. */
void unit_predict(struct unit *unit, const struct image *image,
                  const struct dictionary *dictionary);

/* pli_model_filters.c: the filters of each plane, trained on the corpus's 8-bit images. False: no
 * memory. */
bool filters_train(struct corpus *corpus, struct dictionary *out);

/* pli_model_tokens.c */
int code_n_tokens(enum code code);
int code_prob_sum(enum code code);
/* Of 8 bits: how many raw bits more a token costs where the last one takes its place. */
int token_replaced_bits(int token);
/* Tokens of a unit by `code`, which may be the other bit depth's (that of 8 bits only for images of
 * 8 bits), added to `counts`, and their raw bits with signs to `raw_bits`. */
void unit_count(const struct unit *unit, const struct image *image, enum code code,
                struct counts *counts, double *raw_bits);

/* pli_model_contexts.c */
/* Contexts and tables of 8 bits from the counts of such images by their code; contexts of 16 bits
 * from `as_16`, counts of the same by the code of 16 bits, and tables from those of both. */
void tables_fit(const struct counts *of_8, const struct counts *as_16, const struct counts *of_16,
                struct tables *out);
/* Bits of an image's tokens: with its own tables (their coding included) or the built-in ones,
 * whichever are fewer, context by context. `share`: of the image's samples, in `counts`. */
double tables_cost(const struct counts *counts, const struct tables *tables, enum code code,
                   double share);

#endif
