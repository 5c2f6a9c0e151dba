/* decode_recode.c - re-codes stored images for caches.
 *
 * In: the bytes of one image, and the form that a cache keeps. Out: bytes of another form with the
 * same pixels. A JPEG becomes a PLI of its coefficients, for which it was proven that the pixels
 * are the JPEG's: by the coefficients and the first rows (psti_pli_keep_pixels, has_same_rows), or
 * by all rows. Other images become a PLI of their pixels, or raw pixels. Nothing is converted:
 * channels, bits and orientation stay those of the stored image, so that readers with other options
 * share the result. Images that could not be told apart then stay as they are: those with a
 * palette, which may be wanted as indices, and in the forms PLI those with an orientation, for
 * which a PLI of pixels has no room.
 *
 * All memory is allocated for one image and freed after it, at most nbytes_max. So an image's size
 * alone decides if there is memory for it. Any thread, with tools of its own. */
#include "decode/decode_recode.h"

#include "base/checked.h"
#include "base/fail.h"
#include "pli/pli.h"

#include <string.h>

/* What pst_pli_encode allocates: at most two copies of the encoded image, plans of units, and
 * memory that does not depend on the image. test_decode_recode compares it with what it does. */
#define ENCODER_COPIES 3
#define ENCODER_NBYTES ((uint64_t)6 << 20)

/* Rows of a JPEG that are compared where not all are: two rows of the most usual MCUs. */
#define FIRST_ROWS 32

/* A gray JPEG of 8 x 8 samples that are 605 too bright: one DC of 19 * 255. */
static const uint8_t bright_head[] = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
static const uint8_t bright_tail[] = {
    0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0,                       /* 8 x 8, gray */
    0xff, 0xc4, 0, 20, 0x00, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, /* DC: of 5 bits */
    0xff, 0xc4, 0, 20, 0x10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* AC: the end */
    0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x26, 0x7f, 0xff, 0xd9};
enum { BRIGHT_QUANTS = 64 };

static const struct pst_decode_options as_stored = {
    .struct_size = sizeof as_stored, .max_pixels = UINT64_MAX, .ignore_orientation = true};

struct psti_decoder *psti_decode_recode_alone(void *ctx, bool more) { return more ? NULL : ctx; }

/* True if the inverse DCT of the libjpeg-turbo that is here saturates, as PLI's does and all that
 * use vectors. The plain one wraps: it makes the bright image black. */
static bool saturates(const struct psti_recode_tools *tools)
{
    uint8_t jpeg[sizeof bright_head + BRIGHT_QUANTS + sizeof bright_tail], pixels[64] = {0};
    const struct psti_rect whole = {0, 0, 8, 8};
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    struct pst_image_info info;
    memcpy(jpeg, bright_head, sizeof bright_head);
    memset(jpeg + sizeof bright_head, 255, BRIGHT_QUANTS);
    memcpy(jpeg + sizeof bright_head + BRIGHT_QUANTS, bright_tail, sizeof bright_tail);
    bool all = decoder &&
               psti_decode_probe(decoder, jpeg, sizeof jpeg, PST_FORM_JPEG, &as_stored, &info,
                                 NULL) == PST_OK &&
               psti_decode_region(decoder, jpeg, sizeof jpeg, &info, &as_stored, &whole, pixels, 8,
                                  NULL) == PST_OK;
    for (size_t i = 0; i < sizeof pixels; i++)
        all = all && pixels[i] == 255;
    return all;
}

/* Hashes the first rows as they are stored, at most n_rows. */
static enum pst_status hash_rows(const struct psti_recode_tools *tools, const void *bytes,
                                 size_t nbytes, enum pst_form form, uint32_t n_rows, uint64_t *hash)
{
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    struct pst_image_info info;
    enum pst_status status = PST_ERROR_MEMORY;
    while (decoder) {
        status = psti_decode_probe(decoder, bytes, nbytes, form, &as_stored, &info, NULL);
        if (status == PST_OK)
            status = psti_decode_hash_rows(decoder, bytes, nbytes, &info, &as_stored,
                                           info.height < n_rows ? info.height : n_rows,
                                           hash, NULL);
        decoder = status == PST_ERROR_LIMIT ? tools->decoder(tools->ctx, true) : NULL;
    }
    return status;
}

