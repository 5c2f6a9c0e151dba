/* pli_wave_avx2_tokens_u16.c - the token loop of the wave decoder for samples of 16 bits with AVX2.
 *
 * It decodes a parsed unit, with its tables, to rows of 32 tokens. The functions are pure; any
 * thread may call them. A step's dependent chain limits its speed: slots -> 32 look-ups -> states
 * -> which lanes take words -> slots. The order of a step's stages fills the waits with other work:
 * rows of tokens, and the next contexts. Two units of one shape go through the loop together, each
 * in the waits of the other.
 *
 * States are stored as halves of 16 bits. Vector A has lanes 0..7 and 16..23, vector B the others;
 * unpacking and packing bytes gives this order. Look-ups go through general registers. The
 * processor's gather takes 1.5 times as long, and storing and loading the indices takes twice as
 * long. */
#include "pli/decode/x86/pli_spread_avx2.h"
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* The state that is passed from step to step. It is a struct of its own, which loops can keep in
 * registers. */
struct states {
    /* Halves of the states. A lane that takes a word has 0 in lo_a or lo_b; the word is in
     * new_0..new_3. */
    v32 hi_a, lo_a, hi_b, lo_b;
    /* The words that lanes 0..7, 8..15 and so on take; 0 in lanes that take no word. */
    __m128i new_0, new_1, new_2, new_3;
    v32 bias_a, high_a, bias_b, high_b; /* the halves of the entries that were looked up */
    v32 empty_a, empty_b;               /* mask of the lanes that need a word */
    /* Tokens of the last step. `above` has the same tokens, rotated by one lane: each is at the
     * lane below its own. */
    v32 tokens, above;
    v32 context; /* context of the next step, times 4 */
    const uint16_t *words;
};

struct stream {
    struct states states;
    const uint16_t *end; /* end of the unit's words */
    struct psti_pli_wave_memory *memory;
    const uint32_t *slots;
    uint32_t delay; /* distance in rows from a row of a plane to the same row of the next plane */
    v32 width;
    v32 above_15, sixteen, fifteen; /* constants: vectors of the bytes 0x70, 16 and 15 */
    /* Tables of contexts, times 4: indexed by energy below 16, by energy from 16 to 31, and by
     * energy / 16 for higher energies. */
    v32 near, middle, far;
    struct psti_pli_wave_band bands[WAVE_BANDS];
};

/* -- Contexts and table look-ups -- */

/* Returns half of each byte, rounded down. */
INLINE v32 half_down(v32 v)
{
    return _mm256_and_si256(_mm256_srli_epi16(v, 1), _mm256_set1_epi8(127));
}

/* Returns energies (docs/format-pli.md, 5.6) from a (near) and b (far): half of 2 a + b in lanes of
 * `first`, half of a + half(a) + b + 2 `twice` in the others. Tokens are at most 46, so no sum
 * exceeds a byte. */
INLINE v32 all_energies(v32 a, v32 b, v32 first, v32 twice)
{
    v32 others = _mm256_andnot_si256(first, a);
    b = _mm256_add_epi8(b, _mm256_avg_epu8(others, _mm256_setzero_si256()));
    v32 odd = _mm256_and_si256(_mm256_xor_si256(others, b), _mm256_set1_epi8(1));
    v32 e = _mm256_sub_epi8(_mm256_avg_epu8(others, b), odd);
    return _mm256_add_epi8(_mm256_add_epi8(e, twice), _mm256_and_si256(a, first));
}

