/* pli.h - the door of the PLI codec: the functions that other rooms call.
 *
 * pli/ includes only base/ and itself, because it should be usable as a separate library.
 * Besides this header, the headers of pli/format/ are open to all rooms: they state the byte layout
 * (docs/format-pli.md), which the host code of the GPU kernels reads, too. The functions pst_pli_*
 * of <penstock/pli.h> are defined here. psti_pli_from_jpeg does the work of pst_pli_from_jpeg; its
 * caller provides the JPEG decoder. */
#ifndef PST_PLI_PLI_H
#define PST_PLI_PLI_H

#include "base/buffer.h"
#include "pli/format/pli_head.h"
#include "pli/format/pli_jpeg_format.h"

/* Decoding (pli/decode)
 * ------------------------------------------------------------------------------------------- */

/* Decodes like pst_pli_decode at one level (PSTI_CPU_*), without comparing the pixel checksum.
 * Tests use it to compare the levels with plain C. */
enum pst_status psti_pli_decode_on(uint32_t cpu, const void *bytes, size_t nbytes,
                                   const struct pst_pli_region *region, int channel,
                                   const struct pst_pixels *pixels, void *scratch,
                                   size_t scratch_nbytes, struct pst_error *err);

/* Decodes all channels as pst_pli_decode does, one band of rows at a time. `header` is the result
 * of psti_pli_parse_header for these bytes, to parse them only once; if it is NULL, the header is
 * parsed here. The head's checksum is compared in either case, and only the parsed header is used,
 * so bytes that have changed since are an error. `pixels` holds one band: its height is the smaller
 * of the region's height and psti_pli_band_rows(). `band` is called each time that the first
 * `n_rows` rows of `pixels` hold rows y, y + 1, ... of the region. If it returns anything but
 * PST_OK, the decode ends with that status. `scratch` has psti_pli_region_scratch_nbytes(). */
enum {
    PSTI_PLI_JPEG_BAND_ROWS = 16
}; /* content 2 has bands of so few rows because they stay in
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

/* These functions work like pst_pli_info and pst_pli_ranges, for callers that have already parsed
 * the header of these bytes. The first compares the head's checksum if the head is complete. The
 * second trusts the head. */
enum pst_status psti_pli_describe(const struct psti_pli_header *header, const void *bytes,
                                  size_t nbytes, struct pst_pli_info *info, struct pst_error *err);
enum pst_status psti_pli_find_ranges(const struct psti_pli_header *header, const void *bytes,
                                     const struct pst_pli_region *region,
                                     struct pst_pli_range *ranges, size_t capacity, size_t *n,
                                     struct pst_error *err);

/* Returns the size of the scratch with which regions of that width are decoded fastest.
 * psti_pli_region_scratch_least returns the smallest size with which they are decoded at all. */
size_t psti_pli_region_scratch_nbytes(const struct psti_pli_header *header, uint32_t width);
size_t psti_pli_region_scratch_least(const struct psti_pli_header *header, uint32_t width);

/* Returns the number of units that a decode of the region at that scale decodes. Scale 0 means
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

/* Decodes pixels and coefficients together, decoding each unit once, for callers that prove both.
 * The pixels are those of psti_pli_decode_bands for the whole image, the coefficients those of
 * psti_pli_jpeg_coefs. */
enum pst_status psti_pli_jpeg_decode_both(const void *bytes, size_t nbytes,
                                          const struct psti_jpeg_frame *frame,
                                          int16_t *const coefs[], const struct pst_pixels *pixels,
                                          void *scratch, size_t scratch_nbytes, psti_pli_band band,
                                          void *band_ctx, struct pst_error *err);

/* A PLI of a JPEG can be decoded at 1 / 2^scale_log2 of its size, for callers that shrink it
 * further and accept an approximation. scale_log2 is 1..3. psti_pli_jpeg_scaled returns the size of
 * a small image whose full height or width is n. psti_pli_jpeg_decode_scaled decodes the small
 * image.
 *
 * Only the lowest 4x4, 2x2 or 1x1 frequencies of each block are decoded (pli_jpeg_small.c has the
 * arithmetic). The result differs from that of libjpeg-turbo's scale_num, and slightly from the
 * average of the full pixels: for 200 ImageNet photographs the PSNR is 36.0 dB at a half, 38.3 dB
 * at a quarter and 46.9 dB at an eighth (test_pli_jpeg_small). `region` (NULL: the whole image) and
 * `pixels` count in small pixels. All else is as in psti_pli_decode_bands, or, if `band` is NULL,
 * as in pst_pli_decode. A PLI of pixels gives PST_ERROR_ARGUMENT. */
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
/* Finds the needs of all components. `block` is the width and height of a block in samples. */
void psti_pli_jpeg_find_needs(const struct psti_jpeg_frame *frame, uint32_t block,
                              const struct pst_pli_region *region,
                              struct psti_pli_jpeg_need needs[PSTI_JPEG_COMPONENTS_MAX]);
/* Returns the units that hold the blocks of `needs`. */
struct psti_pli_span psti_pli_jpeg_find_span(const struct psti_jpeg_frame *frame,
                                             uint32_t unit_log2,
                                             const struct psti_pli_jpeg_need *needs);

/* JPEG files to pixels, without a PLI (pli/jpegpixels/pli_jpeg_pixels.c)
 * ------------------------------------------------------------------------------------------- */

/* The tables of the codes of the last image, which are kept for the next one with the same codes.
 * They must be zeros at first. */
