/* gpu_prepare.h - the passes from the picture that a decoder leaves to the finished row of a slot.
 * Plain C and CUDA.
 *
 * A recipe (augment/augment_recipe.h) becomes passes. A pass of all rows of a field is one launch
 * for each kernel that has any; it reads a picture and writes a picture or the slot. Colours need
 * no pass of their own, unless a contrast needs the mean of the picture before it: a pass then
 * leaves the sum of its result. An automatic contrast and an equalisation need a pass that makes a
 * table from the picture before them. Most rows have one pass or none: if only a crop and flips are
 * wanted, the decoder's sink finishes the row. A rectangle that is erased is a pass after the row
 * is finished.
 *
 * Pictures are (height, width, channels) of the field's bits, packed, aligned to 64. PSTI_GPU_SLACK
 * bytes that may be read follow them. */
#ifndef PST_GPU_GPU_PREPARE_H
#define PST_GPU_GPU_PREPARE_H

#include "gpu/work/gpu_store.h"

#define PSTI_GPU_SLACK 64u
#define PSTI_GPU_MAX_COLORS 8

/* Warps in a block of the launches. Each warp makes a tile of the result. */
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
    PSTI_GPU_GRAY,
    PSTI_GPU_INVERT,    /* inverts colours of at least the factor */
    PSTI_GPU_POSTERIZE, /* keeps the bits of colours that are set in the factor */
    PSTI_GPU_TABLE,     /* looks colours up in a table that PSTI_GPU_LEVEL or PSTI_GPU_STRETCH
                         * made */
    PSTI_GPU_STRETCHED  /* stretches colours by the ranges that PSTI_GPU_STRETCH of 16 bits found */
};

/* What a pass does before it applies colours and flips and stores the result. */
enum psti_gpu_pass_kind {
    PSTI_GPU_WINDOW,
    PSTI_GPU_RESIZES,
    PSTI_GPU_MAP,
    PSTI_GPU_SHARPEN,
    PSTI_GPU_BLUR_X, /* turns a picture into floats; does nothing else */
    PSTI_GPU_BLUR_Y, /* turns these floats into a picture */
    /* Writes the part (y, x, height, width) of a finished row of full_height x full_width pixels.
     * Does nothing else. */
    PSTI_GPU_ERASE,
    PSTI_GPU_LEVEL,  /* makes the table of an equalisation; does nothing else */
    PSTI_GPU_STRETCH /* makes the table of an automatic contrast; does nothing else */
};

/* The kernels that run passes, in the order of their launches. */
enum psti_gpu_pass_kernel {
    PSTI_GPU_PASS_RESIZE,
    PSTI_GPU_PASS_POINT,
    PSTI_GPU_PASS_MAP,
    PSTI_GPU_PASS_FILTER,
    PSTI_GPU_PASS_TONES,
    PSTI_GPU_N_PASS_KERNELS
};

/* A table has 256 bytes for each of three colours. It is indexed by samples of 8 bits, or by the
 * upper halves of samples of 16 bits, whose results are its bytes times 257. Ranges are the lowest
 * and the highest sample of each colour, u32. */
#define PSTI_GPU_TABLE_NBYTES 768u
#define PSTI_GPU_TONES_COLORS 3u
/* Shared memory of a block of psti_gpu_tones: counts of samples, and the ranges that each warp
 * finds. */
#define PSTI_GPU_TONES_NBYTES                                                                      \
    (4 * (256 * PSTI_GPU_TONES_COLORS + 2 * PSTI_GPU_TONES_COLORS * PSTI_GPU_PREPARE_WARPS))

/* A struct psti_recipe_axis with addresses on the GPU. */
struct psti_gpu_axis {
    uint64_t start, taps, weights;
    uint32_t stride, precision;
};

