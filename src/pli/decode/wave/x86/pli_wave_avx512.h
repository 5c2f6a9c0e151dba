/* pli_wave_avx512.h - declarations that the files of the wave decoder's AVX-512 level share, and
 * the level's scratch.
 *
 * Two units make a job. The tokens of up to three jobs are decoded in turns, because a single unit
 * waits for its own results most of the time. A step of the cylinder (docs/format-pli.md, 5.5) is a
 * row of
 * 64 bytes: the lanes of the first unit, then those of the second, so that one vector of bytes
 * holds both. If a job has only one unit, the other half of the bytes is idle. Masks of lanes have
 * one bit for each byte in the same order. */
#ifndef PST_PLI_WAVE_AVX512_H
#define PST_PLI_WAVE_AVX512_H

#include "pli/decode/wave/pli_wave_int.h"

#include "base/machine/avx512.h"

#if defined(__x86_64__)
#if defined(PST_SIMDE) /* a copy of the SIMDe emulation in every loop would take minutes to
                        * compile */
#define INLINE static inline
#else
#define INLINE PSTI_ICL_INLINE
#endif
#define TARGET PSTI_ICL_TARGET

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_UNITS = 2,
    WAVE_JOBS = 3, /* number of jobs of two units each, whose tokens are decoded at once */
    WAVE_ROW = WAVE_UNITS * WAVE_LANES,
    WAVE_SAMPLE_ROWS = (PSTI_PLI_WAVE_MAX_STEPS + 15) / 16 * 16,
    /* Maximum numbers of words and raw bytes of a unit. A token of two samples takes at most one
     * word and two bytes of raw bits. */
    WAVE_MAX_WORDS = 2 * PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE + 1,
    WAVE_MAX_RAW_NBYTES = 4 * PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE,
    WAVE_BEHIND = 128, /* bytes that may be read past words and bits */
    /* Bits of all rows. A row may take two bytes for each lane, 64 bytes a unit, whatever bits the
     * unit has. */
    WAVE_MAX_BITS_NBYTES = PSTI_PLI_WAVE_MAX_STEPS / 2 * WAVE_ROW + WAVE_BEHIND,
    WAVE_LINE = WAVE_SAMPLE_ROWS, /* maximum number of bytes of one lane's samples in all bands */
    WAVE_LINES_BEHIND = 96        /* bytes that may be read from the start of a row of 64 */
};

struct psti_pli_wave512_memory {
    /* The residuals. The activities of a step of pairs are first stored in the row that the
     * residuals of the step's first samples replace later. */
    _Alignas(64) uint8_t rows[PSTI_PLI_WAVE_MAX_STEPS][WAVE_ROW];
    uint8_t samples[WAVE_SAMPLE_ROWS][WAVE_ROW];
    union { /* the members are used one after another */
        uint8_t words[WAVE_UNITS][WAVE_MAX_WORDS + WAVE_BEHIND];
        uint8_t bits[WAVE_UNITS][WAVE_MAX_BITS_NBYTES];
        uint8_t lines[WAVE_UNITS * WAVE_LANES * WAVE_LINE + WAVE_LINES_BEHIND];
    };
};
_Static_assert(WAVE_JOBS * sizeof(struct psti_pli_wave512_memory) <= PSTI_PLI_WORK_NBYTES,
               "scratch");

/* WAVE_FIRST_UNIT: the bits of the first unit in a row's mask. WAVE_BOTH: the same lanes in both
 * units. */
#define WAVE_FIRST_UNIT 0xffffffffull
#define WAVE_BOTH(lanes) (0x100000001ull * (lanes))

/* One unit, or two units of the same shape: they have the same height and coded planes, and
 * therefore the same bands and steps. If the job has only one unit, `units` and `heads` contain it
 * twice. */
