/* pli_packed_simde.c - the AVX-512 kernels of mode packed, compiled from the same source against
 * SIMDe (which turns each intrinsic into what this machine has), under another name. */
#define PST_PLI_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

static inline uint64_t spread_bits(uint64_t bits, uint64_t mask)
{
    uint64_t out = 0;
    for (; mask; mask &= mask - 1, bits >>= 1)
        out |= bits & 1 ? mask & (~mask + 1) : 0;
    return out;
}
#define _pdep_u64 spread_bits
#define _mm_popcnt_u64 __builtin_popcountll

/* What SIMDe 0.7 lacks. */
static inline simde__m512i align_lanes(simde__m512i high, simde__m512i low, int by)
{
    uint64_t in[16], out[8];
    simde_mm512_storeu_si512(in, low);
    simde_mm512_storeu_si512(in + 8, high);
    for (int i = 0; i < 8; i++)
        out[i] = in[i + by];
    return simde_mm512_loadu_si512(out);
}
#undef _mm512_alignr_epi64
#define _mm512_alignr_epi64 align_lanes

static inline simde__m512i shift_bytes(simde__m512i v, int by)
{
    uint8_t in[64], out[64];
    simde_mm512_storeu_si512(in, v);
    for (int i = 0; i < 64; i++)
        out[i] = i % 16 >= by ? in[i - by] : 0;
    return simde_mm512_loadu_si512(out);
}
#undef _mm512_bslli_epi128
#define _mm512_bslli_epi128 shift_bytes

static inline simde__m512i widen_bytes(simde__m128i v)
{
    uint8_t in[16];
    uint64_t out[8];
    simde_mm_storeu_si128((simde__m128i *)(void *)in, v);
    for (int i = 0; i < 8; i++)
        out[i] = in[i];
    return simde_mm512_loadu_si512(out);
}
#undef _mm512_cvtepu8_epi64
#define _mm512_cvtepu8_epi64 widen_bytes

static inline simde__m512i move_parts(unsigned mask, simde__m512i a, simde__m512i b, unsigned which)
{
    uint64_t in[2][8], out[8];
    simde_mm512_storeu_si512(in[0], a);
    simde_mm512_storeu_si512(in[1], b);
    for (unsigned i = 0; i < 8; i++)
        out[i] = mask >> i & 1 ? in[i / 4][2 * (which >> 2 * (i / 2) & 3) + i % 2] : 0;
    return simde_mm512_loadu_si512(out);
}
#undef _mm512_maskz_shuffle_i64x2
#define _mm512_maskz_shuffle_i64x2 move_parts

#define psti_packed_kernels_avx512 psti_packed_kernels_simde
#include "decode/pli_packed_avx512.c"
