/* augment_int.h - declarations that only the source files of the module augment share.
 *
 *     augment_compile.c  ops -> chain            augment_draw.c   chain + sample number -> draw
 *     augment_kinds.c    what the kind of an operation says alone
 *     augment_dice.c     key -> numbers          augment_sizes.h  geometry of one operation
 *     augment_plan.c     chain + draw -> plan    augment_axis.c   filter weights of one axis
 *     augment_sweep.c    those weights in the order of the source
 *     augment_picks.c    those weights in the order of vectors of outputs
 *     augment_run.c      plan + rows -> slot     augment_steps.c  what cannot be streamed
 *     augment_resample.c rows -> resized rows    augment_store.c  a finished row -> dtype, layout
 *     augment_kernels.h  the inner loops, one table per CPU level
 *     augment_recipe.c   chain + draw -> a recipe for others
 *     augment_color.c, augment_tone.c, augment_blur.c, augment_warp.c, augment_erase.c  pictures
 *     augment_policy.c   numbers -> steps of RandAugment and the like
 *     augment_augmix.c   steps of AugMix -> the mixed picture
 *     augment_edge.h     what a picture shows beyond its edges
 *     augment_scratch.h  memory of a run, and pictures in it
 *     augment_iou.c      boxes + numbers -> crop     augment_scales.c  numbers -> size, canvas
 *     augment_labels.c   classes of a mask -> other classes */
#ifndef PST_AUGMENT_INT_H
#define PST_AUGMENT_INT_H

#include "augment/augment.h"
#include "augment/kernels/augment_kernels.h"
#include "augment/augment_scratch.h"

#include "base/bits.h"

/* Returns whether operation i of a chain moves pixels: because of its kind or, for RandomApply and
 * RandomChoice, because of an inner operation. */
bool psti_augment_is_geometric_at(const struct pst_op *ops, size_t n_ops, size_t i);
/* This bit is set in the number of an operation that moves no pixels. */
#define PSTI_NOT_GEOMETRIC 0x80000000u

/* Words of a draw (struct psti_draw.opaque): each of the PSTI_AUGMENT_MAX_OPS operations owns 4 of
 * them. The last words, from PSTI_DRAW_SIZE on, belong to the draw as a whole. */

/* The largest side, in pixels, of any picture in a chain. */
#define PSTI_AUGMENT_MAX_SIDE (1u << 20)

struct psti_chain {
    struct pst_op ops[PSTI_AUGMENT_MAX_OPS];
    uint32_t n_ops;
    uint32_t numbers[PSTI_AUGMENT_MAX_OPS]; /* numbers of the operations (see augment_draw.c) */
    struct psti_chain_output output;        /* its dtype is resolved, so it is not 0 */
    double log_ratio[PSTI_AUGMENT_MAX_OPS][2];
    /* scale and offset for element i of an HWC row are at index i % PSTI_PATTERN */
    float scale[PSTI_PATTERN], offset[PSTI_PATTERN];
    float plane_scale[4][PSTI_PATTERN],
        plane_offset[4][PSTI_PATTERN]; /* the same number in all elements of a plane */
    bool normalizes;
    bool unfused; /* for tests: every operation runs alone, from picture to picture */
    bool fixed;
    uint32_t fixed_height, fixed_width;
    /* MAP_LABELS on a mask: for each operation the new class of every number that a pixel can have
     * (augment_labels.c), or NULL */
    const unsigned char *labels[PSTI_AUGMENT_MAX_OPS];
    const struct psti_augment_ops *kernels;
};

/* Does what psti_augment_chain_compile does. The caller, a test, also chooses the CPU level and
 * whether operations are fused. */
enum pst_status psti_augment_compile(const struct pst_op *ops, size_t n_ops,
                                     const struct psti_chain_output *output, uint32_t features,
                                     bool unfused, struct psti_chain **out, struct pst_error *err);

/* These functions give the same bits with every compiler and CPU (augment_math.c). */
double psti_augment_exp(double x); /* e to the power x, |x| < 700 */
/* Writes the sine and cosine of an angle in degrees, |degrees| < 1e6. They are exact at multiples
 * of 90. */
