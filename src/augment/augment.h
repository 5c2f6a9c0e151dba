/* augment.h - the door of augment: a compiled chain of operations, run row by row into a batch
 * slot.
 *
 *     compile once per field  ->  per sample: draw (random numbers, region to decode)
 *                             ->  begin, rows ... rows (as the decoder delivers them), end
 *
 * A chain is immutable and shared by threads. A run (scratch) belongs to one thread. Crop, resize,
 * flip, normalise and layout are one pass: each source row is filtered horizontally when it
 * arrives, and an output row is written to the slot as soon as its source rows are there. All CPU
 * levels give the same bits. */
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
/* Returns the interpolation that `op` gets on a mask: the interpolation of `op` if that is nearest
 * or nearest-exact, else nearest. */
enum pst_interpolation psti_augment_op_mask_interpolation(const struct pst_op *op);
/* Copies the geometric operations of a chain to `out`, for a field that follows that chain, and
 * returns their number. The operations of a mask get a nearest interpolation
 * (psti_augment_op_mask_interpolation) and the mask's fill; it follows MapLabels, too. n_ops <=
 * PSTI_AUGMENT_MAX_OPS. */
size_t psti_augment_ops_follow(const struct pst_op *ops, size_t n_ops, bool is_mask,
                               struct pst_op out[PSTI_AUGMENT_MAX_OPS]);
/* Returns the name of the first operation that boxes, keypoints (has_points) and masks cannot
 * follow, or NULL. */
const char *psti_augment_ops_alone(const struct pst_op *ops, size_t n_ops, bool has_points);
/* Returns the name of the first operation whose draw depends on the sample's boxes, or NULL. */
const char *psti_augment_ops_need_boxes(const struct pst_op *ops, size_t n_ops);
/* Returns whether operations of that kind may leave little or nothing of a box. */
bool psti_augment_op_loses_boxes(enum pst_op_kind kind);
/* Returns whether two chains move pixels alike. Sets *i_a and *i_b to the numbers of the geometric
 * operations at which the chains first differ. *i_a = n_a says that chain a has no further
 * geometric operation; *i_b = n_b says the same of chain b. */
bool psti_augment_ops_move_alike(const struct pst_op *a, size_t n_a, const struct pst_op *b,
                                 size_t n_b, size_t *i_a, size_t *i_b);

/* Returns the number of operations at the beginning of `ops` that move pixels alike in every draw:
 * Resize, CenterCrop, Pad and Letterbox. The picture after them is a function of the image alone,
 * and its pixels have the bits of those that came in. */
size_t psti_augment_ops_fixed(const struct pst_op *ops, size_t n_ops);

/* Returns the number of the last operation that gives every picture its size height x width, such
 * as RandomResizedCrop, or n_ops if there is none. Operations after it may change the size
 * again. */
size_t psti_augment_ops_sized(const struct pst_op *ops, size_t n_ops);

/* The pixels that come in, and the form in which the last step of a chain writes pixels. */
struct psti_chain_output {
    /* For images U8, U16, F16, BF16 or F32; for masks U8, U16, I32, I64 or F32. 0 means F32 if the
     * chain normalises, else U8 or U16 by `bits`. */
    enum pst_dtype dtype;
    enum pst_layout layout;
    uint8_t channels; /* channels of the rows that come in: 1..4 */
    uint8_t bits;     /* bits of the samples that come in: 8 or 16 */
    /* true for a mask: it has only nearest interpolation, and colour operations and normalise are
     * errors */
    bool is_mask;
};

/* Where the pixels of a sample are written. */
struct psti_target {
    void *data;
    size_t row_nbytes; /* bytes from row to row; a plane (CHW) has height * row_nbytes bytes */
};

/* The version of the rule that makes random parameters from a key (augment_draw.c). */
#define PSTI_AUGMENT_VERSION 1

/* The boxes of a sample on its source picture, for operations whose draw depends on them. */
struct psti_draw_boxes {
    const float *boxes; /* f32 (n,4): x0, y0, x1, y1 */
    float *scratch;     /* as many floats as `boxes`, which a draw overwrites */
    size_t n;
};

