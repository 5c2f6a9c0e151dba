/* pli_wave_avx512.c - the wave decoder with AVX-512, for units of 8-bit samples, up to six units at
 * a time.
 *
 * pli_wave_int.h says what goes in and out. Plain C gives the same samples and statuses. AVX2
 * decodes units for which AVX-512 code would not pay: units of 16 bits, and units whose taps exceed
 * what 16-bit sums hold. The functions are pure; any thread may call them.
 *
 * Activities are decoded first, then residuals, then samples (the files pli_wave_avx512_*.c). Each
 * stage leaves rows of lanes, step by step. A transposition makes one line of each lane's samples
 * of all bands, in which row y of plane p begins at 2 * (y % 32) + 64 * (band of p and y). The
 * planes that it returns describe these lines. */
#include "pli/decode/wave/x86/pli_wave_avx512.h"

#if defined(__x86_64__)
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

/* -- Transposition of rows of lanes to lines of samples -- */

INLINE void interleave(const __m512i *in, __m512i *out)
{
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        out[2 * i] = _mm512_unpacklo_epi8(in[i], in[i + 8]);
        out[2 * i + 1] = _mm512_unpackhi_epi8(in[i], in[i + 8]);
    }
}

INLINE void line_store(uint8_t *line, __m128i v) { _mm_storeu_si128((__m128i *)(void *)line, v); }

/* Transposes 16 steps to lines. Interleaving rows i and i + 8 four times transposes the 16 x 16
 * bytes of each quarter. */
INLINE void turn_16(const uint8_t (*rows)[WAVE_ROW], uint8_t *lines, size_t line_nbytes)
{
    __m512i a[16], b[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = row_load(rows[i]);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++) {
        uint8_t *line = lines + i * line_nbytes;
        line_store(line, _mm512_castsi512_si128(a[i]));
        line_store(line + 16 * line_nbytes, _mm512_extracti32x4_epi32(a[i], 1));
        line_store(line + 32 * line_nbytes, _mm512_extracti32x4_epi32(a[i], 2));
        line_store(line + 48 * line_nbytes, _mm512_extracti32x4_epi32(a[i], 3));
    }
}

/* Returns the number of bytes from one lane's line to the next. It is as many cache lines as all
 * planes need, rounded to an odd number, which puts the lines into different cache sets. */
static uint32_t line_nbytes(const struct psti_pli_wave_head *head)
{
    uint32_t n_steps = head->n_steps + 64 * head->bands_per_plane * head->n_constant;
    return 64 * ((n_steps + 63) / 64 | 1);
}

TARGET static void make_lines(struct psti_pli_wave512_memory *m, uint32_t n_steps, size_t nbytes)
{
    for (uint32_t t = 0; t < n_steps; t += 16)
        turn_16((const uint8_t(*)[WAVE_ROW])m->samples + t, m->lines + t, nbytes);
}

/* -- Units -- */

static bool can_decode(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head)
{
    return unit->bits == 8 && head->n_coded > 0 && psti_pli_wave_avx2_can_rebuild(head);
}

static enum pst_status status_of(const struct psti_pli_wave512_job *job, uint32_t u, bool lacks,
                                 struct pst_error *err)
{
    if (!job->ends[u])
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit's words do not end its states");
    if (lacks)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit lacks raw bits");
    return PST_OK;
}

/* Does all stages after the tokens. `err` describes the first unit that failed, unless `failed`
 * says that an earlier one did. */
static void finish(struct psti_pli_wave512_job *job, struct psti_pli_planes *planes,
                   enum pst_status *statuses, bool failed, struct pst_error *err)
{
    struct psti_pli_wave512_memory *m = job->memory;
    bool lacks[WAVE_UNITS] = {false, false};
    size_t nbytes = line_nbytes(job->heads[0]);
    if (psti_pli_wave512_is_plain(job)) {
        psti_pli_wave512_plain(job, lacks);
    } else {
        psti_pli_wave512_raw_bits(job, lacks);
        psti_pli_wave512_rebuild(job);
    }
    make_lines(m, job->heads[0]->n_steps, nbytes);
    for (uint32_t u = 0; u < job->n_units; u++) {
        uint8_t *lines = m->lines + u * WAVE_LANES * nbytes;
        statuses[u] = status_of(job, u, lacks[u], failed ? NULL : err);
        failed = failed || statuses[u] != PST_OK;
        if (job->heads[u]->n_constant > 0)
            psti_pli_wave_place_planes(job->heads[u], lines, nbytes + 2);
        planes[u] = (struct psti_pli_planes){
            .base = lines,
            .plane_step = 64 * (size_t)job->heads[u]->bands_per_plane,
            .band_step = 64,
            .row_step = nbytes + 2,
        };
    }
}

/* Decodes one to six units of one shape. */
static void decode_together(const struct psti_pli_unit *units,
                            const struct psti_pli_wave_head *heads, uint32_t n_units,
                            struct psti_pli_wave_tables *tables,
                            struct psti_pli_wave512_memory *memory, struct psti_pli_planes *planes,
                            enum pst_status *statuses, struct pst_error *err)
{
    struct psti_pli_wave512_job jobs[WAVE_JOBS];
    uint32_t n_jobs = (n_units + 1) / WAVE_UNITS;
    size_t nbytes = 0;
    for (uint32_t u = 0; u < n_units; u++)
        nbytes += units[u].nbytes;
    for (uint32_t j = 0; j < n_jobs; j++) {
        uint32_t u = WAVE_UNITS * j, second = u + 1 < n_units ? u + 1 : u;
        jobs[j] = (struct psti_pli_wave512_job){.n_units = second - u + 1,
                                                .units = {units + u, units + second},
                                                .heads = {heads + u, heads + second},
                                                .tables = tables,
                                                .memory = memory + j,
                                                .next = (uintptr_t)units[u].bytes + nbytes};
    }
    psti_pli_wave512_tokens(jobs, n_jobs);
    for (uint32_t j = 0; j < n_jobs; j++) {
        bool failed = false;
        for (uint32_t u = 0; u < WAVE_UNITS * j; u++)
            failed = failed || statuses[u] != PST_OK;
        finish(jobs + j, planes + 2 * j, statuses + 2 * j, failed, err);
    }
}

enum pst_status psti_pli_wave_decode_avx512(const struct psti_pli_unit *unit,
                                            struct psti_pli_wave_head *head,
                                            struct psti_pli_wave_tables *tables, void *work,
                                            struct psti_pli_planes *planes, struct pst_error *err)
{
    enum pst_status status;
    if (!can_decode(unit, head))
        return psti_pli_wave_decode_avx2(unit, head, tables, work, planes, err);
    decode_together(unit, head, 1, tables, work, planes, &status, err);
    return status;
}

bool psti_pli_wave_decode_some_avx512(const struct psti_pli_unit *units,
                                      struct psti_pli_wave_head *heads, uint32_t n_units,
                                      struct psti_pli_wave_tables *tables, void *work,
                                      struct psti_pli_planes *planes, enum pst_status *statuses,
                                      struct pst_error *err)
{
    if (!psti_pli_wave_same_shape(units, heads, n_units))
        return false;
    for (uint32_t u = 0; u < n_units; u++)
        if (!can_decode(units + u, heads + u))
            return false;
    decode_together(units, heads, n_units, tables, work, planes, statuses, err);
    return true;
}
#endif