/* Returns the energies of all lanes. `odd`: the step has an odd number. */
INLINE v32 energies(const struct stream *s, const struct psti_pli_wave_shape *shape,
                    const struct states *x, struct step at, bool odd)
{
    const uint8_t *row = at.row->lanes;
    enum { STEP = sizeof(struct psti_pli_wave_row) };
    v32 cut = row_load(at.all_but_newest);
    v32 l = x->tokens, ll = row_load(row - 2 * STEP);
    v32 ur = x->above, ul = row_load(row - 3 * STEP - 1);
    v32 middle = _mm256_add_epi8(row_load(row - 2 * STEP - 1), row_load(row - 4 * STEP - 2));
    v32 a, b;
    if (odd) { /* column 1 has no LL, column 63 no UR */
        ur = _mm256_and_si256(ur, row_load(at.all_but_next));
        a = _mm256_add_epi8(_mm256_add_epi8(middle, l), ur);
        b = _mm256_add_epi8(_mm256_and_si256(ll, cut), ul);
    } else { /* column 0 has no L, LL and UL */
        a = _mm256_add_epi8(_mm256_add_epi8(middle, _mm256_and_si256(l, cut)), ur);
        b = _mm256_and_si256(_mm256_add_epi8(ll, ul), cut);
    }
    if (shape->first)
        return _mm256_add_epi8(a, half_down(b));
    const struct psti_pli_wave_band *front = shape->front;
    v32 first = row_load(front->energy), twice = _mm256_setzero_si256();
    if (shape->used) {
        v32 used = row_load(front->used), doubled = row_load(front->doubled);
        if (shape->mixed) {
            used = pick(row_load(front_lanes(at.t)), used, row_load(front[-1].used));
            doubled = pick(row_load(front_lanes(at.t)), doubled, row_load(front[-1].doubled));
            first = pick(row_load(front_lanes(at.t)), first, row_load(front[-1].energy));
        }
        v32 before = row_load(row - (size_t)STEP * s->delay);
        before = _mm256_and_si256(before, used);
        twice = _mm256_and_si256(before, doubled);
        before = _mm256_avg_epu8(_mm256_sub_epi8(before, twice), _mm256_setzero_si256());
        b = _mm256_add_epi8(b, before);
    } else if (shape->mixed) {
        first = pick(row_load(front_lanes(at.t)), first, row_load(front[-1].energy));
    }
    return all_energies(a, b, first, twice);
}

/* Returns the contexts times 4. */
INLINE v32 contexts(const struct stream *s, v32 e)
{
    /* Sums from 16 on have bit 7 set, for which vpshufb gives 0. */
    const v32 above_15 = s->above_15;
    v32 near = _mm256_shuffle_epi8(s->near, _mm256_adds_epu8(e, above_15));
    v32 middle = _mm256_xor_si256(e, s->sixteen);
    middle = _mm256_shuffle_epi8(s->middle, _mm256_adds_epu8(middle, above_15));
    v32 sixteenths = _mm256_and_si256(_mm256_srli_epi16(e, 4), s->fifteen);
    v32 far = _mm256_shuffle_epi8(s->far, sixteenths);
    return _mm256_or_si256(_mm256_or_si256(far, middle), near);
}

INLINE v32 halves(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

INLINE v32 entry(const uint32_t *slots, uint64_t index)
{
    return _mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)(slots + index)));
}

INLINE v32 eight(v32 a, v32 b, v32 c, v32 d, v32 e, v32 f, v32 g, v32 h)
{
    v32 ab = _mm256_blend_epi32(a, b, 0x02), cd = _mm256_blend_epi32(c, d, 0x08);
    v32 ef = _mm256_blend_epi32(e, f, 0x20), gh = _mm256_blend_epi32(g, h, 0x80);
    return _mm256_blend_epi32(_mm256_blend_epi32(ab, cd, 0x0c), _mm256_blend_epi32(ef, gh, 0xc0),
                              0xf0);
}

/* Looks up 16 entries by indices of 16 bits. Sets the lower and the upper halves of the entries. */
INLINE void look_up(const uint32_t *slots, __m128i lower, __m128i upper, v32 *low, v32 *high)
{
    /* The empty asm hides these constants. If compilers know them, they make two or three
     * instructions of each extraction. */
    uint64_t second = 0x1010, third = 0x1020, fourth = 0x1030;
    __asm__("" : "+r"(second), "+r"(third), "+r"(fourth));
    uint64_t a = (uint64_t)_mm_cvtsi128_si64(lower), b = (uint64_t)_mm_extract_epi64(lower, 1);
    uint64_t c = (uint64_t)_mm_cvtsi128_si64(upper), d = (uint64_t)_mm_extract_epi64(upper, 1);
#define FIRST(q) entry(slots, (uint16_t)(q))
#define FIELD(q, which) entry(slots, __bextr_u64(q, which))
    v32 even = eight(FIRST(a), FIELD(a, third), FIRST(b), FIELD(b, third), FIRST(c),
                     FIELD(c, third), FIRST(d), FIELD(d, third));
    v32 odd = eight(FIELD(a, second), FIELD(a, fourth), FIELD(b, second), FIELD(b, fourth),
                    FIELD(c, second), FIELD(c, fourth), FIELD(d, second), FIELD(d, fourth));
#undef FIRST
#undef FIELD
    *low = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
    *high = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}

