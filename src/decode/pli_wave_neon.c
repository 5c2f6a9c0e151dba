/* pli_wave_neon.c - the wave decoder with NEON: units of 8-bit samples.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: 16 bits, or more words than the samples are worth. Pure
 * functions, any thread.
 *
 * Tokens first, samples second (pli_wave_neon_tokens.c, pli_wave_neon_rebuild.c); both leave rows
 * of 32 lanes, step by step. Turning columns into rows then gives each lane's samples of all bands
 * as one line, in which row y of plane p begins at 2 * (y % 32) + 64 * (band of p and y): that is
 * what the planes handed out describe. */
#include "decode/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

/* -- Raw bits -- */

/* Tokens other than 0, which have signs; sets `*largest` to the largest token. */
static uint64_t count_signs(const struct psti_pli_wave_neon_job *job, uint32_t *largest)
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
static uint64_t add_raw_bits(const struct psti_pli_wave_neon_job *job, uint64_t n_bits)
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

static enum pst_status open_bits(struct psti_pli_wave_neon_job *job, struct pst_error *err)
{
    const struct psti_pli_wave_head *head = job->head;
    uint8_t *bits = job->memory->bits;
    uint64_t n_bits = 8 * ((uint64_t)head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES);
    memcpy(bits, head->raw, head->raw_nbytes);
    for (uint32_t l = 0; l < PSTI_PLI_LANES; l++)
        psti_store_u16(bits + head->raw_nbytes + 2 * (size_t)l, job->low[l]);
    memset(bits + head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES, 0, 16);
    if (add_raw_bits(job, n_bits) > n_bits)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit lacks raw bits");
    return PST_OK;
}

/* -- From rows of lanes to lines of samples -- */

PSTI_NEON_INLINE void interleave(const uint8x16_t *in, uint8x16_t *out)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        out[2 * i] = vzip1q_u8(in[i], in[i + 8]);
        out[2 * i + 1] = vzip2q_u8(in[i], in[i + 8]);
    }
}

/* 16 lanes of 16 steps: interleaving rows i and i + 8 four times turns 16 x 16 bytes around. */
PSTI_NEON_INLINE void turn_16(const uint8_t (*rows)[WAVE_LANES], uint32_t lane, uint8_t *lines)
{
    const uint8x16_t top = vdupq_n_u8(0x80);
    uint8x16_t a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = veorq_u8(vld1q_u8(rows[i] + lane), top);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++)
        vst1q_u8(lines + (i + lane) * WAVE_LINE, a[i]);
}

static void make_lines(struct psti_pli_wave_neon_memory *m, uint32_t n_steps)
{
    for (uint32_t t = 0; t < n_steps; t += 16)
        for (uint32_t lane = 0; lane < WAVE_LANES; lane += 16)
            turn_16((const uint8_t(*)[WAVE_LANES])m->samples + WAVE_BEFORE + t, lane, m->lines + t);
}

/* -- The unit -- */

static bool can_decode(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    return unit->bits == 8 && (head->n_coded == 0 || (head->n_words <= WAVE_MAX_WORDS &&
                                                      head->raw_nbytes <= WAVE_MAX_RAW_NBYTES));
}

static enum pst_status finish(struct psti_pli_wave_neon_job *job, struct psti_pli_planes *planes,
                              struct pst_error *err)
{
    const struct psti_pli_wave_head *head = job->head;
    if (head->n_coded > 0) {
        if (!job->ends)
            return psti_fail(err, PST_ERROR_CORRUPT, ROOM,
                             "wave unit's words do not end its states");
        enum pst_status status = open_bits(job, err);
        if (status != PST_OK)
            return status;
        psti_pli_wave_neon_rebuild(job);
        make_lines(job->memory, head->n_steps);
    }
    if (head->n_constant > 0)
        psti_pli_wave_place_planes(head, job->memory->lines, WAVE_LINE + 2);
    *planes = (struct psti_pli_planes){
        .base = job->memory->lines,
        .plane_step = 64 * (size_t)head->bands_per_plane,
        .band_step = 64,
        .row_step = WAVE_LINE + 2,
    };
    return PST_OK;
}

enum pst_status psti_pli_wave_decode_neon(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (!can_decode(unit, head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_neon_job job = {
        .unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0)
        psti_pli_wave_neon_tokens(&job);
    return finish(&job, planes, err);
}
#endif
