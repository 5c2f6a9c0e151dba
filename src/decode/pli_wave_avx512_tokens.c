/* pli_wave_avx512_tokens.c - the token loop of the wave decoder with AVX-512 VBMI.
 *
 * In: one to four parsed units and their tables; out: rows of tokens. Pure functions, any thread.
 *
 * Of each unit there are words of 16 bits, one for each lane: halves of the states, entries. Tokens
 * and contexts are bytes, and a vector holds those of two units. What bounds a unit alone is a
 * step's chain (slots -> 32 look-ups -> states -> which lanes take words -> contexts -> slots): 90
 * cycles on Zen 4, of which its instructions fill a third. Two pairs of units, one working while
 * the other waits, take some 36 cycles a unit. Look-ups go through general registers and masked
 * broadcasts: the processors' gathers are microcode on Zen 4 and made slow on purpose on many of
 * Intel's (Downfall), and tables of 16 contexts are too large for permutations. Words are expanded
 * straight into the lanes whose states fell short. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include <string.h>

/* What goes from step to step: of one unit, in words, */
struct states {
    __m512i hi, lo;
    __m512i bias, high;          /* looked up */
    const uint16_t *words, *end; /* end + 1: there were too few */
};
/* and of two, in bytes: of lane l of the first in byte 2 l, of the second in byte 2 l + 1. */
struct pair {
    struct states first, second;
    __m512i g1, g2;                             /* tokens of the last step and of the one before */
    __m512i turned1, turned2, turned3, turned4; /* of the last steps, in the lane below */
    __m512i context;                            /* of the next step, times 4 */
    __m512i widths;
    uint8_t (*rows)[WAVE_ROW];
};

/* What the steps of a band have in common; masks are of all lanes or none but for those of rows.
 * [0] is of the band that begins, [1] of the one that ends, if nothing else is said. */
struct shape {
    bool whole;          /* all lanes are active, and no table has but one token */
    uint64_t firsts[2];  /* E is that of a first plane: 2A + B */
    uint64_t halves[2];  /* a half of the plane before adds to E */
    uint64_t doubles[2]; /* twice the plane before does */
    uint64_t rows[2];    /* have rows */
    uint64_t below[2];   /* all but lane 0 where the band is its plane's first, or all: of
                            the band that begins and the one that follows */
};

struct stream {
    struct pair pairs[WAVE_JOBS];
    const uint32_t *slots;
    uint32_t delay;                  /* rows between a plane and the next */
    __m512i contexts;                /* bytes: 4 times the context by min(E, 32 + E / 16) */
    __m512i lane_above;              /* bytes: lane l is turned to l + 1 */
    __m512i minus_2l;                /* bytes, of lane l */
    uint64_t field_1, field_2;       /* second and third of four words */
    uint64_t field_3;                /* by how many bits the fourth is shifted */
    __mmask8 lane_1, lane_2, lane_3; /* of four double words, twice */
    __mmask8 lanes_4;                /* the last four of eight */
};

/* -- Contexts -- */

/* Where a step is, and lanes at the edges; masks are of bytes. */
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

/* min(E, 255) of all lanes of both units: A is at most 252 and B 126, all else is added with
 * saturation. `b` has what is there of the last step but one. */
