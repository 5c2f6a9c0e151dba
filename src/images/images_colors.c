/* images_colors.c - chooses the RGB-to-BGR function for the CPU. Pure; any thread. */
#include "images/images_colors.h"

#include "base/machine/cpu.h"

psti_images_swap psti_images_swap_for(uint32_t features)
{
#if defined(__x86_64__)
    if ((features & PSTI_CPU_AVX2) != 0)
        return psti_images_swap_avx2;
#endif
    (void)features;
    return psti_images_swap_c;
}
