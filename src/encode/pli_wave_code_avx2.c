/* pli_wave_code_avx2.c - the order of tokens, signs, raw bits and the states of the wave mode's
 * encoder with AVX2: the same bytes as plain C.
 *
 * Records are transposed from the streams of lanes to slots, 32 a step; slots of no sample have a
 * code that leaves a state as it is, so that all lanes always work. States stay in four vectors. */
#include "encode/pli_wave_encode_int.h"
#include "encode/pli_wave_lanes16_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

enum { LANES = PSTI_PLI_LANES, GROUP = 8, BLOCK = 8, LINE_NBYTES = 64 };

/* Slots of 8 steps of 8 lanes: lane i's records begin at in + i * skew. */
INLINE void transpose(const uint16_t *in, size_t skew, uint16_t *out)
{
    __m128i r[GROUP], a[GROUP], b[GROUP];
    for (size_t i = 0; i < GROUP; i++)
        r[i] = _mm_loadu_si128((const __m128i *)(in + i * skew));
    for (size_t i = 0; i < 4; i++) {
        a[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            b[4 * i + 2 * k] = _mm_unpacklo_epi32(a[4 * i + k], a[4 * i + k + 2]);
            b[4 * i + 2 * k + 1] = _mm_unpackhi_epi32(a[4 * i + k], a[4 * i + k + 2]);
        }
    for (size_t k = 0; k < 4; k++) {
        _mm_storeu_si128((__m128i *)(out + 2 * k * LANES), _mm_unpacklo_epi64(b[k], b[k + 4]));
        _mm_storeu_si128((__m128i *)(out + (2 * k + 1) * LANES),
                         _mm_unpackhi_epi64(b[k], b[k + 4]));
    }
}

/* Lanes 8 g .. 8 g + 7 have nothing before step 16 g, nor from 16 g + 64 n_bands + 14 on. */
TARGET void psti_wave_find_slots_avx2(const uint16_t *streams, uint32_t n_bands, uint16_t none_,
                                      uint16_t *slots)
{
    const size_t stride = psti_wave_stride(n_bands), n_steps = 64 * (size_t)n_bands + 62;
    const __m128i none = _mm_set1_epi16((int16_t)none_);
    for (size_t g = 0; g < LANES / GROUP; g++) {
        const uint16_t *in = streams + g * GROUP * stride + PSTI_WAVE_STREAM_PAD;
        uint16_t *out = slots + g * GROUP;
        size_t t = 0, begin = 2 * g * GROUP, end = begin + 64 * (size_t)n_bands + 16;
        for (; t < begin; t++)
            _mm_storeu_si128((__m128i *)(out + t * LANES), none);
        for (; t < end; t += BLOCK)
            transpose(in + (t - begin), stride - 2, out + t * LANES);
        for (; t < n_steps; t++)
            _mm_storeu_si128((__m128i *)(out + t * LANES), none);
    }
}

struct writer {
    uint8_t *bytes;
    uint64_t acc;
    uint32_t n;
};

/* At most 56 bits. */
INLINE void put_bits(struct writer *w, uint64_t bits, uint32_t n)
{
    w->acc |= bits << w->n;
    w->n += n;
    psti_store_u64(w->bytes, w->acc);
    w->bytes += w->n >> 3;
    w->acc >>= w->n & ~7u;
    w->n &= 7;
}

/* One bit for each of a step's 16-bit lanes that is negative. */
INLINE uint32_t signs_of(__m256i low, __m256i high)
{
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
    return (uint32_t)_mm256_movemask_epi8(packed);
}

TARGET size_t psti_wave_write_bits_avx2(uint16_t *slots, uint32_t n_steps, uint32_t *large,
                                        uint8_t *bits)
{
    const __m256i token = _mm256_set1_epi16(PSTI_WAVE_NONE_8), zero = _mm256_setzero_si256();
    const __m256i direct = _mm256_set1_epi16(PSTI_PLI_DIRECT - 1);
    const __m256i index = _mm256_set1_epi16((1 << PSTI_WAVE_INDEX_BITS_8) - 1);
    struct writer w = {.bytes = bits};
    uint32_t n_large = 0;
    for (uint32_t t = 0; t < n_steps; t++, slots += LANES) {
        __m256i a = _mm256_loadu_si256((const __m256i *)slots);
        __m256i b = _mm256_loadu_si256((const __m256i *)(slots + 16));
        __m256i at = _mm256_and_si256(a, token), bt = _mm256_and_si256(b, token);
        uint32_t none = signs_of(_mm256_cmpeq_epi16(at, token), _mm256_cmpeq_epi16(bt, token));
        uint32_t no_sign =
            none | signs_of(_mm256_cmpeq_epi16(at, zero), _mm256_cmpeq_epi16(bt, zero));
        uint32_t above = signs_of(_mm256_cmpgt_epi16(at, direct), _mm256_cmpgt_epi16(bt, direct));
        put_bits(&w, _pext_u32(signs_of(a, b), ~no_sign),
                 LANES - (uint32_t)_mm_popcnt_u32(no_sign));
        for (above &= ~none; above != 0; above &= above - 1)
            large[n_large++] = slots[__builtin_ctz(above)];
        _mm256_storeu_si256((__m256i *)slots, _mm256_and_si256(a, index));
        _mm256_storeu_si256((__m256i *)(slots + 16), _mm256_and_si256(b, index));
    }
    for (uint32_t i = 0; i < n_large; i++)
        put_bits(&w, large[i] >> PSTI_WAVE_INDEX_BITS_8 & ((1u << PSTI_WAVE_RAW_BITS_8) - 1),
                 psti_pli_wave_raw_bits(large[i] % (1u << PSTI_WAVE_TOKEN_BITS_8)));
    return (size_t)(w.bytes - bits) + (w.n > 0);
}

/* Signs of a step's samples that are not 0. */
INLINE void put_signs(struct writer *w, const uint16_t *indices, const uint16_t *values)
{
    const __m256i token = _mm256_set1_epi16(PSTI_WAVE_NONE_16), zero = _mm256_setzero_si256();
    __m256i a = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)indices), token);
    __m256i b = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(indices + 16)), token);
    uint32_t no_sign =
        signs_of(_mm256_or_si256(_mm256_cmpeq_epi16(a, token), _mm256_cmpeq_epi16(a, zero)),
                 _mm256_or_si256(_mm256_cmpeq_epi16(b, token), _mm256_cmpeq_epi16(b, zero)));
    uint32_t negative = signs_of(_mm256_loadu_si256((const __m256i *)values),
                                 _mm256_loadu_si256((const __m256i *)(values + 16)));
    put_bits(w, _pext_u32(negative, ~no_sign), LANES - (uint32_t)_mm_popcnt_u32(no_sign));
}

