/* decode_recode.c - re-codes stored images for caches.
 *
 * In: the bytes of one image, and the form that a cache keeps. Out: bytes of another form with the
 * same pixels. A JPEG becomes a PLI of its coefficients, for which it was proven that the pixels
 * are the JPEG's: by the coefficients and the first rows (psti_pli_keep_pixels, has_same_rows), or
 * by all rows. Other images become a PLI of their pixels, or raw pixels. Nothing is converted:
 * channels, bits and orientation stay those of the stored image, so that readers with other options
 * share the result. Some images are not re-coded, because information would be lost: images with a
 * palette, whose indices a reader may want; and, for caches that keep PLI, images with an
 * orientation, which a PLI of pixels cannot store.
 *
 * Memory is allocated for one image, at most nbytes_max bytes, and freed after it. So only the size
 * of an image decides whether the memory is enough for it. Any thread may call these functions,
 * with its own psti_recode_tools. */
#include "decode/decode_recode.h"

#include "base/checked.h"
#include "decode/decode_int.h"
#include "pli/pli.h"

#include <string.h>

/* An upper bound of what pst_pli_encode allocates: copies of the encoded image, the plans of its
 * units, and memory of a fixed size. test_decode_recode compares this bound with the real
 * allocations. */
#define ENCODER_COPIES 3
#define ENCODER_NBYTES ((uint64_t)6 << 20)

/* Rows of a JPEG that are compared if not all of them are: two rows of MCUs of the most usual size,
 * 16 pixels. */
#define FIRST_ROWS 32

static const struct pst_decode_options as_stored = {
    .struct_size = sizeof as_stored, .max_pixels = UINT64_MAX, .ignore_orientation = true};

struct psti_decoder *psti_decode_recode_alone(void *ctx, bool more) { return more ? NULL : ctx; }

/* Hashes the first n_rows rows of an image as they are stored, or all rows if it has fewer. */
static enum pst_status hash_rows(const struct psti_recode_tools *tools, const void *bytes,
                                 size_t nbytes, enum pst_form form, uint32_t n_rows, uint64_t *hash)
{
    struct psti_decoder *decoder = tools->decoder(tools->ctx, false);
    struct pst_image_info info;
    enum pst_status status = PST_ERROR_MEMORY;
    while (decoder) {
        status = psti_decode_probe(decoder, bytes, nbytes, form, &as_stored, &info, NULL);
        if (status == PST_OK)
            status =
                psti_decode_hash_reference(decoder, bytes, nbytes, &info, &as_stored,
                                           info.height < n_rows ? info.height : n_rows, hash, NULL);
        decoder = status == PST_ERROR_LIMIT ? tools->decoder(tools->ctx, true) : NULL;
    }
    return status;
}

/* Returns true if the first n_rows rows of the PLI equal those that libjpeg-turbo decodes from the
 * JPEG. */
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

/* Makes a PLI of the JPEG's coefficients. Fails if it is not shorter than the JPEG. The PLI need
 * not be able to give back the JPEG's file. Its decoded rows are compared with those of the JPEG:
 * for most JPEGs only the first rows, which takes 0.6 of the time of all rows. */
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
    psti_decode_jpeg_try();
    if (status == PST_OK)
        status =
            psti_pli_keep_pixels(&memory, source->bytes, jpeg_nbytes, psti_decode_jpeg_saturates(),
                                 out->bytes, jpeg_nbytes - 1, &nbytes, &is_exact, NULL);
    if (status == PST_OK &&
        !has_same_rows(tools, source, out->bytes, nbytes, is_exact ? FIRST_ROWS : UINT32_MAX))
        status = PST_ERROR_INTERNAL;
    psti_pli_keep_free(&memory);
    *recoded = (struct psti_recoded){out->bytes, nbytes, PST_FORM_PLI_JPEG};
    return status;
}

/* Decodes all pixels of the image in stored orientation. */
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

/* Decodes the PLI as readers do. Returns true if its pixels have the checksum in its header. */
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

/* Returns true if the stored form is lossless. A lossy image stays as it is, because a PLI of its
 * pixels would be several times as long. */
static bool is_lossless(const struct psti_recode_source *source, const struct pst_image_info *info)
{
    return info->form == PST_FORM_RAW || info->form == PST_FORM_PNG ||
           (info->form == PST_FORM_WEBP &&
            psti_decode_webp_is_lossless(source->bytes, (size_t)source->nbytes));
}

/* Returns the form that the image is re-coded to, or PST_FORM_NONE if it stays as it is. */
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
