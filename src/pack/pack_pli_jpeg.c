/* pack_pli_jpeg.c - pst_pli_from_jpeg: a JPEG kept as PLI, compared with the pixels of
 * libjpeg-turbo.
 *
 * The codec (pli/jpegfile/pli_jpeg_keep.c) converts and proves. It has no JPEG decoder of its
 * own, so this file passes it the one of decode/ as the reference. Any thread. */
#include "pack/pack_int.h"

#include "base/fail.h"
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

static enum pst_status hash_jpeg(void *ctx, const void *bytes, size_t nbytes, uint64_t *hash,
                                 struct pst_error *err)
{
    return psti_decode_hash_jpeg(ctx, bytes, nbytes, hash, err);
}

struct psti_pli_reference psti_pack_jpeg_reference(struct psti_decoder *decoder)
{
    return (struct psti_pli_reference){.hash = hash_jpeg, .ctx = decoder};
}

enum pst_status pst_pli_from_jpeg(const void *jpeg, size_t jpeg_nbytes,
                                  const struct pst_pli_from_jpeg_options *options, void *pli,
                                  size_t capacity, size_t *nbytes, struct pst_error *err)
{
    struct pst_pli_from_jpeg_options filled;
    struct psti_pli_keep keep = {0};
    struct psti_decoder *decoder = NULL;
    /* The file is read four times. A copy protects against changes of the caller's bytes
     * meanwhile. */
    struct psti_buffer own = {0};
    if (jpeg == NULL || pli == NULL || nbytes == NULL)
        return psti_fail(err, PST_ERROR_ARGUMENT, "pack", "jpeg, pli or nbytes is NULL");
    enum pst_status status = psti_options_copy(&filled, sizeof filled, options, "pack", err);
    if (status == PST_OK && filled.unit_edge != 0 && filled.unit_edge != 64 &&
        filled.unit_edge != 128 && filled.unit_edge != 256)
        status =
            psti_fail(err, PST_ERROR_ARGUMENT, "pack",
                      "unit_edge is %" PRIu32 ": 64, 128, 256 or 0 are possible", filled.unit_edge);
    if (status == PST_OK)
        status = psti_decode_open(&decoder, err);
    if (status == PST_OK)
        status = psti_buffer_reserve(&own, jpeg_nbytes, "pack", "to convert a JPEG", err);
    if (status == PST_OK) {
        const struct psti_pli_reference reference = psti_pack_jpeg_reference(decoder);
        memcpy(own.bytes, jpeg, jpeg_nbytes);
        status = psti_pli_keep_jpeg(&keep, &reference, own.bytes, jpeg_nbytes, &filled, pli,
                                    capacity, nbytes, err);
    }
    psti_decode_close(&decoder);
    psti_pli_keep_free(&keep);
    psti_buffer_free(&own);
    return status;
}
