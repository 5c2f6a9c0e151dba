/* pli_wave_int.h - what the levels of the wave decoder share (docs/format-pli.md, section 5):
 * decoding tables, the parsed head of a unit, and its geometry. */
#ifndef PST_PLI_WAVE_INT_H
#define PST_PLI_WAVE_INT_H

#include "pli/decode/pli_decode_int.h"
#include "pli/format/pli_wave_format.h"

/* 16 bits. An entry of a decoding table, for slot s = x mod 1024: s minus the token's first slot,
 * with bit 15 turned over, in bits 0..15; the token in bits 16..21; the frequency mod 1024 in bits
 * 22..31. So x becomes frequency * (x >> 10) + bias. (Vectors multiply by the upper half less the
 * token, which is 64 * frequency, and find the carry of an unsigned sum with a signed comparison.)
 */
#define PSTI_PLI_WAVE_ENTRY(token, freq, bias)                                                     \
    ((uint32_t)(freq) << 22 | (uint32_t)(token) << 16 | ((uint32_t)(bias) ^ 0x8000u))

/* Context 16 is for idle lanes: token 0, and x stays what it is. */
enum { PSTI_PLI_WAVE_IDLE = PSTI_PLI_N_CONTEXTS };

/* One context's table, for lanes decoded one by one: a place (state mod M) names an activity, which
 * tells the token; its frequency and first place stand once. */
struct psti_pli_wave_context {
    uint8_t activities[PSTI_PLI_PROB_SUM]; /* [place] */
    struct {
        uint16_t freq, first_place;
    } of[PSTI_PLI_WAVE_ANY_ACTIVITY + 1]; /* [activity] */
};

/* 8 bits, for vectors: running sums less 1 of tokens 1..15 in the order in which a search that
 * halves asks for them, [][context]. The first look-up is [0]; the second, where the slot was
 * above it (m1 = 1) or not (0), [1 + m1]; the third [3 + m1 + 2 * m2]; the fourth [7 + m1 + 2 * m2
 * + 4 * m3]. Behind the last, activities by m1 + 2 * m2 + 4 * m3 + 8 * m4. What slots are above is
 * where the frequencies of their token begin, less 1 (255 if above none), and what they are not
 * above where they end, less 1 (255 if below none). */
struct psti_pli_wave_bounds {
    _Alignas(16) uint8_t of[PSTI_PLI_N_TOKENS_8 - 1][PSTI_PLI_N_CONTEXTS];
    uint8_t activities[16];
};

/* 8 bits, for vectors that look up 64 bytes: E -> context by min(E, 32 + E / 16), of which 32 and
 * 33 are as 34. Then where tokens begin, less 1 (as in the bounds above, 255 of token 0), that of
 * the one behind the last being 255, by context + 16 times the first bits of a token, of which
 * bit 3 of the token is the lowest. */
struct psti_pli_wave_indexed {
    _Alignas(64) uint8_t contexts[64];
    /* Of token 8; of 4 and 12, by bit 3; of 2, 6, 10 and 14, by two bits. */
    uint8_t halves[3][64];
    uint8_t around[3][2 * 64]; /* by three bits, of token 2 i, 2 i + 1 and 2 i + 2 */
};

/* The tables of a level are made when it asks for them: a part of an image may be one unit. */
struct psti_pli_wave_tables {
    struct psti_pli_wave_freqs freqs;
    uint32_t bits;
    bool has_sure_tokens; /* in one of the contexts a token has all slots (16 bits) */
    bool has_slots, has_contexts, has_indexed;
    struct psti_pli_wave_bounds bounds; /* 8 bits */
    struct psti_pli_wave_indexed indexed;
    _Alignas(64) struct psti_pli_wave_context contexts[PSTI_PLI_N_CONTEXTS];
    union {
        /* 8 bits: residuals by the activity's lower four bits, which tell the token, and suffix1,
         * as if suffix2 were 0. */
        int16_t pairs[16][256][2];
        _Alignas(64) uint32_t slots[PSTI_PLI_N_CONTEXTS + 1][PSTI_PLI_PROB_SUM]; /* 16 bits */
    };
};
_Static_assert(sizeof(struct psti_pli_wave_tables) <= PSTI_PLI_TABLES_NBYTES, "scratch");

/* Slots of all contexts and of idle lanes, for vectors, of 16 bits. */
const uint32_t *psti_pli_wave_slots(struct psti_pli_wave_tables *tables);
/* Of 8 bits. */
const struct psti_pli_wave_indexed *psti_pli_wave_need_indexed(struct psti_pli_wave_tables *tables);
/* Makes `contexts` and, of 8 bits, `pairs`. */
void psti_pli_wave_need_contexts(struct psti_pli_wave_tables *tables);

/* One coded plane. */
struct psti_pli_wave_plane {
    uint8_t plane, predictor, energy; /* enum psti_pli_predictor, psti_pli_energy */
    uint8_t list;                     /* of filters: psti_pli_filters[list] */
    int8_t a, b;                      /* taps of predictors other than filters */
    int8_t index0, index1;            /* planes 0 and 1 among the coded planes; -1: residuals 0 */
    uint16_t start;
    uint8_t filters[PSTI_PLI_WAVE_N_BLOCKS]; /* row by row, (width + 15) / 16 to a row */
};

