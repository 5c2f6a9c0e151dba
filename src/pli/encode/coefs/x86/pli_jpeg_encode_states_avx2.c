/* pli_jpeg_encode_states_avx2.c - codes AC tokens into the 32 states of a unit with AVX2. The words
 * are those of pli_jpeg_encode_write.c. The states are in four vectors; each vector takes eight
 * tokens at once. Pure; any thread. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"
#include "pli/encode/x86/pli_rans_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

enum { LANES = PSTI_JE_LANES, EIGHT = 8, VECTORS = LANES / EIGHT };

INLINE __m256i take_eight(const uint8_t *tokens, const uint64_t *codes, __m256i states,
                          uint16_t **words)
{
    __m256i even = psti_pli_rans_load_four(codes + tokens[0], codes + tokens[2], codes + tokens[4],
                                           codes + tokens[6]);
    __m256i odd = psti_pli_rans_load_four(codes + tokens[1], codes + tokens[3], codes + tokens[5],
                                          codes + tokens[7]);
    return psti_pli_rans_take_eight(PSTI_JPEG_PROB_BITS, even, odd, states, words);
}

/* Codes a group of tokens, or the first part of one, into the first `n` vectors of states. */
INLINE uint16_t *take_group(const uint8_t *group, const uint64_t *codes, uint32_t n, __m256i x[4],
                            uint16_t *words)
{
    if (n > 3)
        x[3] = take_eight(group + (size_t)3 * EIGHT, codes, x[3], &words);
    if (n > 2)
        x[2] = take_eight(group + (size_t)2 * EIGHT, codes, x[2], &words);
    if (n > 1)
        x[1] = take_eight(group + EIGHT, codes, x[1], &words);
    if (n > 0)
        x[0] = take_eight(group, codes, x[0], &words);
    return words;
}

TARGET uint16_t *psti_pli_jpeg_encode_take_eights_avx2(const uint8_t *tokens, uint32_t n_eights,
                                                       const uint64_t *codes, uint32_t *states,
                                                       uint16_t *words)
{
    __m256i x[VECTORS];
    for (uint32_t i = 0; i < VECTORS; i++)
        x[i] = _mm256_loadu_si256((const __m256i *)(states + (size_t)i * EIGHT));
    uint32_t g = n_eights / VECTORS;
    words = take_group(tokens + (size_t)g * LANES, codes, n_eights % VECTORS, x, words);
    while (g-- > 0)
        words = take_group(tokens + (size_t)g * LANES, codes, VECTORS, x, words);
    for (uint32_t i = 0; i < VECTORS; i++)
        _mm256_storeu_si256((__m256i *)(states + (size_t)i * EIGHT), x[i]);
    return words;
}
#endif
