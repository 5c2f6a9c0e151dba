/* pli_jpeg.h - the kitchen's second door for PLI's content 2 (docs/format-pli.md, sections 7 to 9):
 * a JPEG kept as PLI -> coefficients, or pixels at a fraction of the size. Whole pixels come
 * through pst_pli_decode and psti_pli_decode_bands (pli.c), which call pli_jpeg.c for content 2. */
#ifndef PST_DECODE_PLI_JPEG_H
#define PST_DECODE_PLI_JPEG_H

#include "format/format_pli_jpeg.h"

/* The frame of a PLI of content 2, from its head, which is checked. */
enum pst_status psti_pli_jpeg_frame(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err);

/* All coefficients: `coefs[c]` has room for psti_jpeg_n_coefs(frame, c) values, rows of blocks,
 * each in zigzag order. Every unit is checked. `scratch` of pst_pli_scratch_nbytes(), aligned
 * to 64. */
enum pst_status psti_pli_jpeg_coefs(const void *bytes, size_t nbytes,
                                    const struct psti_jpeg_frame *frame, int16_t *const coefs[],
                                    void *scratch, size_t scratch_nbytes, struct pst_error *err);

#endif
