/* pli_wave_c.c - the wave decoder in plain C, the judge of every other level.
 *
 * Passes over the steps of the cylinder (docs/format-pli.md, 5.5). The first decodes tokens, for
 * which the activities of neighbours suffice, and leaves these as rows of 32 lanes; the others read
 * signs and raw bits, and rebuild samples step by step (pli_wave_steps_u8.c, pli_wave_steps_u16.c).
 * Neighbours of a lane are at fixed places in the rows of the steps before, so that all but the
 * look-ups works on 32 lanes alike. Words are bounds-checked once a step. */
#include "pli/decode/wave/pli_wave_int.h"
#include "pli/decode/wave/pli_wave_steps.h"

#include "base/bits.h"
#include "base/fail.h"

#include <string.h>

#define ROOM "decode"

enum {
    LANES = PSTI_PLI_LANES,
    EDGE = PSTI_PLI_WAVE_EDGE,
    LINE = PSTI_PLI_WAVE_LINE,
    MAX_STEPS = PSTI_PLI_WAVE_MAX_STEPS,
    /* Rows of activities: lanes 30 and 31 once more before lane 0, and 4 steps of zeros before the
     * first. */
    TOKEN_PREFIX = 16,
    TOKEN_STRIDE = TOKEN_PREFIX + LANES,
    TOKEN_HISTORY = 4,
    PLANE_SAMPLES = PSTI_PLI_WAVE_STEPS_PLANE,
    READ_AHEAD = 96, /* samples that may be read from the start of a row */
    BITS_MARGIN = 8,
    TAIL_NBYTES = BITS_MARGIN + PSTI_PLI_WAVE_STATE_NBYTES + BITS_MARGIN
};

/* The scratch. */
struct memory {
    _Alignas(64) uint8_t tokens[TOKEN_HISTORY + MAX_STEPS][TOKEN_STRIDE];
    union {
        struct {
            _Alignas(64) int16_t residuals[MAX_STEPS][LANES];
            _Alignas(64) uint16_t samples[4 * PLANE_SAMPLES + READ_AHEAD];
        };
        struct {
            _Alignas(64) uint8_t lines_8[LANES * LINE + READ_AHEAD];
            _Alignas(64) uint8_t residuals_8[MAX_STEPS][LANES];
        };
    };
};
_Static_assert(sizeof(struct memory) <= PSTI_PLI_WORK_NBYTES, "scratch");

/* Signs and raw bits: bytes of the unit, then the payload from the states. */
struct bit_source {
    const uint8_t *bytes;
    size_t nbytes; /* of `bytes` */
    uint64_t n_bits;
    uint64_t signs, raw;       /* where the next of each is; of 8 bits all are `raw` */
    uint8_t tail[TAIL_NBYTES]; /* continues the last of `bytes`; zeros behind */
    size_t tail_begin;         /* byte at which `tail` begins */
};

struct wave {
    const struct psti_pli_unit *unit;
    const struct psti_pli_wave_head *head;
    uint8_t (*tokens)[TOKEN_STRIDE]; /* [t]; -4..-1 are zeros */
    int16_t *residuals;              /* of 16 bits: [t][lane] */
    uint8_t (*residuals_8)[LANES];   /* two for each step of pairs */
    struct bit_source bits;
    uint32_t lag;             /* steps from a lane to the next: 2, or 1 of pairs */
    uint32_t rows_of_band[2]; /* lanes with rows, in the first and second band of a plane */
    uint32_t columns[EDGE];   /* [t % band_steps()]: lanes with columns */
    /* Of the step that is decoded: lanes up to front_lane() are of plane `front`, the others of
     * `rear` (NULL: outside the cylinder); those with rows. */
    const struct psti_pli_wave_plane *front, *rear;
    uint32_t front_rows, rear_rows;
    uint64_t spread[16][16]; /* see find_spread() */
};

#define ONES_16 0x0001000100010001ull /* 1 in each of four lanes */

static uint32_t band_steps(const struct wave *w) { return LANES * w->lag; }
static uint32_t band_at(const struct wave *w, uint32_t t) { return t / LANES >> (w->lag - 1); }
/* Lanes 0 to this are in band_at(t), the others in the one before. */
static uint32_t front_lane(const struct wave *w, uint32_t t)
{
    return t % band_steps(w) >> (w->lag - 1);
}

