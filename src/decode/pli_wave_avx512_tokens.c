/* pli_wave_avx512_tokens.c - the token loop of the wave decoder with AVX-512 VBMI.
 *
 * In: one or two parsed units and their tables; out: rows of tokens. Pure functions, any thread.
 *
 * Words of 16 bits, one for each lane: halves of the states, entries, tokens, contexts. What bounds
 * a unit alone is a step's chain (slots -> 32 look-ups -> states -> which lanes take words ->
 * slots): 57 cycles on Zen 4 and 75 on Ice Lake by llvm-mca. Two units take 36 and 51 each, as one
 * works while the other waits; their instructions alone would take 26 and 40. Look-ups go through
 * general registers and masked broadcasts: the processors' gathers are microcode on Zen 4 and made
 * slow on purpose on many of Intel's (Downfall), and tables of 16 contexts are too large for
 * permutations. Words are expanded straight into the lanes whose states fell short. */
#include "decode/pli_wave_avx512.h"

#if defined(__x86_64__)
#include <string.h>

/* What goes from step to step of one unit. */
struct states {
    __m512i hi, lo;
    __m512i g1, g2;                             /* tokens of the last step and of the one before */
    __m512i turned1, turned2, turned3, turned4; /* of the last steps, in the lane below */
    __m512i context;                            /* of the next step, in bits 10..15 */
    __m512i bias, high;                         /* looked up */
    const uint16_t *words, *end;                /* end + 1: there were too few */
};

/* What the steps of a band have in common; masks are of all lanes or none but for those of rows.
 * [0] is of the band that begins, [1] of the one that ends, if nothing else is said. */
struct shape {
    bool whole;          /* all lanes are active, and no table has but one token */
    uint32_t firsts[2];  /* E is that of a first plane: 2A + B */
    uint32_t halves[2];  /* a half of the plane before adds to E */
    uint32_t doubles[2]; /* twice the plane before does */
    uint32_t rows[2];    /* have rows */
    uint64_t below[2];   /* bytes; all but lane 0 where the band is its plane's first, or all: of
                            the band that begins and the one that follows */
};

struct stream {
    struct states units[WAVE_UNITS];
    uint8_t (*rows)[WAVE_ROW];
    const uint32_t *slots;
    uint32_t delay; /* rows between a plane and the next */
    uint32_t width;
    __m512i contexts;                /* bytes: 4 times the context by min(E, 32 + E / 16) */
    __m512i lane_above;              /* bytes: lane l is turned to l + 1 */
    uint64_t field_1, field_2;       /* second and third of four words */
    __mmask8 lane_1, lane_2, lane_3; /* of four double words, twice */
};

/* -- Contexts -- */

/* Where a step is, and lanes at the edges. */
struct step {
    uint32_t t, front; /* lanes in band t >> 6 */
    __mmask32 newest;  /* all but the lane at column 0, in odd steps 1 */
    __mmask32 next;    /* all but the lane that comes to column 0 next */
    __mmask64 below;   /* bytes; of lane 0 now, */
    __mmask64 below_2; /* and two steps later */
};

INLINE struct step step_at(const struct shape *shape, uint32_t t)
{
    uint32_t lane = (t & 63) >> 1;
    return (struct step){.t = t,
                         .front = (2u << lane) - 1,
                         .newest = ~(1u << lane),
                         .next = ~(1u << ((lane + 1) & 31)),
                         .below = shape->below[0],
                         .below_2 = shape->below[lane == 31]};
}

INLINE __mmask32 of_bands(const uint32_t lanes[2], uint32_t front)
{
    return (lanes[0] & front) | (lanes[1] & ~front);
}

/* What E is of: a first plane's A and B; A, B and half of the plane before, or twice it; or not the
 * same in all lanes. */
enum energy { FIRST, HALF, DOUBLE, MIXED };

/* Of plane `u`'s tokens a plane before. */
INLINE __m512i tokens_before(const struct stream *s, uint32_t t, uint32_t u)
{
    __m512i row = row_load(s->rows[t < s->delay ? 0 : t - s->delay]);
    return u == 0 ? _mm512_and_si512(row, _mm512_set1_epi16(255)) : _mm512_srli_epi16(row, 8);
}

