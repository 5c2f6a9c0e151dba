/* decode_png_unfilter_levels.c - chooses the functions that undo PNG filters for a CPU level. The
 * tables are constant; any thread may use them. */
#include "decode/png/decode_png_unfilter.h"

#include "base/machine/cpu.h"

const struct psti_unfilter_ops *psti_decode_unfilter_ops_for(uint32_t features)
{
#if defined(__x86_64__)
    if ((features & PSTI_CPU_AVX2) != 0)
        return &psti_unfilter_ops_avx2;
#elif defined(__aarch64__)
    if ((features & PSTI_CPU_NEON) != 0)
        return &psti_unfilter_ops_neon;
#endif
    (void)features;
    return &psti_unfilter_ops_c;
}
