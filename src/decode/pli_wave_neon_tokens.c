/* pli_wave_neon_tokens.c - the token loop of the wave decoder with NEON.
 *
 * In: a parsed unit and its tables; out: rows of 32 activities (8 bits) or tokens (16 bits). Pure
 * functions, any thread.
 *
 * States of 8 bits are bytes, their upper halves and their lower ones, which are slots: a search
 * that halves finds what each slot lies between, by look-ups in tables of 16 contexts, and sums of
 * how many lanes before each take a byte say which one it takes. A step is some 170 instructions
 * (of planes after the first 190), 125 of vectors.
 *
 * Of 16 bits the look-ups go through general registers, an index of 16 bits each. Words come to the
 * states that need them by one tbl of two registers for each four states, one with the states and
 * one with the words; which of its 16 orders it uses says the mask of the four. A step is some 350
 * instructions, half of them of vectors; a Neoverse N1, which starts two of these a cycle, is bound
 * by them, processors that start four by the chain slots -> look-ups -> states -> which lanes take
 * words -> slots. */
#include "decode/pli_refill_neon.h"
#include "decode/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#include <string.h>

enum { FOURS = WAVE_LANES / 4 };

/* What goes from step to step; kept apart so that loops can hold it in registers. */
struct states {
    v32 high, low;       /* of 8 bits */
    uint32x4_t x[FOURS]; /* of 16 bits */
    v32 tokens, above;   /* activities of the last step */
    v32 context;         /* of the next one; of 16 bits times 4 */
    const uint8_t *words;
};

struct stream {
    struct states states;
    const uint8_t *end; /* of the words */
    struct psti_pli_wave_memory *memory;
    const uint32_t *slots;
    uint32_t delay; /* rows between a plane and the next */
    uint8_t width;
    uint8x16x2_t near; /* contexts of E < 32; of 16 bits times 4 */
    uint8x16_t far;    /* of others by E / 16 */
    /* Of 8 bits: struct psti_pli_wave_bounds, of[0]; [1], [2]; [3], [4]; [5], [6]. */
    uint8x16_t bounds_1;
    uint8x16x2_t bounds_2, bounds_30, bounds_31;
    uint8x16_t activities;
    struct psti_pli_wave_band bands[WAVE_BANDS];
};

/* -- Contexts -- */

/* E of 16 bits: half of 2 A + B in lanes of `first`, in others of A + H(A) + B + 2 `twice`. Tokens
 * are at most 46: nothing exceeds a byte. */
PSTI_NEON_INLINE v32 wide_energies(v32 a, v32 b, v32 first, v32 twice)
{
    v32 others = row_and_not(a, first);
    b = row_add(b, row_average_up(others, row_of(0)));
    v32 e = row_average_down(others, b);
    return row_add(row_add(e, twice), row_and(a, first));
}

/* E of all lanes. `odd`: the step's parity; `wide`: samples have 16 bits. */
PSTI_NEON_INLINE v32 energies(const struct stream *s, const struct psti_pli_wave_shape *shape,
                              const struct states *x, struct step at, bool odd, bool wide)
{
    const uint8_t *row = at.row->lanes;
    enum { STEP = sizeof(struct psti_pli_wave_row) };
    v32 cut = row_load(at.all_but_newest);
    v32 l = x->tokens, ll = row_load(row - 2 * STEP);
    v32 ur = x->above, ul = row_load(row - 3 * STEP - 1);
    v32 middle = row_add(row_load(row - 2 * STEP - 1), row_load(row - 4 * STEP - 2));
    v32 a, b;
    if (odd) { /* one lane is at column 1, another at column 63 */
        ur = row_and(ur, row_load(at.all_but_next));
        a = row_add(row_add(middle, l), ur);
        b = row_add(row_and(ll, cut), ul);
    } else { /* one lane is at column 0 */
        a = row_add(row_add(middle, row_and(l, cut)), ur);
        b = row_and(row_add(ll, ul), cut);
    }
    if (shape->first)
        return wide ? row_add(a, row_average_down(b, row_of(0)))
                    : row_add_saturated(row_add(a, a), b);
    const struct psti_pli_wave_band *front = shape->front;
    v32 first = row_load(front->energy), twice = row_of(0);
    if (shape->used) {
        v32 used = row_load(front->used), doubled = row_load(front->doubled);
        if (shape->mixed) {
            used = pick(row_load(front_lanes(at.t)), used, row_load(front[-1].used));
            doubled = pick(row_load(front_lanes(at.t)), doubled, row_load(front[-1].doubled));
            first = pick(row_load(front_lanes(at.t)), first, row_load(front[-1].energy));
        }
        v32 before = row_load(row - (size_t)STEP * s->delay);
        before = row_and(before, used);
        twice = row_and(before, doubled);
        if (wide) {
            before = row_average_up(row_sub(before, twice), row_of(0));
        } else {
            before = row_add(before, twice);
            before = row_average_up(before, row_and(before, doubled));
        }
        b = row_add(b, before);
    } else if (shape->mixed) {
        first = pick(row_load(front_lanes(at.t)), first, row_load(front[-1].energy));
    }
    if (wide)
        return wide_energies(a, b, first, twice);
    b = row_add_saturated(b, row_average_up(a, row_and(a, first)));
    return row_add_saturated(a, b);
}

