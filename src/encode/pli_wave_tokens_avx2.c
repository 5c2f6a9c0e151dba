/* pli_wave_tokens_avx2.c - tokens, contexts and records of the wave mode's encoder with AVX2: the
 * same numbers as plain C. */
#include "encode/pli_wave_encode_int.h"
#include "encode/pli_wave_lanes16_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { HALF = 32 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* 32 residuals as bytes. */
INLINE __m256i load_residuals(const int16_t *p)
{
    return _mm256_permute4x64_epi64(_mm256_packs_epi16(load(p), load(p + 16)), 0xD8);
}

/* A table of 16 bytes in both halves. */
INLINE __m256i load_table(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
}

/* Of 16 residuals, in 16 bits. From 32 on a token follows exponent and first bit of the fraction
 * of a float, which holds the magnitude. */
INLINE __m256i tokens_of_16(__m256i residuals)
{
    enum { FRACTION = 23, BIAS = 127, FIRST = 25 - 2 * 5 };
    const __m256i zero = _mm256_setzero_si256();
    __m256i m = _mm256_abs_epi16(residuals); /* -32768: 32768 */
    __m256 low = _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(m, zero));
    __m256 high = _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(m, zero));
    __m256i large = _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(low), FRACTION - 1),
                                        _mm256_srli_epi32(_mm256_castps_si256(high), FRACTION - 1));
    large = _mm256_sub_epi16(large, _mm256_set1_epi16(2 * BIAS - FIRST));
    __m256i direct = _mm256_min_epu16(m, _mm256_set1_epi16(PSTI_PLI_DIRECT));
    __m256i below_32 = _mm256_cmpeq_epi16(_mm256_srli_epi16(m, 5), zero);
    return _mm256_blendv_epi8(large, direct, below_32);
}

TARGET void psti_wave_find_tokens16_avx2(const int16_t *residuals, uint8_t *tokens)
{
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        __m256i low = tokens_of_16(load(residuals + x));
        __m256i high = tokens_of_16(load(residuals + x + 16));
        low = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
        _mm256_storeu_si256((__m256i *)(tokens + x), low);
    }
}

INLINE __m256i half_up(__m256i v) { return _mm256_avg_epu8(v, _mm256_setzero_si256()); }
/* Half of the sum, rounded down. */
INLINE __m256i half_of(__m256i a, __m256i b)
{
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(a, b), _mm256_set1_epi8(1));
    return _mm256_sub_epi8(_mm256_avg_epu8(a, b), odd);
}

/* docs/format-pli.md, 5.6, halved, of tokens up to 46: no byte is exceeded; `own`: g0 or g1. */
INLINE __m256i energies_16(enum psti_pli_energy kind, __m256i cross, __m256i far, __m256i own)
{
    if (kind == PSTI_PLI_ENERGY_FIRST)
        return _mm256_add_epi8(cross, half_of(far, _mm256_setzero_si256()));
    far = _mm256_add_epi8(far, half_up(cross));
    if (kind == PSTI_PLI_ENERGY_SECOND)
        return half_of(cross, _mm256_add_epi8(far, half_up(own)));
    return _mm256_add_epi8(half_of(cross, far), own);
}

/* Q[E] in three shuffles: from E = 32 on it depends on E >> 4 only. */
struct buckets {
    __m256i below_16, below_32, others;
};

INLINE struct buckets load_buckets(uint32_t bits)
{
    const uint8_t *bucket = psti_pli_wave_bucket[bits == 16];
    _Alignas(16) uint8_t coarse[16];
    for (uint32_t i = 0; i < 16; i++)
        coarse[i] = bucket[16 * i];
    return (struct buckets){.below_16 = load_table(bucket),
                            .below_32 = load_table(bucket + 16),
                            .others = load_table(coarse)};
}

INLINE __m256i bucket_of(const struct buckets *b, __m256i e)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i low = _mm256_and_si256(e, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(e, 4), nibble);
    __m256i of_1 = _mm256_cmpeq_epi8(high, _mm256_set1_epi8(1));
    __m256i of_0 = _mm256_cmpeq_epi8(high, _mm256_setzero_si256());
    __m256i c = _mm256_shuffle_epi8(b->others, high);
    c = _mm256_blendv_epi8(c, _mm256_shuffle_epi8(b->below_32, low), of_1);
    return _mm256_blendv_epi8(c, _mm256_shuffle_epi8(b->below_16, low), of_0);
}

TARGET void psti_wave_find_contexts16_avx2(enum psti_pli_energy kind, const uint8_t *g,
                                           const uint8_t *g0, const uint8_t *g1, uint8_t *contexts)
{
    enum { S = PSTI_WAVE_PADDED };
    const uint8_t *before = kind == PSTI_PLI_ENERGY_SECOND ? g0 : g1;
    const struct buckets b = load_buckets(16);
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        const uint8_t *at = g + x;
        __m256i cross = _mm256_add_epi8(_mm256_add_epi8(load(at - 1), load(at - S)),
                                        _mm256_add_epi8(load(at - S + 1), load(at - 2 * S)));
        __m256i far = _mm256_add_epi8(load(at - S - 1), load(at - 2));
        __m256i e = energies_16(kind, cross, far, load(before + x));
        _mm256_storeu_si256((__m256i *)(contexts + x), bucket_of(&b, e));
    }
}

/* Raw bits of 16 tokens, 3 to 14 (docs/format-pli.md, 5.4), and signs. */
INLINE __m256i values_of(__m256i residuals, const uint8_t *tokens)
{
    __m256i token = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)tokens));
    __m256i raw = _mm256_and_si256(_mm256_abs_epi16(residuals), psti_wave_raw_masks16(token));
    return _mm256_or_si256(raw, _mm256_and_si256(residuals, _mm256_set1_epi16(INT16_MIN)));
}

/* 32 indices: token and the lower 2 bits of the context; its upper 2 bits. */
INLINE void indices_of(__m256i token, __m256i context, uint16_t *out)
{
    __m256i shifted = _mm256_slli_epi16(context, PSTI_WAVE_TOKEN_BITS);
    __m256i low = _mm256_or_si256(token, _mm256_and_si256(shifted, _mm256_set1_epi8((char)0xC0)));
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(context, 2), _mm256_set1_epi8(3));
    __m256i even = _mm256_unpacklo_epi8(low, high), odd = _mm256_unpackhi_epi8(low, high);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 16), _mm256_permute2x128_si256(even, odd, 0x31));
}

TARGET void psti_wave_find_records16_avx2(const int16_t *residuals, const uint8_t *tokens,
                                          const uint8_t *contexts, uint32_t width,
                                          uint16_t *indices, uint16_t *values)
{
    uint16_t rows[2][PSTI_WAVE_EDGE];
    bool whole = width == PSTI_WAVE_EDGE;
    uint16_t *to[2] = {whole ? indices : rows[0], whole ? values : rows[1]};
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += HALF) {
        indices_of(load(tokens + x), load(contexts + x), to[0] + x);
        for (uint32_t i = x; i < x + HALF; i += 16)
            _mm256_storeu_si256((__m256i *)(to[1] + i), values_of(load(residuals + i), tokens + i));
    }
    if (!whole) {
        memcpy(indices, rows[0], width * sizeof *indices);
        memcpy(values, rows[1], width * sizeof *values);
    }
}
#else
/* An empty file is none in C. */
typedef int psti_wave_no_tokens_avx2;
#endif
