/* gpu_prepare.h - the passes from the picture that a decoder leaves to the finished row of a slot.
 * Plain C and CUDA.
 *
 * A recipe (augment/augment_recipe.h) becomes passes. A pass is one launch for all rows of a field;
 * it reads a picture and writes a picture or the slot. Colours need no pass of their own, unless a
 * contrast needs the mean of the picture before it: a pass then leaves the sum of its result. Most
 * rows have one pass or none: if only a crop and flips are wanted, the decoder's sink finishes the
 * row.
 *
 * Pictures are (height, width, channels) of the field's bits, packed, aligned to 64. PSTI_GPU_SLACK
 * bytes that may be read follow them. */
#ifndef PST_GPU_GPU_PREPARE_H
#define PST_GPU_GPU_PREPARE_H

#include "gpu/work/gpu_store.h"

#define PSTI_GPU_SLACK 64u
#define PSTI_GPU_MAX_COLORS 8

/* Shape of the launches: a warp makes a tile of the result. */
#define PSTI_GPU_PREPARE_WARPS 8u
#define PSTI_GPU_TILE_WIDTH 32u
#define PSTI_GPU_RESIZE_ROWS 32u
#define PSTI_GPU_POINT_ROWS 16u
/* Rows that a warp keeps after the horizontal filter: a power of two. */
#define PSTI_GPU_RING 32u
#define PSTI_GPU_RING_NBYTES(bits) (PSTI_GPU_RING * PSTI_GPU_TILE_WIDTH * (bits) / 2)

enum psti_gpu_color {
    PSTI_GPU_BRIGHTNESS,
    PSTI_GPU_CONTRAST,
    PSTI_GPU_SATURATION,
    PSTI_GPU_HUE,
    PSTI_GPU_GRAY
};

/* A struct psti_recipe_axis on the GPU. */
struct psti_gpu_axis {
    uint64_t start, taps, weights;
    uint32_t stride, precision;
};

/* A pass: resize or window, then colours, then flips. */
struct psti_gpu_pass {
    uint64_t from; /* address of a picture */
    uint64_t to;   /* address of a picture, or of the slot if finished; 0: only the sum is wanted */
    /* Addresses of sums of luma, uint64_t; 0: none. sum_from: a sum over sum_pixels pixels that a
     * contrast needs. sum_to: the sum to which this pass adds its result, 0 before. */
    uint64_t sum_from, sum_to;
    uint64_t sum_pixels;
    uint32_t from_height, from_width;
    uint32_t height, width; /* size of the result */
    struct psti_gpu_axis axis_y, axis_x;
    /* A window as struct psti_recipe_step has it, or the whole picture. */
    int32_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    uint16_t fill[4];
    float factors[PSTI_GPU_MAX_COLORS];
    uint8_t colors[PSTI_GPU_MAX_COLORS];
    uint8_t n_colors;
    uint8_t pad_mode;
    uint8_t flip_y, flip_x;
    uint8_t finished;
    uint8_t resizes;
    uint8_t reserved[2];
};

/* psti_gpu_resize runs passes that resize, psti_gpu_point the others. Each launch is for rows of
 * one field. */
struct psti_gpu_prepare_args {
    uint64_t passes; /* struct psti_gpu_pass [n_passes], one per row that has one to run now */
    uint32_t n_passes;
    uint32_t n_tiles; /* largest psti_gpu_pass_tiles of the passes */
    struct psti_gpu_finish finish;
};

#ifndef __cplusplus

#include "augment/augment_recipe.h"

#define PSTI_GPU_MAX_PASSES 16

/* Passes and memory of one row. */
struct psti_gpu_prepare {
    struct psti_recipe recipe;
    uint32_t region_y, region_x;
    size_t tables_nbytes;  /* to be uploaded, aligned to 64; a multiple of 64 */
    size_t scratch_nbytes; /* on the GPU, aligned to 64; a multiple of 64 */
    size_t first_nbytes;   /* bytes of it that the first of the two places for pictures takes */
    bool flip_y, flip_x;   /* flips of the decoder's sink, if there are no passes */
    uint32_t n_passes;     /* 0: the decoder's sink finishes the row */
    struct psti_gpu_pass passes[PSTI_GPU_MAX_PASSES];
};

/* Sets the finish of that chain's field for rows of height x width. */
void psti_gpu_prepare_finish(const struct psti_chain *chain, uint32_t height, uint32_t width,
                             struct psti_gpu_finish *finish);
/* Plans a row. `is_picture`: other code makes the region's pixels as a picture; there is at least
 * one pass then. PST_ERROR_UNSUPPORTED: more passes than PSTI_GPU_MAX_PASSES. */
enum pst_status psti_gpu_prepare_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                                      bool is_picture, struct psti_gpu_prepare *prepare,
                                      struct pst_error *err);
/* Writes the tables and sets the addresses of the passes. tables_nbytes of `tables` will lie at
 * `tables_at` on the GPU. The row has scratch_nbytes at `scratch_at`. `picture_at` is the address
 * of a picture of other code. The caller sets `to` of the last pass, which is finished. */
void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at);
/* Sets the place where a decoder stores the region: all of the sink but height, width, channels,
 * bits and orientation. If the row has no passes, the caller sets `at`. */
void psti_gpu_prepare_sink(const struct psti_gpu_prepare *prepare, uint64_t scratch_at,
                           struct psti_gpu_sink *sink);

/* Tiles, one warp's work each, of a pass. */
uint32_t psti_gpu_pass_tiles(const struct psti_gpu_pass *pass);
/* Shape of a launch with these args: psti_gpu_resize if `resizes`, else psti_gpu_point. */
void psti_gpu_prepare_shape(const struct psti_gpu_prepare_args *args, bool resizes,
                            uint32_t *n_blocks, uint32_t *n_warps, uint32_t *shared_nbytes);

#endif
#endif