void psti_augment_sincos(double degrees, double *sine, double *cosine);
/* Rounds to the nearest integer, and a half to the even integer. |v| < 2^22. */
static inline float psti_augment_round(float v)
{
    float up = v + 0x1.8p23f;
    return up - 0x1.8p23f;
}

struct psti_number_stream;
struct psti_op_sizes;
/* Operations that draw a size or a canvas (augment_scales.c). */
/* Draws the sizes for the operations RANDOM_ZOOM_OUT to RANDOM_RESIZE except LETTERBOX, which draws
 * nothing. */
void psti_augment_scales_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                              uint32_t height, uint32_t width, uint64_t words[4]);
/* Writes the geometry that an operation RANDOM_ZOOM_OUT to RANDOM_RESIZE, or LETTERBOX, applies to
 * a picture of height x width. */
void psti_augment_scales_sizes(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                               uint32_t width, struct psti_op_sizes *sizes);
/* Returns what is wrong with an operation RANDOM_ZOOM_OUT to RANDOM_RESIZE, LETTERBOX or
 * RANDOM_IOU_CROP, or NULL. */
const char *psti_augment_scales_problem(const struct pst_op *op);
const char *psti_augment_iou_problem(const struct pst_op *op);
/* Draws the crop of operation i_op (RANDOM_IOU_CROP). All operations before it must be drawn. */
enum pst_status psti_augment_iou_draw(const struct psti_chain *chain, uint32_t i_op,
                                      const struct psti_draw_boxes *boxes, uint32_t height,
                                      uint32_t width, struct psti_draw *draw,
                                      struct pst_error *err);
/* Returns whether the centre of a box lies within a crop whose top left corner is (y, x). */
static inline bool psti_augment_iou_holds(const float box[4], uint32_t y, uint32_t x,
                                          uint32_t height, uint32_t width)
{
    float centre_x = 0.5f * (box[0] + box[2]), centre_y = 0.5f * (box[1] + box[3]);
    return (float)x < centre_x && centre_x < (float)x + (float)width && (float)y < centre_y &&
           centre_y < (float)y + (float)height;
}
/* Applies the first n_ops operations to boxes; psti_augment_chain_map_boxes applies all of them. */
void psti_augment_boxes_before(const struct psti_chain *chain, const struct psti_draw *draw,
                               uint32_t n_ops, float *boxes, size_t n);

/* The functions below replace the class numbers in masks (augment_labels.c). */
/* Returns what is wrong with MAP_LABELS on a mask of that many bits, or NULL. */
const char *psti_augment_labels_problem(const struct pst_op *op, uint32_t bits);
/* Returns the bytes of a table with an entry for every number of `bits` bits. */
size_t psti_augment_labels_nbytes(uint32_t bits);
void psti_augment_labels_build(const struct pst_op *op, uint32_t bits, unsigned char *table);
/* Maps n numbers of `bits` bits by the table. `to` may equal `from`. */
void psti_augment_labels_map(const unsigned char *table, uint32_t bits, unsigned char *to,
                             const unsigned char *from, size_t n);

enum psti_step_kind {
    PSTI_STEP_WINDOW,
    PSTI_STEP_RESIZE,
    PSTI_STEP_FLIP,
    PSTI_STEP_JITTER,
    PSTI_STEP_GRAY,
    PSTI_STEP_INVERT,
    PSTI_STEP_POSTERIZE,
    PSTI_STEP_SOLARIZE,
    PSTI_STEP_AUTOCONTRAST,
    PSTI_STEP_EQUALIZE,
    PSTI_STEP_SHARPEN,
    PSTI_STEP_BLUR,
    PSTI_STEP_WARP,
    PSTI_STEP_AUGMIX,
    PSTI_STEP_LABELS
};

/* Indices in struct psti_draw.opaque of the words that belong to the draw as a whole. */
#define PSTI_DRAW_SIZE 60 /* opaque[60]: size of the source, height | width << 32 */
/* opaque[61]: y | x << 32, the number of source pixels by which the first pixels of a source that
 * is decoded at a smaller scale reach beyond the source. */
#define PSTI_DRAW_BEYOND 61
#define PSTI_DRAW_SKIP                                                                             \
    62 /* opaque[62] holds the number of operations that were applied before.                      \
        */
