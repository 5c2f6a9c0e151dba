/* images_colors_c.c - converts RGB to BGR in plain C. This is the reference implementation, and it
 * handles the last pixels for the other CPU levels. Pure; any thread. */
#include "images/images_colors.h"

void psti_images_swap_c(const uint8_t *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < 3 * n; i += 3) {
        uint8_t first = from[i], second = from[i + 1], third = from[i + 2];
        to[i] = third;
        to[i + 1] = second;
        to[i + 2] = first;
    }
}
