/* pli_jpeg_model.h - the trainer of PLI's JPEG content: JPEG files in, constants out
 * (docs/format-pli.md, section 8).
 *
 * A corpus is all blocks of the given files, as tokens. Weights, biases and limits choose a
 * coefficient's table. These and the tables are fitted in turns to the cost of the tokens. One
 * thread; memory is freed at exit only. */
#ifndef PST_PLI_JPEG_MODEL_H
#define PST_PLI_JPEG_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    N_FEATURES = 6,
    N_BUCKETS = 8,
    N_LIMITS = N_BUCKETS - 1,
    N_DISTANCES = 4,
    N_INDICES = 128, /* values of x, which the limits divide into buckets */
    N_AC_CONTEXTS = N_DISTANCES * N_BUCKETS,
    N_AC_TOKENS = 8,
    N_SYMBOLS = N_DISTANCES * N_AC_TOKENS, /* 8 * distance + token */
    N_CLASSES = 16,                        /* classes of ends of blocks */
    N_DC_TOKENS = 14,
    N_TOKENS_MAX = 16,
    PROB_SUM = 4096
};

struct constants {
    int weights[2][64][N_FEATURES]; /* [side][k] */
    int biases[2][64];
    int limits[N_LIMITS];
    uint16_t ac[N_AC_CONTEXTS][N_AC_TOKENS];
    uint16_t ends[2][N_CLASSES][N_CLASSES];
    uint16_t dc[2][N_CLASSES][N_DC_TOKENS];
};

struct block {
    uint8_t tokens[64];  /* by zigzag number; [0] is 0, because DC has tokens of its own */
    uint8_t end;         /* the last coefficient that is not 0 */
    uint8_t end_context; /* context of its class */
    uint8_t dc_token;
    uint8_t side;
};

struct image {
    const char *name;
    uint32_t group; /* index of the list */
    bool trains;    /* false: left out of training and only reported */
    double nbytes;  /* length of the file */
    double raw_bits;
    size_t first, n; /* its blocks */
};

struct corpus {
    struct block *blocks;
    size_t n_blocks, n_blocks_max;
    struct image *images;
    size_t n_images;
    const char **groups; /* names of lists */
    size_t n_groups;
};

/* Returns the weight of a token of the image in training, such that all images weigh alike. */
static inline double image_weight(const struct image *image) { return 1e5 / image->nbytes; }

/* pli_jpeg_model_load.c: adds the JPEG files that the lines of `list` name. With `leave` 0 or 1,
 * every second file is left out of training. False after a message on stderr. */
bool corpus_load(struct corpus *corpus, const char *list, int leave);
/* The least end of each class of ends. */
extern const uint8_t end_lowest[N_CLASSES];
int end_class(int end);
/* Sets the zigzag numbers of the six earlier coefficients that help to predict k; 0 if none. */
void features_of(int k, uint8_t positions[N_FEATURES]);
static inline int distance_of(int end_minus_k)
{
    return end_minus_k == 0 ? 0 : end_minus_k <= 2 ? 1 : end_minus_k <= 6 ? 2 : 3;
}

/* pli_jpeg_model_fit.c: fits the constants to the images that train. False if there is no
 * memory. */
bool constants_fit(const struct corpus *corpus, struct constants *out);
extern const int token_values[N_AC_TOKENS]; /* g of each token */
/* Sets the bucket of each value of x. */
void buckets_of(const int limits[N_LIMITS], uint8_t buckets[N_INDICES]);
static inline int clamp_index(int sum)
{
    int x = sum >> 1;
    return x < 0 ? 0 : x > N_INDICES - 1 ? N_INDICES - 1 : x;
}

/* pli_jpeg_model_tables.c */
struct counts {
    double ac[N_AC_CONTEXTS][N_AC_TOKENS];
    double ends[2][N_CLASSES][N_CLASSES];
    double dc[2][N_CLASSES][N_DC_TOKENS];
};
/* Adds an image's tokens, each with this weight. */
void counts_add(const struct corpus *corpus, const struct image *image,
                const struct constants *constants, double weight, struct counts *counts);
/* Rounds counts to frequencies of sum PROB_SUM, each at least 1. */
void round_freqs(const double *counts, int n, uint16_t *freqs);
void tables_fit(const struct counts *counts, struct constants *out);
/* Bits of an image's tokens: with the built-in tables, and with the image's own if these pay. */
struct bits {
    double ac[2], ends[2], dc[2]; /* [own tables may be used] */
};
struct bits image_bits(const struct counts *counts, const struct constants *constants);
/* Reads the lines jpeg_* of docs/format-pli-tables.txt. False after a message on stderr. */
bool constants_read(const char *path, struct constants *out);

#endif
