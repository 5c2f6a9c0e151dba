/* pli_wave_avx2_raw_u16.c - signs and raw bits of 16-bit samples with AVX2.
 *
 * It takes rows of tokens and the bits of the unit, and writes residuals in place of the rows. Most
 * tokens of noisy images have raw bits, 3 to 14 of them. One pdep moves the bits of four lanes to
 * the places where a mask has bits. Only the number of bits passes from one pdep to the next. The
 * functions are pure; any thread may call them. */
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* Returns bytes that are 255 for tokens with raw bits, else 0. */
INLINE v32 large_of(v32 tokens)
{
    return _mm256_cmpgt_epi8(tokens, _mm256_set1_epi8(PSTI_PLI_DIRECT - 1));
}

/* Returns how many raw bits each token has: (token - 17) / 2, which is 3 to 14, for large tokens,
 * and 0 for others. */
INLINE v32 sizes_of(v32 tokens, v32 large)
{
    v32 twice = _mm256_sub_epi8(tokens, _mm256_set1_epi8(17));
    return _mm256_and_si256(_mm256_srli_epi16(twice, 1),
                            _mm256_and_si256(large, _mm256_set1_epi8(15)));
}

INLINE uint64_t sum_of(v32 sums)
{
    uint64_t four[4];
    row_store(four, sums);
    return four[0] + four[1] + four[2] + four[3];
}

/* Counts the tokens other than 0, which have signs, and the raw bits of all tokens. Returns the
 * number of signs and sets *n_raw to the number of raw bits. */
static uint64_t TARGET count_bits(const struct psti_pli_wave_job *job, uint64_t *n_raw)
{
    const v32 zero = _mm256_setzero_si256();
    v32 zeros = zero, raw = zero;
    for (uint32_t t = 0; t < job->head->n_steps; t++) {
        v32 tokens = row_load(job->memory->tokens[WAVE_BEFORE + t].lanes);
        v32 sizes = sizes_of(tokens, large_of(tokens));
        zeros = _mm256_add_epi64(zeros, _mm256_sad_epu8(_mm256_cmpeq_epi8(tokens, zero), zero));
        raw = _mm256_add_epi64(raw, _mm256_sad_epu8(sizes, zero));
    }
    *n_raw = sum_of(raw);
    return 32 * (uint64_t)job->head->n_steps - sum_of(zeros) / 255;
}

/* 32 lanes of 16 bits, in ascending order. */
struct wide {
    v32 low, high;
};

/* Takes raw bits of all lanes from bit number `*at` on: for each lane as many as its mask has
 * ones. */
INLINE struct wide deal(const uint8_t *bits, uint64_t *at, struct wide masks)
{
    uint64_t mask[8], raw[8], next = *at;
    row_store(mask, masks.low);
    row_store(mask + 4, masks.high);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) { /* a mask has at most 56 bits */
        raw[i] = _pdep_u64(psti_load_u64(bits + (next >> 3)) >> (next & 7), mask[i]);
        next += (uint64_t)_mm_popcnt_u64(mask[i]);
    }
    *at = next;
    /* The result is not stored to memory, because loading it would wait for the eight stores. */
    return (struct wide){_mm256_set_epi64x((long long)raw[3], (long long)raw[2], (long long)raw[1],
                                           (long long)raw[0]),
                         _mm256_set_epi64x((long long)raw[7], (long long)raw[6], (long long)raw[5],
                                           (long long)raw[4])};
}

/* Returns the magnitude of large tokens with n raw bits: 2 << n or 3 << n, plus the raw bits. */
INLINE v32 magnitude_of(v32 power, v32 three, v32 raw)
{
    v32 base = _mm256_add_epi16(_mm256_add_epi16(power, power), _mm256_and_si256(power, three));
    return _mm256_add_epi16(base, raw);
}

/* Returns the magnitudes of large tokens, and 0 in other lanes. Unpacking `tokens` gives ascending
 * lanes. */
INLINE struct wide large_magnitudes(v32 tokens, v32 large, const uint8_t *bits, uint64_t *at)
{
    const v32 one = _mm256_set1_epi16(1);
    /* The two bytes of 1 << n, by n. */
    const v32 low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 8, 16, 32, 64, (char)128, 0, 0, 0, 0, 0, 0, 0, 0));
    const v32 high = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 0));
    v32 n = sizes_of(tokens, large);
    v32 power_0 = _mm256_shuffle_epi8(low, n), power_1 = _mm256_shuffle_epi8(high, n);
    v32 three = _mm256_and_si256(tokens, _mm256_set1_epi8(1)); /* even tokens begin at 3 << n */
    three = _mm256_cmpeq_epi8(three, _mm256_setzero_si256());
    struct wide power = {_mm256_unpacklo_epi8(power_0, power_1),
                         _mm256_unpackhi_epi8(power_0, power_1)};
    struct wide raw =
        deal(bits, at,
             (struct wide){_mm256_subs_epu16(power.low, one), _mm256_subs_epu16(power.high, one)});
    return (struct wide){magnitude_of(power.low, _mm256_unpacklo_epi8(three, three), raw.low),
                         magnitude_of(power.high, _mm256_unpackhi_epi8(three, three), raw.high)};
}

/* Negates the 16 lanes whose bits in `negative` are set. */
INLINE v32 negate(v32 v, uint32_t negative)
{
    const v32 bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192,
                                      16384, -32768);
    v32 mask = _mm256_and_si256(_mm256_set1_epi16((short)negative), bit);
    mask = _mm256_cmpeq_epi16(mask, bit);
    return _mm256_sub_epi16(_mm256_xor_si256(v, mask), mask);
}

/* Makes the residuals of the next row. Signs begin at bit number `*sign_at`, raw bits at `*raw_at`.
 */
INLINE void find_row(struct psti_pli_wave_row *row, const uint8_t *bits, uint64_t *sign_at,
                     uint64_t *raw_at)
{
    const v32 zero = _mm256_setzero_si256();
    v32 tokens = row_load(row->lanes);
    uint32_t lanes = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(tokens, zero));
    uint64_t signs = psti_load_u64(bits + (*sign_at >> 3)) >> (*sign_at & 7);
    uint32_t negative = _pdep_u32((uint32_t)signs, lanes);
    *sign_at += (uint32_t)_mm_popcnt_u32(lanes);
    tokens = _mm256_permute4x64_epi64(tokens, 0xd8);
    v32 large = large_of(tokens), small = _mm256_andnot_si256(large, tokens);
    struct wide m = {_mm256_unpacklo_epi8(small, zero), _mm256_unpackhi_epi8(small, zero)};
    if (!_mm256_testz_si256(large, large)) {
        struct wide more = large_magnitudes(tokens, large, bits, raw_at);
        m.low = _mm256_or_si256(m.low, more.low);
        m.high = _mm256_or_si256(m.high, more.high);
    }
    uint8_t *to = (uint8_t *)row;
    row_store(to, negate(m.low, negative));
    row_store(to + 32, negate(m.high, negative >> 16));
}

uint64_t TARGET psti_pli_wave_avx2_residuals_u16(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    struct psti_pli_wave_memory *m = job->memory;
    uint64_t n_raw, sign_at = 0, raw_at = count_bits(job, &n_raw), n = raw_at + n_raw;
    for (uint32_t t = 0; n <= n_bits && t < job->head->n_steps; t++)
        find_row(m->tokens + WAVE_BEFORE + t, m->bits, &sign_at, &raw_at);
    return n;
}
#endif