/* The functions from here on are the stages of a step, in order. */
INLINE void find_contexts(const struct stream *s, const struct psti_pli_wave_shape *shape,
                          struct states *x, struct step at, bool odd)
{
    x->context = contexts(s, energies(s, shape, x, at, odd));
    if (!shape->whole)
        x->context = _mm256_blendv_epi8(_mm256_set1_epi8(4 * PSTI_PLI_WAVE_IDLE), x->context,
                                        active_lanes(s->width, shape, at.t));
}

INLINE void look_up_all(const struct stream *s, struct states *x)
{
    const v32 zero = _mm256_setzero_si256(), slot = _mm256_set1_epi16(PSTI_PLI_PROB_SUM - 1);
    const __m128i slot_8 = _mm256_castsi256_si128(slot);
    /* The new words are used last, because all other operands are ready before them. */
    v32 a = _mm256_and_si256(x->lo_a, slot), b = _mm256_and_si256(x->lo_b, slot);
    a = _mm256_or_si256(a, _mm256_unpacklo_epi8(zero, x->context));
    b = _mm256_or_si256(b, _mm256_unpackhi_epi8(zero, x->context));
    __m128i a_0 = _mm_or_si128(_mm256_castsi256_si128(a), _mm_and_si128(x->new_0, slot_8));
    __m128i a_2 = _mm_or_si128(_mm256_extracti128_si256(a, 1), _mm_and_si128(x->new_2, slot_8));
    __m128i b_1 = _mm_or_si128(_mm256_castsi256_si128(b), _mm_and_si128(x->new_1, slot_8));
    __m128i b_3 = _mm_or_si128(_mm256_extracti128_si256(b, 1), _mm_and_si128(x->new_3, slot_8));
    x->lo_a = _mm256_or_si256(x->lo_a, halves(x->new_0, x->new_2));
    x->lo_b = _mm256_or_si256(x->lo_b, halves(x->new_1, x->new_3));
    look_up(s->slots, a_0, a_2, &x->bias_a, &x->high_a);
    look_up(s->slots, b_1, b_3, &x->bias_b, &x->high_b);
}

/* -- States and the words that they take -- */

/* Computes x := frequency * (x >> 10) + bias, but loads no words. Returns a mask of
 * the lanes that need a word; their lower halves are 0. `high` is 64 * frequency + token, and
 * `bias` has bit 15 inverted. */
INLINE v32 advance(v32 *hi, v32 *lo, v32 high, v32 token, v32 bias, bool whole)
{
    const v32 top = _mm256_set1_epi16((short)0x8000);
    v32 f = _mm256_sub_epi16(high, token);
    v32 upper_bits = _mm256_and_si256(*lo, _mm256_set1_epi16((short)0xfc00));
    v32 small = _mm256_add_epi16(_mm256_mulhi_epu16(f, upper_bits), bias);
    v32 sum = _mm256_add_epi16(_mm256_mullo_epi16(f, *hi), small);
    v32 product = _mm256_mulhi_epu16(f, *hi);
    v32 carry = _mm256_cmpgt_epi16(small, sum); /* -1 in lanes with a carry */
    v32 new_lo = _mm256_xor_si256(sum, top);
    v32 new_hi = _mm256_sub_epi16(product, carry);
    /* Lanes whose upper half is 0; `product` is below 65535 and so never equals a carry of -1. */
    v32 empty = _mm256_cmpeq_epi16(product, carry);
    /* A token with all slots has a stored frequency of 0 and must not change the state. */
    if (!whole) {
        v32 same = _mm256_cmpeq_epi16(f, _mm256_setzero_si256());
        new_hi = _mm256_blendv_epi8(new_hi, *hi, same);
        new_lo = _mm256_blendv_epi8(new_lo, *lo, same);
        empty = _mm256_andnot_si256(same, empty);
    }
    *hi = _mm256_or_si256(new_hi, _mm256_and_si256(new_lo, empty));
    *lo = _mm256_andnot_si256(empty, new_lo);
    return empty;
}

INLINE void advance_all(const struct psti_pli_wave_shape *shape, struct states *x)
{
    const v32 token_bits = _mm256_set1_epi16(63);
    v32 token_a = _mm256_and_si256(x->high_a, token_bits);
    v32 token_b = _mm256_and_si256(x->high_b, token_bits);
    x->tokens = _mm256_packus_epi16(token_a, token_b);
    x->empty_a = advance(&x->hi_a, &x->lo_a, x->high_a, token_a, x->bias_a, shape->whole);
    x->empty_b = advance(&x->hi_b, &x->lo_b, x->high_b, token_b, x->bias_b, shape->whole);
}

