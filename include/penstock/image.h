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
    /* Not known, or not an image. */
    PST_FORM_NONE = 0,
    /* Pixels, u8 or u16 little-endian, (H,W,C), no padding. */
    PST_FORM_RAW = 1,
    PST_FORM_JPEG = 2,
    PST_FORM_PNG = 3,
    PST_FORM_WEBP = 4,
    /* Parallel lossless image: docs/format-pli.md, <penstock/pli.h>. */
    PST_FORM_PLI = 5,
    /* PLI of a JPEG's coefficients. It gives back the JPEG's pixels and its file. */
    PST_FORM_PLI_JPEG = 6,
    /* Any other field: stored as given. */
    PST_FORM_BYTES = 16
};

/* Name of a form: "raw", "jpeg", "png", "webp", "pli", "pli-jpeg" or "bytes".
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_form_name(enum pst_form form);

/* The form of this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns PST_FORM_NONE if there is none. Any thread. */
enum pst_form pst_form_from_name(const char *name);

/* Type of the elements of an array. Numbers are part of the data set format. Elements are in the
 * byte order of the machine in memory, and little-endian in files. */
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

/* Bytes of one element, 1 to 8.
 *
 * Returns 0 for numbers outside the list. Any thread. */
size_t pst_dtype_nbytes(enum pst_dtype dtype);

/* Name of an element type as numpy and torch spell it: "uint8", "float32", "bfloat16" and so on.
 *
 * Returns a static string, "none" for numbers outside the list. Any thread. */
const char *pst_dtype_name(enum pst_dtype dtype);

/* The element type of this name.
 *
 * name: a NUL-terminated string.
 *
 * Returns 0 if there is none. Any thread. */
enum pst_dtype pst_dtype_from_name(const char *name);

/* Order of the dimensions of pixels: height, width, channels. */
enum pst_layout {
    /* In a batch: NHWC, "channels last". */
    PST_LAYOUT_HWC = 0,
    PST_LAYOUT_CHW = 1 /* In a batch: NCHW. */
};

/* Facts from an image's header, before its pixels are decoded. Height and width are those of the
 * picture as shown, that is, after the EXIF orientation (if it is applied). The library fills it;
 * the caller owns it. */
struct pst_image_info {
    enum pst_form form;
    uint32_t height, width; /* pixels, 1..65535 */
    /* 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA (palettes and CMYK count as decoded). */
    uint8_t channels;
    /* Bits of a decoded sample: 8 or 16. */
    uint8_t bits;
    /* 1..8 as in EXIF; 1 if the file states none. Of a PNG whose last bytes are not given, metadata
     * behind the pixels are not read. */
    uint8_t orientation;
    bool palette; /* PNG with a palette. */
    /* Progressive JPEG or interlaced PNG: decoding a region costs nearly as much as the whole
     * image. */
    bool progressive;
};

/* Options of decoding. Zero-initialise, then set `struct_size`. The same options give the same
 * pixels on every machine. */
struct pst_decode_options {
    size_t struct_size;
    /* 0: as stored; 1, 3 or 4: convert (alpha dropped or set opaque, gray = BT.601 luma). */
    uint8_t channels;
    /* 0: as stored; 8 or 16: convert (8->16: v*257, 16->8: (v*255+32895)>>16). */
    uint8_t bits;
    /* Leave the EXIF orientation unapplied. */
    bool ignore_orientation;
    /* A palette image yields its indices, 1 channel (label maps). */
    bool palette_indices;
    /* Larger images are an error (PST_ERROR_LIMIT); 0 = 1 << 28. */
    uint64_t max_pixels;
    /* 1..8: the picture has this orientation, whatever its metadata say. The index of a packed data
     * set holds such a number (pst_item.orientation). 0: the metadata decide. */
    uint8_t orientation;
};

/* Reads the header of an encoded image without decoding it.
 *
 * bytes: the encoded image, or its first bytes as far as the header goes.
 * nbytes: how many bytes there are.
 * form: PST_FORM_NONE looks at the first bytes to find the form. PST_FORM_RAW has no header and is
 *     refused.
 * options: NULL for the defaults. Size, channels and bits are those that pst_image_decode gives
 *     with the same options.
 * info: the caller's struct, written after success only.
 * info_nbytes: sizeof *info.
 *
 * PST_ERROR_ARGUMENT: form is PST_FORM_RAW, info is NULL, or an option is not possible.
 * PST_ERROR_UNSUPPORTED: the form is not known, or this build or decoder does not take it.
 * PST_ERROR_CORRUPT, PST_ERROR_TRUNCATED: the header is damaged or incomplete.
 * PST_ERROR_LIMIT: the image has more pixels than options.max_pixels. PST_ERROR_MEMORY.
 *
 * Any thread. */
PST_WARN_UNUSED enum pst_status pst_image_probe(const void *bytes, size_t nbytes,
                                                enum pst_form form,
                                                const struct pst_decode_options *options,
                                                struct pst_image_info *info, size_t info_nbytes,
                                                struct pst_error *err);

/* Decodes a whole image. It makes and frees a decoder each time; loaders keep theirs.
 *
 * bytes: the whole encoded image.
 * nbytes: its size.
 * form: as in pst_image_probe.
 * options: those that were given to pst_image_probe, so that the size is known. NULL for the
 *     defaults.
 * pixels: receives u8 or native u16, (H,W,C). What it holds after failure is not defined.
 * pixels_nbytes: room at pixels, at least height * row_nbytes.
 * row_nbytes: distance of rows, at least width * channels * bits / 8.
 *
 * PST_ERROR_ARGUMENT: the room is too small, or an option is not possible.
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
