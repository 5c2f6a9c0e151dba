/* pli_wave_int.h - declarations that all levels of the wave decoder share (docs/format-pli.md,
 * section 5): decoding tables, the parsed head of a unit, and the geometry of steps. */
#ifndef PST_PLI_WAVE_INT_H
#define PST_PLI_WAVE_INT_H

#include "pli/decode/pli_decode_int.h"
#include "pli/format/pli_wave_format.h"

/* Makes an entry of a decoding table of 16 bits, for slot s = x mod 1024. Bits 0..15 hold the bias,
 * which is s minus the token's first slot, with bit 15 inverted. Bits 16..21 hold the token. Bits
 * 22..31 hold the frequency mod 1024. A state x becomes frequency * (x >> 10) + bias. (Vectors
 * multiply by the upper half less the token, which is 64 * frequency. A signed comparison then
 * finds the carry of an unsigned sum.) */
#define PSTI_PLI_WAVE_ENTRY(token, freq, bias)                                                     \
    ((uint32_t)(freq) << 22 | (uint32_t)(token) << 16 | ((uint32_t)(bias) ^ 0x8000u))

/* The number of the context of idle lanes. Its table gives token 0 and does not change x. */
enum { PSTI_PLI_WAVE_IDLE = PSTI_PLI_N_CONTEXTS };

/* The decoding table of one context, for code that decodes one lane at a time. A place (state mod
 * M) gives an activity, which identifies the token. Frequency and first place of a token are stored
 * only once, indexed by its activity. */
struct psti_pli_wave_context {
    uint8_t activities[PSTI_PLI_PROB_SUM]; /* activity for each value of state mod M */
    struct {
        uint16_t freq, first_place;
    } of[PSTI_PLI_WAVE_ANY_ACTIVITY + 1]; /* indexed by activity */
};

/* Bounds for a binary search in vectors, 8 bits. of[][context] holds running sums of frequencies
 * less 1, for tokens 1..15 in the order in which the search reads them. Let m1..m4 be 1 if the slot
 * was above the bound of look-up 1..4, else 0. The first look-up reads [0], the second [1 + m1],
 * the third [3 + m1 + 2 * m2], the fourth [7 + m1 + 2 * m2 + 4 * m3]. `activities` is read by m1 +
 * 2 * m2 + 4 * m3 + 8 * m4 after the last look-up. The largest bound that the slot was above is the
 * start of the token's slots less 1 (255 if there is none). The smallest bound that it was not
 * above is their end less 1 (255 if there is none). */
struct psti_pli_wave_bounds {
    _Alignas(16) uint8_t of[PSTI_PLI_N_TOKENS_8 - 1][PSTI_PLI_N_CONTEXTS];
    uint8_t activities[16];
};

/* Tables for vectors that look up 64 bytes, 8 bits. `contexts` gives the context of an energy E at
 * index min(E, 32 + E / 16); indices 32 and 33 are not needed and hold the context of E = 32.
 * `halves` and `around` hold the starts of tokens less 1, as in the bounds above: 255 for token 0,
 * and 255 for the end of the last token. Their index is context + 16 * i. The bits of i are the
 * token's upper bits in reverse order: bits 0, 1 and 2 of i are bits 3, 2 and 1 of the token. */
struct psti_pli_wave_indexed {
    _Alignas(64) uint8_t contexts[64];
    /* The bound that decides the next bit of the token: token 8 (no bit is known); token 4 or 12
     * (one bit is known); token 2, 6, 10 or 14 (two bits are known). */
    uint8_t halves[3][64];
    /* The bounds of tokens t, t + 1 and t + 2, where t has the three upper bits of i and an even
     * lowest bit. */
    uint8_t around[3][2 * 64];
};

/* The tables of an image. A level's tables are made when the level first needs them, because the
 * part of an image to be decoded may be one unit. */
struct psti_pli_wave_tables {
    struct psti_pli_wave_freqs freqs;
    uint32_t bits;
    bool has_sure_tokens; /* for 16 bits: true if a token has all slots of some context */
    bool has_slots, has_contexts, has_indexed;
    struct psti_pli_wave_bounds bounds; /* 8 bits */
    struct psti_pli_wave_indexed indexed;
    _Alignas(64) struct psti_pli_wave_context contexts[PSTI_PLI_N_CONTEXTS];
    union {
        /* For 8 bits: the residuals of a pair with suffix2 = 0. The first index is the lower four
         * bits of the activity, which identify the token; the second is suffix1. */
        int16_t pairs[16][256][2];
        _Alignas(64) uint32_t slots[PSTI_PLI_N_CONTEXTS + 1][PSTI_PLI_PROB_SUM]; /* 16 bits */
    };
};
_Static_assert(sizeof(struct psti_pli_wave_tables) <= PSTI_PLI_TABLES_NBYTES, "scratch");

/* Returns the slots of all contexts and of idle lanes, for vectors of 16-bit samples. Makes them at
 * the first call. */
const uint32_t *psti_pli_wave_slots(struct psti_pli_wave_tables *tables);
/* Returns `indexed`, for 8 bits. Makes it at the first call. */
const struct psti_pli_wave_indexed *psti_pli_wave_need_indexed(struct psti_pli_wave_tables *tables);
/* Makes `contexts` and, for 8 bits, `pairs`, if they do not exist yet. */
void psti_pli_wave_need_contexts(struct psti_pli_wave_tables *tables);

