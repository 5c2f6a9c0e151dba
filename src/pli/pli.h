/* pli.h - the door of the PLI codec: what other rooms call of it.
 *
 * pli/ includes base/ and itself, so that it can be lifted out as a library of its own. Beside this
 * header, the headers of pli/format/ are open to all rooms: they state the byte layout
 * (docs/format-pli.md), which host code of the GPU kernels reads too. pst_pli_* of
 * <penstock/pli.h> are defined here, but for pst_pli_from_jpeg, which needs a JPEG decoder. */
#ifndef PST_PLI_PLI_H
#define PST_PLI_PLI_H

#include "base/buffer.h"
#include "pli/format/pli_head.h"
#include "pli/format/pli_jpeg_format.h"

/* Decoding (pli/decode)
 * ------------------------------------------------------------------------------------------- */

/* pst_pli_decode on one level (PSTI_CPU_*), pixels unproven: tests hold levels to plain C. */
enum pst_status psti_pli_decode_on(uint32_t cpu, const void *bytes, size_t nbytes,
                                   const struct pst_pli_region *region, int channel,
                                   const struct pst_pixels *pixels, void *scratch,
                                   size_t scratch_nbytes, struct pst_error *err);

/* pst_pli_decode of all channels, a band of rows at a time. `header`: what psti_pli_parse_header
 * gave for these bytes, so that it is parsed once; NULL: it is parsed here. The head's checksum is
 * compared in either case, and only the parsed header is believed, so bytes that changed since are
 * an error. `pixels` has room for one, that is, its
 * height is that of the region or psti_pli_band_rows(), whichever is smaller. `band` is called when
 * the first `n_rows` rows of it are rows y, y + 1, ... of the region; anything but PST_OK ends the
 * decode with that status. `scratch` of psti_pli_region_scratch_nbytes(). */
enum { PSTI_PLI_JPEG_BAND_ROWS = 16 }; /* content 2: few enough to stay in the first cache */
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

/* pst_pli_info and pst_pli_ranges for who has parsed the header of these bytes already. The first
 * compares the head's checksum, as soon as the head is whole; the second believes it. */
enum pst_status psti_pli_describe(const struct psti_pli_header *header, const void *bytes,
                                  size_t nbytes, struct pst_pli_info *info, struct pst_error *err);
enum pst_status psti_pli_find_ranges(const struct psti_pli_header *header, const void *bytes,
                                     const struct pst_pli_region *region,
                                     struct pst_pli_range *ranges, size_t capacity, size_t *n,
                                     struct pst_error *err);

/* What pst_pli_decode needs to work in for regions of that width. */
size_t psti_pli_region_scratch_nbytes(const struct psti_pli_header *header, uint32_t width);

/* How many units a decode of the region decodes, at that scale (0: pst_pli_decode); the head is
 * known to be right. */
uint64_t psti_pli_count_units(const struct psti_pli_header *header, const void *bytes,
                              uint32_t scale_log2, const struct pst_pli_region *region);

/* Units in rows row0..row1 - 1, columns column0..column1 - 1. */
struct psti_pli_span {
    uint32_t row0, row1, column0, column1;
};

/* JPEGs kept as PLI (content 2): decoding (pli/decode/jpeg; docs/format-pli.md, sections 7 to 9)
 * ------------------------------------------------------------------------------------------- */

/* The frame of a PLI of content 2, from its head, which is checked. */
enum pst_status psti_pli_jpeg_frame(const void *bytes, size_t nbytes, struct psti_jpeg_frame *frame,
                                    struct pst_error *err);

/* All coefficients: `coefs[c]` has room for psti_pli_jpeg_n_coefs(frame, c) values, rows of blocks,
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
enum pst_status psti_pli_jpeg_decode_scaled(const struct psti_pli_header *header, const void *bytes,
                                            size_t nbytes, uint32_t scale_log2,
                                            const struct pst_pli_region *region,
                                            const struct pst_pixels *pixels, void *scratch,
                                            size_t scratch_nbytes, psti_pli_band band,
                                            void *band_ctx, struct pst_error *err);

/* JPEGs kept as PLI: which samples, blocks and units of a component a region takes. For callers
 * that decode them elsewhere. Pure.
 * ------------------------------------------------------------------------------------------- */

/* Of a component. */
struct psti_pli_jpeg_need {
    uint8_t across_log2, down_log2;        /* of pixels to a sample: 0, 1 or 2 */
    bool sideways, upright;                /* samples are interpolated, else repeated */
    uint32_t x0, x1, y0, y1;               /* samples, with the margin that interpolation needs */
    uint32_t column0, column1, row0, row1; /* blocks */
};
/* `block`: samples of one each way. */
void psti_pli_jpeg_find_needs(const struct psti_jpeg_frame *frame, uint32_t block,
                              const struct pst_pli_region *region,
                              struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX]);
/* The units that these blocks lie in. */
struct psti_pli_span psti_pli_jpeg_find_span(const struct psti_jpeg_frame *frame,
                                             uint32_t unit_log2,
                                             const struct psti_pli_jpeg_need *needs);

/* JPEGs kept as PLI: JPEG files to PLI and back (pli/jpegfile)
 * ------------------------------------------------------------------------------------------- */

/* Buffers of one worker, kept from image to image; zeros to begin with. Aligned to 64. */
struct psti_pli_keep {
    struct psti_buffer coefs, restoration, scratch, file, pixels, work;
};
void psti_pli_keep_free(struct psti_pli_keep *keep);

/* The JPEG decoder that the PLI has to agree with, given by the caller: sets *checksum to the XXH3
 * of the JPEG's pixels as they are stored (EXIF orientation not applied), u8 (H,W,C). */
struct psti_pli_reference {
    enum pst_status (*hash)(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                            struct pst_error *err);
    void *ctx;
};
/* As pst_pli_from_jpeg, with options that are checked and buffers that are there already. `jpeg` is
 * read several times and must not change. */
enum pst_status psti_pli_keep_jpeg(struct psti_pli_keep *keep,
                                   const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);
/* As pst_pli_to_jpeg. */
enum pst_status psti_pli_keep_restore(struct psti_pli_keep *keep, const void *pli,
                                      size_t pli_nbytes, void *jpeg, size_t capacity,
                                      size_t *nbytes, struct pst_error *err);
/* True if such a failure of psti_pli_keep_jpeg says that this JPEG had better stay as it is. */
bool psti_pli_keep_stays(enum pst_status status);

#endif
