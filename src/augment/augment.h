/* augment.h - the public functions of the module augment. A chain of operations is compiled, then
 * run on each sample row by row, into the sample's slot (its place in the batch's array).
 *
 *     compile once per field  ->  per sample: draw (random numbers, region to decode)
 *                             ->  begin, rows ... rows (as the decoder delivers them), end
 *
 * A chain is immutable and shared by threads. A run (struct psti_run, the scratch memory) belongs
 * to one thread. Crop, resize, flip, normalise and the layout are done in one pass: each source row
 * is filtered horizontally when it arrives, and an output row is written to the slot as soon as all
 * source rows that it needs have arrived. All CPU levels give the same bits. */
#ifndef PST_AUGMENT_AUGMENT_H
#define PST_AUGMENT_AUGMENT_H

#include <penstock/augment.h>

struct psti_chain;
struct psti_run;

/* Returns whether operations of that kind move pixels. */
bool psti_augment_op_is_geometric(enum pst_op_kind kind);
/* Returns whether the kind is a policy: RandAugment, TrivialAugment, AutoAugment or AugMix. */
bool psti_augment_op_is_policy(enum pst_op_kind kind);
/* Returns the name of the kind for messages, such as "RandomCrop". */
const char *psti_augment_op_name(enum pst_op_kind kind);
enum { PSTI_AUGMENT_MAX_OPS = 15 }; /* operations of a chain, at most */
/* Returns the interpolation for masks: that of `op` if it is nearest or nearest-exact, otherwise
 * nearest. */
enum pst_interpolation psti_augment_op_mask_interpolation(const struct pst_op *op);
/* Copies the geometric operations of a chain to `out`, for a field whose geometry follows that
 * chain, and returns their number. For a mask, MapLabels is copied too, and operations get a
 * nearest interpolation (psti_augment_op_mask_interpolation) and the fill for masks. n_ops <=
 * PSTI_AUGMENT_MAX_OPS. */
size_t psti_augment_ops_follow(const struct pst_op *ops, size_t n_ops, bool is_mask,
                               struct pst_op out[PSTI_AUGMENT_MAX_OPS]);
/* Returns the name of the first operation that cannot be applied to boxes, masks and, if
 * has_points, keypoints of the sample, or NULL. */
const char *psti_augment_ops_alone(const struct pst_op *ops, size_t n_ops, bool has_points);
/* Returns the name of the first operation whose random draw depends on the sample's boxes, or
 * NULL. */
const char *psti_augment_ops_need_boxes(const struct pst_op *ops, size_t n_ops);
/* Returns whether operations of that kind may cut off all or most of a box. */
bool psti_augment_op_loses_boxes(enum pst_op_kind kind);
/* Returns whether two chains move pixels in the same way. Sets *i_a and *i_b to the indices of the
 * geometric operations at which the chains first differ. *i_a = n_a means that chain a has no
 * further geometric operation; *i_b = n_b means the same of chain b. */
bool psti_augment_ops_move_alike(const struct pst_op *a, size_t n_a, const struct pst_op *b,
                                 size_t n_b, size_t *i_a, size_t *i_b);

/* Returns how many operations at the beginning of `ops` move pixels in the same way in every draw:
 * Resize, CenterCrop, Pad and Letterbox. The picture after them depends only on the image, and its
 * pixels still have the bits of the input. */
size_t psti_augment_ops_fixed(const struct pst_op *ops, size_t n_ops);

/* Returns the index of the last operation that gives every picture its size height x width, such as
 * RandomResizedCrop, or n_ops if there is none. Operations after it may change the size again. */
size_t psti_augment_ops_sized(const struct pst_op *ops, size_t n_ops);

/* The format of a chain's input pixels, and the format in which its last step writes pixels. */
struct psti_chain_output {
    /* U8, U16, F16, BF16 or F32 for images; U8, U16, I32, I64 or F32 for masks. 0 means F32 if the
     * chain normalises, otherwise U8 or U16 by `bits`. */
    enum pst_dtype dtype;
    enum pst_layout layout;
    uint8_t channels; /* channels of the input rows, 1..4 */
    uint8_t bits;     /* bits of an input sample, 8 or 16 */
    /* true for a mask: only nearest interpolation is used, and colour operations and Normalize are
     * errors */
    bool is_mask;
};

/* Memory that receives the finished pixels of a sample. */
struct psti_target {
    void *data;
    size_t row_nbytes; /* bytes from row to row; a plane (CHW) has height * row_nbytes bytes */
};

/* Version of the rule that makes random parameters from a key (augment_draw.c). */
#define PSTI_AUGMENT_VERSION 1

/* The boxes of a sample, in pixels of its source picture. Needed by operations whose draw depends
 * on boxes. */
struct psti_draw_boxes {
    const float *boxes; /* f32 (n,4): x0, y0, x1, y1 */
    float *scratch;     /* scratch for as many floats as `boxes` has; the draw overwrites it */
    size_t n;
};

