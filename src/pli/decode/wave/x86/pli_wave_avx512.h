/* pli_wave_avx512.h - inside the AVX-512 level of the wave decoder: its scratch, and what its files
 * tell each other.
 *
 * Two units make a job, and tokens of up to three jobs are decoded in turns, as one unit alone
 * waits for itself most of the time. A step of the cylinder (docs/format-pli.md, 5.5) is a row of
 * 64 bytes: lanes of the first unit, then of the second, so that one vector of bytes holds both. A
 * unit that comes alone leaves its neighbour's bytes idle. Masks of lanes have a bit for each
 * likewise. */
#ifndef PST_PLI_WAVE_AVX512_H
#define PST_PLI_WAVE_AVX512_H

#include "pli/decode/wave/pli_wave_int.h"

#include "base/avx512.h"

#if defined(__x86_64__)
#if defined(PST_SIMDE) /* a copy of the emulation in every loop would take minutes to compile */
#define INLINE static inline
#else
#define INLINE PSTI_ICL_INLINE
#endif
#define TARGET PSTI_ICL_TARGET

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_UNITS = 2,
    WAVE_JOBS = 3, /* of two units each, whose tokens are decoded at once */
    WAVE_ROW = WAVE_UNITS * WAVE_LANES,
    WAVE_SAMPLE_ROWS = (PSTI_PLI_WAVE_MAX_STEPS + 15) / 16 * 16,
    /* A token of two samples takes one word at most, and two bytes of bits. */
    WAVE_MAX_WORDS = 2 * PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE + 1,
    WAVE_MAX_RAW_NBYTES = 4 * PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE,
    WAVE_BEHIND = 128, /* may be read behind words and bits */
    /* Of each row 64 bytes, as many as two in each lane, whatever a unit has. */
    WAVE_MAX_BITS_NBYTES = PSTI_PLI_WAVE_MAX_STEPS / 2 * WAVE_ROW + WAVE_BEHIND,
    WAVE_LINE = WAVE_SAMPLE_ROWS, /* bytes of one lane's samples of all bands, at most */
    WAVE_LINES_BEHIND = 96        /* may be read behind where a row of 64 begins */
};

struct psti_pli_wave512_memory {
    /* Residuals. Activities of a step of pairs stand where those of its first samples will. */
    _Alignas(64) uint8_t rows[PSTI_PLI_WAVE_MAX_STEPS][WAVE_ROW];
    uint8_t samples[WAVE_SAMPLE_ROWS][WAVE_ROW];
    union { /* one after another */
        uint8_t words[WAVE_UNITS][WAVE_MAX_WORDS + WAVE_BEHIND];
        uint8_t bits[WAVE_UNITS][WAVE_MAX_BITS_NBYTES];
        uint8_t lines[WAVE_UNITS * WAVE_LANES * WAVE_LINE + WAVE_LINES_BEHIND];
    };
};
_Static_assert(WAVE_JOBS * sizeof(struct psti_pli_wave512_memory) <= PSTI_PLI_WORK_NBYTES,
               "scratch");

/* Bits of a row's mask that are the first unit's; and the same bits for both units. */
#define WAVE_FIRST_UNIT 0xffffffffull
#define WAVE_BOTH(lanes) (0x100000001ull * (lanes))

/* One unit, or two of the same shape: height, coded planes, and so bands and steps. Of one unit
 * alone the second unit and head are the first's once more. */
struct psti_pli_wave512_job {
    uint32_t n_units;
    const struct psti_pli_unit *units[WAVE_UNITS];
    const struct psti_pli_wave_head *heads[WAVE_UNITS];
    struct psti_pli_wave_tables *tables;
    struct psti_pli_wave512_memory *memory;
    uintptr_t next; /* where the file's bytes go on, about, that the next such job is to read */
    uint8_t low[WAVE_UNITS][WAVE_LANES]; /* low halves of the states at the end */
    bool ends[WAVE_UNITS];               /* all words were used and the states are at their end */
};

/* pli_wave_avx512_tokens.c */
/* Of one job, or of more of one shape, of which all but the last have two units. */
void psti_pli_wave512_tokens(struct psti_pli_wave512_job *jobs, uint32_t n_jobs);
/* pli_wave_avx512_raw.c: activities become residuals; `lacks` is set where a unit has too few
 * bits. */
void psti_pli_wave512_raw_bits(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS]);
/* pli_wave_avx512_rebuild.c: residuals -> samples. */
void psti_pli_wave512_rebuild(struct psti_pli_wave512_job *job);
/* pli_wave_avx512_plain.c: both at once, of jobs whose planes are all MED without taps. */
bool psti_pli_wave512_is_plain(const struct psti_pli_wave512_job *job);
void psti_pli_wave512_plain(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS]);

/* Of both units: the lane at column 0 in even steps, 1 in odd ones; and lanes that are in band
 * t >> 6, while the others are in the band before. */
static inline uint64_t wave512_newest(uint32_t t) { return WAVE_BOTH(1) << ((t & 62) >> 1); }
static inline uint64_t wave512_front(uint32_t t)
{
    return WAVE_BOTH((2ull << psti_pli_wave_front_lane(t)) - 1);
}

INLINE __m512i row_load(const void *at) { return _mm512_loadu_si512(at); }
INLINE void row_store(void *at, __m512i v) { _mm512_storeu_si512(at, v); }
/* 16 bytes in each quarter. */
INLINE __m512i same_16(const uint8_t *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)bytes));
}
/* Lane l gets what lane l - 1 had, lane 0 what lane 31 had. */
INLINE __m512i turn(__m512i v)
{
    const __m512i from = _mm512_set_epi8(
        62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40,
        39, 38, 37, 36, 35, 34, 33, 32, 63, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17,
        16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 31);
    return _mm512_permutexvar_epi8(from, v);
}
/* Bits of `yes` where `mask` has ones, else of `no`. */
INLINE __m512i choose_bits(__m512i mask, __m512i yes, __m512i no)
{
    return _mm512_ternarylogic_epi32(no, mask, yes, 0xB8);
}
/* A 0 for that lane of both units, 255 for all others: 64 bytes, from memory, as masks cost more to
 * make. */
INLINE const uint8_t *wave512_all_but(uint32_t lane)
{
#define ALL_8 255, 255, 255, 255, 255, 255, 255, 255
#define ALL_31 ALL_8, ALL_8, ALL_8, 255, 255, 255, 255, 255, 255, 255
    static const uint8_t lanes[3 * WAVE_LANES] = {ALL_31, 0, ALL_31, 0, ALL_31, 0};
    return lanes + WAVE_LANES - 1 - lane;
#undef ALL_31
#undef ALL_8
}
/* The value between the others: MED is L + U less this one of L, U and UL. L, which is known last,
 * is looked at last. */
INLINE __m512i wave512_middle(__m512i l, __m512i u, __m512i ul)
{
    return _mm512_max_epu8(_mm512_min_epu8(u, ul), _mm512_min_epu8(l, _mm512_max_epu8(u, ul)));
}
#endif

#endif
