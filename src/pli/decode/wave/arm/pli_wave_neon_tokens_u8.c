/* pli_wave_neon_tokens_u8.c - the token loop of the wave decoder for samples of 8 bits with NEON.
 *
 * It decodes a parsed unit, with its tables, to rows of 32 activities, one row for each step of
 * pairs. The functions are pure; any thread may call them.
 *
 * Neighbours are from the last two steps and stay in registers. A state is two bytes: its high
 * half, and its low half, which is a slot. A binary search, by look-ups in tables of 16 contexts,
 * finds the two bounds around each slot. The number of lanes before a lane that take a byte says
 * which byte the lane takes. A step is some 170 instructions, 130 of them vector instructions, and
 * 40 more if lanes are idle. */
#include "pli/decode/wave/arm/pli_wave_neon.h"

#if defined(PSTI_NEON)
#include <string.h>

enum { PAIRS = PSTI_PLI_WAVE_PAIRS, HALF = WAVE_LANES / 2 };

/* The state that is passed from step to step. It is a struct of its own, which loops can keep in
 * registers. */
struct states {
    v32 low, high;
    /* The activities of the next step's neighbours: gL, gLL; gU, gUL; gUU, gUUR. above_2_right
     * still contains values from the right of the row's last pair; they must not be used. */
    v32 left, far_left, above, above_left, above_2, above_2_right;
    const uint8_t *words;
};

struct stream {
    struct states states;
    const uint8_t *end; /* end of the unit's words */
    struct psti_pli_wave_memory *memory;
    size_t delay; /* bytes from a row of a plane to the same row of the next plane */
    uint8_t width;
    uint8x16x2_t near; /* contexts of energies below 32, indexed by energy */
    uint8x16_t far;    /* contexts of all other energies, indexed by energy / 16 */
    const struct psti_pli_wave_bounds *bounds;
    struct psti_pli_wave_band bands[WAVE_BANDS];
};

/* Values that 32 steps share, from step 32 k - 1 on. The steps after that one are in band k.
 * `front` begins band k, while the band before it ends. */
struct block {
    struct psti_pli_wave_shape shape;
    uint8x16_t not_first;      /* 0 in lane 0 if the band that begins is the first one of its plane,
                                * else 255 */
    uint8x16_t not_first_2[2]; /* lanes that have pairs two rows above; [1] is for the last step */
    /* own: all lanes have gLL as the extra term of their energy. cross: all lanes have g1
     * (docs/format-pli.md, 5.6). */
    bool own, cross;
};

/* -- Contexts -- */

/* Returns a mask of the lanes in the front band before step `next`. In step `next`, which is step
 * `next` % 32 of its band, it has one lane more. */
PSTI_NEON_INLINE v32 lanes_in_front(uint32_t next)
{
    return row_load(psti_pli_wave_first_lanes + WAVE_LANES - next % PAIRS);
}

PSTI_NEON_INLINE v32 z_of(const struct stream *s, const struct block *b, const struct states *x,
                          const uint8_t *row, uint32_t next, bool general)
{
    if (!general || b->own || b->cross)
        return b->cross ? row_load(row - s->delay) : x->far_left;
    const struct psti_pli_wave_band *front = b->shape.front;
    v32 in_front = lanes_in_front(next);
    v32 third = pick(in_front, row_load(front->third), row_load(front[-1].third));
    v32 cross = pick(in_front, row_load(front->doubled), row_load(front[-1].doubled));
    return row_add(row_and_not(x->far_left, third), row_and(row_load(row - s->delay), cross));
}

PSTI_NEON_INLINE v32 energies(const struct states *x, v32 z, uint8x16_t cut, int half)
{
    v32 right = x->above_2_right, side = row_add(x->left, x->above);
    right.v[half] = vandq_u8(right.v[half], cut);
    v32 rest = row_add(row_add(x->above_2, z), row_average_up(x->above_left, right));
    return row_add_saturated(row_add(side, side), rest);
}

