/* decode_reference.c - pst_pli_from_jpeg: keeps a JPEG as PLI and checks it against the pixels of
 * libjpeg-turbo.
 *
 * The module pli (pli/jpegfile/pli_jpeg_keep.c) converts and compares. It has no JPEG decoder of
 * its own, so this file passes it one as the reference. Any thread may call it; each decoder
 * belongs to one thread. */
#include "decode/decode.h"

#include "pli/pli.h"

static enum pst_status hash_by(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                               struct pst_error *err)
{
    return psti_decode_hash_jpeg(ctx, jpeg, nbytes, checksum, err);
}

struct psti_pli_reference psti_decode_jpeg_reference(struct psti_decoder *decoder)
{
    return (struct psti_pli_reference){.hash = hash_by, .ctx = decoder};
}

/* Hashes the pixels of a JPEG with a new decoder, which is closed afterwards. */
static enum pst_status hash_alone(void *ctx, const void *jpeg, size_t nbytes, uint64_t *checksum,
                                  struct pst_error *err)
{
    struct psti_decoder *decoder = NULL;
    (void)ctx;
    enum pst_status status = psti_decode_open(&decoder, err);
    if (status == PST_OK)
        status = psti_decode_hash_jpeg(decoder, jpeg, nbytes, checksum, err);
    psti_decode_close(&decoder);
    return status;
}

enum pst_status pst_pli_from_jpeg(const void *jpeg, size_t jpeg_nbytes,
                                  const struct pst_pli_from_jpeg_options *options, void *pli,
                                  size_t capacity, size_t *nbytes, struct pst_error *err)
{
    static const struct psti_pli_reference reference = {.hash = hash_alone};
    return psti_pli_from_jpeg(&reference, jpeg, jpeg_nbytes, options, pli, capacity, nbytes, err);
}
