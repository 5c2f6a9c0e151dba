/* pli_jpeg_encode_states_avx2.c - AC tokens into the 32 states of a unit with AVX2: the same words
 * as pli_jpeg_encode_write.c makes. Four states are in a vector, of 64 bits each; tokens come in
 * groups of 32, one for each state. Pure; any thread. */
#include "encode/pli_jpeg_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

enum { LANES = PSTI_JE_LANES, STATES = 4 };

/* The words of those that are full go before `words`. */
INLINE uint16_t *take_four(const uint8_t *tokens, const uint64_t *codes, uint64_t *states,
                           uint16_t *words)
{
    uint32_t four = psti_load_u32(tokens);
    /* Four loads: quicker than a gather. */
    __m256i code = _mm256_setr_epi64x((int64_t)codes[four & 255], (int64_t)codes[four >> 8 & 255],
                                      (int64_t)codes[four >> 16 & 255], (int64_t)codes[four >> 24]);
    return psti_rans_take_four(PSTI_JPEG_PROB_BITS, code, states, words);
}

TARGET uint16_t *psti_je_take_groups_avx2(const uint8_t *tokens, uint32_t n_groups,
                                          const uint64_t *codes, uint64_t *states, uint16_t *words)
{
    for (uint32_t g = n_groups; g-- > 0;)
        for (int32_t l = LANES - STATES; l >= 0; l -= STATES)
            words = take_four(tokens + (size_t)g * LANES + l, codes, states + l, words);
    return words;
}
#else
/* An empty file is none in C. */
typedef int psti_je_no_states_avx2;
#endif
