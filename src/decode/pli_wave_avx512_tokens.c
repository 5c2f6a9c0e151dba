/* pli_wave_avx512_tokens.c - the token loop of the wave decoder with AVX-512 VBMI.
 *
 * In: one to four parsed units and their tables; out: rows of activities. Pure functions, any
 * thread.
 *
 * All is bytes, and a vector holds those of two units. Tokens are searched for among the bounds of
 * their contexts, in three steps that halve: permutations of registers look all bounds up, and what
 * they leave is an index of context and token, which looks up all else. What bounds a pair of units
 * alone is a step's chain (slots -> three comparisons -> frequencies -> states -> which lanes take
 * words -> slots), so that two pairs take turns. Words are expanded straight into the lanes whose
 * states fell short. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include <string.h>

/* What goes from step to step, of two units. */
struct pair {
    __m512i hi, lo;                             /* halves of the states */
    __m512i g1, g2;                             /* activities of the last step, of the one before */
    __m512i turned1, turned2, turned3, turned4; /* of the last steps, in the lane below */
    __m512i context;                            /* of the next step */
    __m512i widths;
    struct words {
        const uint8_t *at, *end; /* end + 1: there were too few */
    } words[WAVE_UNITS];
    uint8_t (*rows)[WAVE_ROW];
};

/* What the steps of a band have in common; masks are of all lanes or none but for those of rows.
 * [0] is of the band that begins, [1] of the one that ends, if nothing else is said. */
struct shape {
    bool whole;          /* all lanes are active */
    uint64_t firsts[2];  /* E is that of a first plane: 2A + B */
    uint64_t halves[2];  /* a half of the plane before adds to E */
    uint64_t doubles[2]; /* twice the plane before does */
    uint64_t rows[2];    /* have rows */
    uint64_t below[2];   /* all but lane 0 where the band is its plane's first, or all: of
                            the band that begins and the one that follows */
};

struct stream {
    struct pair pairs[WAVE_JOBS];
    uint32_t delay;     /* rows between a plane and the next */
    __m512i contexts;   /* by min(E, 32 + E / 16) */
    __m512i lane_above; /* lane l is turned to l + 1 */
    __m512i minus_2l;   /* of lane l */
    /* Where tokens 2, 4, 6 begin, less 1, by context; then tokens 1, 3, 5, 7, by index: the context
     * + 16 for each pair of tokens below; then all else, with 64 for a pair's second token. */
    __m512i pairs_at[3], odd_at;
    __m512i freqs[2], starts[2], activities[2];
};

/* -- Contexts -- */

/* Where a step is, and lanes at the edges. */
struct step {
    uint32_t t;
    uint64_t front;    /* lanes in band t >> 6 */
    __mmask64 newest;  /* all but the lane at column 0, in odd steps 1 */
    __mmask64 next;    /* all but the lane that comes to column 0 next */
    __mmask64 below;   /* of lane 0 now, */
    __mmask64 below_2; /* and two steps later */
};

INLINE struct step step_at(const struct shape *shape, uint32_t t)
{
    return (struct step){.t = t,
                         .front = wave512_front(t),
                         .newest = ~wave512_newest(t),
                         .next = ~wave512_newest(t + 2),
                         .below = shape->below[0],
                         .below_2 = shape->below[(t & 62) == 62]};
}

INLINE __mmask64 of_bands(const uint64_t lanes[2], uint64_t front)
{
    return (lanes[0] & front) | (lanes[1] & ~front);
}

/* What E is of: a first plane's A and B; A, B and half of the plane before, or twice it; or not the
 * same in all lanes. */
enum energy { FIRST, HALF, DOUBLE, MIXED };

/* min(E, 255) of all lanes of both units: activities are at most 29, so that only the last addition
 * need saturate. `b` has what is there of the last step but one. */
INLINE __m512i join(const struct stream *s, const struct pair *x, const struct shape *shape,
                    struct step at, enum energy energy, __m512i a, __m512i b)
{
    const __m512i zero = _mm512_setzero_si512();
    if (energy == FIRST)
        return _mm512_adds_epu8(_mm512_add_epi8(a, b), a);
    __m512i g = row_load(x->rows[at.t < s->delay ? 0 : at.t - s->delay]); /* a plane before */
    if (energy == HALF)
        b = _mm512_add_epi8(b, _mm512_avg_epu8(g, zero));
    if (energy == DOUBLE)
        b = _mm512_add_epi8(b, _mm512_add_epi8(g, g));
    if (energy != MIXED)
        return _mm512_adds_epu8(_mm512_add_epi8(a, b), _mm512_avg_epu8(a, zero));
    __mmask64 halves = of_bands(shape->halves, at.front);
    __mmask64 doubles = of_bands(shape->doubles, at.front);
    b = _mm512_mask_add_epi8(b, halves, b, _mm512_avg_epu8(g, zero));
    b = _mm512_mask_add_epi8(b, doubles, b, _mm512_add_epi8(g, g));
    __m512i a_firsts = _mm512_maskz_mov_epi8(of_bands(shape->firsts, at.front), a);
    return _mm512_adds_epu8(_mm512_add_epi8(a, b), _mm512_avg_epu8(a, a_firsts));
}

