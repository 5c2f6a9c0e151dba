/* pli_wave_encode_int.h - inside the encoder of PLI's wave mode (docs/format-pli.md, section 5):
 * declarations that choosing, counting and writing share. */
#ifndef PST_PLI_WAVE_ENCODE_INT_H
#define PST_PLI_WAVE_ENCODE_INT_H

#include "pli/encode/pli_encode_int.h"
#include "pli/encode/pli_rans.h"
#include "pli/format/pli_wave_format.h"

enum {
    PSTI_WAVE_EDGE = PSTI_PLI_WAVE_EDGE,
    PSTI_WAVE_SAMPLES = PSTI_WAVE_EDGE * PSTI_WAVE_EDGE,
    PSTI_WAVE_BLOCK = PSTI_PLI_WAVE_BLOCK,
    /* Zeros surround the activities, because neighbours outside the unit count as 0. */
    PSTI_WAVE_PAD = 16,
    PSTI_WAVE_PAD_ROWS = 2,
    PSTI_WAVE_PADDED = PSTI_WAVE_PAD + PSTI_WAVE_EDGE + PSTI_WAVE_PAD,
    PSTI_WAVE_RECORD_MAX_NBYTES = 1 + 2 + PSTI_PLI_WAVE_N_BLOCKS,
    PSTI_WAVE_RECIPROCAL_SHIFT = 42,
    PSTI_WAVE_TOKEN_BITS = 6,
    PSTI_WAVE_TOKEN_MAX = 1 << PSTI_WAVE_TOKEN_BITS,
    PSTI_WAVE_WORDS_SLACK = 8,
    PSTI_WAVE_STEPS_SLACK = 2,
    PSTI_WAVE_BANDS_MAX = 8, /* 4 planes of 2 bands each */
    PSTI_WAVE_STREAM_PAD = 16,
    PSTI_WAVE_LOG2_SHIFT = 8,
    PSTI_WAVE_PRICE_UNIT = 16 /* estimated costs (prices) are numbers of 1/16 bit */
};

/* A prediction that may be tried: one of predictors 1..4 with taps, or one filter, which has taps
 * of its own. */
struct psti_wave_candidate {
    uint8_t predictor; /* if PSTI_PLI_PREDICT_FILTERS, the filter with the coefficients k, a and
                        * b */
    int8_t k[5], a, b;
};

/* The choices for one plane of a unit. Pass one keeps only these, and the tokens, for pass two. */
struct psti_wave_plane_plan {
    uint8_t predictor; /* enum psti_pli_predictor */
    int8_t a, b;
    uint16_t start;
    uint8_t filters[PSTI_PLI_WAVE_N_BLOCKS];
};
/* `streams` holds the unit's tokens as pass two codes them: first all indices, then as many values.
 * The rows of a lane follow one another. Lane l has `stride` records: STREAM_PAD without token, its
 * row of band 0, its row of band 1 and so on, STREAM_PAD without token. Records after the unit's
 * width and height have no token. Only the planes that are coded have records. */
struct psti_wave_plan {
    struct psti_wave_plane_plan planes[4];
    uint16_t streams[2 * PSTI_PLI_LANES *
                     (2 * PSTI_WAVE_STREAM_PAD + PSTI_WAVE_EDGE * PSTI_WAVE_BANDS_MAX)];
};
/* Returns the number of tokens in a row of 64 samples. */
static inline uint32_t psti_pli_wave_columns(uint32_t bits)
{
    return bits == 8 ? PSTI_PLI_WAVE_PAIRS : PSTI_WAVE_EDGE;
}
static inline uint32_t psti_pli_wave_stride(uint32_t bits, uint32_t n_bands)
{
    return 2 * PSTI_WAVE_STREAM_PAD + psti_pli_wave_columns(bits) * n_bands;
}
static inline size_t psti_pli_wave_n_records(uint32_t bits, uint32_t n_bands)
{
    return (size_t)PSTI_PLI_LANES * psti_pli_wave_stride(bits, n_bands);
}
/* Returns the number of steps by which a lane is behind the lane before it. */
static inline uint32_t psti_pli_wave_lag(uint32_t bits) { return bits == 8 ? 1 : 2; }
static inline uint32_t psti_pli_wave_n_steps(uint32_t bits, uint32_t n_bands)
{
    return psti_pli_wave_columns(bits) * n_bands + psti_pli_wave_lag(bits) * (PSTI_PLI_LANES - 1);
}
/* Returns how many bands a plane of a unit of that height has. */
static inline uint32_t psti_pli_wave_plane_bands(uint32_t height)
{
    return height <= PSTI_PLI_LANES ? 1 : 2;
}

