/* pli_wave_c.c - the wave decoder in plain C. It follows docs/format-pli.md, section 5.
 *
 * It is the reference implementation for all other levels, and therefore scalar. Numbers in
 * parentheses are sections of that document. A unit takes three passes. The first decodes the
 * tokens of all planes, step by step (5.5 to 5.7). The second makes their residuals, in the same
 * order (5.4). The third makes samples, row by row (5.3). psti_pli_wave_parse() has checked the
 * head of the unit; words and raw bits are checked here. The functions are pure; any thread may
 * call them. */
#include "pli/decode/wave/pli_wave_int.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"
/* Makes the compiler compile a function once for 8 bits and once for 16. */
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = PSTI_PLI_LANES,
    EDGE = PSTI_PLI_WAVE_EDGE,
    BLOCK = PSTI_PLI_WAVE_BLOCK,
    MOST_PLANES = 4,
    BORDER = 2, /* rows above a plane and columns to its left; neighbours are never farther away */
    STRIDE = BORDER + EDGE,
    PLANE_TOKENS = (BORDER + EDGE) * STRIDE,
    PLANE_SAMPLES = EDGE * EDGE,
    READ_AHEAD = 96, /* samples that callers may read from a row's start, even past its end */
    /* Sizes for the worst case. A token takes at most one word. A sample of 16 bits has at most 15
     * raw bits, two samples of 8 bits have at most 16. A step may read STEP_NBYTES past the end of
     * words or raw bits before the end is checked. */
    MOST_WORDS = MOST_PLANES * PLANE_SAMPLES,
    MOST_RAW_NBYTES = MOST_PLANES * PLANE_SAMPLES * 15 / 8,
    STEP_NBYTES = LANES * 16 / 8 + 8
};

/* The layout of the scratch. */
struct memory {
    /* Activities of tokens by coded plane, row and column; with 8 bits by pair of columns.
     * Activities outside the unit are 0. Plane [0] is all zeros; it is used for every plane that is
     * not coded. */
    uint8_t activities[(1 + MOST_PLANES) * PLANE_TOKENS];
    /* Residuals by coded plane, row and column. */
    int16_t residuals[MOST_PLANES * PLANE_SAMPLES];
    uint8_t words[2 * MOST_WORDS + STEP_NBYTES];
    uint8_t raw[MOST_RAW_NBYTES + PSTI_PLI_WAVE_STATE_NBYTES + STEP_NBYTES];
    /* Samples by plane, row and column. Samples of 8 bits take one byte each. */
    uint16_t samples[MOST_PLANES * PLANE_SAMPLES + READ_AHEAD];
};
_Static_assert(sizeof(struct memory) <= PSTI_PLI_WORK_NBYTES, "scratch");

/* The unit that is being decoded. */
struct wave {
    const struct psti_pli_unit *unit;
    struct psti_pli_wave_head *head;
    const struct psti_pli_wave_tables *tables;
    struct memory *memory;
};

static inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* -- The order of tokens (5.5) -- */

/* The active lanes of a band in a step: lanes first .. end - 1. Each lane is one row below the lane
 * before it, and one pair (8 bits) or two samples (16 bits) to its left. */
struct run {
    uint32_t first, end;
    uint32_t j, row, column; /* coded plane of the run; row and column of lane `first` */
};

/* Finds the active lanes of one band in step t. Part 0 is the band that began last, with the lower
 * lanes. Part 1 is the band before it, with the upper lanes. */
INLINE struct run find_run(const struct wave *w, uint32_t bits, uint32_t t, uint32_t part)
{
    const uint32_t lag = bits == 8 ? 1 : 2, two_bands = w->head->bands_per_plane - 1;
    const uint32_t n_columns = bits == 8 ? (w->unit->width + 1) / 2 : w->unit->width;
    /* x is the column of lane 0. */
    const uint32_t band = t / (LANES * lag) - part, x = t - LANES * lag * band;
    const uint32_t y = LANES * (band & two_bands);
    struct run run = {0};
    if (band >= w->head->n_bands)
        return run; /* no lane is active */
    run.j = band >> two_bands;
    run.first = x < n_columns ? 0 : (x - n_columns) / lag + 1;
    run.end = least(least(x / lag + 1, LANES), w->unit->height - y);
    run.row = y + run.first;
    run.column = x - lag * run.first;
    return run;
}

