/* pli_wave_avx2_tokens8.c - the token loop of the wave decoder for samples of 8 bits with AVX2.
 *
 * In: a parsed unit and its tables; out: rows of 32 activities. Pure functions, any thread. States
 * are two vectors of bytes. A token is found by halving: of 16 contexts' bounds, each a register,
 * vpshufb takes those of all lanes. What follows from it is products of even and of odd lanes, in
 * 16 bits. Words come by one vpshufb, too: running counts of the lanes that take one are their
 * places in the stream. Two units of one shape go through the loop together where there are two:
 * each in the other's waits.
 *
 * Slots and bounds are compared with their bit 7 turned over, as there are comparisons of signed
 * bytes only. */
#include "decode/pli_wave_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* What goes from step to step; kept apart so that loops can hold it in registers. */
struct states {
    v32 hi, lo;     /* lo: bit 7 turned over */
    v32 g, above;   /* activities of the last step, and turned by a lane */
    v32 context;    /* of the next one */
    v32 freq, bias; /* of the tokens found */
    v32 empty;      /* lanes that need a word; until it comes bit 7 of lo is what it is */
    const uint8_t *words;
};

struct stream {
    struct states states;
    const uint8_t *end; /* of the words */
    struct psti_pli_wave_memory *memory;
    size_t delay; /* bytes between a row of a plane and of the next */
    v32 width;
    v32 bounds[7], activities;
    v32 above_15, above_31, fifteen; /* 0x70, 0x60, 15: compilers would make them in each step */
    v32 near, middle, far;           /* contexts, see contexts() */
    _Alignas(32) uint8_t above_2[4][WAVE_LANES]; /* activities turned by two lanes, [t % 4] */
    struct psti_pli_wave_band bands[WAVE_BANDS];
};

/* How E is made in a band: by one formula, by one in the lanes behind and by the next in the lanes
 * that began, or by any. */
enum formula { FIRST, SECOND, THIRD, FIRST_SECOND, SECOND_THIRD, ANY, N_FORMULAS };

/* What the lanes that begin a plane see above: nothing. By step: 0..59, 60 and 61, 62 and 63. */
struct above {
    _Alignas(32) uint8_t masks[3][WAVE_LANES];
};

struct band {
    struct psti_pli_wave_shape shape;
    struct above above;
};

/* -- Contexts -- */

/* `no` where `mask` is 0. */
INLINE v32 blend(v32 no, v32 yes, v32 mask) { return _mm256_blendv_epi8(no, yes, mask); }

/* E of A and B; `before`: the plane before. */
INLINE v32 first_energies(v32 a, v32 b) { return _mm256_adds_epu8(_mm256_add_epi8(a, a), b); }
INLINE v32 second_energies(v32 a, v32 b, v32 before)
{
    const v32 zero = _mm256_setzero_si256();
    v32 halves = _mm256_add_epi8(_mm256_avg_epu8(a, zero), _mm256_avg_epu8(before, zero));
    return _mm256_add_epi8(_mm256_add_epi8(a, b), halves); /* at most 247 */
}
INLINE v32 third_energies(v32 a, v32 b, v32 before)
{
    v32 half = _mm256_avg_epu8(a, _mm256_setzero_si256());
    b = _mm256_add_epi8(_mm256_add_epi8(b, before), before);
    return _mm256_adds_epu8(_mm256_add_epi8(a, half), b);
}
/* If lanes have different formulas. */
INLINE v32 any_energies(const struct stream *s, const struct psti_pli_wave_shape *shape, v32 a,
                        v32 b, struct step at)
{
    const struct psti_pli_wave_band *front = shape->front;
    v32 in_front = row_load(front_lanes(at.t));
    v32 first = pick(in_front, row_load(front->energy), row_load(front[-1].energy));
    if (shape->used) {
        v32 used = pick(in_front, row_load(front->used), row_load(front[-1].used));
        v32 doubled = pick(in_front, row_load(front->doubled), row_load(front[-1].doubled));
        v32 before = _mm256_and_si256(row_load(at.row->lanes - s->delay), used);
        before = _mm256_add_epi8(before, _mm256_and_si256(before, doubled));
        before = _mm256_avg_epu8(before, _mm256_and_si256(before, doubled));
        b = _mm256_add_epi8(b, before);
    }
    b = _mm256_adds_epu8(b, _mm256_avg_epu8(a, _mm256_and_si256(a, first)));
    return _mm256_adds_epu8(a, b);
}

