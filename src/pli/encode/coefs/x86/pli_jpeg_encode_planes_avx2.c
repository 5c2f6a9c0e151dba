/* pli_jpeg_encode_planes_avx2.c - finds ends of blocks, copies blocks to planes and finds codes of
 * AC tokens with AVX2. The results are those of pli_jpeg_encode_tokens.c. Pure; any thread. */
#include "pli/encode/coefs/pli_jpeg_encode_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

enum { HALF = 32, WORDS = 16 /* in a vector */, EDGE = 8 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }
INLINE void store(void *p, __m256i v) { _mm256_storeu_si256(p, v); }

/* -- Ends -- */

TARGET bool psti_pli_jpeg_encode_find_ends_avx2(const int16_t *block, size_t n, uint8_t *ends,
                                                uint64_t *n_tokens)
{
    const __m256i zero = _mm256_setzero_si256(), most = _mm256_set1_epi16(PSTI_JPEG_AC_MAX);
    const __m256i no_dc =
        _mm256_setr_epi16(0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i large = zero;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++, block += 64) {
        __m256i a = _mm256_and_si256(load(block), no_dc), b = load(block + WORDS);
        __m256i c = load(block + 2 * WORDS), d = load(block + 3 * WORDS);
        __m256i ab = _mm256_max_epu16(_mm256_abs_epi16(a), _mm256_abs_epi16(b));
        __m256i cd = _mm256_max_epu16(_mm256_abs_epi16(c), _mm256_abs_epi16(d));
        large = _mm256_or_si256(large, _mm256_subs_epu16(_mm256_max_epu16(ab, cd), most));
        /* The bytes are in the order 0..7, 16..23, 8..15, 24..31. */
        __m256i low = _mm256_packs_epi16(_mm256_cmpeq_epi16(a, zero), _mm256_cmpeq_epi16(b, zero));
        __m256i high = _mm256_packs_epi16(_mm256_cmpeq_epi16(c, zero), _mm256_cmpeq_epi16(d, zero));
        uint64_t some = (uint32_t)~_mm256_movemask_epi8(_mm256_permute4x64_epi64(low, 0xD8));
        some |= (uint64_t)(uint32_t)~_mm256_movemask_epi8(_mm256_permute4x64_epi64(high, 0xD8))
                << HALF;
        ends[i] = (uint8_t)(63 - __builtin_clzll(some | 1));
        sum += ends[i];
    }
    *n_tokens += sum;
    return _mm256_testz_si256(large, large);
}

/* -- Planes -- */

/* Transposes 8 coefficients of each of 16 blocks, from `k` on, to 16 entries of each of 8
 * planes. */
INLINE void turn(const int16_t *const *blocks, uint32_t k, int16_t *values, size_t stride)
{
    __m256i r[EDGE], s[EDGE];
    for (uint32_t i = 0; i < EDGE; i++)
        r[i] = _mm256_inserti128_si256(
            _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(blocks[i] + k))),
            _mm_loadu_si128((const __m128i *)(blocks[i + EDGE] + k)), 1);
    for (uint32_t i = 0; i < EDGE; i += 2) {
        s[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]);
    }
    for (uint32_t i = 0; i < EDGE; i += 4)
        for (uint32_t j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_unpacklo_epi32(s[i + j], s[i + j + 2]);
            r[i + 2 * j + 1] = _mm256_unpackhi_epi32(s[i + j], s[i + j + 2]);
        }
    for (uint32_t i = 0; i < EDGE / 2; i++) {
        store(values + 2 * i * stride, _mm256_unpacklo_epi64(r[i], r[i + 4]));
        store(values + (2 * i + 1) * stride, _mm256_unpackhi_epi64(r[i], r[i + 4]));
    }
}

TARGET void psti_pli_jpeg_encode_to_planes_avx2(const int16_t *const *blocks, const uint16_t *n_k,
                                                uint32_t last, int16_t *values, size_t stride)
{
    uint32_t end = last;
    for (uint32_t i = 0; i < n_k[1]; i += WORDS) {
        while (n_k[end] <= i)
            end--;
        for (uint32_t k = 0; k <= end; k += EDGE)
            turn(blocks + i, k, values + k * stride + i, stride);
    }
    for (uint32_t k = 1; k <= last; k++) {
        size_t from = psti_round_up(n_k[k], WORDS), to = psti_round_up(n_k[k], PSTI_JE_SQUARE);
        for (; from < to; from += WORDS)
            store(values + k * stride + from, _mm256_setzero_si256());
    }
}

