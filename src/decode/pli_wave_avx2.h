/* pli_wave_avx2.h - inside the AVX2 level of the wave decoder: its scratch, and what its files tell
 * each other.
 *
 * A step of the cylinder (docs/format-pli.md, 5.5) is a row of 32 tokens, one for each lane. Rows
 * are kept by step, so that neighbours stand at fixed distances; rows before step 0 exist and are
 * zeros. */
#ifndef PST_DECODE_PLI_WAVE_AVX2_H
#define PST_DECODE_PLI_WAVE_AVX2_H

#include "decode/pli_wave_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PSTI_WAVE_INLINE                                                                           \
    static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

typedef __m256i v32;

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_BEFORE = 4, /* rows before step 0 */
    WAVE_ROWS = WAVE_BEFORE + PSTI_PLI_WAVE_MAX_STEPS + 6,
    /* Units that have more are left to plain C. There are no more words than 10 bits a token make,
     * nor more raw bits than 14 and a sign each; encoders store such noise raw. */
    WAVE_MAX_WORDS = 10 * 1024,
    WAVE_MAX_RAW_NBYTES = 30 * 1024,
    WAVE_LINE = 704, /* samples of one lane in all bands, for those who read 96 at once */
    WAVE_BAND = 64   /* steps */
};

/* 32 tokens; before them lanes 16..31 once more, so that what stands one or two lanes up is read
 * with one load. Each row is one line of the cache. Residuals of 8 bits take the place of the
 * tokens; 32 of 16 bits that of the whole row. */
struct psti_pli_wave_row {
    uint8_t unused[16], before[16], lanes[WAVE_LANES];
};

struct psti_pli_wave_memory {
    _Alignas(64) struct psti_pli_wave_row tokens[WAVE_ROWS]; /* become residuals in place */
    union {
        uint16_t words[WAVE_MAX_WORDS + 3 * WAVE_LANES];
        /* `above`: turned by one lane. */
        struct {
            uint8_t lines[WAVE_LANES * WAVE_LINE];
            uint8_t samples[WAVE_ROWS][WAVE_LANES], above[WAVE_ROWS][WAVE_LANES];
        } of_8;
        /* Rows of the last steps, less 32768. */
        struct {
            uint16_t lines[WAVE_LANES * WAVE_LINE];
            _Alignas(64) int16_t samples[WAVE_BAND][WAVE_LANES], above[WAVE_BAND][WAVE_LANES];
        } of_16;
    };
    uint8_t bits[WAVE_MAX_RAW_NBYTES + PSTI_PLI_WAVE_STATE_NBYTES + 16];
};
_Static_assert(2 * sizeof(struct psti_pli_wave_memory) <= PSTI_PLI_WORK_NBYTES, "scratch");

/* A unit on its way. */
struct psti_pli_wave_job {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    struct psti_pli_wave_tables *tables;
    struct psti_pli_wave_memory *memory;
    uint16_t low[PSTI_PLI_LANES]; /* low halves of the states at the end */
    bool ends;                    /* all words were used and the states are at their end */
};

/* pli_wave_avx2_tokens.c */
void psti_pli_wave_avx2_tokens(struct psti_pli_wave_job *job);
/* Of two units of one shape; if one of them does not end, the other may not have been done. */
void psti_pli_wave_avx2_tokens_two(struct psti_pli_wave_job jobs[2]);
/* pli_wave_avx2_rebuild.c, pli_wave_avx2_rebuild16.c: tokens with raw bits, or residuals of 16
 * bits -> lines of samples. */
void psti_pli_wave_avx2_rebuild(struct psti_pli_wave_job *job);
void psti_pli_wave_avx2_rebuild16(struct psti_pli_wave_job *job);
/* pli_wave_avx2_raw16.c: tokens -> residuals of 16 bits; returns how many bits that takes: if more
 * than `n_bits`, it was not done. */
uint64_t psti_pli_wave_avx2_residuals16(struct psti_pli_wave_job *job, uint64_t n_bits);

/* Bytes of which one is 0 (at 31), or the first 32 are 255. */
extern const uint8_t psti_pli_wave_all_but_one[64], psti_pli_wave_first_lanes[64];

PSTI_WAVE_INLINE v32 row_load(const void *at) { return _mm256_loadu_si256((const v32 *)at); }
PSTI_WAVE_INLINE void row_store(void *at, v32 v) { _mm256_storeu_si256((v32 *)at, v); }
PSTI_WAVE_INLINE v32 both_halves(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
}
/* Lane l gets what lane l - 1 had, lane 0 what lane 31 had. */
PSTI_WAVE_INLINE v32 turn(v32 v)
{
    return _mm256_alignr_epi8(v, _mm256_permute2x128_si256(v, v, 1), 15);
}
/* 32 bytes: 0 for the lane that enters band t >> 6 last, 255 for others. That lane is at column 0
 * in even steps, 1 in odd ones. */
PSTI_WAVE_INLINE const uint8_t *all_but_newest(uint32_t t)
{
    return psti_pli_wave_all_but_one + 31 - ((t & 63) >> 1);
}
/* 255 for the lanes that are in band t >> 6; the others are in the band before. */
PSTI_WAVE_INLINE const uint8_t *front_lanes(uint32_t t)
{
    return psti_pli_wave_first_lanes + 31 - ((t & 63) >> 1);
}
PSTI_WAVE_INLINE v32 pick(v32 mask, v32 yes, v32 no)
{
    return _mm256_xor_si256(no, _mm256_and_si256(mask, _mm256_xor_si256(yes, no)));
}

#endif
#endif