/* Contexts as the tables have them, each of which is 0 where the other one holds. */
PSTI_NEON_INLINE v32 contexts(const struct stream *s, v32 e)
{
    v32 c;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        c.v[i] = vorrq_u8(vqtbl1q_u8(s->far, vshrq_n_u8(e.v[i], 4)), vqtbl2q_u8(s->near, e.v[i]));
    return c;
}

/* Lanes that have a sample in step t. */
PSTI_NEON_INLINE v32 active_lanes(const struct stream *s, const struct psti_pli_wave_shape *shape,
                                  uint32_t t)
{
    v32 x = row_and(columns_of(t), row_of(63));
    v32 rows = pick(row_load(front_lanes(t)), row_load(shape->front->rows),
                    row_load(shape->front[-1].rows));
    uint8x16_t width = vdupq_n_u8(s->width);
    return row_and((v32){{vcgtq_u8(width, x.v[0]), vcgtq_u8(width, x.v[1])}}, rows);
}

PSTI_NEON_INLINE void find_contexts(const struct stream *s, const struct psti_pli_wave_shape *shape,
                                    struct states *x, struct step at, bool odd, bool wide)
{
    x->context = contexts(s, energies(s, shape, x, at, odd, wide));
    if (wide && !shape->whole)
        x->context = pick(active_lanes(s, shape, at.t), x->context, row_of(4 * PSTI_PLI_WAVE_IDLE));
}

/* -- States and bytes of 8 bits -- */

/* What a slot lies between: the next tokens begin above `above`, its own above `below`, which
 * wraps: 255 is below slot 0. */
struct found {
    uint8x16_t below, above, activities;
};

PSTI_NEON_INLINE struct found search(const struct stream *s, uint8x16_t slots, uint8x16_t contexts)
{
    struct found f;
    uint8x16_t bound = vqtbl1q_u8(s->bounds_1, contexts);
    uint8x16_t is_above = vcgtq_u8(slots, bound);
    uint8x16_t at = vbslq_u8(vdupq_n_u8(16), is_above, contexts);
    f.below = vornq_u8(bound, is_above);
    f.above = vorrq_u8(bound, is_above);
    bound = vqtbl2q_u8(s->bounds_2, at);
    /* A look-up in four registers takes as long as these, but they wait for nothing. */
    uint8x16_t bound_0 = vqtbl2q_u8(s->bounds_30, at), bound_1 = vqtbl2q_u8(s->bounds_31, at);
    is_above = vcgtq_u8(slots, bound);
    at = vbslq_u8(vdupq_n_u8(32), is_above, at);
    f.below = vbslq_u8(is_above, bound, f.below);
    f.above = vbslq_u8(is_above, f.above, bound);
    bound = vbslq_u8(is_above, bound_1, bound_0);
    is_above = vcgtq_u8(slots, bound);
    at = vbslq_u8(vdupq_n_u8(64), is_above, at);
    f.below = vbslq_u8(is_above, bound, f.below);
    f.above = vbslq_u8(is_above, f.above, bound);
    f.activities = vqtbl1q_u8(s->activities, vshrq_n_u8(at, 4));
    return f;
}