INLINE void take_words(struct states *x)
{
    uint32_t lanes = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(x->empty_a, x->empty_b));
    const uint16_t *words = x->words;
    const uint16_t *words_1 = words + _mm_popcnt_u32(lanes & 0xff);
    const uint16_t *words_2 = words + _mm_popcnt_u32(lanes & 0xffff);
    const uint16_t *words_3 = words + _mm_popcnt_u32(lanes & 0xffffff);
    x->words = words + _mm_popcnt_u32(lanes);
    x->new_0 = psti_pli_spread_words(words, lanes << 4);
    x->new_1 = psti_pli_spread_words(words_1, lanes >> 4);
    x->new_2 = psti_pli_spread_words(words_2, lanes >> 12);
    x->new_3 = psti_pli_spread_words(words_3, lanes >> 20);
}

INLINE void keep_tokens(const struct psti_pli_wave_shape *shape, struct states *x, struct step at)
{
    /* Lane 31 is above lane 0. The masks are those of the band in which lane 0 is when it reads
     * lane 31. */
    const struct psti_pli_wave_band *next = shape->front, *after = shape->front;
    if ((at.t & 63) >= 60) {
        after++;
        next += (at.t & 63) >= 62;
    }
    __m128i upper = _mm256_extracti128_si256(x->tokens, 1);
    const __m128i not_31 = _mm_loadu_si128((const __m128i *)(const void *)next->not_31);
    const __m128i not_30 = _mm_loadu_si128((const __m128i *)(const void *)after->not_30);
    upper = _mm_and_si128(_mm_and_si128(upper, not_31), not_30);
    _mm_store_si128((__m128i *)(void *)at.row->before, upper);
    row_store(at.row->lanes, x->tokens);
    x->above = _mm256_and_si256(turn(x->tokens), row_load(next->not_first));
}

/* -- Streams -- */

static void TARGET open_states(struct stream *s, const struct psti_pli_wave_head *head)
{
    _Alignas(32) uint16_t hi[32], lo[32];
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t at = (l & 7) | (l & 8) << 1 | (l & 16) >> 1; /* vector A first, then vector B */
        hi[at] = (uint16_t)(head->states[l] >> 16);
        lo[at] = (uint16_t)head->states[l];
    }
    s->states.hi_a = row_load(hi);
    s->states.hi_b = row_load(hi + 16);
    s->states.lo_a = row_load(lo);
    s->states.lo_b = row_load(lo + 16);
}

static void TARGET open_stream(struct stream *s, const struct psti_pli_wave_job *job)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    uint8_t near[16], middle[16], far[16];
    for (uint32_t i = 0; i < 16; i++) {
        near[i] = (uint8_t)(psti_pli_wave_bucket[1][i] * 4);
        middle[i] = (uint8_t)(psti_pli_wave_bucket[1][16 + i] * 4);
        far[i] = i < 2 ? 0 : (uint8_t)(psti_pli_wave_bucket[1][16 * i] * 4);
    }
    s->above_15 = _mm256_set1_epi8(0x70);
    s->sixteen = _mm256_set1_epi8(16);
    s->fifteen = _mm256_set1_epi8(15);
    s->near = both_halves(near);
    s->middle = both_halves(middle);
    s->far = both_halves(far);
    s->width = _mm256_set1_epi8((char)job->unit->width);
    s->memory = m;
    s->slots = psti_pli_wave_slots(job->tables);
    s->delay = 64 * head->bands_per_plane;
    memcpy(m->words, head->words, 2 * head->n_words);
    memset(m->words + head->n_words, 0, 2 * 2 * WAVE_LANES);
    s->end = m->words + head->n_words;
    memset(m->tokens, 0, WAVE_BEFORE * sizeof m->tokens[0]);
    psti_pli_wave_rows_open_bands(job, s->bands);
    s->states = (struct states){.words = m->words};
    open_states(s, head);
}