/* True if the first rows of the PLI are those that libjpeg-turbo makes of the JPEG. */
static bool has_same_rows(const struct psti_recode_tools *tools,
                          const struct psti_recode_source *source, const void *pli, size_t nbytes,
                          uint32_t n_rows)
{
    uint64_t wanted = 0, found = 0;
    return hash_rows(tools, source->bytes, (size_t)source->nbytes, PST_FORM_JPEG, n_rows,
                     &wanted) == PST_OK &&
           hash_rows(tools, pli, nbytes, PST_FORM_PLI_JPEG, n_rows, &found) == PST_OK &&
           found == wanted;
}

/* Makes a PLI of the JPEG's coefficients, which must be shorter than the JPEG. It need not give the
 * file back. Rows are compared, of most JPEGs the first ones, which takes 0.6 of the time. */
static enum pst_status keep_jpeg(const struct psti_recode_tools *tools,
                                 const struct psti_recode_source *source, struct psti_buffer *out,
                                 struct psti_recoded *recoded)
{
    struct psti_pli_keep memory = {0};
    uint64_t most = 0;
    size_t nbytes = 0, jpeg_nbytes = (size_t)source->nbytes;
    bool is_exact = false;
    enum pst_status status = psti_pli_keep_nbytes(source->bytes, jpeg_nbytes, &most, NULL);
    if (status == PST_OK && most + jpeg_nbytes > tools->nbytes_max)
        status = PST_ERROR_LIMIT;
    if (status == PST_OK)
        status = psti_buffer_reserve(out, jpeg_nbytes, "decode", "to re-code a JPEG", NULL);
    if (status == PST_OK)
        status = psti_pli_keep_pixels(&memory, source->bytes, jpeg_nbytes, saturates(tools),
                                      out->bytes, jpeg_nbytes - 1, &nbytes, &is_exact, NULL);
    if (status == PST_OK &&
        !has_same_rows(tools, source, out->bytes, nbytes, is_exact ? FIRST_ROWS : UINT32_MAX))
        status = PST_ERROR_INTERNAL;
    psti_pli_keep_free(&memory);
    *recoded = (struct psti_recoded){out->bytes, nbytes, PST_FORM_PLI_JPEG};
    return status;
}

/* Decodes all pixels as they are stored. */
static enum pst_status decode(const struct psti_recode_tools *tools,
                              const struct psti_recode_source *source,
                              const struct pst_image_info *info, void *pixels, size_t row_nbytes)
{
    const struct psti_rect whole = {0, 0, info->height, info->width};
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    enum pst_status status = PST_ERROR_MEMORY;
    while (decoder) {
        status = psti_decode_region(decoder, source->bytes, (size_t)source->nbytes, info,
                                    &as_stored, &whole, pixels, row_nbytes, NULL);
        decoder = status == PST_ERROR_LIMIT ? tools->decoder(tools->ctx, true) : NULL;
    }
    return status;
}

static enum pst_status store_raw(const struct psti_recode_tools *tools,
                                 const struct psti_recode_source *source,
                                 const struct pst_image_info *info, struct psti_buffer *out,
                                 struct psti_recoded *recoded)
{
    const struct psti_recode_raw header = {.height = info->height,
                                           .width = info->width,
                                           .channels = info->channels,
                                           .bits = info->bits,
                                           .orientation = info->orientation};
    size_t row_nbytes, nbytes;
    if (!psti_decode_pixels_nbytes(info, &as_stored, &row_nbytes, &nbytes) ||
        nbytes > tools->nbytes_max || sizeof header > tools->nbytes_max - nbytes)
        return PST_ERROR_LIMIT;
    nbytes += sizeof header;
    enum pst_status status = psti_buffer_reserve(out, nbytes, "decode", "for raw pixels", NULL);
    if (status != PST_OK)
        return status;
    memcpy(out->bytes, &header, sizeof header);
    *recoded = (struct psti_recoded){out->bytes, nbytes, PST_FORM_RAW};
    return decode(tools, source, info, (char *)out->bytes + sizeof header, row_nbytes);
}

