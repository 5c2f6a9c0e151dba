/* image.h - pixels in memory, and the forms in which an image is stored. */
#ifndef PENSTOCK_IMAGE_H
#define PENSTOCK_IMAGE_H

#include <penstock/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How the bytes of a stored item are to be read. Numbers are part of the data set format. */
enum pst_form {
    PST_FORM_NONE = 0, /* not known, or not an image */
    PST_FORM_RAW = 1,  /* pixels, u8 or u16 little-endian, (H,W,C), no padding */
    PST_FORM_JPEG = 2,
    PST_FORM_PNG = 3,
    PST_FORM_WEBP = 4,
    PST_FORM_PLI = 5,      /* parallel lossless image: docs/format-pli.md, <penstock/pli.h> */
    PST_FORM_PLI_JPEG = 6, /* PLI of a JPEG's coefficients: its pixels and its file come back */
    PST_FORM_BYTES = 16    /* any other field: stored as given */
};

/* "raw", "jpeg", ...; "none" for numbers outside the list. */
const char *pst_form_name(enum pst_form form);
/* The form named `name`; PST_FORM_NONE if there is none. */
enum pst_form pst_form_from_name(const char *name);

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

/* Bytes of one element; 0 for numbers outside the list. */
size_t pst_dtype_nbytes(enum pst_dtype dtype);
/* "uint8", "float32", "bfloat16", ... as numpy and torch spell them; "none" outside the list. */
const char *pst_dtype_name(enum pst_dtype dtype);
/* The dtype of that name; 0 if there is none. */
enum pst_dtype pst_dtype_from_name(const char *name);

enum pst_layout {
    PST_LAYOUT_HWC = 0, /* in a batch: NHWC, "channels last" */
    PST_LAYOUT_CHW = 1  /* in a batch: NCHW */
};

/* What a header says about an image, before its pixels are decoded. Height and width are those of
 * the picture as shown, that is, after the EXIF orientation has been applied (if it is applied). */
struct pst_image_info {
    enum pst_form form;
    uint32_t height, width; /* pixels, 1..65535 */
    uint8_t channels; /* 1 gray, 2 gray+alpha, 3 RGB, 4 RGBA (palettes and CMYK count as decoded) */
    uint8_t bits;     /* of the decoded samples: 8 or 16 */
    uint8_t orientation; /* EXIF 1..8; 1 if none is recorded */
    bool palette;        /* PNG with a palette */
    bool progressive;    /* progressive JPEG or interlaced PNG: no cheap region decode */
};

/* How to decode. Zero-initialise, then set `struct_size`. */
struct pst_decode_options {
    size_t struct_size;
    uint8_t channels; /* 0 as stored; 1, 3 or 4: convert (alpha dropped or set opaque, gray = BT.601
                         luma) */
    uint8_t bits;     /* 0 as stored; 8 or 16: convert (8->16: v*257, 16->8: (v*255+32895)>>16) */
    bool ignore_orientation; /* leave the EXIF orientation unapplied */
    bool palette_indices;    /* a palette image yields its indices, 1 channel (label maps) */
    uint64_t max_pixels;     /* larger images are an error (PST_ERROR_LIMIT); 0 = 1 << 28 */
};

/* Reads the header of an encoded image of `nbytes` bytes. `form` PST_FORM_NONE looks at the first
 * bytes. PST_FORM_RAW has no header and is an error here. Thread-safe. */
PST_WARN_UNUSED enum pst_status pst_image_probe(const void *bytes, size_t nbytes,
                                                enum pst_form form,
                                                const struct pst_decode_options *options,
                                                struct pst_image_info *info, size_t info_nbytes,
                                                struct pst_error *err);

/* Decodes a whole image into `pixels`, u8 or u16 (H,W,C), rows `row_nbytes` apart; `pixels_nbytes`
 * is the room there. `options` must be those given to pst_image_probe. Allocates and frees a
 * decoder: loaders keep theirs. Thread-safe. */
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
