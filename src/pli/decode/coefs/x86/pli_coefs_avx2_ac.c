/* pli_coefs_avx2_ac.c - AC tokens of a unit of coefficients, or of two units, with AVX2
 * (docs/format-pli.md, 8.4).
 *
 * It takes words, states and the list of a unit, and makes planes of tokens. The functions are
 * pure; any thread may call them. D is the distance of 8.4. The list is sorted by ends, so D
 * depends on the place of a step in its plane. Most steps have one D in all lanes; the 16-bit
 * bounds of its 8 contexts are one register. A few steps have two D, others more. Contexts depend
 * only on earlier planes, so those of the next step are found while the states are busy. A step is
 * a chain of dependent instructions: slot -> token -> state -> which lanes take words -> slot. Two
 * things let others run meanwhile. Two units take turns, step by step. And a half of the lanes
 * takes its words at the beginning of its next step, so that one half waits for memory while the
 * other computes. */
#include "pli/decode/coefs/x86/pli_coefs_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* -- Contexts -- */

/* The input of the contexts of a plane, and the addresses of its tokens and of their g. Each 32
 * bits of weights and biases hold the values of side 0, then of side 1. */
struct plane {
    const uint8_t *g[PSTI_JPEG_N_FEATURES];
    v32 weights[3], bias;
    uint8_t *tokens, *weighed;
};

/* The states of 16 lanes. */
struct half {
    v32 high, low, empty; /* empty: -1 if the lane takes a word before its next token */
    uint32_t takers;      /* the mask `empty` as bits, made by lanes_of() */
};

/* D is the distance to the block before, in the order of the format (section on AC tokens).
 * of[0..2] are the list positions at which D becomes 2, 1 and 0; of[3] is the end of the plane. */
struct borders {
    uint32_t of[4];
};

/* A unit that is being read. Its next step is at list position `base` of plane k. After the last
 * step of all, `base` is not below the end of the plane. */
struct loop {
    struct plane plane;
    struct half a, b;
    v32 bucket; /* buckets of the next step's lanes */
    const uint8_t *words;
    const uint8_t *sides;
    struct psti_coefs_unit *unit;
    uint32_t k, last, base;
    struct borders borders;
    uint32_t run_end;            /* up to here lanes have one D, from `base` on */
    const uint8_t (*rows)[2][8]; /* the table of bounds for that D */
    struct loop *other;          /* the loop whose step comes after this one's */
};

/* Tables of the image, for all units: the level's tables for buckets, and the g (weighted
 * magnitude) of each token, by which contexts are found. */
struct shared {
    v32 buckets, limits, extra_limit, weigh;
    const struct psti_coefs_avx2_tables *tables;
};

static const uint8_t *g_of(const struct psti_coefs_unit *unit, uint32_t k)
{
    return (const uint8_t *)(unit->planes + k * unit->out->stride);
}

INLINE void open_plane(const struct psti_coefs_unit *unit, uint32_t k, struct plane *plane)
{
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        plane->g[i] = g_of(unit, psti_jpeg_features[k][i]);
    for (uint32_t i = 0; i < 3; i++)
        plane->weights[i] = _mm256_set1_epi32(
            (int)(psti_load_u16(psti_jpeg_weights[0][k] + 2 * (size_t)i) |
                  (uint32_t)psti_load_u16(psti_jpeg_weights[1][k] + 2 * (size_t)i) << 16));
    plane->bias =
        _mm256_set1_epi32((int)((uint16_t)(psti_jpeg_biases[0][k] - 128) |
                                (uint32_t)(uint16_t)(psti_jpeg_biases[1][k] - 128) << 16));
    plane->tokens = unit->tokens + k * unit->out->stride;
    plane->weighed = (uint8_t *)(unit->planes + k * unit->out->stride);
}

#define ADD_FEATURES(i)                                                                            \
    {                                                                                              \
        v32 g = load(p->g[2 * (i)] + base), h = load(p->g[2 * (i) + 1] + base);                    \
        v32 weights_a = _mm256_shuffle_epi8(p->weights[i], side_a);                                \
        v32 weights_b = _mm256_shuffle_epi8(p->weights[i], side_b);                                \
        v32 term_a = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(g, h), weights_a);                  \
        v32 term_b = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(g, h), weights_b);                  \
        a = _mm256_add_epi16(a, term_a);                                                           \
        b = _mm256_add_epi16(b, term_b);                                                           \
    }

