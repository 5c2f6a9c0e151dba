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
    uint8_t *pixels[2] = {NULL, NULL};
    struct pst_image_info info;
    struct pst_error err[2];
    enum pst_status status[2];
    uint8_t channels, bits;
    if (pst_image_probe(bytes, nbytes, PST_FORM_PNG, &wish->options, &info, sizeof info, NULL) !=
        PST_OK)
        return;
    const struct psti_rect r = fuzz_region(&info, wish->where);
    psti_decode_output(&info, &wish->options, &channels, &bits);
    size_t row_nbytes = (size_t)r.width * channels * (bits / 8);
    for (int i = 0; i < 2; i++) {
        pixels[i] = malloc(row_nbytes * r.height);
        if (!pixels[i] || psti_decode_open(&decoders[i], NULL) != PST_OK)
            goto out;
        decoders[i]->libpng_only = i == 1;
        pst_error_clear(&err[i]);
        status[i] = psti_decode_region(decoders[i], bytes, nbytes, &info, &wish->options, &r,
                                       pixels[i], row_nbytes, &err[i]);
    }
    FUZZ_CHECK(decoders[1]->n_png_whole == 0);
    if (status[0] == PST_OK && status[1] == PST_OK)
        FUZZ_CHECK(memcmp(pixels[0], pixels[1], row_nbytes * r.height) == 0);
    else if (status[0] != PST_OK || !is_of_zlib(&err[1]))
        FUZZ_CHECK(status[0] == status[1] && strcmp(err[0].text, err[1].text) == 0);
out:
    for (int i = 0; i < 2; i++) {
        psti_decode_close(&decoders[i]);
        free(pixels[i]);
    }
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
