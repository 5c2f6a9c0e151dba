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
#include <simde/x86/gfni.h>

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

/* Intrinsics that SIMDe 0.7 lacks. */
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

#undef _mm512_stream_ps
#define _mm512_stream_ps simde_mm512_storeu_ps

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
#define _mm512_madd_epi16 simde_mm512_madd_epi16 /* SIMDe's alias expects a masked form */

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

static inline simde__m512i truncate_16(simde__m512 v)
{
    simde__m512_private from = simde__m512_to_private(v);
    simde__m512i_private to;
    for (int i = 0; i < 16; i++)
        to.i32[i] = (int32_t)from.f32[i];
    return simde__m512i_from_private(to);
}
#undef _mm512_cvttps_epi32
#define _mm512_cvttps_epi32 truncate_16

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

static inline simde__m256i narrow_floats(simde__m512 v, int rounding)
{
    float in[16];
    uint16_t out[16];
    simde_mm512_storeu_ps(in, v);
    for (int i = 0; i < 16; i += 4)
        simde_mm_storel_epi64((simde__m128i *)(void *)(out + i),
                              simde_mm_cvtps_ph(simde_mm_loadu_ps(in + i), rounding));
    return simde_mm256_loadu_si256((const simde__m256i *)(const void *)out);
}
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph narrow_floats

static inline simde__m128i narrow_16_to_8(simde__m512i v)
{
    uint32_t in[16];
    uint8_t out[16];
    simde_mm512_storeu_si512(in, v);
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)in[i];
    return simde_mm_loadu_si128((const simde__m128i *)out);
}
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 narrow_16_to_8

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

/* Comparisons of lanes that give masks. */
#define COMPARE(name, lanes, type, n, operator)                                                    \
    static inline uint64_t name(simde__m512i a, simde__m512i b)                                    \
    {                                                                                              \
        simde__m512i_private x = simde__m512i_to_private(a), y = simde__m512i_to_private(b);       \
        uint64_t mask = 0;                                                                         \
        for (int i = 0; i < n; i++)                                                                \
            mask |= (uint64_t)((type)x.lanes[i] operator(type) y.lanes[i]) << i;                   \
        return mask;                                                                               \
    }
COMPARE(greater_i16, i16, int16_t, 32, >)
COMPARE(greater_u16, u16, uint16_t, 32, >)
COMPARE(less_u16, u16, uint16_t, 32, <)
#undef COMPARE
#undef _mm512_cmpgt_epi16_mask
#define _mm512_cmpgt_epi16_mask(a, b) ((simde__mmask32)greater_i16(a, b))
#undef _mm512_cmpgt_epu16_mask
#define _mm512_cmpgt_epu16_mask(a, b) ((simde__mmask32)greater_u16(a, b))
#undef _mm512_cmplt_epu16_mask
#define _mm512_cmplt_epu16_mask(a, b) ((simde__mmask32)less_u16(a, b))

static inline simde__m512i compress_u16(uint32_t mask, simde__m512i v)
{
    simde__m512i_private from = simde__m512i_to_private(v);
    simde__m512i_private to = simde__m512i_to_private(simde_mm512_setzero_si512());
    for (int i = 0, n = 0; i < 32; i++)
        if (mask >> i & 1)
            to.u16[n++] = from.u16[i];
    return simde__m512i_from_private(to);
}
#undef _mm512_maskz_compress_epi16
#define _mm512_maskz_compress_epi16 compress_u16

/* Bit operations on general registers, and sums of products of words. */
static inline uint64_t gather_bits(uint64_t bits, uint64_t mask)
{
    uint64_t out = 0;
    for (int i = 0; mask; mask &= mask - 1, i++)
        out |= (uint64_t)((bits & mask & (~mask + 1)) != 0) << i;
    return out;
}
#define _pext_u64 gather_bits
#define _mm_popcnt_u32 __builtin_popcount

#if !defined(__mmask8) /* SIMDe defines these as types if it uses the processor's own */
#define __mmask8 simde__mmask8
#define __mmask16 simde__mmask16
#define __mmask32 simde__mmask32
#define __mmask64 simde__mmask64
#endif

static inline simde__m512i expand_u16(simde__m512i from, uint32_t mask, simde__m512i v)
{
    simde__m512i_private words = simde__m512i_to_private(v), to = simde__m512i_to_private(from);
    for (int i = 0, n = 0; i < 32; i++)
        if (mask >> i & 1)
            to.u16[i] = words.u16[n++];
    return simde__m512i_from_private(to);
}
#undef _mm512_mask_expand_epi16
#define _mm512_mask_expand_epi16 expand_u16

static inline simde__m512i high_products_u16(simde__m512i a, simde__m512i b)
{
    simde__m512i_private x = simde__m512i_to_private(a), y = simde__m512i_to_private(b);
    for (int i = 0; i < 32; i++)
        x.u16[i] = (uint16_t)((uint32_t)x.u16[i] * y.u16[i] >> 16);
    return simde__m512i_from_private(x);
}
#undef _mm512_mulhi_epu16
#define _mm512_mulhi_epu16 high_products_u16