/* What the last step brought comes last. Neighbours outside are left out of the sums: above, they
 * were when they were turned to their lanes. */
INLINE __m512i energies(const struct stream *s, const struct shape *shape, const struct pair *x,
                        struct step at, bool odd, enum energy energy)
{
    __m512i a = _mm512_maskz_permutexvar_epi8(at.below, s->lane_above, x->turned4);
    a = _mm512_add_epi8(a, x->turned2);
    __m512i b;
    if (odd) {
        b = _mm512_mask_add_epi8(x->turned3, at.newest, x->turned3, x->g2);
        a = _mm512_add_epi8(a, x->g1);
        a = _mm512_mask_add_epi8(a, at.next, a, x->turned1);
    } else {
        b = _mm512_maskz_add_epi8(at.newest, x->turned3, x->g2);
        a = _mm512_mask_add_epi8(a, at.newest, a, x->g1);
        a = _mm512_add_epi8(a, x->turned1);
    }
    return join(s, x, shape, at, energy, a, b);
}

INLINE __m512i contexts(const struct stream *s, __m512i e)
{
    const __m512i to_the_right = _mm512_set1_epi64(0x1020408000000000); /* by 4 bits */
    __m512i q = _mm512_gf2p8affine_epi64_epi8(e, to_the_right, 32);
    return _mm512_permutexvar_epi8(_mm512_min_epu8(e, q), s->contexts);
}

/* Lanes that have a sample. */
INLINE __mmask64 active_lanes(const struct stream *s, const struct shape *shape,
                              const struct pair *p, struct step at)
{
    __m512i x = _mm512_add_epi8(_mm512_set1_epi8((char)at.t), s->minus_2l);
    x = _mm512_and_si512(x, _mm512_set1_epi8(63));
    __mmask64 columns = _mm512_cmplt_epu8_mask(x, p->widths);
    return columns & of_bands(shape->rows, at.front);
}

/* -- Tokens -- */

/* A step of a pair has two parts: the search, a long chain of few instructions, and all else. While
 * one pair searches, the other finishes its step: their instructions are made to take turns, as the
 * processor's queues are too short to find that by themselves. */
#if defined(PST_SIMDE)
#define IN_TURN
#else
#define IN_TURN __asm__ volatile("")
#endif

struct found {
    __m512i index; /* context and token: see struct stream */
    __mmask64 above[3];
    __m512i g, f, bias;
};

INLINE void compare(const struct stream *s, const struct pair *x, struct found *y)
{
    y->index = x->context;
    for (uint32_t i = 0; i < 3; i++)
        y->above[i] =
            _mm512_cmpgt_epu8_mask(x->lo, _mm512_shuffle_epi8(s->pairs_at[i], x->context));
}
INLINE void find_pair(struct found *y)
{
    for (uint32_t i = 0; i < 3; i++)
        y->index = _mm512_mask_add_epi8(y->index, y->above[i], y->index, _mm512_set1_epi8(16));
}
INLINE void find_token(const struct stream *s, const struct pair *x, struct found *y)
{
    __m512i bound = _mm512_permutexvar_epi8(y->index, s->odd_at);
    __mmask64 above = _mm512_cmpgt_epu8_mask(x->lo, bound);
    y->index = _mm512_mask_add_epi8(y->index, above, y->index, _mm512_set1_epi8(64));
}
INLINE void look_up(const struct stream *s, struct found *y)
{
    y->g = _mm512_permutex2var_epi8(s->activities[0], y->index, s->activities[1]);
    y->f = _mm512_permutex2var_epi8(s->freqs[0], y->index, s->freqs[1]);
    y->bias = _mm512_permutex2var_epi8(s->starts[0], y->index, s->starts[1]);
}

