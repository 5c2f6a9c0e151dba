/* pli_wave_common.h - inside the levels of the wave decoder whose rows have a byte for each lane,
 * AVX2 and NEON: their scratch, and what they have in common.
 *
 * A step of the cylinder (docs/format-pli.md, 5.5) is a row of 32 tokens, one for each lane. Rows
 * are kept by step, so that neighbours stand at fixed distances; rows before step 0 exist and are
 * zeros. */
#ifndef PST_PLI_WAVE_COMMON_H
#define PST_PLI_WAVE_COMMON_H

#include "pli/decode/wave/pli_wave_int.h"

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_BEFORE = 4, /* rows before step 0 */
    WAVE_ROWS = WAVE_BEFORE + PSTI_PLI_WAVE_MAX_STEPS + 6,
    /* Units that have more are left to plain C. There are no more words than 8 bits for each pair
     * (10 for each sample, of 16 bits) make, nor more raw bits than 16 for each pair (14 and a sign
     * for each sample); encoders store such noise raw. */
    WAVE_MAX_WORDS_8 = 8 * 1024,
    WAVE_MAX_WORDS = 10 * 1024,
    WAVE_MAX_RAW_NBYTES = 30 * 1024,
    WAVE_BITS_BEHIND = 64, /* zeros, for those who read as many bytes at once */
    WAVE_LINE = 704,       /* samples of one lane in all bands, for those who read 96 at once */
    WAVE_BAND = 64         /* steps */
};

/* 32 tokens or, of 8 bits, activities of their pairs; before them lanes 16..31 once more, so that
 * what stands one or two lanes up is read with one load. Each row is one line of the cache.
 * Residuals take its place: 32 of 16 bits, or those of two steps of 8 bits, as bytes. */
struct psti_pli_wave_row {
    union {
        struct {
            uint8_t unused[16], before[16], lanes[WAVE_LANES];
        };
        uint8_t residuals[2][WAVE_LANES];
    };
};

struct psti_pli_wave_memory {
    _Alignas(64) struct psti_pli_wave_row tokens[WAVE_ROWS]; /* become residuals in place */
    union {
        uint8_t words_8[WAVE_MAX_WORDS_8 + 3 * WAVE_LANES];
        uint16_t words[WAVE_MAX_WORDS + 3 * WAVE_LANES];
        /* NEON has samples less 128. */
        struct {
            uint8_t lines[WAVE_LANES * WAVE_LINE];
            uint8_t samples[WAVE_ROWS][WAVE_LANES];
        } of_8;
        /* Rows of the last steps, less 32768. */
        struct {
            uint16_t lines[WAVE_LANES * WAVE_LINE];
            _Alignas(64) int16_t samples[WAVE_BAND][WAVE_LANES];
        } of_16;
    };
    uint8_t bits[WAVE_MAX_RAW_NBYTES + PSTI_PLI_WAVE_STATE_NBYTES + WAVE_BITS_BEHIND];
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

/* What a level does with rows of tokens; of 8 bits and of 16, which NEON leaves to plain C. */
struct psti_pli_wave_rows_level {
    /* Activities (8 bits) or tokens (16 bits) -> residuals, by signs and raw bits; returns how many
     * bits of the unit are taken: if more than `n_bits`, not all was done. (A unit of 8 bits takes
     * no more bytes than it has samples, which the memory has room for: a check at the end does.)
     */
    uint64_t (*values[2])(struct psti_pli_wave_job *job, uint64_t n_bits);
    /* These -> lines of samples. */
    void (*rebuild[2])(struct psti_pli_wave_job *job);
};

/* Whether there is scratch enough. */
bool psti_pli_wave_rows_fit(const struct psti_pli_unit *unit,
                            const struct psti_pli_wave_head *head);
/* All behind the tokens, if there are any; shows the lines in `planes`. */
enum pst_status psti_pli_wave_rows_finish(const struct psti_pli_wave_rows_level *level,
                                          struct psti_pli_wave_job *job,
                                          struct psti_pli_planes *planes, struct pst_error *err);

/* What the bands of a unit need in each step; masks of lanes. */
struct psti_pli_wave_band {
    _Alignas(32) uint8_t rows[WAVE_LANES]; /* those with rows; zeros outside the cylinder */
    uint8_t energy[WAVE_LANES];            /* 255 where E is that of a first plane: 2A + B */
    uint8_t used[WAVE_LANES];              /* 255 where the plane before adds to E: */
    uint8_t doubled[WAVE_LANES];           /* 255 where it adds them twice, else half of them */
    uint8_t third[WAVE_LANES];             /* 255 where Z is g1; if it is 0, `doubled` is 0 */
    uint8_t not_first[WAVE_LANES];         /* all but lane 0 where the band is its plane's first */
    uint8_t not_30[16], not_31[16];        /* all but that lane, of lanes 16..31, if so */
};

/* [0]: before the first; the last two: behind the last. */
enum { WAVE_BANDS = 11 };
void psti_pli_wave_rows_open_bands(const struct psti_pli_wave_job *job,
                                   struct psti_pli_wave_band bands[WAVE_BANDS]);

/* What steps 64 k .. 64 k + 63 have in common. */
struct psti_pli_wave_shape {
    const struct psti_pli_wave_band *front; /* front[-1] is the one that ends */
    bool whole; /* all lanes are active, and no table has but one token */
    bool mixed; /* two planes with different formulas for E */
    bool first; /* E of a first plane in all lanes */
    bool used;  /* the plane before adds to E in some */
};
struct psti_pli_wave_shape psti_pli_wave_rows_shape(const struct psti_pli_wave_job *job,
                                                    const struct psti_pli_wave_band *bands,
                                                    uint32_t k);

/* Bytes of which one is 0 (at 31), or the first 32 are 255; (-2 l) mod 256. */
extern const uint8_t psti_pli_wave_all_but_one[64], psti_pli_wave_first_lanes[64],
    psti_pli_wave_delay[WAVE_LANES];

/* 32 bytes: 0 for the lane that enters band t >> 6 last, 255 for others. That lane is at column 0
 * in even steps, 1 in odd ones. */
static inline const uint8_t *all_but_newest(uint32_t t)
{
    return psti_pli_wave_all_but_one + 31 - ((t & 63) >> 1);
}
/* 255 for the lanes that are in band t >> 6; the others are in the band before. */
static inline const uint8_t *front_lanes(uint32_t t)
{
    return psti_pli_wave_first_lanes + 31 - ((t & 63) >> 1);
}

/* Where a step finds what it needs. */
struct step {
    uint32_t t;
    struct psti_pli_wave_row *row;
    const uint8_t *all_but_newest, *all_but_next;
};
static inline struct step step_at(struct psti_pli_wave_memory *m, uint32_t t)
{
    const uint8_t *newest = all_but_newest(t);
    return (struct step){t, m->tokens + WAVE_BEFORE + t, newest,
                         (t & 63) == 63 ? newest + 31 : newest - 1};
}

#endif
