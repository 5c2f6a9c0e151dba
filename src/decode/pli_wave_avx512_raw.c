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

/* Tokens other than 0, which have signs; and whether some have raw bits. */
struct tally {
    uint64_t n_signs[WAVE_UNITS];
    bool any_large;
};

TARGET static struct tally count_signs(const uint8_t (*rows)[WAVE_ROW], uint32_t n_rows)
{
    struct tally tally = {{0, 0}, false};
    __m512i most = _mm512_setzero_si512();
    for (uint32_t t = 0; t < n_rows; t++) {
        __m512i row = row_load(rows[t]);
        uint64_t some = _mm512_test_epi8_mask(row, row);
        tally.n_signs[0] += (uint64_t)_mm_popcnt_u64(some & WAVE_FIRST_UNIT);
        tally.n_signs[1] += (uint64_t)_mm_popcnt_u64(some & ~WAVE_FIRST_UNIT);
        most = _mm512_max_epu8(most, row);
    }
    tally.any_large = _mm512_cmpgt_epu8_mask(most, _mm512_set1_epi8(PSTI_PLI_DIRECT - 1)) != 0;
    return tally;
}

enum { CHUNK = 64 /* rows */ };

/* Where in a chunk large tokens are. */
struct places {
    uint16_t at[WAVE_UNITS][(CHUNK + 1) * WAVE_LANES];
    uint32_t n[WAVE_UNITS];
};

/* Compressed in a register: stores that compress are slow on Zen 4. */
TARGET static void find_large(const uint8_t (*rows)[WAVE_ROW], uint32_t n_rows,
                              struct places *places)
{
    const __m512i limit = _mm512_set1_epi16(PSTI_PLI_DIRECT - 1), low = _mm512_set1_epi16(255);
    const __m512i upper_limit = _mm512_set1_epi16((PSTI_PLI_DIRECT << 8) - 1);
    const __m512i one = _mm512_set1_epi16(1), next = _mm512_set1_epi16(WAVE_ROW);
    __m512i at = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32,
                                  30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    uint32_t n_0 = 0, n_1 = 0;
    for (uint32_t t = 0; t < n_rows; t++, at = _mm512_add_epi16(at, next)) {
        __m512i row = row_load(rows[t]);
        __mmask32 lanes_0 = _mm512_cmpgt_epu16_mask(_mm512_and_si512(row, low), limit);
        __mmask32 lanes_1 = _mm512_cmpgt_epu16_mask(row, upper_limit);
        row_store(places->at[0] + n_0, _mm512_maskz_compress_epi16(lanes_0, at));
        row_store(places->at[1] + n_1,
                  _mm512_maskz_compress_epi16(lanes_1, _mm512_add_epi16(at, one)));
        n_0 += (uint32_t)_mm_popcnt_u32(lanes_0);
        n_1 += (uint32_t)_mm_popcnt_u32(lanes_1);
    }
    places->n[0] = n_0;
    places->n[1] = n_1;
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
    struct tally tally = count_signs((const uint8_t(*)[WAVE_ROW])m->tokens, n_steps);
    uint64_t n_bits[WAVE_UNITS], at[WAVE_UNITS];
    for (uint32_t u = 0; u < job->n_units; u++) {
        n_bits[u] = open_bits(job, u);
        at[u] = tally.n_signs[u];
    }
    for (uint32_t t = 0; tally.any_large && t < n_steps; t += CHUNK) {
        struct places places;
        uint32_t n_rows = n_steps - t < CHUNK ? n_steps - t : CHUNK;
        find_large((const uint8_t(*)[WAVE_ROW])m->tokens + t, n_rows, &places);
        for (uint32_t u = 0; u < job->n_units; u++)
            at[u] = add_bits(m->tokens[t], places.at[u], places.n[u], m->bits[u], at[u], n_bits[u]);
    }
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = at[u] > n_bits[u];
}
#endif
