/* pli_load.h - kernels of pli_load.c for RGB of 8 bits without gaps, as most pictures are. */
#ifndef PST_PLI_LOAD_H
#define PST_PLI_LOAD_H

#include <stddef.h>
#include <stdint.h>

/* Splits n pixels, at most 64, into green, red - green + 128 and blue - green + 128. May read and
 * write as if n were 64. */
typedef void psti_pli_split_green(const uint8_t *in, uint32_t n, uint8_t *green, uint8_t *red,
                                  uint8_t *blue);
psti_pli_split_green psti_pli_split_green_u8_c, psti_pli_split_green_u8_avx2;
/* Adds to `plain` the changes of red and blue from pixel to pixel, and to `green` the changes of
 * their differences to green. */
typedef void psti_pli_add_changes(const uint8_t *row, size_t n_pixels, uint64_t *plain,
                                  uint64_t *green);
psti_pli_add_changes psti_pli_add_changes_u8_avx2;

#endif
