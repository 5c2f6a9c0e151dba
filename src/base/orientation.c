/* orientation.c - finds the orientation of a picture in its EXIF and XMP metadata.
 *
 * In: blocks of metadata, which are often broken. Out: a number from 1 to 8. Pure functions, any
 * thread. An EXIF block is a small TIFF file: a byte order mark, the offset of a directory, and
 * entries of 12 bytes. Only tag 0x0112 of the first directory is read. XMP is XML, but it is not
 * parsed: as in Pillow, the text tiff:Orientation is searched for. A picture with broken metadata
 * is shown as it is stored. */
#include "base/orientation.h"

#include "base/bits.h"

#include <string.h>

#define TAG_ORIENTATION 0x0112
#define XMP_NAME "http://ns.adobe.com/xap/1.0/" /* includes the string's own NUL */

enum tiff_type {
    TIFF_BYTE = 1,
    TIFF_ASCII,
    TIFF_SHORT,
    TIFF_LONG,
    TIFF_RATIONAL,
    TIFF_SBYTE,
    TIFF_UNDEFINED,
    TIFF_SSHORT,
    TIFF_SLONG,
    TIFF_SRATIONAL,
    TIFF_FLOAT,
    TIFF_DOUBLE,
    TIFF_IFD,
    TIFF_LONG8 = 16
};

/* Bytes of one value, indexed by TIFF type. 0: the type does not exist. */
static const uint8_t value_nbytes[] = {
    [TIFF_BYTE] = 1,     [TIFF_ASCII] = 1,     [TIFF_SHORT] = 2,     [TIFF_LONG] = 4,
    [TIFF_RATIONAL] = 8, [TIFF_SBYTE] = 1,     [TIFF_UNDEFINED] = 1, [TIFF_SSHORT] = 2,
    [TIFF_SLONG] = 4,    [TIFF_SRATIONAL] = 8, [TIFF_FLOAT] = 4,     [TIFF_DOUBLE] = 8,
    [TIFF_IFD] = 4,      [TIFF_LONG8] = 8};

static uint32_t load_u16(const uint8_t *p, bool big)
{
    return big ? (uint32_t)p[0] << 8 | p[1] : psti_load_u16(p);
}

static uint32_t load_u32(const uint8_t *p, bool big)
{
    return big ? psti_load_u32_big(p) : psti_load_u32(p);
}

static uint64_t load_u64(const uint8_t *p, bool big)
{
    return big ? __builtin_bswap64(psti_load_u64(p)) : psti_load_u64(p);
}