/* True if the PLI has these pixels: decodes it as readers do. */
static bool is_proven(const struct psti_recode_tools *tools, const struct psti_recoded *pli)
{
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    struct psti_pli_header header;
    struct pst_image_info info;
    enum pst_status status = PST_ERROR_MEMORY;
    uint64_t found = 0;
    if (psti_pli_parse_header(pli->bytes, (size_t)pli->nbytes, &header, NULL) != PST_OK)
        return false;
    while (decoder) {
        status = psti_decode_probe(decoder, pli->bytes, (size_t)pli->nbytes, PST_FORM_PLI,
                                   &as_stored, &info, NULL);
        if (status == PST_OK)
            status = psti_decode_hash_pixels(decoder, pli->bytes, (size_t)pli->nbytes, &info,
                                             &as_stored, &found, NULL);
        decoder = status == PST_ERROR_LIMIT ? tools->decoder(tools->ctx, true) : NULL;
    }
    return status == PST_OK && found == header.pixel_checksum;
}

bool psti_decode_recode_fits(const struct psti_recode_tools *tools, const struct pst_pixels *pixels,
                             size_t head_nbytes)
{
    size_t bound =
        pst_pli_encode_bound(pixels->height, pixels->width, pixels->channels, pixels->bits);
    uint64_t nbytes = (uint64_t)pixels->row_nbytes * pixels->height + head_nbytes;
    return bound > 0 &&
           nbytes + (ENCODER_COPIES + 1) * (uint64_t)bound + ENCODER_NBYTES <= tools->nbytes_max;
}

enum pst_status psti_decode_recode_pixels(const struct psti_recode_tools *tools,
                                          enum pst_pli_tier tier, const struct pst_pixels *pixels,
                                          size_t head_nbytes, struct psti_buffer *out,
                                          struct psti_recoded *recoded)
{
    const struct pst_pli_encode_options options = {.struct_size = sizeof options, .tier = tier};
    size_t encoded = 0, bound = pst_pli_encode_bound(pixels->height, pixels->width,
                                                     pixels->channels, pixels->bits);
    enum pst_status status =
        psti_buffer_reserve(out, head_nbytes + bound, "decode", "for a PLI", NULL);
    if (status == PST_OK)
        status = pst_pli_encode(pixels, &options, (char *)out->bytes + head_nbytes, bound, &encoded,
                                NULL);
    if (status != PST_OK)
        return status;
    *recoded = (struct psti_recoded){(char *)out->bytes + head_nbytes, encoded, PST_FORM_PLI};
    if (!is_proven(tools, recoded))
        return PST_ERROR_INTERNAL;
    *recoded = (struct psti_recoded){out->bytes, head_nbytes + encoded, PST_FORM_PLI};
    return PST_OK;
}

static enum pst_status store_pli(const struct psti_recode_tools *tools, enum pst_pli_tier tier,
                                 const struct psti_recode_source *source,
                                 const struct pst_image_info *info, struct psti_buffer *out,
                                 struct psti_recoded *recoded)
{
    struct psti_buffer memory = {0};
    size_t row_nbytes, nbytes;
    if (!psti_decode_pixels_nbytes(info, &as_stored, &row_nbytes, &nbytes))
        return PST_ERROR_LIMIT;
    struct pst_pixels pixels = {.height = info->height,
                                .width = info->width,
                                .channels = info->channels,
                                .bits = info->bits,
                                .row_nbytes = (int64_t)row_nbytes,
                                .pixel_nbytes = info->channels * (info->bits / 8),
                                .channel_nbytes = info->bits / 8};
    if (!psti_decode_recode_fits(tools, &pixels, 0))
        return PST_ERROR_LIMIT;
    enum pst_status status = psti_buffer_reserve(&memory, nbytes, "decode", "for pixels", NULL);
    if (status == PST_OK)
        status = decode(tools, source, info, memory.bytes, row_nbytes);
    pixels.data = memory.bytes;
    if (status == PST_OK)
        status = psti_decode_recode_pixels(tools, tier, &pixels, 0, out, recoded);
    psti_buffer_free(&memory);
    return status;
}

