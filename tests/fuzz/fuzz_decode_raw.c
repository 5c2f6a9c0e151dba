/* fuzz_decode_raw.c - decodes raw pixels of any stated size. The size may be wrong and the
 * orientation invalid. The first 8 bytes describe the image. */
#include "fuzz/fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

#define HEAD_NBYTES 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes < HEAD_NBYTES + FUZZ_TAIL_NBYTES)
        return 0;
    struct fuzz_wish wish = fuzz_wish_of(data + nbytes - FUZZ_TAIL_NBYTES);
    nbytes -= HEAD_NBYTES + FUZZ_TAIL_NBYTES;
    struct pst_image_info info = {.form = PST_FORM_RAW,
                                  .height = data[0] | (uint32_t)(data[1] & 3) << 8,
                                  .width = data[2] | (uint32_t)(data[3] & 3) << 8,
                                  .channels = data[4],
                                  .bits = data[5],
                                  .orientation = data[6] & 7 ? data[6] & 7 : 8};
    struct pst_error err;
    uint8_t *block = malloc(nbytes + 1);
    if (!block)
        return 0;
    /* The input lies at the end of its memory block, so AddressSanitizer detects each read past it.
     * Its address is even or odd, depending on its length. */
    uint8_t *bytes = block + 1;
    memcpy(bytes, data + HEAD_NBYTES, nbytes);
    pst_error_clear(&err);
    enum pst_status status =
        psti_decode_probe(NULL, bytes, nbytes, PST_FORM_RAW, &wish.options, &info, &err);
    if (status == PST_OK)
        fuzz_decode_both(bytes, nbytes, &info, &wish);
    else
        FUZZ_CHECK(err.status == status && err.codec[0] && err.text[0]);
    free(block);
    return 0;
}
