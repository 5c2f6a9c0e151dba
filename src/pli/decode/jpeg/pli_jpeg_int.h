/* pli_jpeg_int.h - inside the decoder of PLI's content 2 (docs/format-pli.md, section 9): turns
 * planes of coefficients into samples, and samples into rows of pixels.
 *
 * There are kernels in plain C, which are the reference implementation, and kernels per CPU level;
 * all give the same bytes. The functions keep no state. Everything is in the caller's scratch. */
#ifndef PST_PLI_JPEG_INT_H
#define PST_PLI_JPEG_INT_H

#include "pli/decode/coefs/pli_coefs.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/pli.h"

/* ---- Coefficients to samples: pli_jpeg_idct.c, pli_jpeg_idct_avx2.c */

/* The quantisation values of each component in zigzag order, each stored twice: q | q << 16. */
struct psti_pli_jpeg_quants {
    uint32_t twice[PSTI_JPEG_COMPONENTS_MAX][64];
};

/* The blocks of a decoded unit, and the places of their samples. */
struct psti_pli_jpeg_blocks {
    const struct psti_pli_coefs *coefs;
    const struct psti_pli_jpeg_quants *quants;
    uint8_t *samples;
    size_t stride; /* bytes from one row of samples to the next, the same for all components */
    uint32_t edge; /* width and height of a block in samples: 8, or 4, 2 or 1 for smaller images */
    bool all;      /* true if all blocks of the list are wanted */
    /* Offset of the first sample of each square from `samples`. */
    ptrdiff_t at[PSTI_JPEG_SQUARES_MAX];
    /* Bit p of a square says whether the block at position p is wanted. Memory of other blocks is
     * not written. */
    uint64_t wanted[PSTI_JPEG_SQUARES_MAX];
};

/* Writes the 8x8 samples of each wanted block. `work` has PSTI_PLI_JPEG_IDCT_NBYTES, aligned to 64.
 */
enum { PSTI_PLI_JPEG_IDCT_NBYTES = 24 * 1024 };
typedef void psti_pli_jpeg_idct(const struct psti_pli_jpeg_blocks *blocks, void *work);
psti_pli_jpeg_idct psti_pli_jpeg_idct_c;
/* These levels require `all`, because their coefficient decoders leave only wanted blocks in the
 * list. */
psti_pli_jpeg_idct psti_pli_jpeg_idct_avx2, psti_pli_jpeg_idct_avx512, psti_pli_jpeg_idct_neon;

/* Writes blocks of `edge` x `edge` samples (4, 2 or 1), from the coefficients whose row and column
 * are below `edge`. It exists only in plain C (pli_jpeg_small.c). */
psti_pli_jpeg_idct psti_pli_jpeg_idct_small;

/* Returns the number of the first square of this component or a later one, or n_squares if there is
 * none. */
static inline uint32_t psti_pli_jpeg_first_square(const struct psti_pli_coefs *coefs,
                                                  uint32_t component)
{
    uint32_t s = 0;
    while (s < coefs->n_squares && coefs->squares[s].component < component)
        s++;
    return s;
}

/* Returns the end of the block at list position i. `last` is the end of a block at an earlier
 * position. Levels that transform many blocks at once use this. */
static inline uint32_t psti_pli_jpeg_end_at(const struct psti_pli_coefs *coefs, uint32_t i,
                                            uint32_t last)
{
    while (last > 0 && coefs->n_k[last] <= i)
        last--;
    return last;
}
/* ---- Coefficients to blocks: pli_jpeg_blocks.c, pli_jpeg_blocks_avx2.c */

/* Writes 16 blocks of 64 coefficients from 16 entries of each of planes 0..last. Coefficients above
 * `last` are zeros. */
enum { PSTI_PLI_JPEG_GROUP = 16 };
typedef void psti_pli_jpeg_to_blocks(const int16_t *planes, size_t stride, uint32_t last,
                                     int16_t *const blocks[PSTI_PLI_JPEG_GROUP]);
psti_pli_jpeg_to_blocks psti_pli_jpeg_to_blocks_c, psti_pli_jpeg_to_blocks_avx2;

/* ---- Samples to pixels: pli_jpeg_rows.c, pli_jpeg_rows_avx2.c, pli_jpeg_rows_avx512.c,
 * pli_jpeg_rows_neon.c */

/* Kernels that work on rows of n samples. Those that interpolate sideways read in[-1] and in[n]. A
 * kernel may read n rounded up to 64 samples and one more, and may write that many samples (`h2`
 * and `h2v2` twice as many). Kernels that make pixels write exactly n pixels. Rows do not
 * overlap. */