static void TARGET close_stream(const struct stream *s, struct psti_pli_wave_job *job)
{
    uint16_t lo[32];
    const v32 one = _mm256_set1_epi16(1);
    v32 ends = _mm256_and_si256(_mm256_cmpeq_epi16(s->states.hi_a, one),
                                _mm256_cmpeq_epi16(s->states.hi_b, one));
    const struct states *x = &s->states;
    row_store(lo, _mm256_or_si256(x->lo_a, halves(x->new_0, x->new_2)));
    row_store(lo + 16, _mm256_or_si256(x->lo_b, halves(x->new_1, x->new_3)));
    for (uint32_t l = 0; l < 32; l++)
        job->low[l] = lo[(l & 7) | (l & 8) << 1 | (l & 16) >> 1];
    job->ends = s->states.words == s->end && _mm256_movemask_epi8(ends) == -1;
}

INLINE void run(struct stream *s, const struct psti_pli_wave_job *job)
{
    struct states x = s->states;
    const uint16_t *words_end = s->end;
    for (uint32_t k = 0; 64 * k < job->head->n_steps; k++) {
        uint32_t t = 64 * k, end = t + 64;
        end = end < job->head->n_steps ? end : job->head->n_steps;
        const struct psti_pli_wave_shape shape = psti_pli_wave_rows_shape(job, s->bands, k);
        struct step even = step_at(s->memory, t);
        find_contexts(s, &shape, &x, even, false);
        for (; even.t < end && x.words <= words_end;) {
            struct step odd = {even.t + 1, even.row + 1, even.all_but_newest,
                               even.all_but_newest - 1};
            if ((odd.t & 63) == 63)
                odd.all_but_next += 32;
            look_up_all(s, &x);
            advance_all(&shape, &x);
            keep_tokens(&shape, &x, even);
            find_contexts(s, &shape, &x, odd, true);
            take_words(&x);
            look_up_all(s, &x);
            advance_all(&shape, &x);
            keep_tokens(&shape, &x, odd);
            even = (struct step){even.t + 2, even.row + 2, even.all_but_newest - 1,
                                 even.all_but_newest - 2};
            if (even.t < end)
                find_contexts(s, &shape, &x, even, false);
            take_words(&x);
        }
    }
    s->states = x;
}

/* Runs two streams of one shape, each in the waits of the other's chain. Stops when the words of
 * either stream are used up. */
INLINE void run_two(struct stream s[2], const struct psti_pli_wave_job *job)
{
    struct states x = s[0].states, y = s[1].states;
    const uint16_t *x_end = s[0].end, *y_end = s[1].end;
    for (uint32_t k = 0; 64 * k < job->head->n_steps; k++) {
        uint32_t t = 64 * k, end = t + 64;
        end = end < job->head->n_steps ? end : job->head->n_steps;
        const struct psti_pli_wave_shape shape = psti_pli_wave_rows_shape(job, s->bands, k);
        find_contexts(s, &shape, &x, step_at(s->memory, t), false);
        find_contexts(s + 1, &shape, &y, step_at(s[1].memory, t), false);
        for (; t < end && x.words <= x_end && y.words <= y_end; t += 2) {
            look_up_all(s, &x);
            look_up_all(s + 1, &y);
            advance_all(&shape, &x);
            keep_tokens(&shape, &x, step_at(s->memory, t));
            find_contexts(s, &shape, &x, step_at(s->memory, t + 1), true);
            take_words(&x);
            advance_all(&shape, &y);
            keep_tokens(&shape, &y, step_at(s[1].memory, t));
            find_contexts(s + 1, &shape, &y, step_at(s[1].memory, t + 1), true);
            take_words(&y);
            look_up_all(s, &x);
            look_up_all(s + 1, &y);
            advance_all(&shape, &x);
            keep_tokens(&shape, &x, step_at(s->memory, t + 1));
            if (t + 2 < end)
                find_contexts(s, &shape, &x, step_at(s->memory, t + 2), false);
            take_words(&x);
            advance_all(&shape, &y);
            keep_tokens(&shape, &y, step_at(s[1].memory, t + 1));
            if (t + 2 < end)
                find_contexts(s + 1, &shape, &y, step_at(s[1].memory, t + 2), false);
            take_words(&y);
        }
    }
    s[0].states = x;
    s[1].states = y;
}

void TARGET psti_pli_wave_avx2_tokens_two(struct psti_pli_wave_job jobs[2])
{
    struct stream s[2];
    open_stream(s, jobs);
    open_stream(s + 1, jobs + 1);
    run_two(s, jobs);
    close_stream(s, jobs);
    close_stream(s + 1, jobs + 1);
}

void TARGET psti_pli_wave_avx2_tokens(struct psti_pli_wave_job *job)
{
    struct stream s;
    open_stream(&s, job);
    run(&s, job);
    close_stream(&s, job);
}
#endif