#define PSTI_DRAW_LEFT_OUT 63 /* bit i: RandomApply or RandomChoice skips operation i */
#define PSTI_DRAW_KEY 64      /* key of the sample's draw (augment_draw.c) */
#define PSTI_DRAW_SAMPLE 65
#define PSTI_DRAW_OWN 66

/* The map of a warp, which says where in the source the pixels of the result come from. (x, y) is
 * the centre of an output pixel, (x', y') its position in the source. Both are relative to the
 * middle of the picture:
 *
 *     x' = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1),  y' = (m[3] x + m[4] y + m[5]) / same
 *
 * An elastic warp also adds a separate displacement for every pixel. */
struct psti_warp {
    double m[8];
    bool is_elastic;
    enum pst_interpolation interpolation; /* NEAREST or BILINEAR */
};

/* A stream of random numbers for one operation on one sample (augment_dice.c). */
struct psti_number_stream {
    uint32_t key[2]; /* key of the sample's draw */
    uint64_t sample;
    uint32_t number; /* number of the operation, by the rule of augment_draw.c */
};
/* Returns the stream of operation i_op. The words PSTI_DRAW_KEY to PSTI_DRAW_OWN of the draw must
 * be set. */
struct psti_number_stream psti_augment_stream(const struct psti_chain *chain,
                                              const struct psti_draw *draw, uint32_t i_op);
/* State of a sequence of random numbers. Set `stream`, and zero all other members. */
struct psti_dice {
    struct psti_number_stream stream;
    uint32_t try, left, r[4];
};
uint32_t psti_augment_dice_roll(struct psti_dice *dice);
/* Returns a gamma-distributed random number with the given shape, above 0. */
double psti_augment_dice_gamma(struct psti_dice *dice, double shape);
/* Returns whether RandomApply or RandomChoice skips operation i_op for this sample. */
static inline bool psti_augment_is_left_out(const struct psti_draw *draw, uint32_t i_op)
{
    return (draw->opaque[PSTI_DRAW_LEFT_OUT] >> i_op & 1) != 0;
}
/* Writes the four random numbers of try number `try`. */
void psti_augment_numbers(const struct psti_number_stream *stream, uint32_t try, uint32_t out[4]);

/* One operation that works on a whole picture and makes another one. */
struct psti_step {
    enum psti_step_kind kind;
    uint32_t i_op;
    uint32_t height, width; /* size of the picture that the step makes */
    /* WINDOW: position of the window's top left corner in a picture of full_height x full_width.
     * The corner may lie outside of that picture. Only the part of the picture from (base_y,
     * base_x) on is in memory. */
    int64_t y, x;
    uint32_t full_height, full_width, base_y, base_x;
    bool flip_y, flip_x; /* FLIP: the axes to mirror */
    /* Parameters by kind of step. JITTER: brightness, contrast, saturation, hue. SOLARIZE: [0] is
     * the threshold, 0..255. SHARPEN: [0] is the factor. BLUR: [0] is sigma in pixels. */
    float factors[4];
    /* JITTER: number of a permutation of the four operations, 0..23. POSTERIZE: bits to keep. */
    uint32_t order;
    struct psti_warp warp;            /* WARP: its map */
    struct psti_number_stream stream; /* elastic WARP: noise of the pixels; AUGMIX: its choices */
};

/* The rectangle of the finished picture that RandomErasing overwrites. Height 0 means none. */
struct psti_erase {
    uint32_t i_op;
    uint32_t y, x, height, width;
    struct psti_number_stream stream;
};

/* The front: the first operations of a chain, which run row by row while the picture is decoded.
 * They are, in this order: a crop, a resize, a window (a part) of the result, flips, and
 * MapLabels. */
struct psti_front {
    uint32_t y, x, height, width; /* the crop of the source; filters read no pixel outside of it */
    bool resizes;
    enum pst_interpolation interpolation;
    bool no_antialias;
    bool mirror_y, mirror_x; /* a flip came before the resize, so the weight tables are mirrored */
    uint32_t to_height, to_width;                             /* size of the resized picture */
    uint32_t window_y, window_x, window_height, window_width; /* the part of it that is used */
    bool flip_y, flip_x;
    /* 1 + index of the MAP_LABELS operation that runs on finished rows; 0: none */
    uint32_t labels;
};

