/* fuzz_pli_head.c - reads any bytes as a PLI: info, ranges, the whole image, a region, a channel.
 * If the last byte is odd, the checksums of head and units are corrected, so that the code after
 * those checks is reached. */
#include "fuzz/fuzz_pli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct pst_pli_info info = {0};
    struct pst_pli_range ranges[4];
    struct pst_error err;
    size_t n;
    /* exact size, so a sanitizer detects over-reads */
    uint8_t *bytes = malloc(nbytes ? nbytes : 1);
    memcpy(bytes, data, nbytes);
    if (nbytes > 0 && data[nbytes - 1] & 1)
        fuzz_pli_mend(bytes, nbytes);
    if (pst_pli_info(bytes, nbytes, &info, sizeof info, &err) == PST_OK &&
        (uint64_t)info.height * info.width <= FUZZ_PLI_MAX_PIXELS) {
        struct pst_pli_region middle = {info.height / 3, info.width / 3, (info.height + 2) / 3,
                                        (info.width + 2) / 3};
        if (pst_pli_ranges(bytes, nbytes, &middle, ranges, 4, &n, &err) == PST_OK) {
            (void)fuzz_pli_decode(bytes, nbytes, &info, NULL, -1);
            (void)fuzz_pli_decode(bytes, nbytes, &info, &middle, -1);
            (void)fuzz_pli_decode(bytes, nbytes, &info, NULL, info.channels - 1);
        }
    }
    free(bytes);
    return 0;
}
