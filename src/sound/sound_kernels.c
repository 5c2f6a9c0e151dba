/* sound_kernels.c - chooses the inner loops for the CPU's level. The tables are constant; any
 * thread may use them. */
#include "sound/sound_kernels.h"

#include "base/machine/cpu.h"

const struct psti_sound_kernels *psti_sound_kernels_for(uint32_t features)
{
#if defined(__x86_64__)
    if ((features & PSTI_CPU_AVX2) != 0)
        return &psti_sound_kernels_avx2;
#endif
    (void)features;
    return &psti_sound_kernels_c;
}