/* The random parameters of a sample are a function of this key and of each operation's number. */
struct psti_draw_key {
    uint64_t seed, epoch, sample;
    uint64_t draw; /* 0, or the sample's position in the epoch if that may hold the sample several
                    * times */
    uint32_t view; /* 0, or the number of the view if several views of a sample are delivered */
    /* 0: the fields of a sample share the parameters; else the number of a field with parameters of
     * its own, < 2^16 */
    uint32_t own;
    /* NULL: the boxes are not known, and a chain that needs them (psti_augment_ops_need_boxes)
     * cannot be drawn */
    const struct psti_draw_boxes *boxes;
};

/* Geometry and random parameters of one sample. */
struct psti_draw {
    uint32_t region_y, region_x, region_height,
        region_width; /* size of the region of the source that the decoder must deliver */
    uint32_t out_height, out_width;
    /* Set by psti_augment_chain_scale, else 0. The region is then one of the source at 1 /
     * 2^scale_log2 of its size. */
    uint32_t scale_log2;
    uint64_t opaque[67]; /* resolved parameters of each operation */
};

/* Checks `ops` and merges them to a chain. PST_ERROR_ARGUMENT names the wrong operation by number
 * and kind. */
enum pst_status psti_augment_chain_compile(const struct pst_op *ops, size_t n_ops,
                                           const struct psti_chain_output *output,
                                           struct psti_chain **out, struct pst_error *err);
void psti_augment_chain_free(struct psti_chain **chain);
/* Gives height and width of the output if they are the same for every sample; else returns
 * false. */
bool psti_augment_chain_fixed_size(const struct psti_chain *chain, uint32_t *height,
                                   uint32_t *width);
/* Gives the operations as they were compiled, without tables of labels; they live as long as the
 * chain. */
const struct pst_op *psti_augment_chain_ops(const struct psti_chain *chain, size_t *n_ops);
enum pst_dtype psti_augment_chain_dtype(const struct psti_chain *chain);
uint8_t psti_augment_chain_channels(const struct psti_chain *chain);

/* Draws the random parameters of one sample whose source has height x width pixels.
 * PST_ERROR_ARGUMENT: the image does not suit the chain (for example, a RandomCrop is larger than
 * the image). PST_ERROR_STATE: the draw depends on boxes, and key->boxes is NULL. */
enum pst_status psti_augment_chain_draw(const struct psti_chain *chain,
                                        const struct psti_draw_key *key, uint32_t height,
                                        uint32_t width, struct psti_draw *draw,
                                        struct pst_error *err);
/* Gives the size of the picture after the first n operations of the drawn sample. n is at most the
 * number of operations. */
void psti_augment_chain_size_after(const struct psti_chain *chain, const struct psti_draw *draw,
                                   size_t n, uint32_t *height, uint32_t *width);
/* Tells the draw, which is that of the whole image, that the pixels which will come are those of
 * the picture after the first n operations. These must be fixed (psti_augment_ops_fixed). Makes the
 * region one of that picture. The output, boxes and keypoints stay those of the whole chain. Must
 * not be called after psti_augment_chain_scale. */
void psti_augment_chain_skip(const struct psti_chain *chain, struct psti_draw *draw, size_t n);
/* Chooses a scaled decode, for a source that the decoder can deliver at a half, a quarter or an
 * eighth of its size, approximately. It takes the smallest of these sizes at which the first resize
 * still reads more pixels than it writes, on both axes. Sets draw->scale_log2 and makes the region
 * one of the small picture. If no size fits, scale_log2 stays 0 and nothing changes. A side of the
 * small picture has size / 2^scale_log2 pixels, rounded up. Each of its pixels covers a whole
 * square of the source. The last squares may reach beyond the source, at the bottom and at the
 * right. With at_top the first squares reach beyond it at the top instead of the last ones at the
 * bottom; at_left is the same for the left side. Crops keep their place in the source: their edges
 * need not lie on the small picture's grid. */
enum { PSTI_SCALE_LOG2_MAX = 3 };
void psti_augment_chain_scale(const struct psti_chain *chain, struct psti_draw *draw, bool at_top,
                              bool at_left);
/* Applies the drawn geometry to boxes, f32 (n,4): x0, y0, x1, y1, and to keypoints, f32 (n,3):
 * x, y, visibility, in place. Coordinates are continuous: pixel i covers i..i+1, so a flip maps x
 * to width - x. Boxes are clamped to the picture after each operation; one that leaves the picture
 * keeps its place in the array with no area, as does one that RandomIoUCrop or SanitizeBoxes takes
 * out. A keypoint that lies outside after an operation keeps
 * its coordinates and gets visibility 0. */
