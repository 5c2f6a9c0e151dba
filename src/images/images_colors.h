/* images_colors.h - converts RGB pixels to BGR. */
#ifndef PST_IMAGES_IMAGES_COLORS_H
#define PST_IMAGES_IMAGES_COLORS_H

#include <stddef.h>
#include <stdint.h>

/* Copies n pixels of three 8-bit channels and swaps the first and the third channel. `from` and
 * `to` must be equal or must not overlap. */
typedef void (*psti_images_swap)(const uint8_t *from, uint8_t *to, size_t n);
void psti_images_swap_c(const uint8_t *from, uint8_t *to, size_t n);
void psti_images_swap_avx2(const uint8_t *from, uint8_t *to, size_t n); /* x86-64 only */
/* Returns the conversion for a CPU with these features. */
psti_images_swap psti_images_swap_for(uint32_t features);

#endif