INLINE __m512i join(const struct stream *s, const struct shape *shape, uint32_t u, struct step at,
                    enum energy energy, __m512i a, __m512i b)
{
    const __m512i zero = _mm512_setzero_si512();
    if (energy == FIRST)
        return _mm512_add_epi16(_mm512_add_epi16(a, a), b);
    __m512i g = tokens_before(s, at.t, u);
    if (energy == HALF)
        b = _mm512_add_epi16(b, _mm512_avg_epu16(g, zero));
    if (energy == DOUBLE)
        b = _mm512_add_epi16(b, _mm512_add_epi16(g, g));
    if (energy != MIXED)
        return _mm512_add_epi16(_mm512_add_epi16(a, b), _mm512_avg_epu16(a, zero));
    b = _mm512_mask_add_epi16(b, of_bands(shape->halves, at.front), b, _mm512_avg_epu16(g, zero));
    b = _mm512_mask_add_epi16(b, of_bands(shape->doubles, at.front), b, _mm512_add_epi16(g, g));
    __m512i a_firsts = _mm512_maskz_mov_epi16(of_bands(shape->firsts, at.front), a);
    return _mm512_add_epi16(_mm512_add_epi16(a, b), _mm512_avg_epu16(a, a_firsts));
}

/* E of all lanes of unit `u`; what the last step brought comes last. Neighbours outside are left
 * out of the sums: above, they were when they were turned to their lanes. */
INLINE __m512i energies(const struct stream *s, const struct shape *shape, const struct states *x,
                        uint32_t u, struct step at, bool odd, enum energy energy)
{
    __m512i a = _mm512_maskz_permutexvar_epi8(at.below, s->lane_above, x->turned4);
    a = _mm512_add_epi16(a, x->turned2);
    __m512i b;
    if (odd) {
        b = _mm512_mask_add_epi16(x->turned3, at.newest, x->turned3, x->g2);
        a = _mm512_add_epi16(a, x->g1);
        a = _mm512_mask_add_epi16(a, at.next, a, x->turned1);
    } else {
        b = _mm512_maskz_add_epi16(at.newest, x->turned3, x->g2);
        a = _mm512_mask_add_epi16(a, at.newest, a, x->g1);
        a = _mm512_add_epi16(a, x->turned1);
    }
    return join(s, shape, u, at, energy, a, b);
}

/* In the upper bytes, times 4: where their slots begin. */
INLINE __m512i contexts(const struct stream *s, __m512i e)
{
    __m512i far = _mm512_or_si512(_mm512_srli_epi16(e, 4), _mm512_set1_epi16(32));
    __m512i context = _mm512_permutexvar_epi8(_mm512_min_epu16(e, far), s->contexts);
    return _mm512_slli_epi16(context, 8);
}

