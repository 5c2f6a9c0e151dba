/* gpu_prepare.h - from the picture that a decoder leaves to the finished row of a slot. Plain C
 * and CUDA.
 *
 * A recipe (augment/augment_recipe.h) becomes passes: each is one launch for all rows of a field,
 * reads a picture and writes one, or the slot. Colours need no pass of their own unless a contrast
 * is to know the mean of what came before: a pass then leaves the sum of its result. Most rows are
 * one pass or none: where nothing but a crop and flips is asked for, the decoder's sink finishes.
 *
 * Pictures are (height, width, channels) of the field's bits, packed, aligned to 64, and followed
 * by PSTI_GPU_SLACK bytes that may be read. */
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
/* Rows behind the horizontal filter that a warp keeps: a power of two. */
#define PSTI_GPU_RING 32u
#define PSTI_GPU_RING_NBYTES(bits) (PSTI_GPU_RING * PSTI_GPU_TILE_WIDTH * (bits) / 2)

enum psti_gpu_color {
    PSTI_GPU_BRIGHTNESS,
    PSTI_GPU_CONTRAST,
    PSTI_GPU_SATURATION,
    PSTI_GPU_HUE,
    PSTI_GPU_GRAY
};

/* A struct psti_recipe_axis on the card. */
struct psti_gpu_axis {
    uint64_t start, taps, weights;
    uint32_t stride, precision;
};

/* Resize, or window; then colours; then flips. */
struct psti_gpu_pass {
    uint64_t from; /* picture */
    uint64_t to;   /* picture, or slot if finished; 0: nothing but the sum is wanted */
    /* Sums of luma, uint64_t: that a contrast needs, of sum_pixels pixels; that this pass adds its
     * result to, 0 before. 0: none. */
    uint64_t sum_from, sum_to;
    uint64_t sum_pixels;
    uint32_t from_height, from_width;
    uint32_t height, width; /* of the result */
    struct psti_gpu_axis axis_y, axis_x;
    /* A window as struct psti_recipe_step has it; the picture itself if there is none. */
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

/* psti_gpu_resize: passes that resize. psti_gpu_point: the others. Either a launch for rows of
 * one field. */
struct psti_gpu_prepare_args {
    uint64_t passes; /* struct psti_gpu_pass [n_passes], one per row that has one to run now */
    uint32_t n_passes;
    uint32_t n_tiles; /* the most that psti_gpu_pass_tiles says of any of them */
    struct psti_gpu_finish finish;
};

#ifndef __cplusplus

#include "augment/augment_recipe.h"

#define PSTI_GPU_MAX_PASSES 16

/* One row. */
struct psti_gpu_prepare {
    struct psti_recipe recipe;
    uint32_t region_y, region_x;
    size_t tables_nbytes;  /* to be uploaded, aligned to 64; a multiple of 64 */
    size_t scratch_nbytes; /* on the card, aligned to 64; a multiple of 64 */
    size_t first_nbytes;   /* of these: the first of two places for pictures */
    bool flip_y, flip_x;   /* of the decoder's sink, if there are no passes */
    uint32_t n_passes;     /* 0: the decoder's sink finishes the row */
    struct psti_gpu_pass passes[PSTI_GPU_MAX_PASSES];
};

/* What the finish of that chain's field is, for rows of height x width. */
void psti_gpu_prepare_finish(const struct psti_chain *chain, uint32_t height, uint32_t width,
                             struct psti_gpu_finish *finish);
/* Finds out what a row takes. `is_picture`: the region's pixels come as a picture, made by
 * somebody else; there is a pass then at least. PST_ERROR_UNSUPPORTED: more passes than there is
 * room for. */
enum pst_status psti_gpu_prepare_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                                      bool is_picture, struct psti_gpu_prepare *prepare,
                                      struct pst_error *err);
/* Writes the tables and puts addresses into the passes: tables_nbytes of `tables` will lie at
 * `tables_at` on the card, the row has scratch_nbytes at `scratch_at`; `picture_at` is that of
 * is_picture. `to` of the last pass, which is finished, is left to the caller. */
void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at);
/* Where a decoder puts the region: all of the sink but height, width, channels, bits and
 * orientation. If the row has no passes, `at` is left to the caller. */
void psti_gpu_prepare_sink(const struct psti_gpu_prepare *prepare, uint64_t scratch_at,
                           struct psti_gpu_sink *sink);

/* Tiles, one warp's work each, of a pass. */
uint32_t psti_gpu_pass_tiles(const struct psti_gpu_pass *pass);
/* How to launch args: psti_gpu_resize if `resizes`, else psti_gpu_point. */
void psti_gpu_prepare_shape(const struct psti_gpu_prepare_args *args, bool resizes,
                            uint32_t *n_blocks, uint32_t *n_warps, uint32_t *shared_nbytes);

#endif
#endif
