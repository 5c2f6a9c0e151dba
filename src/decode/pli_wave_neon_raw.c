/* pli_wave_neon_raw.c - signs and raw bits of 8-bit samples with NEON.
 *
 * In: rows of activities and the bits of the unit; out: residuals in place of the rows. Sums of how
 * many bits the lanes have say where each lane's begin; those of 16 lanes are 128 at most, so that
 * two look-ups bring each lane the two bytes in which its own lie. Only how many the lanes of a row
 * have together goes from one row to the next. A row takes 74 instructions. Pure functions, any
 * thread. */
#include "decode/pli_wave_neon.h"

#if defined(PSTI_NEON)

/* By the lower four bits of an activity. */
struct tables {
    uint8x16_t n_bits, masks, bases;
};

/* Residuals of 16 lanes, whose bits begin at `*at`, which goes on. */
PSTI_NEON_INLINE uint8x16_t find_half(const struct tables *tables, uint8x16_t activities,
                                      const uint8_t *bytes, uint64_t *at)
{
    const uint8x16_t seven = vdupq_n_u8(7);
    uint8x16_t which = vandq_u8(activities, vdupq_n_u8(15));
    uint8x16_t n = vqtbl1q_u8(tables->n_bits, which), sums = sums_up_to(n);
    uint8x16_t begin = vaddq_u8(vsubq_u8(sums, n), vdupq_n_u8((uint8_t)(*at & 7)));
    const uint8_t *from = bytes + (*at >> 3);
    uint8x16_t byte = vshrq_n_u8(begin, 3); /* at most 15 */
    uint8x16_t low = vqtbl1q_u8(vld1q_u8(from), byte), high = vqtbl1q_u8(vld1q_u8(from + 1), byte);
    int8x16_t skip = vreinterpretq_s8_u8(vandq_u8(begin, seven));
    uint8x16_t bits =
        vorrq_u8(vshlq_u8(low, vnegq_s8(skip)), vshlq_u8(high, vsubq_s8(vdupq_n_s8(8), skip)));
    bits = vandq_u8(bits, vqtbl1q_u8(tables->masks, which));
    uint8x16_t negative = vtstq_u8(bits, vdupq_n_u8(1));
    uint8x16_t magnitudes = vsraq_n_u8(vqtbl1q_u8(tables->bases, which), bits, 1);
    *at += vgetq_lane_u8(sums, 15);
    return vsubq_u8(veorq_u8(magnitudes, negative), negative);
}

uint64_t psti_pli_wave_neon_residuals(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    const uint8_t *bits = job->memory->bits;
    struct psti_pli_wave_row *row = job->memory->tokens + WAVE_BEFORE;
    const struct psti_pli_wave_row *end = row + job->head->n_steps;
    struct tables tables = {.n_bits = vld1q_u8(psti_pli_wave_all_bits_of),
                            .bases = vld1q_u8(psti_pli_wave_bases_of)};
    uint64_t at = 0;
    tables.masks = vmvnq_u8(vshlq_u8(vdupq_n_u8(255), vreinterpretq_s8_u8(tables.n_bits)));
    for (; row < end && at <= n_bits; row++) {
        v32 v = row_load(row->lanes);
        v.v[0] = find_half(&tables, v.v[0], bits, &at);
        v.v[1] = find_half(&tables, v.v[1], bits, &at);
        row_store(row->lanes, v);
    }
    return at;
}
#endif
