/* fuzz_orientation.c - reads an orientation from metadata: a block of EXIF, XMP, an APP1
 * segment, and the chunks of a PNG, unchanged and with corrected checksums.
 *
 * Besides crashes it detects results outside of 1 to 8, XMP that reads differently in pieces,
 * and a PNG whose orientation depends on bytes behind its last chunk. */
#include "base/bits.h"
#include "base/orientation.h"
#include "decode/png/decode_png.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static uint8_t in_pieces(const uint8_t *text, size_t nbytes, size_t piece)
{
    struct psti_xmp_search search = {0};
    for (size_t at = 0; at < nbytes; at += piece)
        psti_xmp_search(&search, text + at, nbytes - at < piece ? nbytes - at : piece);
    return search.orientation;
}

/* Gives the chunks of a PNG correct checksums. Returns the offset behind the last chunk. */
static size_t fix_checksums(uint8_t *file, size_t nbytes)
{
    size_t at = 8;
    while (nbytes >= at && nbytes - at >= 12) {
        size_t n = psti_load_u32_big(file + at);
        if (n > nbytes - at - 12)
            break;
        uint32_t sum = __builtin_bswap32(libdeflate_crc32(0, file + at + 4, n + 4));
        memcpy(file + at + 8 + n, &sum, 4);
        at += n + 12;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct psti_orientation_marks marks = {0};
    CHECK(psti_exif_orientation(data, nbytes) <= 8);
    uint8_t xmp = psti_xmp_orientation(data, nbytes);
    CHECK(xmp <= 8);
    for (size_t piece = 1; piece < 20; piece += 3)
        CHECK(in_pieces(data, nbytes, piece) == xmp);
    psti_orientation_take_app1(&marks, data, nbytes);
    psti_orientation_take_app1(&marks, data, nbytes / 2);
    CHECK(psti_orientation_of(&marks) >= 1 && psti_orientation_of(&marks) <= 8);
    CHECK(psti_decode_png_orientation(data, nbytes) <= 8);
    uint8_t *file = malloc(nbytes + 1);
    CHECK(file);
    memcpy(file, data, nbytes);
    size_t end = fix_checksums(file, nbytes);
    uint8_t found = psti_decode_png_orientation(file, nbytes);
    CHECK(found >= 1 && found <= 8);
    if (end < nbytes)
        CHECK(psti_decode_png_orientation(file, end) == found);
    free(file);
    return 0;
}
