/* pli_wave_common.h - declarations that the AVX2 and NEON levels of the wave decoder share: their
 * scratch and the code that both need. Both keep rows with a byte for each lane.
 *
 * A step of the cylinder (docs/format-pli.md, 5.5) is a row of 32 tokens, one for each lane. Rows
 * are stored by step, so that neighbours are at fixed distances. The rows before step 0 exist and
 * are zeros. */
#ifndef PST_PLI_WAVE_COMMON_H
#define PST_PLI_WAVE_COMMON_H

#include "pli/decode/wave/pli_wave_int.h"

enum {
    WAVE_LANES = PSTI_PLI_LANES,
    WAVE_BEFORE = 4, /* rows of zeros before step 0 */
    WAVE_ROWS = WAVE_BEFORE + PSTI_PLI_WAVE_MAX_STEPS + 6,
    /* Maximum numbers of words and raw bytes of a unit at these levels; plain C decodes units that
     * have more. The limits allow 8 bits of words for each pair, or 10 for each sample of 16 bits;
     * and 16 raw bits for each pair, or 14 and a sign for each sample. Encoders store noisier units
     * in mode raw. */
    WAVE_MAX_WORDS_8 = 8 * 1024,
    WAVE_MAX_WORDS = 10 * 1024,
    WAVE_MAX_RAW_NBYTES = 30 * 1024,
    WAVE_BITS_BEHIND = 64, /* zeros after the raw bits, for readers that load 64 bytes at once */
    WAVE_LINE = 704,       /* samples of one lane in all bands, plus space for reads of 96 at
                            * once */
    WAVE_BAND = 64         /* steps of a band */
};

/* A row: what one step decodes in the 32 lanes. It fills one cache line.
 *
 * First a row has a byte for each lane: with samples of 16 bits the lane's token, with samples of 8
 * bits the activity of the lane's pair of samples. `before` lies in front of these bytes and
 * repeats those of lanes 16..31. So one unaligned load gives each lane the value of the lane one or
 * two before it.
 *
 * Later residuals replace the bytes: with samples of 16 bits 32 residuals of two bytes; with
 * samples of 8 bits 64 residuals of one byte, which are two steps of samples. */
struct psti_pli_wave_row {
    union {
        struct {
            uint8_t unused[16], before[16], lanes[WAVE_LANES];
        };
        uint8_t residuals[2][WAVE_LANES];
    };
};

struct psti_pli_wave_memory {
    /* Rows of tokens, which residuals replace in place. */
    _Alignas(64) struct psti_pli_wave_row tokens[WAVE_ROWS];
    union {
        uint8_t words_u8[WAVE_MAX_WORDS_8 + 3 * WAVE_LANES];
        uint16_t words[WAVE_MAX_WORDS + 3 * WAVE_LANES];
        /* With samples of 8 bits: the lines, and the rows of samples. NEON stores samples less 128
         * in `samples`. */
        struct {
            uint8_t lines[WAVE_LANES * WAVE_LINE];
            uint8_t samples[WAVE_ROWS][WAVE_LANES];
        } of_u8;
        /* With samples of 16 bits: the lines, and the rows of the last steps, whose samples are
         * stored less 32768. */
        struct {
            uint16_t lines[WAVE_LANES * WAVE_LINE];
            _Alignas(64) int16_t samples[WAVE_BAND][WAVE_LANES];
        } of_u16;
    };
    uint8_t bits[WAVE_MAX_RAW_NBYTES + PSTI_PLI_WAVE_STATE_NBYTES + WAVE_BITS_BEHIND];
};
_Static_assert(2 * sizeof(struct psti_pli_wave_memory) <= PSTI_PLI_WORK_NBYTES, "scratch");

/* The unit that is being decoded. */
struct psti_pli_wave_job {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    struct psti_pli_wave_tables *tables;
    struct psti_pli_wave_memory *memory;
    uint16_t low[PSTI_PLI_LANES]; /* low halves of the states at the end */
    bool ends;                    /* true if all words were used and all states are at their end */
};

/* The functions of a level for rows of tokens. Index [0] is for samples of 8 bits, [1] for samples
 * of 16 bits. NEON leaves samples of 16 bits to plain C. */
