/* pli_jpeg_int.h - inside the decoder of PLI's content 2 (docs/format-pli.md, section 9): planes of
 * coefficients -> samples -> rows of pixels. Kernels in plain C, the judge, and per CPU level; they
 * give the same bytes. No state; everything in the caller's scratch. */
#ifndef PST_PLI_JPEG_INT_H
#define PST_PLI_JPEG_INT_H

#include "pli/decode/coefs/pli_coefs.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/pli.h"

/* ---- Coefficients -> samples: pli_jpeg_idct.c, pli_jpeg_idct_avx2.c */

/* Quantisation values of a component in zigzag order, each twice: q | q << 16. */
struct psti_pli_jpeg_quants {
    uint32_t twice[PSTI_JPEG_COMPONENTS_MAX][64];
};

/* The blocks of a decoded unit, and where their samples go. */
struct psti_pli_jpeg_blocks {
    const struct psti_pli_coefs *coefs;
    const struct psti_pli_jpeg_quants *quants;
    uint8_t *samples;
    size_t stride; /* from row to row of samples, of all components */
    uint32_t edge; /* of a block, in samples: 8; 4, 2 or 1 where it is made smaller */
    bool all;      /* all blocks of the list are wanted */
    ptrdiff_t at[PSTI_JPEG_SQUARES_MAX]; /* of the first sample of a square, from `samples` */
    /* Of a square, bit p: the block at position p; other blocks' places are not touched. */
    uint64_t wanted[PSTI_JPEG_SQUARES_MAX];
};

/* `work` of PSTI_PLI_JPEG_IDCT_NBYTES, aligned to 64. Writes the 8x8 samples of each block that is
 * wanted. */
enum { PSTI_PLI_JPEG_IDCT_NBYTES = 24 * 1024 };
typedef void psti_pli_jpeg_idct(const struct psti_pli_jpeg_blocks *blocks, void *work);
psti_pli_jpeg_idct psti_pli_jpeg_idct_c, psti_pli_jpeg_idct_avx2, psti_pli_jpeg_idct_neon;
/* Needs `all`: its level of coefficients keeps the wanted blocks alone. */
psti_pli_jpeg_idct psti_pli_jpeg_idct_avx512;

/* Blocks of `edge` samples each way, 4, 2 or 1, of coefficients whose row and column are below
 * that; plain C alone. pli_jpeg_small.c */
psti_pli_jpeg_idct psti_pli_jpeg_idct_small;

/* The first square of a component or of a later one; n_squares if there is none. */
static inline uint32_t psti_pli_jpeg_first_square(const struct psti_pli_coefs *coefs,
                                                  uint32_t component)
{
    uint32_t s = 0;
    while (s < coefs->n_squares && coefs->squares[s].component < component)
        s++;
    return s;
}

/* For levels that transform many blocks at once. The end of the block at list position i, when it
 * was `last` at an earlier one. */
static inline uint32_t psti_pli_jpeg_end_at(const struct psti_pli_coefs *coefs, uint32_t i,
                                            uint32_t last)
{
    while (last > 0 && coefs->n_k[last] <= i)
        last--;
    return last;
}
/* Which of the 64 blocks from list position i on are wanted; *order: their numbers follow. */
static inline uint64_t psti_pli_jpeg_wanted_of(const struct psti_pli_jpeg_blocks *blocks,
                                               uint32_t i, uint16_t *order)
{
    const struct psti_pli_coefs *coefs = blocks->coefs;
    uint32_t left = coefs->n - i, n = left < 64 ? left : 64;
    uint64_t mask = 0;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t block = coefs->order[i + b];
        uint64_t wanted = blocks->wanted[block >> 6] >> (block & 63) & 1;
        mask |= wanted << b;
        *order = (uint16_t)block;
        order += wanted;
    }
    return mask;
}

/* ---- Coefficients -> blocks: pli_jpeg.c, pli_jpeg_blocks_avx2.c */

/* 16 entries of planes 0..last, and zeros above them, to 64 coefficients of a block each. */
enum { PSTI_PLI_JPEG_GROUP = 16 };
typedef void psti_pli_jpeg_to_blocks(const int16_t *planes, size_t stride, uint32_t last,
                                     int16_t *const blocks[PSTI_PLI_JPEG_GROUP]);
psti_pli_jpeg_to_blocks psti_pli_jpeg_to_blocks_c, psti_pli_jpeg_to_blocks_avx2;

/* ---- Samples -> pixels: pli_jpeg_rows.c, pli_jpeg_rows_avx2.c, pli_jpeg_rows_avx512.c,
 * pli_jpeg_rows_neon.c */

