/* pli_wave_avx512_tokens.c - the token loop of the wave decoder with AVX-512.
 *
 * It decodes one to six parsed units, with their tables, to rows of activities. The functions
 * are pure; any thread may call them.
 *
 * All values are bytes, and a vector holds those of two units. Tokens are searched for among the
 * bounds of their contexts, which permutations of registers look up. The bounds around the token
 * give its frequency. Words are expanded straight into the lanes whose states fell below 256.
 *
 * A step is a chain (slots -> comparisons -> frequencies -> states -> which lanes take words ->
 * slots). The latency of this chain is longer than the time to issue its instructions, so pairs of
 * units take turns. Four comparisons find a token, one bit each. This way takes the fewest
 * instructions, and with three pairs the number of instructions limits the speed. */
#include "pli/decode/wave/x86/pli_wave_avx512.h"

#if defined(__x86_64__)
#include <string.h>

enum { BAND = PSTI_PLI_WAVE_PAIRS /* number of steps of a band */ };

/* The states of two units, which are passed from step to step. */
struct pair {
    __m512i hi, lo;  /* halves of the states */
    __m512i context; /* context of the next step */
    /* Parts of the energy of the step after the next one: gUU + extra, and gUL (docs/format-pli.md,
     * 5.6). */
    __m512i sum, up_left;
    __m512i widths; /* number of pairs of samples in a row, by lane */
    struct words {
        /* The next word, and the end of the words. `at` is end + 1 if there were too few words. */
        const uint8_t *at, *end;
    } words[WAVE_UNITS];
    uint8_t (*rows)[2 * WAVE_ROW]; /* rows of activities, each in the first half of its row of
                                    * memory */
    /* The rows of the plane before: the same memory as `rows`, or a single row of zeros that is
     * used for all rows. */
    const uint8_t (*before)[2 * WAVE_ROW];
};

/* Values that the steps of a band share. Masks of units have all lanes or none. In arrays of two,
 * [0] is for the band that begins and [1] for the band that ends. */
struct shape {
    bool wide;          /* true if all lanes have pairs in all columns */
    bool whole;         /* true if all lanes are active */
    uint64_t firsts[2]; /* mask of the units whose extra term of energy is gLL, not g1 */
    uint64_t rows[2];   /* mask of the lanes that are in rows of a plane */
    /* Lanes that have a row above, and that have two rows above. [0] holds for the step after one
     * of the first 30 steps, [1] after the last but one, [2] after the last. */
    uint64_t up[3], up_up[3];
    uint64_t up_up_before; /* mask of the lanes that have two rows above in the first step */
};

struct stream {
    struct pair pairs[WAVE_JOBS];
    /* Distance in rows of memory from a row of a plane to the same row of the next plane;
     * UINT32_MAX if no other plane is read. */
    uint32_t delay;
    __m512i contexts;                /* the context of energy E is at index min(E, 32 + E / 16) */
    __m512i lane_above;              /* permutation that moves the value of lane l to lane l + 1 */
    __m512i lane_above_2;            /* permutation that moves the value of lane l to lane l + 2 */
    __m512i minus_l;                 /* the value -l in lane l */
    __m512i swap;                    /* permutation that swaps the bytes of 16 bits */
    __m512i halves[3], around[3][2]; /* tables of struct psti_pli_wave_indexed */
    __m512i activities_turned;       /* activities of tokens, whose bits are in reverse order in the
                                      * index */
};

/* -- Contexts -- */

/* The number of a step, and masks of lanes at the edges. */
struct step {
    uint32_t t;
    uint64_t front;        /* mask of the lanes in band t / BAND */
    const uint8_t *newest; /* 255 for all lanes except the lane at pair 0 */
    const uint8_t *oldest; /* 255 for all lanes except the lane at pair 31 */
    __mmask64 next_up;     /* mask of the lanes that have a row above in the next step */
    __mmask64 next_up_up;  /* mask of the lanes that have two rows above in the next step, or in the
                            * step after it */
};