/* -- Tokens -- */

struct words {
    const uint8_t *bytes;
    size_t n, n_taken;
};

static struct words gather_words(const struct wave *w)
{
    uint8_t *bytes = w->memory->words;
    const size_t nbytes = w->head->n_words * (w->unit->bits / 8u);
    memcpy(bytes, w->head->words, nbytes);
    memset(bytes + nbytes, 0, STEP_NBYTES);
    return (struct words){bytes, w->head->n_words, 0};
}

/* Decodes one token by rANS (section 0) and returns its activity. Whether the state needs a word is
 * nearly random, so there is no branch for it. */
INLINE uint8_t take_token(const struct psti_pli_wave_context *context, uint32_t bits,
                          uint32_t *state, struct words *words)
{
    const uint32_t prob_bits = psti_pli_wave_prob_bits(bits);
    const uint32_t place = *state & ((1u << prob_bits) - 1);
    const uint8_t activity = context->activities[place];
    const uint32_t x = context->of[activity].freq * (*state >> prob_bits) + place -
                       context->of[activity].first_place;
    const uint32_t word =
        bits == 8 ? words->bytes[words->n_taken] : psti_load_u16(words->bytes + 2 * words->n_taken);
    /* All bits set if the state needs a word, else 0. */
    const uint32_t lacks = 0u - (x < 1u << bits);
    *state = x << (lacks & bits) | (word & lacks);
    words->n_taken += lacks & 1;
    return activity;
}

/* Returns the energy (5.6) of the token whose activity will be stored at `g`. `to_0` and `to_1` are
 * the distances from `g` to the activities of planes 0 and 1 at the same place. */
INLINE uint8_t find_energy(uint32_t bits, enum psti_pli_energy kind, const uint8_t *g,
                           ptrdiff_t to_0, ptrdiff_t to_1)
{
    const uint8_t *up = g - STRIDE, *up_up = g - 2 * STRIDE;
    if (bits == 8)
        return psti_pli_wave_pair_energy(g[-1], up[0], up[-1], up_up[0], up_up[1],
                                         g[kind == PSTI_PLI_ENERGY_THIRD ? to_1 : -2]);
    return psti_pli_wave_energy(kind, g[-1], up[0], up[-1], up[1], up_up[0], g[-2], g[to_0],
                                g[to_1]);
}

static uint8_t *find_activity(const struct wave *w, const struct run *run)
{
    return w->memory->activities + (1 + run->j) * PLANE_TOKENS + (BORDER + run->row) * STRIDE +
           BORDER + run->column;
}

INLINE void decode_run(const struct wave *w, uint32_t bits, const struct run *run,
                       struct words *words)
{
    const struct psti_pli_wave_plane *plane = w->head->planes + run->j;
    const struct psti_pli_wave_context *contexts = w->tables->contexts;
    const uint8_t *buckets = psti_pli_wave_bucket[bits == 16];
    const ptrdiff_t to_0 = (plane->index0 - (ptrdiff_t)run->j) * PLANE_TOKENS;
    const ptrdiff_t to_1 = (plane->index1 - (ptrdiff_t)run->j) * PLANE_TOKENS;
    const enum psti_pli_energy kind = plane->energy;
    uint32_t *states = w->head->states;
    uint8_t *g = find_activity(w, run);
    for (uint32_t lane = run->first; lane < run->end; lane++) {
        const uint8_t energy = find_energy(bits, kind, g, to_0, to_1);
        *g = take_token(contexts + buckets[energy], bits, states + lane, words);
        g += STRIDE - (bits == 8 ? 1 : 2);
    }
}

/* Decodes all tokens of a unit. Returns false if the high half of a state is not 1 at the end, or
 * if words are left. */
