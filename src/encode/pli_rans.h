/* pli_rans.h - tokens into rANS states of 32 bits, by vectors: what the modes' encoders share.
 *
 * A token's code is 64 bits, for probabilities of `prob_bits` bits, 10 or 12. Bits 0..31 are a
 * reciprocal, 2^s / freq rounded to the nearer side; then come prob_bits of 2^prob_bits - freq,
 * prob_bits of the first slot, 6 of s, and, in bit 63, whether it was rounded down: x divided by
 * freq is (x + bit 63) * reciprocal >> s. With s = 31 + log2 freq, rounded up,
 * the reciprocal is below 2^32, and its product with freq off 2^s by some e of at most freq / 2. A
 * state that takes a token is below freq * 2^(32 - prob_bits), e times that at most 2^s: so the
 * quotient is exact. */
#ifndef PST_ENCODE_PLI_RANS_H
#define PST_ENCODE_PLI_RANS_H

#include <stdbool.h>
#include <stdint.h>

enum { PSTI_RANS_REST_SHIFT = 32, PSTI_RANS_DOWN_SHIFT = 63, PSTI_RANS_S_BITS = 6 };

/* `freq` 1..2^prob_bits. */
static inline uint64_t psti_rans_code(uint32_t prob_bits, uint32_t freq, uint32_t first)
{
    uint64_t s = freq < 2 ? 31 : 63 - (uint64_t)__builtin_clz(freq - 1);
    uint64_t reciprocal = ((1ull << s) + freq - 1) / freq;
    bool down = reciprocal * freq - (1ull << s) > freq / 2;
    return (reciprocal - down) | (uint64_t)((1u << prob_bits) - freq) << PSTI_RANS_REST_SHIFT |
           (uint64_t)first << (PSTI_RANS_REST_SHIFT + prob_bits) |
           s << (PSTI_RANS_REST_SHIFT + 2 * prob_bits) | (uint64_t)down << PSTI_RANS_DOWN_SHIFT;
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Four dwords' low words, those of the mask, up to byte 8. */
#define W(i) 4 * (i), 4 * (i) + 1
#define NO -1, -1
static const int8_t psti_rans_pick[16][16] = {
    {NO, NO, NO, NO},     {NO, NO, NO, W(0)},     {NO, NO, NO, W(1)},     {NO, NO, W(0), W(1)},
    {NO, NO, NO, W(2)},   {NO, NO, W(0), W(2)},   {NO, NO, W(1), W(2)},   {NO, W(0), W(1), W(2)},
    {NO, NO, NO, W(3)},   {NO, NO, W(0), W(3)},   {NO, NO, W(1), W(3)},   {NO, W(0), W(1), W(3)},
    {NO, NO, W(2), W(3)}, {NO, W(0), W(2), W(3)}, {NO, W(1), W(2), W(3)}, {W(0), W(1), W(2), W(3)}};
#undef W
#undef NO

#define PSTI_RANS_INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

PSTI_RANS_INLINE __m256i psti_rans_field(__m256i codes, uint32_t shift, uint32_t bits)
{
    return _mm256_and_si256(_mm256_srli_epi64(codes, (int)shift),
                            _mm256_set1_epi64x((1 << bits) - 1));
}

/* Four states, of 64 bits each, take a token each; the words of those that are full go before
 * `end`, of which four are written. Returns where the words begin then. */
PSTI_RANS_INLINE uint16_t *psti_rans_take_four(uint32_t prob_bits, __m256i codes, uint64_t *states,
                                               uint16_t *end)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)states);
    __m256i rest = psti_rans_field(codes, PSTI_RANS_REST_SHIFT, prob_bits);
    /* full: x >> (32 - prob_bits) is not below the frequency. */
    __m256i sum = _mm256_add_epi64(_mm256_srli_epi64(x, (int)(32 - prob_bits)), rest);
    __m256i full = _mm256_cmpgt_epi64(sum, _mm256_set1_epi64x((1 << prob_bits) - 1));
    uint32_t mask = (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(full));
    __m128i low = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(x, even));
    low =
        _mm_shuffle_epi8(low, _mm_loadu_si128((const __m128i *)(const void *)psti_rans_pick[mask]));
    _mm_storel_epi64((__m128i *)(void *)(end - 4), low);
    x = _mm256_blendv_epi8(x, _mm256_srli_epi64(x, 16), full);
    __m256i down = _mm256_srli_epi64(codes, PSTI_RANS_DOWN_SHIFT);
    __m256i s = psti_rans_field(codes, PSTI_RANS_REST_SHIFT + 2 * prob_bits, PSTI_RANS_S_BITS);
    __m256i quotient = _mm256_srlv_epi64(_mm256_mul_epu32(_mm256_add_epi64(x, down), codes), s);
    x = _mm256_add_epi64(x, psti_rans_field(codes, PSTI_RANS_REST_SHIFT + prob_bits, prob_bits));
    x = _mm256_add_epi64(x, _mm256_mul_epu32(quotient, rest));
    _mm256_storeu_si256((__m256i *)(void *)states, x);
    return end - _mm_popcnt_u32(mask);
}
#endif

#endif
