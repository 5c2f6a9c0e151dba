/* pli_wave_avx512_raw.c - raw bits of the wave decoder with AVX-512 VBMI: large tokens become
 * magnitudes.
 *
 * In: rows of tokens, and the bits of the units with the low halves of their states; out: rows of
 * magnitudes, bits made contiguous. Pure functions, any thread. Signs come first among a unit's
 * bits: they are counted here and read later (pli_wave_avx512_rebuild.c). */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

enum { CHUNK = 64 /* rows */ };

/* Of both units: how many tokens other than 0 there are, which have signs; and where in each row
 * large ones are, with rows of none behind the last. */
struct tally {
    uint64_t n_signs[WAVE_UNITS];
    _Alignas(64) uint64_t large[(PSTI_PLI_WAVE_MAX_STEPS + 7) / 8 * 8];
};

TARGET static void count_tokens(const uint8_t (*rows)[WAVE_ROW], uint32_t n_rows,
                                struct tally *tally)
{
    const __m512i one = _mm512_set1_epi8(1), limit = _mm512_set1_epi8(PSTI_PLI_DIRECT - 1);
    const __m512i zero = _mm512_setzero_si512(), low = _mm512_set1_epi16(255);
    __m512i first = zero, second = zero;
    for (uint32_t t = 0; t < n_rows; t += CHUNK) {
        uint32_t end = n_rows - t < CHUNK ? n_rows : t + CHUNK;
        __m512i some = zero; /* by byte */
        for (uint32_t i = t; i < end; i++) {
            __m512i row = row_load(rows[i]);
            some = _mm512_add_epi8(some, _mm512_min_epu8(row, one));
            tally->large[i] = _mm512_cmpgt_epu8_mask(row, limit);
        }
        first = _mm512_add_epi64(first, _mm512_sad_epu8(_mm512_and_si512(some, low), zero));
        second = _mm512_add_epi64(second, _mm512_sad_epu8(_mm512_srli_epi16(some, 8), zero));
    }
    tally->n_signs[0] = psti_avx512_sum_u64(first);
    tally->n_signs[1] = psti_avx512_sum_u64(second);
    for (uint32_t t = n_rows; t % 8 != 0; t++)
        tally->large[t] = 0;
}

/* Where in a chunk large tokens are. */
struct places {
    uint16_t at[WAVE_UNITS][(CHUNK + 1) * WAVE_LANES];
    uint32_t n[WAVE_UNITS];
};

/* Those of row i of the chunk. Compressed in a register: stores that compress are slow on Zen 4. */
INLINE void add_row(struct places *places, uint64_t large, uint32_t i)
{
    const __m512i lanes =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512i at = _mm512_add_epi16(lanes, _mm512_set1_epi16((int16_t)(WAVE_ROW * i)));
    for (uint32_t u = 0; u < WAVE_UNITS; u++) {
        __mmask32 of_unit = (__mmask32)_pext_u64(large >> u, WAVE_FIRST_UNIT);
        row_store(places->at[u] + places->n[u], _mm512_maskz_compress_epi16(of_unit, at));
        places->n[u] += (uint32_t)_mm_popcnt_u32(of_unit);
        at = _mm512_add_epi16(at, _mm512_set1_epi16(1));
    }
}

/* `large`: of the rows of a chunk, the last of which may have fewer than eight. */
TARGET static void find_large(const uint64_t *large, uint32_t n_rows, struct places *places)
{
    places->n[0] = places->n[1] = 0;
    for (uint32_t t = 0; t < n_rows; t += 8) {
        __m512i eight = _mm512_loadu_si512(large + t);
        for (uint32_t some = _mm512_test_epi64_mask(eight, eight); some != 0; some &= some - 1) {
            uint32_t i = t + (uint32_t)__builtin_ctz(some);
            add_row(places, large[i], i);
        }
    }
}

/* Magnitudes in place of large tokens of one unit and chunk; returns the bit behind theirs. */
TARGET static uint64_t add_bits(uint8_t *rows, const uint16_t *places, uint32_t n,
                                const uint8_t *bits, uint64_t at, uint64_t n_bits)
{
    /* By token - 24; samples of 8 bits have no more. */
    static const uint8_t sizes[8] = {3, 4, 4, 5, 5, 6}, bases[8] = {24, 32, 48, 64, 96, 128};
    for (uint32_t i = 0; i < n && at <= n_bits; i++) {
        uint8_t *magnitude = rows + places[i];
        uint32_t token = (*magnitude - PSTI_PLI_DIRECT) & 7u;
        uint64_t next = psti_load_u64(bits + (at >> 3)) >> (at & 7);
        *magnitude = (uint8_t)(bases[token] + _bzhi_u32((uint32_t)next, sizes[token]));
        at += sizes[token];
    }
    return at;
}

/* A unit's bits, its states' halves behind them, zeros behind those; how many there are. */
static uint64_t open_bits(const struct psti_pli_wave512_job *job, uint32_t u)
{
    const struct psti_pli_wave_head *head = job->heads[u];
    uint8_t *bits = job->memory->bits[u];
    memcpy(bits, head->raw, head->raw_nbytes);
    for (uint32_t l = 0; l < WAVE_LANES; l++)
        psti_store_u16(bits + head->raw_nbytes + 2 * (size_t)l, job->low[u][l]);
    memset(bits + head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES, 0, WAVE_BITS_BEHIND);
    return 8 * ((uint64_t)head->raw_nbytes + PSTI_PLI_WAVE_STATE_NBYTES);
}

TARGET void psti_pli_wave512_raw_bits(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS])
{
    struct psti_pli_wave512_memory *m = job->memory;
    uint32_t n_steps = job->heads[0]->n_steps;
    struct tally tally;
    count_tokens((const uint8_t(*)[WAVE_ROW])m->tokens, n_steps, &tally);
    uint64_t n_bits[WAVE_UNITS], at[WAVE_UNITS];
    for (uint32_t u = 0; u < job->n_units; u++) {
        n_bits[u] = open_bits(job, u);
        at[u] = tally.n_signs[u];
    }
    for (uint32_t t = 0; t < n_steps; t += CHUNK) {
        struct places places;
        uint32_t n_rows = n_steps - t < CHUNK ? n_steps - t : CHUNK;
        find_large(tally.large + t, n_rows, &places);
        for (uint32_t u = 0; u < job->n_units; u++)
            at[u] = add_bits(m->tokens[t], places.at[u], places.n[u], m->bits[u], at[u], n_bits[u]);
    }
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = at[u] > n_bits[u];
}
#endif