/* E of all lanes. `odd`: the step's parity. */
INLINE v32 energies(const struct stream *s, const struct psti_pli_wave_shape *shape,
                    const struct states *x, struct step at, enum formula formula, bool odd)
{
    v32 cut = row_load(at.all_but_newest), l = x->g, ur = x->above;
    v32 ll = row_load(at.row[-2].lanes), ul = row_load(at.row[-3].above);
    v32 a = _mm256_add_epi8(row_load(at.row[-2].above), row_load(s->above_2[at.t & 3])), b;
    if (odd) { /* one lane is at column 1, another at column 63 */
        ur = _mm256_and_si256(ur, row_load(at.all_but_next));
        b = _mm256_add_epi8(_mm256_and_si256(ll, cut), ul);
    } else { /* one lane is at column 0 */
        l = _mm256_and_si256(l, cut);
        b = _mm256_and_si256(_mm256_add_epi8(ll, ul), cut);
    }
    a = _mm256_add_epi8(_mm256_add_epi8(a, l), ur);
    v32 before = row_load(at.row->lanes - s->delay), in_front = row_load(front_lanes(at.t));
    switch (formula) {
    case FIRST:
        return first_energies(a, b);
    case SECOND:
        return second_energies(a, b, before);
    case THIRD:
        return third_energies(a, b, before);
    case FIRST_SECOND:
        return blend(first_energies(a, b), second_energies(a, b, before), in_front);
    case SECOND_THIRD:
        return blend(second_energies(a, b, before), third_energies(a, b, before), in_front);
    default:
        return any_energies(s, shape, a, b, at);
    }
}

/* Sums get bit 7, for which 0 is looked up, from E = 16 or 32 on. `near` lacks what `middle` adds
 * below 16. */
INLINE v32 contexts(const struct stream *s, v32 e)
{
    v32 near = _mm256_shuffle_epi8(s->near, _mm256_adds_epu8(e, s->above_15));
    v32 middle = _mm256_shuffle_epi8(s->middle, _mm256_adds_epu8(e, s->above_31));
    v32 sixteenths = _mm256_and_si256(_mm256_srli_epi16(e, 4), s->fifteen);
    v32 far = _mm256_shuffle_epi8(s->far, sixteenths);
    return _mm256_add_epi8(_mm256_add_epi8(far, middle), near);
}

INLINE void find_contexts(const struct stream *s, const struct psti_pli_wave_shape *shape,
                          struct states *x, struct step at, enum formula formula, bool odd)
{
    x->context = contexts(s, energies(s, shape, x, at, formula, odd));
}

/* -- States and words -- */

/* Each lane's token: its activity, its frequency, and how far behind its first slot the state is.
 */
INLINE void find_tokens(const struct stream *s, struct states *x)
{
    const v32 none = _mm256_set1_epi8(0x7f); /* 255 */
    v32 c = x->context, lo = x->lo, bound[7];
#pragma GCC unroll 7
    for (int i = 0; i < 7; i++)
        bound[i] = _mm256_shuffle_epi8(s->bounds[i], c);
    v32 m1 = _mm256_cmpgt_epi8(lo, bound[0]);
    v32 b2 = blend(bound[1], bound[2], m1);
    v32 m2 = _mm256_cmpgt_epi8(lo, b2);
    v32 b3 = blend(blend(bound[3], bound[4], m1), blend(bound[5], bound[6], m1), m2);
    v32 m3 = _mm256_cmpgt_epi8(lo, b3);
    /* Where the token's slots begin and end, less 1. */
    v32 below = blend(blend(none, bound[0], m1), b2, m2);
    v32 above = blend(b2, blend(bound[0], none, m1), m2);
    below = blend(below, b3, m3);
    above = blend(b3, above, m3);
    x->freq = _mm256_sub_epi8(above, below);
    x->bias = _mm256_add_epi8(_mm256_sub_epi8(lo, below), _mm256_set1_epi8(-1));
    v32 which = _mm256_sub_epi8(_mm256_and_si256(m2, _mm256_set1_epi8(2)), m1);
    which = _mm256_add_epi8(which, _mm256_and_si256(m3, _mm256_set1_epi8(4)));
    x->g = _mm256_shuffle_epi8(s->activities, which);
}

