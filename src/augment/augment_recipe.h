/* augment_recipe.h - public functions of the module augment that describe one draw as numbers, for
 * a GPU that runs the chain in its own way.
 *
 * A recipe describes what psti_augment_run_* does with a sample. It begins with the region that the
 * decoder delivers. Then steps follow, each from picture to picture. The last picture is stored in
 * the batch. The filters of resizes are tables of integers in memory of the caller. Code that
 * follows a recipe as described here makes the same pixels, to the bit. The functions are pure, run
 * on any thread and allocate nothing. */
#ifndef PST_AUGMENT_AUGMENT_RECIPE_H
#define PST_AUGMENT_AUGMENT_RECIPE_H

#include "augment/augment.h"

/* How finished samples are stored. Floats: value * scale[c], rounded, then + offset[c], rounded.
 * Integer images: 8 to 16 bits by v * 257, 16 to 8 bits by (v * 255 + 32895) >> 16. Masks keep
 * their numbers. */
struct psti_recipe_finish {
    enum pst_dtype dtype;
    enum pst_layout layout;
    uint8_t channels, bits; /* channels and bits of the pixels before the conversion */
    bool is_mask;
    float scale[4], offset[4];
};
void psti_augment_chain_finish(const struct psti_chain *chain, struct psti_recipe_finish *finish);

/* The filters of one axis. Output i is (half + sum over k < taps[i] of weights[i * stride + k] *
 * pixel[start[i] + k]) >> precision, clamped, where half = 1 << (precision - 1). The horizontal
 * filter runs first, then the vertical one. The pixels between the two have the picture's bits. */
struct psti_recipe_axis {
    uint32_t n; /* number of outputs */
    /* Number of weights stored for each output, an even number. Weights after an output's taps are
     * zero. */
    uint32_t stride;
    uint32_t max_taps; /* largest number of taps of an output */
    /* Fraction bits of the weights. 0: there are no weights, and output i is pixel start[i]. */
    uint32_t precision;
    /* Offsets of arrays in the tables' memory, multiples of 64. `start` and `taps` are u32 [n];
     * `weights` are i16 [n][stride], or i32 [n][stride] for 16-bit samples. */
    size_t start, taps, weights;
};

enum psti_recipe_kind {
    PSTI_RECIPE_RESIZE, /* filters both axes, then flips the result vertically if flip_y */
    PSTI_RECIPE_WINDOW,
    PSTI_RECIPE_FLIP,
    PSTI_RECIPE_JITTER,
    PSTI_RECIPE_GRAY,
    PSTI_RECIPE_CHANGE,       /* operation of augment_tone.c, with `least` */
    PSTI_RECIPE_AUTOCONTRAST, /* see augment_tone.c */
    PSTI_RECIPE_EQUALIZE,     /* see augment_tone.c */
    PSTI_RECIPE_SHARPEN,      /* see augment_blur.c; factors[0] */
    PSTI_RECIPE_BLUR,         /* see augment_blur.c */
    PSTI_RECIPE_MAP,          /* warp, see augment_warp.c */
    PSTI_RECIPE_LABELS,       /* replaces numbers of 8 bits by a table's, see augment_labels.c */
    /* A weighted sum of pictures (AugMix, see augment_augmix.c). SPLIT keeps the picture and begins
     * a sum of floats with `share` times the picture. Each BRANCH begins with the kept picture. The
     * picture that the steps after it have made is multiplied by `share` and added to the sum. MIX
     * ends the last branch, clamps the sums and truncates them. There are at most
     * PSTI_RECIPE_MAX_BRANCHES branches, and none within another. */
    PSTI_RECIPE_SPLIT,
    PSTI_RECIPE_BRANCH,
    PSTI_RECIPE_MIX
};

#define PSTI_RECIPE_MAX_BRANCHES 8

/* A stream of random numbers. Try t gives the four numbers of Philox-4x32-10 (base/philox.h) with
 * the counter (sample low, sample high, number, t) and the key. */
struct psti_recipe_stream {
    uint32_t key[2];
    uint64_t sample;
    uint32_t number;
};

/* The displacements along one axis of an elastic warp (see make_shifts in augment_warp.c): noise,
 * blurred unless n_taps is 0, times `scale`. */
struct psti_recipe_shifts {
    size_t taps; /* offset of the taps in the tables' memory (f32, a multiple of 64) */
    uint32_t n_taps;
    float scale;
};