/* A unit's head, parsed and checked. Row R of the cylinder is row R % plane_rows of coded plane
 * R / plane_rows. */
struct psti_pli_wave_head {
    uint32_t n_coded, n_bands;
    uint32_t n_steps, n_token_steps;      /* of samples; of tokens, which 8 bits have for pairs */
    uint32_t bands_per_plane;             /* 1 or 2 */
    struct psti_pli_wave_plane planes[4]; /* n_coded of them */
    uint8_t n_constant, constant_planes[4];
    uint16_t constants[4];
    uint32_t states[PSTI_PLI_LANES]; /* of 2 * bits */
    const uint8_t *raw;   /* signs and raw bits after the states' mantissas, byte-aligned */
    size_t raw_nbytes;    /* of them; the payload, the states' low halves at the end, goes on */
    const uint8_t *words; /* u8 or u16 each */
    size_t n_words;
};

/* Asks for memory in passing, called for every other step t of samples, which whoever is next to
 * use it would wait for, line by line: where the pixels of units that are 64 wide will be written,
 * a row with each call, and bytes of the file from `next` on. Pixels go to the second cache, as all
 * of them would fill the first. */
static inline __attribute__((always_inline)) void psti_pli_wave_ask(
    const struct psti_pli_unit *const units[], uint32_t n_units, uintptr_t next, uint32_t t)
{
    const uint32_t row = t / 2, u = row / PSTI_PLI_WAVE_EDGE, y = row % PSTI_PLI_WAVE_EDGE;
    __builtin_prefetch((const void *)(next + 32 * (uintptr_t)t));
    for (uint32_t p = 0; u < n_units && p < units[u]->channels; p++)
        __builtin_prefetch((const void *)(psti_pli_ahead(units[u], p, y).at + 63), 0, 2);
}

/* Lanes 0..front_lane(t) are in band t >> 6, the others in the one before. */
static inline uint32_t psti_pli_wave_front_lane(uint32_t t) { return (t & 63) >> 1; }
/* NULL outside the cylinder. */
static inline const struct psti_pli_wave_plane *psti_pli_wave_plane_of(
    const struct psti_pli_wave_head *head, uint32_t band)
{
    return band < head->n_bands ? &head->planes[band >> (head->bands_per_plane - 1)] : NULL;
}

/* Parses all but the entropy-coded part; n_coded 0: nothing follows. */
enum pst_status psti_pli_wave_parse(const struct psti_pli_unit *unit,
                                    struct psti_pli_wave_head *head, struct pst_error *err);

/* Whether steps of all have the same rows and the same formulas for E: they can be decoded at
 * once. Widths may differ. */
bool psti_pli_wave_same_shape(const struct psti_pli_unit *units,
                              const struct psti_pli_wave_head *heads, uint32_t n_units);
/* Of 8 bits: lines, one for each lane, `line_nbytes` apart, hold coded planes one after another;
 * these go to their places, and constant ones between them. */
void psti_pli_wave_place_planes(const struct psti_pli_wave_head *head, uint8_t *lines,
                                size_t line_nbytes);
/* The same of 16 bits. */
void psti_pli_wave_place_planes_16(const struct psti_pli_wave_head *head, uint16_t *lines,
                                   size_t line_samples);

/* The levels. Each checks the coded part and fills `planes`; `work` as for psti_pli_wave_decode().
 * `head->states` are run on. */
typedef enum pst_status psti_pli_wave_kernel(const struct psti_pli_unit *unit,
                                             struct psti_pli_wave_head *head,
                                             struct psti_pli_wave_tables *tables, void *work,
                                             struct psti_pli_planes *planes, struct pst_error *err);
/* psti_pli_wave_decode_some() of a level, of heads with coded planes or none. */
typedef bool psti_pli_wave_kernel_some(const struct psti_pli_unit *units,
                                       struct psti_pli_wave_head *heads, uint32_t n_units,
                                       struct psti_pli_wave_tables *tables, void *work,
                                       struct psti_pli_planes *planes, enum pst_status *statuses,
                                       struct pst_error *err);
psti_pli_wave_kernel psti_pli_wave_decode_c;
psti_pli_wave_kernel psti_pli_wave_decode_avx2, psti_pli_wave_decode_avx512,
    psti_pli_wave_decode_neon;
psti_pli_wave_kernel_some psti_pli_wave_decode_some_avx2;   /* two */
psti_pli_wave_kernel_some psti_pli_wave_decode_some_avx512; /* two to six */
/* Whether the coefficients are small enough for sums of two products in 16 bits, as vectors of
 * 8-bit samples have them (pli_wave_avx2_rebuild_u8.c). */
bool psti_pli_wave_avx2_can_rebuild(const struct psti_pli_wave_head *head);

#endif