struct psti_augment_plan {
    uint32_t source_height, source_width;
    struct psti_front front;
    /* The decoder delivers the source at 1 / 2^scale_log2 of its size. The region is in pixels of
     * this small picture. */
    uint32_t scale_log2;
    uint32_t origin_y, origin_x; /* the delivered pixel in which the crop begins */
    uint32_t lead_y, lead_x; /* part of that pixel before the crop, in full-size source pixels */
    uint32_t region_y, region_x, region_height, region_width;
    struct psti_step steps[3 * PSTI_AUGMENT_MAX_OPS];
    uint32_t n_steps;
    uint32_t out_height, out_width;
    struct psti_erase erase;
};
void psti_augment_plan(const struct psti_chain *chain, const struct psti_draw *draw,
                       struct psti_augment_plan *plan);

static inline uint64_t psti_augment_draw_pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}
static inline uint32_t psti_augment_draw_low(uint64_t word) { return (uint32_t)word; }
static inline uint32_t psti_augment_draw_high(uint64_t word) { return (uint32_t)(word >> 32); }

static inline bool psti_augment_is_nearest(enum pst_interpolation interpolation)
{
    return interpolation == PST_INTERPOLATION_NEAREST ||
           interpolation == PST_INTERPOLATION_NEAREST_EXACT;
}
/* Returns the interpolation for one axis. For an axis that keeps its size it is nearest, which
 * copies: every filter would give the same pixels. */
static inline enum pst_interpolation psti_augment_axis_interpolation(
    uint32_t n_from, uint32_t n_to, enum pst_interpolation interpolation)
{
    return n_from == n_to ? PST_INTERPOLATION_NEAREST : interpolation;
}
/* One axis (y or x) of a resize, before the result is cropped. */
struct psti_axis_side {
    uint32_t n_from, n_to;
    enum pst_interpolation interpolation;
    bool no_antialias;
    /* the source is delivered at 1 / 2^scale_log2 of its size; 0 for nearest */
    uint32_t scale_log2;
    /* scaled source: the part of the first pixel that lies before the axis, in full-size source
     * pixels */
    uint32_t lead;
};
/* Returns axis y or axis x of the front's resize. */
struct psti_axis_side psti_augment_front_side(const struct psti_augment_plan *plan, bool is_y);
/* Returns how many delivered source pixels lie at least partly within the axis. */
static inline uint32_t psti_augment_axis_pixels(const struct psti_axis_side *side)
{
    return (side->lead + side->n_from + (1u << side->scale_log2) - 1) >> side->scale_log2;
}
/* Writes the range [*begin, *end) of source pixels that the filter of output `i` reads. */
void psti_augment_axis_range(const struct psti_axis_side *side, uint32_t i, uint32_t *begin,
                             uint32_t *end);
struct psti_axis_spec {
    struct psti_axis_side side;
    bool mirror;       /* source pixels are numbered backwards; false for a scaled source */
    bool flip;         /* outputs are written in reverse order */
    uint32_t begin, n; /* first wanted output, and number of wanted outputs */
    uint32_t origin;   /* number of the source pixel that is at index 0 of the row */
    uint32_t n_source; /* number of source pixels from `origin` on */
    uint32_t channels; /* channels of a pixel; 0 for axis y, which counts rows */
    uint32_t bits;
    bool sweeps; /* safe outputs must leave space for the loads of a sweep kernel */
};
/* Returns the largest number of taps of any output, without the padding for vectors. */
uint32_t psti_augment_axis_max_taps(const struct psti_axis_spec *spec);
size_t psti_augment_axis_nbytes(const struct psti_axis_spec *spec);
/* These functions describe the axes of resizes: psti_augment_front_axis describes axis y or x of
 * the front's resize, psti_augment_step_axes both axes of a step that resizes a picture of height x
 * width. */
struct psti_axis_spec psti_augment_front_axis(const struct psti_augment_plan *plan,
                                              const struct psti_chain_output *output, bool is_y);
