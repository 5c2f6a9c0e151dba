/* pli_wave_format.h - tokens, contexts, tables and filters of PLI's wave mode (docs/format-pli.md,
 * section 5). Pure: used by decoder and encoder alike. */
#ifndef PST_PLI_WAVE_FORMAT_H
#define PST_PLI_WAVE_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_PLI_LANES = 32,
    PSTI_PLI_N_CONTEXTS = 16,
    /* Of 8 bits: a token stands for two samples; tokens, tables, states' halves and words are
     * bytes.
     */
    PSTI_PLI_N_TOKENS_8 = 16,
    PSTI_PLI_PROB_BITS_8 = 8,
    PSTI_PLI_PROB_SUM_8 = 1 << PSTI_PLI_PROB_BITS_8,
    PSTI_PLI_WAVE_STATE_NBYTES_8 = 32, /* low halves of the states; the payload has as many */
    /* Of 16 bits. */
    PSTI_PLI_N_TOKENS = 47,
    PSTI_PLI_PROB_BITS = 10,
    PSTI_PLI_PROB_SUM = 1 << PSTI_PLI_PROB_BITS,
    PSTI_PLI_DIRECT = 24, /* tokens below are magnitudes */
    PSTI_PLI_WAVE_STATE_NBYTES = 64,
    PSTI_PLI_N_FILTERS = 63, /* besides number 0, MED */
    PSTI_PLI_FILTER_BITS = 6,
    PSTI_PLI_WAVE_EDGE = 64,
    PSTI_PLI_WAVE_BLOCK = 16, /* pixels that share a filter */
    PSTI_PLI_WAVE_N_BLOCKS = 16,
    PSTI_PLI_WAVE_MAX_STEPS = 64 * 8 + 62, /* of samples */
    PSTI_PLI_WAVE_PAIRS = 32,              /* in a row, of 8 bits */
    PSTI_PLI_WAVE_MAX_PAIR_STEPS = 32 * 8 + 31,
    PSTI_PLI_WAVE_MODEL_MAX_NBYTES = 600
};

enum psti_pli_predictor {
    PSTI_PLI_PREDICT_CONSTANT = 0,
    PSTI_PLI_PREDICT_LEFT = 1,
    PSTI_PLI_PREDICT_UP = 2,
    PSTI_PLI_PREDICT_AVERAGE = 3,
    PSTI_PLI_PREDICT_MED = 4,
    PSTI_PLI_PREDICT_FILTERS = 8
};

/* Trained constants (pli_model.c). [bits == 16]; context by energy, frequencies by context and
 * token: their sum is what the bit depth has. 16 bits: every token has at least 1. 8 bits: some are
 * 0, where the last token takes their place, but of none that a lower context has. */
extern const uint8_t psti_pli_wave_bucket[2][256];
extern const uint16_t psti_pli_wave_freqs[2][PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS];
struct psti_pli_filter {
    int8_t k[5]; /* U, UL, UR, UU, LL, each minus L; in 1/32 */
    int8_t a, b; /* residuals of planes 0 and 1; 0 for earlier planes */
};
extern const struct psti_pli_filter psti_pli_filters[3][PSTI_PLI_N_FILTERS]; /* [list] */

static inline uint32_t psti_pli_wave_n_tokens(uint32_t bits)
{
    return bits == 8 ? PSTI_PLI_N_TOKENS_8 : PSTI_PLI_N_TOKENS;
}
static inline uint32_t psti_pli_wave_prob_bits(uint32_t bits)
{
    return bits == 8 ? PSTI_PLI_PROB_BITS_8 : PSTI_PLI_PROB_BITS;
}
static inline uint32_t psti_pli_wave_state_nbytes(uint32_t bits)
{
    return bits == 8 ? PSTI_PLI_WAVE_STATE_NBYTES_8 : PSTI_PLI_WAVE_STATE_NBYTES;
}
/* Of a state's exponent. */
static inline uint32_t psti_pli_wave_exponent_bits(uint32_t bits) { return bits == 8 ? 3 : 4; }

/* 8 bits: what tokens of pairs stand for (section 5.4). [token]: bits of suffix1 and of
 * suffix2 (R and S in the kernels' comments), the base, and what a pair adds to its neighbours'
 * energy. */
