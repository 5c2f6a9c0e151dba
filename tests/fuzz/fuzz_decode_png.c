/* fuzz_decode_png.c - probes any bytes as a PNG file, and decodes the whole image and a region,
 * unchanged or with corrected checksums. It decodes the same with libpng alone: pixels and errors
 * must be the same. */
#include "fuzz/fuzz_decode.h"

#include "decode/decode_int.h"

#include <libdeflate.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static void fix_checksums(uint8_t *file, size_t nbytes)
{
    for (size_t at = 8; at + 12 <= nbytes;) {
        uint32_t n = (uint32_t)file[at] << 24 | (uint32_t)file[at + 1] << 16 |
                     (uint32_t)file[at + 2] << 8 | file[at + 3];
        if (n > nbytes - at - 12)
            return;
        uint32_t sum = __builtin_bswap32(libdeflate_crc32(0, file + at + 4, (size_t)n + 4));
        memcpy(file + at + 8 + n, &sum, 4);
        at += (size_t)n + 12;
    }
}

/* True for an error that only zlib reports: libdeflate accepts some codes that zlib refuses. */
static bool is_of_zlib(const struct pst_error *err)
{
    return strstr(err->text, "invalid") || strstr(err->text, "too many");
}

static void compare_roads(const uint8_t *bytes, size_t nbytes, const struct fuzz_wish *wish)
{
    struct psti_decoder *decoders[2] = {NULL, NULL};
    struct fuzz_ways ways;
    for (int i = 0; i < 2; i++) {
        if (psti_decode_open(&decoders[i], NULL) != PST_OK)
            goto out;
        decoders[i]->libpng_only = i == 1;
    }
    if (!fuzz_decode_by(decoders, bytes, nbytes, PST_FORM_PNG, wish, &ways))
        goto out;
    FUZZ_CHECK(decoders[1]->n_png_whole == 0);
    if (ways.status[0] == PST_OK && ways.status[1] == PST_OK)
        FUZZ_CHECK(ways.same_pixels);
    else if (ways.status[0] != PST_OK || !is_of_zlib(&ways.err[1]))
        FUZZ_CHECK(ways.status[0] == ways.status[1] &&
                   strcmp(ways.err[0].text, ways.err[1].text) == 0);
out:
    for (int i = 0; i < 2; i++)
        psti_decode_close(&decoders[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    fuzz_decode(data, nbytes, PST_FORM_PNG);
    if (nbytes < FUZZ_TAIL_NBYTES)
        return 0;
    uint8_t *copy = malloc(nbytes);
    if (!copy)
        return 0;
    memcpy(copy, data, nbytes);
    nbytes -= FUZZ_TAIL_NBYTES;
    struct fuzz_wish wish = fuzz_wish_of(copy + nbytes);
    compare_roads(copy, nbytes, &wish);
    fix_checksums(copy, nbytes);
    compare_roads(copy, nbytes, &wish);
    free(copy);
    return 0;
}
