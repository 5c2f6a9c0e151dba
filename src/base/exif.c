/* exif.c - the orientation of a picture.
 *
 * An EXIF block is a small TIFF file: a byte order mark, the offset of a directory, and entries
 * of 12 bytes. Only tag 0x0112 of the first directory is read. Broken blocks are common and
 * harmless: the picture is then shown as it is. */
#include "base/exif.h"

#include "base/bits.h"

#include <stdbool.h>

#define TAG_ORIENTATION 0x0112
enum { TIFF_BYTE = 1, TIFF_SHORT = 3, TIFF_LONG = 4 };

static uint32_t load_u16(const uint8_t *p, bool big)
{
    return big ? (uint32_t)p[0] << 8 | p[1] : psti_load_u16(p);
}

static uint32_t load_u32(const uint8_t *p, bool big)
{
    return big ? __builtin_bswap32(psti_load_u32(p)) : psti_load_u32(p);
}

static uint8_t entry_orientation(const uint8_t *entry, bool big)
{
    uint32_t type = load_u16(entry + 2, big), value = 0;
    if (type == TIFF_SHORT)
        value = load_u16(entry + 8, big);
    else if (type == TIFF_LONG)
        value = load_u32(entry + 8, big);
    else if (type == TIFF_BYTE)
        value = entry[8];
    return value >= 1 && value <= 8 ? (uint8_t)value : 1;
}

uint8_t psti_exif_orientation(const uint8_t *tiff, size_t nbytes)
{
    if (nbytes < 8 || (tiff[0] != 'I' && tiff[0] != 'M') || tiff[0] != tiff[1])
        return 1;
    bool big = tiff[0] == 'M';
    size_t offset = load_u32(tiff + 4, big);
    if (load_u16(tiff + 2, big) != 42 || offset > nbytes - 2)
        return 1;
    uint32_t n_entries = load_u16(tiff + offset, big);
    offset += 2;
    for (uint32_t i = 0; i < n_entries && nbytes - offset >= 12; i++, offset += 12)
        if (load_u16(tiff + offset, big) == TAG_ORIENTATION)
            return entry_orientation(tiff + offset, big);
    return 1;
}
