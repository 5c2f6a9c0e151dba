/* fuzz_decode_jpeg.c - probes any bytes as a JPEG file, and decodes the whole image and a
 * region. */
#include "fuzz/fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    return fuzz_decode(data, nbytes, PST_FORM_JPEG);
}