/* True if the image loses nothing against what its file was made of. A PLI of the pixels of another
 * one would be several times as long. */
static bool is_lossless(const struct psti_recode_source *source, const struct pst_image_info *info)
{
    return info->form == PST_FORM_RAW || info->form == PST_FORM_PNG ||
           (info->form == PST_FORM_WEBP &&
            psti_decode_webp_is_lossless(source->bytes, (size_t)source->nbytes));
}

/* What becomes of the image in that form. */
static enum pst_form find_target(enum psti_recode_form form,
                                 const struct psti_recode_source *source,
                                 const struct pst_image_info *info)
{
    if (form == PSTI_RECODE_RAW)
        return info->form == PST_FORM_RAW || info->palette ? PST_FORM_NONE : PST_FORM_RAW;
    if (info->form == PST_FORM_JPEG)
        return PST_FORM_PLI_JPEG;
    if (form == PSTI_RECODE_PLI_JPEG || info->palette || info->orientation > 1 ||
        !is_lossless(source, info))
        return PST_FORM_NONE;
    return PST_FORM_PLI;
}

enum psti_recode_result psti_decode_recode(const struct psti_recode_tools *tools,
                                           enum psti_recode_form form,
                                           const struct psti_recode_source *source,
                                           struct psti_buffer *out, struct psti_recoded *recoded)
{
    struct pst_image_info info = source->raw;
    struct psti_pli_header header = {0};
    const struct pst_decode_options options =
        psti_decode_options_for(&as_stored, source->orientation);
    enum pst_status status;
    if (source->nbytes > SIZE_MAX ||
        psti_decode_probe_pli(source->bytes, (size_t)source->nbytes, source->form, &options, &info,
                              &header, NULL) != PST_OK)
        return PSTI_RECODE_NOT_FOR;
    switch (find_target(form, source, &info)) {
    case PST_FORM_PLI_JPEG:
        status = keep_jpeg(tools, source, out, recoded);
        break;
    case PST_FORM_PLI:
        status =
            store_pli(tools, form == PSTI_RECODE_PLI_FAST ? PST_PLI_TIER_FAST : PST_PLI_TIER_SMALL,
                      source, &info, out, recoded);
        break;
    case PST_FORM_RAW:
        status = store_raw(tools, source, &info, out, recoded);
        break;
    default:
        return PSTI_RECODE_NOT_FOR;
    }
    return status == PST_OK ? PSTI_RECODE_DONE : PSTI_RECODE_FAILED;
}

bool psti_decode_recode_raw(const void *bytes, uint64_t nbytes,
                            const struct pst_decode_options *options, struct pst_image_info *info,
                            const void **pixels, uint64_t *pixels_nbytes)
{
    struct psti_recode_raw header;
    if (nbytes < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (header.orientation < 1 || header.orientation > 8)
        return false;
    bool swaps = header.orientation >= 5 && !options->ignore_orientation;
    *info = (struct pst_image_info){.form = PST_FORM_RAW,
                                    .height = swaps ? header.width : header.height,
                                    .width = swaps ? header.height : header.width,
                                    .channels = header.channels,
                                    .bits = header.bits,
                                    .orientation = header.orientation};
    *pixels = (const char *)bytes + sizeof header;
    *pixels_nbytes = nbytes - sizeof header;
    return true;
}
