/* pli_lz_copy_avx2.c - executes the sequences of an lz unit with AVX2: edges are looked for 32
 * bytes at a time while these bytes are copied. See pli_lz_execute.h. */
#include "decode/pli_lz_copy.h"

#ifdef __x86_64__
#include <immintrin.h>

#define LZ_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define LZ_EDGE copy_to_edge

/* One bit, at its first byte, for each pixel of `a` that is not the same in `b`. */
LZ_TARGET __attribute__((always_inline)) static inline uint32_t differing(__m256i a, __m256i b,
                                                                          const uint32_t P)
{
    uint32_t bytes = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b));
    switch (P) {
    case 1:
        return bytes;
    case 2:
        return (bytes | bytes >> 1) & 0x55555555;
    case 3:
        return (bytes | bytes >> 1 | bytes >> 2) & 0x09249249; /* ten pixels */
    case 4:
        return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)) & 0x11111111;
    case 6:
        bytes |= bytes >> 1 | bytes >> 2;
        return (bytes | bytes >> 3) & 0x01041041; /* five pixels */
    default:
        return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi64(a, b)) & 0x01010101;
    }
}

LZ_TARGET __attribute__((always_inline)) static inline size_t copy_to_edge(uint8_t *to,
                                                                           const uint8_t *from,
                                                                           size_t room, uint32_t n,
                                                                           const uint32_t P)
{
    const uint32_t step = 32 / P * P;
    size_t before = (size_t)(to - from);
    for (size_t i = 0; i < before; i += step) {
        __m256i pixels = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        __m256i next = _mm256_loadu_si256((const __m256i *)(const void *)(from + i + P));
        uint32_t edges = differing(pixels, next, P);
        uint32_t count = (uint32_t)_mm_popcnt_u32(edges);
        if (i + 32 <= room)
            _mm256_storeu_si256((__m256i *)(void *)(to + i), pixels);
        if (count >= n) {
            size_t edge = i + (size_t)_tzcnt_u32(_pdep_u32(1u << (n - 1), edges)) + P;
            return edge < before ? edge : 0;
        }
        n -= count;
    }
    return 0;
}

#include "decode/pli_lz_execute.h"

const char *psti_lz_execute_avx2(struct psti_lz_execution *run, uint32_t pixel_nbytes)
{
    return execute_any(run, pixel_nbytes);
}
#endif
