/* pli_wave_code_avx2.c - the last stage of the wave mode's encoder, with AVX2: it writes signs and
 * raw bits, and codes the tokens with rANS. The bytes are those of plain C.
 *
 * Each lane has a stream of records. A transposition puts the records that lanes code in the same
 * step side by side. A lane without a sample in a step gets a code that does not change its state,
 * so all lanes work in all steps. The states of the lanes stay in vector registers: four for
 * samples of 16 bits, two for samples of 8 bits. */
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"
#include "pli/encode/x86/pli_rans_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi2,popcnt")))

enum { LANES = PSTI_PLI_LANES, GROUP = 8, BLOCK = 8, LINE_NBYTES = 64 };

/* Stores the slots of 8 steps of 8 lanes. Lane i's records begin at in + i * skew. */
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

/* Lanes 8 g .. 8 g + 7 have no record before step 8 g lag, and none from 7 lag steps after a row's
 * records on. */
TARGET void psti_pli_wave_find_slots_avx2(uint32_t bits, const uint16_t *streams, uint32_t n_bands,
                                          uint16_t none_, uint16_t *slots)
{
    const size_t lag = psti_pli_wave_lag(bits), stride = psti_pli_wave_stride(bits, n_bands);
    const size_t n_steps = psti_pli_wave_n_steps(bits, n_bands);
    const size_t length = psti_pli_wave_columns(bits) * (size_t)n_bands + lag * GROUP;
    const __m128i none = _mm_set1_epi16((int16_t)none_);
    for (size_t g = 0; g < LANES / GROUP; g++) {
        const uint16_t *in = streams + g * GROUP * stride + PSTI_WAVE_STREAM_PAD;
        uint16_t *out = slots + g * GROUP;
        size_t t = 0, begin = lag * g * GROUP, end = begin + length;
        for (; t < begin; t++)
            _mm_storeu_si128((__m128i *)(out + t * LANES), none);
        for (; t < end; t += BLOCK)
            transpose(in + (t - begin), stride - lag, out + t * LANES);
        for (; t < n_steps; t++)
            _mm_storeu_si128((__m128i *)(out + t * LANES), none);
    }
}

struct writer {
    uint8_t *bytes;
    uint64_t acc;
    uint32_t n;
};

/* Writes at most 56 bits. */
INLINE void put_bits(struct writer *w, uint64_t bits, uint32_t n)
{
    w->acc |= bits << w->n;
    w->n += n;
    psti_store_u64(w->bytes, w->acc);
    w->bytes += w->n >> 3;
    w->acc >>= w->n & ~7u;
    w->n &= 7;
}

/* Returns a bit for each of the 32 lanes of 16 bits of a step: 1 if the lane is negative. */
INLINE uint32_t signs_of(__m256i low, __m256i high)
{
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
    return (uint32_t)_mm256_movemask_epi8(packed);
}

/* Joins two vectors of 16-bit lanes, all below 256, to one of bytes. */
INLINE __m256i narrow(__m256i low, __m256i high)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
}

/* Writes the bits of `values` that `masks` selects. Bits of 16 lanes are written at once if they
 * are at most 56, because every write waits for the one before. */
INLINE void put_masked(struct writer *w, const uint64_t *values, const uint64_t *masks)
{
    uint32_t n = (uint32_t)_mm_popcnt_u64(masks[0]), all = n + (uint32_t)_mm_popcnt_u64(masks[1]);
    if (all <= 56) {
        put_bits(w, _pext_u64(values[0], masks[0]) | _pext_u64(values[1], masks[1]) << n, all);
        return;
    }
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t shift = k % 2 * 32, mask = (uint32_t)(masks[k / 2] >> shift);
        put_bits(w, _pext_u32((uint32_t)(values[k / 2] >> shift), mask),
                 (uint32_t)_mm_popcnt_u32(mask));
    }
}

/* Returns a table indexed by token: an entry has as many bits set as the token has bits of R, or of
 * S. */
INLINE __m256i load_masks(const uint8_t *n_bits)
{
    _Alignas(16) uint8_t masks[PSTI_PLI_N_TOKENS_8];
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS_8; i++)
        masks[i] = (uint8_t)((1u << n_bits[i]) - 1);
    return _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)masks));
}

INLINE void put_step(struct writer *w, __m256i values, __m256i masks)
{
    uint64_t v[4], m[4];
    _mm256_storeu_si256((__m256i *)v, values);
    _mm256_storeu_si256((__m256i *)m, masks);
    put_masked(w, v, m);
    put_masked(w, v + 2, m + 2);
}

