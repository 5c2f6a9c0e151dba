/* images_colors.c - turns RGB into BGR in plain C, and chooses the function for a CPU. Pure; any
 * thread. */
#include "images/images_colors.h"

#include "base/cpu.h"

void psti_images_swap_c(const uint8_t *from, uint8_t *to, size_t n)
{
    for (size_t i = 0; i < 3 * n; i += 3) {
        uint8_t first = from[i], second = from[i + 1], third = from[i + 2];
        to[i] = third;
        to[i + 1] = second;
        to[i + 2] = first;
    }
}

psti_images_swap psti_images_swap_for(uint32_t features)
{
#if defined(__x86_64__)
    if ((features & PSTI_CPU_AVX2) != 0)
        return psti_images_swap_avx2;
#endif
    (void)features;
    return psti_images_swap_c;
}