void psti_augment_step_axes(const struct pst_op *op, const struct psti_chain_output *output,
                            uint32_t height, uint32_t width, const struct psti_step *step,
                            struct psti_axis_spec *y, struct psti_axis_spec *x);
/* Computes the weights of an axis. Its arrays lie in `memory`, which is aligned to 64 bytes. */
void psti_augment_axis_build(const struct psti_axis_spec *spec, void *memory,
                             struct psti_axis *axis);
/* Returns whether a sweep kernel would be faster on this axis than filtering window by window. The
 * CPU level may have no sweep kernel. */
bool psti_augment_sweep_suits(const struct psti_axis_spec *spec);
size_t psti_augment_sweep_nbytes(const struct psti_axis_spec *spec);
/* Reorders the weights of an axis for a sweep kernel, from its first safe output up to the first
 * output that a sweep cannot compute. */
void psti_augment_sweep_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_sweep *sweep);
/* Returns whether the weights of this axis can be reordered for a pick kernel.
 * psti_augment_picks_build may still refuse. */
bool psti_augment_picks_suit(const struct psti_axis_spec *spec);
size_t psti_augment_picks_nbytes(const struct psti_axis_spec *spec);
/* Reorders the weights of an axis for a pick kernel, in memory that is aligned to 64 bytes. Returns
 * false if the windows of neighbouring outputs are too far apart. */
bool psti_augment_picks_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_picks *picks);
/* These functions do for quad kernels what the functions _picks_ do for pick kernels. */
bool psti_augment_quads_suit(const struct psti_axis_spec *spec);
size_t psti_augment_quads_nbytes(const struct psti_axis_spec *spec);
/* Returns not less than the bytes of picks or quads of an axis of at most n outputs, whose windows
 * have at most that many taps. */
uint64_t psti_augment_picks_most(uint64_t n, uint64_t channels, uint64_t taps);
bool psti_augment_quads_build(const struct psti_axis_spec *spec, const struct psti_axis *axis,
                              void *memory, struct psti_quads *quads);

/* A function that takes finished row `i` of a resize. */
typedef void (*psti_emit)(struct psti_run *run, uint32_t i, const unsigned char *row);
/* A function that returns the address to which finished row `i` may be written directly, because
 * the row needs no further processing. */
typedef unsigned char *(*psti_place)(struct psti_run *run, uint32_t i);

/* How the horizontal pass of a resize is computed. */
enum psti_x_way {
    PSTI_X_NONE, /* rows stay as they are */
    PSTI_X_NEAREST,
    PSTI_X_WIDE,    /* filters 16-bit samples */
    PSTI_X_WINDOWS, /* filters 8-bit samples, window by window */
    PSTI_X_SWEEP,
    PSTI_X_PICKS,
    PSTI_X_QUADS
};

struct psti_resample {
    struct psti_axis x, y;
    struct psti_sweep sweep; /* valid if x_way is PSTI_X_SWEEP */
    struct psti_picks picks; /* valid if x_way is PSTI_X_PICKS */
    struct psti_quads quads; /* valid if x_way is PSTI_X_QUADS */
    enum psti_x_way x_way;
    const void **row_pointers; /* the rows of the ring from which the next output row is made */
    uint32_t ring_rows;        /* number of rows in the ring, a power of two */
    size_t ring_row_nbytes;
    uint32_t n_in; /* number of source rows */
    uint32_t next_in, next_out;
    uint32_t tail_begin, tail_pixels;
    size_t tail_row_nbytes;
    psti_emit emit;
    psti_place place; /* NULL: every finished row goes to `emit` */
};

struct psti_run {
    struct psti_augment_buffer buffers[PSTI_BUFFERS];
    uint64_t limit, held;
    /* memory that psti_augment_run_hold allocated; the buffers of each sample are taken from its
     * front */
    unsigned char *block;
    size_t block_nbytes, block_used;
    const struct psti_chain *chain; /* the chain of the current sample */
    struct psti_augment_plan plan;
    struct psti_target target;
    struct psti_resample resample;
    struct psti_picture picture; /* receives the rows of the front if there are steps */
    uint32_t pixel_nbytes;
    uint32_t next_row;
    /* the emit function must mirror rows, because the resize has not done it */
    bool flip_rows;
    bool running;
    bool streams; /* non-temporal stores are used; psti_augment_store_end must complete them */
};