/* Of 32 lanes, those of `empty` get the next bytes, the first the first; `*words` goes on. Others
 * get any. */
PSTI_NEON_INLINE v32 take_bytes(const uint8_t **words, v32 empty)
{
    const uint8x16x2_t next = vld1q_u8_x2(*words);
    uint8x16_t first = sums_up_to(vandq_u8(empty.v[0], vdupq_n_u8(1)));
    uint8x16_t second = sums_up_to(vandq_u8(empty.v[1], vdupq_n_u8(1)));
    second = vaddq_u8(second, vdupq_laneq_u8(first, 15));
    *words += vgetq_lane_u8(second, 15);
    /* `empty` is -1: these are counts before each. */
    return (v32){{vqtbl1q_u8(next.val[0], vaddq_u8(first, empty.v[0])),
                  vqtbl2q_u8(next, vaddq_u8(second, empty.v[1]))}};
}

/* x := frequency * (x >> 8) + slot - first slot, and the next byte where that is below 2^8. */
PSTI_NEON_INLINE void run_states_8(const struct stream *s, const struct psti_pli_wave_shape *shape,
                                   struct states *x, uint32_t t)
{
    v32 low, high, empty;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t h = x->high.v[i], slots = x->low.v[i];
        struct found f = search(s, slots, x->context.v[i]);
        uint8x16_t freq = vsubq_u8(f.above, f.below);
        uint8x16_t first = vaddq_u8(f.below, vdupq_n_u8(1));
        uint8x16_t a = vreinterpretq_u8_u16(vmlal_u8(
            vsubl_u8(vget_low_u8(slots), vget_low_u8(first)), vget_low_u8(freq), vget_low_u8(h)));
        uint8x16_t b = vreinterpretq_u8_u16(vmlal_high_u8(vsubl_high_u8(slots, first), freq, h));
        low.v[i] = vuzp1q_u8(a, b);
        high.v[i] = vuzp2q_u8(a, b);
        x->tokens.v[i] = f.activities;
    }
    if (!shape->whole) {
        v32 active = active_lanes(s, shape, t);
        low = pick(active, low, x->low);
        high = pick(active, high, x->high);
        x->tokens = row_and(x->tokens, active);
    }
    empty = (v32){{vceqq_u8(high.v[0], vdupq_n_u8(0)), vceqq_u8(high.v[1], vdupq_n_u8(0))}};
    x->high = pick(empty, low, high);
    x->low = pick(empty, take_bytes(&x->words, empty), low);
}

/* -- Look-ups of 16 bits -- */

/* The entries at four indices of 16 bits. */
PSTI_NEON_INLINE uint32x4_t look_up_four(const uint32_t *slots, uint64_t indices)
{
    uint32x2_t low = {slots[(uint16_t)indices], slots[(uint16_t)(indices >> 16)]};
    uint32x2_t high = {slots[(uint16_t)(indices >> 32)], slots[indices >> 48]};
    return vcombine_u32(low, high);
}

/* Entries of all lanes: of their contexts, at the lowest 10 bits of their states. */
PSTI_NEON_INLINE void look_up_all(const struct stream *s, const struct states *x, uint32x4_t *e)
{
    const uint16x8_t slot = vdupq_n_u16(PSTI_PLI_PROB_SUM - 1);
    const uint8x16_t zero = vdupq_n_u8(0);
#pragma GCC unroll 4
    for (int i = 0; i < FOURS / 2; i++) {
        uint8x16_t context = x->context.v[i / 2];
        context = i % 2 == 0 ? vzip1q_u8(zero, context) : vzip2q_u8(zero, context);
        uint16x8_t low =
            vuzp1q_u16(vreinterpretq_u16_u32(x->x[2 * i]), vreinterpretq_u16_u32(x->x[2 * i + 1]));
        uint64x2_t index =
            vreinterpretq_u64_u16(vbslq_u16(slot, low, vreinterpretq_u16_u8(context)));
        e[2 * i] = look_up_four(s->slots, vgetq_lane_u64(index, 0));
        e[2 * i + 1] = look_up_four(s->slots, vgetq_lane_u64(index, 1));
    }
}

/* -- States and words of 16 bits -- */