/* Kernels for rows of n samples. Where they interpolate sideways in[-1] and in[n] are read. They
 * may read n rounded up to 64 and one more, and write as much of rows of samples (twice that for
 * `h2`, `h2v2`), but write n pixels exactly. Rows do not overlap. */
struct psti_pli_jpeg_rows {
    void (*h2)(const uint8_t *in, uint8_t *out, uint32_t n);                         /* -> 2n */
    void (*h2v2)(const uint8_t *near, const uint8_t *far, uint8_t *out, uint32_t n); /* -> 2n */
    /* bias: 1 for the upper of the two rows made from `near`, 2 for the lower. */
    void (*v2)(const uint8_t *near, const uint8_t *far, uint32_t bias, uint8_t *out, uint32_t n);
    void (*ycc_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out,
                    uint32_t n);
    void (*plain_rgb)(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                      uint32_t n);
};
enum { PSTI_PLI_JPEG_ROW_SLACK = 64 }; /* bytes before and behind rows of samples */
extern const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_c, psti_pli_jpeg_rows_avx2,
    psti_pli_jpeg_rows_avx512, psti_pli_jpeg_rows_neon;

/* ---- Strips: pli_jpeg_strip.c */

/* The samples of a row of units, as wide as the region, and of each component one row from above
 * it. */
struct psti_pli_jpeg_strip {
    const struct psti_jpeg_frame *frame;
    struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX];
    uint8_t *samples;
    size_t stride;
    ptrdiff_t tops[PSTI_JPEG_COMPONENTS_MAX]; /* of samples (0, column0 * block) of the row of units
                                               */
    uint32_t block, edge;                     /* samples of a block and pixels of a unit each way */
    uint32_t y;                               /* the row of units begins with row y of the image */
    uint8_t *upsampled[PSTI_JPEG_COMPONENTS_MAX]; /* a row each */
    uint8_t *pixels;                              /* a row of pixels */
    const struct psti_pli_jpeg_rows *kernels;
};
/* Memory for a region of `width`: both follow from the width alone. */
size_t psti_pli_jpeg_strip_nbytes(uint32_t n_components, uint32_t edge, uint32_t width);
void psti_pli_jpeg_strip_begin(struct psti_pli_jpeg_strip *strip,
                               const struct psti_jpeg_frame *frame, uint32_t block, uint32_t edge,
                               const struct pst_pli_region *region,
                               const struct psti_pli_jpeg_rows *kernels, uint8_t *memory);
/* The row of units that begins with row y of the image is to come; of the one before, the last rows
 * are kept. */
void psti_pli_jpeg_strip_next(struct psti_pli_jpeg_strip *strip, uint32_t y);
/* Where a unit's blocks go; `blocks->coefs` is there. False if none is wanted. */
bool psti_pli_jpeg_strip_place(const struct psti_pli_jpeg_strip *strip,
                               struct psti_pli_jpeg_blocks *blocks);
/* All units of the row are there: rows before the one that is returned can be made. */
uint32_t psti_pli_jpeg_strip_fill(struct psti_pli_jpeg_strip *strip);
/* Row y of the image, columns x .. x + n - 1, as (W,C) pixels: to `out`, or, if that is NULL,
 * wherever they come to lie. */
const uint8_t *psti_pli_jpeg_strip_row(const struct psti_pli_jpeg_strip *strip, uint32_t y,
                                       uint32_t x, uint32_t n, uint8_t *out);

/* ---- pli_jpeg.c */

size_t psti_pli_jpeg_scratch_nbytes(uint32_t unit_log2, uint32_t n_components, uint32_t width);
enum pst_status psti_pli_jpeg_decode(const struct psti_pli_request *request, struct pst_error *err);
/* The frame as those see it who place samples: sizes are those of the small image. */
struct psti_jpeg_frame psti_pli_jpeg_scaled_frame(const struct psti_jpeg_frame *frame,
                                                  uint32_t scale_log2);
/* Whether coefficients of `frame` have room for those of `own`, an image's frame. */
enum pst_status psti_pli_jpeg_check_coefs(const struct psti_jpeg_frame *own,
                                          const struct psti_jpeg_frame *frame,
                                          struct pst_error *err);
/* The frame of a head that has been checked. */
enum pst_status psti_pli_jpeg_find_frame(const void *bytes, const struct psti_pli_header *header,
                                         struct psti_jpeg_frame *frame, struct pst_error *err);

#endif