INLINE struct step step_at(const struct shape *shape, uint32_t t)
{
    uint32_t at = t & (BAND - 1);
    uint64_t newest = WAVE_BOTH(1) << at;
    uint32_t last = at < BAND - 2 ? 0 : at - (BAND - 3);
    return (struct step){.t = t,
                         .front = newest | (newest - WAVE_BOTH(1)),
                         .newest = wave512_all_but(at),
                         .oldest = wave512_all_but((t + 1) & (BAND - 1)),
                         .next_up = shape->up[last],
                         .next_up_up = shape->up_up[last]};
}

INLINE __mmask64 of_bands(const uint64_t lanes[2], uint64_t front)
{
    return (lanes[0] & front) | (lanes[1] & ~front);
}

/* The extra term of energy: gLL in all lanes, g1 in all lanes, or one of them by lane. */
enum energy { FIRST, SECOND, MIXED };

/* The activities of a step, moved by one lane (up) or by two lanes (up_up). */
struct turned {
    __m512i up, up_up;
};

INLINE struct turned turn_down(const struct stream *s, __m512i g, __mmask64 up, __mmask64 up_up)
{
    return (struct turned){_mm512_maskz_permutexvar_epi8(up, s->lane_above, g),
                           _mm512_maskz_permutexvar_epi8(up_up, s->lane_above_2, g)};
}

/* Stores the terms that activities add to the energy of step `at`, two steps later. `left` are the
 * activities of the step between, in lanes that had a right neighbour then. */
INLINE void join(const struct stream *s, struct pair *x, const struct shape *shape,
                 const struct turned *turned, __m512i left, struct step at, enum energy energy)
{
    __m512i z = _mm512_and_si512(left, row_load(at.newest));
    if (energy != FIRST) {
        __m512i second = row_load(x->before[at.t < s->delay ? 0 : at.t - s->delay]);
        __mmask64 firsts = of_bands(shape->firsts, at.front);
        z = energy == SECOND ? second : _mm512_mask_mov_epi8(second, firsts, z);
    }
    x->sum = _mm512_add_epi8(turned->up_up, z);
    x->up_left = _mm512_and_si512(turned->up, row_load(at.newest));
}

/* Returns the energies of all lanes of both units in step `at`. `g` are the activities of the step
 * before. They are at most 46, so only the last addition needs to saturate. Neighbours outside
 * the unit do not count. Neighbours above were masked out when they were moved to their lanes.
 */
INLINE __m512i energies(const struct stream *s, const struct shape *shape, struct pair *x,
                        __m512i g, const struct turned *turned, struct step at, struct step next,
                        enum energy energy)
{
    __m512i left = _mm512_and_si512(g, row_load(at.newest));
    __m512i side = _mm512_add_epi8(turned->up, left);
    __m512i up_up_right = _mm512_and_si512(turned->up_up, row_load(at.oldest));
    __m512i rest = _mm512_add_epi8(x->sum, _mm512_avg_epu8(x->up_left, up_up_right));
    join(s, x, shape, turned, left, next, energy);
    return _mm512_adds_epu8(_mm512_add_epi8(side, side), rest);
}

/* Returns the matrix by which GF2P8AFFINEQB shifts bytes right by 4 bits. */
INLINE __m512i to_the_right(void) { return _mm512_set1_epi64(0x1020408000000000); }

INLINE __m512i contexts(const struct stream *s, __m512i e)
{
    __m512i q = _mm512_gf2p8affine_epi64_epi8(e, to_the_right(), 32);
    return _mm512_permutexvar_epi8(_mm512_min_epu8(e, q), s->contexts);
}

/* Returns the mask of lanes that have a pair. */
INLINE __mmask64 active_lanes(const struct stream *s, const struct shape *shape,
                              const struct pair *p, struct step at)
{
    __mmask64 in_rows = of_bands(shape->rows, at.front);
    if (shape->wide)
        return in_rows;
    __m512i x = _mm512_add_epi8(_mm512_set1_epi8((char)at.t), s->minus_l);
    x = _mm512_and_si512(x, _mm512_set1_epi8(BAND - 1));
    return in_rows & _mm512_cmplt_epu8_mask(x, p->widths);
}

/* -- Tokens -- */

/* A step of a pair of units has two parts: the search, which is a long chain of few instructions,
 * and all the rest. While one pair finishes its step, two other pairs search. IN_TURN keeps their
 * instructions interleaved, because the processor's queues are too short to reorder them so far. */
