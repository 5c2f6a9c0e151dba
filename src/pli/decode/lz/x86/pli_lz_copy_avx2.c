/* pli_lz_copy_avx2.c - executes the sequences of an lz unit with AVX2. It searches edges 32 bytes
 * at a time and copies these bytes on the way. pli_lz_execute.h has the loop. */
#include "pli/decode/lz/pli_lz_copy.h"

#ifdef __x86_64__
#include <immintrin.h>

#define LZ_TARGET __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define LZ_INLINE LZ_TARGET __attribute__((always_inline))
#define LZ_MOVE move_wide
#define LZ_REPEAT repeat
#define LZ_EDGE copy_to_edge

LZ_INLINE static inline void move_wide(uint8_t *to, const uint8_t *from)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)from);
    _mm256_storeu_si256((__m256i *)(void *)to, bytes);
}

/* The pattern stays in a register, because a load would wait for the bytes just written. */
LZ_INLINE static inline void repeat(uint8_t *to, size_t distance, size_t nbytes)
{
    if (distance > 16) {
        for (size_t i = 0; i < nbytes; i += distance)
            move_wide(to + i, to + i - distance);
        return;
    }
    const uint8_t *order = psti_lz_repeats[distance - 1];
    __m128i before = _mm_loadu_si128((const __m128i *)(const void *)(to - distance));
    __m256i pattern = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(before),
                                          _mm256_loadu_si256((const __m256i *)(const void *)order));
    size_t step = WIDE - (order[WIDE - 1] + 1u) % distance; /* whole repetitions only */
    for (size_t i = 0; i < nbytes; i += step)
        _mm256_storeu_si256((__m256i *)(void *)(to + i), pattern);
}

/* Compares each of the WIDE / P pixels with the next one. Returns a bit for each pixel that
 * differs, at the number of its first byte. */
LZ_INLINE static inline uint32_t edges_of(const uint8_t *from, const uint32_t P)
{
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)from);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + P));
    uint32_t bytes = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b));
    switch (P) {
    case 1:
        return bytes;
    case 2:
        return (bytes | bytes >> 1) & 0x55555555;
    case 3:
        return (bytes | bytes >> 1 | bytes >> 2) & 0x09249249;
    case 4:
        return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi32(a, b)) & 0x11111111;
    case 6:
        bytes |= bytes >> 1 | bytes >> 2;
        return (bytes | bytes >> 3) & 0x01041041;
    default:
        return ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi64(a, b)) & 0x01010101;
    }
}

/* Returns the offset of the n-th edge in bytes. */
LZ_INLINE static inline size_t place_of(uint64_t edges, uint32_t n)
{
    return (size_t)_tzcnt_u64(_pdep_u64(1ull << (n - 1), edges));
}

LZ_INLINE static inline size_t copy_to_edge(uint8_t *to, const uint8_t *from, size_t room,
                                            uint32_t n, const uint32_t P)
{
    const uint32_t step = WIDE / P * P;
    size_t before = (size_t)(to - from), i = 0;
    /* Does two vectors per turn. Most copies end in the first turn, which makes the branch
     * predictable. Near the end of the pixels it does one vector a turn and copies nothing, because
     * the search reads WIDE + P bytes. */
    for (; i < before && i + 2 * WIDE + P <= room; i += 2 * step) {
        uint64_t edges = edges_of(from + i, P) | (uint64_t)edges_of(from + i + step, P) << step;
        uint32_t count = (uint32_t)_mm_popcnt_u64(edges);
        move_wide(to + i, from + i);
        move_wide(to + i + step, from + i + step);
        if (count >= n) {
            size_t edge = i + place_of(edges, n) + P;
            return edge < before ? edge : 0;
        }
        n -= count;
    }
    for (; i < before; i += step) {
        uint32_t edges = edges_of(from + i, P), count = (uint32_t)_mm_popcnt_u32(edges);
        if (count >= n) {
            size_t edge = i + place_of(edges, n) + P;
            return edge < before ? edge : 0;
        }
        n -= count;
    }
    return 0;
}

#include "pli/decode/lz/pli_lz_execute.h"

const char *psti_pli_lz_execute_avx2(struct psti_lz_execution *run, uint32_t pixel_nbytes)
{
    return execute_any(run, pixel_nbytes);
}
#endif