/* Lanes of a band that have rows. `band` may be outside the cylinder. */
static uint32_t band_rows(const struct wave *w, uint32_t band)
{
    return band < w->head->n_bands ? w->rows_of_band[band & (w->head->bands_per_plane - 1)] : 0;
}
/* Before the first step of each band. */
static void open_band(struct wave *w, uint32_t band)
{
    w->front = psti_pli_wave_plane_of(w->head, band);
    w->rear = psti_pli_wave_plane_of(w->head, band - 1);
    w->front_rows = band_rows(w, band);
    w->rear_rows = band_rows(w, band - 1);
}
static uint32_t active_lanes(const struct wave *w, uint32_t t)
{
    uint32_t front = (uint32_t)((2ull << front_lane(w, t)) - 1);
    return w->columns[t % band_steps(w)] & ((w->front_rows & front) | (w->rear_rows & ~front));
}

static void find_lanes(struct wave *w)
{
    uint32_t n = band_steps(w), n_columns = (w->unit->width + 2 - w->lag) / (3 - w->lag);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t rows = w->unit->height > 32 * k ? w->unit->height - 32 * k : 0;
        w->rows_of_band[k] = rows >= 32 ? UINT32_MAX : (1u << rows) - 1;
    }
    memset(w->columns, n_columns == n ? 255 : 0, sizeof w->columns);
    for (uint32_t t = 0; t < n && n_columns < n; t++)
        for (uint32_t l = 0; l < LANES; l++)
            w->columns[t] |= (uint32_t)(((t - w->lag * l) & (n - 1)) < n_columns) << l;
}

/* -- Tokens -- */

/* The row that holds tokens of plane `index` at the same places as row t those of `plane`; of zeros
 * if that is not coded. */
static const uint8_t *tokens_of(const struct wave *w, uint32_t t,
                                const struct psti_pli_wave_plane *plane, int index)
{
    uint32_t delta = band_steps(w) * w->head->bands_per_plane;
    uint32_t back = delta * (uint32_t)(plane - w->head->planes - index);
    return (index < 0 ? w->tokens[-1] : w->tokens[t - back]) + TOKEN_PREFIX;
}

/* Bytes of 255, of which two are 0, in 32 bytes from LANES - l on: those of lanes l and l - 1 (31
 * for 0), or that of l. */
#define ALL_8 255, 255, 255, 255, 255, 255, 255, 255
#define ALL_24 ALL_8, ALL_8, ALL_8
#define ALL_7 255, 255, 255, 255, 255, 255, 255
static const uint8_t all_but_two[2 * LANES] = {ALL_24, ALL_7, 0, 0, ALL_7, ALL_8, ALL_8, ALL_7, 0};
static const uint8_t all_but_one[2 * LANES] = {ALL_24, ALL_8, 0, ALL_7, ALL_24};
static const uint8_t all[LANES] = {ALL_24, ALL_8};

/* Lanes whose neighbours are inside the unit, 255 or 0 for each: not at column 0, not at columns 0
 * and 1, not at the last of 64 or 32. (Narrower units have other lanes' tokens of 0 right of them.)
 */
struct inside {
    const uint8_t *left, *far_left, *right;
};

static struct inside find_inside(uint32_t t)
{
    uint32_t front = psti_pli_wave_front_lane(t), last = ((t + 1) & 63) >> 1;
    return (struct inside){
        .left = (t & 1) == 0 ? all_but_one + LANES - front : all,
        .far_left = all_but_one + LANES - front,
        .right = (t & 1) != 0 ? all_but_one + LANES - last : all,
    };
}

/* E of all lanes as if they belonged to `plane`, of 16 bits. */
static void find_energies(const struct wave *w, uint32_t t, const struct psti_pli_wave_plane *plane,
                          uint8_t *restrict energies)
{
    enum { S = TOKEN_STRIDE };
    struct inside in = find_inside(t);
    const uint8_t *left = in.left, *far_left = in.far_left, *right = in.right;
    const uint8_t *g = w->tokens[t] + TOKEN_PREFIX;
    const uint8_t *g0 = tokens_of(w, t, plane, plane->index0);
    const uint8_t *g1 = tokens_of(w, t, plane, plane->index1);
    for (int i = 0; i < LANES; i++)
        energies[i] = psti_pli_wave_energy(
            plane->energy, g[i - S] & left[i], g[i - 1 - 2 * S], g[i - 1 - 3 * S] & left[i],
            g[i - 1 - S] & right[i], g[i - 2 - 4 * S], g[i - 2 * S] & far_left[i], g0[i], g1[i]);
}

