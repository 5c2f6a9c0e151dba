/* pli_jpeg_encode_states_avx2.c - AC tokens into the 32 states of a unit with AVX2: the same words
 * as pli_jpeg_encode_write.c makes. Four states are in a vector, of 64 bits each; tokens come in
 * groups of 32, one for each state. Pure; any thread. */
#include "encode/pli_jpeg_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

enum { LANES = PSTI_JE_LANES, STATES = 4 };

/* Four dwords' low words, those of the mask, up to byte 8. */
#define W(i) 4 * (i), 4 * (i) + 1
#define NO -1, -1
static const int8_t pick[16][16] = {
    {NO, NO, NO, NO},     {NO, NO, NO, W(0)},     {NO, NO, NO, W(1)},     {NO, NO, W(0), W(1)},
    {NO, NO, NO, W(2)},   {NO, NO, W(0), W(2)},   {NO, NO, W(1), W(2)},   {NO, W(0), W(1), W(2)},
    {NO, NO, NO, W(3)},   {NO, NO, W(0), W(3)},   {NO, NO, W(1), W(3)},   {NO, W(0), W(1), W(3)},
    {NO, NO, W(2), W(3)}, {NO, W(0), W(2), W(3)}, {NO, W(1), W(2), W(3)}, {W(0), W(1), W(2), W(3)}};
#undef W
#undef NO

INLINE __m256i field(__m256i v, int shift, int bits)
{
    return _mm256_and_si256(_mm256_srli_epi64(v, shift), _mm256_set1_epi64x((1 << bits) - 1));
}

/* The words of those that are full go before `words`. */
INLINE uint16_t *take_four(const uint8_t *tokens, const uint64_t *codes, uint64_t *states,
                           uint16_t *words)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    uint32_t four = psti_load_u32(tokens);
    /* Four loads: quicker than a gather. */
    __m256i code = _mm256_setr_epi64x((int64_t)codes[four & 255], (int64_t)codes[four >> 8 & 255],
                                      (int64_t)codes[four >> 16 & 255], (int64_t)codes[four >> 24]);
    __m256i x = _mm256_loadu_si256((const __m256i *)states);
    __m256i rest = field(code, PSTI_JE_QUICK_REST_SHIFT, PSTI_JPEG_PROB_BITS);
    /* full: x >> 20 is not below the frequency. */
    __m256i sum = _mm256_add_epi64(_mm256_srli_epi64(x, 32 - PSTI_JPEG_PROB_BITS), rest);
    __m256i full = _mm256_cmpgt_epi64(sum, _mm256_set1_epi64x(PSTI_JPEG_PROB_SUM - 1));
    uint32_t mask = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(full));
    __m128i low = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(x, even));
    low = _mm_shuffle_epi8(low, _mm_loadu_si128((const __m128i *)pick[mask]));
    _mm_storel_epi64((__m128i *)(words - STATES), low);
    x = _mm256_blendv_epi8(x, _mm256_srli_epi64(x, 16), full);
    __m256i down = _mm256_srli_epi64(code, PSTI_JE_QUICK_DOWN_SHIFT);
    __m256i quotient = _mm256_srlv_epi64(_mm256_mul_epu32(_mm256_add_epi64(x, down), code),
                                         field(code, PSTI_JE_QUICK_S_SHIFT, 6));
    x = _mm256_add_epi64(x, field(code, PSTI_JE_QUICK_FIRST_SHIFT, PSTI_JPEG_PROB_BITS));
    x = _mm256_add_epi64(x, _mm256_mul_epu32(quotient, rest));
    _mm256_storeu_si256((__m256i *)states, x);
    return words - _mm_popcnt_u32(mask);
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
