/* image.h - pixels in memory, and the forms in which an image is stored. */
#ifndef PENSTOCK_IMAGE_H
#define PENSTOCK_IMAGE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The encoding of a stored item. Numbers are part of the data set format. */
enum pst_form {
    /* Unknown form, or no image. */
    PST_FORM_NONE = 0,
    /* Pixels, u8 or u16 little-endian, (H,W,C), no padding. */
    PST_FORM_RAW = 1,
    PST_FORM_JPEG = 2,
    PST_FORM_PNG = 3,
    PST_FORM_WEBP = 4,
    /* Parallel lossless image: see docs/format-pli.md and <penstock/pli.h>. */
    PST_FORM_PLI = 5,
    /* A PLI that holds a JPEG's coefficients. The JPEG's pixels and its file can be restored from
     * it. */
    PST_FORM_PLI_JPEG = 6,
    /* Values of any other field, stored as given. */
    PST_FORM_BYTES = 16
};

/* Name of a form: "raw", "jpeg", "png", "webp", "pli", "pli-jpeg" or "bytes".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_form_name(enum pst_form form);

/* Finds the form with this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns PST_FORM_NONE if there is no such form. Any thread. */
enum pst_form pst_form_from_name(const char *name);

/* dtype of an array. Numbers are part of the data set format. Elements have the machine's byte
 * order in memory, and are little-endian in files. */
enum pst_dtype {
    PST_DTYPE_U8 = 1,
    PST_DTYPE_U16 = 2,
    PST_DTYPE_I32 = 3,
    PST_DTYPE_I64 = 4,
    PST_DTYPE_F16 = 5,
    PST_DTYPE_BF16 = 6,
    PST_DTYPE_F32 = 7,
    PST_DTYPE_F64 = 8,
    PST_DTYPE_I8 = 9,
    PST_DTYPE_I16 = 10,
    PST_DTYPE_U32 = 11,
    PST_DTYPE_U64 = 12,
    PST_DTYPE_BOOL = 13
};

/* Size of one element in bytes, 1 to 8.
 *
 * Returns 0 for numbers outside the list. Any thread. */
size_t pst_dtype_nbytes(enum pst_dtype dtype);

/* Name of an element type as numpy and torch spell it: "uint8", "float32", "bfloat16" and so on.
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_dtype_name(enum pst_dtype dtype);

/* Finds the dtype with this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns 0 if there is no such dtype. Any thread. */
enum pst_dtype pst_dtype_from_name(const char *name);

/* Order of the dimensions of pixels: height, width, channels. */
enum pst_layout {
    /* Height, width, channels; in a batch NHWC ("channels last"). */
    PST_LAYOUT_HWC = 0,
    PST_LAYOUT_CHW = 1 /* Channels, height, width; in a batch NCHW. */
};

/* Properties of an image that its header says, before its pixels are decoded. Height and width are
 * those of the shown picture, after the EXIF orientation if it is applied. The library fills this
 * struct; the caller owns it. */
struct pst_image_info {
    enum pst_form form;
    uint32_t height, width; /* pixels, 1..65535 */
    /* Channels of the decoded image: 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA. Palettes and CMYK count
     * as what they are decoded to. */
    uint8_t channels;
    /* Bits of a decoded sample: 8 or 16. */
    uint8_t bits;
    /* EXIF orientation, 1..8; 1 if the file states none. If the last bytes of a PNG are not given,
     * metadata behind its pixels are not seen. */
    uint8_t orientation;
    bool palette; /* PNG with a palette. */
    /* Progressive JPEG or interlaced PNG: decoding a region takes nearly as long as the whole
     * image. */
    bool progressive;
};

/* Options of decoding. Zero-initialise, then set `struct_size`. The same options give the same
 * pixels on every machine. */
struct pst_decode_options {
    size_t struct_size;
    /* Channels of the result. 0: as stored; 1, 3 or 4: convert (alpha is dropped or set opaque,
     * gray = BT.601 luma). */
    uint8_t channels;
    /* Bits of the result. 0: as stored; 8 or 16: convert (8->16: v*257, 16->8: (v*255+32895)>>16).
     */
    uint8_t bits;
    /* True: the EXIF orientation is not applied. */
    bool ignore_orientation;
    /* True: a palette image is decoded to its indices, 1 channel (for label maps). */
    bool palette_indices;
    /* Largest number of pixels; a larger image is PST_ERROR_LIMIT. 0 = 1 << 28. */
    uint64_t max_pixels;
    /* 1..8: orientation of the picture, which replaces that of its metadata; pst_item.orientation
     * of a packed data set is such a number. 0: the metadata decide. */
    uint8_t orientation;
};

/* Reads the header of an encoded image without decoding it.
 *
 * bytes: the encoded image, or as many of its first bytes as the header has.
 * nbytes: how many bytes there are.
 * form: the form; PST_FORM_NONE detects it from the first bytes. PST_FORM_RAW has no header and is
 *     refused.
 * options: NULL for the defaults. Size, channels and bits are reported for a pst_image_decode with
 *     the same options.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_ARGUMENT: form is PST_FORM_RAW, info is NULL, or an option is invalid.
 * PST_ERROR_UNSUPPORTED: the form is unknown, or this build or its decoder does not support it.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the header is damaged or incomplete.
 * PST_ERROR_LIMIT: the image has more pixels than options.max_pixels. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_image_probe(const void *bytes, size_t nbytes,
                                                enum pst_form form,
                                                const struct pst_decode_options *options,
                                                struct pst_image_info *info, size_t info_nbytes,
                                                struct pst_error *err);

/* Decodes a whole image. Each call makes and frees a decoder; loaders keep theirs.
 *
 * bytes: the whole encoded image.
 * nbytes: its size.
 * form: as in pst_image_probe.
 * options: the options that pst_image_probe was given, so that the size is known. NULL for the
 *     defaults.
 * pixels: receives u8 or native u16, (H,W,C). Its contents after failure are undefined.
 * pixels_nbytes: bytes that pixels has, at least height * row_nbytes.
 * row_nbytes: bytes from one row to the next, at least width * channels * bits / 8.
 *
 * PST_ERROR_ARGUMENT: pixels_nbytes is too small, or an option is invalid.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED, PST_ERROR_CHECKSUM: the image is damaged.
 * PST_ERROR_UNSUPPORTED, PST_ERROR_LIMIT, PST_ERROR_MEMORY: as in pst_image_probe.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_image_decode(const void *bytes, size_t nbytes,
                                                 enum pst_form form,
                                                 const struct pst_decode_options *options,
                                                 void *pixels, size_t pixels_nbytes,
                                                 size_t row_nbytes, struct pst_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
