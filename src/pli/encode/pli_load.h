/* pli_load.h - kernels of pli_load.c for RGB of 8 bits without gaps, as most pictures are. */
#ifndef PST_PLI_LOAD_H
#define PST_PLI_LOAD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
/* 64 pixels -> green, red - green + 128, blue - green + 128. */
void psti_pli_split_green8_avx2(const uint8_t *in, uint8_t *green, uint8_t *red, uint8_t *blue);
/* Adds to `plain` what red and blue change from pixel to pixel, to `green` what their differences
 * to green do. */
void psti_pli_add_changes8_avx2(const uint8_t *row, size_t n_pixels, uint64_t *plain,
                                uint64_t *green);
#endif

#endif
