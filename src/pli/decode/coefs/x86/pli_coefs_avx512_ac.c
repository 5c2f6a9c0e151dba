/* pli_coefs_avx512_ac.c - AC tokens of a unit of coefficients, or of two units, with AVX-512
 * (docs/format-pli.md, 8.4).
 *
 * It takes words, states and the list of a unit, and makes planes of tokens. `sides` holds the ends
 * in the order of the list. The functions are pure; any thread may call them. Contexts depend only
 * on earlier planes, so they are found for 64 lanes at once, while the states are busy. The bounds
 * of all 32 contexts are in registers, so that distances make no difference to a step. A step of 32
 * lanes is a chain of dependent instructions: slot -> bounds below it -> frequency -> state ->
 * which lanes take words -> slot. So two units take turns, step by step, or group by group where
 * one of them is at the end of a plane. docs/internals/cpu-decode.md has measurements. */
#include "pli/decode/coefs/x86/pli_coefs_avx512.h"

#if defined(__x86_64__)
#include <string.h>

enum { GROUP = PSTI_COEFS_SQUARE, LANES = PSTI_COEFS_LANES };

/* The input of the contexts of a plane, by side, and the addresses of its tokens and of their g. */
struct plane {
    const uint8_t *g[PSTI_JPEG_N_FEATURES];
    __m512i weights[3][2], bias[2], k;
    uint8_t *tokens, *weighed;
};

/* Masks of the lanes of side 1 in a group: `low` for the lanes that unpacking puts into the lower
 * halves of 128-bit parts, `high` for the others. */
struct sides {
    uint32_t low, high;
};

/* A unit that is being read. Its next group is at list position `base` of plane k. After the last
 * group of all, `base` is not below n. */
struct loop {
    struct plane plane;
    struct psti_coefs_avx512_states states;
    struct sides sides[PSTI_JPEG_SQUARES_MAX];
    const uint8_t *words;
    struct psti_coefs_unit *unit;
    uint32_t k, last, base, n; /* n: end of the plane */
    struct loop *other;        /* the loop whose group comes after this one's */
};

/* Tables of the image, for all units. */
struct shared {
    __m512i bounds[COEFS_512_AC_BOUNDS], buckets[2], rows;
    __m512i weigh; /* the g of each token */
};

static const uint8_t *g_of(const struct psti_coefs_unit *unit, uint32_t k)
{
    return (const uint8_t *)(unit->planes + k * unit->out->stride);
}

PSTI_ICL_INLINE void open_plane(const struct psti_coefs_unit *unit, uint32_t k, struct plane *plane)
{
#pragma GCC unroll 6
    for (uint32_t i = 0; i < PSTI_JPEG_N_FEATURES; i++)
        plane->g[i] = g_of(unit, psti_jpeg_features[k][i]);
#pragma GCC unroll 2
    for (uint32_t side = 0; side < 2; side++) {
#pragma GCC unroll 3
        for (uint32_t i = 0; i < 3; i++)
            plane->weights[i][side] = _mm512_set1_epi16(
                (short)psti_load_u16((const uint8_t *)psti_jpeg_weights[side][k] + 2 * (size_t)i));
        plane->bias[side] = _mm512_set1_epi16((short)(psti_jpeg_biases[side][k] - 128));
    }
    plane->k = _mm512_set1_epi8((char)k);
    plane->tokens = unit->tokens + k * unit->out->stride;
    plane->weighed = (uint8_t *)(unit->planes + k * unit->out->stride);
}

/* Finds the lanes of side 1. Squares of side 1 come after those of side 0. */
PSTI_ICL_INLINE void find_sides(const struct psti_coefs_unit *unit, struct sides *sides)
{
    const struct psti_pli_coefs *out = unit->out;
    uint32_t first = 0;
    while (first < out->n_squares && !out->squares[first].side)
        first++;
    const __m512i before = _mm512_set1_epi16((short)((int)(first * PSTI_COEFS_SQUARE) - 1));
    for (uint32_t i = 0; i < out->n; i += GROUP) {
        uint64_t low = _mm512_cmpgt_epi16_mask(load(unit->order + i), before);
        uint64_t high = _mm512_cmpgt_epi16_mask(load(unit->order + i + LANES), before);
        sides[i / GROUP] =
            (struct sides){(uint32_t)_pext_u64(low | high << 32, 0x00ff00ff00ff00ff),
                           (uint32_t)_pext_u64(low | high << 32, 0xff00ff00ff00ff00)};
    }
}

/* -- Contexts -- */