/* A record is an index and a value. An index is the token in 4 bits (16-bit samples: in 6) and
 * above it the context in 4 bits. A value is R in 8 bits and S in 8 bits (16-bit samples: raw bits
 * in 14 bits, an unused bit, and the sign in one bit). Plain C keeps both in one number, and the
 * lane in the 6 bits between them. The index NONE stands for no token. */
enum {
    PSTI_WAVE_TOKEN_BITS_8 = 4,
    PSTI_WAVE_NONE_8 = PSTI_PLI_N_CONTEXTS << PSTI_WAVE_TOKEN_BITS_8,
    PSTI_WAVE_NONE_16 = PSTI_WAVE_TOKEN_MAX - 1,
    PSTI_WAVE_INDEX_BITS = 10,
    PSTI_WAVE_VALUE_SHIFT = 16,
    PSTI_WAVE_RAW_MASK = (1 << 14) - 1
};
static inline uint32_t psti_pli_wave_token_bits(uint32_t bits)
{
    return bits == 8 ? PSTI_WAVE_TOKEN_BITS_8 : PSTI_WAVE_TOKEN_BITS;
}
static inline uint16_t psti_pli_wave_none(uint32_t bits)
{
    return bits == 8 ? PSTI_WAVE_NONE_8 : PSTI_WAVE_NONE_16;
}

/* The neighbours of the samples of 16 rows of a plane, with the names of section 5.3. `s` are the
 * samples themselves. */