/* The same of pairs, of 8 bits; `z`: see psti_pli_wave_pair_energy(). */
static inline void find_pair_energies(const struct wave *w, uint32_t t, const uint8_t *z,
                                      const uint8_t *z_inside, uint8_t *restrict energies)
{
    enum { S = TOKEN_STRIDE };
    const uint8_t *left = all_but_one + LANES - t % LANES;
    const uint8_t *right = all_but_one + LANES - (t + 1) % LANES;
    const uint8_t *g = w->tokens[t] + TOKEN_PREFIX;
    for (int i = 0; i < LANES; i++)
        energies[i] = psti_pli_wave_pair_energy(g[i - S] & left[i], g[i - 1 - S],
                                                g[i - 1 - 2 * S] & left[i], g[i - 2 - 2 * S],
                                                g[i - 2 - S] & right[i], z[i] & z_inside[i]);
}

static void plane_energies(const struct wave *w, uint32_t t,
                           const struct psti_pli_wave_plane *plane, uint8_t *energies)
{
    if (w->unit->bits == 16)
        find_energies(w, t, plane, energies);
    else if (plane->energy == PSTI_PLI_ENERGY_THIRD)
        find_pair_energies(w, t, tokens_of(w, t, plane, plane->index1), all, energies);
    else
        find_pair_energies(w, t, w->tokens[t] + TOKEN_PREFIX - 2 * TOKEN_STRIDE,
                           all_but_two + LANES - t % LANES, energies);
}

static void all_energies(const struct wave *w, uint32_t t, uint8_t *energies)
{
    if (w->rear)
        plane_energies(w, t, w->rear, energies);
    if (w->front && w->front != w->rear) {
        uint8_t own[LANES];
        plane_energies(w, t, w->front, own);
        memcpy(energies, own, front_lane(w, t) + 1);
    }
}

/* Words not yet taken. */
struct words {
    const uint8_t *at;
    size_t n_taken;
};

/* One lane's token in the context of energy `e`; the state goes on, with a word if it must. Whether
 * it must is as good as random: no branch. */
static inline uint8_t decode_token_16(const struct psti_pli_wave_tables *tables, uint8_t e,
                                      uint32_t *state, struct words *words)
{
    const struct psti_pli_wave_context *context =
        (const void *)((const uint8_t *)tables->contexts + tables->context_at[e]);
    uint32_t x = *state, slot = x & (PSTI_PLI_PROB_SUM - 1);
    uint8_t token = context->tokens[slot];
    x = context->of[token].freq * (x >> PSTI_PLI_PROB_BITS) + slot - context->of[token].first_slot;
    uint32_t full = x << 16 | psti_load_u16(words->at + 2 * words->n_taken);
    uint32_t change = (full ^ x) & (uint32_t) - (x < 65536);
    words->n_taken += x < 65536;
    *state = x ^ change;
    return token;
}

/* One step's tokens of 16 bits; inactive lanes get 0. Takes at most 32 words. */
static const uint8_t *decode_step_16(const struct wave *w,
                                     const struct psti_pli_wave_tables *tables, uint32_t t,
                                     uint32_t *states, const uint8_t *words_at)
{
    uint8_t *tokens = w->tokens[t] + TOKEN_PREFIX;
    uint32_t active = active_lanes(w, t);
    struct words words = {words_at, 0};
    _Alignas(16) uint8_t energies[LANES];
    all_energies(w, t, energies);
    if (active == UINT32_MAX) {
        for (uint32_t l = 0; l < LANES; l += 8)
            for (uint32_t i = 0; i < 8; i++)
                tokens[l + i] = decode_token_16(tables, energies[l + i], states + l + i, &words);
    } else {
        memset(tokens, 0, LANES);
        for (; active != 0; active &= active - 1) {
            uint32_t l = (uint32_t)__builtin_ctz(active);
            tokens[l] = decode_token_16(tables, energies[l], states + l, &words);
        }
    }
    return words.at + 2 * words.n_taken;
}