PSTI_NEON_INLINE v32 tokens_of(const uint32x4_t *e)
{
    v32 tokens;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++, e += 4) {
        uint16x8_t a = vuzp2q_u16(vreinterpretq_u16_u32(e[0]), vreinterpretq_u16_u32(e[1]));
        uint16x8_t b = vuzp2q_u16(vreinterpretq_u16_u32(e[2]), vreinterpretq_u16_u32(e[3]));
        uint8x16_t both = vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
        tokens.v[i] = vandq_u8(both, vdupq_n_u8(63));
    }
    return tokens;
}

/* x := frequency * (x >> 10) + bias, and the next word where that is below 2^16. */
PSTI_NEON_INLINE void advance_all(const struct psti_pli_wave_shape *shape, struct states *x,
                                  const uint32x4_t *e)
{
    uint32x4_t low[FOURS];
#pragma GCC unroll 8
    for (int i = 0; i < FOURS; i++) {
        uint32x4_t f = vshrq_n_u32(e[i], 22);
        if (!shape->whole)
            f = vbslq_u32(vceqq_u32(f, vdupq_n_u32(0)), vdupq_n_u32(PSTI_PLI_PROB_SUM), f);
        uint32x4_t bias = vandq_u32(e[i], vdupq_n_u32(PSTI_PLI_PROB_SUM - 1));
        x->x[i] = vmlaq_u32(bias, f, vshrq_n_u32(x->x[i], PSTI_PLI_PROB_BITS));
        low[i] = vcltq_u32(x->x[i], vdupq_n_u32(1u << 16));
    }
    uint8x8_t masks = psti_pli_refill_masks(low);
    uint64_t which = vget_lane_u64(vreinterpret_u64_u8(masks), 0);
    uint64_t counts = vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(masks)), 0);
    counts *= 0x0202020202020202; /* bytes of words up to the end of each four */
    uint64_t before = counts << 8;
#pragma GCC unroll 8
    for (int i = 0; i < FOURS; i++) {
        const uint8_t *words = x->words + (uint8_t)(before >> (8 * i));
        x->x[i] = psti_pli_refill_four(x->x[i], words, which >> (8 * i));
    }
    x->words += counts >> 56;
}

/* -- Steps -- */

PSTI_NEON_INLINE void keep_tokens(const struct psti_pli_wave_shape *shape, struct states *x,
                                  struct step at)
{
    /* Lane 31 is above lane 0 of the band in which that is when it looks. */
    const struct psti_pli_wave_band *next = shape->front, *after = shape->front;
    if ((at.t & 63) >= 60) {
        after++;
        next += (at.t & 63) >= 62;
    }
    uint8x16_t upper =
        vandq_u8(vandq_u8(x->tokens.v[1], vld1q_u8(next->not_31)), vld1q_u8(after->not_30));
    vst1q_u8(at.row->before, upper);
    row_store(at.row->lanes, x->tokens);
    x->above = turn(x->tokens);
    x->above.v[0] = vandq_u8(x->above.v[0], vld1q_u8(next->not_first));
}

PSTI_NEON_INLINE void run_step(const struct stream *s, const struct psti_pli_wave_shape *shape,
                               struct states *x, struct step at, bool odd, bool wide)
{
    find_contexts(s, shape, x, at, odd, wide);
    if (!wide) {
        run_states_8(s, shape, x, at.t);
        keep_tokens(shape, x, at);
        return;
    }
    uint32x4_t e[FOURS];
    look_up_all(s, x, e);
    x->tokens = tokens_of(e);
    keep_tokens(shape, x, at);
    advance_all(shape, x, e);
}

/* -- Streams -- */