#if defined(PST_SIMDE)
#define IN_TURN
#else
#define IN_TURN __asm__ volatile("")
#endif

struct found {
    /* The context and the known bits of the token, as struct psti_pli_wave_indexed joins them. */
    __m512i index;
    __m512i begins[3];
    __mmask64 above;
    __m512i g, f, below; /* activity and frequency of the token; start of the token's slots, less
                          * 1 */
};

/* Each comparison finds one bit of the token, highest bit first. */
INLINE void compare_half(const struct stream *s, const struct pair *x, struct found *y, uint32_t i)
{
    __m512i index = i == 0 ? x->context : y->index;
    __m512i begins = _mm512_permutexvar_epi8(index, s->halves[i]);
    y->above = _mm512_cmpgt_epu8_mask(x->lo, begins);
}
INLINE void take_half(const struct pair *x, struct found *y, uint32_t i)
{
    __m512i index = i == 0 ? x->context : y->index;
    __m512i bit = _mm512_set1_epi8((char)(16 << i));
    y->index = _mm512_mask_add_epi8(index, y->above, index, bit);
}
INLINE void look_around(const struct stream *s, const struct pair *x, struct found *y)
{
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 3; i++)
        y->begins[i] = _mm512_permutex2var_epi8(s->around[i][0], y->index, s->around[i][1]);
    y->above = _mm512_cmpgt_epu8_mask(x->lo, y->begins[1]);
}
INLINE void take_last(const struct stream *s, const struct pair *x, struct found *y)
{
    __m512i end = _mm512_mask_mov_epi8(y->begins[1], y->above, y->begins[2]);
    y->below = _mm512_mask_mov_epi8(y->begins[0], y->above, y->begins[1]);
    y->f = _mm512_sub_epi8(end, y->below);
    take_half(x, y, 3);
    __m512i turned = _mm512_gf2p8affine_epi64_epi8(y->index, to_the_right(), 0);
    y->g = _mm512_shuffle_epi8(s->activities_turned, turned);
}

/* Computes x := frequency * (x >> 8) + bias by products of even lanes and of odd ones, each in 16
 * bits. */
#define EVENS 0x5555555555555555ull
struct product {
    __m512i evens, odds;
    __m512i hi, lo;
    __mmask64 empty;
};
INLINE void multiply(const struct pair *x, const struct found *y, struct product *z)
{
    const __m512i even = _mm512_set1_epi16(255);
    z->evens = _mm512_mullo_epi16(_mm512_and_si512(even, y->f), _mm512_and_si512(even, x->hi));
    z->odds = _mm512_mulhi_epu16(_mm512_andnot_si512(even, y->f), _mm512_andnot_si512(even, x->hi));
}
INLINE void add_bias(const struct stream *s, const struct pair *x, const struct found *y,
                     struct product *z)
{
    const __m512i even = _mm512_set1_epi16(255);
    __m512i bias = _mm512_sub_epi8(_mm512_sub_epi8(x->lo, _mm512_set1_epi8(1)), y->below);
    z->evens = _mm512_add_epi16(z->evens, _mm512_and_si512(even, bias));
    z->odds = _mm512_add_epi16(z->odds, _mm512_srli_epi16(bias, 8));
    z->hi = _mm512_mask_shuffle_epi8(z->odds, EVENS, z->evens, s->swap);
    z->lo = _mm512_mask_shuffle_epi8(z->evens, ~EVENS, z->odds, s->swap);
    z->empty = _mm512_testn_epi8_mask(z->hi, z->hi);
}

INLINE __m512i both_units(__m256i first, __m256i second)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
INLINE __m256i take_unit(struct words *words, uint32_t empty)
{
    __m256i next = _mm256_loadu_si256((const __m256i *)(const void *)words->at);
    words->at += _mm_popcnt_u32(empty);
    return psti_avx512_expand_32_bytes(empty, next);
}
/* Gives the next words of each unit to the lanes whose states are less than 256. */
INLINE void fill(struct pair *x, struct product *z, __mmask64 active, bool whole)
{
    __mmask64 empty = whole ? z->empty : z->empty & active;
    __m256i first = take_unit(x->words, (uint32_t)empty);
    __m512i words = both_units(first, take_unit(x->words + 1, (uint32_t)(empty >> 32)));
    __m512i hi = whole ? z->hi : _mm512_mask_mov_epi8(x->hi, active, z->hi);
    __m512i lo = whole ? z->lo : _mm512_mask_mov_epi8(x->lo, active, z->lo);
    x->hi = _mm512_mask_mov_epi8(hi, empty, z->lo);
    x->lo = _mm512_mask_mov_epi8(lo, empty, words);
}