/* Prepares run->resample for the axes x and y. The specs also state how many columns and rows the
 * source region has. */
enum pst_status psti_augment_resample_begin(struct psti_run *run, const struct psti_axis_spec *x,
                                            const struct psti_axis_spec *y, psti_emit emit,
                                            struct pst_error *err);
void psti_augment_resample_rows(struct psti_run *run, const unsigned char *rows, size_t row_nbytes,
                                uint32_t n_rows);
/* Reserves the scratch that psti_augment_store_row needs for rows of `width` pixels. */
enum pst_status psti_augment_store_begin(struct psti_run *run, uint32_t width,
                                         struct pst_error *err);
/* Makes all rows written so far visible to other threads before any later write. */
void psti_augment_store_end(const struct psti_run *run);
/* Writes row `i` of the output to the slot, mirrored if `flip`. */
void psti_augment_store_row(struct psti_run *run, uint32_t i, const unsigned char *row, bool flip);
/* Mirrors a row of pixels. May write PSTI_SLACK bytes beyond the row in `to`. */
void psti_augment_reverse_row(const struct psti_run *run, unsigned char *to,
                              const unsigned char *from, uint32_t width);

/* Writes permutation number `order` (0..23) of the four operations of a ColorJitter. */
void psti_augment_jitter_order(uint32_t order, uint32_t out[4]);

/* Runs one step, of any kind but AUGMIX, on run->picture. */
enum pst_status psti_augment_step_run(struct psti_run *run, const struct psti_step *step,
                                      struct pst_error *err);

/* The samples of a picture, with 8 or 16 bits each. */
struct psti_samples {
    unsigned char *data;
    size_t n_pixels;
    uint32_t channels, colors; /* `colors` is the number of channels without alpha, 1 or 3 */
    bool wide;
    float most;
};
struct psti_samples psti_augment_samples(const struct psti_run *run,
                                         const struct psti_picture *picture);
static inline float psti_samples_get(const struct psti_samples *s, size_t i)
{
    return s->wide ? (float)psti_load_u16(s->data + 2 * i) : (float)s->data[i];
}
/* Stores a value as sample i: clamps it to the range of samples and truncates it. */
static inline void psti_samples_put(const struct psti_samples *s, size_t i, float value)
{
    value = value < 0 ? 0 : value > s->most ? s->most : value;
    if (s->wide)
        psti_store_u16(s->data + 2 * i, (uint16_t)value);
    else
        s->data[i] = (unsigned char)value;
}
/* Replaces each 8-bit colour v of channel c by table[c][v]. */
void psti_augment_apply_tables(const struct psti_samples *s, const uint8_t table[3][256]);

/* Operations that map each channel's values (augment_tone.c). They change the picture in place. */
void psti_augment_invert(const struct psti_samples *s);
void psti_augment_posterize(const struct psti_samples *s, uint32_t bits);
void psti_augment_solarize(const struct psti_samples *s, float threshold);
void psti_augment_autocontrast(const struct psti_samples *s);
void psti_augment_equalize(const struct psti_samples *s);
/* Operations that combine neighbouring pixels (augment_blur.c). They change run->picture. */
enum { PSTI_BLUR_MAX_TAPS = 255 };
/* Returns the number of taps of the blur of an elastic warp's displacements; axis 0 is x. */
uint32_t psti_augment_elastic_taps(const struct pst_op *op, int axis);
/* Computes the n <= PSTI_BLUR_MAX_TAPS taps of a Gaussian blur. */
void psti_augment_blur_taps(float *taps, uint32_t n, float sigma);
enum pst_status psti_augment_sharpen(struct psti_run *run, float factor, struct pst_error *err);
enum pst_status psti_augment_blur(struct psti_run *run, const struct pst_op *op, float sigma,
                                  struct pst_error *err);
/* Blurs a plane of height x width floats in place, by the filter of psti_augment_blur. `taps` holds
 * the numbers of taps for x and y, both odd. */