/* x := frequency * (x >> 8) + bias: products of even lanes and of odd ones, each in 16 bits. */
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
INLINE void add_bias(const struct pair *x, const struct found *y, struct product *z)
{
    const __m512i even = _mm512_set1_epi16(255);
    __m512i bias = _mm512_sub_epi8(x->lo, y->bias);
    z->evens = _mm512_add_epi16(z->evens, _mm512_and_si512(even, bias));
    z->odds = _mm512_add_epi16(z->odds, _mm512_srli_epi16(bias, 8));
    z->hi = choose_bits(even, _mm512_srli_epi16(z->evens, 8), z->odds);
    z->lo = choose_bits(even, z->evens, _mm512_slli_epi16(z->odds, 8));
    z->empty = _mm512_testn_epi8_mask(z->hi, z->hi);
}

INLINE __m256i take_unit(struct words *words, uint32_t empty)
{
    __m256i next = _mm256_loadu_si256((const __m256i *)(const void *)words->at);
    words->at += _mm_popcnt_u32(empty);
    return _mm256_maskz_expand_epi8(empty, next);
}
/* The next words of each unit go to lanes whose states are less than 256. */
INLINE void fill(struct pair *x, struct product *z, __mmask64 active, bool whole, uint32_t n_units)
{
    __mmask64 empty = whole ? z->empty : z->empty & active;
    __m512i words = _mm512_castsi256_si512(take_unit(x->words, (uint32_t)empty));
    if (n_units > 1)
        words = _mm512_inserti64x4(words, take_unit(x->words + 1, (uint32_t)(empty >> 32)), 1);
    __m512i hi = whole ? z->hi : _mm512_mask_mov_epi8(x->hi, active, z->hi);
    __m512i lo = whole ? z->lo : _mm512_mask_mov_epi8(x->lo, active, z->lo);
    x->hi = _mm512_mask_mov_epi8(hi, empty, z->lo);
    x->lo = _mm512_mask_mov_epi8(lo, empty, words);
}

/* -- Steps -- */

INLINE void keep(const struct stream *s, struct pair *x, __m512i g, struct step at)
{
    x->turned4 = x->turned3;
    x->turned3 = x->turned2;
    x->turned2 = x->turned1;
    x->g2 = x->g1;
    x->g1 = g;
    x->turned1 = _mm512_maskz_permutexvar_epi8(at.below_2, s->lane_above, g);
    row_store(x->rows[at.t], g);
}

INLINE void hold(struct pair *x, uint32_t n_units)
{
    for (uint32_t u = 0; u < n_units; u++)
        if (x->words[u].at > x->words[u].end)
            x->words[u].at = x->words[u].end + 1;
}

/* Apart from what rows may overwrite, so that loops hold them in registers. */
INLINE struct stream constants_of(const struct stream *s)
{
    struct stream c;
    c.delay = s->delay;
    c.contexts = s->contexts;
    c.lane_above = s->lane_above;
    c.minus_2l = s->minus_2l;
    for (uint32_t i = 0; i < 3; i++)
        c.pairs_at[i] = s->pairs_at[i];
    c.odd_at = s->odd_at;
    for (uint32_t i = 0; i < 2; i++) {
        c.freqs[i] = s->freqs[i];
        c.starts[i] = s->starts[i];
        c.activities[i] = s->activities[i];
    }
    return c;
}

/* What the loops of a band are made for. */
struct kind {
    uint32_t n_units;
    bool whole;
    enum energy energy;
};

/* Pair x searches for the tokens of a step, into *y. If there is a pair z, it finishes step `at`,
 * of which it has found *found, and has the contexts of the step after it. */
INLINE void search_and_finish(const struct stream *s, const struct shape *shape,
                              const struct kind *k, const struct pair *x, struct found *y,
                              struct pair *z, const struct found *found, uint32_t n_units,
                              struct step at, struct step next, bool odd)
{
    struct product product;
    __mmask64 active = UINT64_MAX;
    __m512i e;
    if (x) {
        compare(s, x, y);
    }
    IN_TURN;
    if (z) {
        __m512i g = found->g;
        if (!k->whole)
            active = active_lanes(s, shape, z, at);
        if (n_units == 1)
            active &= WAVE_FIRST_UNIT;
        if (!k->whole || n_units == 1)
            g = _mm512_maskz_mov_epi8(active, g);
        multiply(z, found, &product);
        keep(s, z, g, at);
    }
    IN_TURN;
    if (x) {
        find_pair(y);
    }
    IN_TURN;
    if (z) {
        add_bias(z, found, &product);
        e = energies(s, shape, z, next, odd, k->energy);
    }
    IN_TURN;
    if (x)
        find_token(s, x, y);
    IN_TURN;
    if (z) {
        fill(z, &product, active, k->whole && n_units > 1, n_units);
        z->context = contexts(s, e);
    }
    IN_TURN;
    if (x) {
        look_up(s, y);
    }
    IN_TURN;
}