TARGET size_t psti_pli_wave_write_bits_avx2(const uint16_t *indices, const uint16_t *values,
                                            uint32_t n_steps, uint8_t *bits)
{
    const __m256i first = load_masks(psti_pli_wave_first_bits);
    const __m256i second = load_masks(psti_pli_wave_second_bits);
    const __m256i token = _mm256_set1_epi16(PSTI_PLI_N_TOKENS_8 - 1);
    const __m256i low = _mm256_set1_epi16(UINT8_MAX);
    struct writer w = {.bytes = bits};
    for (size_t i = 0; i < (size_t)n_steps * LANES; i += LANES) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(indices + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(indices + i + 16));
        __m256i tokens = narrow(_mm256_and_si256(a, token), _mm256_and_si256(b, token));
        __m256i of_second = _mm256_shuffle_epi8(second, tokens);
        a = _mm256_loadu_si256((const __m256i *)(values + i));
        b = _mm256_loadu_si256((const __m256i *)(values + i + 16));
        put_step(&w, narrow(_mm256_and_si256(a, low), _mm256_and_si256(b, low)),
                 _mm256_shuffle_epi8(first, tokens));
        if (!_mm256_testz_si256(of_second, of_second))
            put_step(&w, narrow(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)), of_second);
    }
    return (size_t)(w.bytes - bits) + (w.n > 0);
}

/* Writes the signs of a step's samples that are not 0. */
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

/* Writes the raw bits of 16 lanes, four lanes at a time: they have at most 56 bits. */
INLINE void put_raw_bits(struct writer *w, const uint16_t *indices, const uint16_t *values)
{
    const __m256i token = _mm256_set1_epi16(PSTI_WAVE_NONE_16);
    __m256i v = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)indices), token);
    v = _mm256_andnot_si256(_mm256_cmpeq_epi16(v, token), v); /* a lane without a sample has token 0
                                                               * and writes nothing */
    v = psti_pli_wave_raw_masks_u16(v);
    if (_mm256_testz_si256(v, v))
        return;
    uint64_t masks[4];
    _mm256_storeu_si256((__m256i *)masks, v);
    for (uint32_t i = 0; i < 4; i++)
        put_bits(w, _pext_u64(psti_load_u64(values + 4 * (size_t)i), masks[i]),
                 (uint32_t)_mm_popcnt_u64(masks[i]));
}

TARGET size_t psti_pli_wave_write_bits_u16_avx2(const uint16_t *indices, const uint16_t *values,
                                                uint32_t n_steps, uint8_t *bits)
{
    struct writer w = {.bytes = bits};
    for (size_t i = 0; i < (size_t)n_steps * LANES; i += LANES)
        put_signs(&w, indices + i, values + i);
    for (size_t i = 0; i < (size_t)n_steps * LANES; i += 16)
        put_raw_bits(&w, indices + i, values + i);
    return (size_t)(w.bytes - bits) + (w.n > 0);
}

/* The codes of 16 tokens, as four vectors of 16-bit numbers. */
struct codes_u8 {
    __m256i reciprocal, scale, third, fields;
};
INLINE struct codes_u8 load_codes(const uint16_t *i, const uint64_t *codes)
{
    __m256i v[4], lower[2], upper[2];
    for (uint32_t k = 0; k < 4; k++)
        v[k] = psti_pli_rans_load_four(codes + i[k], codes + i[k + 4], codes + i[k + 8],
                                       codes + i[k + 12]);
    for (uint32_t k = 0; k < 2; k++) { /* first of tokens 0, 1 and 4, 5; then of tokens 2, 3 and 6,
                                        * 7 */
        __m256i low = _mm256_unpacklo_epi16(v[2 * k], v[2 * k + 1]);
        __m256i high = _mm256_unpackhi_epi16(v[2 * k], v[2 * k + 1]);
        lower[k] = low;
        upper[k] = high;
    }
    __m256i a = _mm256_unpacklo_epi32(lower[0], lower[1]);
    __m256i b = _mm256_unpackhi_epi32(lower[0], lower[1]);
    __m256i c = _mm256_unpacklo_epi32(upper[0], upper[1]);
    __m256i d = _mm256_unpackhi_epi32(upper[0], upper[1]);
    return (struct codes_u8){
        .reciprocal = _mm256_unpacklo_epi64(a, c),
        .scale = _mm256_unpackhi_epi64(a, c),
        .third = _mm256_unpacklo_epi64(b, d),
        .fields = _mm256_unpackhi_epi64(b, d),
    };
}