/* States that lack a byte take the next ones, lanes in ascending order: room is made for all of
 * `lanes` alike, then the bytes are put there. */
static inline const uint8_t *fill_states(uint16_t *x, uint32_t lanes, const uint8_t *words)
{
    _Alignas(16) uint8_t empty[LANES];
    uint32_t filled = 0;
    for (uint32_t l = 0; l < LANES; l++)
        empty[l] = x[l] < 256;
    for (uint32_t l = 0; l < LANES; l++)
        x[l] = (uint16_t)(x[l] < 256 ? x[l] << 8 : x[l]);
    for (uint32_t l = 0; l < LANES; l += 8)
        filled |= (uint32_t)((psti_load_u64(empty + l) * 0x0102040810204080) >> 56) << l;
    for (filled &= lanes; filled != 0; filled &= filled - 1)
        x[__builtin_ctz(filled)] |= *words++;
    return words;
}

static inline uint16_t look_up(const struct psti_pli_wave_tables *tables, uint8_t e, uint8_t slot,
                               uint8_t *activity)
{
    uint32_t at = (uint32_t)tables->context_at[e] + slot;
    *activity = tables->slots_8.activity[at];
    return tables->slots_8.freq_bias[at];
}

/* What is looked up for eight lanes goes straight into a vector: one read from where it was written
 * a moment ago lane by lane would wait until all of it had left the processor's queue of writes. */
typedef uint16_t eight_lanes __attribute__((vector_size(16)));

static inline void decode_eight(const struct psti_pli_wave_tables *tables, const uint8_t *e,
                                uint16_t *x, uint8_t *activities)
{
#define LOOK_UP(i) look_up(tables, e[i], (uint8_t)x[i], activities + (i))
    eight_lanes found = {LOOK_UP(0), LOOK_UP(1), LOOK_UP(2), LOOK_UP(3),
                         LOOK_UP(4), LOOK_UP(5), LOOK_UP(6), LOOK_UP(7)};
#undef LOOK_UP
    eight_lanes states;
    memcpy(&states, x, sizeof states);
    states = (found >> 8) * (states >> 8) + (found & 255);
    memcpy(x, &states, sizeof states);
}

/* The same of 8 bits, whose tokens, of pairs, are activities: look-ups, then all states go on
 * alike.
 */
static const uint8_t *decode_step_8(const struct wave *w, const struct psti_pli_wave_tables *tables,
                                    uint32_t t, uint16_t *x, const uint8_t *words)
{
    uint8_t *activities = w->tokens[t] + TOKEN_PREFIX;
    uint32_t active = active_lanes(w, t);
    _Alignas(16) uint8_t energies[LANES];
    all_energies(w, t, energies);
    if (active == UINT32_MAX) {
        for (uint32_t l = 0; l < LANES; l += 8)
            decode_eight(tables, energies + l, x + l, activities + l);
        return fill_states(x, UINT32_MAX, words);
    }
    memset(activities, 0, LANES);
    for (uint32_t left = active; left != 0; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left);
        uint16_t found = look_up(tables, energies[l], (uint8_t)x[l], activities + l);
        x[l] = (uint16_t)((found >> 8) * (x[l] >> 8) + (found & 255));
    }
    return fill_states(x, active, words);
}

/* Shows lanes 30 and 31 to lanes 0 and 1, unless those begin another plane. */
static void close_step(const struct wave *w, uint32_t t)
{
    uint8_t *tokens = w->tokens[t] + TOKEN_PREFIX;
    uint32_t last = w->head->bands_per_plane - 1;
    tokens[-1] = (band_at(w, t - 31 * w->lag) & last) == last ? 0 : tokens[31];
    tokens[-2] = (band_at(w, t - 30 * w->lag) & last) == last ? 0 : tokens[30];
}