INLINE __m512i join(const struct stream *s, const struct pair *x, const struct shape *shape,
                    struct step at, enum energy energy, __m512i a, __m512i b)
{
    const __m512i zero = _mm512_setzero_si512();
    if (energy == FIRST)
        return _mm512_adds_epu8(_mm512_adds_epu8(a, b), a);
    __m512i g = row_load(x->rows[at.t < s->delay ? 0 : at.t - s->delay]); /* a plane before */
    if (energy == HALF)
        b = _mm512_adds_epu8(b, _mm512_avg_epu8(g, zero));
    if (energy == DOUBLE)
        b = _mm512_adds_epu8(b, _mm512_adds_epu8(g, g));
    if (energy != MIXED)
        return _mm512_adds_epu8(_mm512_adds_epu8(a, b), _mm512_avg_epu8(a, zero));
    __mmask64 halves = of_bands(shape->halves, at.front);
    __mmask64 doubles = of_bands(shape->doubles, at.front);
    b = _mm512_mask_adds_epu8(b, halves, b, _mm512_avg_epu8(g, zero));
    b = _mm512_mask_adds_epu8(b, doubles, b, _mm512_adds_epu8(g, g));
    __m512i a_firsts = _mm512_maskz_mov_epi8(of_bands(shape->firsts, at.front), a);
    return _mm512_adds_epu8(_mm512_adds_epu8(a, b), _mm512_avg_epu8(a, a_firsts));
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

/* Times 4. */
INLINE __m512i contexts(const struct stream *s, __m512i e)
{
    const __m512i low = _mm512_set1_epi8(15), far = _mm512_set1_epi8(32);
    __m512i q = _mm512_ternarylogic_epi32(_mm512_srli_epi16(e, 4), low, far, 0xEA); /* a & b | c */
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

/* -- Look-ups -- */

/* As one instruction: clang would make two for other ports of it. */
INLINE __m256i insert_entry(__m256i v, __mmask8 lanes, const uint32_t *slots, uint64_t i)
{
#if defined(PST_SIMDE)
    return _mm256_mask_broadcastd_epi32(v, lanes, _mm_loadu_si32(slots + i));
#else
    __asm__("vpbroadcastd (%3, %4, 4), %0%{%2%}"
            : "=v"(v)
            : "0"(v), "Yk"(lanes), "r"(slots), "r"(i), "m"(slots[i]));
    return v;
#endif
}
/* In lanes 0 to 3, and again in 4 to 7. */
INLINE __m256i four(const struct stream *s, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    __m256i v = _mm256_broadcastd_epi32(_mm_loadu_si32(s->slots + a));
    v = insert_entry(v, s->lane_1, s->slots, b);
    v = insert_entry(v, s->lane_2, s->slots, c);
    return insert_entry(v, s->lane_3, s->slots, d);
}

/* 16 look-ups by indices of 16 bits: the even ones and the odd ones. */
INLINE void look_up_16(const struct stream *s, __m128i lower, __m128i upper, __m256i *even,
                       __m256i *odd)
{
    uint64_t a = (uint64_t)_mm_cvtsi128_si64(lower), b = (uint64_t)_mm_extract_epi64(lower, 1);
    uint64_t c = (uint64_t)_mm_cvtsi128_si64(upper), d = (uint64_t)_mm_extract_epi64(upper, 1);
#define EVEN(q) (uint16_t)(q), _pext_u64(q, s->field_2)
#define ODD(q) _pext_u64(q, s->field_1), (q) >> s->field_3
    *even = _mm256_mask_mov_epi32(four(s, EVEN(a), EVEN(b)), s->lanes_4, four(s, EVEN(c), EVEN(d)));
    *odd = _mm256_mask_mov_epi32(four(s, ODD(a), ODD(b)), s->lanes_4, four(s, ODD(c), ODD(d)));
#undef EVEN
#undef ODD
}

/* The lower and upper halves of the entries. */
INLINE void look_up(const struct stream *s, __m512i indices, __m512i *low, __m512i *high)
{
    const __m512i lower = _mm512_set1_epi32(0xffff);
    __m256i even[2], odd[2];
    look_up_16(s, _mm512_castsi512_si128(indices), _mm512_extracti32x4_epi32(indices, 1), even,
               odd);
    look_up_16(s, _mm512_extracti32x4_epi32(indices, 2), _mm512_extracti32x4_epi32(indices, 3),
               even + 1, odd + 1);
    __m512i e = _mm512_inserti64x4(_mm512_castsi256_si512(even[0]), even[1], 1);
    __m512i o = _mm512_inserti64x4(_mm512_castsi256_si512(odd[0]), odd[1], 1);
    *low = choose_bits(lower, e, _mm512_slli_epi32(o, 16));
    *high = choose_bits(lower, _mm512_srli_epi32(e, 16), o);
}

/* -- States and words -- */

/* Compilers would have one comparison wait for another and mask it, rather than do both at once and
 * join their masks. */
#if defined(PST_SIMDE)
#define AT_ONCE(mask) (void)(mask)
#else
#define AT_ONCE(mask) __asm__("" : "+k"(mask))
#endif

/* x := frequency * (x >> 10) + bias, and with the next word where that is less than 65536. The
 * upper half of an entry is 64 * frequency + token; the lower has bit 15 turned over. */
INLINE void advance(struct states *x, bool whole)
{
    __m512i f = _mm512_and_si512(x->high, _mm512_set1_epi16((int16_t)0xffc0));
    __m512i upper_bits = _mm512_and_si512(x->lo, _mm512_set1_epi16((int16_t)0xfc00));
    __m512i small = _mm512_add_epi16(_mm512_mulhi_epu16(f, upper_bits), x->bias);
    __m512i sum = _mm512_add_epi16(_mm512_mullo_epi16(f, x->hi), small);
    __m512i product = _mm512_mulhi_epu16(f, x->hi);
    __mmask32 carry = _mm512_cmpgt_epi16_mask(small, sum);
    __mmask32 zero = _mm512_testn_epi16_mask(product, product);
    AT_ONCE(zero);
    __mmask32 empty = zero & ~carry;
    __m512i lo = _mm512_xor_si512(sum, _mm512_set1_epi16((int16_t)0x8000));
    __m512i hi = _mm512_mask_add_epi16(product, carry, product, _mm512_set1_epi16(1));
    if (!whole) { /* a frequency of 1024, which f holds as 0, changes nothing */
        __mmask32 same = _mm512_testn_epi16_mask(f, f);
        hi = _mm512_mask_mov_epi16(hi, same, x->hi);
        lo = _mm512_mask_mov_epi16(lo, same, x->lo);
        empty &= ~same;
    }
    x->hi = _mm512_mask_mov_epi16(hi, empty, lo);
    x->lo = _mm512_mask_expand_epi16(lo, empty, row_load(x->words));
    x->words += _mm_popcnt_u32(empty);
}

/* The stages of a step. */
INLINE void find_contexts(const struct stream *s, const struct shape *shape, struct pair *x,
                          struct step at, bool odd, bool whole, enum energy energy)
{
    x->context = contexts(s, energies(s, shape, x, at, odd, energy));
    if (whole)
        return;
    const __m512i idle = _mm512_set1_epi8(PSTI_PLI_WAVE_IDLE * PSTI_PLI_PROB_SUM / 256);
    x->context = _mm512_mask_mov_epi8(idle, active_lanes(s, shape, x, at), x->context);
}

/* Bits 10..15 of a word of `contexts` are of the unit; what is below them does not matter. */
INLINE void look_up_unit(const struct stream *s, struct states *x, __m512i contexts)
{
    const __m512i slot_bits = _mm512_set1_epi16(PSTI_PLI_PROB_SUM - 1);
    look_up(s, choose_bits(slot_bits, x->lo, contexts), &x->bias, &x->high);
}

INLINE void look_up_pair(const struct stream *s, struct pair *x, uint32_t n_units)
{
    look_up_unit(s, &x->first, _mm512_slli_epi16(x->context, 8));
    if (n_units > 1)
        look_up_unit(s, &x->second, x->context);
}

INLINE void advance_pair(const struct stream *s, struct pair *x, struct step at, bool whole,
                         uint32_t n_units)
{
    __m512i tokens = x->first.high;
    advance(&x->first, whole);
    if (n_units > 1) {
        advance(&x->second, whole);
        tokens = choose_bits(_mm512_set1_epi16(255), tokens, _mm512_slli_epi16(x->second.high, 8));
    }
    x->turned4 = x->turned3;
    x->turned3 = x->turned2;
    x->turned2 = x->turned1;
    x->g2 = x->g1;
    x->g1 = _mm512_and_si512(tokens, _mm512_set1_epi16(n_units > 1 ? 0x3f3f : 0x3f));
    x->turned1 = _mm512_maskz_permutexvar_epi8(at.below_2, s->lane_above, x->g1);
    row_store(x->rows[at.t], x->g1);
}

INLINE const uint16_t *hold(const struct states *x)
{
    return x->words > x->end ? x->end + 1 : x->words;
}

/* Apart from what rows may overwrite, so that loops hold them in registers. */
INLINE struct stream constants_of(const struct stream *s)
{
    struct stream c;
    c.slots = s->slots;
    c.delay = s->delay;
    c.contexts = s->contexts;
    c.lane_above = s->lane_above;
    c.minus_2l = s->minus_2l;
    c.field_1 = s->field_1;
    c.field_2 = s->field_2;
    c.field_3 = s->field_3;
    c.lane_1 = s->lane_1;
    c.lane_2 = s->lane_2;
    c.lane_3 = s->lane_3;
    c.lanes_4 = s->lanes_4;
    return c;
}

/* A step of one to four units, and the contexts of the next. */
INLINE void step_of_all(const struct stream *s, const struct shape *shape, struct pair *a,
                        struct pair *b, uint32_t n_units, struct step at, struct step next,
                        bool odd, bool whole, enum energy energy)
{
    look_up_pair(s, a, n_units);
    if (n_units > 2)
        look_up_pair(s, b, n_units - 2);
    advance_pair(s, a, at, whole, n_units);
    find_contexts(s, shape, a, next, !odd, whole, energy);
    if (n_units > 2) {
        advance_pair(s, b, at, whole, n_units - 2);
        find_contexts(s, shape, b, next, !odd, whole, energy);
    }
}

/* Steps of one band. */
INLINE void run_band(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end,
                     uint32_t n_units, bool whole, enum energy energy)
{
    const struct stream c = constants_of(s);
    struct pair a = s->pairs[0], b;
    if (n_units > 2)
        b = s->pairs[1];
    struct step even = step_at(shape, t);
    find_contexts(&c, shape, &a, even, false, whole, energy);
    if (n_units > 2)
        find_contexts(&c, shape, &b, even, false, whole, energy);
    while (even.t < end) {
        struct step odd = even;
        odd.t++;
        step_of_all(&c, shape, &a, &b, n_units, even, odd, false, whole, energy);
        even = step_at(shape, even.t + 2);
        step_of_all(&c, shape, &a, &b, n_units, odd, even, true, whole, energy);
        a.first.words = hold(&a.first); /* two steps take 64 words at most */
        if (n_units > 1)
            a.second.words = hold(&a.second);
        if (n_units > 2)
            b.first.words = hold(&b.first);
        if (n_units > 3)
            b.second.words = hold(&b.second);
    }
    s->pairs[0] = a;
    if (n_units > 2)
        s->pairs[1] = b;
}

#define BAND(name, n_units, whole, energy)                                                         \
    TARGET static void name(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end) \
    {                                                                                              \
        run_band(s, shape, t, end, n_units, whole, energy);                                        \
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
    return band < head->n_bands && band % head->bands_per_plane == 0 ? ~3ull : UINT64_MAX;
}

static void add_band(struct shape *shape, const struct psti_pli_wave512_job *job, uint32_t which,
                     uint32_t band)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    const struct psti_pli_wave_plane *plane = psti_pli_wave_plane_of(head, band);
    if (!plane)
        return;
    uint32_t n_rows = job->units[0]->height - WAVE_LANES * (band % head->bands_per_plane);
    shape->rows[which] = n_rows >= WAVE_LANES ? UINT64_MAX : (1ull << 2 * n_rows) - 1;
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
    shape.whole = !job->tables->has_sure_tokens && are_wide(job, n_jobs) &&
                  (shape.rows[0] & shape.rows[1]) == UINT64_MAX;
    return shape;
}

TARGET static void open_unit(struct states *x, const struct psti_pli_wave_head *head,
                             uint16_t *words)
{
    _Alignas(64) uint16_t hi[WAVE_LANES], lo[WAVE_LANES];
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        hi[l] = (uint16_t)(head->states[l] >> 16);
        lo[l] = (uint16_t)head->states[l];
    }
    memcpy(words, head->words, 2 * head->n_words);
    memset(words + head->n_words, 0, 2 * 4 * WAVE_LANES);
    x->hi = row_load(hi);
    x->lo = row_load(lo);
    x->words = words;
    x->end = words + head->n_words;
}