PSTI_ICL_INLINE __m512i of_side(const __m512i of[2], uint32_t lanes)
{
    return _mm512_mask_mov_epi16(of[0], lanes, of[1]);
}

/* Returns the contexts of 64 lanes. */
PSTI_ICL_INLINE __m512i find_contexts(const struct shared *t, const struct loop *l)
{
    const struct plane *p = &l->plane;
    const uint32_t base = l->base;
    struct sides side = l->sides[base / GROUP];
    __m512i a = of_side(p->bias, side.low), b = of_side(p->bias, side.high);
#pragma GCC unroll 3
    for (uint32_t i = 0; i < 3; i++) {
        __m512i g = load(p->g[2 * i] + base), h = load(p->g[2 * i + 1] + base);
        a = _mm512_add_epi16(
            a, _mm512_maddubs_epi16(_mm512_unpacklo_epi8(g, h), of_side(p->weights[i], side.low)));
        b = _mm512_add_epi16(
            b, _mm512_maddubs_epi16(_mm512_unpackhi_epi8(g, h), of_side(p->weights[i], side.high)));
    }
    /* The sums are twice the size less 128, so the highest bit of the size is inverted. The look-up
     * uses 7 bits. */
    __m512i x = _mm512_srli_epi16(_mm512_packs_epi16(a, b), 1);
    __m512i bucket = _mm512_permutex2var_epi8(t->buckets[0], x, t->buckets[1]);
    __m512i far = _mm512_sub_epi8(load(l->unit->sides + base), p->k);
    return _mm512_or_si512(bucket, _mm512_permutexvar_epi8(far, t->rows));
}

/* -- Steps -- */

#define FOUR_TWICE(i) (i), (i), (i) + 1, (i) + 1, (i) + 2, (i) + 2, (i) + 3, (i) + 3
#define LANES_TWICE(i)                                                                             \
    FOUR_TWICE(i), FOUR_TWICE((i) + 4), FOUR_TWICE((i) + 8), FOUR_TWICE((i) + 12),                 \
        FOUR_TWICE((i) + 16), FOUR_TWICE((i) + 20), FOUR_TWICE((i) + 24), FOUR_TWICE((i) + 28)
static const _Alignas(64) uint8_t twice[2][64] = {{LANES_TWICE(0)}, {LANES_TWICE(32)}};

/* Returns the indices of the bytes of the bounds for 32 of 64 contexts, each context twice. */
PSTI_ICL_INLINE __m512i half_of(__m512i contexts, const uint8_t which[64])
{
    return _mm512_or_si512(_mm512_permutexvar_epi8(load(which), contexts),
                           _mm512_set1_epi16(0x100));
}

/* Decodes the tokens of 32 lanes. `contexts` are in the form that half_of() returns. With `tail`,
 * lanes in `idle` keep their states. */
PSTI_ICL_INLINE __m256i step(const struct shared *t, struct loop *l, __m512i contexts,
                             uint32_t idle, bool tail)
{
    const __m512i all = _mm512_set1_epi16(PSTI_JPEG_PROB_SUM);
    if (__builtin_expect(l->words > l->unit->words.limit, 0))
        l->words = more_words(l->unit, l->words);
    __m512i slot = slots_of(l->states), b[8];
#pragma GCC unroll 7
    for (int i = 1; i < 8; i++)
        b[i] = apart(_mm512_permutexvar_epi8(contexts, t->bounds[i - 1]));
    struct psti_coefs_avx512_found f = search(slot, b, _mm512_setzero_si512(), all);
    __m512i freq = _mm512_sub_epi16(f.end, f.begin), bias = _mm512_sub_epi16(slot, f.begin);
    if (tail) {
        freq = choose(idle, freq, all);
        bias = choose(idle, bias, slot);
    }
    l->words = advance(&l->states, freq, bias, l->words);
    return add_number(_mm256_setzero_si256(), &f);
}

PSTI_ICL_INLINE void store_tokens(const struct shared *t, const struct loop *l, __m256i low,
                                  __m256i high, uint64_t lanes, bool tail)
{
    __m512i token = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    if (tail)
        token = _mm512_maskz_mov_epi8(lanes, token);
    store(l->plane.tokens + l->base, token);
    store(l->plane.weighed + l->base, _mm512_shuffle_epi8(t->weigh, token));
}

PSTI_ICL_INLINE void begin_plane(struct loop *l, uint32_t k)
{
    l->k = k;
    l->base = 0;
    l->n = l->unit->out->n_k[k];
    open_plane(l->unit, k, &l->plane);
    psti_pli_coefs_ask(l->unit, k);
}

