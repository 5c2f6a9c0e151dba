/* pli_wave_format.h - tokens, contexts, tables and filters of PLI's wave mode (docs/format-pli.md,
 * section 5). The functions are pure. Decoder and encoder both use them. */
#ifndef PST_PLI_WAVE_FORMAT_H
#define PST_PLI_WAVE_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_PLI_LANES = 32,
    PSTI_PLI_N_CONTEXTS = 16,
    /* With 8 bits (section 5) a token stands for two samples. Tokens, table entries, halves of
     * states and words are bytes. */
    PSTI_PLI_N_TOKENS_8 = 16,
    PSTI_PLI_PROB_BITS_8 = 8,
    PSTI_PLI_PROB_SUM_8 = 1 << PSTI_PLI_PROB_BITS_8,
    PSTI_PLI_WAVE_STATE_NBYTES_8 = 32, /* bytes of the states' low halves, and of the payload */
    /* Constants of samples of 16 bits (section 5). */
    PSTI_PLI_N_TOKENS = 47,
    PSTI_PLI_PROB_BITS = 10,
    PSTI_PLI_PROB_SUM = 1 << PSTI_PLI_PROB_BITS,
    PSTI_PLI_DIRECT = 24, /* tokens below this one are magnitudes themselves (section 5.4) */
    PSTI_PLI_WAVE_STATE_NBYTES = 64,
    PSTI_PLI_N_FILTERS = 63, /* not counting number 0, which is MED */
    PSTI_PLI_FILTER_BITS = 6,
    PSTI_PLI_WAVE_EDGE = 64,
    PSTI_PLI_WAVE_BLOCK = 16, /* edge of the square of pixels that share a filter */
    PSTI_PLI_WAVE_N_BLOCKS = 16,
    PSTI_PLI_WAVE_MAX_STEPS = 64 * 8 + 62, /* maximum number of steps of a unit's samples (section
                                            * 5.5) */
    PSTI_PLI_WAVE_PAIRS = 32,              /* pairs in a row, with 8 bits */
    PSTI_PLI_WAVE_MAX_PAIR_STEPS = 32 * 8 + 31,
    PSTI_PLI_WAVE_MODEL_MAX_NBYTES = 600
};

/* The predictors of planes (section 5.2). */
enum psti_pli_predictor {
    PSTI_PLI_PREDICT_CONSTANT = 0,
    PSTI_PLI_PREDICT_LEFT = 1,
    PSTI_PLI_PREDICT_UP = 2,
    PSTI_PLI_PREDICT_AVERAGE = 3,
    PSTI_PLI_PREDICT_MED = 4,
    PSTI_PLI_PREDICT_FILTERS = 8
};

/* Trained constants (section 5.8, pli_wave_constants.c). The first index is [bits == 16].
 * psti_pli_wave_bucket gives the context by energy. psti_pli_wave_freqs gives the frequencies by
 * context and token; each table sums to psti_pli_wave_prob_bits' power of 2. With 16 bits every
 * token has a frequency of at least 1. With 8 bits some frequencies are 0, and the last token
 * replaces those tokens. A token with a frequency above 0 in a context has one in all higher
 * contexts, too. */
