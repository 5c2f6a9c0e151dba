/* pli_wave_neon_raw_u16.c - signs and raw bits of 16-bit samples with NEON.
 *
 * In: rows of tokens and the bits of the unit; out: residuals in place of the rows. Most tokens of
 * noisy images have raw bits, 3 to 14 of them. Sums of how many say where each lane's begin; those
 * of 16 lanes lie in 32 bytes, of which three look-ups bring each lane its own. Only how many the
 * lanes of a row have together goes from one row to the next. Pure functions, any thread. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)

/* -- Signs -- */

/* In each half, minus the number of bytes of `mask` (0 or 255) up to and including each. */
PSTI_NEON_INLINE uint8x16_t minus_counts(uint8x16_t mask)
{
#define UP(v, n) vreinterpretq_u8_u64(vshlq_n_u64(vreinterpretq_u64_u8(v), n))
    mask = vaddq_u8(mask, UP(mask, 8));
    mask = vaddq_u8(mask, UP(mask, 16));
    return vaddq_u8(mask, UP(mask, 32));
#undef UP
}

/* 255 in each lane of `some` for which the next sign is 1. `skip`: minus how many of `bits` belong
 * to lanes before each half; `counts`: of minus_counts. */
PSTI_NEON_INLINE uint8x16_t half_signs(uint64_t bits, int64x2_t skip, uint8x16_t counts,
                                       uint8x16_t some)
{
    const uint8x16_t first = vcombine_u8(vdup_n_u8(0), vdup_n_u8(8));
    uint8x16_t own = vreinterpretq_u8_u64(vshlq_u64(vdupq_n_u64(bits), skip));
    own = vqtbl1q_u8(own, first); /* the eight that a half may need */
    /* The n-th lane wants bit n - 1, and gets it at the top by 8 - n. */
    int8x16_t to_top = vreinterpretq_s8_u8(vaddq_u8(counts, vdupq_n_u8(8)));
    return vandq_u8(vcltq_s8(vreinterpretq_s8_u8(vshlq_u8(own, to_top)), vdupq_n_s8(0)), some);
}

/* 255 in the lanes of `tokens`, those of them that are not 0, of which the next sign is 1. Signs
 * begin at bit `*at`, which goes on. */
PSTI_NEON_INLINE v32 take_signs(const uint8_t *bytes, uint64_t *at, v32 tokens)
{
    v32 some, negative;
    uint8x16_t counts[2];
    int64x2_t minus[2]; /* of whole halves */
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        some.v[i] = vtstq_u8(tokens.v[i], tokens.v[i]);
        counts[i] = minus_counts(some.v[i]);
        minus[i] = vshrq_n_s64(vreinterpretq_s64_u8(counts[i]), 56);
    }
    int64x2_t before = vextq_s64(vdupq_n_s64(0), minus[0], 1);
    int64x2_t of_16 = vdupq_laneq_s64(vaddq_s64(before, minus[0]), 1);
    int64x2_t before_1 = vaddq_s64(vextq_s64(vdupq_n_s64(0), minus[1], 1), of_16);
    uint64_t bits = psti_load_u64(bytes + (*at >> 3)) >> (*at & 7);
    *at -= (uint64_t)vgetq_lane_s64(vaddq_s64(before_1, minus[1]), 1);
    negative.v[0] = half_signs(bits, before, counts[0], some.v[0]);
    negative.v[1] = half_signs(bits, before_1, counts[1], some.v[1]);
    return negative;
}

/* -- Raw bits -- */

/* Bytes that are all ones where tokens have raw bits. */
PSTI_NEON_INLINE uint8x16_t are_large(uint8x16_t tokens)
{
    return vcgeq_u8(tokens, vdupq_n_u8(PSTI_PLI_DIRECT));
}

/* How many raw bits large tokens have, 3 to 14: (token - 17) / 2; of others 0. */
PSTI_NEON_INLINE uint8x16_t sizes_of(uint8x16_t tokens)
{
    return vandq_u8(vshrq_n_u8(vsubq_u8(tokens, vdupq_n_u8(17)), 1), are_large(tokens));
}

PSTI_NEON_INLINE uint64x2_t add_bytes(uint64x2_t sums, uint8x16_t v)
{
    return vpadalq_u32(sums, vpaddlq_u16(vpaddlq_u8(v)));
}
PSTI_NEON_INLINE uint64_t sum_of(uint64x2_t sums)
{
    return vgetq_lane_u64(sums, 0) + vgetq_lane_u64(sums, 1);
}

/* Tokens other than 0, which have signs; and raw bits of all. */
static uint64_t count_bits(const struct psti_pli_wave_job *job, uint64_t *n_raw)
{
    const uint8x16_t one = vdupq_n_u8(1);
    uint64x2_t some = vdupq_n_u64(0), raw = vdupq_n_u64(0);
    for (uint32_t t = 0; t < job->head->n_steps; t++) {
        v32 tokens = row_load(job->memory->tokens[WAVE_BEFORE + t].lanes);
        some = add_bytes(some, vaddq_u8(vminq_u8(tokens.v[0], one), vminq_u8(tokens.v[1], one)));
        raw = add_bytes(raw, vaddq_u8(sizes_of(tokens.v[0]), sizes_of(tokens.v[1])));
    }
    *n_raw = sum_of(raw);
    return sum_of(some);
}