PSTI_NEON_INLINE v32 contexts(const struct stream *s, v32 e)
{
    v32 c;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) /* the look-up whose table does not have the index gives 0 */
        c.v[i] = vorrq_u8(vqtbl1q_u8(s->far, vshrq_n_u8(e.v[i], 4)), vqtbl2q_u8(s->near, e.v[i]));
    return c;
}

/* -- States, and the bytes that they take -- */

/* The bounds between which each lane's slot lies. The slots of the lane's token begin above
 * `below`, and those of the next token begin above `above`. `below` wraps around: 255 means below
 * slot 0. */
struct found {
    v32 below, above, activities;
};

/* The next three functions return the bytes at indices `at` of tables of one, two and four
 * registers. */
PSTI_NEON_INLINE v32 look_up(const uint8_t *table, v32 at)
{
    const uint8x16_t t = vld1q_u8(table);
    return (v32){{vqtbl1q_u8(t, at.v[0]), vqtbl1q_u8(t, at.v[1])}};
}
PSTI_NEON_INLINE v32 look_up_2(const uint8_t *table, v32 at)
{
    const uint8x16x2_t t = vld1q_u8_x2(table);
    return (v32){{vqtbl2q_u8(t, at.v[0]), vqtbl2q_u8(t, at.v[1])}};
}
PSTI_NEON_INLINE v32 look_up_4(const uint8_t *table, v32 at)
{
    const uint8x16x4_t t = vld1q_u8_x4(table);
    return (v32){{vqtbl4q_u8(t, at.v[0]), vqtbl4q_u8(t, at.v[1])}};
}
PSTI_NEON_INLINE v32 are_above(v32 slots, v32 bound)
{
    return (v32){{vcgtq_u8(slots.v[0], bound.v[0]), vcgtq_u8(slots.v[1], bound.v[1])}};
}

PSTI_NEON_INLINE struct found search(const struct stream *s, v32 slots, v32 at)
{
    const struct psti_pli_wave_bounds *b = s->bounds;
    struct found f;
    v32 bound = look_up(b->of[0], at), above = are_above(slots, bound);
    at = pick(row_of(16), above, at);
    f.below = row_or_not(bound, above);
    f.above = row_or(bound, above);
    bound = look_up_2(b->of[1], at);
    /* The third and fourth bounds are looked up for both results of the comparison before them. */
    v32 bound_0 = look_up_2(b->of[3], at), bound_1 = look_up_2(b->of[5], at);
    above = are_above(slots, bound);
    f.below = pick(above, bound, f.below);
    f.above = pick(above, f.above, bound);
    at = pick(row_of(32), above, at);
    bound = pick(above, bound_1, bound_0);
    bound_0 = look_up_4(b->of[7], at);
    bound_1 = look_up_4(b->of[11], at);
    above = are_above(slots, bound);
    f.below = pick(above, bound, f.below);
    f.above = pick(above, f.above, bound);
    at = pick(row_of(64), above, at);
    bound = pick(above, bound_1, bound_0);
    above = are_above(slots, bound);
    f.below = pick(above, bound, f.below);
    f.above = pick(above, f.above, bound);
    at = (v32){{vshrq_n_u8(at.v[0], 4), vshrq_n_u8(at.v[1], 4)}};
    f.activities = look_up(b->activities, pick(row_of(8), above, at));
    return f;
}

/* Gives the lanes of `empty` the next bytes, in ascending order. Other lanes get arbitrary bytes.
 * `*words` moves past the bytes taken. */
PSTI_NEON_INLINE v32 take_bytes(const uint8_t **words, v32 empty)
{
    const uint8x16x2_t next = vld1q_u8_x2(*words);
    uint8x16_t first = counts_up_to(empty.v[0]);
    uint8x16_t second = counts_up_to(empty.v[1]);
    second = vaddq_u8(second, vdupq_laneq_u8(first, 15));
    *words += vgetq_lane_u8(second, 15);
    /* `empty` is -1, so these sums are the counts up to the lane before each lane. */
    return (v32){{vqtbl1q_u8(next.val[0], vaddq_u8(first, empty.v[0])),
                  vqtbl2q_u8(next, vaddq_u8(second, empty.v[1]))}};
}

