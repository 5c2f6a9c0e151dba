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
    void *data; /* read only by pst_pli_encode */
    uint32_t height, width;
    uint8_t channels; /* 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA; or any planes that belong together */
    uint8_t bits;     /* 8 or 16 */
    int64_t row_nbytes, pixel_nbytes, channel_nbytes;
};

enum pst_pli_tier {
    PST_PLI_TIER_DEFAULT = 0, /* small */
    PST_PLI_TIER_FAST = 1,    /* bit packing: fastest to decode, about the size of PNG */
    PST_PLI_TIER_SMALL = 2,   /* entropy coding, about the size of WebP lossless */
    PST_PLI_TIER_DENSE = 3    /* entropy coding with a dictionary of filters: smallest */
};

/* How to encode. Zero-initialise, then set `struct_size`. The bytes depend on pixels and options
 * only, never on `run`. */
struct pst_pli_encode_options {
    size_t struct_size;
    enum pst_pli_tier tier;
    uint32_t effort;    /* 1..5; 0 = 3. More is smaller and slower to encode, not to decode */
    uint32_t max_error; /* 0 lossless; else no sample differs by more than this; at most 127 */
    bool no_checksum;   /* leave out the checksums of units (4 bytes each): of damaged bytes
                           pst_pli_decode of a region may then give other pixels, unnoticed */
    /* Runs job(arg, i) for each i < n_jobs, in any order, on as many threads as it likes, and
     * returns when all are done. NULL: on the calling thread. */
    void (*run)(void *run_ctx, void (*job)(void *arg, size_t i), void *arg, size_t n_jobs);
    void *run_ctx;
};

enum pst_pli_content {
    PST_PLI_CONTENT_PIXELS = 1,
    PST_PLI_CONTENT_JPEG = 2 /* quantised coefficients of a JPEG */
};

/* What the head of a PLI says. */
struct pst_pli_info {
    enum pst_pli_content content;
    uint32_t height, width; /* pixels, 1..65535 */
    uint8_t channels, bits;
    uint32_t version;
    uint32_t unit_edge; /* pixels: 64, 128, 256 or 512 */
    uint32_t unit_rows, unit_columns;
    enum pst_pli_tier tier; /* as asked for when it was encoded */
    uint32_t max_error;
    bool has_checksums;      /* of units */
    uint64_t pixel_checksum; /* XXH3-64 of the decoded pixels, (H,W,C), no padding */
    uint64_t head_nbytes;    /* header, model and index: the units follow */
    uint64_t nbytes;         /* of the whole; 0 if the index was not given */
    uint64_t n_units[8]; /* units by mode: raw, constant, packed, wave, lz, coefficients; zeros if
                            the units were not given */
    /* Of content JPEG; zeros if the head was not given. */
    uint8_t samplings[4];        /* 16 h + v of each component: 0x22 0x11 0x11 is 4:2:0 */
    uint8_t orientation;         /* EXIF's, 1..8; pixels are as stored */
    uint32_t jpeg_nbytes;        /* of the JPEG file */
    uint32_t restoration_nbytes; /* part of nbytes: what the file takes besides coefficients to be
                                    had back; 0: it cannot */
    uint32_t effort;             /* of content pixels, as asked for when it was encoded: 1..5 */
};

/* Reads the head. 40 bytes are enough for all but nbytes, n_units and what is said of a JPEG; with
 * head_nbytes of them those but n_units are filled in, with all of them n_units, too. */
PST_WARN_UNUSED enum pst_status pst_pli_info(const void *bytes, size_t nbytes,
                                             struct pst_pli_info *info, size_t info_nbytes,
                                             struct pst_error *err);

/* Enough room for any image of that size; 0 if the sizes are not allowed. */
size_t pst_pli_encode_bound(uint32_t height, uint32_t width, uint8_t channels, uint8_t bits);

/* Encodes into `bytes`; `*nbytes` is what was written. PST_ERROR_ARGUMENT if `capacity` is below
 * pst_pli_encode_bound(). `options` may be NULL. */
PST_WARN_UNUSED enum pst_status pst_pli_encode(const struct pst_pixels *pixels,
                                               const struct pst_pli_encode_options *options,
                                               void *bytes, size_t capacity, size_t *nbytes,
                                               struct pst_error *err);

struct pst_pli_region {
    uint32_t y, x, height, width; /* pixels; not empty, within the image */
};

/* What pst_pli_decode needs to work in, in bytes: at most 3 MiB; of content JPEG at most 3 MiB and
 * the samples of a row of units, channels * (unit_edge + 2) * (width + 256) bytes. */
size_t pst_pli_scratch_nbytes(const struct pst_pli_info *info, size_t info_nbytes);