/* Steps of one band. The search of the first pair is a step ahead at the end: the next band begins
 * with it anew, as contexts may have another formula there. */
INLINE void run_band(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end,
                     const struct kind k)
{
    const uint32_t n = (k.n_units + 1) / WAVE_UNITS;
    const uint32_t n_a = n > 1 ? 2 : k.n_units, n_b = k.n_units - n_a;
    const struct stream c = constants_of(s);
    struct pair a = s->pairs[0], b;
    struct found in_a, in_b;
    struct step even = step_at(shape, t), odd = even;
    a.context = contexts(&c, energies(&c, shape, &a, even, false, k.energy));
    if (n > 1) {
        b = s->pairs[1];
        b.context = contexts(&c, energies(&c, shape, &b, even, false, k.energy));
        search_and_finish(&c, shape, &k, &a, &in_a, NULL, NULL, 0, even, odd, false);
    }
    while (even.t < end) {
        odd = even;
        odd.t++;
        struct step next = step_at(shape, even.t + 2);
        if (n > 1) {
            search_and_finish(&c, shape, &k, &b, &in_b, &a, &in_a, n_a, even, odd, true);
            search_and_finish(&c, shape, &k, &a, &in_a, &b, &in_b, n_b, even, odd, true);
            search_and_finish(&c, shape, &k, &b, &in_b, &a, &in_a, n_a, odd, next, false);
            search_and_finish(&c, shape, &k, &a, &in_a, &b, &in_b, n_b, odd, next, false);
            hold(&b, n_b);
        } else {
            search_and_finish(&c, shape, &k, &a, &in_a, NULL, NULL, 0, even, odd, false);
            search_and_finish(&c, shape, &k, NULL, NULL, &a, &in_a, n_a, even, odd, true);
            search_and_finish(&c, shape, &k, &a, &in_a, NULL, NULL, 0, even, odd, false);
            search_and_finish(&c, shape, &k, NULL, NULL, &a, &in_a, n_a, odd, next, false);
        }
        hold(&a, n_a); /* two steps take 64 words of each at most */
        even = next;
    }
    s->pairs[0] = a;
    if (n > 1)
        s->pairs[1] = b;
}

#define BAND(name, n_units, whole, energy)                                                         \
    TARGET static void name(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end) \
    {                                                                                              \
        run_band(s, shape, t, end, (struct kind){n_units, whole, energy});                         \
    }