extern const uint8_t psti_pli_wave_bucket[2][256];
extern const uint16_t psti_pli_wave_freqs[2][PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS];
struct psti_pli_filter {
    int8_t k[5]; /* weights of U, UL, UR, UU, LL, each less L, in 1/32 */
    int8_t a, b; /* weights of the residuals of planes 0 and 1; 0 in the lists for earlier planes */
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
/* Returns the number of bits of a state's exponent. */
static inline uint32_t psti_pli_wave_exponent_bits(uint32_t bits) { return bits == 8 ? 3 : 4; }

/* For 8 bits: the table of section 5.4, indexed by token: bits of suffix1, bits of suffix2 (R and S
 * in the kernels' comments), base, and activity. */
extern const uint8_t psti_pli_wave_first_bits[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_second_bits[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_bases[PSTI_PLI_N_TOKENS_8];
extern const uint8_t psti_pli_wave_activities[PSTI_PLI_N_TOKENS_8];
/* The same tables, indexed by the lower four bits of an activity, in which no two activities agree.
 * So a row of activities can be used like a row of tokens in look-ups of 16 entries. */
extern const uint8_t psti_pli_wave_tokens_of[16];
extern const uint8_t psti_pli_wave_first_bits_of[16];
extern const uint8_t psti_pli_wave_second_bits_of[16];
extern const uint8_t psti_pli_wave_bases_of[16];
/* The points (right, up) of tokens 1 to 10, indexed by `nth` of section 5.4. There are 123
 * points. */
extern const uint8_t psti_pli_wave_points_a[128], psti_pli_wave_points_b[128];
enum {
    PSTI_PLI_WAVE_FIRST_SQUARE = 11, /* the first token with a suffix2 */
    PSTI_PLI_WAVE_ANY_PAIR = 15,     /* the token that stands for any pair */
    /* The activities of tokens PSTI_PLI_WAVE_FIRST_SQUARE and PSTI_PLI_WAVE_ANY_PAIR (section
     * 5.4). */
    PSTI_PLI_WAVE_SQUARE_ACTIVITY = 21,
    PSTI_PLI_WAVE_ANY_ACTIVITY = 46
};

/* A pair in the form in which a unit holds it: its token and its two suffixes. */
struct psti_pli_wave_coded_pair {
    uint8_t token, first, second; /* `first` and `second` are the suffixes R and S */
};
/* Codes a pair of residuals. x and y are -128..127. The token is ANY_PAIR only if no other token
 * stands for the pair. */
struct psti_pli_wave_coded_pair psti_pli_wave_code_pair(int32_t x, int32_t y);
/* The two residuals of a pair, modulo 256. */
struct psti_pli_wave_pair {
    uint8_t x, y;
};
struct psti_pli_wave_pair psti_pli_wave_find_pair(struct psti_pli_wave_coded_pair coded);

/* These functions return, for 16 bits, the number of a token's raw bits, and the token's least
 * magnitude, for which all raw bits are 0 (section 5.4). */
static inline uint32_t psti_pli_wave_raw_bits(uint32_t token)
{
    return token < PSTI_PLI_DIRECT ? 0 : token == PSTI_PLI_DIRECT ? 3 : ((token - 25) >> 1) + 4;
}
static inline uint32_t psti_pli_wave_base(uint32_t token)
{
    return token <= PSTI_PLI_DIRECT ? token : (2 + ((token - 25) & 1)) << (((token - 25) >> 1) + 4);
}

/* The formulas of section 5.6, which compute a sample's energy from its neighbours' activities. */
enum psti_pli_energy { PSTI_PLI_ENERGY_FIRST, PSTI_PLI_ENERGY_SECOND, PSTI_PLI_ENERGY_THIRD };

/* These functions return the energy of section 5.6 (E in the kernels' comments) from the
 * neighbours' activities. Activities outside the unit are 0. Only these functions contain the
 * formulas. With 8 bits the sums are bytes that saturate, because 16 byte lanes fit in a vector.
 * `z` is
 * `extra` of that section: g1 with PSTI_PLI_ENERGY_THIRD, else gLL. */
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
/* Returns the formula of energy of a coded plane. `first` says that no plane before it is coded. */
static inline enum psti_pli_energy psti_pli_wave_energy_kind(uint32_t plane, uint32_t transform,
                                                             bool first)
{
    if (first || transform == PSTI_PLI_TRANSFORM_NONE || plane == 0 || plane == 3)
        return PSTI_PLI_ENERGY_FIRST;
    return plane == 1 ? PSTI_PLI_ENERGY_SECOND : PSTI_PLI_ENERGY_THIRD;
}
/* Returns how many taps the channel record of a coded plane holds (section 5.2). */
static inline uint32_t psti_pli_wave_n_taps(uint32_t plane, uint32_t transform)
{
    return transform == PSTI_PLI_TRANSFORM_NONE || plane == 3 ? 0 : plane;
}
/* Returns which list of filters a plane uses (section 5.3). */
static inline uint32_t psti_pli_wave_filter_list(uint32_t plane, uint32_t transform)
{
    return transform == PSTI_PLI_TRANSFORM_NONE || plane == 3 ? 0 : plane;
}

/* The tables of an image. Tables that `block` does not have are the built-in ones; if `block` is
 * NULL, all are built in. */
struct psti_pli_wave_freqs {
    uint16_t f[PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS];
};
enum pst_status psti_pli_wave_parse_model(const uint8_t *block, size_t nbytes, uint32_t bits,
                                          struct psti_pli_wave_freqs *out, struct pst_error *err);
/* A table in the form of the model block (section 5.8): n codes of weights. A code is 0 or an
 * exponent, 1..63, of 2^(1/5). */
struct psti_pli_wave_own {
    uint8_t n; /* 0 if the context has the built-in table */
    uint8_t q[PSTI_PLI_N_TOKENS];
};
/* The weights, indexed by code q: 0 for 0, else 2^((q - 1) / 5), rounded. */
extern const uint16_t psti_pli_wave_weights[64];
/* Functions that own tables of waves and of a JPEG's coefficients share. psti_pli_expand_table
 * computes from n codes `q` the frequencies of n_tokens tokens, which sum to 1 << prob_bits; it
 * returns false if the codes make no table. psti_pli_take_bits takes bits of a model block, least
 * significant first; bits past the end are zeros. psti_pli_put_table writes a table at bit `at`,
 * from where all bits of the block must be 0, and returns the bit at which the table ends. */
bool psti_pli_expand_table(const uint8_t *q, uint32_t n, uint32_t n_tokens, uint32_t prob_bits,
                           uint16_t *freqs);
enum { PSTI_PLI_TABLE_ENTRY_BITS = 6 };
struct psti_pli_bits {
    const uint8_t *bytes;
    size_t nbytes, at; /* `at` counts bits */
};
uint32_t psti_pli_take_bits(struct psti_pli_bits *bits, uint32_t n);
size_t psti_pli_put_table(uint8_t *block, size_t at, const uint8_t *q, uint32_t n);
/* Computes the frequencies of an image's own table. Returns false if the table is invalid. With 8
 * bits only a table without entries is invalid. */
bool psti_pli_wave_expand(const struct psti_pli_wave_own *own, uint32_t bits, uint16_t *freqs);
/* Writes the model block, at most PSTI_PLI_WAVE_MODEL_MAX_NBYTES. Returns its length. */
size_t psti_pli_wave_print_model(const struct psti_pli_wave_own *own /* [16] */, uint8_t *block);

#endif