/* x := frequency * (x >> 8) + bias, without the word that may follow. */
INLINE void advance(const struct stream *s, const struct psti_pli_wave_shape *shape,
                    struct states *x, uint32_t t, bool whole)
{
    const v32 even = _mm256_set1_epi16(255), odd = _mm256_set1_epi16((short)0xff00);
    v32 x_0 = _mm256_mullo_epi16(_mm256_and_si256(x->freq, even), _mm256_and_si256(x->hi, even));
    v32 x_1 = _mm256_mullo_epi16(_mm256_srli_epi16(x->freq, 8), _mm256_srli_epi16(x->hi, 8));
    x_0 = _mm256_add_epi16(x_0, _mm256_and_si256(x->bias, even));
    x_1 = _mm256_add_epi16(x_1, _mm256_srli_epi16(x->bias, 8));
    v32 hi = blend(_mm256_srli_epi16(x_0, 8), x_1, odd);
    v32 lo = blend(x_0, _mm256_slli_epi16(x_1, 8), odd);
    x->empty = _mm256_cmpeq_epi8(hi, _mm256_setzero_si256());
    hi = blend(hi, lo, x->empty);
    if (!whole) {
        v32 active = active_lanes(s->width, shape, t);
        x->empty = _mm256_and_si256(x->empty, active);
        x->g = _mm256_and_si256(x->g, active);
        hi = blend(x->hi, hi, active);
        lo = blend(_mm256_xor_si256(x->lo, _mm256_set1_epi8((char)0x80)), lo, active);
    }
    x->hi = hi;
    x->lo = lo;
}

INLINE void take_words(struct states *x)
{
    const v32 up_1 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, -1, -1, -1, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11));
    const v32 up_2 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 3, 3, 3, 3, 7, 7, 7, 7));
    uint32_t lanes = (uint32_t)_mm256_movemask_epi8(x->empty);
    const uint8_t *words = x->words, *words_16 = words + _mm_popcnt_u32(lanes & 0xffff);
    x->words = words + _mm_popcnt_u32(lanes);
    /* Counts in each half, up to and including a lane: of fours (255 times that factor is
     * 0x01010101), then of all before. */
    v32 counts = _mm256_mullo_epi32(x->empty, _mm256_set1_epi32(-0x04030201));
    counts = _mm256_add_epi8(counts, _mm256_shuffle_epi8(counts, up_1));
    v32 before = _mm256_shuffle_epi8(counts, up_2);
    counts = _mm256_add_epi8(_mm256_add_epi8(counts, x->empty), before); /* less 1 */
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)words);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)words_16);
    v32 both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    x->lo = _mm256_xor_si256(blend(x->lo, _mm256_shuffle_epi8(both, counts), x->empty),
                             _mm256_set1_epi8((char)0x80));
}

INLINE void keep_activities(struct stream *s, const struct above *above, struct states *x,
                            struct step at)
{
    uint32_t pair = (at.t & 63) >> 1;
    const uint8_t *mask = above->masks[pair < 30 ? 0 : pair - 29];
    v32 halves = _mm256_permute2x128_si256(x->g, x->g, 1);
    halves = _mm256_and_si256(halves, row_load(mask));
    x->above = _mm256_alignr_epi8(x->g, halves, 15);
    row_store(at.row->above, x->above);
    row_store(at.row->lanes, x->g);
    row_store(s->above_2[at.t & 3], _mm256_alignr_epi8(x->g, halves, 14));
}

/* -- Streams -- */

