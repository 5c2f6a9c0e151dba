/* pli.h - PLI, the parallel lossless image: encodes pixels to bytes in memory and decodes them.
 *
 * A PLI image is divided into units (64x64 pixels; larger for label maps and screenshots) that are
 * decoded independently, so decoding a region decodes only the units that it touches.
 * docs/format-pli.md describes the bytes. Every function here is thread-safe; decoding allocates
 * nothing. */
#ifndef PENSTOCK_PLI_H
#define PENSTOCK_PLI_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Pixels in the caller's memory. Sample (y, x, c) lies at data + y * row_nbytes + x * pixel_nbytes
 * + c * channel_nbytes and is u8 or u16 (native, aligned to 2). For (H,W,C): pixel_nbytes =
 * channels * bits / 8, channel_nbytes = bits / 8. For (C,H,W): pixel_nbytes = bits / 8,
 * channel_nbytes = height * row_nbytes. */
struct pst_pixels {
    /* Address of the first sample. pst_pli_encode only reads. */
    void *data;
    uint32_t height, width;
    /* Channels: 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA; or other planes that belong together. */
    uint8_t channels;
    uint8_t bits; /* 8 or 16 */
    int64_t row_nbytes, pixel_nbytes, channel_nbytes;
};

/* Tiers of encoding, which differ in what they optimise. */
enum pst_pli_tier {
    PST_PLI_TIER_DEFAULT = 0, /* Tier small. */
    /* Bit packing: the fastest to decode; files are about as large as PNG. */
    PST_PLI_TIER_FAST = 1,
    /* Entropy coding: about the size of lossless WebP. */
    PST_PLI_TIER_SMALL = 2,
    /* Entropy coding with a dictionary of filters: the smallest files. */
    PST_PLI_TIER_DENSE = 3
};

/* Options of encoding. Zero-initialise, then set `struct_size`. The encoded bytes depend only on
 * pixels and options, never on `run`. */
struct pst_pli_encode_options {
    size_t struct_size;
    enum pst_pli_tier tier;
    /* How long the encoder searches, 1..5; 0 = 3. Higher values give smaller files and slower
     * encoding; decoding speed is the same. */
    uint32_t effort;
    /* Largest difference of a decoded sample from the original, at most 127. 0: lossless. */
    uint32_t max_error;
    /* True: leaves out the checksums of units (4 bytes each). Then pst_pli_decode of a region may
     * give wrong pixels of a damaged PLI without an error. */
    bool no_checksum;
    /* Function that must run job(arg, i) for each i < n_jobs, in any order, on any threads, and
     * return when all are done. NULL: the calling thread runs all jobs. */
    void (*run)(void *run_ctx, void (*job)(void *arg, size_t i), void *arg, size_t n_jobs);
    void *run_ctx;
};

/* Contents of a PLI (format-pli.md, section 1). */
enum pst_pli_content {
    PST_PLI_CONTENT_PIXELS = 1,
    /* Quantised coefficients of a JPEG. */
    PST_PLI_CONTENT_JPEG = 2
};

/* The contents of a PLI's head. */
struct pst_pli_info {
    enum pst_pli_content content;
    uint32_t height, width; /* pixels, 1..65535 */
    uint8_t channels, bits;
    uint32_t version;
    /* Edge of a unit, in pixels: 64, 128, 256 or 512. */
    uint32_t unit_edge;
    uint32_t unit_rows, unit_columns;
    /* Tier with which the image was encoded. */
    enum pst_pli_tier tier;
    uint32_t max_error;
    bool has_checksums; /* Units have checksums. */
    /* XXH3-64 of the decoded pixels, (H,W,C) without padding. */
    uint64_t pixel_checksum;
    /* Bytes of header, model and index together; the units follow them. */
    uint64_t head_nbytes;
    /* Bytes of the whole PLI; 0 if the given bytes did not include the index. */
    uint64_t nbytes;
    /* Number of units by mode: raw, constant, packed, wave, lz, coefficients. All 0 if the given
     * bytes did not include the units. */
    uint64_t n_units[8];
    /* The members below are for content JPEG, and 0 if the given bytes did not include the head. */
    /* Sampling factors, 16 h + v for each component: 0x22 0x11 0x11 is 4:2:0. */
    uint8_t samplings[4];
    /* EXIF orientation, 1..8, which is not applied to the pixels. */
    uint8_t orientation;
    uint32_t jpeg_nbytes; /* Bytes of the JPEG file. */
    /* Bytes of the restoration, a part of nbytes: the data that restores the JPEG file together
     * with the coefficients. 0: the file cannot be restored. */
    uint32_t restoration_nbytes;
    /* For content pixels: effort of the encoder, 1..5. */
    uint32_t effort;
};