INLINE bool decode_tokens(const struct wave *w, uint32_t bits)
{
    if (w->head->n_words > MOST_WORDS)
        return false;
    struct words words = gather_words(w);
    memset(w->memory->activities, 0, sizeof w->memory->activities);
    for (uint32_t t = 0; t < w->head->n_token_steps && words.n_taken <= words.n; t++)
        for (uint32_t part = 0; part < 2; part++) {
            const struct run run = find_run(w, bits, t, part);
            decode_run(w, bits, &run, &words);
        }
    bool ends = words.n_taken == words.n;
    for (uint32_t lane = 0; lane < LANES; lane++)
        ends = ends && w->head->states[lane] >> bits == 1;
    return ends;
}

/* -- Residuals from raw bits (5.4) -- */

/* The raw string (5.7), its length in bits, and the number of its next bit. */
struct raw {
    const uint8_t *bytes;
    uint64_t n_bits, at;
};

/* Makes the raw string: the raw bytes, then the payload. Raw bytes that no unit can use are left
 * out. */
static struct raw gather_raw(const struct wave *w)
{
    uint8_t *bytes = w->memory->raw;
    const size_t n = w->head->raw_nbytes < MOST_RAW_NBYTES ? w->head->raw_nbytes : MOST_RAW_NBYTES;
    const size_t payload = psti_pli_wave_state_nbytes(w->unit->bits);
    memcpy(bytes, w->head->raw, n);
    for (uint32_t lane = 0; lane < LANES; lane++)
        if (w->unit->bits == 8)
            bytes[n + lane] = (uint8_t)w->head->states[lane];
        else
            psti_store_u16(bytes + n + 2 * (size_t)lane, (uint16_t)w->head->states[lane]);
    memset(bytes + n + payload, 0, STEP_NBYTES);
    return (struct raw){bytes, 8 * (uint64_t)(n + payload), 0};
}

/* Takes n bits, at most 16. */
static inline uint32_t take_bits(struct raw *raw, uint32_t n)
{
    const uint32_t bits = psti_load_u32(raw->bytes + (raw->at >> 3)) >> (raw->at & 7);
    raw->at += n;
    return bits & ((1u << n) - 1);
}

/* Returns the address of the residual of the run's first lane. The residuals of the next lane are
 * LANE_RESIDUALS further. */
enum { LANE_RESIDUALS = EDGE - 2 };
static int16_t *find_residual(const struct wave *w, const struct run *run, uint32_t column)
{
    return w->memory->residuals + run->j * PLANE_SAMPLES + run->row * EDGE + column;
}

/* A pair whose suffix2 has not been read yet, and the address of its residuals. */
struct half_pair {
    int16_t *to;
    uint32_t activity, turn;
};

/* Reads suffix1 of the pairs of a run (8 bits). Returns how many of the pairs have a suffix2. Each
 * pair is written to `half`; the next pair overwrites it if it has no suffix2. This replaces a
 * branch that would often be mispredicted. `half` needs space for one more pair. */
static uint32_t take_pairs(const struct wave *w, const struct run *run, struct raw *raw,
                           struct half_pair *half)
{
    const uint8_t *g = find_activity(w, run);
    int16_t *to = find_residual(w, run, 2 * run->column);
    uint32_t n_half = 0;
    for (uint32_t lane = run->first; lane < run->end; lane++) {
        /* The lower four bits of an activity also identify the token. */
        const uint32_t activity = *g, low = activity % 16;
        const uint32_t suffix1 = take_bits(raw, psti_pli_wave_first_bits_of[low]);
        to[0] = w->tables->pairs[low][suffix1][0];
        to[1] = w->tables->pairs[low][suffix1][1];
        half[n_half] = (struct half_pair){to, activity, suffix1 % 4};
        n_half += activity >= PSTI_PLI_WAVE_SQUARE_ACTIVITY;
        g += STRIDE - 1;
        to += LANE_RESIDUALS;
    }
    return n_half;
}

/* Reads suffix2 of these pairs. The table of pairs took suffix2 as 0. Half of suffix2 goes to `up`,
 * the rest to `right` (5.4). Then the change is rotated like the pair. */