/* -- Codes -- */

/* Fills a vector with weights or biases: each 32 bits have those of side 0, then those of side 1,
 * as two bytes or as 16 bits each. */
INLINE __m256i of_sides(uint32_t side_0, uint32_t side_1)
{
    return _mm256_set1_epi32((int)((side_0 & 0xffff) | side_1 << 16));
}

/* The values that the contexts of a plane are computed from. */
struct plane {
    const uint8_t *g[PSTI_JPEG_N_FEATURES], *sides;
    __m256i weights[PSTI_JPEG_N_FEATURES / 2], bias;
};

/* Returns the sums of 32 lanes before they are halved, clamped to 0..255, less 128. */
INLINE __m256i sums_of(const struct plane *p, uint32_t base)
{
    __m256i side = _mm256_and_si256(load(p->sides + base), _mm256_set1_epi8(2));
    __m256i side_1 = _mm256_or_si256(side, _mm256_set1_epi8(1));
    __m256i side_a = _mm256_unpacklo_epi8(side, side_1), a = _mm256_shuffle_epi8(p->bias, side_a);
    __m256i side_b = _mm256_unpackhi_epi8(side, side_1), b = _mm256_shuffle_epi8(p->bias, side_b);
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES / 2; i++) {
        __m256i g = load(p->g[2 * i] + base), h = load(p->g[2 * i + 1] + base);
        __m256i weights_a = _mm256_shuffle_epi8(p->weights[i], side_a);
        __m256i weights_b = _mm256_shuffle_epi8(p->weights[i], side_b);
        a = _mm256_add_epi16(a, _mm256_maddubs_epi16(_mm256_unpacklo_epi8(g, h), weights_a));
        b = _mm256_add_epi16(b, _mm256_maddubs_epi16(_mm256_unpackhi_epi8(g, h), weights_b));
    }
    return _mm256_packs_epi16(a, b);
}

/* Returns 8 in the lanes of a step that lie before list position n, else 0. */
INLINE __m256i lanes_before(uint32_t n, uint32_t base)
{
    const __m256i lanes =
        _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
                         21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    uint32_t n_lanes = n < base ? 0 : n - base < HALF ? n - base : HALF;
    return _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_set1_epi8((char)n_lanes), lanes),
                            _mm256_set1_epi8(8));
}

/* A context has 5 bits, of which the upper two are the distance. In a code it is multiplied by
 * 8. */
TARGET void psti_pli_jpeg_encode_find_codes_avx2(const struct psti_je_work *work,
                                                 const uint16_t *n_k, uint32_t k, uint8_t *codes)
{
    struct plane p = {.sides = work->sides};
    __m256i limits[PSTI_JPEG_N_LIMITS];
    const uint8_t *tokens = work->tokens + k * work->stride;
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        p.g[i] = work->g + psti_jpeg_features[k][i] * work->stride;
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES / 2; i++)
        p.weights[i] = of_sides(psti_load_u16(psti_jpeg_weights[0][k] + 2 * (size_t)i),
                                psti_load_u16(psti_jpeg_weights[1][k] + 2 * (size_t)i));
    p.bias = of_sides((uint32_t)(psti_jpeg_biases[0][k] - 128),
                      (uint32_t)(psti_jpeg_biases[1][k] - 128));
    for (uint32_t i = 0; i < PSTI_JPEG_N_LIMITS; i++)
        limits[i] = _mm256_set1_epi8((char)(2 * psti_jpeg_limits[i] - 1 - 128));
    for (uint32_t base = 0; base < n_k[k]; base += HALF) {
        __m256i x = sums_of(&p, base), context = _mm256_setzero_si256();
        for (uint32_t i = 0; i < PSTI_JPEG_N_LIMITS; i++)
            context = _mm256_sub_epi8(context, _mm256_cmpgt_epi8(x, limits[i]));
        context = _mm256_add_epi8(context, lanes_before(n_k[k + 1], base));
        context = _mm256_add_epi8(context, lanes_before(n_k[k + 3 < 64 ? k + 3 : 64], base));
        context = _mm256_add_epi8(context, lanes_before(n_k[k + 7 < 64 ? k + 7 : 64], base));
        store(codes + base, _mm256_or_si256(_mm256_slli_epi16(context, 3), load(tokens + base)));
    }
}
#endif