/* A pass. It does what its kind says, then applies colours, then flips. */
struct psti_gpu_pass {
    uint64_t from; /* address of a picture */
    uint64_t to;   /* address of a picture, or of the slot if finished; 0: only the sum is wanted */
    /* Addresses of sums of luma (uint64_t); 0: none. sum_from is the sum over sum_pixels pixels
     * that a contrast needs. This pass adds its result to sum_to, which is 0 before. */
    uint64_t sum_from, sum_to;
    uint64_t sum_pixels;
    uint32_t from_height, from_width;
    uint32_t height, width; /* size of the result */
    struct psti_gpu_axis axis_y, axis_x;
    /* The window that struct psti_recipe_step describes, or the whole picture. */
    int32_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    uint16_t fill[4];
    uint64_t table;       /* address: LEVEL, STRETCH make it; TABLE, STRETCHED use it */
    uint64_t taps;        /* BLUR_X, BLUR_Y: address of f32 [n_taps] */
    double map[8];        /* MAP, as struct psti_warp has it */
    uint32_t elements[4]; /* ERASE: bits of the slot's element, by channel */
    uint32_t n_taps;
    float sharpness; /* SHARPEN: the factor */
    float factors[PSTI_GPU_MAX_COLORS];
    uint8_t colors[PSTI_GPU_MAX_COLORS];
    uint8_t n_colors;
    uint8_t pad_mode;
    uint8_t flip_y, flip_x;
    uint8_t finished;
    uint8_t kind;            /* enum psti_gpu_pass_kind */
    uint8_t nearest, blends; /* MAP: as in struct psti_recipe_step */
};

/* The arguments of a launch. Each launch is for rows of one field. */
struct psti_gpu_prepare_args {
    uint64_t passes; /* address of struct psti_gpu_pass [n_passes], one per row that has a pass to
                      * run now */
    uint32_t n_passes;
    uint32_t n_tiles; /* largest psti_gpu_pass_tiles of the passes */
    struct psti_gpu_finish finish;
};

#ifndef __cplusplus

#include "augment/augment_recipe.h"

#define PSTI_GPU_MAX_PASSES 16

/* The passes of one row, and the memory that they need. */
struct psti_gpu_prepare {
    struct psti_recipe recipe;
    uint32_t region_y, region_x;
    size_t tables_nbytes;  /* bytes to upload, a multiple of 64, at an address aligned to 64 */
    size_t scratch_nbytes; /* bytes on the GPU, a multiple of 64, at an address aligned to 64 */
    /* Bytes of the scratch that the two places for pictures and the place for floats take. Tables
     * follow these. */
    size_t first_nbytes, second_nbytes, floats_nbytes;
    bool sink_finishes;  /* true if the decoder's sink finishes the row; a pass may then erase a
                          * part of it */
    bool flip_y, flip_x; /* the flips that this sink does */
    uint32_t n_passes;
    struct psti_gpu_pass passes[PSTI_GPU_MAX_PASSES];
};

/* Sets the finish of the chain's field for rows of height x width. */
void psti_gpu_prepare_finish(const struct psti_chain *chain, uint32_t height, uint32_t width,
                             struct psti_gpu_finish *finish);
/* Plans a row. `is_picture`: other code makes the region's pixels as a picture; there is at least
 * one pass then. PST_ERROR_UNSUPPORTED: the CPU does one of the operations, there are more passes
 * than PSTI_GPU_MAX_PASSES, or a picture is too large for one of them. */
enum pst_status psti_gpu_prepare_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                                      bool is_picture, struct psti_gpu_prepare *prepare,
                                      struct pst_error *err);
/* Writes the tables and sets the addresses of the passes. tables_nbytes of `tables` will lie at
 * `tables_at` on the GPU. The row has scratch_nbytes at `scratch_at`. `picture_at` is the address
 * of a picture of other code. The caller sets `to` of passes that are finished. */
void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at);
/* Sets the place where a decoder stores the region: all of the sink but height, width, channels,
 * bits and orientation. If sink_finishes, the caller sets `at`. */
void psti_gpu_prepare_sink(const struct psti_gpu_prepare *prepare, uint64_t scratch_at,
                           struct psti_gpu_sink *sink);

/* Returns the kernel that runs a pass. */
enum psti_gpu_pass_kernel psti_gpu_pass_kernel(const struct psti_gpu_pass *pass);
/* Returns the number of tiles of a pass. A warp makes one tile. */
uint32_t psti_gpu_pass_tiles(const struct psti_gpu_pass *pass);
/* Computes the shape of a launch of that kernel with these arguments. */
void psti_gpu_prepare_shape(const struct psti_gpu_prepare_args *args,
                            enum psti_gpu_pass_kernel kernel, uint32_t *n_blocks, uint32_t *n_warps,
                            uint32_t *shared_nbytes);

#endif
#endif