/* Raw bits of 16 lanes: those of four are at most 56. */
INLINE void put_raw_bits(struct writer *w, const uint16_t *indices, const uint16_t *values)
{
    const __m256i token = _mm256_set1_epi16(PSTI_WAVE_NONE_16);
    __m256i v = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)indices), token);
    v = _mm256_andnot_si256(_mm256_cmpeq_epi16(v, token), v); /* no sample: as token 0 */
    v = psti_wave_raw_masks16(v);
    if (_mm256_testz_si256(v, v))
        return;
    uint64_t masks[4];
    _mm256_storeu_si256((__m256i *)masks, v);
    for (uint32_t i = 0; i < 4; i++)
        put_bits(w, _pext_u64(psti_load_u64(values + 4 * (size_t)i), masks[i]),
                 (uint32_t)_mm_popcnt_u64(masks[i]));
}

TARGET size_t psti_wave_write_bits16_avx2(const uint16_t *indices, const uint16_t *values,
                                          uint32_t n_steps, uint8_t *bits)
{
    struct writer w = {.bytes = bits};
    for (size_t i = 0; i < (size_t)n_steps * LANES; i += LANES)
        put_signs(&w, indices + i, values + i);
    for (size_t i = 0; i < (size_t)n_steps * LANES; i += 16)
        put_raw_bits(&w, indices + i, values + i);
    return (size_t)(w.bytes - bits) + (w.n > 0);
}

/* Eight lanes take a token each. */
INLINE __m256i code_eight(const uint16_t *indices, const uint64_t *codes, __m256i states,
                          uint16_t **end)
{
    __m256i even = psti_rans_load_four(codes + indices[0], codes + indices[2], codes + indices[4],
                                       codes + indices[6]);
    __m256i odd = psti_rans_load_four(codes + indices[1], codes + indices[3], codes + indices[5],
                                      codes + indices[7]);
    return psti_rans_take_eight(PSTI_PLI_PROB_BITS, even, odd, states, end);
}

TARGET uint16_t *psti_wave_code_avx2(const uint16_t *indices, uint32_t n_steps,
                                     const uint64_t *codes, const void *ahead, uint32_t *states,
                                     uint16_t *end)
{
    __m256i x[LANES / GROUP];
    for (uint32_t g = 0; g < LANES / GROUP; g++)
        x[g] = _mm256_loadu_si256((const __m256i *)(states + (size_t)g * GROUP));
    for (uint32_t t = n_steps; t-- > 0;) {
        const uint16_t *step = indices + (size_t)t * LANES;
        _mm_prefetch((const char *)ahead + (size_t)t * LINE_NBYTES, _MM_HINT_T1);
        x[3] = code_eight(step + (size_t)3 * GROUP, codes, x[3], &end);
        x[2] = code_eight(step + (size_t)2 * GROUP, codes, x[2], &end);
        x[1] = code_eight(step + GROUP, codes, x[1], &end);
        x[0] = code_eight(step, codes, x[0], &end);
    }
    for (uint32_t g = 0; g < LANES / GROUP; g++)
        _mm256_storeu_si256((__m256i *)(states + (size_t)g * GROUP), x[g]);
    return end;
}
#else
/* An empty file is none in C. */
typedef int psti_wave_no_code_avx2;
#endif
