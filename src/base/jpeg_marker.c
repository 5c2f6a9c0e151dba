/* jpeg_marker.c - finds the markers of a JPEG for parsers of its headers. Pure functions. The bytes
 * are not trusted. */
#include "base/jpeg_marker.h"

#include <string.h>

size_t psti_jpeg_next_marker(const uint8_t *bytes, size_t nbytes, size_t at)
{
    for (;;) {
        const uint8_t *found = at < nbytes ? memchr(bytes + at, 0xFF, nbytes - at) : NULL;
        if (!found)
            return nbytes;
        at = (size_t)(found - bytes) + 1;
        while (at < nbytes && bytes[at] == 0xFF)
            at++;
        if (at < nbytes && bytes[at] != 0)
            return at;
    }
}