BAND(one_whole, 1, true, MIXED)
BAND(one_any, 1, false, MIXED)
BAND(three_any, 3, false, MIXED)
#define BANDS(name, n_units)                                                                       \
    BAND(name##_first, n_units, true, FIRST)                                                       \
    BAND(name##_half, n_units, true, HALF)                                                         \
    BAND(name##_double, n_units, true, DOUBLE)                                                     \
    BAND(name##_mixed, n_units, true, MIXED)                                                       \
    BAND(name##_any_first, n_units, false, FIRST)                                                  \
    BAND(name##_any_double, n_units, false, DOUBLE)                                                \
    BAND(name##_any, n_units, false, MIXED)
BANDS(two, 2)
BANDS(four, 4)

typedef void band_loop(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end);

static band_loop *loop_for(const struct shape *shape, uint32_t n_units)
{
    bool first = (shape->firsts[0] & shape->firsts[1]) != 0;
    bool half = (shape->halves[0] & shape->halves[1]) != 0;
    bool twice = (shape->doubles[0] & shape->doubles[1]) != 0;
    bool four = n_units == 4;
    if (n_units == 1)
        return shape->whole ? one_whole : one_any;
    if (n_units == 3)
        return three_any;
    if (!shape->whole) { /* most often the first band of a unit, and its last */
        if (first)
            return four ? four_any_first : two_any_first;
        if (twice)
            return four ? four_any_double : two_any_double;
        return four ? four_any : two_any;
    }
    if (first)
        return four ? four_first : two_first;
    if (half)
        return four ? four_half : two_half;
    if (twice)
        return four ? four_double : two_double;
    return four ? four_mixed : two_mixed;
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
    if (plane->energy == PSTI_PLI_ENERGY_FIRST)
        shape->firsts[which] = UINT64_MAX;
    if (plane->energy == PSTI_PLI_ENERGY_SECOND && plane->index0 >= 0)
        shape->halves[which] = UINT64_MAX;
    if (plane->energy == PSTI_PLI_ENERGY_THIRD && plane->index1 >= 0)
        shape->doubles[which] = UINT64_MAX;
}

static bool are_wide(const struct psti_pli_wave512_job *jobs, uint32_t n_jobs)
{
    bool all = true;
    for (uint32_t j = 0; j < n_jobs; j++)
        all = all && jobs[j].units[0]->width == 64 && jobs[j].units[1]->width == 64;
    return all;
}

/* What steps [64 k, 64 k + 64) have in common. */
static struct shape shape_of(const struct psti_pli_wave512_job *job, uint32_t n_jobs, uint32_t k)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    struct shape shape = {.below = {bytes_below(head, k), bytes_below(head, k + 1)}};
    add_band(&shape, job, 0, k);
    if (k > 0)
        add_band(&shape, job, 1, k - 1);
    /* Lanes in no band are idle: they may have any E. */
    uint32_t there = k < head->n_bands ? 0 : 1, other = 1 - there;
    if (k == 0 || there == 1) {
        shape.firsts[other] = shape.firsts[there];
        shape.halves[other] = shape.halves[there];
        shape.doubles[other] = shape.doubles[there];
    }
    shape.whole = are_wide(job, n_jobs) && (shape.rows[0] & shape.rows[1]) == UINT64_MAX;
    return shape;
}

TARGET static void open_pair(struct pair *x, const struct psti_pli_wave512_job *job)
{
    uint8_t hi[WAVE_ROW] = {0}, lo[WAVE_ROW] = {0}, widths[WAVE_ROW];
    memset(x, 0, sizeof *x);
    x->rows = job->memory->rows;
    for (uint32_t u = 0; u < job->n_units; u++) {
        const struct psti_pli_wave_head *head = job->heads[u];
        uint8_t *words = job->memory->words[u];
        /* More than all tokens can take are as bad as one. */
        size_t n_words = head->n_words < WAVE_MAX_WORDS ? head->n_words : WAVE_MAX_WORDS;
        memcpy(words, head->words, n_words);
        memset(words + n_words, 0, WAVE_BEHIND);
        x->words[u] = (struct words){words, words + n_words};
        for (uint32_t l = 0; l < WAVE_LANES; l++) {
            hi[WAVE_LANES * u + l] = (uint8_t)(head->states[l] >> 8);
            lo[WAVE_LANES * u + l] = (uint8_t)head->states[l];
        }
    }
    for (uint32_t u = 0; u < WAVE_UNITS; u++)
        memset(widths + WAVE_LANES * u, job->units[u]->width, WAVE_LANES);
    x->hi = row_load(hi);
    x->lo = row_load(lo);
    x->widths = row_load(widths);
}

TARGET static __m512i same_16(const uint8_t *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)bytes));
}

TARGET static void open_tables(struct stream *s, struct psti_pli_wave_tables *tables)
{
    const struct psti_pli_wave_indexed *indexed = psti_pli_wave_need_indexed(tables);
    const uint8_t(*bounds)[PSTI_PLI_N_CONTEXTS] = tables->bounds.of;
    s->contexts = row_load(indexed->contexts);
    s->pairs_at[0] = same_16(bounds[1]);
    s->pairs_at[1] = same_16(bounds[0]);
    s->pairs_at[2] = same_16(bounds[2]);
    s->odd_at = _mm512_shuffle_i32x4(row_load(bounds[3]), row_load(bounds[3]), 0xD8);
    for (uint32_t i = 0; i < 2; i++) {
        s->freqs[i] = row_load(indexed->freqs + 64 * i);
        s->starts[i] = row_load(indexed->starts + 64 * i);
        s->activities[i] = row_load(indexed->activities + 64 * i);
    }
}

TARGET static void open_stream(struct stream *s, const struct psti_pli_wave512_job *job,
                               uint32_t n_jobs)
{
    uint8_t above[64], minus_2l[64];
    for (uint32_t i = 0; i < 64; i++) {
        above[i] = (uint8_t)((i & 32) | ((i - 1) & 31));
        minus_2l[i] = (uint8_t)(0 - 2 * (i & 31));
    }
    s->lane_above = row_load(above);
    s->minus_2l = row_load(minus_2l);
    s->delay = 64 * job->heads[0]->bands_per_plane;
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
    uint32_t n_units = n_jobs == 1 ? jobs->n_units : jobs[0].n_units + jobs[1].n_units;
    open_stream(&s, jobs, n_jobs);
    for (uint32_t t = 0, n_steps = jobs->heads[0]->n_steps; t < n_steps; t += 64) {
        uint32_t end = t + 64 < n_steps ? t + 64 : n_steps;
        struct shape shape = shape_of(jobs, n_jobs, t >> 6);
        loop_for(&shape, n_units)(&s, &shape, t, end);
    }
    for (uint32_t j = 0; j < n_jobs; j++)
        close_pair(s.pairs + j, jobs + j);
}
#endif
