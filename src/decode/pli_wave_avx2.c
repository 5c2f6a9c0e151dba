/* pli_wave_avx2.c - the wave decoder with AVX2.
 *
 * In and out: see pli_wave_int.h; plain C gives the same samples and statuses, and takes the units
 * that are not worth a road of their own: more words than the samples are worth and, of 8 bits,
 * taps beyond what 16-bit sums hold. Pure functions, any thread.
 *
 * Two units of one shape have their tokens decoded at once, for one alone leaves the processor
 * waiting for a third of the time. Tokens first (pli_wave_avx2_tokens8.c, pli_wave_avx2_tokens.c),
 * the rest as pli_wave_rows.c says. */
#include "decode/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE PSTI_WAVE_INLINE

/* -- Signs and raw bits of 8 bits -- */

/* Bits of eight lanes, as many as those of `mask`, from bit `at` on. */
INLINE uint64_t deal(const uint8_t *bits, uint64_t at, uint64_t mask, uint64_t n)
{
    uint64_t next = psti_load_u64(bits + (at >> 3)) >> (at & 7);
    if (n > 57)
        next |= (uint64_t)bits[(at >> 3) + 8] << 1 << (63 - (at & 7));
    return _pdep_u64(next, mask);
}

/* Signs (bit 0) and raw bits of some rows, to bytes; `at`: the first bit. Returns where they end.
 */
INLINE uint64_t deal_rows(const uint64_t *masks, uint32_t n, const uint8_t *bits, uint64_t at,
                          uint64_t *values)
{
    for (uint32_t row = 0; row < n; row++, masks += 4, values += 4) {
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++) {
            uint64_t n_bits = (uint64_t)_mm_popcnt_u64(masks[i]);
            values[i] = deal(bits, at, masks[i], n_bits);
            at += n_bits;
        }
    }
    return at;
}

/* Activities become residuals, a chunk of rows by passes, as a load waits for the stores of its
 * parts. */
static uint64_t TARGET find_residuals(struct psti_pli_wave_job *job, uint64_t n_bits)
{
    enum { ROWS = 16 };
    struct psti_pli_wave_row *rows = job->memory->tokens + WAVE_BEFORE;
    uint64_t masks[ROWS * 4], values[ROWS * 4], at = 0;
    uint8_t masks_of[16];
    for (uint32_t i = 0; i < 16; i++)
        masks_of[i] = (uint8_t)((1u << psti_pli_wave_all_bits_of[i]) - 1);
    const v32 mask_table = both_halves(masks_of), base_table = both_halves(psti_pli_wave_bases_of);
    const v32 one = _mm256_set1_epi8(1), seven = _mm256_set1_epi8(127);
    (void)n_bits; /* see struct psti_pli_wave_rows_level */
    for (uint32_t t = 0, n; t < job->head->n_steps; t += n, rows += n) {
        n = job->head->n_steps - t < ROWS ? job->head->n_steps - t : ROWS;
        for (uint32_t i = 0; i < n; i++)
            row_store(masks + 4 * (size_t)i,
                      _mm256_shuffle_epi8(mask_table, row_load(rows[i].lanes)));
        at = deal_rows(masks, n, job->memory->bits, at, values);
        for (uint32_t i = 0; i < n; i++) {
            v32 value = row_load(values + 4 * (size_t)i);
            v32 base = _mm256_shuffle_epi8(base_table, row_load(rows[i].lanes));
            v32 negative = _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_and_si256(value, one));
            value = _mm256_and_si256(_mm256_srli_epi16(value, 1), seven);
            value = _mm256_xor_si256(_mm256_add_epi8(value, base), negative);
            row_store(rows[i].lanes, _mm256_sub_epi8(value, negative));
        }
    }
    return at;
}

/* -- The unit -- */

static const struct psti_pli_wave_rows_level level = {
    .values = {find_residuals, psti_pli_wave_avx2_residuals16},
    .rebuild = {psti_pli_wave_avx2_rebuild, psti_pli_wave_avx2_rebuild16},
};

static bool can_decode(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    return psti_pli_wave_rows_fit(unit, head) &&
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
    if (head->n_coded > 0 && unit->bits == 8)
        psti_pli_wave_avx2_tokens8(&job);
    else if (head->n_coded > 0)
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
    if (units->bits == 8)
        psti_pli_wave_avx2_tokens8_two(jobs);
    else
        psti_pli_wave_avx2_tokens_two(jobs);
    if (!jobs[0].ends || !jobs[1].ends)
        return false; /* what is wrong is told when they are decoded one by one */
    statuses[0] = psti_pli_wave_rows_finish(&level, jobs, planes, err);
    statuses[1] =
        psti_pli_wave_rows_finish(&level, jobs + 1, planes + 1, statuses[0] == PST_OK ? err : NULL);
    return true;
}
#endif
