/* pli_jpeg.h - the kitchen's second door for PLI's content 2 (docs/format-pli.md, sections 7 to 9):
 * a JPEG kept as PLI -> coefficients, or pixels at a fraction of the size. Whole pixels come
 * through pst_pli_decode and psti_pli_decode_bands (pli.c), which call pli_jpeg.c for content 2. */
#ifndef PST_DECODE_PLI_JPEG_H
#define PST_DECODE_PLI_JPEG_H

#include "decode/pli_int.h"
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

/* Both from one decode of the units, for who proves that both are right: pixels as of
 * psti_pli_decode_bands of the whole image, coefficients as of psti_pli_jpeg_coefs. */
enum pst_status psti_pli_jpeg_decode_both(const void *bytes, size_t nbytes,
                                          const struct psti_jpeg_frame *frame,
                                          int16_t *const coefs[], const struct pst_pixels *pixels,
                                          void *scratch, size_t scratch_nbytes, psti_pli_band band,
                                          void *band_ctx, struct pst_error *err);

/* Pixels at 1 / 2^scale_log2 of the size, 1..3, for consumers that make them smaller still and can
 * do with an approximation: of each block only the 4x4, 2x2 or 1x1 lowest frequencies are decoded
 * and transformed (pli_jpeg_small.c states the arithmetic); upsampling and colour follow as for
 * whole pixels, by the small sizes. That is neither what libjpeg-turbo makes of scale_num nor the
 * average of the pixels, from which 200 ImageNet photographs differ by 36.0 dB (PSNR) at a half,
 * 38.3 dB at a quarter and 46.9 dB at an eighth (test_pli_jpeg_small measures it). The small image
 * has psti_pli_jpeg_scaled() pixels each way; `region` (NULL: all of it) and `pixels` are of that.
 * Else as psti_pli_decode_bands, or with `band` NULL as pst_pli_decode; of a PLI of pixels
 * PST_ERROR_ARGUMENT. */
static inline uint32_t psti_pli_jpeg_scaled(uint32_t n, uint32_t scale_log2)
{
    return (n + (1u << scale_log2) - 1) >> scale_log2;
}
enum pst_status psti_pli_jpeg_decode_scaled(const void *bytes, size_t nbytes, uint32_t scale_log2,
                                            const struct pst_pli_region *region,
                                            const struct pst_pixels *pixels, void *scratch,
                                            size_t scratch_nbytes, psti_pli_band band,
                                            void *band_ctx, struct pst_error *err);

#endif