/* Lanes that have a sample. */
INLINE __mmask32 active_lanes(const struct stream *s, const struct shape *shape, struct step at)
{
    const __m512i minus_2l = _mm512_set_epi16(-62, -60, -58, -56, -54, -52, -50, -48, -46, -44, -42,
                                              -40, -38, -36, -34, -32, -30, -28, -26, -24, -22, -20,
                                              -18, -16, -14, -12, -10, -8, -6, -4, -2, 0);
    __m512i x = _mm512_add_epi16(_mm512_set1_epi16((int16_t)at.t), minus_2l);
    x = _mm512_and_si512(x, _mm512_set1_epi16(63));
    __mmask32 columns = _mm512_cmplt_epu16_mask(x, _mm512_set1_epi16((int16_t)s->width));
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
#define ODD(q) _pext_u64(q, s->field_1), (q) >> 48
    *even = _mm256_blend_epi32(four(s, EVEN(a), EVEN(b)), four(s, EVEN(c), EVEN(d)), 0xf0);
    *odd = _mm256_blend_epi32(four(s, ODD(a), ODD(b)), four(s, ODD(c), ODD(d)), 0xf0);
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
INLINE void find_contexts(const struct stream *s, const struct shape *shape, struct states *x,
                          uint32_t u, struct step at, bool odd, bool whole, enum energy energy)
{
    x->context = contexts(s, energies(s, shape, x, u, at, odd, energy));
    if (whole)
        return;
    const __m512i idle = _mm512_set1_epi16(PSTI_PLI_WAVE_IDLE * PSTI_PLI_PROB_SUM);
    x->context = _mm512_mask_mov_epi16(idle, active_lanes(s, shape, at), x->context);
}

INLINE void look_up_all(const struct stream *s, struct states *x)
{
    const __m512i slot_bits = _mm512_set1_epi16(PSTI_PLI_PROB_SUM - 1);
    look_up(s, choose_bits(slot_bits, x->lo, x->context), &x->bias, &x->high);
}

INLINE void advance_all(const struct stream *s, struct states *x, struct step at, bool whole)
{
    advance(x, whole);
    x->turned4 = x->turned3;
    x->turned3 = x->turned2;
    x->turned2 = x->turned1;
    x->g2 = x->g1;
    x->g1 = _mm512_and_si512(x->high, _mm512_set1_epi16(63));
    x->turned1 = _mm512_maskz_permutexvar_epi8(at.below_2, s->lane_above, x->g1);
}

INLINE void keep_row(const struct stream *s, const struct states *a, const struct states *b,
                     uint32_t n_units, uint32_t t)
{
    __m512i row = a->g1;
    if (n_units == 2)
        row = _mm512_or_si512(row, _mm512_slli_epi16(b->g1, 8));
    row_store(s->rows[t], row);
}

INLINE const uint16_t *hold(const struct states *x)
{
    return x->words > x->end ? x->end + 1 : x->words;
}

/* Apart from what rows may overwrite, so that loops hold them in registers. */
INLINE struct stream constants_of(const struct stream *s)
{
    struct stream c;
    c.rows = s->rows;
    c.slots = s->slots;
    c.delay = s->delay;
    c.width = s->width;
    c.contexts = s->contexts;
    c.lane_above = s->lane_above;
    c.field_1 = s->field_1;
    c.field_2 = s->field_2;
    c.lane_1 = s->lane_1;
    c.lane_2 = s->lane_2;
    c.lane_3 = s->lane_3;
    return c;
}

/* A step of both units, and the contexts of the next. */
INLINE void both_steps(const struct stream *s, const struct shape *shape, struct states *a,
                       struct states *b, uint32_t n_units, struct step at, struct step next,
                       bool odd, bool whole, enum energy energy)
{
    look_up_all(s, a);
    if (n_units == 2)
        look_up_all(s, b);
    advance_all(s, a, at, whole);
    find_contexts(s, shape, a, 0, next, !odd, whole, energy);
    if (n_units == 2) {
        advance_all(s, b, at, whole);
        find_contexts(s, shape, b, 1, next, !odd, whole, energy);
    }
    keep_row(s, a, b, n_units, at.t);
}

/* Steps of one band. */
INLINE void run_band(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end,
                     uint32_t n_units, bool whole, enum energy energy)
{
    const struct stream c = constants_of(s);
    struct states a = s->units[0], b;
    if (n_units == 2)
        b = s->units[1];
    struct step even = step_at(shape, t);
    find_contexts(&c, shape, &a, 0, even, false, whole, energy);
    if (n_units == 2)
        find_contexts(&c, shape, &b, 1, even, false, whole, energy);
    while (even.t < end) {
        struct step odd = even;
        odd.t++;
        both_steps(&c, shape, &a, &b, n_units, even, odd, false, whole, energy);
        even = step_at(shape, even.t + 2);
        both_steps(&c, shape, &a, &b, n_units, odd, even, true, whole, energy);
        a.words = hold(&a); /* two steps take 64 words at most */
        if (n_units == 2)
            b.words = hold(&b);
    }
    s->units[0] = a;
    if (n_units == 2)
        s->units[1] = b;
}

#define BAND(name, n_units, whole, energy)                                                         \
    TARGET static void name(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end) \
    {                                                                                              \
        run_band(s, shape, t, end, n_units, whole, energy);                                        \
    }
BAND(one_whole, 1, true, MIXED)
BAND(one_any, 1, false, MIXED)
BAND(two_first, 2, true, FIRST)
BAND(two_half, 2, true, HALF)
BAND(two_double, 2, true, DOUBLE)
BAND(two_mixed, 2, true, MIXED)
BAND(two_any_first, 2, false, FIRST)
BAND(two_any_double, 2, false, DOUBLE)
BAND(two_any, 2, false, MIXED)

typedef void band_loop(struct stream *s, const struct shape *shape, uint32_t t, uint32_t end);

static band_loop *loop_for(const struct shape *shape, uint32_t n_units)
{
    bool first = (shape->firsts[0] & shape->firsts[1]) != 0;
    bool half = (shape->halves[0] & shape->halves[1]) != 0;
    bool twice = (shape->doubles[0] & shape->doubles[1]) != 0;
    if (n_units == 1)
        return shape->whole ? one_whole : one_any;
    if (!shape->whole) /* most often the first band of a unit, and its last */
        return first ? two_any_first : twice ? two_any_double : two_any;
    return first ? two_first : half ? two_half : twice ? two_double : two_mixed;
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
    shape->rows[which] = n_rows >= WAVE_LANES ? UINT32_MAX : (1u << n_rows) - 1;
    if (plane->energy == PSTI_PLI_ENERGY_FIRST)
        shape->firsts[which] = UINT32_MAX;
    if (plane->energy == PSTI_PLI_ENERGY_SECOND && plane->index0 >= 0)
        shape->halves[which] = UINT32_MAX;
    if (plane->energy == PSTI_PLI_ENERGY_THIRD && plane->index1 >= 0)
        shape->doubles[which] = UINT32_MAX;
}

/* What steps [64 k, 64 k + 64) have in common. */
static struct shape shape_of(const struct psti_pli_wave512_job *job, uint32_t k)
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
    shape.whole = !job->tables->has_sure_tokens && job->units[0]->width == 64 &&
                  (shape.rows[0] & shape.rows[1]) == UINT32_MAX;
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
    memset(x, 0, sizeof *x);
    x->hi = row_load(hi);
    x->lo = row_load(lo);
    x->words = words;
    x->end = words + head->n_words;
}

