/* pli_model.h - the trainer of PLI's wave mode: images in, constants out (docs/format-pli.md, 5).
 *
 * A corpus is a sample of units of 64x64 pixels of the given images. Filters are trained on its
 * blocks. Then residuals are made as an encoder makes them, and contexts and tables are fitted
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
    FREE_ENERGIES = 32 /* energies from here on are told apart only by energy >> 4 */
};

/* The two codes of residuals: of images of 8 bits, and of 16. */
enum code { CODE_8, CODE_16, N_CODES };

struct filter {
    int k[N_COEFFICIENTS]; /* in units of 1/32 */
};

struct dictionary {
    struct filter filters[N_PLANES][N_FILTERS];
};

/* Counts of tokens by the energy of their neighbours (E in the format). */
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
    double side_bits; /* bits of the encoder's choices */
};

struct image {
    char name[256]; /* name of the file */
    uint32_t group; /* index of the folder */
    int channels, bits;
    bool trains;      /* false: left out of training and only reported */
    double n_px;      /* pixels of the whole image */
    double n_units;   /* units of the whole image */
    double sample_px; /* pixels in the corpus */
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
 * images of `folder`. With `leave` 0 or 1, every second image is left out of training. False
 * after a message on stderr. */
bool corpus_load(struct corpus *corpus, const char *folder, size_t n_images, size_t n_units,
                 int leave);

/* pli_model_predict.c: the format's prediction. */
struct neighbours {
    int left, up, up_left, up_right, up_up, left_left;
};
struct neighbours neighbours_at(const uint16_t *plane, int y, int x, int width);
int predict_med(const struct neighbours *n);
int wrap(int value, int bits);
/* Chooses predictors for each plane of a unit: in the small tier one of four for each plane, and
 * taps; with `dictionary` also a filter for each block. Stores the residuals and their side bits
 * in the unit. */
void unit_predict(struct unit *unit, const struct image *image,
                  const struct dictionary *dictionary);

/* pli_model_filters.c: trains the filters of each plane on the corpus's 8-bit images. False if
 * there is no memory. */
bool filters_train(struct corpus *corpus, struct dictionary *out);

/* pli_model_tokens.c */
int code_n_tokens(enum code code);
int code_prob_sum(enum code code);
/* Code of 8 bits: returns how many more raw bits a token costs if the last token replaces it. */
int token_replaced_bits(int token);
/* Counts the tokens of a unit in `counts`, and adds the number of their raw bits, signs included,
 * to `raw_bits`. Images of 8 bits may be counted by either code, images of 16 bits only by that of
 * 16 bits. */
void unit_count(const struct unit *unit, const struct image *image, enum code code,
                struct counts *counts, double *raw_bits);

/* pli_model_contexts.c */
/* Fits contexts and tables. Those of 8 bits come from `of_u8`, the counts of 8-bit images by
 * their own code. Contexts of 16 bits come from `as_16`, counts of the same images by the code
 * of 16 bits; tables of 16 bits come from `as_16` and `of_u16`. */
void tables_fit(const struct counts *of_u8, const struct counts *as_16, const struct counts *of_u16,
                struct tables *out);
/* Returns the bits of an image's tokens. In each context it takes the image's own table (with
 * its coding) or the built-in one, whichever needs fewer. `share`: the part of the image's
 * samples that `counts` has. */
double tables_cost(const struct counts *counts, const struct tables *tables, enum code code,
                   double share);

#endif
