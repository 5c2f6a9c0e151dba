/* pli.h - the door of the PLI codec: the functions that other rooms call.
 *
 * pli/ includes only base/ and itself, so that it can be lifted out as a library of its own.
 * Besides this header, the headers of pli/format/ are open to all rooms: they state the byte layout
 * (docs/format-pli.md), which the host code of the GPU kernels reads, too. The functions pst_pli_*
 * of <penstock/pli.h> are defined here. Of pst_pli_from_jpeg, psti_pli_from_jpeg is all but the
 * JPEG decoder, which its caller brings. */
#ifndef PST_PLI_PLI_H
#define PST_PLI_PLI_H

#include "base/buffer.h"
#include "pli/format/pli_head.h"
#include "pli/format/pli_jpeg_format.h"

/* Decoding (pli/decode)
 * ------------------------------------------------------------------------------------------- */

/* Does pst_pli_decode on one level (PSTI_CPU_*), without comparing the pixel checksum. Tests use it
 * to compare the levels with plain C. */
enum pst_status psti_pli_decode_on(uint32_t cpu, const void *bytes, size_t nbytes,
                                   const struct pst_pli_region *region, int channel,
                                   const struct pst_pixels *pixels, void *scratch,
                                   size_t scratch_nbytes, struct pst_error *err);

/* Decodes all channels as pst_pli_decode does, one band of rows at a time. `header` is the result
 * of psti_pli_parse_header for these bytes, so that they are parsed only once; if it is NULL, the
 * header is parsed here. The head's checksum is compared in either case, and only the parsed header
 * is believed, so that bytes that changed since are an error. `pixels` holds one band: its height
 * is the smaller of the region's height and psti_pli_band_rows(). `band` is called each time that
 * the first `n_rows` rows of `pixels` hold rows y, y + 1, ... of the region. If it returns anything
 * but PST_OK, the decode ends with that status. `scratch` has psti_pli_region_scratch_nbytes(). */
enum { PSTI_PLI_JPEG_BAND_ROWS = 16 }; /* content 2 has bands of so few rows because they stay in
                                        * the first cache */
static inline uint32_t psti_pli_band_rows(uint32_t content, uint32_t unit_edge)
{
    return content == PST_PLI_CONTENT_JPEG ? PSTI_PLI_JPEG_BAND_ROWS : unit_edge;
}
typedef enum pst_status (*psti_pli_band)(void *ctx, uint32_t y, uint32_t n_rows);
enum pst_status psti_pli_decode_bands(const struct psti_pli_header *header, const void *bytes,
                                      size_t nbytes, const struct pst_pli_region *region,
                                      const struct pst_pixels *pixels, void *scratch,
                                      size_t scratch_nbytes, psti_pli_band band, void *ctx,
                                      struct pst_error *err);

/* Do as pst_pli_info and pst_pli_ranges for callers that have already parsed the header of these
 * bytes. The first function compares the head's checksum if the head is whole. The second function
 * trusts the head. */
enum pst_status psti_pli_describe(const struct psti_pli_header *header, const void *bytes,
                                  size_t nbytes, struct pst_pli_info *info, struct pst_error *err);
enum pst_status psti_pli_find_ranges(const struct psti_pli_header *header, const void *bytes,
                                     const struct pst_pli_region *region,
                                     struct pst_pli_range *ranges, size_t capacity, size_t *n,
                                     struct pst_error *err);

/* Returns the size of the scratch that pst_pli_decode needs for regions of that width. */
size_t psti_pli_region_scratch_nbytes(const struct psti_pli_header *header, uint32_t width);

/* Returns how many units a decode of the region at that scale decodes. Scale 0 means
 * pst_pli_decode. The head must have been checked. */
uint64_t psti_pli_count_units(const struct psti_pli_header *header, const void *bytes,
                              uint32_t scale_log2, const struct pst_pli_region *region);

/* The units in rows row0..row1 - 1 and columns column0..column1 - 1. */
struct psti_pli_span {
    uint32_t row0, row1, column0, column1;
};

/* JPEGs kept as PLI (content 2): decoding (pli/decode/jpeg; docs/format-pli.md, sections 7 to 9)
 * ------------------------------------------------------------------------------------------- */

/* Reads the frame of a PLI of content 2 from its head, which is checked. */
enum pst_status psti_pli_jpeg_frame(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err);

/* Decodes all coefficients. `coefs[c]` has space for psti_pli_jpeg_n_coefs(frame, c) values: blocks
 * row by row, each in zigzag order. Every unit is checked. `scratch` has pst_pli_scratch_nbytes()
 * and is aligned to 64. */
enum pst_status psti_pli_jpeg_coefs(const void *bytes, size_t nbytes,
                                    const struct psti_jpeg_frame *frame, int16_t *const coefs[],
                                    void *scratch, size_t scratch_nbytes, struct pst_error *err);

/* Decodes pixels and coefficients from one decode of the units, for callers that prove that both
 * are right. The pixels are those of psti_pli_decode_bands for the whole image, the coefficients
 * those of psti_pli_jpeg_coefs. */
enum pst_status psti_pli_jpeg_decode_both(const void *bytes, size_t nbytes,
                                          const struct psti_jpeg_frame *frame,
                                          int16_t *const coefs[], const struct pst_pixels *pixels,
                                          void *scratch, size_t scratch_nbytes, psti_pli_band band,
                                          void *band_ctx, struct pst_error *err);

