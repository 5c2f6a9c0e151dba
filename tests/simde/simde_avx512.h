/* simde_avx512.h - AVX-512 by emulation: SIMDe turns each intrinsic into what this machine has.
 * What SIMDe 0.7 lacks or has wrong is written out here.
 *
 * A test's file includes this, gives the functions of a file of kernels other names by macros, and
 * includes that file; pst_simde() in its CMakeLists.txt compiles it. */
#ifndef PST_TESTS_SIMDE_AVX512_H
#define PST_TESTS_SIMDE_AVX512_H

#define PST_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <stdint.h>

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

static inline simde__m512i shift_16_by(simde__m512i v, unsigned count)
{
    simde__m512i_private p = simde__m512i_to_private(v);
    for (int i = 0; i < 16; i++)
        p.i32[i] >>= count;
    return simde__m512i_from_private(p);
}
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 shift_16_by

#endif