TARGET static void open_pair(struct pair *x, const struct psti_pli_wave512_job *job)
{
    memset(x, 0, sizeof *x);
    x->rows = job->memory->tokens;
    x->widths = _mm512_set1_epi16((int16_t)(job->units[0]->width | job->units[1]->width << 8));
    open_unit(&x->first, job->heads[0], job->memory->words[0]);
    if (job->n_units > 1)
        open_unit(&x->second, job->heads[1], job->memory->words[1]);
}

TARGET static void open_stream(struct stream *s, const struct psti_pli_wave512_job *job,
                               uint32_t n_jobs)
{
    uint8_t table[64];
    for (uint32_t i = 0; i < 64; i++) /* 32 and 33 are as 34 */
        table[i] = (uint8_t)(4 * psti_pli_wave_bucket[i < 32   ? i
                                                      : i < 34 ? 32
                                                      : i < 48 ? 16 * (i - 32)
                                                               : 255]);
    uint8_t above[64], minus_2l[64];
    for (uint32_t i = 0; i < 64; i++) {
        above[i] = (uint8_t)((i - 2) & 63);
        minus_2l[i] = (uint8_t)(0 - (i & 62));
    }
    s->contexts = row_load(table);
    s->lane_above = row_load(above);
    s->minus_2l = row_load(minus_2l);
    s->field_1 = 0xffff0000;
    s->field_2 = 0xffff00000000;
    s->field_3 = 48;
    s->lane_1 = 0x22;
    s->lane_2 = 0x44;
    s->lane_3 = 0x88;
    s->lanes_4 = 0xf0;
    s->slots = psti_pli_wave_slots(job->tables);
    s->delay = 64 * job->heads[0]->bands_per_plane;
    for (uint32_t j = 0; j < n_jobs; j++)
        open_pair(s->pairs + j, job + j);
}

TARGET static void close_unit(const struct states *x, struct psti_pli_wave512_job *job, uint32_t u)
{
    __m512i other = _mm512_xor_si512(x->hi, _mm512_set1_epi16(1));
    row_store(job->low[u], x->lo);
    job->ends[u] = x->words == x->end && _mm512_test_epi16_mask(other, other) == 0;
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
    for (uint32_t j = 0; j < n_jobs; j++) {
        close_unit(&s.pairs[j].first, jobs + j, 0);
        if (jobs[j].n_units > 1)
            close_unit(&s.pairs[j].second, jobs + j, 1);
    }
}
#endif