/* -- Steps -- */

INLINE void hold(struct pair *x)
{
    for (uint32_t u = 0; u < WAVE_UNITS; u++)
        if (x->words[u].at > x->words[u].end)
            x->words[u].at = x->words[u].end + 1;
}

/* Returns a copy of the constants. Stores to rows cannot change a local copy, so loops keep it in
 * registers. */
INLINE struct stream constants_of(const struct stream *s)
{
    struct stream c;
    c.delay = s->delay;
    c.contexts = s->contexts;
    c.lane_above = s->lane_above;
    c.lane_above_2 = s->lane_above_2;
    c.minus_l = s->minus_l;
    c.swap = s->swap;
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 3; i++) {
        c.halves[i] = s->halves[i];
        c.around[i][0] = s->around[i][0];
        c.around[i][1] = s->around[i][1];
    }
    c.activities_turned = s->activities_turned;
    return c;
}

/* The properties of a band for which its loops are compiled. */
struct kind {
    uint32_t n_pairs;
    bool whole;
    enum energy energy;
};

/* A step that has been decoded, and the two steps after it. */
struct steps {
    struct step at, next, after;
};

/* The step that a pair of units must finish. Its tokens are already found. */
struct rest {
    struct pair *x;
    const struct found *found;
    /* Intermediate results that one part of the step passes to the next part. */
    struct product product;
    struct turned turned;
    __mmask64 active;
    __m512i g, e;
};

INLINE void finish_1(const struct stream *s, const struct shape *shape, const struct kind *k,
                     struct rest *r, const struct steps *p)
{
    r->g = r->found->g;
    r->active = k->whole ? UINT64_MAX : active_lanes(s, shape, r->x, p->at);
    if (!k->whole)
        r->g = _mm512_maskz_mov_epi8(r->active, r->g);
    multiply(r->x, r->found, &r->product);
}
INLINE void finish_2(const struct stream *s, const struct shape *shape, const struct kind *k,
                     struct rest *r, const struct steps *p)
{
    add_bias(s, r->x, r->found, &r->product);
    row_store(r->x->rows[p->at.t], r->g);
    r->turned = turn_down(s, r->g, p->at.next_up, p->at.next_up_up);
    r->e = energies(s, shape, r->x, r->g, &r->turned, p->next, p->after, k->energy);
}
/* Ends the step. Afterwards the pair has the contexts of the next step. */
INLINE void finish_3(const struct stream *s, const struct kind *k, struct rest *r)
{
    fill(r->x, &r->product, r->active, k->whole);
    r->x->context = contexts(s, r->e);
}

/* Does a third of a step for up to three pairs: pair i finishes its step, the next pair searches
 * for the second half of its tokens' bits, and the pair after that for the first half. With
 * `opens` a band begins, and no step must be finished; in the first turn of a band, number 1, no
 * search is half done. All of this is in one function, because the compiler then orders
 * instructions better. */
INLINE void take_turn(const struct stream *s, const struct shape *shape, const struct kind *k,
                      struct pair *x, struct found *in, uint32_t i, bool opens,
                      const struct steps *p)
{
    const uint32_t first = (i + 2) % 3, second = (i + 1) % 3;
    const bool has_first = first < k->n_pairs;
    const bool has_second = second < k->n_pairs && !(opens && i == 1);
    const bool finishes = i < k->n_pairs && !opens;
    struct rest r = {.x = x + i, .found = in + i};
    if (has_first)
        compare_half(s, x + first, in + first, 0);
    if (has_second)
        compare_half(s, x + second, in + second, 2);
    if (finishes)
        finish_1(s, shape, k, &r, p);
    if (has_first) {
        take_half(x + first, in + first, 0);
        compare_half(s, x + first, in + first, 1);
    }
    if (has_second) {
        take_half(x + second, in + second, 2);
        look_around(s, x + second, in + second);
    }
    if (finishes)
        finish_2(s, shape, k, &r, p);
    if (has_first)
        take_half(x + first, in + first, 1);
    if (has_second)
        take_last(s, x + second, in + second);
    if (finishes)
        finish_3(s, k, &r);
    IN_TURN;
}