static void open_above(const struct psti_pli_wave_band *front, struct above *above)
{
    uint8_t now = front->not_first[0], next = front[1].not_first[0];
    memset(above->masks, 255, sizeof above->masks);
    for (uint32_t i = 0; i < 3; i++) {
        above->masks[i][14] = i < 1 ? now : next; /* lane 30, seen four steps later */
        above->masks[i][15] = i < 2 ? now : next; /* lane 31, one to three; four by lane 1 */
    }
}

static struct band open_band(const struct psti_pli_wave_job *job, const struct stream *s,
                             uint32_t k)
{
    struct band band = {.shape = psti_pli_wave_rows_shape(job, s->bands, k)};
    open_above(band.shape.front, &band.above);
    return band;
}

static enum formula formula_of_lanes(const struct psti_pli_wave_band *band)
{
    if (band->energy[0] != 0)
        return FIRST;
    if (band->used[0] == 0)
        return ANY;
    return band->doubled[0] != 0 ? THIRD : SECOND;
}
static enum formula formula_of(const struct psti_pli_wave_shape *shape)
{
    enum formula front = formula_of_lanes(shape->front), rear = formula_of_lanes(shape->front - 1);
    if (!shape->mixed)
        return front;
    if (rear == FIRST && front == SECOND)
        return FIRST_SECOND;
    return rear == SECOND && front == THIRD ? SECOND_THIRD : ANY;
}

static void TARGET open_stream(struct stream *s, const struct psti_pli_wave_job *job)
{
    const struct psti_pli_wave_head *head = job->head;
    struct psti_pli_wave_memory *m = job->memory;
    const struct psti_pli_wave_bounds *bounds = &job->tables->bounds;
    const uint8_t *bucket = psti_pli_wave_bucket[0];
    const v32 top = _mm256_set1_epi8((char)0x80);
    uint8_t near[16], far[16], hi[WAVE_LANES], lo[WAVE_LANES];
    for (uint32_t i = 0; i < 16; i++) {
        near[i] = (uint8_t)(bucket[i] - bucket[16 + i]);
        far[i] = i < 2 ? 0 : bucket[16 * i];
    }
    s->above_15 = _mm256_set1_epi8(0x70);
    s->above_31 = _mm256_set1_epi8(0x60);
    s->fifteen = _mm256_set1_epi8(15);
    s->near = both_halves(near);
    s->middle = both_halves(bucket + 16);
    s->far = both_halves(far);
    for (uint32_t i = 0; i < 7; i++)
        s->bounds[i] = _mm256_xor_si256(both_halves(bounds->of[i]), top);
    s->activities = both_halves(bounds->activities);
    s->width = _mm256_set1_epi8((char)job->unit->width);
    s->memory = m;
    s->delay = 64 * head->bands_per_plane * sizeof m->tokens[0];
    memcpy(m->words_8, head->words, head->n_words);
    memset(m->words_8 + head->n_words, 0, 3 * WAVE_LANES);
    s->end = m->words_8 + head->n_words;
    memset(m->tokens, 0, WAVE_BEFORE * sizeof m->tokens[0]);
    memset(s->above_2, 0, sizeof s->above_2);
    psti_pli_wave_rows_open_bands(job, s->bands);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        hi[l] = (uint8_t)(head->states[l] >> 8);
        lo[l] = (uint8_t)head->states[l];
    }
    s->states = (struct states){
        .hi = row_load(hi), .lo = _mm256_xor_si256(row_load(lo), top), .words = m->words_8};
}

static void TARGET close_stream(const struct stream *s, struct psti_pli_wave_job *job)
{
    uint8_t lo[WAVE_LANES];
    v32 ends = _mm256_cmpeq_epi8(s->states.hi, _mm256_set1_epi8(1));
    row_store(lo, _mm256_xor_si256(s->states.lo, _mm256_set1_epi8((char)0x80)));
    for (uint32_t l = 0; l < WAVE_LANES; l++)
        job->low[l] = lo[l];
    job->ends = s->states.words == s->end && _mm256_movemask_epi8(ends) == -1;
}

/* Steps t .. end - 1 of one unit or, for each to stand where the other's chain waits, of two of
 * one shape. Stops where the words of either are used up. */