/* Codes a token into each of 16 states. Sets `full` to the lanes that must write a word first. */
INLINE __m256i take_sixteen(const struct codes_u8 *c, __m256i x, __m256i *full)
{
    const __m256i most = _mm256_set1_epi16(PSTI_PLI_PROB_SUM_8 - 1);
    __m256i rest = _mm256_and_si256(c->fields, most), high = _mm256_srli_epi16(x, 8);
    /* A lane is full if x >> 8 is not below the frequency. */
    *full = _mm256_cmpgt_epi16(_mm256_add_epi16(high, rest), most);
    x = _mm256_blendv_epi8(x, high, *full);
    __m256i scaled = _mm256_add_epi16(_mm256_mullo_epi16(x, c->scale), c->third);
    __m256i quotient = _mm256_srli_epi16(_mm256_mulhi_epu16(scaled, c->reciprocal), 7);
    x = _mm256_add_epi16(x, _mm256_srli_epi16(c->fields, 8));
    return _mm256_add_epi16(x, _mm256_mullo_epi16(quotient, rest));
}

/* Stores the bytes, among 32, that the mask `full` selects before `end`, 8 bytes at a time. Returns
 * the address of the first. */
INLINE uint8_t *put_words(__m256i words, __m256i full, uint8_t *end)
{
    uint64_t parts[4], masks[4];
    _mm256_storeu_si256((__m256i *)parts, words);
    _mm256_storeu_si256((__m256i *)masks, full);
    for (uint32_t k = 4; k-- > 0;) {
        uint32_t n = (uint32_t)_mm_popcnt_u64(masks[k]);
        psti_store_u64(end - 8, _pext_u64(parts[k], masks[k]) << (64 - n) % 64);
        end -= n / 8;
    }
    return end;
}

TARGET uint8_t *psti_pli_wave_code_avx2(const uint16_t *indices, uint32_t n_steps,
                                        const uint64_t *codes, const void *ahead, uint32_t *states,
                                        uint8_t *end)
{
    const __m256i low = _mm256_set1_epi16(UINT8_MAX);
    uint16_t narrowed[LANES];
    for (uint32_t l = 0; l < LANES; l++)
        narrowed[l] = (uint16_t)states[l];
    __m256i a = _mm256_loadu_si256((const __m256i *)narrowed);
    __m256i b = _mm256_loadu_si256((const __m256i *)(narrowed + 16));
    for (uint32_t t = n_steps; t-- > 0;) {
        const uint16_t *step = indices + (size_t)t * LANES;
        const char *lines = (const char *)ahead + 2 * (size_t)t * LINE_NBYTES;
        __m256i a_full, b_full;
        _mm_prefetch(lines, _MM_HINT_T1);
        _mm_prefetch(lines + LINE_NBYTES, _MM_HINT_T1);
        __m256i words = narrow(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
        struct codes_u8 of_a = load_codes(step, codes), of_b = load_codes(step + 16, codes);
        a = take_sixteen(&of_a, a, &a_full);
        b = take_sixteen(&of_b, b, &b_full);
        __m256i full = _mm256_permute4x64_epi64(_mm256_packs_epi16(a_full, b_full), 0xD8);
        end = put_words(words, full, end);
    }
    _mm256_storeu_si256((__m256i *)narrowed, a);
    _mm256_storeu_si256((__m256i *)(narrowed + 16), b);
    for (uint32_t l = 0; l < LANES; l++)
        states[l] = narrowed[l];
    return end;
}

/* Codes a token into each of eight states. */
INLINE __m256i code_eight(const uint16_t *indices, const uint64_t *codes, __m256i states,
                          uint16_t **end)
{
    __m256i even = psti_pli_rans_load_four(codes + indices[0], codes + indices[2],
                                           codes + indices[4], codes + indices[6]);
    __m256i odd = psti_pli_rans_load_four(codes + indices[1], codes + indices[3],
                                          codes + indices[5], codes + indices[7]);
    return psti_pli_rans_take_eight(PSTI_PLI_PROB_BITS, even, odd, states, end);
}

TARGET uint8_t *psti_pli_wave_code_u16_avx2(const uint16_t *indices, uint32_t n_steps,
                                            const uint64_t *codes, const void *ahead,
                                            uint32_t *states, uint8_t *words_end)
{
    uint16_t *end = (uint16_t *)(void *)words_end;
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
    return (uint8_t *)end;
}
#endif
