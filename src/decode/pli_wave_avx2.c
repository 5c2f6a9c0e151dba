/* pli_wave_avx2.c - the wave decoder with AVX2.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: more words than the samples are worth and, of 8 bits,
 * taps beyond what 16-bit sums hold. Pure functions, any thread.
 *
 * Two units of one shape have their tokens decoded at once, for one alone leaves the processor
 * waiting for look-ups half of the time: 1.1 x the speed of all. Tokens first
 * (pli_wave_avx2_tokens.c), the rest as pli_wave_rows.c says. */
#include "decode/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <stddef.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))

/* -- Raw bits -- */

/* Tokens other than 0, which have signs; sets `*largest` to the largest token. */
static uint64_t TARGET count_signs(const struct psti_pli_wave_job *job, uint32_t *largest)
{
    const v32 zero = _mm256_setzero_si256();
    v32 sums = zero, most = zero;
    for (uint32_t t = 0; t < job->head->n_steps; t++) {
        v32 tokens = row_load(job->memory->tokens[WAVE_BEFORE + t].lanes);
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_cmpeq_epi8(tokens, zero), zero));
        most = _mm256_max_epu8(most, tokens);
    }
    uint64_t zeros[4];
    uint8_t lanes[32];
    row_store(zeros, sums);
    row_store(lanes, most);
    *largest = 0;
    for (uint32_t l = 0; l < 32; l++)
        *largest = lanes[l] > *largest ? lanes[l] : *largest;
    return 32 * (uint64_t)job->head->n_steps - (zeros[0] + zeros[1] + zeros[2] + zeros[3]) / 255;
}

/* Offsets, from `rows` on, of tokens that have raw bits. Four are written at once, wanted or not,
 * as few rows have more and a loop over them would be mispredicted. */
static uint32_t TARGET find_large(const struct psti_pli_wave_row *rows, uint32_t n_rows,
                                  uint16_t *offsets)
{
    const v32 limit = _mm256_set1_epi8(PSTI_PLI_DIRECT - 1);
    uint32_t n = 0;
    for (uint32_t t = 0; t < n_rows; t++) {
        v32 tokens = row_load(rows[t].lanes);
        uint32_t lanes = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(tokens, limit));
        uint32_t begin = (uint32_t)(t * sizeof rows[0] + offsetof(struct psti_pli_wave_row, lanes)),
                 next = n + (uint32_t)_mm_popcnt_u32(lanes);
        do {
            for (uint32_t i = 0; i < 4; i++, lanes = _blsr_u32(lanes))
                offsets[n + i] = (uint16_t)(begin + _tzcnt_u32(lanes));
            n += 4;
        } while (n < next);
        n = next;
    }
    return n;
}

/* Puts magnitudes in place of tokens that have raw bits; returns how many bits the unit takes. */
static uint64_t TARGET add_raw_bits(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    enum { ROWS = 64 };
    /* By token - 24; samples of 8 bits have no more. */
    static const uint8_t sizes[8] = {3, 4, 4, 5, 5, 6}, bases[8] = {24, 32, 48, 64, 96, 128};
    uint16_t offsets[ROWS * WAVE_LANES + 4];
    uint32_t largest;
    uint64_t at = count_signs(job, &largest);
    if (largest < PSTI_PLI_DIRECT)
        return at;
    for (uint32_t t = 0; t < job->head->n_steps && at <= n_bits; t += ROWS) {
        uint32_t left = job->head->n_steps - t;
        struct psti_pli_wave_row *rows = job->memory->tokens + WAVE_BEFORE + t;
        uint32_t n = find_large(rows, left < ROWS ? left : ROWS, offsets);
        for (uint32_t i = 0; i < n && at <= n_bits; i++) {
            uint8_t *magnitude = (uint8_t *)rows + offsets[i];
            uint32_t token = (*magnitude - PSTI_PLI_DIRECT) & 7u;
            uint64_t bits = psti_load_u64(job->memory->bits + (at >> 3)) >> (at & 7);
            *magnitude = (uint8_t)(bases[token] + _bzhi_u32((uint32_t)bits, sizes[token]));
            at += sizes[token];
        }
    }
    return at;
}

/* -- The unit -- */

static const struct psti_pli_wave_rows_level level = {
    .values = {add_raw_bits, psti_pli_wave_avx2_residuals16},
    .rebuild = {psti_pli_wave_avx2_rebuild, psti_pli_wave_avx2_rebuild16},
};

static bool can_decode(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    return psti_pli_wave_rows_fit(head) &&
           (unit->bits == 16 || psti_pli_wave_avx2_can_rebuild(head));
}

enum pst_status psti_pli_wave_decode_avx2(const struct psti_pli_unit *unit,
                                          struct psti_pli_wave_head *head,
                                          struct psti_pli_wave_tables *tables, void *work,
                                          struct psti_pli_planes *planes, struct pst_error *err)
{
    if (!can_decode(unit, head))
        return psti_pli_wave_decode_c(unit, head, tables, work, planes, err);
    struct psti_pli_wave_job job = {.unit = unit, .head = head, .tables = tables, .memory = work};
    if (head->n_coded > 0)
        psti_pli_wave_avx2_tokens(&job);
    return psti_pli_wave_rows_finish(&level, &job, planes, err);
}

bool psti_pli_wave_decode_some_avx2(const struct psti_pli_unit *units,
                                    struct psti_pli_wave_head *heads, uint32_t n_units,
                                    struct psti_pli_wave_tables *tables, void *work,
                                    struct psti_pli_planes *planes, enum pst_status *statuses,
                                    struct pst_error *err)
{
    struct psti_pli_wave_memory *memory = work;
    if (n_units != 2 || heads[0].n_coded == 0 || !can_decode(units, heads) ||
        !can_decode(units + 1, heads + 1) || units[0].width != units[1].width ||
        !psti_pli_wave_same_shape(units, heads, 2))
        return false;
    struct psti_pli_wave_job jobs[2] = {
        {.unit = units, .head = heads, .tables = tables, .memory = memory},
        {.unit = units + 1, .head = heads + 1, .tables = tables, .memory = memory + 1}};
    psti_pli_wave_avx2_tokens_two(jobs);
    if (!jobs[0].ends || !jobs[1].ends)
        return false; /* what is wrong is told when they are decoded one by one */
    statuses[0] = psti_pli_wave_rows_finish(&level, jobs, planes, err);
    statuses[1] =
        psti_pli_wave_rows_finish(&level, jobs + 1, planes + 1, statuses[0] == PST_OK ? err : NULL);
    return true;
}
#endif
