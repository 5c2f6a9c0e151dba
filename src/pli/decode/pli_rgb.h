/* pli_rgb.h - RGB pixels as plain C stores them: made as numbers of four bytes, by loops that
 * compilers turn into vectors, each is written over the end of the one before it. */
#ifndef PST_PLI_RGB_H
#define PST_PLI_RGB_H

#include "base/bits.h"

/* n pixels, R in the lowest byte, to 3 n bytes and no more. */
static inline void psti_pli_store_rgb(const uint32_t *pixels, uint32_t n, uint8_t *out)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        psti_store_u32(out + (size_t)3 * i, pixels[i]);
    out += (size_t)3 * (n - 1);
    psti_store_u16(out, (uint16_t)pixels[n - 1]);
    out[2] = (uint8_t)(pixels[n - 1] >> 16);
}

#endif