INLINE v32 find_buckets(const struct shared *t, const struct loop *l, uint32_t base)
{
    const struct plane *p = &l->plane;
    v32 side = load(l->sides + base), side_1 = _mm256_or_si256(side, COEFS_CONSTANT(one));
    v32 side_a = _mm256_unpacklo_epi8(side, side_1), side_b = _mm256_unpackhi_epi8(side, side_1);
    v32 a = _mm256_shuffle_epi8(p->bias, side_a), b = _mm256_shuffle_epi8(p->bias, side_b);
    ADD_FEATURES(0)
    ADD_FEATURES(1)
    ADD_FEATURES(2)
    v32 x = _mm256_packs_epi16(a, b);
    v32 sixteenth = _mm256_and_si256(_mm256_srli_epi16(x, 4), COEFS_CONSTANT(low_4));
    /* -1 where a sum is above the limit of its sixteenth. */
    v32 above = _mm256_cmpgt_epi8(x, _mm256_shuffle_epi8(t->limits, sixteenth));
    above = _mm256_add_epi8(above, _mm256_cmpgt_epi8(x, t->extra_limit));
    return _mm256_sub_epi8(_mm256_shuffle_epi8(t->buckets, sixteenth), above);
}

/* -- Bounds -- */

struct bounds {
    v32 a[COEFS_AC_BOUNDS], b[COEFS_AC_BOUNDS];
};
#define EACH_BOUND(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)

/* Looks up bounds if all lanes have the same D. */
INLINE void look_up_one(const uint8_t (*rows)[2][8], v32 bucket, struct bounds *bounds)
{
    v32 high = _mm256_or_si256(bucket, COEFS_CONSTANT(bit_3));
    v32 index_a = _mm256_unpacklo_epi8(bucket, high);
    v32 index_b = _mm256_unpackhi_epi8(bucket, high);
#define LOOK_UP(i)                                                                                 \
    {                                                                                              \
        v32 row = both_halves(rows[i]);                                                            \
        bounds->a[i] = _mm256_shuffle_epi8(row, index_a);                                          \
        bounds->b[i] = _mm256_shuffle_epi8(row, index_b);                                          \
    }
    EACH_BOUND(LOOK_UP)
#undef LOOK_UP
}

/* Looks up bounds if each lane has one of two values of D. Contexts are 0..15. */
INLINE void look_up_pair(const uint8_t (*pairs)[2][16], v32 contexts, struct bounds *bounds){
#define LOOK_UP(i)                                                                                 \
    {                                                                                              \
        v32 low = _mm256_shuffle_epi8(both_halves(pairs[i][0]), contexts);                         \
        v32 high = _mm256_shuffle_epi8(both_halves(pairs[i][1]), contexts);                        \
        bounds->a[i] = _mm256_unpacklo_epi8(low, high);                                            \
        bounds->b[i] = _mm256_unpackhi_epi8(low, high);                                            \
    }
    EACH_BOUND(LOOK_UP)
#undef LOOK_UP
}

/* Looks up bounds for any D. Contexts are 0..31, those of D = 3 first. */
INLINE void look_up_any(const struct psti_coefs_avx2_tables *tables, v32 contexts,
                        struct bounds *bounds)
{
    /* The look-up gives 0 for an index that has bit 7 set. */
    const v32 bit_4 = _mm256_set1_epi8(16), above_15 = _mm256_set1_epi8(0x70);
    v32 near = _mm256_add_epi8(contexts, above_15);
    v32 far = _mm256_add_epi8(_mm256_xor_si256(contexts, bit_4), above_15);
#define PART(i, byte)                                                                              \
    _mm256_or_si256(_mm256_shuffle_epi8(both_halves(tables->pairs[0][i][byte]), near),             \
                    _mm256_shuffle_epi8(both_halves(tables->pairs[2][i][byte]), far))
#define LOOK_UP(i)                                                                                 \
    {                                                                                              \
        v32 low = PART(i, 0), high = PART(i, 1);                                                   \
        bounds->a[i] = _mm256_unpacklo_epi8(low, high);                                            \
        bounds->b[i] = _mm256_unpackhi_epi8(low, high);                                            \
    }
    EACH_BOUND(LOOK_UP)
#undef LOOK_UP
#undef PART
}

/* -- Steps -- */

enum kind { ONE_D, TWO_D, ANY_D };