PSTI_ICL_INLINE void end_group(struct loop *l)
{
    l->base += GROUP;
    if (l->base >= l->n && l->k < l->last)
        begin_plane(l, l->k + 1);
}

/* Returns whether all 64 lanes of the next group have tokens. */
PSTI_ICL_INLINE bool is_full(const struct loop *l) { return l->base + GROUP <= l->n; }

/* Decodes the tokens of a unit's next group, in two steps. */
PSTI_ICL_INLINE void next_group(const struct shared *t, struct loop *l)
{
    __m512i contexts = find_contexts(t, l);
    if (is_full(l)) {
        __m256i a = step(t, l, half_of(contexts, twice[0]), 0, false);
        __m256i b = step(t, l, half_of(contexts, twice[1]), 0, false);
        store_tokens(t, l, a, b, 0, false);
    } else {
        uint32_t left = l->n - l->base;
        uint64_t lanes = (UINT64_C(1) << left) - 1;
        __m256i b = _mm256_setzero_si256();
        __m256i a = step(t, l, half_of(contexts, twice[0]), ~(uint32_t)lanes, true);
        if (left > LANES)
            b = step(t, l, half_of(contexts, twice[1]), ~(uint32_t)(lanes >> 32), true);
        store_tokens(t, l, a, b, lanes, true);
    }
    end_group(l);
}

/* Decodes the tokens of the next groups of two units, which are full, step by step in turn. */
PSTI_ICL_INLINE void next_groups(const struct shared *t, struct loop *l, struct loop *m)
{
    __m512i contexts_l = find_contexts(t, l), contexts_m = find_contexts(t, m);
    __m256i a_l = step(t, l, half_of(contexts_l, twice[0]), 0, false);
    __m256i a_m = step(t, m, half_of(contexts_m, twice[0]), 0, false);
    __m256i b_l = step(t, l, half_of(contexts_l, twice[1]), 0, false);
    __m256i b_m = step(t, m, half_of(contexts_m, twice[1]), 0, false);
    store_tokens(t, l, a_l, b_l, 0, false);
    store_tokens(t, m, a_m, b_m, 0, false);
    end_group(l);
    end_group(m);
}

PSTI_ICL_INLINE void open_loop(struct loop *l, struct psti_coefs_unit *unit, uint32_t first,
                               uint32_t last)
{
    l->unit = unit;
    l->words = unit->words.at;
    l->states = load_states(unit);
    l->last = last;
    l->other = l;
    find_sides(unit, l->sides);
    if (first == 1)
        memset(unit->planes, 0, psti_round_up(unit->out->n, GROUP));
    begin_plane(l, first);
}

PSTI_ICL_INLINE void close_loop(const struct loop *l)
{
    l->unit->words.at = l->words;
    store_states(l->unit, l->states);
}

/* Reads groups of the loops in turn until all of their planes are read. */
PSTI_ICL_TARGET static void run_loops(const struct psti_coefs_avx512_tables *tables, struct loop *l)
{
    struct shared t;
#pragma GCC unroll 7
    for (int i = 0; i < COEFS_512_AC_BOUNDS; i++)
        t.bounds[i] = load(tables->ac[i]);
    t.buckets[0] = load(tables->buckets);
    t.buckets[1] = load(tables->buckets + 64);
    t.rows = load(tables->rows);
    t.weigh = _mm512_set1_epi64((long long)psti_load_u64(psti_jpeg_ac_weight));
    for (;;) {
        struct loop *other = l->other;
        if (l->base >= l->n) { /* all planes are read */
            close_loop(l);
            if (other == l)
                return;
            other->other = other;
        } else if (other != l && is_full(l) && is_full(other)) {
            next_groups(&t, l, other);
            continue;
        } else {
            next_group(&t, l);
        }
        l = other;
    }
}

PSTI_ICL_TARGET void psti_pli_coefs_avx512_read_ac(struct psti_coefs_unit *unit, uint32_t first,
                                                   uint32_t last)
{
    struct loop l;
    open_loop(&l, unit, first, last);
    run_loops(coefs_tables(unit), &l);
}

PSTI_ICL_TARGET void psti_pli_coefs_avx512_read_two(struct psti_coefs_unit *const units[2],
                                                    const uint32_t last[2])
{
    struct loop l[2];
    for (uint32_t i = 0; i < 2; i++)
        open_loop(&l[i], units[i], 1, last[i]);
    l[0].other = &l[1];
    l[1].other = &l[0];
    run_loops(coefs_tables(units[0]), l);
}
#endif
