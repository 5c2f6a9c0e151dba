/* avx512.h - includes the intrinsics of AVX-512, and defines attributes for functions that use
 * them.
 *
 * Tests also compile such files against SIMDe, to run them on machines without AVX-512. They define
 * PST_SIMDE and include the intrinsics first (tests/simde/simde_avx512.h). */
#ifndef PST_BASE_AVX512_H
#define PST_BASE_AVX512_H

#if defined(__x86_64__)
#include <stdint.h>

#if defined(PST_SIMDE)
#define PSTI_AVX512_TARGET
#define PSTI_ICL_TARGET
#else
#include <immintrin.h>
/* Attributes of a function that needs PSTI_CPU_AVX512. */
#define PSTI_AVX512_TARGET                                                                         \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,bmi,bmi2,f16c,"        \
                          "popcnt")))
/* Attributes of a function that needs PSTI_CPU_AVX512_ICL. */
#define PSTI_ICL_TARGET                                                                            \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vbmi2,"    \
                          "avx512vnni,avx512bitalg,avx512vpopcntdq,gfni,avx2,bmi,bmi2,f16c,"       \
                          "popcnt,prfchw")))
#endif
#define PSTI_AVX512_INLINE static inline __attribute__((always_inline)) PSTI_AVX512_TARGET
#define PSTI_ICL_INLINE static inline __attribute__((always_inline)) PSTI_ICL_TARGET

PSTI_AVX512_INLINE uint64_t psti_avx512_sum_u64(__m512i v)
{
    uint64_t lanes[8], sum = 0;
    _mm512_storeu_si512(lanes, v);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

/* Expansions and compressions. Other bytes, or words, of the result are 0. On AMD's Zen 5 these
 * instructions wait for the old value of the register that they write, even where they set all of
 * it: a loop waits for whatever the compiler kept there before, often the end of its last turn. So
 * they write a register that was just set to 0. The compiler must not know that it is 0, or it
 * would leave that out. */
#if defined(PST_SIMDE)
#define psti_avx512_expand_bytes _mm512_maskz_expand_epi8
#define psti_avx512_expand_32_bytes _mm256_maskz_expand_epi8
#define psti_avx512_compress_bytes _mm512_maskz_compress_epi8
#define psti_avx512_compress_words _mm512_maskz_compress_epi16
#else
PSTI_ICL_INLINE __m512i psti_avx512_new_zero(void)
{
    __m512i zero = _mm512_setzero_si512();
    __asm__("" : "+v"(zero));
    return zero;
}
PSTI_ICL_INLINE __m512i psti_avx512_expand_bytes(__mmask64 places, __m512i v)
{
    return _mm512_mask_expand_epi8(psti_avx512_new_zero(), places, v);
}
PSTI_ICL_INLINE __m256i psti_avx512_expand_32_bytes(__mmask32 places, __m256i v)
{
    return _mm256_mask_expand_epi8(_mm512_castsi512_si256(psti_avx512_new_zero()), places, v);
}
PSTI_ICL_INLINE __m512i psti_avx512_compress_bytes(__mmask64 chosen, __m512i v)
{
    return _mm512_mask_compress_epi8(psti_avx512_new_zero(), chosen, v);
}
PSTI_ICL_INLINE __m512i psti_avx512_compress_words(__mmask32 chosen, __m512i v)
{
    return _mm512_mask_compress_epi16(psti_avx512_new_zero(), chosen, v);
}
#endif

/* Adds to each 32-bit sum the products of two pairs of 16-bit values (VPDPWSSD). clang would
 * compile the intrinsic to VPMADDWD and VPADDD, unless it is told that VPDPWSSD is fast. */
PSTI_ICL_INLINE __m512i psti_avx512_add_products(__m512i sums, __m512i a, __m512i b)
{
#if defined(__clang__) && !defined(PST_SIMDE)
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
    return sums;
#else
    return _mm512_dpwssd_epi32(sums, a, b);
#endif
}
#endif

#endif