/* Does a step of 16 lanes: loads their words, finds their tokens and computes their new states. */
INLINE struct psti_coefs_avx2_search half_step(struct loop *l, struct half *x, const v32 *bounds,
                                               v32 idle, bool careful)
{
    l->words = take_words(l->words, x->empty, x->takers, &x->low);
    struct psti_coefs_avx2_parts parts = split(x->high, x->low);
    struct psti_coefs_avx2_search s =
        search(parts.slot, bounds, _mm256_setzero_si256(), COEFS_CONSTANT(all_slots));
    x->empty = advance(&x->high, &x->low, parts, s.found, idle, careful);
    x->takers = lanes_of(x->empty);
    return s;
}

/* Decodes the tokens of the next step. `table` is the table of bounds for the step's kind. A bucket
 * plus `rows` is the context. The first `n` lanes decode. `tail`: it is the last step of the plane.
 */
INLINE void step(const struct shared *t, struct loop *l, enum kind kind, const void *table,
                 v32 rows, uint32_t n, bool tail)
{
    struct bounds bounds;
    if (kind == ONE_D)
        look_up_one(table, l->bucket, &bounds);
    else if (kind == TWO_D)
        look_up_pair(table, _mm256_add_epi8(rows, l->bucket), &bounds);
    else
        look_up_any(table, _mm256_add_epi8(rows, l->bucket), &bounds);
    v32 lanes = rows, idle_a = rows, idle_b = rows;
    if (tail) {
        lanes = weave(first_lanes(n));
        v32 idle = _mm256_cmpeq_epi8(lanes, _mm256_setzero_si256());
        idle_a = _mm256_unpacklo_epi8(idle, idle);
        idle_b = _mm256_unpackhi_epi8(idle, idle);
    }
    struct psti_coefs_avx2_search a = half_step(l, &l->a, bounds.a, idle_a, tail);
    struct psti_coefs_avx2_search b = half_step(l, &l->b, bounds.b, idle_b, tail);
    v32 token = _mm256_packs_epi16(a.half, b.half);
    token =
        _mm256_add_epi8(_mm256_add_epi8(token, token), _mm256_packs_epi16(a.quarter, b.quarter));
    token = _mm256_add_epi8(_mm256_add_epi8(token, token), _mm256_packs_epi16(a.eighth, b.eighth));
    token = _mm256_add_epi8(token, COEFS_CONSTANT(last_ac_token));
    if (tail)
        token = _mm256_and_si256(token, lanes);
    store(l->plane.tokens + l->base, weave(token));
    store(l->plane.weighed + l->base, _mm256_shuffle_epi8(t->weigh, token));
    l->base += PSTI_COEFS_LANES;
    if (!tail)
        l->bucket = find_buckets(t, l, l->base);
}

/* Returns how many lanes of the step at `base` lie before that list position. */
INLINE uint32_t lanes_before(uint32_t position, uint32_t base)
{
    uint32_t n = position > base ? position - base : 0;
    return n < PSTI_COEFS_LANES ? n : PSTI_COEFS_LANES;
}

/* pair_of[D of the last lane][D of the first lane] is the number of the step's pair of rows. */
static const uint8_t pair_of[4][4] = {{2, 2, 4, 5}, {0, 2, 1, 3}, {0, 0, 1, 0}, {0, 0, 0, 0}};

/* Decodes the tokens of a step whose lanes have several values of D, or which is the plane's last
 * one. */
INLINE void mixed_step(const struct shared *t, struct loop *l, bool tail)
{
    const struct borders *borders = &l->borders;
    uint32_t base = l->base;
    uint32_t n = lanes_before(borders->of[3], base), n_1 = lanes_before(borders->of[2], base);
    uint32_t n_2 = lanes_before(borders->of[1], base), n_3 = lanes_before(borders->of[0], base);
    uint32_t first = n_3 > 0 ? 3 : n_2 > 0 ? 2 : n_1 > 0 ? 1 : 0;
    uint32_t last = n_1 < n ? 0 : n_2 < n ? 1 : n_3 < n ? 2 : 3;
    uint32_t ends = first == 3 ? n_3 : first == 2 ? n_2 : n_1;
    uint32_t begins = last == 0 ? n_1 : last == 1 ? n_2 : n_3;
    const uint8_t *ramp = psti_coefs_avx2_ramp + PSTI_COEFS_LANES;
    if (first == last || ends == begins) {
        step(t, l, TWO_D, t->tables->pairs[pair_of[last][first]], weave(load(ramp - ends)), n,
             tail);
        return;
    }
    v32 rows =
        _mm256_add_epi8(_mm256_add_epi8(load(ramp - n_3), load(ramp - n_2)), load(ramp - n_1));
    step(t, l, ANY_D, t->tables, weave(rows), n, tail);
}

