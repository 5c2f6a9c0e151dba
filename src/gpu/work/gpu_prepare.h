/* gpu_prepare.h - the passes from the picture that a decoder leaves to the finished row of a slot.
 * Plain C and CUDA.
 *
 * A recipe (augment/augment_recipe.h) becomes passes. Each pass has a turn. The passes of turn i of
 * all rows of a field take one launch for each kernel that any row needs. Passes of the same turn
 * do not need each other: those of a row belong to different branches (of AugMix), or to the two
 * axes of an elastic warp. A pass reads a picture and writes a picture or the
 * slot. Colours need no pass of their own, unless a contrast needs the mean of the picture before
 * it: the pass before then stores the sum of its result. An automatic contrast and an equalisation
 * need a pass that makes a table from the picture before them. Most rows have one pass or none: if
 * only a crop and flips are wanted, the decoder's sink finishes the row. Erasing a rectangle is a
 * pass after the row is finished.
 *
 * Pictures are (height, width, channels) of the field's bits, packed, aligned to 64. PSTI_GPU_SLACK
 * bytes that may be read follow them. */
#ifndef PST_GPU_GPU_PREPARE_H
#define PST_GPU_GPU_PREPARE_H

#include "gpu/work/gpu_store.h"

#define PSTI_GPU_SLACK 64u
#define PSTI_GPU_MAX_COLORS 8

/* Number of warps in a block of the launches. Each warp computes a tile of the result. */
#define PSTI_GPU_PREPARE_WARPS 8u
#define PSTI_GPU_TILE_WIDTH 32u
#define PSTI_GPU_RESIZE_ROWS 32u
#define PSTI_GPU_POINT_ROWS 16u
/* Rows that a warp keeps after the horizontal filter. The number is a power of two. */
#define PSTI_GPU_RING 32u
#define PSTI_GPU_RING_NBYTES(bits) (PSTI_GPU_RING * PSTI_GPU_TILE_WIDTH * (bits) / 2)

enum psti_gpu_color {
    PSTI_GPU_BRIGHTNESS,
    PSTI_GPU_CONTRAST,
    PSTI_GPU_SATURATION,
    PSTI_GPU_HUE,
    PSTI_GPU_GRAY,
    PSTI_GPU_INVERT,    /* inverts colours that are at least the factor */
    PSTI_GPU_POSTERIZE, /* keeps only the bits of colours that are set in the factor */
    PSTI_GPU_TABLE,     /* looks colours up in a table that PSTI_GPU_LEVEL or PSTI_GPU_STRETCH
                         * made */
    PSTI_GPU_STRETCHED, /* stretches 16-bit colours by the ranges that PSTI_GPU_STRETCH found */
    PSTI_GPU_LABELS     /* looks the numbers of a mask of 8 bits up in the table at `labels` */
};

/* What a pass does to the picture before it applies colours and flips, and stores the result. */
enum psti_gpu_pass_kind {
    PSTI_GPU_WINDOW,
    PSTI_GPU_RESIZES,
    PSTI_GPU_MAP,
    PSTI_GPU_SHARPEN,
    PSTI_GPU_BLUR_X, /* makes floats from a picture, and does nothing else */
    PSTI_GPU_BLUR_Y, /* makes a picture from these floats */
    /* Overwrites the part (y, x, height, width) of a finished row of full_height x full_width
     * pixels, and does nothing else. */
    PSTI_GPU_ERASE,
    PSTI_GPU_LEVEL,   /* makes the table of an equalisation, and does nothing else */
    PSTI_GPU_STRETCH, /* makes the table of an automatic contrast, and does nothing else */
    PSTI_GPU_MIX,     /* adds up pictures, each times its share */
    /* The displacements of an elastic warp along one axis, a plane of from_height x from_width
     * floats. These kinds do nothing else. */
    PSTI_GPU_SHIFTS,   /* makes noise, times `scale`; has 32 tries of a stream in each row */
    PSTI_GPU_SHIFTS_X, /* blurs along rows */
    PSTI_GPU_SHIFTS_Y, /* blurs along columns, and multiplies by `scale` */
    PSTI_GPU_NOISE,    /* does what ERASE does, but with normal noise */
    PSTI_GPU_N_PASS_KINDS
};