static void take_second_halves(const struct half_pair *half, uint32_t n_half, struct raw *raw)
{
    for (; n_half > 0; n_half--, half++) {
        const uint32_t suffix2 = take_bits(raw, psti_pli_wave_second_bits_of[half->activity % 16]);
        const int16_t up = (int16_t)(suffix2 / 2), right = (int16_t)((suffix2 + 1) / 2);
        const int16_t turned[5] = {right, (int16_t)-up, (int16_t)-right, up, right};
        if (half->activity == PSTI_PLI_WAVE_ANY_ACTIVITY) {
            half->to[1] = (int8_t)suffix2;
            continue;
        }
        half->to[0] = (int16_t)(half->to[0] + turned[half->turn]);
        half->to[1] = (int16_t)(half->to[1] - turned[half->turn + 1]);
    }
}

/* Finds all residuals of a unit of 8 bits. Returns false if there are too few raw bits. */
static bool find_residuals_u8(const struct wave *w)
{
    struct half_pair half[LANES + 1];
    struct raw raw = gather_raw(w);
    for (uint32_t t = 0; t < w->head->n_token_steps && raw.at <= raw.n_bits; t++) {
        uint32_t n_half = 0;
        for (uint32_t part = 0; part < 2; part++) {
            const struct run run = find_run(w, 8, t, part);
            n_half += take_pairs(w, &run, &raw, half + n_half);
        }
        take_second_halves(half, n_half, &raw);
    }
    return raw.at <= raw.n_bits;
}

/* Finds the residuals of a run, for samples of 16 bits. */
static void take_residuals(const struct wave *w, const struct run *run, struct raw *signs,
                           struct raw *raw)
{
    const uint8_t *g = find_activity(w, run);
    int16_t *to = find_residual(w, run, run->column);
    for (uint32_t lane = run->first; lane < run->end; lane++) {
        const uint32_t token = *g, negative = take_bits(signs, token > 0);
        uint32_t m = token;
        if (token >= PSTI_PLI_DIRECT)
            m = psti_pli_wave_base(token) + take_bits(raw, psti_pli_wave_raw_bits(token));
        *to = (int16_t)(negative ? 0 - m : m);
        g += STRIDE - 2;
        to += LANE_RESIDUALS;
    }
}

static bool find_residuals_u16(const struct wave *w)
{
    struct raw raw = gather_raw(w), signs = raw;
    for (size_t i = 0; i < sizeof w->memory->activities; i++)
        raw.at += w->memory->activities[i] > 0;
    for (uint32_t t = 0; t < w->head->n_token_steps && raw.at <= raw.n_bits; t++)
        for (uint32_t part = 0; part < 2; part++) {
            const struct run run = find_run(w, 16, t, part);
            take_residuals(w, &run, &signs, &raw);
        }
    return raw.at <= raw.n_bits;
}

/* -- Samples from residuals (5.3) -- */

/* A row of a plane and the two rows above it. The arrays also have samples for neighbours outside
 * the unit: two before the row (L and LL of column 0), one before and one after the row above. */
struct row {
    uint32_t bits, width, y;
    const uint16_t *up, *up_up;
    uint16_t *samples;
    /* Residuals of this plane, and of planes 0 and 1. */
    const int16_t *residuals, *residuals_0, *residuals_1;
};

/* Takes the sum modulo 2^16 (8 bits) or 2^32 (16 bits), and returns it as a signed number. */
static inline int32_t read_signed(uint32_t bits, int32_t sum)
{
    return bits == 8 ? (int16_t)sum : sum;
}

/* Returns a rG + b rR + 16 at column x: the taps times the residuals of planes 0 and 1. */
static inline int32_t sum_taps(const struct row *r, int32_t a, int32_t b, int32_t x)
{
    return a * r->residuals_0[x] + b * r->residuals_1[x] + 16;
}

INLINE uint32_t predict(uint32_t predictor, uint32_t l, uint32_t u, uint32_t ul)
{
    switch (predictor) {
    case PSTI_PLI_PREDICT_LEFT:
        return l;
    case PSTI_PLI_PREDICT_UP:
        return u;
    case PSTI_PLI_PREDICT_AVERAGE:
        return (l + u) >> 1;
    default:
        return l + u - least(most(ul, least(l, u)), most(l, u));
    }
}