void psti_augment_chain_map_boxes(const struct psti_chain *chain, const struct psti_draw *draw,
                                  float *boxes, size_t n);
void psti_augment_chain_map_keypoints(const struct psti_chain *chain, const struct psti_draw *draw,
                                      float *keypoints, size_t n);
/* Returns whether the drawn geometry shows the picture mirrored: it flips one axis, or one axis an
 * odd number of times. Flips of both axes are a rotation by 180 degrees and mirror nothing. */
bool psti_augment_chain_mirrors(const struct psti_chain *chain, const struct psti_draw *draw);
/* Gives the drawn geometry as a matrix, f64 (3,3): (x, y, 1) of the source becomes, up to a factor,
 * (x, y, 1) of the output. Coordinates are those of psti_augment_chain_map_boxes; nothing is
 * clamped. The last element is 1 unless the point (0, 0) has no place. Not for chains of which
 * psti_augment_ops_alone names an operation. */
void psti_augment_chain_matrix(const struct psti_chain *chain, const struct psti_draw *draw,
                               double m[9]);
/* Returns the factor by which the geometry multiplies areas if nothing is cut off. */
double psti_augment_chain_area_scale(const struct psti_chain *chain, const struct psti_draw *draw);
/* Returns the bytes of the output with packed rows. */
size_t psti_augment_chain_output_nbytes(const struct psti_chain *chain,
                                        const struct psti_draw *draw);

enum pst_status psti_augment_run_open(struct psti_run **out, struct pst_error *err);
void psti_augment_run_close(struct psti_run **run);
uint64_t psti_augment_run_scratch_nbytes(const struct psti_run *run);
/* The default limit is 1 GiB. A sample that needs more is PST_ERROR_LIMIT. */
void psti_augment_run_set_scratch_limit(struct psti_run *run, uint64_t nbytes);
/* Takes scratch of `nbytes` now. Samples that need no more then allocate nothing. Call it only
 * between samples. If there is no memory, samples allocate their scratch as they come. */
void psti_augment_run_hold(struct psti_run *run, uint64_t nbytes);

/* Prepares `run` for one sample. Scratch memory grows if the sample needs more than all before. */
enum pst_status psti_augment_run_begin(struct psti_run *run, const struct psti_chain *chain,
                                       const struct psti_draw *draw,
                                       const struct psti_target *target, struct pst_error *err);
/* Takes the next rows of the region, in order. The function is a psti_row_sink of decode.h, with
 * the run as its ctx. */
enum pst_status psti_augment_run_rows(void *run, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows);
/* Ends the sample after its last row: runs the operations that could not be streamed (colour jitter
 * needs the whole picture). */
enum pst_status psti_augment_run_end(struct psti_run *run, struct pst_error *err);

/* Mixing of batches (augment_mix.c). */
/* Returns what is wrong with a way of mixing, or NULL. */
const char *psti_augment_mix_problem(const struct pst_mix *mix);
/* Draws how a batch of images of height x width is mixed: one of the n ways, each with the same
 * probability. `position` is the position of the batch's first row. */
void psti_augment_mix_draw(const struct pst_mix *ways, uint32_t n, uint64_t seed, uint64_t epoch,
                           uint64_t position, uint32_t height, uint32_t width,
                           struct pst_batch_mix *mix);
/* How one row of a batch becomes a mosaic. */
struct psti_mosaic {
    bool is_applied;
    uint32_t y, x;    /* the point where the tiles meet: y in 0..height, x in 0..width */
    /* the batch's row in each tile: top left (this row itself), top right, bottom left, bottom
     * right */
    uint32_t rows[PST_MOSAIC_TILES];
};
/* Draws the mosaic of row `row` of a batch of n_rows rows. `position` is the position of the
 * batch's first row. */
void psti_augment_mosaic_draw(const struct pst_mix *way, uint64_t seed, uint64_t epoch,
                              uint64_t position, uint32_t row, uint32_t n_rows, uint32_t height,
                              uint32_t width, struct psti_mosaic *mosaic);
/* The images of a batch as they lie in its array: packed, with n_rows >= 1. */
struct psti_mix_images {
    void *data;
    uint32_t n_rows, height, width, channels;
    enum pst_dtype dtype; /* U8, U16, F16, BF16 or F32 */
    enum pst_layout layout;
};
/* Mixes the images in place. */
void psti_augment_mix(const struct psti_mix_images *images, const struct pst_batch_mix *mix);

#endif