static enum pst_status decode_tokens(struct wave *w, const struct psti_pli_wave_tables *tables,
                                     struct psti_pli_wave_head *head, struct pst_error *err)
{
    /* From the last words on that a step may take, words come from here, with zeros behind. */
    uint8_t tail[2 * (2 * LANES)] = {0};
    const uint32_t bits = w->unit->bits;
    const uint8_t *words = head->words, *end = words + bits / 8 * head->n_words;
    _Alignas(16) uint16_t x[LANES]; /* of 8 bits */
    bool in_tail = false;
    for (uint32_t l = 0; l < LANES; l++)
        x[l] = (uint16_t)head->states[l];
    for (uint32_t t = 0; t < head->n_token_steps; t++) {
        if (end - words < 2 * LANES) {
            if (words > end)
                break;
            if (!in_tail) {
                memcpy(tail, words, (size_t)(end - words));
                end = tail + (end - words);
                words = tail;
                in_tail = true;
            }
        }
        if (t % band_steps(w) == 0)
            open_band(w, band_at(w, t));
        words = bits == 8 ? decode_step_8(w, tables, t, x, words)
                          : decode_step_16(w, tables, t, head->states, words);
        close_step(w, t);
    }
    for (uint32_t l = 0; l < LANES && bits == 8; l++)
        head->states[l] = x[l];
    bool ends = words == end;
    for (uint32_t l = 0; l < LANES; l++)
        ends = ends && head->states[l] >> bits == 1;
    if (!ends)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit's words do not end its states");
    return PST_OK;
}

/* -- Signs and raw bits -- */

static void open_bits(struct bit_source *b, const struct psti_pli_wave_head *head, uint32_t bits)
{
    size_t n = head->raw_nbytes < BITS_MARGIN ? head->raw_nbytes : BITS_MARGIN;
    b->bytes = head->raw;
    b->nbytes = head->raw_nbytes;
    b->n_bits = 8 * ((uint64_t)head->raw_nbytes + psti_pli_wave_state_nbytes(bits));
    b->tail_begin = head->raw_nbytes - n;
    memset(b->tail, 0, sizeof b->tail);
    memcpy(b->tail, head->raw + b->tail_begin, n);
    for (uint32_t l = 0; l < LANES; l++)
        if (bits == 8)
            b->tail[n + l] = (uint8_t)head->states[l];
        else
            psti_store_u16(b->tail + n + 2 * (size_t)l, (uint16_t)head->states[l]);
}

/* At least 57 bits from bit `at`; zeros behind the end. */
static inline uint64_t load_bits(const struct bit_source *b, uint64_t at)
{
    size_t byte = (size_t)(at >> 3);
    if (byte + 8 <= b->nbytes)
        return psti_load_u64(b->bytes + byte) >> (at & 7);
    size_t in_tail = byte - b->tail_begin;
    if (in_tail > TAIL_NBYTES - 8)
        return 0;
    return psti_load_u64(b->tail + in_tail) >> (at & 7);
}

/* -- Residuals of 16 bits -- */

/* How many of 32 tokens are not 0. */
static uint32_t count_signs(const uint8_t *tokens)
{
    uint64_t sum = 0;
    for (uint32_t l = 0; l < LANES; l += 8)
        sum += ((psti_load_u64(tokens + l) + 0x7f7f7f7f7f7f7f7f) >> 7) & 0x0101010101010101;
    return (uint32_t)((sum * 0x0101010101010101) >> 56);
}

/* The magnitude that a large token and its raw bits stand for. */
static inline uint32_t take_magnitude(struct bit_source *b, uint32_t token)
{
    uint32_t n = psti_pli_wave_raw_bits(token);
    uint64_t bits = load_bits(b, b->raw) & ((1u << n) - 1);
    b->raw += n;
    return (uint32_t)(psti_pli_wave_base(token) + bits);
}

/* Large tokens become magnitudes. */
static void add_raw_bits(struct bit_source *b, int16_t *tokens)
{
    for (uint32_t l = 0; l < LANES; l++)
        if (tokens[l] >= PSTI_PLI_DIRECT)
            tokens[l] = (int16_t)(uint16_t)take_magnitude(b, (uint32_t)tokens[l]);
}