static void open_tables(struct stream *s, const struct psti_pli_wave_job *job, bool wide)
{
    const uint8_t *bucket = psti_pli_wave_bucket[wide], scale = wide ? 4 : 1;
    uint8_t near[32], far[16] = {0};
    for (uint32_t i = 0; i < 32; i++)
        near[i] = (uint8_t)(bucket[i] * scale);
    for (uint32_t i = 2; i < 16; i++) /* buckets of E from 32 on are the same for 16 each */
        far[i] = (uint8_t)(bucket[16 * i] * scale);
    s->near.val[0] = vld1q_u8(near);
    s->near.val[1] = vld1q_u8(near + 16);
    s->far = vld1q_u8(far);
    if (wide) {
        s->slots = psti_pli_wave_slots(job->tables);
        return;
    }
    const struct psti_pli_wave_bounds *b = &job->tables->bounds;
    s->bounds_1 = vld1q_u8(b->of[0]);
    s->bounds_2 = (uint8x16x2_t){{vld1q_u8(b->of[1]), vld1q_u8(b->of[2])}};
    s->bounds_30 = (uint8x16x2_t){{vld1q_u8(b->of[3]), vld1q_u8(b->of[4])}};
    s->bounds_31 = (uint8x16x2_t){{vld1q_u8(b->of[5]), vld1q_u8(b->of[6])}};
    s->activities = vld1q_u8(b->activities);
}

static void open_states(struct states *x, const uint32_t *states, bool wide)
{
    uint8_t low[WAVE_LANES], high[WAVE_LANES];
    for (uint32_t i = 0; wide && i < FOURS; i++)
        x->x[i] = vld1q_u32(states + (size_t)4 * i);
    if (wide)
        return;
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        low[l] = (uint8_t)states[l];
        high[l] = (uint8_t)(states[l] >> 8);
    }
    x->low = row_load(low);
    x->high = row_load(high);
}

static void open_stream(struct stream *s, const struct psti_pli_wave_job *job, bool wide)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    uint8_t *words = wide ? (uint8_t *)m->words : m->words_8;
    size_t nbytes = (wide ? 2 : 1) * head->n_words;
    open_tables(s, job, wide);
    s->width = (uint8_t)job->unit->width;
    s->memory = m;
    s->delay = 64 * head->bands_per_plane;
    /* Two steps take at most 64 words after the last, and the load of four lanes' goes on by 8. */
    memcpy(words, head->words, nbytes);
    memset(words + nbytes, 0, (wide ? 2 : 1) * 3 * WAVE_LANES);
    memset(m->tokens, 0, WAVE_BEFORE * sizeof m->tokens[0]);
    psti_pli_wave_rows_open_bands(job, s->bands);
    s->end = words + nbytes;
    s->states = (struct states){
        .tokens = row_of(0), .above = row_of(0), .context = row_of(0), .words = words};
    open_states(&s->states, head->states, wide);
}

static void close_stream(const struct stream *s, struct psti_pli_wave_job *job, bool wide)
{
    uint32_t x[WAVE_LANES];
    uint8_t low[WAVE_LANES], high[WAVE_LANES];
    job->ends = s->states.words == s->end;
    for (size_t i = 0; i < FOURS; i++)
        vst1q_u32(x + 4 * i, s->states.x[i]);
    row_store(low, s->states.low);
    row_store(high, s->states.high);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        job->low[l] = wide ? (uint16_t)x[l] : low[l];
        job->ends = job->ends && (wide ? x[l] >> 16 : high[l]) == 1;
    }
}

PSTI_NEON_INLINE void run(struct stream *s, const struct psti_pli_wave_job *job, bool wide)
{
    struct states x = s->states;
    const uint8_t *words_end = s->end;
    for (uint32_t k = 0; 64 * k < job->head->n_steps; k++) {
        uint32_t t = 64 * k, end = t + 64;
        end = end < job->head->n_steps ? end : job->head->n_steps;
        const struct psti_pli_wave_shape shape = psti_pli_wave_rows_shape(job, s->bands, k);
        struct step at = step_at(s->memory, t);
        while (at.t < end && x.words <= words_end) {
            run_step(s, &shape, &x, at, false, wide);
            at = (struct step){at.t + 1, at.row + 1, at.all_but_newest, at.all_but_newest - 1};
            if ((at.t & 63) == 63)
                at.all_but_next += 32;
            run_step(s, &shape, &x, at, true, wide);
            at = (struct step){at.t + 1, at.row + 1, at.all_but_newest - 1, at.all_but_newest - 2};
        }
    }
    s->states = x;
}

void psti_pli_wave_neon_tokens(struct psti_pli_wave_job *job)
{
    bool wide = job->unit->bits == 16;
    struct stream s;
    open_stream(&s, job, wide);
    if (wide)
        run(&s, job, true);
    else
        run(&s, job, false);
    close_stream(&s, job, wide);
}
#endif