/* Decodes one token in each lane: x := frequency * (x >> 8) + slot - first slot; if that is below
 * 2^8, the lane takes the next byte. Returns activities. */
PSTI_NEON_INLINE v32 run_states(const struct stream *s, const struct block *b, struct states *x,
                                v32 e, uint32_t next, bool general)
{
    const struct found f = search(s, x->low, contexts(s, e));
    v32 low, high, activities = f.activities, empty;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        uint8x16_t h = x->high.v[i], slots = x->low.v[i];
        uint8x16_t freq = vsubq_u8(f.above.v[i], f.below.v[i]);
        uint8x16_t first = vaddq_u8(f.below.v[i], vdupq_n_u8(1));
        uint8x16_t a = vreinterpretq_u8_u16(vmlal_u8(
            vsubl_u8(vget_low_u8(slots), vget_low_u8(first)), vget_low_u8(freq), vget_low_u8(h)));
        uint8x16_t c = vreinterpretq_u8_u16(vmlal_high_u8(vsubl_high_u8(slots, first), freq, h));
        low.v[i] = vuzp1q_u8(a, c);
        high.v[i] = vuzp2q_u8(a, c);
    }
    if (general && !b->shape.whole) {
        v32 active = active_lanes(s->width, &b->shape, lanes_in_front(next), 2 * (next - 1));
        low = pick(active, low, x->low);
        high = pick(active, high, x->high);
        activities = row_and(activities, active);
    }
    empty = (v32){{vceqq_u8(high.v[0], vdupq_n_u8(0)), vceqq_u8(high.v[1], vdupq_n_u8(0))}};
    x->high = pick(empty, low, high);
    x->low = pick(empty, take_bytes(&x->words, empty), low);
    return activities;
}

/* -- Steps -- */

/* Updates the neighbours of one half of the lanes with the activities `g` of the step. `cut` is 0
 * in the lane of this half that ends its row and begins another one in the next step. */
PSTI_NEON_INLINE void keep_neighbours(const struct block *b, struct states *x, v32 g,
                                      uint8x16_t cut, int half, bool last)
{
    x->far_left = x->left;
    x->far_left.v[half] = vandq_u8(x->left.v[half], cut);
    x->left = g;
    x->left.v[half] = vandq_u8(g.v[half], cut);
    x->above_left = x->above;
    x->above_left.v[half] = vandq_u8(x->above.v[half], cut);
    x->above_2 = x->above_2_right;
    x->above = turn(g);
    x->above.v[0] = vandq_u8(x->above.v[0], b->not_first);
    x->above_2_right.v[0] = vandq_u8(vextq_u8(g.v[1], g.v[0], 14), b->not_first_2[last]);
    x->above_2_right.v[1] = vextq_u8(g.v[0], g.v[1], 14);
}

/* Does 16 steps, beginning with the step before `next`. In step `next` lane 16 * `half` begins its
 * row. */
PSTI_NEON_INLINE void run_half(const struct stream *s, const struct block *b, struct states *x,
                               uint32_t next, int half, bool general)
{
    uint8_t *row = s->memory->tokens[WAVE_BEFORE + next - 1].lanes;
    const uint8_t *cuts = psti_pli_wave_all_but_one + 31;
    const uint8_t *words_end = s->end + 1; /* if the words reach beyond this address, the unit is
                                            * damaged */
    for (uint32_t i = 0; i < HALF; i += 2) {
#pragma GCC unroll 2
        for (uint32_t j = i; j < i + 2; j++) {
            uint8x16_t cut = vld1q_u8(cuts - j);
            v32 z = z_of(s, b, x, row, next + j, general);
            v32 g = run_states(s, b, x, energies(x, z, cut, half), next + j, general);
            x->words = x->words < words_end ? x->words : words_end;
            row_store(row, g);
            row += sizeof(struct psti_pli_wave_row);
            keep_neighbours(b, x, g, cut, half, half == 1 && j == HALF - 1);
        }
    }
}

