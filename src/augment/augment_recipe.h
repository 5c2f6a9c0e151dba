/* augment_recipe.h - the second door of augment: one draw as numbers, for a machine that runs
 * it in its own way.
 *
 * A recipe says what psti_run_* does with a sample: from the region that the decoder delivers, one
 * step after another, each from picture to picture, to the finished one, which is then stored. The
 * filters of resizes are tables of integers, in memory of the caller; whoever follows a recipe as
 * it is described here gets the same pixels, to the bit. Pure functions, any thread, nothing is
 * claimed. */
#ifndef PST_AUGMENT_AUGMENT_RECIPE_H
#define PST_AUGMENT_AUGMENT_RECIPE_H

#include "augment/augment.h"

/* How finished samples are stored. Floats: value * scale[c], rounded, + offset[c], rounded. Integer
 * images of other bits: 8 -> 16 as v * 257, 16 -> 8 as (v * 255 + 32895) >> 16; masks keep their
 * numbers. */
struct psti_recipe_finish {
    enum pst_dtype dtype;
    enum pst_layout layout;
    uint8_t channels, bits; /* of the pixels on the way */
    bool is_mask;
    float scale[4], offset[4];
};
void psti_augment_chain_finish(const struct psti_chain *chain, struct psti_recipe_finish *finish);

/* Filters of one axis: output i is (half + sum over k < taps[i] of weights[i * stride + k] *
 * pixel[start[i] + k]) >> precision, clamped, where half = 1 << (precision - 1). Horizontal first,
 * then vertical, the pixels between them have the picture's bits. */
struct psti_recipe_axis {
    uint32_t n;                  /* outputs */
    uint32_t stride;             /* weights per output, even; those behind its taps are zero */
    uint32_t max_taps;           /* of any output */
    uint32_t precision;          /* 0: output i is pixel start[i], and there are no weights */
    size_t start, taps, weights; /* offsets in the tables: u32 [n], u32 [n], and i16 or, for 16-bit
                                    samples, i32 [n][stride]; aligned to 64 */
};

enum psti_recipe_kind {
    PSTI_RECIPE_RESIZE, /* axes; then the result is turned upside down if flip_y */
    PSTI_RECIPE_WINDOW,
    PSTI_RECIPE_FLIP,
    PSTI_RECIPE_JITTER,
    PSTI_RECIPE_GRAY
};

struct psti_recipe_step {
    enum psti_recipe_kind kind;
    uint32_t height, width; /* of the result */
    struct psti_recipe_axis axis_y, axis_x;
    bool flip_y, flip_x;
    /* WINDOW: its top left corner in a picture of full_height x full_width, may lie outside of it;
     * of that picture only the part from (base_y, base_x) on is there, and no more is shown.
     * Outside is the fill, or what the mode shows there (of the full picture). */
    int32_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    enum pst_pad_mode pad_mode;
    uint16_t fill[4];
    /* JITTER (augment_color.c): the operations in the order in which they are done: 0 brightness,
     * 1 contrast, 2 saturation, 3 hue; factors by operation, 1, 1, 1 and 0 change nothing. */
    uint32_t turns[4];
    float factors[4];
};

/* A front and at most three steps of each of 15 operations. */
#define PSTI_RECIPE_MAX_STEPS 46

struct psti_recipe {
    uint32_t region_height, region_width; /* of the picture that comes in */
    uint32_t height, width;               /* finished */
    size_t tables_nbytes;                 /* a multiple of 64 */
    uint32_t n_steps;
    struct psti_recipe_step steps[PSTI_RECIPE_MAX_STEPS];
};

/* All but the tables' contents and the axes' precision. */
void psti_augment_chain_recipe(const struct psti_chain *chain, const struct psti_draw *draw,
                               struct psti_recipe *recipe);
/* Fills the tables of that recipe, `memory` aligned to 64, and sets precisions. */
void psti_augment_chain_recipe_tables(const struct psti_chain *chain, const struct psti_draw *draw,
                                      struct psti_recipe *recipe, void *memory);

#endif
