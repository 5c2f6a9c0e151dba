/* augment.h - the door of augment: a compiled chain of operations, run row by row into a batch
 * slot.
 *
 *     compile once per field  ->  per sample: draw (random numbers, region to decode)
 *                             ->  begin, rows ... rows (as the decoder delivers them), end
 *
 * A chain is immutable and shared by threads; a run (scratch) belongs to one thread. crop + resize
 * + flip + normalise + layout is one pass: each source row is filtered horizontally when it
 * arrives, and an output row is written to the slot as soon as its source rows are there. All CPU
 * levels give the same bits. */
#ifndef PST_AUGMENT_AUGMENT_H
#define PST_AUGMENT_AUGMENT_H

#include <penstock/augment.h>

struct psti_chain;
struct psti_run;

/* Whether operations of that kind move pixels. */
bool psti_augment_op_is_geometric(enum pst_op_kind kind);
/* "RandomCrop" and the like, for messages. */
const char *psti_augment_op_name(enum pst_op_kind kind);
enum { PSTI_AUGMENT_MAX_OPS = 15 }; /* of a chain */
/* The interpolation of a mask where its operation says any: nearest, unless that is nearest-exact.
 */
enum pst_interpolation psti_augment_op_mask_interpolation(const struct pst_op *op);
/* The operations of a field that follows a chain: its geometric ones, in `out`; returns how many.
 * Those of a mask are by nearest and have the mask's fill. n_ops <= PSTI_AUGMENT_MAX_OPS. */
size_t psti_augment_ops_follow(const struct pst_op *ops, size_t n_ops, bool is_mask,
                               struct pst_op out[PSTI_AUGMENT_MAX_OPS]);
/* Whether two chains move pixels alike. If not: where they first differ; *i_a = n_a, or *i_b = n_b,
 * says that there is no such operation any more. */
bool psti_augment_ops_move_alike(const struct pst_op *a, size_t n_a, const struct pst_op *b,
                                 size_t n_b, size_t *i_a, size_t *i_b);

/* What a chain's last step writes. */
struct psti_chain_output {
    enum pst_dtype dtype; /* U8, U16, F16, BF16, F32, masks: U8, U16, I32, I64, F32; 0: F32 if the
                             chain normalises, else by `bits` */
    enum pst_layout layout;
    uint8_t channels; /* of the rows that come in: 1..4 */
    uint8_t bits;     /* of the samples that come in: 8 or 16 */
    bool is_mask;     /* only nearest interpolation; colour operations and normalise are errors */
};

/* Where a sample's pixels go. */
struct psti_target {
    void *data;
    size_t row_nbytes; /* distance of rows; a plane (CHW) is height * row_nbytes */
};

/* Version of the rule by which random parameters follow from a key (augment_draw.c). */
#define PSTI_AUGMENT_VERSION 1

/* The random parameters of a sample are a function of this and of each operation's number. */
struct psti_draw_key {
    uint64_t seed, epoch, sample;
    uint64_t draw; /* 0, or where the sample stands in an epoch that may hold it several times */
    uint32_t view; /* 0, or the number of the view where a sample is asked for several times */
    uint32_t own;  /* 0: shared by the fields of a sample; else a field's own numbers; < 2^16 */
};

/* Geometry and random parameters of one sample. */
struct psti_draw {
    uint32_t region_y, region_x, region_height,
        region_width; /* of the source: what the decoder must deliver */
    uint32_t out_height, out_width;
    uint32_t scale_log2; /* 0, or psti_augment_chain_scale's: the region is of the source at 1 /
                            2^scale_log2 of its size */
    uint64_t opaque[64]; /* resolved parameters of each operation */
};

/* Checks `ops` and merges them. PST_ERROR_ARGUMENT names the operation by number and kind. */
enum pst_status psti_augment_chain_compile(const struct pst_op *ops, size_t n_ops,
                                           const struct psti_chain_output *output,
                                           struct psti_chain **out, struct pst_error *err);
