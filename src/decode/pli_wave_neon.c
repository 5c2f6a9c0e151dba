/* pli_wave_neon.c - the wave decoder with NEON.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: more words than the samples are worth. Pure functions,
 * any thread. Tokens first (pli_wave_neon_tokens.c), the rest as pli_wave_rows.c says. */
#include "decode/pli_wave_neon.h"

#if defined(PSTI_NEON)
/* -- Raw bits -- */

/* Tokens other than 0, which have signs; sets `*largest` to the largest token. */
static uint64_t count_signs(const struct psti_pli_wave_job *job, uint32_t *largest)
{
    uint8x16_t most = vdupq_n_u8(0);
    uint64x2_t sums = vdupq_n_u64(0);
    for (uint32_t t = 0; t < job->head->n_steps; t++) {
        v32 tokens = row_load(job->memory->tokens[WAVE_BEFORE + t].lanes);
        uint8x16_t some =
            vaddq_u8(vminq_u8(tokens.v[0], vdupq_n_u8(1)), vminq_u8(tokens.v[1], vdupq_n_u8(1)));
        sums = vpadalq_u32(sums, vpaddlq_u16(vpaddlq_u8(some)));
        most = vmaxq_u8(most, vmaxq_u8(tokens.v[0], tokens.v[1]));
    }
    *largest = vmaxvq_u8(most);
    return vgetq_lane_u64(sums, 0) + vgetq_lane_u64(sums, 1);
}

/* Four bits for each of 16 lanes that have raw bits. */
PSTI_NEON_INLINE uint64_t large_of(uint8x16_t tokens)
{
    uint8x16_t large = vcgeq_u8(tokens, vdupq_n_u8(PSTI_PLI_DIRECT));
    uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(large), 4);
    return vget_lane_u64(vreinterpret_u64_u8(nibbles), 0);
}

/* Puts magnitudes in place of tokens that have raw bits; returns how many bits the unit takes. */
static uint64_t add_raw_bits(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    /* By token - 24; samples of 8 bits have no more. */
    static const uint8_t sizes[8] = {3, 4, 4, 5, 5, 6}, bases[8] = {24, 32, 48, 64, 96, 128};
    uint32_t largest;
    uint64_t at = count_signs(job, &largest);
    if (largest < PSTI_PLI_DIRECT)
        return at;
    for (uint32_t t = 0; t < job->head->n_steps && at <= n_bits; t++) {
        uint8_t *lanes = job->memory->tokens[WAVE_BEFORE + t].lanes;
        v32 tokens = row_load(lanes);
        for (uint32_t half = 0; half < 2; half++) {
            uint64_t large = large_of(tokens.v[half]);
            for (; large != 0 && at <= n_bits; large &= large - 1) {
                uint32_t bit = (uint32_t)__builtin_ctzll(large);
                uint8_t *magnitude = lanes + 16 * half + bit / 4;
                uint32_t token = (*magnitude - PSTI_PLI_DIRECT) & 7u, size = sizes[token];
                uint64_t bits = psti_load_u64(job->memory->bits + (at >> 3)) >> (at & 7);
                *magnitude = (uint8_t)(bases[token] + (bits & ((1u << size) - 1)));
                at += size;
                large &= ~(UINT64_C(14) << bit);
            }
        }
    }
    return at;
}

/* -- The unit -- */

static const struct psti_pli_wave_rows_level level = {
    .values = {add_raw_bits, psti_pli_wave_neon_residuals16},
    .rebuild = {psti_pli_wave_neon_rebuild, psti_pli_wave_neon_rebuild16},
};

enum pst_status psti_pli_wave_decode_neon(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (!psti_pli_wave_rows_fit(head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_job job = {.unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0)
        psti_pli_wave_neon_tokens(&job);
    return psti_pli_wave_rows_finish(&level, &job, planes, err);
}
#endif