/* Finds the contexts of a band's first step. */
INLINE void begin_pair(const struct stream *s, const struct shape *shape, struct pair *x,
                       uint32_t t, enum energy energy)
{
    __m512i g1 = t == 0 ? _mm512_setzero_si512() : row_load(x->rows[t - 1]);
    __m512i g2 = t == 0 ? _mm512_setzero_si512() : row_load(x->rows[t - 2]);
    struct step at = step_at(shape, t), before = step_at(shape, t - 1);
    struct turned turned = turn_down(s, g2, UINT64_MAX, shape->up_up_before);
    join(s, x, shape, &turned, _mm512_and_si512(g2, row_load(before.newest)), at, energy);
    turned = turn_down(s, g1, shape->up[0], shape->up_up[0]);
    __m512i e = energies(s, shape, x, g1, &turned, at, step_at(shape, t + 1), energy);
    x->context = contexts(s, e);
}

/* Does the steps of one band. At the end the searches of the first pairs are one step ahead. The
 * next band repeats these searches, because its contexts may have another formula. */
INLINE void run_band(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end,
                     const struct kind k)
{
    const uint32_t n = k.n_pairs;
    const struct stream c = constants_of(s);
    struct steps p = {step_at(shape, t), step_at(shape, t + 1), {0}};
    struct pair x[WAVE_JOBS];
    struct found in[WAVE_JOBS];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n; i++) {
        x[i] = s->pairs[i];
        begin_pair(&c, shape, x + i, t, k.energy);
    }
    if (n > 1) {
        take_turn(&c, shape, &k, x, in, 1, true, &p);
        take_turn(&c, shape, &k, x, in, 2, true, &p);
    }
    while (p.at.t < end) {
        p.after = step_at(shape, p.at.t + 2);
        if (n > 1)
            take_turn(&c, shape, &k, x, in, 0, false, &p);
        take_turn(&c, shape, &k, x, in, 1, false, &p);
        take_turn(&c, shape, &k, x, in, 2, false, &p);
        if (n == 1) /* true for a single pair, which does not search ahead */
            take_turn(&c, shape, &k, x, in, 0, false, &p);
#pragma GCC unroll 4
        for (uint32_t i = n; i-- > 0;) /* a step takes at most 32 words of each unit */
            hold(x + i);
        p.at = p.next;
        p.next = p.after;
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < n; i++)
        s->pairs[i] = x[i];
}

#define RUN(name, n_pairs, whole, energy)                                                          \
    TARGET static void name(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end) \
    {                                                                                              \
        run_band(s, shape, t, end, (struct kind){n_pairs, whole, energy});                         \
    }