PSTI_NEON_INLINE void run_block(struct stream *s, const struct block *b, uint32_t next,
                                bool general)
{
    struct states x = s->states;
    run_half(s, b, &x, next, 0, general);
    run_half(s, b, &x, next + HALF, 1, general);
    s->states = x;
}

/* -- Streams -- */

static struct block block_at(const struct stream *s, const struct psti_pli_wave_job *job,
                             uint32_t k)
{
    const uint8x16_t all_but_1 = vld1q_u8(psti_pli_wave_all_but_one + 30);
    struct block b = {.shape = psti_pli_wave_rows_shape(job, s->bands, k)};
    const struct psti_pli_wave_band *front = b.shape.front;
    b.own = front->third[0] == 0 && front[-1].third[0] == 0;
    b.cross = front->doubled[0] != 0 && front[-1].doubled[0] != 0;
    /* The next two steps read values of two rows above. Lane 1 enters a band one step after lane
     * 0. */
    b.not_first = vld1q_u8(front->not_first);
    uint8x16_t of_1 = front->not_first[0] == 0 ? all_but_1 : vdupq_n_u8(255);
    b.not_first_2[0] = vandq_u8(of_1, b.not_first);
    b.not_first_2[1] = vandq_u8(of_1, vld1q_u8(front[1].not_first));
    return b;
}

static void run(struct stream *s, const struct psti_pli_wave_job *job)
{
    for (uint32_t k = 0; k <= job->head->n_bands; k++) {
        const struct block b = block_at(s, job, k);
        if (b.shape.whole && (b.own || b.cross))
            run_block(s, &b, PAIRS * k, false);
        else
            run_block(s, &b, PAIRS * k, true);
    }
}

static void open_tables(struct stream *s, const struct psti_pli_wave_bounds *bounds)
{
    const uint8_t *bucket = psti_pli_wave_bucket[0];
    uint8_t far[16] = {0};
    for (uint32_t i = 2; i < 16; i++) /* from energy 32 on, 16 energies share a context */
        far[i] = bucket[16 * i];
    s->near = (uint8x16x2_t){{vld1q_u8(bucket), vld1q_u8(bucket + 16)}};
    s->far = vld1q_u8(far);
    s->bounds = bounds;
}

static void open_stream(struct stream *s, const struct psti_pli_wave_job *job)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    uint8_t low[WAVE_LANES], high[WAVE_LANES];
    const v32 none = row_of(0);
    open_tables(s, &job->tables->bounds);
    psti_pli_wave_rows_open_bands(job, s->bands);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        low[l] = (uint8_t)head->states[l];
        high[l] = (uint8_t)(head->states[l] >> 8);
    }
    /* Loads may read 33 bytes after the words. */
    memcpy(m->words_u8, head->words, head->n_words);
    memset(m->words_u8 + head->n_words, 0, 2 * WAVE_LANES);
    s->end = m->words_u8 + head->n_words;
    s->memory = m;
    s->delay = PAIRS * head->bands_per_plane * sizeof(struct psti_pli_wave_row);
    s->width = (uint8_t)job->unit->width;
    s->states = (struct states){row_load(low), row_load(high), none, none,       none,
                                none,          none,           none, m->words_u8};
}

void psti_pli_wave_neon_tokens(struct psti_pli_wave_job *job)
{
    struct stream s;
    uint8_t low[WAVE_LANES], high[WAVE_LANES];
    open_stream(&s, job);
    run(&s, job);
    row_store(low, s.states.low);
    row_store(high, s.states.high);
    job->ends = s.states.words == s.end;
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        job->low[l] = low[l];
        job->ends = job->ends && high[l] == 1;
    }
}
#endif