/* The kernels that run passes, in the order in which they are launched. */
enum psti_gpu_pass_kernel {
    PSTI_GPU_PASS_RESIZE,
    PSTI_GPU_PASS_POINT,
    PSTI_GPU_PASS_MAP,
    PSTI_GPU_PASS_FILTER,
    PSTI_GPU_PASS_TONES,
    PSTI_GPU_PASS_NOISE,
    PSTI_GPU_N_PASS_KERNELS
};

/* A table holds 256 bytes for each of three colours. 8-bit samples index it directly. 16-bit
 * samples index it by their upper byte, and the result is the table's byte times 257. Ranges (of a
 * 16-bit AutoContrast) are the lowest and the highest sample of each colour, as u32. */
#define PSTI_GPU_TABLE_NBYTES 768u
#define PSTI_GPU_TONES_COLORS 3u
/* Shared memory of a block of psti_gpu_tones: histograms, and the ranges that each warp has
 * found. */
#define PSTI_GPU_TONES_NBYTES                                                                      \
    (4 * (256 * PSTI_GPU_TONES_COLORS + 2 * PSTI_GPU_TONES_COLORS * PSTI_GPU_PREPARE_WARPS))

/* A struct psti_recipe_axis whose pointers are addresses on the GPU. */
struct psti_gpu_axis {
    uint64_t start, taps, weights;
    uint32_t stride, precision;
};

struct psti_gpu_axes {
    struct psti_gpu_axis y, x;
};

/* A warp: the map of struct psti_warp, and the addresses of the planes of its displacements along x
 * and y; 0: it has none. */
struct psti_gpu_warp {
    double m[8];
    uint64_t shifts[2];
};

/* The pictures that PSTI_GPU_MIX adds up, in this order. Each has the size of the pass. */
#define PSTI_GPU_MIX_MAX 9
struct psti_gpu_mix {
    uint64_t from[PSTI_GPU_MIX_MAX];
    float shares[PSTI_GPU_MIX_MAX];
    uint32_t n;
};

/* The random numbers of SHIFTS and NOISE: a struct psti_recipe_stream, and for SHIFTS the axis (0:
 * x), which is the highest bit of the numbers of its tries. */
struct psti_gpu_stream {
    uint64_t sample;
    uint32_t key[2], number, axis;
};

/* A pass: it does what its kind says, then applies colours, then flips. */
struct psti_gpu_pass {
    uint64_t from; /* address of a picture */
    uint64_t to;   /* address of a picture, or of the slot's row if finished; 0: only the sum is
                    * computed */
    /* Addresses of sums of luma (uint64_t); 0: none. sum_from is the sum over sum_pixels pixels
     * that a contrast needs. This pass adds its result to sum_to, which is 0 before. */
    uint64_t sum_from, sum_to;
    uint64_t sum_pixels;
    uint32_t from_height, from_width;
    uint32_t height, width; /* size of the picture that the pass makes */
    union {
        struct psti_gpu_axes axes;     /* RESIZES */
        struct psti_gpu_warp map;      /* MAP */
        struct psti_gpu_mix mix;       /* MIX */
        struct psti_gpu_stream stream; /* SHIFTS, NOISE */
    };
    /* The window of struct psti_recipe_step, or the whole picture. */
    int32_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    uint16_t fill[4];
    uint64_t table;       /* address: LEVEL, STRETCH make it; TABLE, STRETCHED use it */
    uint64_t taps;        /* for blurs: address of f32 [n_taps] */
    uint64_t labels;      /* for the colour LABELS: address of u8 [256] */
    uint32_t elements[4]; /* for ERASE: bits of the slot's element, by channel */
    uint32_t n_taps;
    float sharpness; /* SHARPEN: its factor */
    float scale;     /* SHIFTS, SHIFTS_Y */
    float factors[PSTI_GPU_MAX_COLORS];
    uint8_t colors[PSTI_GPU_MAX_COLORS];
    uint8_t n_colors;
    uint8_t pad_mode;
    uint8_t flip_y, flip_x;
    uint8_t finished;
    uint8_t kind;            /* enum psti_gpu_pass_kind */
    uint8_t nearest, blends; /* for MAP: members of struct psti_recipe_step */
    uint8_t turn;
};

