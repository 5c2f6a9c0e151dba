/* fuzz_decode_webp.c - probes any bytes as a WebP file, and decodes the whole image and a
 * region. */
#include "fuzz/fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    return fuzz_decode(data, nbytes, PST_FORM_WEBP);
}
