/* decode_recode.h - the door for caches: the bytes of a stored image become another form of the
 * same pixels, and the forms that a cache keeps.
 *
 * Whoever fills a cache calls these: workers of a loader, and others with a decoder of their own.
 * What an item becomes depends on its bytes, the form and the limit of memory alone. So it does not
 * matter who re-codes it. */
#ifndef PST_DECODE_DECODE_RECODE_H
#define PST_DECODE_DECODE_RECODE_H

#include "base/buffer.h"
#include "decode/decode.h"

#include <penstock/pli.h>

/* What a cache keeps of images. The numbers are part of the keys below. */
enum psti_recode_form {
    PSTI_RECODE_PLI_JPEG = 0, /* JPEGs as pli-jpeg; others as they are stored */
    PSTI_RECODE_PLI = 1, /* JPEGs as pli-jpeg; lossless images and raw pixels as small-tier PLI */
    PSTI_RECODE_PLI_FAST = 2, /* the same with PLIs of the fast tier */
    PSTI_RECODE_RAW = 3,      /* all images as pixels */
    PSTI_RECODE_N_FORMS = 4
};

/* The key of a cache's set (psti_cache_shape.forms) says of which fields of the data set images are
 * re-coded, and how. 0: of none. Fields from PSTI_RECODE_FIELDS on are never re-coded. */
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
/* PSTI_RECODE_N_FORMS or more: the key is not one that psti_recode_key makes. */
static inline enum psti_recode_form psti_recode_form(uint64_t key)
{
    return (enum psti_recode_form)(key >> PSTI_RECODE_FIELDS);
}

/* What the caller brings. */
struct psti_recode_tools {
    /* Returns the decoder to use. If `more` is set, the last image had too little scratch: returns
     * a decoder with more, or NULL if there is none. The decoder may be another one each time. */
    struct psti_decoder *(*decoder)(void *ctx, bool more);
    void *ctx;
    /* Most bytes that are allocated at once for one image, `out` included, the decoder's scratch
     * not. An image that needs more stays as it is. */
    uint64_t nbytes_max;
};
/* For tools whose ctx is one decoder, which has all the scratch that there is. */
struct psti_decoder *psti_decode_recode_alone(void *ctx, bool more);

/* The pixels as they are stored (orientation not applied). Bytes of form RAW that
 * psti_decode_recode makes begin with it; the pixels follow. */
struct psti_recode_raw {
    uint32_t height, width; /* as stored */
    uint8_t channels, bits;
    uint8_t orientation; /* EXIF, 1..8 */
    uint8_t zero[5];
};

/* The image to re-code. */
struct psti_recode_source {
    const void *bytes; /* read several times; must not change */
    uint64_t nbytes;
    enum pst_form form; /* NONE: the first bytes tell */
    /* Form RAW only: size, channels, bits and orientation of the pixels. */
    struct pst_image_info raw;
    uint8_t orientation; /* as the index states it; 0: the image's metadata decide */
};

struct psti_recoded {
    const void *bytes; /* in `out` */
    uint64_t nbytes;
    enum pst_form form; /* PLI_JPEG, PLI or RAW */
};

enum psti_recode_result {
    PSTI_RECODE_DONE,    /* *recoded is set */
    PSTI_RECODE_NOT_FOR, /* the form leaves such an image as it is stored */
    PSTI_RECODE_FAILED   /* it would be re-coded, but could not be, or not within nbytes_max */
};

/* Re-codes an image into `out`, which may be empty or hold memory of an earlier call; the caller
 * frees it. A JPEG becomes pli-jpeg only if that is shorter and was proven to have the JPEG's
 * pixels. A PLI was decoded again and compared. PLIs and raw pixels can be longer than the stored
 * bytes. Everything else that is allocated is freed before the return. Any thread. */
enum psti_recode_result psti_decode_recode(const struct psti_recode_tools *tools,
                                           enum psti_recode_form form,
                                           const struct psti_recode_source *source,
                                           struct psti_buffer *out, struct psti_recoded *recoded);

/* True if nbytes_max is enough for the next function and the pixels. pixels->data is not read. */
bool psti_decode_recode_fits(const struct psti_recode_tools *tools, const struct pst_pixels *pixels,
                             size_t head_nbytes);
/* Encodes pixels as a PLI of that tier, behind head_nbytes of `out` that the caller fills, and
 * compares what decodes. recoded has head and PLI. */
enum pst_status psti_decode_recode_pixels(const struct psti_recode_tools *tools,
                                          enum pst_pli_tier tier, const struct pst_pixels *pixels,
                                          size_t head_nbytes, struct psti_buffer *out,
                                          struct psti_recoded *recoded);

/* Reads the header of bytes of form RAW, as `info` of a probe with `options`: height and width are
 * those of the picture as shown. *pixels and *nbytes: the pixels. False: the bytes cannot be ones
 * that psti_decode_recode made. */
bool psti_decode_recode_raw(const void *bytes, uint64_t nbytes,
                            const struct pst_decode_options *options, struct pst_image_info *info,
                            const void **pixels, uint64_t *pixels_nbytes);

#endif