/* Tokens of step t become residuals: four lanes of 16 bits at once. */
static inline void find_residuals(struct wave *w, uint32_t t)
{
    int16_t *m = w->residuals + (size_t)t * LANES;
    for (uint32_t l = 0; l < LANES; l++)
        m[l] = w->tokens[t][TOKEN_PREFIX + l];
    uint64_t signs = load_bits(&w->bits, w->bits.signs), large = 0;
    uint64_t begin = w->bits.signs, negative[LANES / 4];
    for (uint32_t i = 0; i < LANES / 4; i++) {
        uint64_t four = psti_load_u64(m + 4 * (size_t)i);
        uint64_t some = ((four + 0x7fff7fff7fff7fff) >> 15) & ONES_16;
        uint64_t n = (some * ONES_16) >> 48;
        /* One bit a lane to the lowest four. */
        uint64_t which = (some * 0x0001000200040008) >> 48;
        negative[i] = w->spread[which & 15][signs & 15];
        large |= four + (0x8000 - PSTI_PLI_DIRECT) * ONES_16;
        signs >>= n;
        begin += n;
    }
    w->bits.signs = begin;
    if (large & (0x8000 * ONES_16))
        add_raw_bits(&w->bits, m);
    for (uint32_t i = 0; i < LANES / 4; i++) {
        uint64_t four = psti_load_u64(m + 4 * (size_t)i);
        /* -v is ~v + 1; a lane without magnitude has no sign, so no carry leaves a lane. */
        four = (four ^ negative[i]) + (negative[i] & ONES_16);
        psti_store_u64(m + 4 * (size_t)i, four);
    }
}

/* spread[which][signs]: in the lanes of `which`, in ascending order, all bits or none, as the next
 * of `signs` says. */
static void find_spread(struct wave *w)
{
    for (uint32_t which = 0; which < 16; which++)
        for (uint32_t signs = 0; signs < 16; signs++) {
            uint64_t mask = 0;
            uint32_t left = signs;
            for (uint32_t l = 0; l < 4; l++)
                if (which >> l & 1) {
                    mask |= (left & 1) * (0xffffull << (16 * l));
                    left >>= 1;
                }
            w->spread[which][signs] = mask;
        }
}

static void find_residuals_16(struct wave *w)
{
    for (uint32_t t = 0; t < w->head->n_steps; t++)
        w->bits.raw += count_signs(w->tokens[t] + TOKEN_PREFIX);
    find_spread(w);
    for (uint32_t t = 0; t < w->head->n_steps; t++)
        find_residuals(w, t);
}

/* -- Residuals of 8 bits -- */

/* Pairs of four activities by the lowest of `bits`; returns how many of these. */
static inline uint32_t find_four(const struct psti_pli_wave_values_8 *v, uint64_t bits,
                                 const uint8_t *g, uint16_t *pairs)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t n = v->n_bits[g[i]];
        pairs[i] = v->pairs[g[i]][bits & v->masks[g[i]]];
        bits >>= n;
        sum += n;
    }
    return sum;
}

/* Lanes of four whose tokens have a second part, a bit each. */
static inline uint32_t square_lanes(uint32_t four)
{
    uint32_t large = (four + (0x80 - PSTI_PLI_WAVE_SQUARE_ACTIVITY) * 0x01010101u) & 0x80808080u;
    return ((large >> 7) * 0x01020408u) >> 24;
}

/* Byte by byte. */
static inline uint16_t add_pairs(uint32_t a, uint32_t b)
{
    return (uint16_t)(((a + b) & 0xff) | ((a & 0xff00) + (b & 0xff00)));
}

/* Reads the second parts of a step from bit `at` on; returns where they end. */
static uint64_t find_squares(const struct psti_pli_wave_values_8 *v, const struct bit_source *b,
                             uint64_t at, const uint8_t *g, uint32_t lanes, uint16_t *pairs)
{
    for (; lanes != 0; lanes &= lanes - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(lanes), first = pairs[l];
        uint32_t token = psti_pli_wave_tokens_of[g[l] & 15], n = psti_pli_wave_second_bits[token];
        uint32_t second = (uint32_t)load_bits(b, at) & ((1u << n) - 1);
        at += n;
        if (token == PSTI_PLI_WAVE_ANY_PAIR)
            pairs[l] = (uint16_t)(first | second << 8);
        else
            pairs[l] = add_pairs(v->squares[token - PSTI_PLI_WAVE_FIRST_SQUARE][first],
                                 v->sides[first & 3][second]);
    }
    return at;
}

static void split(const uint16_t *restrict pairs, uint8_t *restrict x, uint8_t *restrict y)
{
    for (uint32_t l = 0; l < LANES; l++) {
        x[l] = (uint8_t)pairs[l];
        y[l] = (uint8_t)(pairs[l] >> 8);
    }
}

