/* fuzz_decode_jpeg.c - probes any bytes as a JPEG file, and decodes the whole image and a region.
 * It decodes the same with libjpeg-turbo's decoder alone: pixels and errors must be the same. */
#include "fuzz/fuzz_decode.h"

#include "decode/decode_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void compare_roads(const uint8_t *bytes, size_t nbytes, const struct fuzz_wish *wish)
{
    struct psti_decoder *decoders[2] = {NULL, NULL};
    uint8_t *pixels[2] = {NULL, NULL};
    struct pst_image_info info;
    struct pst_error err[2];
    enum pst_status status[2];
    uint8_t channels, bits;
    if (pst_image_probe(bytes, nbytes, PST_FORM_JPEG, &wish->options, &info, sizeof info, NULL) !=
        PST_OK)
        return;
    const struct psti_rect r = fuzz_region(&info, wish->where);
    psti_decode_output(&info, &wish->options, &channels, &bits);
    size_t row_nbytes = (size_t)r.width * channels * (bits / 8);
    for (int i = 0; i < 2; i++) {
        pixels[i] = malloc(row_nbytes * r.height);
        if (!pixels[i] || psti_decode_open(&decoders[i], NULL) != PST_OK)
            goto out;
        decoders[i]->libjpeg_only = i == 1;
        pst_error_clear(&err[i]);
        status[i] = psti_decode_region(decoders[i], bytes, nbytes, &info, &wish->options, &r,
                                       pixels[i], row_nbytes, &err[i]);
    }
    FUZZ_CHECK(decoders[1]->n_jpeg_direct == 0);
    FUZZ_CHECK(status[0] == status[1]);
    if (status[0] == PST_OK)
        FUZZ_CHECK(memcmp(pixels[0], pixels[1], row_nbytes * r.height) == 0);
    else
        FUZZ_CHECK(strcmp(err[0].text, err[1].text) == 0);
out:
    for (int i = 0; i < 2; i++) {
        psti_decode_close(&decoders[i]);
        free(pixels[i]);
    }
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