enum pst_status psti_augment_blur_plane(struct psti_run *run, float *plane, uint32_t height,
                                        uint32_t width, const uint32_t taps[2],
                                        const float sigma[2], struct pst_error *err);

/* Warps (augment_warp.c). The parameters of an affine map, named as in torchvision. */
struct psti_affine {
    double degrees;            /* clockwise */
    double x, y;               /* translation in pixels */
    double scale;              /* scale factor, above 0 */
    double tan_x, degrees_y;   /* shear: tangent along x, angle along y */
    double center_x, center_y; /* centre of the rotation, relative to the middle of the picture */
};
void psti_augment_warp_affine(struct psti_warp *warp, const struct psti_affine *affine);
/* Computes the warp of operation i_op from its words of the draw. Returns false if it changes
 * nothing. */
bool psti_augment_warp_of(const struct pst_op *op, const uint64_t words[4], uint32_t height,
                          uint32_t width, struct psti_warp *warp);
void psti_augment_warp_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                            uint32_t height, uint32_t width, uint64_t words[4]);
/* Computes the inverse of a warp's map, up to a factor: from the source to the output. Coordinates
 * are relative to the middle of the picture. Not for elastic warps. */
void psti_augment_warp_inverse(const struct psti_warp *warp, double inverse[9]);
/* Maps a point of the source to the point of the output where the warp shows it, both in pixels.
 * Not for elastic warps. */
void psti_augment_warp_point(const struct psti_warp *warp, uint32_t height, uint32_t width,
                             double *x, double *y);
enum pst_status psti_augment_warp_run(struct psti_run *run, const struct psti_step *step,
                                      struct pst_error *err);

/* Policies (augment_policy.c): random numbers choose the operations for each sample. */
/* the most steps of RandAugment, TrivialAugment, AutoAugment */
enum { PSTI_POLICY_MAX_STEPS = 2 };
/* Writes the steps that a policy other than AugMix chooses for a picture of height x width, and
 * returns their number. */
uint32_t psti_augment_policy_steps(const struct pst_op *op, const struct psti_number_stream *stream,
                                   uint32_t height, uint32_t width, uint32_t i_op,
                                   struct psti_step steps[PSTI_POLICY_MAX_STEPS]);
/* The draw of an AugMix, which is read in this order: begin; then for each of the op's
 * mixture_width chains depth, and as many steps. */
enum { PSTI_AUGMIX_MAX_WIDTH = 8 };
struct psti_augmix {
    const struct pst_op *op;
    struct psti_dice dice;
    float kept_share;                    /* share of the picture before AugMix */
    float shares[PSTI_AUGMIX_MAX_WIDTH]; /* shares of the chains' results */
};
void psti_augment_augmix_begin(const struct pst_op *op, const struct psti_number_stream *stream,
                               struct psti_augmix *mix);
/* Begins the next chain. Returns its number of operations. */
uint32_t psti_augment_augmix_depth(struct psti_augmix *mix);
/* Chooses the next step in a chain of AugMix (augment_policy.c). The caller has set the step's size
 * and i_op. Returns false if the step would change nothing. */
bool psti_augment_augmix_step(struct psti_augmix *mix, struct psti_step *step);
/* Runs the step AUGMIX on run->picture (augment_augmix.c). */
enum pst_status psti_augment_augmix_run(struct psti_run *run, const struct psti_step *step,
                                        struct pst_error *err);

/* RandomErasing (augment_erase.c). Draws the rectangle into `words`; writes the rectangle to the
 * slot. */
void psti_augment_erase_draw(const struct pst_op *op, const struct psti_number_stream *stream,
                             uint32_t height, uint32_t width, uint64_t words[4]);
void psti_augment_erase(struct psti_run *run);
/* Stores one number as an element of the slot's dtype. Integers are rounded and clamped. */
void psti_augment_erase_value(unsigned char *to, enum pst_dtype dtype, float value);

/* ColorJitter and Grayscale (augment_color.c), which change the picture in place. */
void psti_augment_color_jitter(const struct psti_run *run, const float factors[4], uint32_t order,
                               struct psti_picture *picture);
void psti_augment_color_gray(const struct psti_run *run, struct psti_picture *picture);

#endif
