/* pli_rgb.h - stores RGB pixels in plain C.
 *
 * Loops that compilers vectorise make each pixel a number of four bytes. Each number is stored
 * three bytes after the number before it, and so overwrites that number's fourth byte. */
#ifndef PST_PLI_RGB_H
#define PST_PLI_RGB_H

#include "base/bits.h"

/* Stores n pixels as exactly 3 n bytes. R is in the lowest byte of each number. */
static inline void psti_pli_store_rgb(const uint32_t *pixels, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        psti_store_u32(out + (size_t)3 * i, pixels[i]);
    out += (size_t)3 * (n - 1);
    psti_store_u16(out, (uint16_t)pixels[n - 1]);
    out[2] = (uint8_t)(pixels[n - 1] >> 16);
}

#endif