struct psti_pli_jpeg_codes;
size_t psti_pli_jpeg_codes_nbytes(void);

/* A Huffman table as a DHT segment defines it. Symbols that it does not have are 0. */
struct psti_pli_jpeg_code {
    uint8_t counts[16], symbols[256];
};
enum { PSTI_JPEG_N_CODES = 2 }; /* as baseline files have; others are not decoded here */

/* A scan of a sequential JPEG file that has all components in their order. */
struct psti_pli_jpeg_scan {
    const struct psti_jpeg_frame *frame; /* measured, with the quantisation tables */
    struct psti_pli_jpeg_code code[2][PSTI_JPEG_N_CODES]; /* of DC, and of AC */
    /* For each component, which codes it has. */
    uint8_t dc[PSTI_JPEG_COMPONENTS_MAX], ac[PSTI_JPEG_COMPONENTS_MAX];
    uint32_t restart_interval; /* in MCUs; 0: none */
    const uint8_t *bytes;      /* the scan's data, with all that follows in the file */
    size_t nbytes;
    uint32_t sum_max; /* largest sum of a block's dequantised magnitudes, psti_pli_jpeg_sum_max */
    uint32_t cpu;     /* PSTI_CPU_*: the level of the kernels */
    struct psti_pli_jpeg_codes *codes;
};

/* Returns the largest sum of the magnitudes of a block's dequantised coefficients with which the
 * kernels of libjpeg-turbo and of PLI agree on its samples. `saturates`: libjpeg-turbo's kernels
 * saturate large samples, which allows larger sums. */
uint32_t psti_pli_jpeg_sum_max(bool saturates);

/* Decodes a region to bands of rows, interleaved, with the frame's components as channels. `pixels`
 * holds one band, and `band` is called as in psti_pli_decode_bands. If it returns anything but
 * PST_OK, the decode ends with that status. Otherwise the result is PST_OK, and *n_rows is the
 * number of rows that were made, all of them exactly libjpeg-turbo's. It is less than the region's
 * height if the data are not regular, which may mean that they are corrupt, or if a block is beyond
 * sum_max: the caller then decodes the other rows otherwise. `scratch` has
 * psti_pli_jpeg_scan_scratch_nbytes() and is aligned to 64. */
size_t psti_pli_jpeg_scan_scratch_nbytes(const struct psti_jpeg_frame *frame, uint32_t width);
enum pst_status psti_pli_jpeg_decode_scan(const struct psti_pli_jpeg_scan *scan,
                                          const struct pst_pli_region *region,
                                          const struct pst_pixels *pixels, void *scratch,
                                          psti_pli_band band, void *ctx, uint32_t *n_rows);

/* JPEGs kept as PLI: JPEG files to PLI and back (pli/jpegfile)
 * ------------------------------------------------------------------------------------------- */

/* The buffers of one worker, which are reused for every image. They must be zeros at first, aligned
 * to 64. */
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
/* Works like pst_pli_from_jpeg, with the caller's reference decoder. */
enum pst_status psti_pli_from_jpeg(const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);
/* Works like pst_pli_from_jpeg, with checked options and the caller's buffers. `jpeg` is read
 * several times and must not change. */
enum pst_status psti_pli_keep_jpeg(struct psti_pli_keep *keep,
                                   const struct psti_pli_reference *reference, const void *jpeg,
                                   size_t jpeg_nbytes,
                                   const struct pst_pli_from_jpeg_options *options, void *pli,
                                   size_t capacity, size_t *nbytes, struct pst_error *err);
/* Makes a PLI of a JPEG of which only the pixels are needed, as in caches, which never restore
 * files. It has no restoration, and its header no checksum of the pixels (0); units have theirs.
 * Takes no more memory than psti_pli_keep_jpeg.
 *
 * The check is that the PLI has the frame, and all of the coefficients, that the reader has found.
 * The caller compares pixels with libjpeg-turbo's. *is_exact: the caller need compare only some
 * rows, to check what a decoder takes from the headers, such as the colour space. It is set if the
 * JPEG is one regular sequential scan, so no decoder has to guess, if no chroma is subsampled, and
 * if all coefficients are so small that the kernels of libjpeg-turbo and of PLI agree on the
 * samples. Otherwise all pixels must be compared.
 * saturates: libjpeg-turbo's kernels saturate large samples, which allows larger coefficients. */
enum pst_status psti_pli_keep_pixels(struct psti_pli_keep *keep, const void *jpeg,
                                     size_t jpeg_nbytes, bool saturates, void *pli, size_t capacity,
                                     size_t *nbytes, bool *is_exact, struct pst_error *err);
/* Sets *most to an upper bound of the bytes that psti_pli_keep_jpeg, with empty buffers, has
 * allocated at any time for this JPEG, besides what the reference takes. Reads the markers only.
 * Fails if they show that the JPEG cannot be kept. */
enum pst_status psti_pli_keep_nbytes(const void *jpeg, size_t nbytes, uint64_t *most,
                                     struct pst_error *err);
/* Works like pst_pli_to_jpeg, with the buffers of `keep`. */
enum pst_status psti_pli_keep_restore(struct psti_pli_keep *keep, const void *pli,
                                      size_t pli_nbytes, void *jpeg, size_t capacity,
                                      size_t *nbytes, struct pst_error *err);
/* Returns whether a failure of psti_pli_keep_jpeg with this status means that the JPEG should be
 * kept as it is. */
bool psti_pli_keep_stays(enum pst_status status);

#endif