/* One coded plane. */
struct psti_pli_wave_plane {
    /* plane: number of the plane. predictor: enum psti_pli_predictor. energy: formula of the
     * energy, which selects contexts (enum psti_pli_energy). */
    uint8_t plane, predictor, energy;
    uint8_t list; /* number of the plane's list of filters, an index into psti_pli_filters */
    int8_t a, b;  /* taps of the plane; not used if its predictor is filters */
    /* Indices of planes 0 and 1 among the coded planes. -1: that plane is not coded, and its
     * residuals count as 0. */
    int8_t index0, index1;
    uint16_t start;
    uint8_t filters[PSTI_PLI_WAVE_N_BLOCKS]; /* filter of each block: row by row, (width + 15) / 16
                                              * in a row */
};

/* The head of a unit, parsed and checked. Row R of the cylinder is row R % plane_rows of coded
 * plane R / plane_rows. */
struct psti_pli_wave_head {
    uint32_t n_coded, n_bands;
    /* Number of steps of samples, and of steps of tokens. With 8 bits a token stands for a pair, so
     * there are fewer steps of tokens. */
    uint32_t n_steps, n_token_steps;
    uint32_t bands_per_plane;             /* 1 or 2 */
    struct psti_pli_wave_plane planes[4]; /* the first n_coded entries are used */
    uint8_t n_constant, constant_planes[4];
    uint16_t constants[4];
    uint32_t states[PSTI_PLI_LANES]; /* state of each lane, a number of 2 * bits bits */
    const uint8_t *raw; /* the raw bytes, which begin at the next whole byte after the states'
                         * mantissas */
    /* Number of the raw bytes. The payload, which is the states' low halves at the end, continues
     * the raw string. */
    size_t raw_nbytes;
    const uint8_t *words; /* numbers of 8 bits or of 16 bits */
    size_t n_words;
};

/* Prefetches memory while samples are made; called for every other step t of samples. It prefetches
 * one row of the pixels of units that are 64 wide, and bytes of the file from `next` on. Without
 * this, the next reader or writer of that memory would wait for each cache line. Pixels go to the
 * second-level cache, because they would fill the first. */
static inline __attribute__((always_inline)) void psti_pli_wave_ask(
    const struct psti_pli_unit *const units[], uint32_t n_units, uintptr_t next, uint32_t t)
{
    const uint32_t row = t / 2, u = row / PSTI_PLI_WAVE_EDGE, y = row % PSTI_PLI_WAVE_EDGE;
    __builtin_prefetch((const void *)(next + 32 * (uintptr_t)t));
    for (uint32_t p = 0; u < n_units && p < units[u]->channels; p++)
        __builtin_prefetch((const void *)(psti_pli_ahead(units[u], p, y).at + 63), 0, 2);
}

/* Returns the last lane in band t >> 6. Lanes 0 up to it are in that band; the others are in the
 * band before. */
static inline uint32_t psti_pli_wave_front_lane(uint32_t t) { return (t & 63) >> 1; }
/* Returns the plane of a band, or NULL if the band is outside the cylinder. */
static inline const struct psti_pli_wave_plane *psti_pli_wave_plane_of(
    const struct psti_pli_wave_head *head, uint32_t band)
{
    return band < head->n_bands ? &head->planes[band >> (head->bands_per_plane - 1)] : NULL;
}

/* Parses all parts but the entropy-coded ones. With n_coded 0 the unit has no such parts. */
enum pst_status psti_pli_wave_parse(const struct psti_pli_unit *unit,
                                    struct psti_pli_wave_head *head, struct pst_error *err);

/* Returns whether the units can be decoded together: their steps must have the same rows and the
 * same formulas of energy. Widths may differ. */
bool psti_pli_wave_same_shape(const struct psti_pli_unit *units,
                              const struct psti_pli_wave_head *heads, uint32_t n_units);
/* Moves planes of 8-bit samples to their places. `lines` has one line for each lane, `line_nbytes`
 * apart, in which coded planes follow one another. The function moves coded planes to their places
 * and fills in constant ones between them. */
void psti_pli_wave_place_planes(const struct psti_pli_wave_head *head, uint8_t *lines,
                                size_t line_nbytes);
/* Moves planes like psti_pli_wave_place_planes(), for samples of 16 bits. */
void psti_pli_wave_place_planes_u16(const struct psti_pli_wave_head *head, uint16_t *lines,
                                    size_t line_samples);

/* The type of a level's decoder. It checks the coded part and fills `planes`. `work` is as for
 * psti_pli_wave_decode(). The decoder changes `head->states`. */
typedef enum pst_status psti_pli_wave_kernel(const struct psti_pli_unit *unit,
                                             struct psti_pli_wave_head *head,
                                             struct psti_pli_wave_tables *tables, void *work,
                                             struct psti_pli_planes *planes, struct pst_error *err);
/* The type of a level's psti_pli_wave_decode_some(). A head may have no coded planes. */
typedef bool psti_pli_wave_kernel_some(const struct psti_pli_unit *units,
                                       struct psti_pli_wave_head *heads, uint32_t n_units,
                                       struct psti_pli_wave_tables *tables, void *work,
                                       struct psti_pli_planes *planes, enum pst_status *statuses,
                                       struct pst_error *err);
psti_pli_wave_kernel psti_pli_wave_decode_c;
psti_pli_wave_kernel psti_pli_wave_decode_avx2, psti_pli_wave_decode_avx512,
    psti_pli_wave_decode_neon;
psti_pli_wave_kernel_some psti_pli_wave_decode_some_avx2;   /* two units */
psti_pli_wave_kernel_some psti_pli_wave_decode_some_avx512; /* two to six units */
/* Returns whether the coefficients are small enough that sums of two products fit 16 bits, which
 * the vectors of 8-bit samples need (pli_wave_avx2_rebuild_u8.c). */
bool psti_pli_wave_avx2_can_rebuild(const struct psti_pli_wave_head *head);

#endif