/* Reads the head of a PLI.
 *
 * bytes: the first bytes of the PLI, or all of it.
 * nbytes: how many. 40 bytes are enough for all members except nbytes, n_units and those of a JPEG.
 *     head_nbytes bytes fill these too, except n_units. n_units needs the whole PLI.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the head is damaged, or fewer than 40
 *     bytes are given.
 * PST_ERROR_VERSION: the PLI has a newer version of the format.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_info(const void *bytes, size_t nbytes,
                                             struct pst_pli_info *info, size_t info_nbytes,
                                             struct pst_error *err);

/* Gives a buffer size in bytes that is enough for the PLI of any image of this size.
 *
 * height, width: pixels, 1 to 65535.
 * channels: 1 to 4.
 * bits: 8 or 16.
 *
 * Returns 0 if the sizes are not allowed. Any thread. */
size_t pst_pli_encode_bound(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits);

/* Encodes pixels. The encoded bytes depend only on pixels and options.
 *
 * pixels: read during the call only.
 * options: NULL for the defaults.
 * bytes: receives the PLI.
 * capacity: bytes that `bytes` has, at least pst_pli_encode_bound().
 * nbytes: receives the size of the PLI after success.
 *
 * PST_ERROR_ARGUMENT: capacity is too small, or pixels or options are invalid.
 * PST_ERROR_VERSION: an option is set that this version of the library does not have.
 * PST_ERROR_MEMORY: no working memory.
 *
 * Any thread. options.run may use further threads. */
PST_WARN_UNUSED enum pst_status pst_pli_encode(const struct pst_pixels *pixels,
                                               const struct pst_pli_encode_options *options,
                                               void *bytes, size_t capacity, size_t *nbytes,
                                               struct pst_error *err);

/* A rectangle of an image. */
struct pst_pli_region {
    /* In pixels; not empty, and within the image. */
    uint32_t y, x, height, width;
};

/* Bytes of scratch memory that pst_pli_decode needs: at most 3 MiB, and for content JPEG
 * additionally at most channels * (unit_edge + 2) * (width + 256) bytes.
 *
 * info: as pst_pli_info gave it.
 * info_nbytes: sizeof *info.
 *
 * Returns 0 if info_nbytes is no valid size of the struct. Any thread. */
size_t pst_pli_scratch_nbytes(const struct pst_pli_info *info, size_t info_nbytes);

/* Decodes a region. Reads only the head and the units that the region touches; the other bytes may
 * be garbage, but must be mapped. If another thread or process writes to the PLI meanwhile, pixels
 * may be wrong, but no memory outside of bytes, pixels and scratch is accessed.
 *
 * bytes: the PLI.
 * nbytes: exact size of the whole PLI; a larger number is PST_ERROR_CORRUPT.
 * region: NULL for the whole image.
 * channel: -1 for all channels, then pixels->channels is the image's; else the index of one
 *     channel, and pixels->channels is 1.
 * pixels: where to write, with the height and width of the region and the bits of the image. Some
 *     pixels may be overwritten even if an error is returned.
 * scratch: aligned to 64 bytes; the function uses it during the call only.
 * scratch_nbytes: at least pst_pli_scratch_nbytes().
 *
 * PST_ERROR_ARGUMENT: region, pixels or scratch do not fit the image.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the PLI is damaged; the text names unit and offset.
 * PST_ERROR_CHECKSUM: a unit's checksum differs; or that of the pixels, which is compared if units
 *     have no checksums and all channels of the whole image are decoded.
 * PST_ERROR_VERSION: the PLI has a newer version of the format.
 *
 * Allocates nothing. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_decode(const void *bytes, size_t nbytes,
                                               const struct pst_pli_region *region, int channel,
                                               const struct pst_pixels *pixels, void *scratch,
                                               size_t scratch_nbytes, struct pst_error *err);

/* Compares decoded pixels with the checksum in the head, which is stronger than the checksums of
 * units. Reads 40 bytes of the PLI.
 *
 * bytes, nbytes: the PLI, or its first 40 bytes.
 * pixels: all pixels of the image, in any layout.
 *
 * PST_ERROR_CHECKSUM: the pixels differ.
 * PST_ERROR_ARGUMENT: height, width, channels or bits differ from the image's.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the head is damaged.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_check_pixels(const void *bytes, size_t nbytes,
                                                     const struct pst_pixels *pixels,
                                                     struct pst_error *err);

/* A range of bytes of a PLI. */
struct pst_pli_range {
    uint64_t offset, nbytes;
};

