/* pli.h - PLI, the parallel lossless image: pixels <-> bytes in memory.
 *
 * A PLI image is cut into units (64x64 pixels; larger for label maps and screenshots), each of
 * which decodes alone, so that a region decodes only the units it touches. The bytes are described
 * in docs/format-pli.md. Every function here is thread-safe; decoding allocates nothing. */
#ifndef PENSTOCK_PLI_H
#define PENSTOCK_PLI_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Pixels in the caller's memory. Sample (y, x, c) lies at data + y * row_nbytes + x * pixel_nbytes
 * + c * channel_nbytes, u8 or u16 (native, aligned to 2). (H,W,C): pixel_nbytes = channels *
 * bits / 8, channel_nbytes = bits / 8. (C,H,W): pixel_nbytes = bits / 8, channel_nbytes = height *
 * row_nbytes. */
struct pst_pixels {
    /* Read only by pst_pli_encode. */
    void *data;
    uint32_t height, width;
    /* 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA; or any planes that belong together. */
    uint8_t channels;
    uint8_t bits; /* 8 or 16 */
    int64_t row_nbytes, pixel_nbytes, channel_nbytes;
};

/* Families of encoding methods, by their main goal. */
enum pst_pli_tier {
    PST_PLI_TIER_DEFAULT = 0, /* Tier small. */
    /* Bit packing: fastest to decode, about the size of PNG. */
    PST_PLI_TIER_FAST = 1,
    /* Entropy coding, about the size of WebP lossless. */
    PST_PLI_TIER_SMALL = 2,
    /* Entropy coding with a dictionary of filters: smallest. */
    PST_PLI_TIER_DENSE = 3
};

/* Options of encoding. Zero-initialise, then set `struct_size`. The bytes depend on pixels and
 * options only, never on `run`. */
struct pst_pli_encode_options {
    size_t struct_size;
    enum pst_pli_tier tier;
    /* 1..5; 0 = 3. More is smaller and slower to encode, not to decode. */
    uint32_t effort;
    /* 0: lossless. Else the largest difference of a sample, at most 127. */
    uint32_t max_error;
    /* Leave out the checksums of units (4 bytes each). From damaged bytes pst_pli_decode of a
     * region may then give wrong pixels without an error. */
    bool no_checksum;
    /* Must run job(arg, i) for each i < n_jobs, in any order, on any threads, and return when all
     * are done. NULL: the calling thread runs all jobs. */
    void (*run)(void *run_ctx, void (*job)(void *arg, size_t i), void *arg, size_t n_jobs);
    void *run_ctx;
};

/* The content of a PLI (format-pli.md 1). */
enum pst_pli_content {
    PST_PLI_CONTENT_PIXELS = 1,
    /* Quantised coefficients of a JPEG. */
    PST_PLI_CONTENT_JPEG = 2
};

/* Facts from the head of a PLI. */
struct pst_pli_info {
    enum pst_pli_content content;
    uint32_t height, width; /* pixels, 1..65535 */
    uint8_t channels, bits;
    uint32_t version;
    /* Edge of a unit, in pixels: 64, 128, 256 or 512. */
    uint32_t unit_edge;
    uint32_t unit_rows, unit_columns;
    /* The tier for which it was encoded. */
    enum pst_pli_tier tier;
    uint32_t max_error;
    bool has_checksums; /* Units have checksums. */
    /* XXH3-64 of the decoded pixels, (H,W,C), no padding. */
    uint64_t pixel_checksum;
    /* Bytes of header, model and index; the units follow. */
    uint64_t head_nbytes;
    /* Bytes of the whole PLI; 0 if the index was not given. */
    uint64_t nbytes;
    /* Number of units by mode: raw, constant, packed, wave, lz, coefficients; zeros if the units
     * were not given. */
    uint64_t n_units[8];
    /* For content JPEG; zeros if the head was not given. */
    /* 16 h + v of each component: 0x22 0x11 0x11 is 4:2:0. */
    uint8_t samplings[4];
    /* EXIF orientation, 1..8. Pixels are as stored. */
    uint8_t orientation;
    uint32_t jpeg_nbytes; /* Bytes of the JPEG file. */
    /* Part of nbytes: the restoration, which is needed besides the coefficients to make the JPEG
     * file again. 0: the file cannot be made again. */
    uint32_t restoration_nbytes;
    /* For content pixels: the effort of encoding, 1..5. */
    uint32_t effort;
};