INLINE void run_band(struct stream *s, const struct band *band, uint32_t t, uint32_t end,
                     enum formula formula, bool whole, bool two)
{
    const struct psti_pli_wave_shape *shape = &band->shape;
    struct stream *s_1 = two ? s + 1 : s;
    struct states x = s->states, y = s_1->states;
    find_contexts(s, shape, &x, step_at(s->memory, t), formula, false);
    if (two)
        find_contexts(s_1, shape, &y, step_at(s_1->memory, t), formula, false);
    for (; t < end && x.words <= s->end && y.words <= s_1->end; t += 2) {
#pragma GCC unroll 2
        for (uint32_t i = 0; i < 2; i++) {
            bool more = i == 0 || t + 2 < end;
            find_tokens(s, &x);
            if (two)
                find_tokens(s_1, &y);
            advance(s, shape, &x, t + i, whole);
            if (two)
                advance(s_1, shape, &y, t + i, whole);
            keep_activities(s, &band->above, &x, step_at(s->memory, t + i));
            if (two)
                keep_activities(s_1, &band->above, &y, step_at(s_1->memory, t + i));
            if (more)
                find_contexts(s, shape, &x, step_at(s->memory, t + i + 1), formula, i == 0);
            if (two && more)
                find_contexts(s_1, shape, &y, step_at(s_1->memory, t + i + 1), formula, i == 0);
            take_words(&x);
            if (two)
                take_words(&y);
        }
    }
    s->states = x;
    if (two)
        s_1->states = y;
}

#define BAND(name, formula, whole, two)                                                            \
    static void TARGET name(struct stream *s, const struct band *band, uint32_t t, uint32_t end)   \
    {                                                                                              \
        run_band(s, band, t, end, formula, whole, two);                                            \
    }
BAND(one_first, FIRST, true, false)
BAND(one_second, SECOND, true, false)
BAND(one_third, THIRD, true, false)
BAND(one_first_second, FIRST_SECOND, true, false)
BAND(one_second_third, SECOND_THIRD, true, false)
BAND(one_part_first, FIRST, false, false)
BAND(one_part_third, THIRD, false, false)
BAND(one_part, ANY, false, false)
BAND(two_first, FIRST, true, true)
BAND(two_second, SECOND, true, true)
BAND(two_third, THIRD, true, true)
BAND(two_first_second, FIRST_SECOND, true, true)
BAND(two_second_third, SECOND_THIRD, true, true)
BAND(two_part_first, FIRST, false, true)
BAND(two_part_third, THIRD, false, true)
BAND(two_part, ANY, false, true)

typedef void run_function(struct stream *s, const struct band *band, uint32_t t, uint32_t end);

static void TARGET run(struct stream *s, const struct psti_pli_wave_job *job, bool two)
{
    /* [two?][whole?][formula]; what is rare has no loop of its own. */
    static run_function *const bands[2][2][N_FORMULAS] = {
        {{one_part_first, one_part, one_part_third, one_part, one_part, one_part},
         {one_first, one_second, one_third, one_first_second, one_second_third, one_part}},
        {{two_part_first, two_part, two_part_third, two_part, two_part, two_part},
         {two_first, two_second, two_third, two_first_second, two_second_third, two_part}}};
    uint32_t n_steps = job->head->n_steps;
    for (uint32_t k = 0, t = 0; t < n_steps; k++, t += 64) {
        uint32_t end = t + 64 < n_steps ? t + 64 : n_steps;
        struct band band = open_band(job, s, k);
        bands[two][band.shape.whole][formula_of(&band.shape)](s, &band, t, end);
    }
}

void TARGET psti_pli_wave_avx2_tokens8_two(struct psti_pli_wave_job jobs[2])
{
    struct stream s[2];
    open_stream(s, jobs);
    open_stream(s + 1, jobs + 1);
    run(s, jobs, true);
    close_stream(s, jobs);
    close_stream(s + 1, jobs + 1);
}

void TARGET psti_pli_wave_avx2_tokens8(struct psti_pli_wave_job *job)
{
    struct stream s;
    open_stream(&s, job);
    run(&s, job, false);
    close_stream(&s, job);
}
#endif
