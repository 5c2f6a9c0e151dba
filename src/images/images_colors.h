/* images_colors.h - turns RGB into BGR. */
#ifndef PST_IMAGES_IMAGES_COLORS_H
#define PST_IMAGES_IMAGES_COLORS_H

#include <stddef.h>
#include <stdint.h>

/* Copies n pixels of 3 channels of 8 bits and swaps the first and the third sample of each. `from`
 * and `to` are the same or do not overlap. */
typedef void (*psti_images_swap)(const uint8_t *from, uint8_t *to, size_t n);
void psti_images_swap_c(const uint8_t *from, uint8_t *to, size_t n);
void psti_images_swap_avx2(const uint8_t *from, uint8_t *to, size_t n); /* x86-64 only */
/* The function for a CPU with these features. */
psti_images_swap psti_images_swap_for(uint32_t features);

#endif