struct psti_pli_wave_rows_level {
    /* Makes residuals of the tokens (with samples of 8 bits: of the pairs' activities) and of the
     * signs and raw bits. Returns the number of bits that were read. If that is more than `n_bits`,
     * the unit lacks bits, and some residuals are missing. (With samples of 8 bits a check at the
     * end is enough, because the reader takes at most one byte a sample, for which the memory has
     * space.) */
    uint64_t (*values[2])(struct psti_pli_wave_job *job, uint64_t n_bits);
    /* Turns residuals into lines of samples. */
    void (*rebuild[2])(struct psti_pli_wave_job *job);
};

/* Returns whether the scratch is large enough for the unit's words and raw bytes. */
bool psti_pli_wave_rows_fit(const struct psti_pli_unit *unit,
                            const struct psti_pli_wave_head *head);
/* Does all stages after the tokens, if the unit has tokens, and makes `planes` describe the
 * lines.
 */
enum pst_status psti_pli_wave_rows_finish(const struct psti_pli_wave_rows_level *level,
                                          struct psti_pli_wave_job *job,
                                          struct psti_pli_planes *planes, struct pst_error *err);

/* The masks of lanes that the steps of a band need. */
struct psti_pli_wave_band {
    /* 255 for lanes that have a row of a plane; 0 for all lanes in bands outside the cylinder. */
    _Alignas(32) uint8_t rows[WAVE_LANES];
    /* 255 for lanes that use the energy of a first plane: 2 near + far (5.6). */
    uint8_t energy[WAVE_LANES];
    uint8_t used[WAVE_LANES]; /* 255 for lanes to whose energy another plane's activities are
                               * added */
    /* 255 for lanes to which these activities are added twice, 0 for lanes to which half of them is
     * added. */
    uint8_t doubled[WAVE_LANES];
    /* 255 for lanes whose extra term is g1 (5.6). Their `doubled` is 0 if plane 1 is not coded. */
    uint8_t third[WAVE_LANES];
    uint8_t not_first[WAVE_LANES]; /* 0 for lane 0 in a plane's first band; else 255 */
    /* For lanes 16..31. In a plane's first band, not_30 is 0 for lane 30 and not_31 is 0 for lane
     * 31. All else is 255. */
    uint8_t not_30[16], not_31[16];
};

/* The number of bands in the table: [0] is before the first band, the last two are past the last
 * possible band. */
enum { WAVE_BANDS = 11 };
void psti_pli_wave_rows_open_bands(const struct psti_pli_wave_job *job,
                                   struct psti_pli_wave_band bands[WAVE_BANDS]);

/* Values that steps 64 k .. 64 k + 63 share. */
struct psti_pli_wave_shape {
    /* The band that begins in these steps. front[-1] is the band that ends in them. */
    const struct psti_pli_wave_band *front;
    bool whole; /* true if all lanes are active, and no table gives one token all slots */
    bool mixed; /* true if two planes with different energy formulas share the steps */
    bool first; /* true if all lanes use the energy formula of a first plane */
    bool used;  /* true if in some lanes another plane's activities are added to the energy */
};
struct psti_pli_wave_shape psti_pli_wave_rows_shape(const struct psti_pli_wave_job *job,
                                                    const struct psti_pli_wave_band *bands,
                                                    uint32_t k);

/* Constants: 255 bytes with a single 0 at index 31; 32 bytes of 255, then zeros; and (-2 l) mod 256
 * for each lane l. */
extern const uint8_t psti_pli_wave_all_but_one[64], psti_pli_wave_first_lanes[64],
    psti_pli_wave_delay[WAVE_LANES];

/* Returns 32 bytes: 0 for the lane that entered band t >> 6 last, 255 for other lanes. That lane is
 * at column 0 in even steps and at column 1 in odd steps. */
static inline const uint8_t *all_but_newest(uint32_t t)
{
    return psti_pli_wave_all_but_one + 31 - ((t & 63) >> 1);
}
/* Returns 32 bytes: 255 for the lanes in band t >> 6, 0 for the lanes that are still in the band
 * before. */
static inline const uint8_t *front_lanes(uint32_t t)
{
    return psti_pli_wave_first_lanes + 31 - ((t & 63) >> 1);
}

/* The row and the masks of one step. */
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
