/* pli_jpeg_int.h - inside the decoder of PLI's content 2 (docs/format-pli.md, section 9): planes of
 * coefficients -> samples -> rows of pixels. Kernels in plain C, the judge, and per CPU level; they
 * give the same bytes. No state; everything in the caller's scratch. */
#ifndef PST_DECODE_PLI_JPEG_INT_H
#define PST_DECODE_PLI_JPEG_INT_H

#include "decode/pli_coefs.h"

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
    bool all;      /* all blocks are wanted */
    struct {
        ptrdiff_t at;    /* of the first sample of the square, from `samples` */
        uint64_t wanted; /* bit p: the block at position p; other blocks' places are not touched */
    } squares[PSTI_JPEG_SQUARES_MAX];
};

/* `work` of PSTI_PLI_JPEG_IDCT_NBYTES, aligned to 64. Writes the 8x8 samples of each block that is
 * wanted. */
enum { PSTI_PLI_JPEG_IDCT_NBYTES = 20 * 1024 };
typedef void psti_pli_jpeg_idct(const struct psti_pli_jpeg_blocks *blocks, void *work);
psti_pli_jpeg_idct psti_pli_jpeg_idct_c;
#if defined(__x86_64__)
psti_pli_jpeg_idct psti_pli_jpeg_idct_avx2;
#endif

/* The first list position of each component, `n` where none of it or of a later one is left: blocks
 * of component c are those with order[i] >= 64 * firsts[c]. */
static inline uint32_t psti_pli_jpeg_first_square(const struct psti_pli_coefs *coefs,
                                                  uint32_t component)
{
    uint32_t s = 0;
    while (s < coefs->n_squares && coefs->squares[s].component < component)
        s++;
    return s;
}

#endif