#undef _mm512_testn_epi16_mask
#define _mm512_testn_epi16_mask(a, b) ((simde__mmask32)~simde_mm512_test_epi16_mask(a, b))
#undef _mm512_testn_epi8_mask
#define _mm512_testn_epi8_mask(a, b) ((simde__mmask64)~simde_mm512_test_epi8_mask(a, b))

/* Operations lane by lane that SIMDe lacks. */
#define LANE_BY_LANE(name, vector, lanes, n, lane)                                                 \
    static inline vector name(vector from, uint64_t mask, vector a, vector b)                      \
    {                                                                                              \
        vector##_private to = vector##_to_private(from);                                           \
        vector##_private x = vector##_to_private(a), y = vector##_to_private(b);                   \
        for (int i = 0; i < n; i++)                                                                \
            if (mask >> i & 1)                                                                     \
                to.lanes[i] = lane;                                                                \
        return vector##_from_private(to);                                                          \
    }
LANE_BY_LANE(add_some_u8, simde__m512i, u8, 64, (uint8_t)(x.u8[i] + y.u8[i]))
LANE_BY_LANE(sub_some_u8, simde__m512i, u8, 64, (uint8_t)(x.u8[i] - y.u8[i]))
LANE_BY_LANE(add_some_u16, simde__m512i, u16, 32, (uint16_t)(x.u16[i] + y.u16[i]))
LANE_BY_LANE(sub_some_u16, simde__m512i, u16, 32, (uint16_t)(x.u16[i] - y.u16[i]))
LANE_BY_LANE(add_some_of_32_u8, simde__m256i, u8, 32, (uint8_t)(x.u8[i] + y.u8[i]))
LANE_BY_LANE(sub_some_of_32_u8, simde__m256i, u8, 32, (uint8_t)(x.u8[i] - y.u8[i]))
#undef LANE_BY_LANE
#undef _mm512_mask_add_epi8
#define _mm512_mask_add_epi8 add_some_u8
#undef _mm512_mask_sub_epi8
#define _mm512_mask_sub_epi8 sub_some_u8
#undef _mm512_mask_add_epi16
#define _mm512_mask_add_epi16 add_some_u16
#undef _mm512_mask_sub_epi16
#define _mm512_mask_sub_epi16 sub_some_u16
#undef _mm256_mask_add_epi8
#define _mm256_mask_add_epi8 add_some_of_32_u8
#undef _mm256_mask_sub_epi8
#define _mm256_mask_sub_epi8 sub_some_of_32_u8

static inline simde__m512i shift_pairs_u16(simde__m512i high, simde__m512i low, unsigned count)
{
    simde__m512i_private a = simde__m512i_to_private(high), b = simde__m512i_to_private(low);
    for (int i = 0; i < 32; i++)
        a.u16[i] = (uint16_t)(((uint32_t)a.u16[i] << 16 | b.u16[i]) << count >> 16);
    return simde__m512i_from_private(a);
}
#undef _mm512_shldi_epi16
#define _mm512_shldi_epi16 shift_pairs_u16

static inline simde__m512i widen_32(simde__m256i v)
{
    simde__m256i_private from = simde__m256i_to_private(v);
    simde__m512i_private to;
    for (int i = 0; i < 32; i++)
        to.u16[i] = from.u8[i];
    return simde__m512i_from_private(to);
}
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16 widen_32

static inline simde__m512i expand_u8(uint64_t mask, simde__m512i v)
{
    simde__m512i_private from = simde__m512i_to_private(v), to;
    for (int i = 0, n = 0; i < 64; i++)
        to.u8[i] = mask >> i & 1 ? from.u8[n++] : 0;
    return simde__m512i_from_private(to);
}
#undef _mm512_maskz_expand_epi8
#define _mm512_maskz_expand_epi8 expand_u8
static inline simde__m256i expand_32(uint32_t mask, simde__m256i v)
{
    return simde_mm512_castsi512_si256(expand_u8(mask, simde_mm512_castsi256_si512(v)));
}
#undef _mm256_maskz_expand_epi8
#define _mm256_maskz_expand_epi8 expand_32

static inline simde__m512i compress_u8(uint64_t mask, simde__m512i v)
{
    simde__m512i_private from = simde__m512i_to_private(v);
    simde__m512i_private to = simde__m512i_to_private(simde_mm512_setzero_si512());
    for (int i = 0, n = 0; i < 64; i++)
        if (mask >> i & 1)
            to.u8[n++] = from.u8[i];
    return simde__m512i_from_private(to);
}
#undef _mm512_maskz_compress_epi8
#define _mm512_maskz_compress_epi8 compress_u8

static inline simde__m512i load_some(uint64_t mask, const void *at)
{
    uint8_t bytes[64];
    for (int i = 0; i < 64; i++)
        bytes[i] = mask >> i & 1 ? ((const uint8_t *)at)[i] : 0;
    return simde_mm512_loadu_si512(bytes);
}
#undef _mm512_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi8 load_some

#endif