struct psti_pli_wave512_job {
    uint32_t n_units;
    const struct psti_pli_unit *units[WAVE_UNITS];
    const struct psti_pli_wave_head *heads[WAVE_UNITS];
    struct psti_pli_wave_tables *tables;
    struct psti_pli_wave512_memory *memory;
    uintptr_t next; /* approximate address in the file where the bytes of the next such job begin */
    uint8_t low[WAVE_UNITS][WAVE_LANES]; /* low halves of the states after the last token */
    /* True if all words were used and all states are at their end. */
    bool ends[WAVE_UNITS];
};

/* Decodes the tokens of one job (pli_wave_avx512_tokens.c), or of several jobs of one shape. All
 * jobs but the last must have two units. */
void psti_pli_wave512_tokens(struct psti_pli_wave512_job *jobs, uint32_t n_jobs);
/* Converts activities to residuals (pli_wave_avx512_raw.c). Sets `lacks` for a unit that has too
 * few bits. */
void psti_pli_wave512_raw_bits(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS]);
/* Turns residuals into samples (pli_wave_avx512_rebuild.c). */
void psti_pli_wave512_rebuild(struct psti_pli_wave512_job *job);
/* psti_pli_wave512_is_plain returns whether all planes of a job are MED without taps.
 * psti_pli_wave512_plain does raw bits and samples of such jobs together
 * (pli_wave_avx512_plain.c). */
bool psti_pli_wave512_is_plain(const struct psti_pli_wave512_job *job);
void psti_pli_wave512_plain(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS]);

/* Both functions return masks of lanes in both units. wave512_newest has the lane that is at column
 * 0 in even steps, and at column 1 in odd ones. wave512_front has the lanes in band t >> 6; the
 * others are in the band before. */
static inline uint64_t wave512_newest(uint32_t t) { return WAVE_BOTH(1) << ((t & 62) >> 1); }
static inline uint64_t wave512_front(uint32_t t)
{
    return WAVE_BOTH((2ull << psti_pli_wave_front_lane(t)) - 1);
}

INLINE __m512i row_load(const void *at) { return _mm512_loadu_si512(at); }
INLINE void row_store(void *at, __m512i v) { _mm512_storeu_si512(at, v); }
/* Returns a vector with these 16 bytes in each quarter. */
INLINE __m512i same_16(const uint8_t *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)bytes));
}
/* Returns v rotated by one lane in each unit: lane l gets the value of lane l - 1, and lane 0 that
 * of lane 31. */
INLINE __m512i turn(__m512i v)
{
    const __m512i from = _mm512_set_epi8(
        62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40,
        39, 38, 37, 36, 35, 34, 33, 32, 63, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17,
        16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 31);
    return _mm512_permutexvar_epi8(from, v);
}
/* Returns the bits of `yes` where `mask` has ones, else the bits of `no`. */
INLINE __m512i choose_bits(__m512i mask, __m512i yes, __m512i no)
{
    return _mm512_ternarylogic_epi32(no, mask, yes, 0xB8);
}
/* Returns 64 bytes in memory: 0 for this lane of both units, 255 for all other lanes. Making the
 * mask in registers would take longer. */
INLINE const uint8_t *wave512_all_but(uint32_t lane)
{
#define ALL_8 255, 255, 255, 255, 255, 255, 255, 255
#define ALL_31 ALL_8, ALL_8, ALL_8, 255, 255, 255, 255, 255, 255, 255
    static const uint8_t lanes[3 * WAVE_LANES] = {ALL_31, 0, ALL_31, 0, ALL_31, 0};
    return lanes + WAVE_LANES - 1 - lane;
#undef ALL_31
#undef ALL_8
}
/* Returns the median of L, U and UL. MED is L + U less this median. L is known last, so it is used
 * last. */
INLINE __m512i wave512_middle(__m512i l, __m512i u, __m512i ul)
{
    return _mm512_max_epu8(_mm512_min_epu8(u, ul), _mm512_min_epu8(l, _mm512_max_epu8(u, ul)));
}
#endif

#endif