/* The arguments of a launch. A launch runs passes for the rows of one field. */
struct psti_gpu_prepare_args {
    /* address of struct psti_gpu_pass [n_passes], all such passes of the rows */
    uint64_t passes;
    uint32_t n_passes;
    uint32_t n_tiles; /* the largest psti_gpu_pass_tiles() of the passes */
    struct psti_gpu_finish finish;
};

#ifndef __cplusplus

#include "augment/augment_recipe.h"

#define PSTI_GPU_MAX_PASSES 64
#define PSTI_GPU_MAX_TURNS 24
/* Pictures and planes of floats between passes: see enum place in gpu_prepare.c. */
#define PSTI_GPU_MAX_PLACES (6 + 2 * PSTI_RECIPE_MAX_BRANCHES)

/* The passes of one row, and the memory that they need. */
struct psti_gpu_prepare {
    struct psti_recipe recipe;
    uint32_t region_y, region_x;
    size_t tables_nbytes;  /* bytes to upload; size and address are multiples of 64 */
    size_t scratch_nbytes; /* bytes on the GPU, a multiple of 64, at an address aligned to 64 */
    /* Bytes of scratch for each place, one after the other. Tables of passes come after these. */
    size_t place_nbytes[PSTI_GPU_MAX_PLACES];
    bool sink_finishes;  /* true if the decoder's sink finishes the row; a pass may then erase a
                          * part of it */
    bool flip_y, flip_x; /* flips that the decoder's sink does */
    uint32_t n_passes;
    /* in the order of their turns, of which none between 0 and the last is left out */
    struct psti_gpu_pass passes[PSTI_GPU_MAX_PASSES];
};

/* Fills `finish`, which tells how finished pixels are stored, for rows of height x width. */
void psti_gpu_prepare_finish(const struct psti_chain *chain, uint32_t height, uint32_t width,
                             struct psti_gpu_finish *finish);
/* Plans the passes of a row. `is_picture`: other code stores the region's pixels as a picture;
 * there is at least one pass then. PST_ERROR_UNSUPPORTED: the CPU does one of the operations, there
 * are more passes than PSTI_GPU_MAX_PASSES or more turns than PSTI_GPU_MAX_TURNS, or a picture is
 * too large for one of them. */
enum pst_status psti_gpu_prepare_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                                      bool is_picture, struct psti_gpu_prepare *prepare,
                                      struct pst_error *err);
/* Writes the tables of a planned row, and sets the addresses in its passes. The tables_nbytes bytes
 * of `tables` will lie at `tables_at` on the GPU. The row has scratch_nbytes of scratch at
 * `scratch_at`. `picture_at` is the address of a picture that other code makes. The caller sets
 * `to` of passes that finish the row. */
void psti_gpu_prepare_write(const struct psti_chain *chain, const struct psti_draw *draw,
                            struct psti_gpu_prepare *prepare, void *tables, uint64_t tables_at,
                            uint64_t scratch_at, uint64_t picture_at);
/* Sets where the decoder stores the region: all members of the sink except height, width, channels,
 * bits and orientation. If sink_finishes, the caller sets `at`. */
void psti_gpu_prepare_sink(const struct psti_gpu_prepare *prepare, uint64_t scratch_at,
                           struct psti_gpu_sink *sink);

/* Scratch and passes that a row of a field may need in addition to the scratch for its pictures and
 * to four passes. The image has height x width pixels. */
struct psti_gpu_prepare_more {
    size_t scratch_nbytes;
    uint32_t n_passes;
};
void psti_gpu_prepare_estimate(const struct psti_chain *chain, uint32_t height, uint32_t width,
                               const struct psti_gpu_finish *finish,
                               struct psti_gpu_prepare_more *more);

/* Returns the kernel that runs the given pass. */
enum psti_gpu_pass_kernel psti_gpu_pass_kernel(const struct psti_gpu_pass *pass);
/* Returns how many tiles a pass has. Each tile is computed by one warp. */
uint32_t psti_gpu_pass_tiles(const struct psti_gpu_pass *pass);
/* Computes the number of blocks and the shared memory for a launch of this kernel with these
 * arguments. */
void psti_gpu_prepare_shape(const struct psti_gpu_prepare_args *args,
                            enum psti_gpu_pass_kernel kernel, uint32_t *n_blocks, uint32_t *n_warps,
                            uint32_t *shared_nbytes);

#endif
#endif