void psti_augment_chain_free(struct psti_chain **chain);
/* Output height and width if every sample has the same, else false. */
bool psti_augment_chain_fixed_size(const struct psti_chain *chain, uint32_t *height,
                                   uint32_t *width);
enum pst_dtype psti_augment_chain_dtype(const struct psti_chain *chain);
uint8_t psti_augment_chain_channels(const struct psti_chain *chain);

/* Draws for one sample whose source is height x width. PST_ERROR_ARGUMENT: the image does not suit
 * the chain (RandomCrop larger than the image). */
enum pst_status psti_augment_chain_draw(const struct psti_chain *chain,
                                        const struct psti_draw_key *key, uint32_t height,
                                        uint32_t width, struct psti_draw *draw,
                                        struct pst_error *err);
/* For a source of which the decoder can deliver an approximation at a half, a quarter or an eighth
 * of its size: chooses the smallest at which a resize, of a crop or of the whole, still has more
 * pixels than it gives, on both axes. Sets draw->scale_log2, 0 if none is (then nothing changes),
 * and the region, which is of the small picture then. That has size / 2^scale_log2 pixels on a
 * side, rounded up; pixels cover whole squares of the source, of which those at the bottom and at
 * the right reach beyond it, or, if at_top or at_left, those at the top and at the left instead.
 * Crops begin where they did: their edges need not lie on the small picture's grid. */
enum { PSTI_SCALE_LOG2_MAX = 3 };
void psti_augment_chain_scale(const struct psti_chain *chain, struct psti_draw *draw, bool at_top,
                              bool at_left);
/* Applies the drawn geometry to boxes, f32 (n,4): x0, y0, x1, y1, and to keypoints, f32 (n,3):
 * x, y, visibility, in place. Coordinates are continuous: pixel i covers i..i+1, so a flip maps x
 * to width - x. Boxes are clamped to the picture after each operation; one that leaves the picture
 * keeps its place in the array with no area. A keypoint that lies outside after an operation keeps
 * its coordinates and gets visibility 0. */
void psti_augment_chain_map_boxes(const struct psti_chain *chain, const struct psti_draw *draw,
                                  float *boxes, size_t n);
void psti_augment_chain_map_keypoints(const struct psti_chain *chain, const struct psti_draw *draw,
                                      float *keypoints, size_t n);
/* What the geometry multiplies areas by, where nothing is cut off. */
double psti_augment_chain_area_scale(const struct psti_chain *chain, const struct psti_draw *draw);
/* Bytes of the output, rows packed. */
size_t psti_augment_chain_output_nbytes(const struct psti_chain *chain,
                                        const struct psti_draw *draw);

enum pst_status psti_augment_run_open(struct psti_run **out, struct pst_error *err);
void psti_augment_run_close(struct psti_run **run);
uint64_t psti_augment_run_scratch_nbytes(const struct psti_run *run);
void psti_augment_run_set_scratch_limit(
    struct psti_run *run, uint64_t nbytes); /* default 1 GiB; beyond: PST_ERROR_LIMIT */
/* Takes scratch of `nbytes` now: samples for which it is enough then allocate nothing. Between
 * samples. Without memory they allocate as they come. */
void psti_augment_run_hold(struct psti_run *run, uint64_t nbytes);

/* Scratch grows to the largest sample seen and is then reused. */
enum pst_status psti_augment_run_begin(struct psti_run *run, const struct psti_chain *chain,
                                       const struct psti_draw *draw,
                                       const struct psti_target *target, struct pst_error *err);
/* A psti_row_sink of decode.h (ctx = the run): rows of the region, in order. */
enum pst_status psti_augment_run_rows(void *run, const void *rows, size_t row_nbytes, uint32_t y,
                                      uint32_t n_rows);
/* After the last row: what could not be streamed (colour jitter needs the whole picture) is done
 * now. */
enum pst_status psti_augment_run_end(struct psti_run *run, struct pst_error *err);

#endif