/* The random parameters of a sample are computed from this key and the number of each operation. */
struct psti_draw_key {
    uint64_t seed, epoch, sample;
    /* 0, or the sample's position in the epoch if an epoch may hold a sample several times */
    uint64_t draw;
    uint32_t view; /* 0, or the number of the view if a loader delivers several views of a sample */
    /* 0: all fields of a sample share the parameters; otherwise a number below 2^16 that is unique
     * to a field with parameters of its own */
    uint32_t own;
    /* NULL: the boxes are unknown, and drawing fails for a chain that needs them
     * (psti_augment_ops_need_boxes) */
    const struct psti_draw_boxes *boxes;
};

/* The geometry and the random parameters that were drawn for one sample. */
struct psti_draw {
    uint32_t region_y, region_x, region_height,
        region_width; /* the part of the source that the decoder must deliver */
    uint32_t out_height, out_width;
    /* Set by psti_augment_chain_scale, otherwise 0. If it is not 0, the region is in pixels of the
     * source at 1 / 2^scale_log2 of its size. */
    uint32_t scale_log2;
    uint64_t opaque[67]; /* resolved parameters of each operation */
};

/* Checks the operations and compiles them to a chain. PST_ERROR_ARGUMENT names the wrong operation
 * by number and kind. */
enum pst_status psti_augment_chain_compile(const struct pst_op *ops, size_t n_ops,
                                           const struct psti_chain_output *output,
                                           struct psti_chain **out, struct pst_error *err);
void psti_augment_chain_free(struct psti_chain **chain);
/* Writes the size of the output if it is the same for every sample. Otherwise returns false. */
bool psti_augment_chain_fixed_size(const struct psti_chain *chain, uint32_t *height,
                                   uint32_t *width);
/* Returns the operations as they were compiled, without the tables of MapLabels. They stay valid as
 * long as the chain. */
const struct pst_op *psti_augment_chain_ops(const struct psti_chain *chain, size_t *n_ops);
enum pst_dtype psti_augment_chain_dtype(const struct psti_chain *chain);
uint8_t psti_augment_chain_channels(const struct psti_chain *chain);

/* Draws the random parameters of one sample whose source picture has height x width pixels.
 * PST_ERROR_ARGUMENT: the chain cannot be applied to this image (for example, a RandomCrop is
 * larger than the image). PST_ERROR_STATE: the draw depends on boxes, and key->boxes is NULL. */
enum pst_status psti_augment_chain_draw(const struct psti_chain *chain,
                                        const struct psti_draw_key *key, uint32_t height,
                                        uint32_t width, struct psti_draw *draw,
                                        struct pst_error *err);
/* Writes the size of the sample's picture after the first n operations. n is at most the number of
 * operations. */
void psti_augment_chain_size_after(const struct psti_chain *chain, const struct psti_draw *draw,
                                   size_t n, uint32_t *height, uint32_t *width);
/* Prepares a draw for input pixels to which the first n operations were applied before. The draw
 * must be that of the whole image, and these operations must be fixed (psti_augment_ops_fixed). The
 * region becomes one of the picture after n operations. The output size, boxes and keypoints stay
 * those of the whole chain. Must not be called after psti_augment_chain_scale. */
void psti_augment_chain_skip(const struct psti_chain *chain, struct psti_draw *draw, size_t n);
/* Chooses a scaled decode, for a decoder that can deliver the source at about a half, a quarter or
 * an eighth of its size. Takes the smallest of these sizes at which the first resize still reads
 * more pixels than it writes, on both axes. Sets draw->scale_log2 and makes the region one of the
 * small picture. If no size is suitable, scale_log2 stays 0 and nothing changes. A side of the
 * small picture has size / 2^scale_log2 pixels, rounded up, and each pixel stands for a square of
 * the source. The squares in the last row and column may reach beyond the source. If at_top is
 * true, the first row of squares reaches beyond it at the top instead; at_left is the same for the
 * first column. The edges of crops stay where they are in the source; they need not lie on the grid
 * of these squares. */
enum { PSTI_SCALE_LOG2_MAX = 3 };
void psti_augment_chain_scale(const struct psti_chain *chain, struct psti_draw *draw, bool at_top,
                              bool at_left);
/* Applies the drawn geometry in place to boxes, f32 (n,4): x0, y0, x1, y1, and to keypoints, f32
 * (n,3): x, y, visibility. Coordinates are continuous: pixel i covers i..i+1, so a flip maps x to
 * width - x. Boxes are clamped to the picture after each operation. A box that leaves the picture,
 * or that RandomIoUCrop or SanitizeBoxes removes, stays in the array with area 0. A keypoint that
 * lies outside the picture after an operation keeps its coordinates and gets visibility 0. */
void psti_augment_chain_map_boxes(const struct psti_chain *chain, const struct psti_draw *draw,
                                  float *boxes, size_t n);
void psti_augment_chain_map_keypoints(const struct psti_chain *chain, const struct psti_draw *draw,
                                      float *keypoints, size_t n);
