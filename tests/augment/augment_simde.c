/* augment_simde.c - the AVX-512 kernels, compiled from the same source against SIMDe (which turns
 * each intrinsic into what this machine has), under another name. What SIMDe 0.7.2 lacks or has
 * wrong is written out. */
#define PST_AUGMENT_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16 /* its alias takes the masked form's arguments */

static inline simde__m512 convert_16(simde__m512i v)
{
    simde__m512i_private from = simde__m512i_to_private(v);
    simde__m512_private to;
    for (int i = 0; i < 16; i++)
        to.f32[i] = (float)from.i32[i];
    return simde__m512_from_private(to);
}
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps convert_16

static inline simde__m256i narrow_16(simde__m512i v)
{
    simde__m512i_private from = simde__m512i_to_private(v);
    simde__m256i_private to;
    for (int i = 0; i < 16; i++)
        to.i16[i] = (int16_t)from.i32[i];
    return simde__m256i_from_private(to);
}
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 narrow_16

static inline simde__m512i shift_16(simde__m512i v, simde__m128i count)
{
    simde__m512i_private p = simde__m512i_to_private(v);
    for (int i = 0; i < 16; i++)
        p.i32[i] >>= simde_mm_cvtsi128_si32(count);
    return simde__m512i_from_private(p);
}
#undef _mm512_sra_epi32
#define _mm512_sra_epi32 shift_16

static inline simde__m512i widen_16(simde__m128i v)
{
    simde__m128i_private from = simde__m128i_to_private(v);
    simde__m512i_private to;
    for (int i = 0; i < 16; i++)
        to.i32[i] = from.u8[i];
    return simde__m512i_from_private(to);
}
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 widen_16

#define psti_augment_ops_avx512 psti_augment_ops_simde
#include "augment/augment_kernels.h"

extern const struct psti_augment_ops psti_augment_ops_simde;

#include "augment/augment_kernels_avx512.c"