struct psti_pli_jpeg_rows {
    /* Upsamples a row sideways to 2n samples. */
    void (*h2)(const uint8_t *in, uint8_t *out, uint32_t n);
    /* Upsamples two rows to one row of 2n samples. `near` has three times the weight of `far`. */
    void (*h2v2)(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n);
    /* Interpolates downwards: makes one row from the rows `near` and `far`. `bias` is 1 for the
     * upper of the two rows made from `near`, 2 for the lower. */
    void (*v2)(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out, uint32_t n);
    void (*ycc_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                    uint32_t n);
    void (*plain_rgb)(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                      uint32_t n);
};
/* Bytes before and after rows of samples that kernels may access. */
enum { PSTI_PLI_JPEG_ROW_SLACK = 64 };
extern const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_c, psti_pli_jpeg_rows_avx2,
    psti_pli_jpeg_rows_avx512, psti_pli_jpeg_rows_neon;

/* ---- Strips: pli_jpeg_strip.c */

/* The samples of one row of units, as wide as the region, with one row of samples above them for
 * each component. */
struct psti_pli_jpeg_strip {
    const struct psti_jpeg_frame *frame;
    struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX];
    uint8_t *samples;
    size_t stride;
    /* For each component: the offset in `samples` of its first sample in this row of units, in
     * block column column0. */
    ptrdiff_t tops[PSTI_JPEG_COMPONENTS_MAX];
    /* `block`: samples of a block in each direction; `edge`: pixels of a unit in each direction. */
    uint32_t block, edge;
    uint32_t y;                                   /* the image's first row in this row of units */
    uint8_t *upsampled[PSTI_JPEG_COMPONENTS_MAX]; /* one upsampled row of each component */
    uint8_t *pixels;                              /* memory for one row of pixels */
    const struct psti_pli_jpeg_rows *kernels;
};
/* Returns the bytes that a strip needs for regions of `width`, whatever their height and
 * position. */
size_t psti_pli_jpeg_strip_nbytes(uint32_t n_components, uint32_t edge, uint32_t width);
void psti_pli_jpeg_strip_begin(struct psti_pli_jpeg_strip *strip,
                               const struct psti_jpeg_frame *frame, uint32_t block, uint32_t edge,
                               const struct pst_pli_region *region,
                               const struct psti_pli_jpeg_rows *kernels, uint8_t *memory);
/* Prepares the strip for the row of units that begins with row y of the image. Keeps the last row
 * of samples of the row of units before. */
void psti_pli_jpeg_strip_next(struct psti_pli_jpeg_strip *strip, uint32_t y);
/* Sets the places of a unit's samples and the blocks that are wanted. `blocks->coefs` must be set.
 * Returns false if no block is wanted. */
bool psti_pli_jpeg_strip_place(const struct psti_pli_jpeg_strip *strip,
                               struct psti_pli_jpeg_blocks *blocks);
/* Completes the strip after all units of the row are decoded. Returns the end of the rows of pixels
 * that can be made now. */
uint32_t psti_pli_jpeg_strip_fill(struct psti_pli_jpeg_strip *strip);
/* Makes row y of the image, columns x .. x + n - 1, as (W,C) pixels. Writes it to `out` and returns
 * `out`. If `out` is NULL, it returns memory of the strip that holds the row. */
const uint8_t *psti_pli_jpeg_strip_row(const struct psti_pli_jpeg_strip *strip, uint32_t y,
                                       uint32_t x, uint32_t n, uint8_t *out);

/* ---- pli_jpeg.c */

/* Returns the bytes of scratch with which a region of that width is decoded fastest, and the least
 * with which it can be decoded. */
size_t psti_pli_jpeg_scratch_nbytes(uint32_t unit_log2, uint32_t n_components, uint32_t width);
size_t psti_pli_jpeg_scratch_least(uint32_t unit_log2, uint32_t n_components, uint32_t width);
enum pst_status psti_pli_jpeg_decode(const struct psti_pli_request *request, struct pst_error *err);
void psti_pli_jpeg_find_quants(const struct psti_jpeg_frame *frame,
                               struct psti_pli_jpeg_quants *quants);
/* Returns the frame with the sizes of the small image. The code that places samples uses it. */
struct psti_jpeg_frame psti_pli_jpeg_scaled_frame(const struct psti_jpeg_frame *frame,
                                                  uint32_t scale_log2);
/* Checks that coefficients of `frame` have the same sizes as those of `own`, the frame of the
 * image. */
enum pst_status psti_pli_jpeg_check_coefs(const struct psti_jpeg_frame *own,
                                          const struct psti_jpeg_frame *frame,
                                          struct pst_error *err);
/* Finds and parses the frame in a head that has been checked. */
enum pst_status psti_pli_jpeg_find_frame(const void *bytes, const struct psti_pli_header *header,
                                         struct psti_jpeg_frame *frame, struct pst_error *err);

#endif
