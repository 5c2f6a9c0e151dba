/* augment_kernels.c - chooses the table of inner loops for a CPU level. The tables are constant;
 * any thread may use them. */
#include "augment/kernels/augment_kernels.h"

#include "base/machine/cpu.h"

const struct psti_augment_ops *psti_augment_ops_for(uint32_t features)
{
#if defined(__x86_64__)
    if ((features & PSTI_CPU_AVX512) != 0 && (features & PSTI_CPU_AVX512_ICL) != 0)
        return &psti_augment_ops_icl;
    if ((features & PSTI_CPU_AVX512) != 0)
        return &psti_augment_ops_avx512;
    if ((features & PSTI_CPU_AVX2) != 0)
        return &psti_augment_ops_avx2;
#elif defined(__aarch64__)
    if ((features & PSTI_CPU_NEON) != 0)
        return &psti_augment_ops_neon;
#endif
    (void)features;
    return &psti_augment_ops_c;
}