extern const uint8_t psti_pli_wave_first_bits[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_second_bits[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_bases[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_activities[PSTI_PLI_N_TOKENS_8];
/* An activity's lower four bits tell it from others: rows of activities are rows of tokens, too,
 * for look-ups of 16 entries. By these bits: */
extern const uint8_t psti_pli_wave_tokens_of[16];
extern const uint8_t psti_pli_wave_first_bits_of[16];
extern const uint8_t psti_pli_wave_second_bits_of[16];
extern const uint8_t psti_pli_wave_bases_of[16];
/* Points (right, up) of tokens 1 to 10, by their number (123 of them). */
extern const uint8_t psti_pli_wave_points_a[128], psti_pli_wave_points_b[128];
enum {
    PSTI_PLI_WAVE_FIRST_SQUARE = 11, /* the first token of those that have suffix2 */
    PSTI_PLI_WAVE_ANY_PAIR = 15,     /* the token that holds any pair */
    /* These two activities add so much to their neighbours' energy. */
    PSTI_PLI_WAVE_SQUARE_ACTIVITY = 21,
    PSTI_PLI_WAVE_ANY_ACTIVITY = 46
};

/* A pair as a unit holds it. */
struct psti_pli_wave_coded_pair {
    uint8_t token, first, second; /* R, S */
};
/* x, y: -128..127. Not ANY_PAIR if there is another token. */
struct psti_pli_wave_coded_pair psti_pli_wave_code_pair(int32_t x, int32_t y);
/* The residuals that a pair stands for, modulo 256. */
struct psti_pli_wave_pair {
    uint8_t x, y;
};
struct psti_pli_wave_pair psti_pli_wave_find_pair(struct psti_pli_wave_coded_pair coded);

/* Of 16 bits: a token's number of raw bits, and the magnitude that raw bits of 0 stand for. */
static inline uint32_t psti_pli_wave_raw_bits(uint32_t token)
{
    return token < PSTI_PLI_DIRECT ? 0 : token == PSTI_PLI_DIRECT ? 3 : ((token - 25) >> 1) + 4;
}
static inline uint32_t psti_pli_wave_base(uint32_t token)
{
    return token <= PSTI_PLI_DIRECT ? token : (2 + ((token - 25) & 1)) << (((token - 25) >> 1) + 4);
}

/* What the neighbours' activities say about a sample's: which of the formulas of section 5.6. */
enum psti_pli_energy { PSTI_PLI_ENERGY_FIRST, PSTI_PLI_ENERGY_SECOND, PSTI_PLI_ENERGY_THIRD };

/* The energy of section 5.6 (E in the kernels' comments) from the neighbours' activities, 0 outside
 * the unit. The one place where the formulas stand. 8 bits: sums of bytes, which saturate, so that
 * 16 lanes fit into a vector. `z`, `extra` of that section: gLL or, PSTI_PLI_ENERGY_THIRD, g1. */
static inline uint8_t psti_pli_wave_pair_energy(uint8_t gl, uint8_t gu, uint8_t gul, uint8_t guu,
                                                uint8_t guur, uint8_t z)
{
    /* Activities are at most 46. */
    uint8_t side = (uint8_t)(gl + gu), far = (uint8_t)((uint8_t)(gul + guur + 1) >> 1);
    uint8_t rest = (uint8_t)(guu + far + z), twice = (uint8_t)(2 * side), room = (uint8_t)~twice;
    return (uint8_t)(twice + (rest < room ? rest : room));
}
static inline uint8_t psti_pli_wave_energy(enum psti_pli_energy kind, uint8_t gl, uint8_t gu,
                                           uint8_t gul, uint8_t gur, uint8_t guu, uint8_t gll,
                                           uint8_t g0, uint8_t g1)
{
    uint16_t cross = (uint16_t)(gl + gu + gur + guu), far = (uint16_t)(gul + gll);
    if (kind == PSTI_PLI_ENERGY_FIRST)
        return (uint8_t)((2 * cross + far) >> 1);
    uint16_t e = (uint16_t)(cross + ((cross + 1) >> 1) + far);
    return (uint8_t)((kind == PSTI_PLI_ENERGY_SECOND ? e + ((g0 + 1) >> 1) : e + 2 * g1) >> 1);
}
/* The formula of a coded plane; `first`: no plane before it is coded. */
static inline enum psti_pli_energy psti_pli_wave_energy_kind(uint32_t plane, uint32_t transform,
                                                             bool first)
{
    if (first || transform == PSTI_PLI_TRANSFORM_NONE || plane == 0 || plane == 3)
        return PSTI_PLI_ENERGY_FIRST;
    return plane == 1 ? PSTI_PLI_ENERGY_SECOND : PSTI_PLI_ENERGY_THIRD;
}
/* How many taps the channel record of a coded plane holds. */
static inline uint32_t psti_pli_wave_n_taps(uint32_t plane, uint32_t transform)
{
    return transform == PSTI_PLI_TRANSFORM_NONE || plane == 3 ? 0 : plane;
}
/* Which list of filters a plane uses. */
static inline uint32_t psti_pli_wave_filter_list(uint32_t plane, uint32_t transform)
{
    return transform == PSTI_PLI_TRANSFORM_NONE || plane == 3 ? 0 : plane;
}

/* The tables of an image, built-in ones where `block` (NULL: no block) has none. */
struct psti_pli_wave_freqs {
    uint16_t f[PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS];
};
enum pst_status psti_pli_wave_parse_model(const uint8_t *block, size_t nbytes, uint32_t bits,
                                          struct psti_pli_wave_freqs *out, struct pst_error *err);
/* A table as the model block holds it: n entries, each 0 or an exponent 1..63 of 2^(1/5). */
struct psti_pli_wave_own {
    uint8_t n; /* 0: built-in table */
    uint8_t q[PSTI_PLI_N_TOKENS];
};
/* The weight of q: 0, or 2^((q - 1) / 5) rounded. */
extern const uint16_t psti_pli_wave_weights[64];
/* What own tables of waves and of a JPEG's coefficients share: n entries `q` -> frequencies of
 * n_tokens tokens whose sum is 1 << prob_bits (false if they are none); bits of a model block,
 * least significant first, zeros behind its end; and a table as a block holds it, behind bit `at`
 * of zeros: returns where it ends. */
bool psti_pli_expand_table(const uint8_t *q, uint32_t n, uint32_t n_tokens, uint32_t prob_bits,
                           uint16_t *freqs);
enum { PSTI_PLI_TABLE_ENTRY_BITS = 6 };
struct psti_pli_bits {
    const uint8_t *bytes;
    size_t nbytes, at; /* `at` in bits */
};
uint32_t psti_pli_take_bits(struct psti_pli_bits *bits, uint32_t n);
size_t psti_pli_put_table(uint8_t *block, size_t at, const uint8_t *q, uint32_t n);
/* Frequencies of own table; false if it is none (16 bits: of 8 bits all are). */
bool psti_pli_wave_expand(const struct psti_pli_wave_own *own, uint32_t bits, uint16_t *freqs);
/* Writes at most PSTI_PLI_WAVE_MODEL_MAX_NBYTES; returns how many. */
size_t psti_pli_wave_print_model(const struct psti_pli_wave_own *own /* [16] */, uint8_t *block);

#endif