/* Reads the head of a PLI.
 *
 * bytes: the first bytes of the PLI, or all of it.
 * nbytes: how many. 40 are enough for all but nbytes, n_units and what is said of a JPEG. With
 *     head_nbytes of them those are filled in too but for n_units; with all of them n_units as
 *     well.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the head is damaged, or fewer than
 *     40 bytes.
 * PST_ERROR_VERSION: a newer version of the format.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_info(const void *bytes, size_t nbytes,
                                             struct pst_pli_info *info, size_t info_nbytes,
                                             struct pst_error *err);

/* Bytes that are enough for the PLI of any image of that size.
 *
 * height, width: pixels, 1 to 65535.
 * channels: 1 to 4.
 * bits: 8 or 16.
 *
 * Returns bytes; 0 if the sizes are not allowed. Any thread. */
size_t pst_pli_encode_bound(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits);

/* Encodes pixels. The bytes depend on pixels and options only.
 *
 * pixels: read during the call only.
 * options: NULL for the defaults.
 * bytes: receives the PLI.
 * capacity: room at bytes, at least pst_pli_encode_bound().
 * nbytes: receives the size of the PLI after success.
 *
 * PST_ERROR_ARGUMENT: the room is too small, or pixels or options are not possible.
 * PST_ERROR_VERSION: an option is set that this library does not know.
 * PST_ERROR_MEMORY: there is no memory to work in.
 *
 * Any thread. options.run may use others. */
PST_WARN_UNUSED enum pst_status pst_pli_encode(const struct pst_pixels *pixels,
                                               const struct pst_pli_encode_options *options,
                                               void *bytes, size_t capacity, size_t *nbytes,
                                               struct pst_error *err);

/* A rectangle of an image. */
struct pst_pli_region {
    /* Pixels; not empty, within the image. */
    uint32_t y, x, height, width;
};

/* Bytes of scratch that pst_pli_decode needs: at most 3 MiB. For content JPEG at most 3 MiB plus
 * channels * (unit_edge + 2) * (width + 256) bytes.
 *
 * info: as pst_pli_info gave it.
 * info_nbytes: sizeof *info.
 *
 * Returns 0 if info_nbytes is no size of a struct. Any thread. */
size_t pst_pli_scratch_nbytes(const struct pst_pli_info *info, size_t info_nbytes);

/* Decodes a region. Reads the head and the units that the region touches, nothing else of the PLI:
 * the rest may be garbage, but must be mapped. If another thread or process writes to it
 * meanwhile, pixels may be wrong, but no memory beyond bytes, pixels and scratch is touched.
 *
 * bytes: the PLI.
 * nbytes: size of the whole PLI; more is PST_ERROR_CORRUPT.
 * region: NULL for the whole image.
 * channel: -1 for all channels, pixels->channels is then the image's; else the number of one, and
 *     pixels->channels is 1.
 * pixels: where to write. Height and width are the region's, bits are the image's. Pixels may have
 *     been written when an error is returned.
 * scratch: aligned to 64; it belongs to the caller again on return.
 * scratch_nbytes: at least pst_pli_scratch_nbytes().
 *
 * PST_ERROR_ARGUMENT: region, pixels or scratch do not fit the image.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: damaged; the error says which unit, at which offset.
 * PST_ERROR_CHECKSUM: of a unit; or of the pixels, which are compared where units have no
 *     checksums and all channels of the whole image are decoded.
 * PST_ERROR_VERSION: a newer version of the format.
 *
 * Allocates nothing. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_decode(const void *bytes, size_t nbytes,
                                               const struct pst_pli_region *region, int channel,
                                               const struct pst_pixels *pixels, void *scratch,
                                               size_t scratch_nbytes, struct pst_error *err);

/* Compares decoded pixels with the checksum in the head, for certainty beyond the checksums of
 * units. Reads 40 bytes of the PLI.
 *
 * bytes, nbytes: the PLI, or its first 40 bytes.
 * pixels: all of the image's, in any layout.
 *
 * PST_ERROR_CHECKSUM: they are others.
 * PST_ERROR_ARGUMENT: height, width, channels or bits are not the image's.
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

/* Says which bytes pst_pli_decode reads for a region besides the head: runs of adjacent units in
 * ascending order.
 *
 * bytes: the head, info.head_nbytes of it or more.
 * nbytes: how many there are.
 * region: NULL for the whole image.
 * ranges: receives at most capacity of them. May be NULL where capacity is 0.
 * capacity: number of ranges there is room for.
 * n: receives how many there are, which may be more than capacity.
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
 * Content 2 of a PLI is the quantised coefficients of a JPEG: it is smaller than the JPEG, decodes
 * to exactly the pixels of libjpeg-turbo's default decoder, and gives the file back byte for byte.
 * The EXIF orientation is recorded, and applied as of a JPEG by <penstock/image.h> and the loader;
 * pst_pli_decode gives the pixels as they are stored. These functions allocate their work. */

