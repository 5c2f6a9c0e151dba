/* fuzz_pli_head.c - anything that may be a PLI: info, ranges, whole, region, channel. An odd last
 * byte asks for the head's checksum to be set right, so that what lies behind it is reached. */
#include "fuzz/fuzz_pli.h"

#include "base/bits.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

/* The head's checksum as the law defines it. */
static void set_checksum(uint8_t *bytes, size_t nbytes)
{
    struct psti_pli_header header;
    struct psti_hash_state state;
    if (psti_pli_parse_header(bytes, nbytes, &header, NULL) != PST_OK ||
        psti_pli_head_nbytes(&header) > nbytes)
        return;
    psti_hash_begin(&state);
    psti_hash_update(&state, bytes, 32);
    psti_hash_update(&state, bytes + PSTI_PLI_HEADER_NBYTES,
                     psti_pli_head_nbytes(&header) - PSTI_PLI_HEADER_NBYTES);
    psti_store_u64(bytes + 32, psti_hash_end(&state));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct pst_pli_info info = {.struct_size = sizeof info};
    struct pst_pli_range ranges[4];
    struct pst_error err;
    size_t n;
    uint8_t *bytes = malloc(nbytes ? nbytes : 1); /* exact: over-reads are seen */
    memcpy(bytes, data, nbytes);
    if (nbytes > 0 && data[nbytes - 1] & 1)
        set_checksum(bytes, nbytes);
    if (pst_pli_info(bytes, nbytes, &info, &err) == PST_OK &&
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