/* Finds up to where the lanes of the next steps have one D. */
INLINE void find_run(const struct shared *t, struct loop *l)
{
    const uint32_t *of = l->borders.of;
    uint32_t d = (l->base < of[0]) + (l->base < of[1]) + (l->base < of[2]);
    l->run_end = of[3 - d];
    l->rows = t->tables->rows[d];
}

/* Opens plane k. Its first step is the next one. */
INLINE void begin_plane(const struct shared *t, struct loop *l, uint32_t k)
{
    const uint16_t *n_k = l->unit->out->n_k;
    l->k = k;
    l->base = 0;
    l->borders = (struct borders){
        {n_k[k + 7 < 64 ? k + 7 : 64], n_k[k + 3 < 64 ? k + 3 : 64], n_k[k + 1], n_k[k]}};
    find_run(t, l);
    open_plane(l->unit, k, &l->plane);
    psti_pli_coefs_ask(l->unit, k);
    l->bucket = find_buckets(t, l, 0);
}

/* Decodes the tokens of a unit's next step. */
INLINE void next_step(const struct shared *t, struct loop *l)
{
    uint32_t end = l->base + PSTI_COEFS_LANES;
    if (__builtin_expect(l->words > l->unit->words.limit, 0))
        l->words = more_words(l->unit, l->words);
    if (end <= l->run_end) {
        step(t, l, ONE_D, l->rows, l->bucket, PSTI_COEFS_LANES, false);
        if (end < l->borders.of[3])
            return;
    } else if (end <= l->borders.of[3]) {
        mixed_step(t, l, false);
        find_run(t, l);
        if (end < l->borders.of[3])
            return;
    } else {
        mixed_step(t, l, true);
    }
    if ((end & PSTI_COEFS_LANES) != 0)
        store(l->plane.tokens + end, _mm256_setzero_si256());
    if (l->k < l->last)
        begin_plane(t, l, l->k + 1);
}

INLINE void open_loop(const struct shared *t, struct loop *l, struct psti_coefs_unit *unit,
                      uint32_t first, uint32_t last)
{
    struct psti_coefs_avx2_states states = load_states(unit);
    l->unit = unit;
    l->sides = unit->sides;
    l->words = unit->words.at;
    l->a = (struct half){states.high_a, states.low_a, _mm256_setzero_si256(), 0};
    l->b = (struct half){states.high_b, states.low_b, _mm256_setzero_si256(), 0};
    l->last = last;
    l->other = l;
    if (first == 1)
        memset(unit->planes, 0, psti_round_up(unit->out->n, PSTI_COEFS_SQUARE));
    begin_plane(t, l, first);
}

INLINE void close_loop(struct loop *l)
{
    if (l->words > l->unit->words.limit)
        l->words = more_words(l->unit, l->words);
    l->words = take_words(l->words, l->a.empty, l->a.takers, &l->a.low);
    l->unit->words.at = take_words(l->words, l->b.empty, l->b.takers, &l->b.low);
    store_states(l->unit,
                 (struct psti_coefs_avx2_states){l->a.high, l->a.low, l->b.high, l->b.low});
}

/* Takes steps of the loops in turn until all of their planes are read. The code of a step is here
 * once, because several copies would not fit the first cache. */
static void TARGET run_loops(const struct shared *t, struct loop *l)
{
    for (;;) {
        struct loop *other = l->other;
        next_step(t, l);
        if (l->base >= l->borders.of[3]) {
            close_loop(l);
            if (other == l)
                return;
            other->other = other;
        }
        l = other;
    }
}

INLINE struct shared open_shared(const struct psti_coefs_avx2_tables *tables)
{
    return (struct shared){
        .buckets = both_halves(tables->buckets),
        .limits = both_halves(tables->limits),
        .extra_limit = _mm256_set1_epi8((char)tables->extra_limit),
        .weigh = _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)psti_jpeg_ac_weight)),
        .tables = tables,
    };
}

void TARGET psti_pli_coefs_avx2_read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last)
{
    const struct shared t = open_shared(coefs_tables(unit));
    struct loop l;
    open_loop(&t, &l, unit, first, last);
    run_loops(&t, &l);
}

void TARGET psti_pli_coefs_avx2_read_two(struct psti_coefs_unit *const units[2],
                                         const uint32_t last[2])
{
    const struct shared t = open_shared(coefs_tables(units[0]));
    struct loop l[2];
    for (uint32_t i = 0; i < 2; i++)
        open_loop(&t, &l[i], units[i], 1, last[i]);
    l[0].other = &l[1];
    l[1].other = &l[0];
    run_loops(&t, l);
}
#endif
