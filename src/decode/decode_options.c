/* decode_options.c - reads the options of a decode, and tells which channels and bits they ask for.
 * Pure functions, any thread. */
#include "decode/decode_options.h"

#include "base/options.h"
#include "decode/decode_job.h"

#define MAX_PIXELS_DEFAULT ((uint64_t)1 << 28)

enum pst_status psti_decode_read_options(const struct pst_decode_options *options,
                                         struct pst_decode_options *out, enum pst_form form,
                                         struct pst_error *err)
{
    enum pst_status status = psti_options_copy(out, sizeof *out, options, PSTI_ROOM, err);
    if (status != PST_OK) {
        psti_error_set_codec(err, pst_form_name(form));
        return status;
    }
    if (out->max_pixels == 0)
        out->max_pixels = MAX_PIXELS_DEFAULT;
    if (out->channels != 0 && out->channels != 1 && out->channels != 3 && out->channels != 4)
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(form), -1,
                                "cannot decode to %u channels, only to 1, 3 or 4", out->channels);
    if (out->bits != 0 && out->bits != 8 && out->bits != 16)
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(form), -1,
                                "cannot decode to %u bits, only to 8 or 16", out->bits);
    if (out->orientation > 8)
        return psti_decode_fail(err, PST_ERROR_ARGUMENT, pst_form_name(form), -1,
                                "orientation %u is not one of 1 to 8", out->orientation);
    return PST_OK;
}

void psti_decode_output(const struct pst_image_info *info, const struct pst_decode_options *options,
                        uint8_t *channels, uint8_t *bits)
{
    struct pst_decode_options full;
    *channels = info->channels;
    *bits = info->bits;
    if (psti_decode_read_options(options, &full, info->form, NULL) != PST_OK)
        return;
    /* palette indices are numbers of classes, not colours, so they are never converted */
    if (info->palette && full.palette_indices)
        return;
    if (full.channels)
        *channels = full.channels;
    if (full.bits)
        *bits = full.bits;
}