/* Makes the samples of columns x .. end - 1 with one predictor. Each sample depends on the sample
 * before it, so terms without neighbours are summed first. */
INLINE void rebuild_by(uint32_t predictor, const struct row *r, int32_t a, int32_t b, int32_t x,
                       int32_t end)
{
    const uint32_t mask = (1u << r->bits) - 1;
    uint32_t l = r->samples[x - 1];
    uint32_t added[EDGE];
    for (int32_t i = x; i < end; i++)
        added[i] = (uint32_t)((read_signed(r->bits, sum_taps(r, a, b, i)) >> 5) + r->residuals[i]);
    for (; x < end; x++) {
        l = (predict(predictor, l, r->up[x], r->up[x - 1]) + added[x]) & mask;
        r->samples[x] = (uint16_t)l;
    }
}

/* Makes samples with predictors 1..4, each in a loop of its own. In row 0, U and UL are L, so all
 * predictors give L. */
static void rebuild_plainly(uint32_t predictor, const struct row *r, int32_t a, int32_t b,
                            int32_t x, int32_t end)
{
    switch (r->y == 0 ? PSTI_PLI_PREDICT_LEFT : predictor) {
    case PSTI_PLI_PREDICT_LEFT:
        rebuild_by(PSTI_PLI_PREDICT_LEFT, r, a, b, x, end);
        break;
    case PSTI_PLI_PREDICT_UP:
        rebuild_by(PSTI_PLI_PREDICT_UP, r, a, b, x, end);
        break;
    case PSTI_PLI_PREDICT_AVERAGE:
        rebuild_by(PSTI_PLI_PREDICT_AVERAGE, r, a, b, x, end);
        break;
    default:
        rebuild_by(PSTI_PLI_PREDICT_MED, r, a, b, x, end);
    }
}

/* Makes samples with one of the filters 1..63. In row 0 the samples above are L, so the factors of
 * c1..c4 are 0. */
static void rebuild_filtered(const struct psti_pli_filter *filter, const struct row *r, int32_t x,
                             int32_t end)
{
    static const int8_t none[4];
    const int8_t *c = r->y == 0 ? none : filter->k;
    const int32_t c1 = c[0], c2 = c[1], c3 = c[2], c4 = c[3], c5 = filter->k[4];
    const int32_t largest = (1 << r->bits) - 1;
    int32_t l = r->samples[x - 1], ll = r->samples[x - 2];
    for (; x < end; x++) {
        int32_t sum = 32 * l + sum_taps(r, filter->a, filter->b, x) + c1 * (r->up[x] - l) +
                      c2 * (r->up[x - 1] - l) + c3 * (r->up[x + 1] - l) + c4 * (r->up_up[x] - l) +
                      c5 * (ll - l);
        int32_t p = read_signed(r->bits, sum) >> 5;
        p = p < 0 ? 0 : p > largest ? largest : p;
        const int32_t sample = (p + r->residuals[x]) & largest;
        r->samples[x] = (uint16_t)sample;
        ll = x == 0 ? sample : l; /* LL of column 1 is L */
        l = sample;
    }
}

static void rebuild_row(const struct psti_pli_wave_plane *plane, const struct row *r)
{
    if (plane->predictor != PSTI_PLI_PREDICT_FILTERS) {
        rebuild_plainly(plane->predictor, r, plane->a, plane->b, 0, (int32_t)r->width);
        return;
    }
    const uint8_t *numbers = plane->filters + r->y / BLOCK * ((r->width + BLOCK - 1) / BLOCK);
    for (uint32_t x = 0; x < r->width; x += BLOCK) {
        const int32_t begin = (int32_t)x, end = (int32_t)least(x + BLOCK, r->width);
        const uint32_t number = *numbers++;
        if (number == 0)
            rebuild_plainly(PSTI_PLI_PREDICT_MED, r, 0, 0, begin, end);
        else
            rebuild_filtered(&psti_pli_filters[plane->list][number - 1], r, begin, end);
    }
}