/* Zero-initialise, then set `struct_size`. */
struct pst_pli_from_jpeg_options {
    size_t struct_size;
    /* 64, 128 or 256 pixels; 0: chosen by the bit rate. */
    uint32_t unit_edge;
    /* Leave out the checksums of units (4 bytes each). From damaged bytes pst_pli_decode of a
     * region may then give wrong pixels without an error. */
    bool no_checksum;
};

/* Bytes that are enough for the PLI of nearly every JPEG of that length. Most PLIs are smaller than
 * their JPEG.
 *
 * jpeg_nbytes: size of the JPEG file.
 *
 * Returns bytes. Any thread. */
size_t pst_pli_from_jpeg_bound(size_t jpeg_nbytes);

/* Makes the PLI of a whole JPEG file. The same JPEG and options give the same bytes. Before it
 * returns PST_OK, the pixels of the PLI have been compared with those that libjpeg-turbo makes of
 * the JPEG, and the file that comes back from it with the one given. Texts of errors begin "cannot
 * be kept as PLI:".
 *
 * jpeg, jpeg_nbytes: the file.
 * options: NULL for the defaults.
 * pli: receives the PLI.
 * capacity: room at pli. A caller who wants no PLI larger than the JPEG gives just jpeg_nbytes.
 * nbytes: receives the size of the PLI after success.
 *
 * PST_ERROR_UNSUPPORTED: a kind of JPEG that content 2 does not take, that would not come back
 *     byte for byte, or on whose pixels libjpeg-turbo's own kernels do not agree.
 * PST_ERROR_LIMIT: the PLI does not fit capacity.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the JPEG is damaged.
 * PST_ERROR_INTERNAL: a comparison failed, which is a fault of the library: keep the file.
 * PST_ERROR_ARGUMENT, PST_ERROR_VERSION, PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_from_jpeg(const void *jpeg, size_t jpeg_nbytes,
                                                  const struct pst_pli_from_jpeg_options *options,
                                                  void *pli, size_t capacity, size_t *nbytes,
                                                  struct pst_error *err);

/* Makes the JPEG file again from which a PLI of content 2 was made. Time and memory follow from
 * the sizes in the head, which is checked first: the file is at most 64 * restoration_nbytes + 4 *
 * the samples of the image + 65536 bytes long, and its scans go over all coefficients at most 100
 * times.
 *
 * pli, pli_nbytes: the whole PLI.
 * jpeg: receives the file.
 * capacity: room at jpeg, at least jpeg_nbytes of pst_pli_info.
 * nbytes: receives the size of the file after success.
 *
 * PST_ERROR_ARGUMENT: the room is too small, or it is a PLI of pixels.
 * PST_ERROR_UNSUPPORTED: it was made without what gives the file back.
 * PST_ERROR_CHECKSUM: the file does not come back as it was, so the PLI is damaged.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg(const void *pli, size_t pli_nbytes, void *jpeg,
                                                size_t capacity, size_t *nbytes,
                                                struct pst_error *err);

/* Makes the JPEG file again up to the data of its first scan, without decoding: EXIF, colour
 * profile, XMP, comments, resolution. Of the PLI only the head and the last restoration_nbytes
 * bytes are read; what lies between may be anything.
 *
 * pli, pli_nbytes: the whole PLI.
 * jpeg: receives that part of the file; what follows it there may be overwritten.
 * capacity: room for the whole file, jpeg_nbytes of pst_pli_info.
 * nbytes: receives how many bytes that part has after success.
 *
 * Statuses as of pst_pli_to_jpeg. Any thread. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg_head(const void *pli, size_t pli_nbytes, void *jpeg,
                                                     size_t capacity, size_t *nbytes,
                                                     struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
