/* augment_recipe.h - the second door of augment: gives one draw as numbers, for a machine (a GPU)
 * that runs the chain in its own way.
 *
 * A recipe says what psti_augment_run_* does with a sample. It begins with the region that the
 * decoder delivers. One step follows another, each from picture to picture. The last picture is
 * then stored. The filters of resizes are tables of integers in memory of the caller. Code that
 * follows a recipe as it is described here makes the same pixels, to the bit. The functions are
 * pure, run on any thread and allocate nothing. */
#ifndef PST_AUGMENT_AUGMENT_RECIPE_H
#define PST_AUGMENT_AUGMENT_RECIPE_H

#include "augment/augment.h"

/* The rule by which finished samples are stored. Floats: value * scale[c], rounded, + offset[c],
 * rounded. Integer images of other bits: 8 -> 16 as v * 257, 16 -> 8 as (v * 255 + 32895) >> 16;
 * masks keep their numbers. */
struct psti_recipe_finish {
    enum pst_dtype dtype;
    enum pst_layout layout;
    uint8_t channels, bits; /* channels and bits of the pixels before they are stored */
    bool is_mask;
    float scale[4], offset[4];
};
void psti_augment_chain_finish(const struct psti_chain *chain, struct psti_recipe_finish *finish);

/* Filters of one axis: output i is (half + sum over k < taps[i] of weights[i * stride + k] *
 * pixel[start[i] + k]) >> precision, clamped, where half = 1 << (precision - 1). The horizontal
 * filter comes first, then the vertical one. The pixels between them have the picture's bits. */
struct psti_recipe_axis {
    uint32_t n; /* number of outputs */
    /* Number of weights for each output, which is even. The weights after an output's taps are
     * zero. */
    uint32_t stride;
    uint32_t max_taps; /* largest number of taps of any output */
    /* Bits of the weights' fraction. 0: output i is pixel start[i], and there are no weights. */
    uint32_t precision;
    /* offsets in the tables, aligned to 64. `start` and `taps` are u32 [n]; `weights` are i16
     * [n][stride], or i32 [n][stride] for 16-bit samples. */
    size_t start, taps, weights;
};

enum psti_recipe_kind {
    PSTI_RECIPE_RESIZE, /* filters by both axes, then flips the result vertically if flip_y */
    PSTI_RECIPE_WINDOW,
    PSTI_RECIPE_FLIP,
    PSTI_RECIPE_JITTER,
    PSTI_RECIPE_GRAY,
    PSTI_RECIPE_CHANGE,       /* as in augment_tone.c */
    PSTI_RECIPE_AUTOCONTRAST, /* as in augment_tone.c */
    PSTI_RECIPE_EQUALIZE,     /* as in augment_tone.c */
    PSTI_RECIPE_SHARPEN,      /* as in augment_blur.c, by factors[0] */
    PSTI_RECIPE_BLUR,         /* as in augment_blur.c */
    PSTI_RECIPE_MAP           /* as in augment_warp.c */
};

struct psti_recipe_step {
    enum psti_recipe_kind kind;
    uint32_t height, width; /* size of the result */
    struct psti_recipe_axis axis_y, axis_x;
    bool flip_y, flip_x;
    /* WINDOW: the window's top left corner in a picture of full_height x full_width. The corner may
     * lie outside of that picture. Memory holds only the part of the picture from (base_y, base_x)
     * on, and the window shows no other part. Outside of the full picture the window shows the
     * fill, or the pixels of the full picture that pad_mode repeats there. */
    int32_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    enum pst_pad_mode pad_mode;
    uint16_t fill[4];
    /* JITTER (augment_color.c): `turns` lists the operations in the order in which they are done: 0
     * brightness, 1 contrast, 2 saturation, 3 hue. `factors` is indexed by operation; the factors
     * 1, 1, 1 and 0 change nothing. */
    uint32_t turns[4];
    float factors[4];
    /* CHANGE: each colour v of at least `least` becomes (v ^ flip) & mask. */
    float least;
    uint16_t flip, mask;
    /* BLUR: offsets of the taps (f32, aligned to 64) in the tables, and their odd numbers. */
    size_t taps_y, taps_x;
    uint32_t n_taps_y, n_taps_x;
    /* MAP: m of struct psti_warp. Places outside of the picture show `fill`. */
    double map[8];
    bool nearest; /* true: the nearest pixel; false: bilinear */
    bool blends;  /* a bilinear result is blended with `fill` by the share of pixels inside */
};

/* The rectangle of the finished picture that RandomErasing overwrites. A height of 0 overwrites
 * nothing. */
struct psti_recipe_erase {
    uint32_t y, x, height, width;
    uint32_t elements[4]; /* for each channel the bits of the slot's element */
};

/* One step for the front and at most three steps for each of 15 operations. */
#define PSTI_RECIPE_MAX_STEPS 46

struct psti_recipe {
    uint32_t region_height, region_width; /* size of the picture that comes in */
    uint32_t height, width;               /* size of the finished picture */
    /* NULL, or the name of an operation of the draw that a recipe cannot describe. The recipe is
     * incomplete then. */
    const char *other;
    struct psti_recipe_erase erase;
    size_t tables_nbytes; /* bytes of all tables, a multiple of 64 */
    uint32_t n_steps;
    struct psti_recipe_step steps[PSTI_RECIPE_MAX_STEPS];
};

/* Returns whether a recipe of the chain may have a BLUR. */
bool psti_augment_chain_blurs(const struct psti_chain *chain);
/* Fills the recipe except the contents of the tables and the precision of the axes. */
void psti_augment_chain_recipe(const struct psti_chain *chain, const struct psti_draw *draw,
                               struct psti_recipe *recipe);
/* Fills the tables of that recipe in `memory`, which is aligned to 64, and sets the precision of
 * each axis. */
void psti_augment_chain_recipe_tables(const struct psti_chain *chain, const struct psti_draw *draw,
                                      struct psti_recipe *recipe, void *memory);

#endif