struct psti_wave_near_u8 {
    uint8_t s[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], l[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint8_t u[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], ul[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint8_t ur[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], uu[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint8_t ll[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
};
struct psti_wave_near_u16 {
    uint16_t s[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], l[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint16_t u[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], ul[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint16_t ur[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE], uu[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
    uint16_t ll[PSTI_WAVE_BLOCK][PSTI_WAVE_EDGE];
};

/* The signs of 32 samples that follow each other in the order of tokens: `n` bits, one for each
 * sample other than 0. */
struct psti_wave_signs {
    uint32_t bits, n;
};

/* The memory that one thread works in. */
struct psti_wave_work {
    _Alignas(64) union {
        struct psti_wave_near_u8 of_u8;
        struct psti_wave_near_u16 of_u16;
    } near;
    _Alignas(64) int16_t residuals[4][PSTI_WAVE_SAMPLES]; /* residuals of each plane */
    _Alignas(64) int16_t trial[5][PSTI_WAVE_SAMPLES]; /* residuals of predictions that are tried */
    _Alignas(64) uint8_t padded[4][PSTI_WAVE_PAD_ROWS + PSTI_WAVE_EDGE][PSTI_WAVE_PADDED];
    _Alignas(64) int16_t zeros[PSTI_WAVE_SAMPLES];
    /* For one row of blocks the residuals and the activities that each filter gives, and the cost
     * of each activity in each context. */
    int16_t filtered[PSTI_PLI_N_FILTERS + 1][PSTI_WAVE_BLOCK * PSTI_WAVE_EDGE];
    uint8_t filtered_g[PSTI_PLI_N_FILTERS + 1][PSTI_WAVE_BLOCK * PSTI_WAVE_EDGE];
    uint16_t costs[1 << PSTI_WAVE_INDEX_BITS];
    /* Records in the order of tokens. `slots` and `values` have 32 records a step, some without a
     * token. `ordered`, of plain C, has index, lane and value in one number, and only records with
     * a token. */
    _Alignas(64) union {
        struct {
            uint16_t slots[(PSTI_PLI_WAVE_MAX_STEPS + PSTI_WAVE_STEPS_SLACK) * PSTI_PLI_LANES];
            uint16_t values[(PSTI_PLI_WAVE_MAX_STEPS + PSTI_WAVE_STEPS_SLACK) * PSTI_PLI_LANES];
        };
        uint32_t ordered[4 * PSTI_WAVE_SAMPLES + 1];
    } order;
    uint32_t large[4 * PSTI_WAVE_SAMPLES + 1]; /* for samples of 16 bits: those records of `ordered`
                                                * that have raw bits */
    struct psti_wave_signs signs[PSTI_PLI_WAVE_MAX_STEPS]; /* all signs, in the order of tokens; for
                                                            * samples of 16 bits */
    /* for samples of 8 bits: where each step ends in order.ordered */
    uint32_t step_ends[PSTI_PLI_WAVE_MAX_PAIR_STEPS];
    uint16_t counts[4][PSTI_PLI_N_CONTEXTS * PSTI_WAVE_TOKEN_MAX];
    /* One word for each token, of 1 byte or 2 bytes. The bytes before the first word are
     * overwritten, too. */
    _Alignas(16) uint8_t words[2 * (PSTI_WAVE_WORDS_SLACK + 4 * PSTI_WAVE_SAMPLES)];
    uint8_t bits[4 * PSTI_WAVE_SAMPLES * 2 + 128]; /* signs and raw bits */
};

/* Returns an estimated cost of about 16 * log2(1 + m). The function is piecewise linear, so vectors
 * can compute it. */
static inline __attribute__((always_inline)) int16_t psti_pli_wave_price_u8(int16_t m)
{
    int16_t a = (int16_t)(16 * m), b = (int16_t)(6 * m + 13), c = (int16_t)(2 * m + 34);
    int16_t d = (int16_t)((m >> 1) + 65), least = a < b ? a : b;
    least = least < c ? least : c;
    return least < d ? least : d;
}
/* Returns about 16 * log2(1 + m): it takes the exponent and four bits of the fraction of a float,
 * which holds 1 + m exactly. */
static inline __attribute__((always_inline)) int32_t psti_pli_wave_price_u16(int32_t m)
{
    enum { BIAS = 127, FRACTION = 23, KEPT = 4 };
    union {
        float number;
        int32_t bits;
    } v = {.number = (float)(m + 1)};
    return (v.bits >> (FRACTION - KEPT)) - (BIAS << KEPT);
}

/* Sums of products of residuals: g of plane 0, r of plane 1, s of the plane itself. */
struct psti_wave_moments {
    int64_t gg, gr, rr, gs, rs;
};

/* Loops over rows of a plane, 64 samples to a row (pli_wave_predict.c). Loops that need neighbours
 * go over rows y0 .. y0 + n_rows - 1, at most 16. `g` and `r` are the residuals of planes 0 and 1
 * in the same rows. Estimated costs (prices) cover only the unit's width. */
struct psti_wave_rows {
    /* Stores the neighbours, which the next three functions need, in work->near. */
    void (*gather)(const struct psti_pli_source *source, uint32_t plane, uint32_t y0,
                   struct psti_wave_work *work);
    void (*find_residuals)(const struct psti_wave_work *work, const struct psti_wave_candidate *c,
                           uint32_t n_rows, const int16_t *g, const int16_t *r, int16_t *out);
    /* Computes residuals like find_residuals, only for columns x0 .. x0 + 15. */
    void (*find_block)(const struct psti_wave_work *work, const struct psti_wave_candidate *c,
                       uint32_t n_rows, uint32_t x0, const int16_t *g, const int16_t *r,
                       int16_t *out);
    /* Computes residuals like find_residuals, only for row i of the gathered rows. `g`, `r` and
     * `out` begin at that row. */
    void (*find_row)(const struct psti_wave_work *work, const struct psti_wave_candidate *c,
                     uint32_t i, const int16_t *g, const int16_t *r, int16_t *out);
    /* Computes for the whole plane, for i = from..3, the residuals of predictor i + 1 without taps,
     * to work->trial[i], and their estimated costs. */
    void (*try_simple)(const struct psti_pli_source *source, uint32_t plane, uint32_t from,
                       struct psti_wave_work *work, uint64_t prices[4]);
    uint64_t (*price)(const struct psti_pli_source *source, const int16_t *residuals);
    /* Adds taps to residuals without taps, for any number of rows. */
    void (*add_taps)(const int16_t *from, uint32_t n_rows, int8_t a, int8_t b, const int16_t *g,
                     const int16_t *r, int16_t *to);
    /* Returns the estimated cost of the residuals that add_taps would produce for the whole
     * plane. */
    uint64_t (*price_taps)(const struct psti_pli_source *source, const int16_t *from, int8_t a,
                           int8_t b, const int16_t *g, const int16_t *r);
    void (*add_moments)(const struct psti_pli_source *source, const int16_t *g, const int16_t *r,
                        const int16_t *s, struct psti_wave_moments *moments);
};
extern const struct psti_wave_rows psti_wave_rows_u8_c, psti_wave_rows_u16_c,
    psti_wave_rows_u8_avx2, psti_wave_rows_u16_avx2;

/* Makes the plan's streams from work->residuals (pli_wave_tokens.c). */
void psti_pli_wave_tokenise(const struct psti_pli_source *source, struct psti_wave_plan *plan,
                            struct psti_wave_work *work);
/* These functions (pli_wave_cost.c) compute the cost of residuals by work->costs, in 1/16 bit. */
/* Returns the cost of a plane. Leaves its activities in work->padded[plane]; the planes before it
 * must have left theirs. */
uint32_t psti_pli_wave_cost_plane(const struct psti_pli_source *source, uint32_t plane,
                                  enum psti_pli_energy kind, const int16_t *residuals,
                                  struct psti_wave_work *work);
/* Replaces filters, block by block, if that lowers the cost with the activities of the surrounding
 * blocks. `residuals` are those of the given filters, and on return those of the new ones. */
void psti_pli_wave_refine(const struct psti_pli_source *source, uint32_t plane,
                          enum psti_pli_energy kind, const int16_t *g, const int16_t *r,
                          uint8_t *filters, int16_t *residuals, struct psti_wave_work *work);

/* Computes the activities (docs/format-pli.md, 5.4) of a row of 64 residuals, of which the unit has
 * `width`. Activities after these are 0. */
typedef void psti_wave_find_activities(const int16_t *residuals, uint32_t width, uint8_t *g);
psti_wave_find_activities psti_pli_wave_find_activities_u8_c, psti_pli_wave_find_activities_u8_avx2,
    psti_pli_wave_find_activities_u16_c, psti_pli_wave_find_activities_u16_avx2;

/* The rows of one plane for which put_records makes records. Activities are stored in `g`, indices
 * and values in the streams. */
struct psti_wave_record_rows {
    uint32_t height, width, stride;
    const int16_t *residuals;
    enum psti_pli_energy kind; /* formula of energy, for samples of 16 bits */
    /* Padded rows of activities: `g` of the plane itself; `g0` and `g1`, with 16 bits, of planes 0
     * and 1. `z`, with 8 bits, is `extra` of section 5.6; NULL stands for the plane's own
     * activities, two before. */
    uint8_t *g;
    const uint8_t *g0, *g1, *z;
    /* for 8 bits, indexed by the lower four bits of an activity: the first context whose table has
     * its token */
    const uint8_t *first_with;
    uint16_t *indices, *values;
};
typedef void psti_wave_put_records(const struct psti_wave_record_rows *rows);
psti_wave_put_records psti_pli_wave_put_records_u8_c, psti_pli_wave_put_records_u8_avx2,
    psti_pli_wave_put_records_u16_c, psti_pli_wave_put_records_u16_avx2;
/* Returns where the records of row y begin, counted from those of row 0. */
static inline size_t psti_pli_wave_record_at(uint32_t bits, uint32_t stride, uint32_t y)
{
    return (size_t)(y % PSTI_PLI_LANES) * stride +
           (size_t)(y / PSTI_PLI_LANES) * psti_pli_wave_columns(bits);
}
/* Finds the contexts of a row of 64 samples of 16 bits. */
void psti_pli_wave_find_contexts_u16_avx2(enum psti_pli_energy kind, const uint8_t *g,
                                          const uint8_t *g0, const uint8_t *g1, uint8_t *contexts);

/* The input of psti_wave_cost, which returns the cost of `columns` tokens of each of `n_rows`
 * padded rows of activities. With 8 bits `z` is as in psti_wave_record_rows, but never NULL, and
 * columns are at most 32. With 16 bits kind, g0 and g1 are needed. */
struct psti_wave_cost_rows {
    enum psti_pli_energy kind;
    const uint8_t *g, *g0, *g1, *z;
    uint32_t n_rows, columns;
};
typedef uint32_t psti_wave_cost(const struct psti_wave_cost_rows *rows, const uint16_t *costs);
psti_wave_cost psti_pli_wave_cost_u8_c, psti_pli_wave_cost_u8_avx2, psti_pli_wave_cost_u16_c;

/* Stores the indices or the values of all steps, 32 a step, and `none` where a step has no token
 * (pli_wave_code_avx2.c). */
typedef void psti_wave_find_slots(uint32_t bits, const uint16_t *streams, uint32_t n_bands,
                                  uint16_t none, uint16_t *slots);
/* Writes signs and raw bits of the steps as bytes. Returns their number. */
typedef size_t psti_wave_write_slots(const uint16_t *indices, const uint16_t *values,
                                     uint32_t n_steps, uint8_t *bits);
/* Writes words before `end` and updates the states. Prefetches cache lines of `ahead`, two a step
 * (16 bits: one). Returns where the words begin. */
typedef uint8_t *psti_wave_code_slots(const uint16_t *indices, uint32_t n_steps,
                                      const uint64_t *codes, const void *ahead, uint32_t *states,
                                      uint8_t *end);
psti_wave_find_slots psti_pli_wave_find_slots_avx2;
psti_wave_write_slots psti_pli_wave_write_bits_avx2, psti_pli_wave_write_bits_u16_avx2;
psti_wave_code_slots psti_pli_wave_code_avx2, psti_pli_wave_code_u16_avx2;

/* Returns 256 * log2(v), rounded down, for v > 0. Computed in integers, because files must not
 * depend on the machine. */
static inline uint32_t psti_pli_wave_log2(uint32_t v)
{
    uint32_t e = 31u - (uint32_t)__builtin_clz(v), fraction = 0;
    uint64_t x = (uint64_t)v << (31 - e); /* fixed point with 31 fraction bits */
    for (uint32_t i = 0; i < PSTI_WAVE_LOG2_SHIFT; i++) {
        x = (x * x) >> 31;
        fraction <<= 1;
        if (x >> 32) {
            fraction |= 1;
            x >>= 1;
        }
    }
    return e << PSTI_WAVE_LOG2_SHIFT | fraction;
}

/* Returns a filter of a list. Number 0 is MED. */
static inline struct psti_wave_candidate psti_pli_wave_filter(uint32_t list, uint32_t number)
{
    if (number == 0)
        return (struct psti_wave_candidate){.predictor = PSTI_PLI_PREDICT_MED};
    const struct psti_pli_filter *f = &psti_pli_filters[list][number - 1];
    return (struct psti_wave_candidate){
        PSTI_PLI_PREDICT_FILTERS, {f->k[0], f->k[1], f->k[2], f->k[3], f->k[4]}, f->a, f->b};
}

/* The tables for encoding (pli_wave_model.c). */
struct psti_wave_code {
    uint64_t reciprocal;  /* 2^42 / freq, rounded up */
    uint32_t last;        /* freq * 2^(2 * bits - prob_bits) - 1: a larger state writes a word
                           * first */
    uint16_t rest, first; /* rest: 2^prob_bits - freq; first: sum of the frequencies of earlier
                           * tokens */
};
/* These functions return a token's code for vectors, or 0 if freq is 0. With 16 bits the code is
 * that of pli_rans.h. With 8 bits it is four numbers of 16 bits: a reciprocal r, a power of two p,
 * `third`, which is p or 0, and 2^8 - freq with `first` above it. x divided by freq is (x * p +
 * third) * r >> 23. The first product and the sum have 16 bits. */
uint64_t psti_pli_wave_slot_code(uint32_t freq, uint32_t first);
uint64_t psti_pli_wave_slot_code_u8(uint32_t freq, uint32_t first);
struct psti_pli_wave_codes {
    struct psti_wave_code of[1 << PSTI_WAVE_INDEX_BITS]; /* by index */
    uint64_t of_slots[1 << PSTI_WAVE_INDEX_BITS];
    uint16_t costs[1 << PSTI_WAVE_INDEX_BITS]; /* cost of a token in 1/16 bit, indexed by
                                                * psti_pli_wave_cost_index() */
};
/* Returns the index in `costs` for an activity. With 8 bits the lower four bits distinguish
 * activities. */
static inline uint32_t psti_pli_wave_cost_index(uint32_t bits, uint32_t context, uint32_t g)
{
    return bits == 8 ? context << PSTI_WAVE_TOKEN_BITS_8 | g % PSTI_PLI_N_TOKENS_8
                     : context << PSTI_WAVE_TOKEN_BITS | g;
}

#endif
