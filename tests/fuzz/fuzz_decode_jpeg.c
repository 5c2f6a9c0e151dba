/* fuzz_decode_jpeg.c - probes any bytes as a JPEG file, and decodes the whole image and a region.
 * It decodes the same with libjpeg-turbo's decoder alone: pixels and errors must be the same. */
#include "fuzz/fuzz_decode.h"

#include "decode/decode_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void compare_roads(const uint8_t *bytes, size_t nbytes, const struct fuzz_wish *wish)
{
    struct psti_decoder *decoders[2] = {NULL, NULL};
    struct fuzz_ways ways;
    for (int i = 0; i < 2; i++) {
        if (psti_decode_open(&decoders[i], NULL) != PST_OK)
            goto out;
        decoders[i]->libjpeg_only = i == 1;
    }
    if (!fuzz_decode_by(decoders, bytes, nbytes, PST_FORM_JPEG, wish, &ways))
        goto out;
    FUZZ_CHECK(decoders[1]->n_jpeg_direct == 0);
    FUZZ_CHECK(ways.status[0] == ways.status[1]);
    if (ways.status[0] == PST_OK)
        FUZZ_CHECK(ways.same_pixels);
    else
        FUZZ_CHECK(strcmp(ways.err[0].text, ways.err[1].text) == 0);
out:
    for (int i = 0; i < 2; i++)
        psti_decode_close(&decoders[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    fuzz_decode(data, nbytes, PST_FORM_JPEG);
    if (nbytes < FUZZ_TAIL_NBYTES)
        return 0;
    const struct fuzz_wish wish = fuzz_wish_of(data + nbytes - FUZZ_TAIL_NBYTES);
    compare_roads(data, nbytes - FUZZ_TAIL_NBYTES, &wish);
    return 0;
}