/* Activities of all steps become residuals modulo 256, two rows for each. */
static void find_residuals_8(struct wave *w, const struct psti_pli_wave_values_8 *values)
{
    const struct bit_source b = w->bits;
    uint64_t at = 0;
    uintptr_t next = (uintptr_t)w->unit->bytes + w->unit->nbytes;
    for (uint32_t t = 0; t < w->head->n_token_steps; t++) {
        psti_pli_wave_ask(&w->unit, 1, next, 2 * t);
        const uint8_t *g = w->tokens[t] + TOKEN_PREFIX;
        _Alignas(16) uint16_t pairs[LANES] = {0};
        uint32_t squares = 0;
        for (uint32_t l = 0; l < LANES; l += 4) {
            uint32_t four = psti_load_u32(g + l);
            if (four == 0)
                continue;
            squares |= square_lanes(four) << l;
            at += find_four(values, load_bits(&b, at), g + l, pairs + l);
        }
        at = find_squares(values, &b, at, g, squares, pairs);
        split(pairs, w->residuals_8[2 * t], w->residuals_8[2 * t + 1]);
    }
    w->bits.raw = at;
}

/* -- The unit -- */

/* Of 16 bits. */
static void fill_constants(const struct psti_pli_wave_head *head, uint16_t *samples)
{
    for (uint32_t i = 0; i < head->n_constant; i++) {
        uint16_t *plane = samples + head->constant_planes[i] * (size_t)PLANE_SAMPLES;
        for (size_t k = 0; k < PLANE_SAMPLES; k++)
            plane[k] = head->constants[i];
    }
}

/* Of 8 bits lane l is at column 0 of a band 2 * l steps after lane 0. */
static void show_planes(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                        const struct memory *memory, struct psti_pli_planes *planes)
{
    if (unit->bits == 8)
        *planes = (struct psti_pli_planes){.base = memory->lines_8,
                                           .plane_step = EDGE * head->bands_per_plane,
                                           .band_step = EDGE,
                                           .row_step = LINE + 2};
    else
        *planes = (struct psti_pli_planes){.base = (const uint8_t *)memory->samples,
                                           .plane_step = 2 * PLANE_SAMPLES,
                                           .band_step = 2 * LANES * EDGE,
                                           .row_step = 2 * EDGE};
}

static enum pst_status decode_planes(struct wave *w, struct memory *memory,
                                     const struct psti_pli_wave_tables *tables,
                                     struct psti_pli_wave_head *head, struct pst_error *err)
{
    find_lanes(w);
    memset(w->tokens - TOKEN_HISTORY, 0, TOKEN_HISTORY * TOKEN_STRIDE);
    enum pst_status status = decode_tokens(w, tables, head, err);
    if (status != PST_OK)
        return status;
    open_bits(&w->bits, head, w->unit->bits);
    if (w->unit->bits == 8) {
        find_residuals_8(w, &tables->values_8);
        psti_pli_wave_steps_8(w->unit, w->head, memory->residuals_8, memory->lines_8);
    } else {
        find_residuals_16(w);
        psti_pli_wave_steps(w->unit, w->head, w->residuals, memory->samples);
    }
    if (w->bits.raw > w->bits.n_bits)
        return psti_fail(err, PST_ERROR_CORRUPT, ROOM, "wave unit lacks raw bits");
    return PST_OK;
}

enum pst_status psti_pli_wave_decode_c(const struct psti_pli_unit *unit,
                                       struct psti_pli_wave_head *head,
                                       struct psti_pli_wave_tables *tables, void *work,
                                       struct psti_pli_planes *planes, struct pst_error *err)
{
    struct memory *memory = work;
    struct wave w = {
        .unit = unit,
        .head = head,
        .tokens = memory->tokens + TOKEN_HISTORY,
        .residuals = memory->residuals[0],
        .residuals_8 = memory->residuals_8,
        .lag = unit->bits == 8 ? 1 : 2,
    };
    if (head->n_coded > 0) {
        psti_pli_wave_need_contexts(tables);
        enum pst_status status = decode_planes(&w, memory, tables, head, err);
        if (status != PST_OK)
            return status;
    }
    if (unit->bits == 8)
        psti_pli_wave_place_planes(head, memory->lines_8, LINE + 2);
    else
        fill_constants(head, memory->samples);
    show_planes(unit, head, memory, planes);
    return PST_OK;
}
