/* decode_recode.h - public functions that re-code a stored image for a cache: to another form with
 * the same pixels.
 *
 * Their callers fill caches: workers of a loader, and others that have a decoder of their own. The
 * result for an item depends only on its bytes, the form and the memory limit, not on who re-codes
 * it. */
#ifndef PST_DECODE_DECODE_RECODE_H
#define PST_DECODE_DECODE_RECODE_H

#include "base/buffer.h"
#include "decode/decode.h"

#include <penstock/pli.h>

/* The forms in which a cache keeps images. The numbers are part of the keys (psti_recode_key), so
 * they must not change. */
enum psti_recode_form {
    PSTI_RECODE_PLI_JPEG = 0, /* JPEGs as pli-jpeg; other images as they are stored */
    PSTI_RECODE_PLI = 1, /* JPEGs as pli-jpeg; lossless images and raw pixels as PLI, tier small */
    PSTI_RECODE_PLI_FAST = 2, /* like PSTI_RECODE_PLI, but with PLIs of tier fast */
    PSTI_RECODE_RAW = 3,      /* all images as raw pixels */
    PSTI_RECODE_N_FORMS = 4
};

/* The key of a cache's set (psti_cache_shape.forms) states which fields' images are re-coded, and
 * to which form. Bit i of `fields` stands for field i. Key 0: no field is re-coded. Fields from
 * number PSTI_RECODE_FIELDS on are never re-coded. */
#define PSTI_RECODE_FIELDS 56
static inline uint64_t psti_recode_key(enum psti_recode_form form, uint64_t fields)
{
    fields &= ((uint64_t)1 << PSTI_RECODE_FIELDS) - 1;
    return fields ? (uint64_t)form << PSTI_RECODE_FIELDS | fields : 0;
}
static inline bool psti_recode_has_field(uint64_t key, uint32_t i_field)
{
    return i_field < PSTI_RECODE_FIELDS && (key >> i_field & 1) != 0;
}
/* Returns the form in a key. If it is PSTI_RECODE_N_FORMS or more, psti_recode_key did not make the
 * key. */
static inline enum psti_recode_form psti_recode_form(uint64_t key)
{
    return (enum psti_recode_form)(key >> PSTI_RECODE_FIELDS);
}

/* The caller's decoders and its limit of memory. */
struct psti_recode_tools {
    /* Returns the decoder to use, which may be a different one for each call. `more` is set if the
     * last decoder had too little scratch for the image: returns a decoder with more scratch, or
     * NULL if there is none. */
    struct psti_decoder *(*decoder)(void *ctx, bool more);
    void *ctx;
    /* The most bytes that may be allocated at once for one image, with `out` but without the
     * decoder's scratch. An image that needs more stays as it is stored. */
    uint64_t nbytes_max;
};
/* A `decoder` callback for tools whose ctx is a single decoder: there is none with more scratch. */
struct psti_decoder *psti_decode_recode_alone(void *ctx, bool more);

/* Header of the raw pixels that psti_decode_recode makes for form RAW. The pixels, with the
 * orientation not applied, follow it. */
struct psti_recode_raw {
    uint32_t height, width; /* of the pixels as stored */
    uint8_t channels, bits;
    uint8_t orientation; /* EXIF orientation, 1..8 */
    uint8_t zero[5];
};

/* The image to re-code, as it is stored. */
struct psti_recode_source {
    /* the image's bytes; read several times, so they must not change meanwhile */
    const void *bytes;
    uint64_t nbytes;
    enum pst_form form; /* NONE: found by the first bytes */
    /* Form RAW only: height, width, channels, bits and orientation of the pixels. */
    struct pst_image_info raw;
    /* the orientation that the index states, or 0: the image's own metadata decides */
    uint8_t orientation;
};

struct psti_recoded {
    const void *bytes; /* the re-coded bytes, which lie in `out` */
    uint64_t nbytes;
    enum pst_form form; /* PLI_JPEG, PLI or RAW */
};

enum psti_recode_result {
    PSTI_RECODE_DONE,    /* *recoded is set */
    PSTI_RECODE_NOT_FOR, /* this form keeps such an image as it is stored */
    PSTI_RECODE_FAILED   /* re-coding failed, or would need more than nbytes_max */
};

/* Re-codes an image into `out`, which may be empty or hold memory of an earlier call. The caller
 * frees `out`. A JPEG becomes pli-jpeg only if that is shorter and was checked to give the JPEG's
 * pixels. A PLI of other images is decoded again and compared. PLIs and raw pixels can be longer
 * than the stored bytes. All other memory is freed before the function returns. Any thread. */
enum psti_recode_result psti_decode_recode(const struct psti_recode_tools *tools,
                                           enum psti_recode_form form,
                                           const struct psti_recode_source *source,
                                           struct psti_buffer *out, struct psti_recoded *recoded);

/* Returns true if nbytes_max is enough for psti_decode_recode_pixels and the pixels together.
 * pixels->data is not read. */
bool psti_decode_recode_fits(const struct psti_recode_tools *tools, const struct pst_pixels *pixels,
                             size_t head_nbytes);
/* Encodes pixels as a PLI of the given tier and checks that the PLI decodes. The PLI is written to
 * `out` after head_nbytes that the caller fills. *recoded covers both the head and the PLI. */
enum pst_status psti_decode_recode_pixels(const struct psti_recode_tools *tools,
                                          enum pst_pli_tier tier, const struct pst_pixels *pixels,
                                          size_t head_nbytes, struct psti_buffer *out,
                                          struct psti_recoded *recoded);

/* Reads the header of form RAW into `info`, as a probe with `options` would: height and width are
 * those of the picture as shown. Sets *pixels and *pixels_nbytes to the pixels after the header.
 * Returns false if psti_decode_recode cannot have made these bytes. */
bool psti_decode_recode_raw(const void *bytes, uint64_t nbytes,
                            const struct pst_decode_options *options, struct pst_image_info *info,
                            const void **pixels, uint64_t *pixels_nbytes);

#endif