struct psti_recipe_step {
    enum psti_recipe_kind kind;
    uint32_t height, width; /* size of the step's result */
    bool flip_y, flip_x;
    uint16_t fill[4]; /* of WINDOW and MAP */
    union {
        struct {
            struct psti_recipe_axis axis_y, axis_x;
        };
        /* WINDOW: position of the window's top left corner in a picture of full_height x
         * full_width; it may lie outside of that picture. The step's input is only the part of the
         * picture from (base_y, base_x) on, and the window shows no other part. Outside of the full
         * picture the window shows the fill, or the pixels that pad_mode repeats there. */
        struct {
            int32_t y, x;
            uint32_t full_height, full_width, base_y, base_x;
            enum pst_pad_mode pad_mode;
        };
        /* JITTER (augment_color.c): `turns` lists the operations in the order in which they run: 0
         * brightness, 1 contrast, 2 saturation, 3 hue. `factors` is indexed by operation. An
         * operation with factor 1 (hue: 0) changes nothing. */
        struct {
            uint32_t turns[4];
            float factors[4];
        };
        /* CHANGE: each sample v of a colour becomes (v ^ flip) & mask if v >= `least`. */
        struct {
            float least;
            uint16_t flip, mask;
        };
        /* BLUR: offsets of the taps in the tables' memory (f32, multiples of 64), and the odd
         * numbers of taps. */
        struct {
            size_t taps_y, taps_x;
            uint32_t n_taps_y, n_taps_x;
        };
        /* MAP: the matrix m of struct psti_warp. Positions outside of the picture show `fill`. */
        struct {
            double map[8];
            struct psti_recipe_stream stream;    /* is_elastic: noise of the displacements */
            struct psti_recipe_shifts shifts[2]; /* is_elastic: along x and along y */
            bool is_elastic;
            bool nearest; /* true: nearest pixel; false: bilinear interpolation */
            bool blends;  /* bilinear: blends with `fill` by the share of weight outside */
        };
        float share;  /* SPLIT, BRANCH */
        size_t table; /* LABELS: offset of u8 [256] in the tables' memory, a multiple of 64 */
    };
};

/* The rectangle of the finished picture that RandomErasing overwrites. Height 0 means none. */
struct psti_recipe_erase {
    uint32_t y, x, height, width;
    uint32_t elements[4]; /* for each channel, the bits of an element of the output */
    /* true: element i of the rectangle, in the order (y, x, channel), is number i of the normal
     * noise from `stream` instead (see noise_at in augment_erase.c) */
    bool noise;
    struct psti_recipe_stream stream;
};

/* The front becomes one step, and each of the 15 operations becomes at most three. AugMix takes its
 * steps from the others, and is not described if there are too few. */
#define PSTI_RECIPE_MAX_PLAIN_STEPS 46
#define PSTI_RECIPE_MAX_STEPS 128

struct psti_recipe {
    uint32_t region_height, region_width; /* size of the recipe's input picture */
    uint32_t height, width;               /* size of the finished picture */
    /* NULL, or the name of a drawn operation that a recipe cannot describe. Then the recipe is
     * incomplete. */
    const char *other;
    struct psti_recipe_erase erase;
    size_t tables_nbytes; /* bytes of all tables together, a multiple of 64 */
    uint32_t n_steps;
    struct psti_recipe_step steps[PSTI_RECIPE_MAX_STEPS];
};

/* Upper limits for the recipes of a chain, of sources of height x width pixels. */
struct psti_recipe_bound {
    bool blurs;             /* there may be steps BLUR */
    uint64_t shifts_pixels; /* of a picture that an elastic warp moves; 0: there is none */
    uint64_t split_pixels;  /* of a picture at a SPLIT; 0: there is none */
    uint32_t n_branches;    /* of a SPLIT */
    uint32_t depth;         /* steps in a branch */
};
void psti_augment_chain_recipe_bound(const struct psti_chain *chain, uint32_t height,
                                     uint32_t width, struct psti_recipe_bound *bound);
/* Fills in the recipe, except the contents of the tables and the precision of the axes. */
void psti_augment_chain_recipe(const struct psti_chain *chain, const struct psti_draw *draw,
                               struct psti_recipe *recipe);
/* Fills in the tables of a recipe in `memory`, which is aligned to 64 bytes, and sets the precision
 * of each axis. */
void psti_augment_chain_recipe_tables(const struct psti_chain *chain, const struct psti_draw *draw,
                                      struct psti_recipe *recipe, void *memory);

#endif