TARGET static void open_stream(struct stream *s, const struct psti_pli_wave512_job *job)
{
    uint8_t table[64];
    for (uint32_t i = 0; i < 64; i++) /* 32 and 33 are as 34 */
        table[i] = (uint8_t)(4 * psti_pli_wave_bucket[i < 32   ? i
                                                      : i < 34 ? 32
                                                      : i < 48 ? 16 * (i - 32)
                                                               : 255]);
    uint8_t above[64];
    for (uint32_t i = 0; i < 64; i++)
        above[i] = (uint8_t)((i - 2) & 63);
    s->contexts = row_load(table);
    s->lane_above = row_load(above);
    s->field_1 = 0xffff0000;
    s->field_2 = 0xffff00000000;
    s->lane_1 = 0x22;
    s->lane_2 = 0x44;
    s->lane_3 = 0x88;
    s->rows = job->memory->tokens;
    s->slots = psti_pli_wave_slots(job->tables);
    s->delay = 64 * job->heads[0]->bands_per_plane;
    s->width = job->units[0]->width;
    for (uint32_t u = 0; u < job->n_units; u++)
        open_unit(s->units + u, job->heads[u], job->memory->words[u]);
}

TARGET static void close_unit(const struct states *x, struct psti_pli_wave512_job *job, uint32_t u)
{
    __m512i other = _mm512_xor_si512(x->hi, _mm512_set1_epi16(1));
    row_store(job->low[u], x->lo);
    job->ends[u] = x->words == x->end && _mm512_test_epi16_mask(other, other) == 0;
}

TARGET void psti_pli_wave512_tokens(struct psti_pli_wave512_job *job)
{
    struct stream s;
    open_stream(&s, job);
    for (uint32_t t = 0, n_steps = job->heads[0]->n_steps; t < n_steps; t += 64) {
        uint32_t end = t + 64 < n_steps ? t + 64 : n_steps;
        struct shape shape = shape_of(job, t >> 6);
        loop_for(&shape, job->n_units)(&s, &shape, t, end);
    }
    for (uint32_t u = 0; u < job->n_units; u++)
        close_unit(s.units + u, job, u);
}
#endif