/* Lists the bytes that pst_pli_decode reads for a region in addition to the head, as ranges of
 * adjacent units in ascending order.
 *
 * bytes: at least the first info.head_nbytes bytes of the PLI.
 * nbytes: how many there are.
 * region: NULL for the whole image.
 * ranges: receives at most capacity ranges. May be NULL if capacity is 0.
 * capacity: length of the array ranges.
 * n: receives the number of ranges, which may exceed capacity.
 *
 * PST_ERROR_ARGUMENT: the region is not within the image.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the head is damaged.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_ranges(const void *bytes, size_t nbytes,
                                               const struct pst_pli_region *region,
                                               struct pst_pli_range *ranges, size_t capacity,
                                               size_t *n, struct pst_error *err);

/* JPEG files kept as PLI
 * ------------------------------------------------------------------------------------------------
 *
 * A PLI of content 2 holds the quantised coefficients of a JPEG. It is smaller than the JPEG,
 * decodes to exactly the pixels of libjpeg-turbo's default decoder, and restores the file byte for
 * byte. It records the EXIF orientation, which <penstock/image.h> and the loader apply as for a
 * JPEG; pst_pli_decode gives the pixels as stored. These functions allocate working memory. */

/* Options of pst_pli_from_jpeg. Zero-initialise, then set `struct_size`. */
struct pst_pli_from_jpeg_options {
    size_t struct_size;
    /* Edge of a unit in pixels: 64, 128 or 256; 0: chosen by the bit rate. */
    uint32_t unit_edge;
    /* True: leaves out the checksums of units (4 bytes each). Then pst_pli_decode of a region may
     * give wrong pixels of a damaged PLI without an error. */
    bool no_checksum;
};

/* Gives a buffer size in bytes that is enough for the PLI of nearly every JPEG of this length. Most
 * PLIs are smaller than their JPEG.
 *
 * jpeg_nbytes: size of the JPEG file.
 *
 * Returns bytes. Any thread. */
size_t pst_pli_from_jpeg_bound(size_t jpeg_nbytes);

/* Makes the PLI of a whole JPEG file. The same JPEG and options give the same bytes. Before it
 * returns PST_OK, it compares the pixels of the PLI with those of libjpeg-turbo, and the restored
 * file with the given file. Error texts begin with "cannot be kept as PLI:".
 *
 * jpeg, jpeg_nbytes: the file.
 * options: NULL for the defaults.
 * pli: receives the PLI.
 * capacity: bytes that pli has. With capacity jpeg_nbytes, a PLI larger than the JPEG is refused.
 * nbytes: receives the size of the PLI after success.
 *
 * PST_ERROR_UNSUPPORTED: content 2 does not support this kind of JPEG, the file would not be
 *     restored byte for byte, or libjpeg-turbo's own kernels disagree on its pixels.
 * PST_ERROR_LIMIT: the PLI does not fit capacity.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the JPEG is damaged.
 * PST_ERROR_INTERNAL: a comparison failed because of a fault of the library: keep the file.
 * PST_ERROR_ARGUMENT, PST_ERROR_VERSION, PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_from_jpeg(const void *jpeg, size_t jpeg_nbytes,
                                                  const struct pst_pli_from_jpeg_options *options,
                                                  void *pli, size_t capacity, size_t *nbytes,
                                                  struct pst_error *err);

/* Restores the JPEG file from which a PLI of content 2 was made. Sizes in the head, which is
 * checked first, limit time and memory: the file is at most 64 * restoration_nbytes + 4 * the
 * samples of the image + 65536 bytes long, and its scans pass over all coefficients at most 100
 * times.
 *
 * pli, pli_nbytes: the whole PLI.
 * jpeg: receives the file.
 * capacity: bytes that jpeg has, at least jpeg_nbytes of pst_pli_info.
 * nbytes: receives the size of the file after success.
 *
 * PST_ERROR_ARGUMENT: capacity is too small, or it is a PLI of pixels.
 * PST_ERROR_UNSUPPORTED: the PLI was made without the restoration.
 * PST_ERROR_CHECKSUM: the restored file differs from the original, so the PLI is damaged.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg(const void *pli, size_t pli_nbytes, void *jpeg,
                                                size_t capacity, size_t *nbytes,
                                                struct pst_error *err);

/* Restores the beginning of the JPEG file, up to the data of its first scan, without decoding:
 * EXIF, colour profile, XMP, comments, resolution. It reads only the head and the last
 * restoration_nbytes bytes of the PLI; the bytes between them may be anything.
 *
 * pli, pli_nbytes: the whole PLI.
 * jpeg: receives the beginning of the file; the bytes after it may be overwritten.
 * capacity: bytes that jpeg has, at least jpeg_nbytes of pst_pli_info, the size of the whole file.
 * nbytes: receives the length of the beginning after success.
 *
 * Statuses are those of pst_pli_to_jpeg. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg_head(const void *pli, size_t pli_nbytes, void *jpeg,
                                                     size_t capacity, size_t *nbytes,
                                                     struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
