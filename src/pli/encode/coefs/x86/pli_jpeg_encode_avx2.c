/* pli_jpeg_encode_avx2.c - makes tokens and raw bits of AC coefficients with AVX2 and BMI2. The
 * results are those of pli_jpeg_encode_tokens.c. Bits of equal weight of a group of 64 form a mask
 * of 64 bits, from which pext extracts the bits of the coefficients that have such a bit. Pure; any
 * thread. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

enum { HALF = 32, GROUP = 64, LARGEST = PSTI_JPEG_N_AC_TOKENS - 1, N_CLASS_BITS = 5 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }
INLINE void store(void *p, __m256i v) { _mm256_storeu_si256(p, v); }

/* Narrows 32 words to bytes, in order. */
INLINE __m256i narrow(__m256i low, __m256i high)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
}

/* Widens bytes 0..15 to words, or, if `half` is 1, bytes 16..31. The words are in the order of the
 * bytes. */
INLINE __m256i widen(__m256i bytes, int half)
{
    return _mm256_cvtepu8_epi16(half ? _mm256_extracti128_si256(bytes, 1)
                                     : _mm256_castsi256_si128(bytes));
}

/* Looks up tokens in a table of 8. */
INLINE __m256i look_up(const uint8_t *table, __m256i tokens)
{
    return _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_loadl_epi64((const __m128i *)(const void *)table)), tokens);
}

TARGET static void find_tokens(const int16_t *values, uint32_t n, uint8_t *tokens, uint8_t *g)
{
    const int8_t limits[LARGEST] = {0, 1, 2, 4, 8, 16, 32};
    for (uint32_t i = 0; i < n; i += HALF) {
        __m256i m = narrow(_mm256_abs_epi16(load(values + i)),
                           _mm256_abs_epi16(load(values + i + HALF / 2)));
        __m256i t = _mm256_setzero_si256();
        for (uint32_t k = 0; k < LARGEST; k++)
            t = _mm256_sub_epi8(t, _mm256_cmpgt_epi8(m, _mm256_set1_epi8(limits[k])));
        store(tokens + i, t);
        store(g + i, look_up(psti_jpeg_ac_weight, t));
    }
}

/* Returns a mask of the bytes, among 64, that are above `limit`. */
INLINE uint64_t above(const __m256i *bytes, int limit)
{
    __m256i l = _mm256_set1_epi8((char)limit);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(bytes[0], l));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(bytes[1], l));
    return low | (uint64_t)high << HALF;
}

/* Returns a mask of bit b of each of 64 words. */
INLINE uint64_t bit_of(const __m256i *words, uint32_t b)
{
    __m128i up = _mm_cvtsi32_si128((int)(15 - b));
    uint64_t mask = 0;
    for (uint32_t h = 0; h < 2; h++) {
        __m256i signs =
            narrow(_mm256_sll_epi16(words[2 * h], up), _mm256_sll_epi16(words[2 * h + 1], up));
        mask |= (uint64_t)(uint32_t)_mm256_movemask_epi8(signs) << (HALF * h);
    }
    return mask;
}

INLINE void put_masked(struct psti_je_bits *bits, uint64_t values, uint64_t mask)
{
    psti_pli_jpeg_encode_put_group(bits, _pext_u64(values, mask), (uint32_t)_mm_popcnt_u64(mask));
}

/* Writes bit 0 of the words that have at least one bit, then bit 1 of the words that have more, and
 * so on. `n_bits` has the number of bits of each word. */
INLINE void put_planes(struct psti_je_bits *bits, const __m256i *words, const __m256i *n_bits)
{
    uint64_t mask = above(n_bits, 0);
    for (uint32_t b = 0; mask != 0; mask = above(n_bits, (int)++b))
        put_masked(bits, bit_of(words, b), mask);
}

TARGET static void put_left(struct psti_je_bits *bits, uint16_t *left, uint8_t *n_bits)
{
    __m256i words[4], n[2] = {load(n_bits), load(n_bits + HALF)};
    for (uint32_t i = 0; i < 4; i++)
        words[i] = load(left + i * HALF / 2);
    put_planes(bits, words, n);
}

/* Writes the classes of the coefficients with token 7, in unary. Section 8.5 calls these classes
 * octaves. Then makes `left` of these coefficients relative to the lowest magnitude of the class,
 * and adds the class to `n_bits`: the raw bits that are still to be written. */
TARGET static void put_classes(struct psti_je_bits *bits, uint64_t largest, uint16_t *left,
                               uint8_t *n_bits)
{
    uint64_t more[N_CLASS_BITS] = {0};
    for (uint64_t lanes = largest; lanes != 0; lanes &= lanes - 1) {
        uint32_t l = (uint32_t)__builtin_ctzll(lanes);
        uint32_t m = left[l] + (uint32_t)psti_jpeg_ac_lowest[LARGEST];
        uint32_t class = psti_pli_jpeg_ac_class(m);
        for (uint32_t i = 0; i < class; i++)
            more[i] |= 1ull << l;
        left[l] = (uint16_t)(m - 1 - (32u << class));
        n_bits[l] = (uint8_t)(n_bits[l] + class);
    }
    for (uint32_t i = 0; i < N_CLASS_BITS && largest != 0; i++) {
        put_masked(bits, more[i], largest);
        largest = more[i];
    }
}

TARGET static void put_values(struct psti_je_bits *bits, const int16_t *values,
                              const uint8_t *tokens)
{
    __m256i words[4], t[2] = {load(tokens), load(tokens + HALF)}, n_bits[2];
    for (uint32_t i = 0; i < 4; i++)
        words[i] = load(values + i * HALF / 2);
    put_masked(bits, bit_of(words, 15), above(t, 0));
    if (above(t, 2) == 0)
        return;
    for (uint32_t h = 0; h < 2; h++) {
        __m256i lowest = look_up(psti_jpeg_ac_lowest, t[h]);
        n_bits[h] = look_up(psti_jpeg_ac_bits, t[h]);
        for (uint32_t i = 0; i < 2; i++)
            words[2 * h + i] =
                _mm256_sub_epi16(_mm256_abs_epi16(words[2 * h + i]), widen(lowest, (int)i));
    }
    uint64_t largest = above(t, LARGEST - 1);
    if (largest != 0) {
        uint16_t left[GROUP];
        uint8_t own[GROUP];
        for (uint32_t i = 0; i < 4; i++)
            store(left + i * HALF / 2, words[i]);
        store(own, n_bits[0]);
        store(own + HALF, n_bits[1]);
        put_classes(bits, largest, left, own);
        for (uint32_t i = 0; i < 4; i++)
            words[i] = load(left + i * HALF / 2);
        n_bits[0] = load(own);
        n_bits[1] = load(own + HALF);
    }
    put_planes(bits, words, n_bits);
}

const struct psti_je_kernels psti_je_kernels_avx2 = {
    psti_pli_jpeg_encode_find_ends_avx2,  put_left,    psti_pli_jpeg_encode_to_planes_avx2,
    psti_pli_jpeg_encode_find_codes_avx2, find_tokens, put_values,
    psti_pli_jpeg_encode_take_eights_avx2};

#endif
