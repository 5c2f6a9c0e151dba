/* containers_zip_name.c - decodes names and times of zip members, which have several forms.
 *
 * In: the bytes of a name and of the extra fields. Out: the name in UTF-8, the time in seconds. */
#include "containers/containers_zip_int.h"

#include "base/bits.h"
#include "base/inflate.h"

#include <string.h>

enum { EXTRA_NAME = 0x7075 }; /* id of Info-ZIP's extra field: the name in UTF-8 */

/* The characters 128 to 255 of code page 437. */
static const uint16_t code_page[128] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7,
    0x00ea, 0x00eb, 0x00e8, 0x00ef, 0x00ee, 0x00ec, 0x00c4, 0x00c5,
    0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2, 0x00fb, 0x00f9,
    0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192,
    0x00e1, 0x00ed, 0x00f3, 0x00fa, 0x00f1, 0x00d1, 0x00aa, 0x00ba,
    0x00bf, 0x2310, 0x00ac, 0x00bd, 0x00bc, 0x00a1, 0x00ab, 0x00bb,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556,
    0x2555, 0x2563, 0x2551, 0x2557, 0x255d, 0x255c, 0x255b, 0x2510,
    0x2514, 0x2534, 0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f,
    0x255a, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256c, 0x2567,
    0x2568, 0x2564, 0x2565, 0x2559, 0x2558, 0x2552, 0x2553, 0x256b,
    0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580,
    0x03b1, 0x00df, 0x0393, 0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4,
    0x03a6, 0x0398, 0x03a9, 0x03b4, 0x221e, 0x03c6, 0x03b5, 0x2229,
    0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248,
    0x00b0, 0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0,
};

const uint8_t *psti_containers_zip_extra(const uint8_t *extra, size_t nbytes, uint16_t id,
                                         uint16_t *n)
{
    while (nbytes >= 4) {
        *n = psti_load_u16(extra + 2);
        if (*n > nbytes - 4)
            return NULL;
        if (psti_load_u16(extra) == id)
            return extra + 4;
        nbytes -= 4 + (size_t)*n;
        extra += 4 + (size_t)*n;
    }
    return NULL;
}

/* Returns the bytes of the UTF-8 character at `at`; 0 if it is not valid (RFC 3629). */
static size_t character(const uint8_t *at, size_t nbytes)
{
    if (*at < 0x80)
        return 1;
    size_t n = *at >= 0xc2 && *at <= 0xdf ? 2 : *at >= 0xe0 && *at <= 0xef ? 3 : 4;
    if (*at < 0xc2 || *at > 0xf4 || n > nbytes)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Not valid: an overlong form, half of a surrogate pair, or a code point beyond U+10FFFF. */
    if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
        (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
}

static bool is_valid(const uint8_t *bytes, size_t nbytes)
{
    for (size_t n; nbytes > 0; bytes += n, nbytes -= n) {
        n = character(bytes, nbytes);
        if (n == 0)
            return false;
    }
    return true;
}

/* Writes one character of code page 437 as UTF-8. Returns the bytes written, at most 3. */
static size_t put(char *to, uint8_t byte)
{
    uint16_t code = byte < 0x80 ? byte : code_page[byte - 0x80];
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    to[0] = (char)(0xe0 | code >> 12);
    to[1] = (char)(0x80 | (code >> 6 & 0x3f));
    to[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

enum pst_status psti_containers_zip_name(const struct psti_zip_text *text, bool is_utf8,
                                         char name[PSTI_ZIP_NAME_CAP], const char **what)
{
    const uint8_t *bytes = text->name;
    size_t nbytes = text->n_name;
    uint16_t n = 0;
    const uint8_t *other = psti_containers_zip_extra(text->extra, text->n_extra, EXTRA_NAME, &n);
    /* The field holds the CRC-32 of the plain name. If the CRC differs, a program renamed the
     * member without updating the field, and the field is ignored. */
    if (!is_utf8 && other != NULL && n > 5 && other[0] == 1 &&
        psti_load_u32(other + 1) == psti_crc32(0, bytes, nbytes)) {
        bytes = other + 5;
        nbytes = (size_t)n - 5;
        is_utf8 = true;
    }
    *what = "is too long";
    if (text->n_name == 0 || nbytes == 0 || memchr(bytes, '\0', nbytes) != NULL) {
        *what = "is empty, or has a NUL";
        return PST_ERROR_CORRUPT;
    }
    if (is_utf8) {
        if (nbytes >= PSTI_ZIP_NAME_CAP)
            return PST_ERROR_LIMIT;
        *what = "is not UTF-8, as it says";
        if (!is_valid(bytes, nbytes))
            return PST_ERROR_CORRUPT;
        memcpy(name, bytes, nbytes);
        name[nbytes] = '\0';
        return PST_OK;
    }
    size_t at = 0;
    for (size_t i = 0; i < nbytes; i++) {
        if (at + 3 >= PSTI_ZIP_NAME_CAP)
            return PST_ERROR_LIMIT;
        at += put(name + at, bytes[i]);
    }
    name[at] = '\0';
    return PST_OK;
}

int64_t psti_containers_zip_time(uint16_t date, uint16_t time)
{
    int64_t year = 1980 + (date >> 9), month = date >> 5 & 15, day = date & 31;
    int64_t hour = time >> 11, minute = time >> 5 & 63, second = 2 * (time & 31);
    if (month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59)
        return 0;
    /* Count days from 1 March 1970, in years that begin in March, because leap days then come last.
     * From 1980 to 2107 each fourth year is a leap year, except 2100. */
    int64_t years = year - 1970 - (month < 3), months = (month + 9) % 12;
    int64_t days = 365 * years + (years + 2) / 4 + (153 * months + 2) / 5 + day - 1;
    days -= year > 2100 || (year == 2100 && month >= 3);
    return ((days + 59) * 24 + hour) * 3600 + minute * 60 + second;
}