/* Decodes pixels at 1 / 2^scale_log2 of the size. scale_log2 is 1..3. This is for callers that
 * shrink the image further and accept an approximation. Only the 4x4, 2x2 or 1x1 lowest frequencies
 * of each block are decoded and transformed (pli_jpeg_small.c states the arithmetic). Upsampling
 * and colour conversion are as for whole pixels, with the small sizes. The result is neither that
 * of libjpeg-turbo's scale_num nor the average of the pixels. From that average 200 ImageNet
 * photographs differ by 36.0 dB (PSNR) at a half, 38.3 dB at a quarter and 46.9 dB at an eighth
 * (test_pli_jpeg_small measures it). The small image has psti_pli_jpeg_scaled() pixels in each
 * direction. `region` (NULL: the whole image) and `pixels` count in small pixels. All else is as in
 * psti_pli_decode_bands, or, if `band` is NULL, as in pst_pli_decode. A PLI of pixels gives
 * PST_ERROR_ARGUMENT. */
static inline uint32_t psti_pli_jpeg_scaled(uint32_t n, uint32_t scale_log2)
{
    return (n + (1u << scale_log2) - 1) >> scale_log2;
}
enum pst_status psti_pli_jpeg_decode_scaled(const struct psti_pli_header *header, const void *bytes,
                                            size_t nbytes, uint32_t scale_log2,
                                            const struct pst_pli_region *region,
                                            const struct pst_pixels *pixels, void *scratch,
                                            size_t scratch_nbytes, psti_pli_band band,
                                            void *band_ctx, struct pst_error *err);

/* JPEGs kept as PLI: the samples, blocks and units of a component that a region needs, for callers
 * that decode them elsewhere. Pure functions.
 * ------------------------------------------------------------------------------------------- */

/* The part of one component that a region needs. */
struct psti_pli_jpeg_need {
    uint8_t across_log2, down_log2;        /* log2 of pixels per sample, sideways and downwards: 0,
                                            * 1 or 2 */
    bool sideways, upright;                /* true: samples are interpolated in that direction;
                                            * false: repeated */
    uint32_t x0, x1, y0, y1;               /* range of samples, with the margin for interpolation */
    uint32_t column0, column1, row0, row1; /* range of blocks that have these samples */
};
/* Finds the needs of all components. `block` is the number of samples of a block in each
 * direction. */
void psti_pli_jpeg_find_needs(const struct psti_jpeg_frame *frame, uint32_t block,
                              const struct pst_pli_region *region,
                              struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX]);
/* Returns the units that hold the blocks of `needs`. */
struct psti_pli_span psti_pli_jpeg_find_span(const struct psti_jpeg_frame *frame,
                                             uint32_t unit_log2,
                                             const struct psti_pli_jpeg_need *needs);

/* JPEGs kept as PLI: JPEG files to PLI and back (pli/jpegfile)
 * ------------------------------------------------------------------------------------------- */

/* The buffers of one worker, which are used again for every image. They begin as zeros and are
 * aligned to 64. */
struct psti_pli_keep {
    struct psti_buffer coefs, restoration, scratch, file, pixels, work;
};
void psti_pli_keep_free(struct psti_pli_keep *keep);

/* The JPEG decoder whose pixels the PLI's must equal, given by the caller. `hash` sets *checksum to
 * the XXH3 of the JPEG's pixels as they are stored (EXIF orientation not applied), u8 (H,W,C). */
struct psti_pli_reference {
    enum pst_status (*hash)(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                            struct pst_error *err);
    void *ctx;
};
/* Does as pst_pli_from_jpeg, with the caller's reference decoder. */
enum pst_status psti_pli_from_jpeg(const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);
/* Does as pst_pli_from_jpeg, with options that have been checked and with buffers of the caller.
 * `jpeg` is read several times and must not change. */
enum pst_status psti_pli_keep_jpeg(struct psti_pli_keep *keep,
                                   const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);
/* Makes a PLI of a JPEG whose pixels alone are wanted: for caches, whose items nobody gives back.
 * It has no restoration, and its header no checksum of the pixels (0); units have theirs. Takes no
 * more memory than psti_pli_keep_jpeg.
 *
 * What is checked: the PLI has the frame, and all of the coefficients, that the reader has found.
 * The caller compares pixels with libjpeg-turbo's. *is_exact: some rows are enough, for what a
 * decoder takes from the headers, such as the colour space. For then the JPEG is one regular
 * sequential scan, of which no decoder has anything to guess, no chroma is subsampled, and its
 * coefficients are so small that the kernels of libjpeg-turbo, and PLI's, agree on the samples.
 * Else all pixels are compared.
 * saturates: libjpeg-turbo's kernels do so with large samples, which allows larger coefficients. */
enum pst_status psti_pli_keep_pixels(struct psti_pli_keep *keep, const void *jpeg,
                                     size_t jpeg_nbytes, bool saturates, void *pli, size_t capacity,
                                     size_t *nbytes, bool *is_exact, struct pst_error *err);
/* Sets *most to an upper bound of the bytes that psti_pli_keep_jpeg, with empty buffers, has
 * allocated at any time for this JPEG, besides what the reference takes. Reads the markers only.
 * Fails if they show that the JPEG cannot be kept. */
enum pst_status psti_pli_keep_nbytes(const void *jpeg, size_t nbytes, uint64_t *most,
                                     struct pst_error *err);
/* Does as pst_pli_to_jpeg, with the buffers of `keep`. */
enum pst_status psti_pli_keep_restore(struct psti_pli_keep *keep, const void *pli,
                                      size_t pli_nbytes, void *jpeg, size_t capacity,
                                      size_t *nbytes, struct pst_error *err);
/* Returns true if psti_pli_keep_jpeg's failure with this status means that the JPEG should stay as
 * it is. */
bool psti_pli_keep_stays(enum pst_status status);

#endif