#define RUNS(name, n_pairs)                                                                        \
    RUN(name##_first, n_pairs, true, FIRST)                                                        \
    RUN(name##_second, n_pairs, true, SECOND)                                                      \
    RUN(name##_mixed, n_pairs, true, MIXED)                                                        \
    RUN(name##_any_first, n_pairs, false, FIRST)                                                   \
    RUN(name##_any_second, n_pairs, false, SECOND)                                                 \
    RUN(name##_any, n_pairs, false, MIXED)
RUNS(one, 1)
RUNS(two, 2)
RUNS(three, 3)

typedef void band_loop(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end);

static band_loop *loop_for(const struct shape *shape, uint32_t n_pairs)
{
    static band_loop *const loops[WAVE_JOBS][2][3] = {
        {{one_any_first, one_any_second, one_any}, {one_first, one_second, one_mixed}},
        {{two_any_first, two_any_second, two_any}, {two_first, two_second, two_mixed}},
        {{three_any_first, three_any_second, three_any}, {three_first, three_second, three_mixed}}};
    bool first = (shape->firsts[0] & shape->firsts[1]) != 0;
    bool second = (shape->firsts[0] | shape->firsts[1]) == 0;
    /* A band in which not all lanes are active is mostly the first of a unit, or after its last. */
    return loops[n_pairs - 1][shape->whole][first ? 0 : second ? 1 : 2];
}

/* -- Streams -- */

static uint64_t bytes_below(const struct psti_pli_wave_head *head, uint32_t band)
{
    return band < head->n_bands && band % head->bands_per_plane == 0 ? ~WAVE_BOTH(1) : UINT64_MAX;
}

static void add_band(struct shape *shape, const struct psti_pli_wave512_job *job, uint32_t which,
                     uint32_t band)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    const struct psti_pli_wave_plane *plane = psti_pli_wave_plane_of(head, band);
    if (!plane)
        return;
    uint32_t n_rows = job->units[0]->height - WAVE_LANES * (band % head->bands_per_plane);
    shape->rows[which] = n_rows >= WAVE_LANES ? UINT64_MAX : WAVE_BOTH((1u << n_rows) - 1);
    if (plane->energy != PSTI_PLI_ENERGY_THIRD)
        shape->firsts[which] = UINT64_MAX;
}

static uint32_t n_pairs(const struct psti_pli_unit *unit) { return (unit->width + 1) / 2; }
static bool is_wide(const struct psti_pli_unit *unit) { return n_pairs(unit) == BAND; }

static bool are_wide(const struct psti_pli_wave512_job *jobs, uint32_t n_jobs)
{
    bool all = jobs[n_jobs - 1].n_units == WAVE_UNITS;
    for (uint32_t j = 0; j < n_jobs; j++)
        all = all && is_wide(jobs[j].units[0]) && is_wide(jobs[j].units[1]);
    return all;
}

/* Finds the values that steps [32 k, 32 k + 32) share. */
static struct shape shape_of(const struct psti_pli_wave512_job *job, bool wide, uint32_t k)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    struct shape shape = {.wide = wide};
    uint64_t below = bytes_below(head, k), next = bytes_below(head, k + 1);
    for (uint32_t i = 0; i < 3; i++) {
        shape.up[i] = i < 2 ? below : next;
        shape.up_up[i] = (i < 1 ? below : next) & (shape.up[i] << 1 | 1);
    }
    if (k > 0)
        shape.up_up_before = below & (bytes_below(head, k - 1) << 1 | 1);
    add_band(&shape, job, 0, k);
    if (k > 0)
        add_band(&shape, job, 1, k - 1);
    /* Lanes in no band are idle and may have any energy. */
    uint32_t there = k < head->n_bands ? 0 : 1, other = 1 - there;
    if (k == 0 || there == 1)
        shape.firsts[other] = shape.firsts[there];
    shape.whole = wide && (shape.rows[0] & shape.rows[1]) == UINT64_MAX;
    return shape;
}

/* The activities that are used for a plane that is not coded. */
static const uint8_t no_plane[1][2 * WAVE_ROW];

/* Returns whether a third plane uses g1 instead of gLL in its energy, and plane 1 is coded. */
static bool has_second_plane(const struct psti_pli_wave_head *head)
{
    bool has = false;
    for (uint32_t j = 0; j < head->n_coded; j++)
        has =
            has || (head->planes[j].energy == PSTI_PLI_ENERGY_THIRD && head->planes[j].index1 >= 0);
    return has;
}

/* Returns a unit's words. If bytes after them may be read, they are not moved; otherwise they are
 * copied, with zeros after them. */
static struct words open_words(const struct psti_pli_wave512_job *job, uint32_t u)
{
    const struct psti_pli_wave_head *head = job->heads[u];
    if (job->units[u]->nbytes_behind >= WAVE_BEHIND)
        return (struct words){head->words, head->words + head->n_words};
    uint8_t *words = job->memory->words[u];
    /* One word more than all tokens can take is as wrong as many more, so no more are copied. */
    size_t n_words = head->n_words < WAVE_MAX_WORDS ? head->n_words : WAVE_MAX_WORDS;
    memcpy(words, head->words, n_words);
    memset(words + n_words, 0, WAVE_BEHIND);
    return (struct words){words, words + n_words};
}

/* Returns a byte of each of 32 states: the bits from bit `by` on. */
INLINE __m256i state_bytes(const uint32_t *states, uint32_t by)
{
    __m512i low = _mm512_srli_epi32(row_load(states), by);
    __m512i high = _mm512_srli_epi32(row_load(states + 16), by);
    return _mm256_set_m128i(_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low));
}

/* Sets the states of two units to their start. A single unit is used for both; in the second, no
 * lane has pairs. */
TARGET static void open_pair(struct pair *x, const struct psti_pli_wave512_job *job)
{
    const uint32_t *a = job->heads[0]->states, *b = job->heads[1]->states;
    x->rows = (uint8_t(*)[2 * WAVE_ROW]) job->memory->rows;
    x->before = has_second_plane(job->heads[0]) ? (const void *)x->rows : no_plane;
    for (uint32_t u = 0; u < WAVE_UNITS; u++)
        x->words[u] = open_words(job, u);
    x->hi = both_units(state_bytes(a, 8), state_bytes(b, 8));
    x->lo = both_units(state_bytes(a, 0), state_bytes(b, 0));
    uint32_t second = job->n_units == WAVE_UNITS ? n_pairs(job->units[1]) : 0;
    x->widths =
        both_units(_mm256_set1_epi8((char)n_pairs(job->units[0])), _mm256_set1_epi8((char)second));
}

TARGET static void open_tables(struct stream *s, struct psti_pli_wave_tables *tables)
{
    const struct psti_pli_wave_indexed *indexed = psti_pli_wave_need_indexed(tables);
    s->contexts = row_load(indexed->contexts);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 3; i++) {
        s->halves[i] = row_load(indexed->halves[i]);
        s->around[i][0] = row_load(indexed->around[i]);
        s->around[i][1] = row_load(indexed->around[i] + 64);
    }
    s->activities_turned = same_16(tables->bounds.activities);
}

#define EIGHT(n) n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7
static const uint8_t numbers[WAVE_ROW] = {EIGHT(0),  EIGHT(8),  EIGHT(16), EIGHT(24),
                                          EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56)};

TARGET static void open_stream(struct stream *s, const struct psti_pli_wave512_job *job,
                               uint32_t n_jobs)
{
    const __m512i lanes = row_load(numbers), of_unit = _mm512_set1_epi8(BAND - 1);
    __m512i unit = _mm512_andnot_si512(of_unit, lanes);
    __m512i above = _mm512_sub_epi8(lanes, _mm512_set1_epi8(1));
    __m512i above_2 = _mm512_sub_epi8(lanes, _mm512_set1_epi8(2));
    s->lane_above = choose_bits(of_unit, above, unit);
    s->lane_above_2 = choose_bits(of_unit, above_2, unit);
    s->minus_l = _mm512_sub_epi8(unit, lanes);
    s->swap = _mm512_xor_si512(lanes, _mm512_set1_epi8(1));
    s->delay = has_second_plane(job->heads[0]) ? BAND * job->heads[0]->bands_per_plane : UINT32_MAX;
    open_tables(s, job->tables);
    for (uint32_t j = 0; j < n_jobs; j++)
        open_pair(s->pairs + j, job + j);
}

TARGET static void close_pair(const struct pair *x, struct psti_pli_wave512_job *job)
{
    uint64_t ones = _mm512_cmpeq_epi8_mask(x->hi, _mm512_set1_epi8(1));
    row_store(job->low, x->lo);
    for (uint32_t u = 0; u < job->n_units; u++)
        job->ends[u] =
            x->words[u].at == x->words[u].end && (uint32_t)(ones >> WAVE_LANES * u) == UINT32_MAX;
}

TARGET void psti_pli_wave512_tokens(struct psti_pli_wave512_job *jobs, uint32_t n_jobs)
{
    struct stream s;
    bool wide = are_wide(jobs, n_jobs);
    open_stream(&s, jobs, n_jobs);
    for (uint32_t k = 0, n_steps = jobs->heads[0]->n_token_steps; BAND * k < n_steps; k++) {
        uint32_t t = BAND * k, end = t + BAND < n_steps ? t + BAND : n_steps;
        struct shape shape = shape_of(jobs, wide, k);
        loop_for(&shape, n_jobs)(&s, &shape, t, end);
    }
    for (uint32_t j = 0; j < n_jobs; j++)
        close_pair(s.pairs + j, jobs + j);
}
#endif
