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
