/* fuzz_decode_jpeg.c - probe, whole and region of anything that may be a JPEG file. */
#include "fuzz/fuzz_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    return fuzz_decode(data, nbytes, PST_FORM_JPEG);
}
