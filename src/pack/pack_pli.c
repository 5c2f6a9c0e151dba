/* pack_pli.c - encodes pixels as PLI, and reads from a stored PLI how it was encoded.
 *
 * In: pixels in memory and the plan. Out: an encoded image in the caller's buffer. The image may
 * become the only copy of the pixels, so it is decoded again and compared by checksum. Any worker,
 * with its own decoder. Workers handle different samples in parallel, so the encoder uses one
 * thread. */
#include "pack/pack_int.h"
#include "verify/verify.h"

#include "base/fail.h"

#include <inttypes.h>
#include <stdio.h>

enum { EFFORT_STANDARD = 3 };

static const char *tier_name(enum pst_pli_tier tier)
{
    static const char *const names[] = {"?", "fast", "small", "dense"};
    return (unsigned)tier < sizeof names / sizeof *names ? names[tier] : names[0];
}

void psti_pack_pli_text(const struct psti_pack_pli *pli, char out[64])
{
    snprintf(out, 64, "tier %s, effort %u, max_error %u", tier_name(pli->tier), pli->effort,
             pli->max_error);
}

void psti_pack_pli_options(const struct pst_pack_options *options, struct psti_pack_pli *pli)
{
    pli->given = options->pli_tier || options->pli_effort || options->pli_max_error;
    pli->tier = options->pli_tier ? options->pli_tier : PST_PLI_TIER_SMALL;
    pli->effort = options->pli_effort ? options->pli_effort : EFFORT_STANDARD;
    pli->max_error = options->pli_max_error;
}

bool psti_pack_pli_read(const void *head, size_t nbytes, struct psti_pack_pli *pli)
{
    struct psti_pli_header header;
    if (psti_pli_parse_header(head, nbytes, &header, NULL) != PST_OK ||
        header.content != PST_PLI_CONTENT_PIXELS)
        return false;
    pli->tier = (enum pst_pli_tier)header.tier;
    pli->effort = header.effort;
    pli->max_error = header.max_error;
    return true;
}

struct psti_pack_pli psti_pack_pli_of(const struct psti_pack_plan *plan, enum pst_field_type type,
                                      const struct psti_pack_forms *forms, uint32_t k)
{
    struct psti_pack_pli pli = plan->pli;
    if (forms->tiers[k] != 0) {
        pli.tier = forms->tiers[k];
        pli.tier_given = true;
    }
    if (forms->max_errors[k] != 0) {
        pli.max_error = forms->max_errors[k];
        pli.tier_given = true;
    }
    if (type == PST_FIELD_MASK) /* near-lossless would change class numbers */
        pli.max_error = 0;
    return pli;
}

bool psti_pack_pli_fits(const struct psti_pack_pli *held, const struct psti_pack_pli *wanted)
{
    if (wanted->given)
        return psti_pack_pli_equal(held, wanted);
    return !wanted->tier_given ||
           (held->tier == wanted->tier &&
            (wanted->max_error == 0 || held->max_error == wanted->max_error));
}

bool psti_pack_pli_equal(const struct psti_pack_pli *a, const struct psti_pack_pli *b)
{
    return a->tier == b->tier && a->effort == b->effort && a->max_error == b->max_error;
}

/* Decodes the encoded image again, with the decoder that readers use. */
static enum pst_status check(struct psti_decoder *decoder, const void *bytes, size_t nbytes,
                             uint64_t *checksum, struct pst_error *err)
{
    const struct pst_decode_options options = {.struct_size = sizeof options,
                                               .max_pixels = UINT64_MAX};
    struct pst_pli_info head = {0};
    struct pst_image_info info;
    uint64_t found = 0;
    enum pst_status status =
        pst_pli_info(bytes, nbytes < PSTI_PLI_HEADER_NBYTES ? nbytes : PSTI_PLI_HEADER_NBYTES,
                     &head, sizeof head, err);
    if (status == PST_OK)
        status = psti_decode_probe(decoder, bytes, nbytes, PST_FORM_PLI, &options, &info, err);
    if (status == PST_OK)
        status = psti_decode_hash_pixels(decoder, bytes, nbytes, &info, &options, &found, err);
    if (status == PST_OK && found != head.pixel_checksum)
        status =
            psti_fail(err, PST_ERROR_INTERNAL, "pack",
                      "the encoded image has pixels with checksum %016" PRIx64 ", not %016" PRIx64,
                      found, head.pixel_checksum);
    *checksum = head.pixel_checksum;
    return status;
}

enum pst_status psti_pack_pli_encode(const struct psti_pack_pli *pli, struct psti_decoder *decoder,
                                     const struct pst_pixels *pixels, struct psti_buffer *blob,
                                     struct pst_value *value, struct pst_error *err)
{
    const struct pst_pli_encode_options options = {.struct_size = sizeof options,
                                                   .tier = pli->tier,
                                                   .effort = pli->effort,
                                                   .max_error = pli->max_error};
    size_t bound =
        pst_pli_encode_bound(pixels->height, pixels->width, pixels->channels, pixels->bits);
    if (bound == 0)
        return psti_fail(err, PST_ERROR_LIMIT, "pack", "%ux%u pixels are too many for PLI",
                         pixels->width, pixels->height);
    enum pst_status status = psti_buffer_reserve(blob, bound, "pack", "of an item", err);
    if (status == PST_OK)
        status = pst_pli_encode(pixels, &options, blob->bytes, blob->capacity, &value->nbytes, err);
    if (status == PST_OK)
        status = check(decoder, blob->bytes, value->nbytes, &value->pixel_checksum, err);
    value->bytes = blob->bytes;
    value->form = PST_FORM_PLI;
    value->has_pixel_checksum = status == PST_OK;
    return status;
}