/* Stores a row of samples at its place in the scratch, where emission reads it. */
static void store_row(struct memory *memory, uint32_t plane, const struct row *r)
{
    const size_t at = plane * PLANE_SAMPLES + r->y * EDGE;
    if (r->bits == 16)
        memcpy(memory->samples + at, r->samples, r->width * sizeof *r->samples);
    for (uint32_t x = 0; r->bits == 8 && x < r->width; x++)
        ((uint8_t *)memory->samples)[at + x] = (uint8_t)r->samples[x];
}

static void rebuild_plane(const struct wave *w, uint32_t j)
{
    static const int16_t zeros[EDGE]; /* residuals of planes that are not coded */
    const struct psti_pli_wave_plane *plane = w->head->planes + j;
    const uint32_t width = w->unit->width;
    uint16_t rows[3][BORDER + EDGE + 1] = {{0}};
    for (uint32_t y = 0; y < w->unit->height; y++) {
        const int16_t *residuals = w->memory->residuals + y * EDGE;
        uint16_t *up = rows[(y + 2) % 3] + BORDER, *up_up = rows[(y + 1) % 3] + BORDER;
        uint16_t *samples = rows[y % 3] + BORDER;
        const struct row r = {
            .bits = w->unit->bits,
            .width = width,
            .y = y,
            .up = up,
            .up_up = y == 1 ? up : up_up,
            .samples = samples,
            .residuals = residuals + j * PLANE_SAMPLES,
            .residuals_0 = plane->index0 < 0 ? zeros : residuals + plane->index0 * PLANE_SAMPLES,
            .residuals_1 = plane->index1 < 0 ? zeros : residuals + plane->index1 * PLANE_SAMPLES};
        samples[-2] = samples[-1] = y == 0 ? plane->start : up[0]; /* L and LL of column 0 are U */
        up[-1] = up[0];                                            /* UL of column 0 is U */
        up[width] = up[width - 1];                                 /* UR of the last column is U */
        rebuild_row(plane, &r);
        store_row(w->memory, plane->plane, &r);
    }
}

/* -- A whole unit -- */

static enum pst_status decode_coded(const struct wave *w, struct pst_error *err)
{
    const bool wide = w->unit->bits == 16;
    if (!(wide ? decode_tokens(w, 16) : decode_tokens(w, 8)))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit's words do not end its states");
    if (!(wide ? find_residuals_u16(w) : find_residuals_u8(w)))
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit lacks raw bits");
    for (uint32_t j = 0; j < w->head->n_coded; j++)
        rebuild_plane(w, j);
    return PST_OK;
}

static void fill_constants(const struct wave *w)
{
    const struct psti_pli_wave_head *head = w->head;
    for (uint32_t i = 0; i < head->n_constant; i++) {
        const size_t at = head->constant_planes[i] * (size_t)PLANE_SAMPLES;
        if (w->unit->bits == 8)
            memset((uint8_t *)w->memory->samples + at, head->constants[i], PLANE_SAMPLES);
        for (size_t k = 0; w->unit->bits == 16 && k < PLANE_SAMPLES; k++)
            w->memory->samples[at + k] = head->constants[i];
    }
}

enum pst_status psti_pli_wave_decode_c(const struct psti_pli_unit *unit,
                                       struct psti_pli_wave_head *head,
                                       struct psti_pli_wave_tables *tables, void *work,
                                       struct psti_pli_planes *planes, struct pst_error *err)
{
    struct wave w = {unit, head, tables, work};
    const size_t sample_nbytes = unit->bits / 8u;
    if (head->n_coded > 0) {
        psti_pli_wave_need_contexts(tables);
        const enum pst_status status = decode_coded(&w, err);
        if (status != PST_OK)
            return status;
    }
    fill_constants(&w);
    *planes = (struct psti_pli_planes){.base = (const uint8_t *)w.memory->samples,
                                       .plane_step = PLANE_SAMPLES * sample_nbytes,
                                       .band_step = LANES * EDGE * sample_nbytes,
                                       .row_step = EDGE * sample_nbytes};
    return PST_OK;
}