/* Returns whether the drawn geometry mirrors the picture: one axis is flipped an odd number of
 * times and the other is not. Flips of both axes are a rotation by 180 degrees, which does not
 * mirror. */
bool psti_augment_chain_mirrors(const struct psti_chain *chain, const struct psti_draw *draw);
/* Writes the drawn geometry as a matrix, f64 (3,3), that maps (x, y, 1) of the source to (x, y, 1)
 * of the output, up to a factor. Coordinates are those of psti_augment_chain_map_boxes, but nothing
 * is clamped. The last element is 1 unless the point (0, 0) is mapped to infinity. Not for chains
 * with an operation that psti_augment_ops_alone names. */
void psti_augment_chain_matrix(const struct psti_chain *chain, const struct psti_draw *draw,
                               double m[9]);
/* Returns the factor by which the drawn geometry multiplies an area of which nothing is cut off. */
double psti_augment_chain_area_scale(const struct psti_chain *chain, const struct psti_draw *draw);
/* Returns the bytes of the output if its rows have no gaps between them. */
size_t psti_augment_chain_output_nbytes(const struct psti_chain *chain,
                                        const struct psti_draw *draw);

enum pst_status psti_augment_run_open(struct psti_run **out, struct pst_error *err);
void psti_augment_run_close(struct psti_run **run);
uint64_t psti_augment_run_scratch_nbytes(const struct psti_run *run);
/* Sets the limit of a run's scratch, 1 GiB by default. A sample that needs more is
 * PST_ERROR_LIMIT. */
void psti_augment_run_set_scratch_limit(struct psti_run *run, uint64_t nbytes);
/* The most scratch that runs need, by buffer. Zero-initialise it. */
enum { PSTI_SCRATCH_BUFFERS = 16 };
struct psti_scratch_bound {
    uint64_t nbytes[PSTI_SCRATCH_BUFFERS];
};
/* Raises the bound to what samples of the chain can need whose source has height x width pixels,
 * whatever is drawn. */
void psti_augment_chain_bound(const struct psti_chain *chain, uint32_t height, uint32_t width,
                              struct psti_scratch_bound *bound);
/* Returns a limit with which a run never fails for want of scratch, if all of its samples are those
 * for which the bound was raised. */
uint64_t psti_augment_bound_nbytes(const struct psti_scratch_bound *bound);
/* Allocates `nbytes` of scratch now. Samples that need no more then allocate nothing. Call it only
 * between samples. If memory is short, nothing fails: samples allocate their scratch when they
 * run. */
void psti_augment_run_hold(struct psti_run *run, uint64_t nbytes);

/* Prepares `run` for one sample. The scratch grows if the sample needs more than all samples before
 * it. */
enum pst_status psti_augment_run_begin(struct psti_run *run, const struct psti_chain *chain,
                                       const struct psti_draw *draw,
                                       const struct psti_target *target, struct pst_error *err);
/* Processes the next rows of the region, in order. This function is a psti_row_sink (decode.h),
 * whose ctx is the run. */
enum pst_status psti_augment_run_rows(void *run, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows);
/* Ends the sample after its last row: runs the operations that need the whole picture, such as
 * colour jitter, and could not run row by row. */
enum pst_status psti_augment_run_end(struct psti_run *run, struct pst_error *err);

/* Mixing of batches (augment_mix.c). */
/* Returns what is wrong with the parameters of a mix (MixUp, CutMix or mosaic), or NULL. */
const char *psti_augment_mix_problem(const struct pst_mix *mix);
/* Draws how a batch of images of height x width is mixed: chooses one of the n kinds of mix, all
 * with the same probability, and its numbers. `position` is the position in the epoch of the
 * batch's first row. */
void psti_augment_mix_draw(const struct pst_mix *ways, uint32_t n, uint64_t seed, uint64_t epoch,
                           uint64_t position, uint32_t height, uint32_t width,
                           struct pst_batch_mix *mix);
/* How one row of a batch becomes a mosaic of four images. */
struct psti_mosaic {
    bool is_applied;
    uint32_t y, x; /* the point at which the four tiles meet: y in 0..height, x in 0..width */
    /* number of the batch's row shown in each tile: top left (this row itself), top right, bottom
     * left, bottom right */
    uint32_t rows[PST_MOSAIC_TILES];
};
/* Draws the mosaic for row `row` of a batch of n_rows rows. `position` is the position in the epoch
 * of the batch's first row. */
void psti_augment_mosaic_draw(const struct pst_mix *way, uint64_t seed, uint64_t epoch,
                              uint64_t position, uint32_t row, uint32_t n_rows, uint32_t height,
                              uint32_t width, struct psti_mosaic *mosaic);
/* The images of a batch as one array without gaps, with n_rows >= 1. */
struct psti_mix_images {
    void *data;
    uint32_t n_rows, height, width, channels;
    enum pst_dtype dtype; /* U8, U16, F16, BF16 or F32 */
    enum pst_layout layout;
};
/* Mixes the images in place. */
void psti_augment_mix(const struct psti_mix_images *images, const struct pst_batch_mix *mix);

#endif