static double load_float(const uint8_t *p, bool big)
{
    uint32_t bits = load_u32(p, big);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double load_double(const uint8_t *p, bool big)
{
    uint64_t bits = load_u64(p, big);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns the number at `p`. As in Pillow, it is 0 for types that hold text or bytes. */
static double load_number(const uint8_t *p, uint32_t type, bool big)
{
    switch (type) {
    case TIFF_SHORT:
        return load_u16(p, big);
    case TIFF_SSHORT:
        return (int16_t)load_u16(p, big);
    case TIFF_SBYTE:
        return (int8_t)*p;
    case TIFF_LONG:
    case TIFF_IFD:
        return load_u32(p, big);
    case TIFF_SLONG:
        return (int32_t)load_u32(p, big);
    case TIFF_LONG8:
        return (double)load_u64(p, big);
    case TIFF_RATIONAL:
        return (double)load_u32(p, big) / load_u32(p + 4, big);
    case TIFF_SRATIONAL:
        return (double)(int32_t)load_u32(p, big) / (int32_t)load_u32(p + 4, big);
    case TIFF_FLOAT:
        return load_float(p, big);
    case TIFF_DOUBLE:
        return load_double(p, big);
    default:
        return 0;
    }
}

static uint8_t valid(double value)
{
    return value >= 1 && value <= 8 && (uint8_t)value == value ? (uint8_t)value : 1;
}

/* Reads the entry with the orientation tag. Returns 0 if the data end before its value: then the
 * entry counts as missing. */
static uint8_t entry_orientation(const uint8_t *tiff, size_t nbytes, const uint8_t *entry, bool big)
{
    uint32_t type = load_u16(entry + 2, big);
    size_t unit = type < sizeof value_nbytes ? value_nbytes[type] : 0;
    uint64_t size = (uint64_t)unit * load_u32(entry + 4, big);
    const uint8_t *value = entry + 8;
    if (size == 0)
        return 0;
    if (size > 4) {
        uint32_t offset = load_u32(entry + 8, big);
        if (offset > nbytes || size > nbytes - offset)
            return 0;
        value = tiff + offset;
    }
    return valid(load_number(value, type, big));
}

uint8_t psti_exif_orientation(const uint8_t *block, size_t nbytes)
{
    for (int i = 0; i < 2 && nbytes >= PSTI_EXIF_PREFIX_NBYTES &&
                    memcmp(block, PSTI_EXIF_PREFIX, PSTI_EXIF_PREFIX_NBYTES) == 0;
         i++) {
        block += PSTI_EXIF_PREFIX_NBYTES;
        nbytes -= PSTI_EXIF_PREFIX_NBYTES;
    }
    if (nbytes == 0)
        return 0;
    if (nbytes < 8 || (block[0] != 'I' && block[0] != 'M') || block[0] != block[1])
        return 1;
    bool big = block[0] == 'M';
    if (load_u16(block + 2, big) != 42)
        return 1;
    size_t offset = load_u32(block + 4, big);
    if (offset > nbytes - 2)
        return 0;
    uint32_t n_entries = load_u16(block + offset, big);
    uint8_t found = 0;
    offset += 2;
    for (uint32_t i = 0; i < n_entries && found == 0 && nbytes - offset >= 12; i++, offset += 12)
        if (load_u16(block + offset, big) == TAG_ORIENTATION)
            found = entry_orientation(block, nbytes, block + offset, big);
    return found;
}

/* The text that is searched for. It is followed by =" or by > and then by the digit. */
static const char XMP_TAG[] = "tiff:Orientation";
enum {
    XMP_TAG_LENGTH = sizeof XMP_TAG - 1,
    XMP_EQUALS = XMP_TAG_LENGTH + 1, /* the tag and the = have matched */
    XMP_OPEN                         /* the next character must be the digit */
};

/* Returns how many characters of the pattern match after `c` is read, if `n` matched before it. */
static uint8_t next_state(uint8_t n, uint8_t c)
{
    if (n < XMP_TAG_LENGTH && c == (uint8_t)XMP_TAG[n])
        return n + 1;
    if (n == XMP_TAG_LENGTH && c == '=')
        return XMP_EQUALS;
    if ((n == XMP_TAG_LENGTH && c == '>') || (n == XMP_EQUALS && c == '"'))
        return XMP_OPEN;
    /* The tag itself contains "t" again, after "tiff:Orien", so a new tag may begin at that
     * letter. */
    if (n > 1 && n <= XMP_TAG_LENGTH && XMP_TAG[n - 1] == 't' && c == 'i')
        return 2;
    return c == 't';
}

void psti_xmp_search(struct psti_xmp_search *search, const uint8_t *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes && search->orientation == 0; i++) {
        if (search->n_matched == 0) {
            const uint8_t *t = memchr(text + i, 't', nbytes - i);
            if (!t)
                return;
            i = (size_t)(t - text);
        }
        if (search->n_matched == XMP_OPEN && text[i] >= '0' && text[i] <= '9')
            search->orientation = valid(text[i] - '0');
        else
            search->n_matched = next_state(search->n_matched, text[i]);
    }
}

uint8_t psti_xmp_orientation(const uint8_t *text, size_t nbytes)
{
    struct psti_xmp_search search = {0};
    psti_xmp_search(&search, text, nbytes);
    return search.orientation;
}

void psti_orientation_take_app1(struct psti_orientation_marks *marks, const uint8_t *segment,
                                size_t nbytes)
{
    if (nbytes >= PSTI_EXIF_PREFIX_NBYTES &&
        memcmp(segment, PSTI_EXIF_PREFIX, PSTI_EXIF_PREFIX_NBYTES) == 0) {
        if (!marks->has_exif)
            marks->exif = psti_exif_orientation(segment, nbytes);
        marks->has_exif = true;
    } else if (nbytes >= sizeof XMP_NAME && memcmp(segment, XMP_NAME, sizeof XMP_NAME) == 0) {
        marks->xmp = psti_xmp_orientation(segment + sizeof XMP_NAME, nbytes - sizeof XMP_NAME);
    }
}

uint8_t psti_orientation_of(const struct psti_orientation_marks *marks)
{
    uint8_t found = marks->has_exif ? marks->exif : 0;
    if (found == 0)
        found = marks->xmp;
    return found == 0 ? 1 : found;
}