/* Decodes `region` (NULL: the whole image) into `pixels`, whose height and width are the region's
 * and whose bits are the image's. `nbytes` is that of the whole PLI; more is PST_ERROR_CORRUPT.
 * `channel` -1: all channels, pixels->channels is the image's; else that one alone,
 * pixels->channels is 1. `scratch` is aligned to 64 and belongs to the caller again on return.
 * Reads the head and the units that the region touches, nothing else of `bytes`: the rest may be
 * garbage, but must be mapped. The error says which unit, at which offset. Of a PLI whose units
 * have no checksums, all channels of the whole image are compared with the checksum of the pixels,
 * too: PST_ERROR_CHECKSUM. Pixels may have been written when an error is returned. If another
 * thread or process writes to `bytes` meanwhile, pixels may be wrong, but no memory beyond `bytes`,
 * `pixels` and `scratch` is touched. */
PST_WARN_UNUSED enum pst_status pst_pli_decode(const void *bytes, size_t nbytes,
                                               const struct pst_pli_region *region, int channel,
                                               const struct pst_pixels *pixels, void *scratch,
                                               size_t scratch_nbytes, struct pst_error *err);

/* Compares `pixels`, all of an image's and in any layout, with the checksum in the head:
 * PST_ERROR_CHECKSUM if they are others. For who wants certainty beyond the checksums of units.
 * Reads 40 bytes of `bytes`. PST_ERROR_ARGUMENT: height, width, channels or bits are not the
 * image's. */
PST_WARN_UNUSED enum pst_status pst_pli_check_pixels(const void *bytes, size_t nbytes,
                                                     const struct pst_pixels *pixels,
                                                     struct pst_error *err);

/* The bytes that pst_pli_decode(region) reads besides the head: runs of adjacent units, in
 * ascending order. Writes at most `capacity` and sets `*n` to how many there are. `bytes` holds the
 * head (info.head_nbytes). */
struct pst_pli_range {
    uint64_t offset, nbytes;
};
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
    uint32_t unit_edge; /* 64, 128 or 256 pixels; 0: chosen by the bit rate */
    bool no_checksum;   /* leave out the checksums of units (4 bytes each): of damaged bytes
                           pst_pli_decode of a region may then give other pixels, unnoticed */
};

/* Room in which the PLI of nearly every JPEG of that length fits: most need less than the JPEG. */
size_t pst_pli_from_jpeg_bound(size_t jpeg_nbytes);

/* Writes the PLI of a whole JPEG file to `pli`; `*nbytes` is how long it is. `options` may be NULL.
 * The same JPEG and options give the same bytes. Before it returns PST_OK, the pixels of the PLI
 * have been compared with those that libjpeg-turbo makes of the JPEG, and the file that comes back
 * from it with the one given. PST_ERROR_UNSUPPORTED: a kind of JPEG that content 2 does not take,
 * that would not come back byte for byte, or on whose pixels libjpeg-turbo's own kernels do not
 * agree (the text says why). PST_ERROR_LIMIT: the PLI does not fit `capacity`; a caller who wants
 * none larger than the JPEG gives just that. PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the JPEG is
 * broken. PST_ERROR_INTERNAL: a comparison failed, which is a fault of the library: keep the file.
 * The texts of these begin "cannot be kept as PLI:". */
PST_WARN_UNUSED enum pst_status pst_pli_from_jpeg(const void *jpeg, size_t jpeg_nbytes,
                                                  const struct pst_pli_from_jpeg_options *options,
                                                  void *pli, size_t capacity, size_t *nbytes,
                                                  struct pst_error *err);

/* Writes the JPEG file that a PLI of content 2 was made from to `jpeg`: `*nbytes` bytes, which is
 * pst_pli_info's jpeg_nbytes. PST_ERROR_ARGUMENT: `capacity` is less, or it is a PLI of pixels.
 * PST_ERROR_UNSUPPORTED: it was made without what gives the file back. PST_ERROR_CHECKSUM: the file
 * does not come back as it was, the PLI is broken. Time and memory follow from the sizes in the
 * head, which is checked first: the file is at most 64 * restoration_nbytes + 4 * the samples of
 * the image + 65536 bytes long, and its scans go over all coefficients at most 100 times. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg(const void *pli, size_t pli_nbytes, void *jpeg,
                                                size_t capacity, size_t *nbytes,
                                                struct pst_error *err);
/* The same up to the data of the first scan: what the file says of itself (EXIF, colour profile,
 * XMP, comments, resolution), without decoding it. `capacity` is that of the whole file all the
 * same, and what lies behind `*nbytes` in `jpeg` is overwritten. Of the PLI only the head and the
 * last restoration_nbytes bytes are read: what lies between may be anything. */
PST_WARN_UNUSED enum pst_status pst_pli_to_jpeg_head(const void *pli, size_t pli_nbytes, void *jpeg,
                                                     size_t capacity, size_t *nbytes,
                                                     struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