/* Of 16 lanes: tokens and, of large ones, their raw bits. */
struct half {
    uint8x16_t factors, sizes; /* a magnitude is factor << size and the raw bits */
    uint8x16_t bits[3];        /* 24, */
    uint8x16_t first;          /* from which on they are the lane's */
};

/* `*at`: the first raw bit; goes on. */
PSTI_NEON_INLINE struct half take_half(uint8x16_t tokens, const uint8_t *bytes, uint64_t *at)
{
    struct half h = {.sizes = sizes_of(tokens)};
    /* A large token of n raw bits begins at 2 << n or, if it is even, 3 << n. */
    uint8x16_t two_or_three = vsubq_u8(vdupq_n_u8(3), vandq_u8(tokens, vdupq_n_u8(1)));
    h.factors = vbslq_u8(are_large(tokens), two_or_three, tokens);
    uint8x16_t sums = sums_up_to(h.sizes); /* at most 16 * 14 */
    uint8x16_t begin = vaddq_u8(vsubq_u8(sums, h.sizes), vdupq_n_u8((uint8_t)(*at & 7)));
    const uint8_t *from = bytes + (*at >> 3);
    const uint8x16x2_t near = {{vld1q_u8(from), vld1q_u8(from + 16)}};
    uint8x16_t byte = vshrq_n_u8(begin, 3);
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        h.bits[i] = vqtbl2q_u8(near, vaddq_u8(byte, vdupq_n_u8((uint8_t)i)));
    h.first = vandq_u8(begin, vdupq_n_u8(7));
    *at += vgetq_lane_u8(sums, 15);
    return h;
}

/* Magnitudes of 8 lanes. */
PSTI_NEON_INLINE uint16x8_t magnitudes(uint8x8_t factors, uint8x8_t sizes, uint8x8_t first,
                                       uint16x8_t bits, uint8x8_t last_bits)
{
    int16x8_t size = vreinterpretq_s16_u16(vmovl_u8(sizes));
    int16x8_t skip = vreinterpretq_s16_u16(vmovl_u8(first));
    /* Shifts by 16 leave nothing. */
    uint16x8_t raw = vorrq_u16(vshlq_u16(bits, vnegq_s16(skip)),
                               vshlq_u16(vmovl_u8(last_bits), vsubq_s16(vdupq_n_s16(16), skip)));
    raw = vbicq_u16(raw, vshlq_u16(vdupq_n_u16(UINT16_MAX), size));
    return vorrq_u16(vshlq_u16(vmovl_u8(factors), size), raw);
}

PSTI_NEON_INLINE void store_residuals(uint8_t *to, uint16x8_t magnitude, uint8x8_t negative)
{
    uint16x8_t mask = vreinterpretq_u16_s16(vmovl_s8(vreinterpret_s8_u8(negative)));
    uint16x8_t v = vsubq_u16(veorq_u16(magnitude, mask), mask);
    vst1q_u8(to, vreinterpretq_u8_u16(v));
}

/* The next residuals: signs from bit `*sign_at` on, raw bits from `*raw_at`. */
PSTI_NEON_INLINE void find_row(struct psti_pli_wave_row *row, const uint8_t *bits,
                               uint64_t *sign_at, uint64_t *raw_at)
{
    v32 tokens = row_load(row->lanes), negative = take_signs(bits, sign_at, tokens);
    bool any_large = vmaxvq_u8(vmaxq_u8(tokens.v[0], tokens.v[1])) >= PSTI_PLI_DIRECT;
    uint8_t *to = (uint8_t *)row;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++, to += 32) {
        uint16x8_t low = vmovl_u8(vget_low_u8(tokens.v[i]));
        uint16x8_t high = vmovl_u8(vget_high_u8(tokens.v[i]));
        if (any_large) {
            struct half h = take_half(tokens.v[i], bits, raw_at);
            low = magnitudes(vget_low_u8(h.factors), vget_low_u8(h.sizes), vget_low_u8(h.first),
                             vreinterpretq_u16_u8(vzip1q_u8(h.bits[0], h.bits[1])),
                             vget_low_u8(h.bits[2]));
            high = magnitudes(vget_high_u8(h.factors), vget_high_u8(h.sizes), vget_high_u8(h.first),
                              vreinterpretq_u16_u8(vzip2q_u8(h.bits[0], h.bits[1])),
                              vget_high_u8(h.bits[2]));
        }
        store_residuals(to, low, vget_low_u8(negative.v[i]));
        store_residuals(to + 16, high, vget_high_u8(negative.v[i]));
    }
}

uint64_t psti_pli_wave_neon_residuals16(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    struct psti_pli_wave_memory *m = job->memory;
    uint64_t n_raw, sign_at = 0, raw_at = count_bits(job, &n_raw), n = raw_at + n_raw;
    for (uint32_t t = 0; n <= n_bits && t < job->head->n_steps; t++)
        find_row(m->tokens + WAVE_BEFORE + t, m->bits, &sign_at, &raw_at);
    return n;
}
#endif
