/* pli_wave_neon_tokens_u16.c - the token loop of the wave decoder for samples of 16 bits with NEON.
 *
 * In: a parsed unit and its tables; out: rows of 32 tokens. Pure functions, any thread.
 *
 * Look-ups go through general registers, an index of 16 bits each. Words come to the
 * states that need them by one tbl of two registers for each four states, one with the states and
 * one with the words; which of its 16 orders it uses says the mask of the four. A step is some 350
 * instructions, half of them of vectors; a Neoverse N1, which starts two of these a cycle, is bound
 * by them, processors that start four by the chain slots -> look-ups -> states -> which lanes take
 * words -> slots. */
#include "pli/decode/arm/pli_refill_neon.h"
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include "base/bits.h"

#include <string.h>

enum { FOURS = WAVE_LANES / 4 };

/* What goes from step to step; kept apart so that loops can hold it in registers. */
struct states {
    uint32x4_t x[FOURS];
    v32 tokens, above; /* of the last step */
    v32 context;       /* of the next one, times 4 */
    const uint8_t *words;
};

struct stream {
    struct states states;
    const uint8_t *end; /* of the words */
    struct psti_pli_wave_memory *memory;
    const uint32_t *slots;
    uint32_t delay; /* rows between a plane and the next */
    uint8_t width;
    uint8x16x2_t near; /* contexts of E < 32, times 4 */
    uint8x16_t far;    /* of others by E / 16 */
    struct psti_pli_wave_band bands[WAVE_BANDS];
};

/* -- Contexts -- */

/* E: half of 2 A + B in lanes of `first`, in others of A + H(A) + B + 2 `twice`. Tokens
 * are at most 46: nothing exceeds a byte. */
PSTI_NEON_INLINE v32 sum_energies(v32 a, v32 b, v32 first, v32 twice)
{
    v32 others = row_and_not(a, first);
    b = row_add(b, row_average_up(others, row_of(0)));
    v32 e = row_average_down(others, b);
    return row_add(row_add(e, twice), row_and(a, first));
}

/* E of all lanes. `odd`: the step's parity. */
PSTI_NEON_INLINE v32 energies(const struct stream *s, const struct psti_pli_wave_shape *shape,
                              const struct states *x, struct step at, bool odd)
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
        return row_add(a, row_average_down(b, row_of(0)));
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
        b = row_add(b, row_average_up(row_sub(before, twice), row_of(0)));
    } else if (shape->mixed) {
        first = pick(row_load(front_lanes(at.t)), first, row_load(front[-1].energy));
    }
    return sum_energies(a, b, first, twice);
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

PSTI_NEON_INLINE void find_contexts(const struct stream *s, const struct psti_pli_wave_shape *shape,
                                    struct states *x, struct step at, bool odd)
{
    x->context = contexts(s, energies(s, shape, x, at, odd));
    if (!shape->whole)
        x->context = pick(active_lanes(s->width, shape, row_load(front_lanes(at.t)), at.t),
                          x->context, row_of(4 * PSTI_PLI_WAVE_IDLE));
}

/* -- Look-ups -- */

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

/* -- States and words -- */

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
                               struct states *x, struct step at, bool odd)
{
    uint32x4_t e[FOURS];
    find_contexts(s, shape, x, at, odd);
    look_up_all(s, x, e);
    x->tokens = tokens_of(e);
    keep_tokens(shape, x, at);
    advance_all(shape, x, e);
}

/* -- Streams -- */

static void open_tables(struct stream *s, const struct psti_pli_wave_job *job)
{
    const uint8_t *bucket = psti_pli_wave_bucket[1];
    uint8_t near[32], far[16] = {0};
    for (uint32_t i = 0; i < 32; i++)
        near[i] = (uint8_t)(bucket[i] * 4);
    for (uint32_t i = 2; i < 16; i++) /* buckets of E from 32 on are the same for 16 each */
        far[i] = (uint8_t)(bucket[16 * i] * 4);
    s->near = (uint8x16x2_t){{vld1q_u8(near), vld1q_u8(near + 16)}};
    s->far = vld1q_u8(far);
    s->slots = psti_pli_wave_slots(job->tables);
}

static void open_stream(struct stream *s, const struct psti_pli_wave_job *job)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    uint8_t *words = (uint8_t *)m->words;
    size_t nbytes = 2 * head->n_words;
    open_tables(s, job);
    s->width = (uint8_t)job->unit->width;
    s->memory = m;
    s->delay = 64 * head->bands_per_plane;
    /* Two steps take at most 64 words after the last, and the load of four lanes' goes on by 8. */
    memcpy(words, head->words, nbytes);
    memset(words + nbytes, 0, 2 * 3 * WAVE_LANES);
    memset(m->tokens, 0, WAVE_BEFORE * sizeof m->tokens[0]);
    psti_pli_wave_rows_open_bands(job, s->bands);
    s->end = words + nbytes;
    s->states = (struct states){
        .tokens = row_of(0), .above = row_of(0), .context = row_of(0), .words = words};
    for (size_t i = 0; i < FOURS; i++)
        s->states.x[i] = vld1q_u32(head->states + 4 * i);
}

static void close_stream(const struct stream *s, struct psti_pli_wave_job *job)
{
    uint32_t x[WAVE_LANES];
    job->ends = s->states.words == s->end;
    for (size_t i = 0; i < FOURS; i++)
        vst1q_u32(x + 4 * i, s->states.x[i]);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        job->low[l] = (uint16_t)x[l];
        job->ends = job->ends && x[l] >> 16 == 1;
    }
}

void psti_pli_wave_neon_tokens(struct psti_pli_wave_job *job)
{
    struct stream s;
    open_stream(&s, job);
    struct states x = s.states;
    for (uint32_t k = 0; 64 * k < job->head->n_steps; k++) {
        uint32_t t = 64 * k, end = t + 64;
        end = end < job->head->n_steps ? end : job->head->n_steps;
        const struct psti_pli_wave_shape shape = psti_pli_wave_rows_shape(job, s.bands, k);
        struct step at = step_at(s.memory, t);
        while (at.t < end && x.words <= s.end) {
            run_step(&s, &shape, &x, at, false);
            at = (struct step){at.t + 1, at.row + 1, at.all_but_newest, at.all_but_newest - 1};
            if ((at.t & 63) == 63)
                at.all_but_next += 32;
            run_step(&s, &shape, &x, at, true);
            at = (struct step){at.t + 1, at.row + 1, at.all_but_newest - 1, at.all_but_newest - 2};
        }
    }
    s.states = x;
    close_stream(&s, job);
}
#endif
