/* pli_wave_avx2_tokens_u8.c - the token loop of the wave decoder for samples of 8 bits with AVX2.
 *
 * It decodes a parsed unit, with its tables, to rows of 32 activities of pairs. The functions
 * are pure; any thread may call them. States are two vectors of bytes. A binary search finds the
 * token: each vector holds one bound for 16 contexts, and vpshufb picks the bound of each lane. The
 * new states are products of even and of odd lanes, in 16 bits. One vpshufb also loads the words:
 * running counts of the lanes that take a word are the words' indices in the stream. Two units of
 * one shape go through the loop together, each in the waits of the other.
 *
 * Slots and bounds are compared with their bit 7 inverted, because AVX2 compares only signed bytes.
 */
#include "pli/decode/wave/x86/pli_wave_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* The state that is passed from step to step. It is a struct of its own, which loops can keep in
 * registers. */
struct states {
    v32 hi, lo;           /* halves of the states; lo has bit 7 inverted */
    v32 g;                /* activities of the last step */
    v32 above, above_2;   /* g, rotated by one lane and by two lanes */
    v32 left;             /* gL of the last step, which is gLL of the next step */
    v32 far_up, far_up_2; /* `above` and `above_2` of the last step */
    v32 context;          /* context of the next step */
    v32 freq, bias;       /* frequency and bias of the tokens found */
    /* Mask of the lanes that need a word. Bit 7 of their `lo` is not inverted until they have the
     * word. */
    v32 empty;
    const uint8_t *words;
};

struct stream {
    struct states states;
    const uint8_t *end; /* end of the unit's words */
    struct psti_pli_wave_row *rows;
    size_t delay; /* distance in rows from a row of a plane to the same row of the next plane */
    v32 width;
    v32 bounds[PSTI_PLI_N_TOKENS_8 - 1], activities;
    /* Bytes of 0x70, 0x60, 15, 2, 4, 8 and 0x7f. They are in memory because compilers would make
     * them anew in each step. */
    v32 above_15, above_31, fifteen, two, four, eight, none;
    v32 near, middle, far; /* tables of contexts, see contexts() */
};

/* The extra term of energy in a band (docs/format-pli.md, 5.6): gLL in all lanes, g1 in all lanes,
 * or one of them by lane. */
enum formula { LEFT, BEFORE, ANY, N_FORMULAS };

/* Masks that are 0 for the lanes above the first lanes of a plane, because nothing is above these.
 * [0] is for steps 0..29 of the band, [1] for step 30, [2] for step 31. */
struct above {
    _Alignas(32) uint8_t masks[3][WAVE_LANES];
};

struct band {
    struct psti_pli_wave_shape shape;
    struct above above;
};

/* A mask of 32 bytes for step i of a band begins at byte BAND - i: it is 255, but 0 for the lane
 * that enters the band in this step. One byte before begins the mask that is 0 for the lane that
 * leaves the band after this step. */
enum { BAND = 32 };
#define SEVEN 255, 255, 255, 255, 255, 255, 255
#define EIGHT SEVEN, 255
static const uint8_t all_but_one_lane[2 * BAND] = {0, SEVEN, EIGHT, EIGHT, EIGHT,
                                                   0, SEVEN, EIGHT, EIGHT, EIGHT};

/* -- Contexts -- */

/* Returns `no` where `mask` is 0, else `yes`. */
INLINE v32 blend(v32 no, v32 yes, v32 mask) { return _mm256_blendv_epi8(no, yes, mask); }

/* Returns the extra term of energy if lanes have different kinds of it. `left` is gLL. */
INLINE v32 any_z(const struct stream *s, const struct psti_pli_wave_shape *shape, uint32_t t,
                 v32 left)
{
    const struct psti_pli_wave_band *front = shape->front;
    v32 in_front = row_load(front_lanes(2 * t));
    v32 before = blend(row_load(front[-1].doubled), row_load(front->doubled), in_front);
    v32 without = blend(row_load(front[-1].third), row_load(front->third), in_front);
    before = _mm256_and_si256(before, row_load(s->rows[(ptrdiff_t)t - s->delay].lanes));
    return _mm256_or_si256(_mm256_andnot_si256(without, left), before);
}

/* Returns the energies of all lanes in step t. */
INLINE v32 energies(const struct stream *s, const struct psti_pli_wave_shape *shape,
                    struct states *x, uint32_t t, enum formula formula)
{
    const uint8_t *lanes = all_but_one_lane + BAND - t % BAND;
    v32 cut = row_load(lanes), left = _mm256_and_si256(x->g, cut), z;
    v32 side = _mm256_add_epi8(left, x->above);
    v32 far = _mm256_avg_epu8(_mm256_and_si256(x->far_up, cut),
                              _mm256_and_si256(x->above_2, row_load(lanes - 1)));
    if (formula == LEFT)
        z = _mm256_and_si256(x->left, cut);
    else if (formula == BEFORE)
        z = row_load(s->rows[t - s->delay].lanes);
    else
        z = any_z(s, shape, t, _mm256_and_si256(x->left, cut));
    v32 rest = _mm256_add_epi8(_mm256_add_epi8(x->far_up_2, z), far);
    x->left = left;
    x->far_up = x->above;
    x->far_up_2 = x->above_2;
    return _mm256_adds_epu8(_mm256_add_epi8(side, side), rest);
}

/* Returns contexts. The sums get bit 7 from energy 16 or 32 on, for which vpshufb gives 0. Below 16
 * the context is the sum of `near` and `middle`. */
INLINE v32 contexts(const struct stream *s, v32 e)
{
    v32 near = _mm256_shuffle_epi8(s->near, _mm256_adds_epu8(e, s->above_15));
    v32 middle = _mm256_shuffle_epi8(s->middle, _mm256_adds_epu8(e, s->above_31));
    v32 sixteenths = _mm256_and_si256(_mm256_srli_epi16(e, 4), s->fifteen);
    v32 far = _mm256_shuffle_epi8(s->far, sixteenths);
    return _mm256_add_epi8(_mm256_add_epi8(far, middle), near);
}

INLINE void find_contexts(const struct stream *s, const struct psti_pli_wave_shape *shape,
                          struct states *x, uint32_t t, enum formula formula)
{
    x->context = contexts(s, energies(s, shape, x, t, formula));
}

/* -- States and the words that they take -- */

/* look_up() returns for each lane one of two bounds; the next function returns one of four. */
INLINE v32 look_up(const struct stream *s, v32 c, int i, v32 m1)
{
    return blend(_mm256_shuffle_epi8(s->bounds[i], c), _mm256_shuffle_epi8(s->bounds[i + 1], c),
                 m1);
}
INLINE v32 look_up_4(const struct stream *s, v32 c, int i, v32 m1, v32 m2)
{
    return blend(look_up(s, c, i, m1), look_up(s, c, i + 2, m1), m2);
}

/* Finds each lane's token: its activity, its frequency, and the state's slot less the token's first
 * slot. */
INLINE void find_tokens(const struct stream *s, struct states *x)
{
    v32 c = x->context, lo = x->lo;
    v32 b1 = _mm256_shuffle_epi8(s->bounds[0], c), m1 = _mm256_cmpgt_epi8(lo, b1);
    /* The start and the end of the token's slots, each less 1. */
    v32 below = blend(s->none, b1, m1), above = blend(b1, s->none, m1);
    v32 b2 = look_up(s, c, 1, m1), m2 = _mm256_cmpgt_epi8(lo, b2);
    below = blend(below, b2, m2);
    above = blend(b2, above, m2);
    v32 b3 = look_up_4(s, c, 3, m1, m2), m3 = _mm256_cmpgt_epi8(lo, b3);
    below = blend(below, b3, m3);
    above = blend(b3, above, m3);
    v32 b4 = blend(look_up_4(s, c, 7, m1, m2), look_up_4(s, c, 11, m1, m2), m3);
    v32 m4 = _mm256_cmpgt_epi8(lo, b4);
    below = blend(below, b4, m4);
    above = blend(b4, above, m4);
    x->freq = _mm256_sub_epi8(above, below);
    x->bias = _mm256_add_epi8(_mm256_sub_epi8(lo, below), _mm256_set1_epi8(-1));
    v32 which = _mm256_sub_epi8(_mm256_and_si256(m2, s->two), m1);
    which = _mm256_add_epi8(which, _mm256_and_si256(m3, s->four));
    which = _mm256_add_epi8(which, _mm256_and_si256(m4, s->eight));
    x->g = _mm256_shuffle_epi8(s->activities, which);
}

/* Computes x := frequency * (x >> 8) + bias, but loads no words. */
INLINE void advance(const struct stream *s, const struct psti_pli_wave_shape *shape,
                    struct states *x, uint32_t t, bool whole)
{
    const v32 even = _mm256_set1_epi16(255), odd = _mm256_set1_epi16((short)0xff00);
    v32 x_0 = _mm256_mullo_epi16(_mm256_and_si256(x->freq, even), _mm256_and_si256(x->hi, even));
    v32 x_1 = _mm256_mulhi_epu16(_mm256_and_si256(x->freq, odd), _mm256_and_si256(x->hi, odd));
    x_0 = _mm256_add_epi16(x_0, _mm256_and_si256(x->bias, even));
    x_1 = _mm256_add_epi16(x_1, _mm256_srli_epi16(x->bias, 8));
    v32 hi = blend(_mm256_srli_epi16(x_0, 8), x_1, odd);
    v32 lo = blend(x_0, _mm256_slli_epi16(x_1, 8), odd);
    x->empty = _mm256_cmpeq_epi8(hi, _mm256_setzero_si256());
    hi = blend(hi, lo, x->empty);
    if (!whole) {
        v32 active = active_lanes(s->width, shape, 2 * t);
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
    const uint8_t *words = x->words, *words_u16 = words + _mm_popcnt_u32(lanes & 0xffff);
    x->words = words + _mm_popcnt_u32(lanes);
    /* Counts, in each half, the lanes up to and including each lane that take a word: first within
     * four lanes (255 times this factor is 0x01010101), then with all fours before. */
    v32 counts = _mm256_mullo_epi32(x->empty, _mm256_set1_epi32(-0x04030201));
    counts = _mm256_add_epi8(counts, _mm256_shuffle_epi8(counts, up_1));
    v32 before = _mm256_shuffle_epi8(counts, up_2);
    /* Subtracts 1 in lanes that take a word, because `empty` is -1 there. */
    counts = _mm256_add_epi8(_mm256_add_epi8(counts, x->empty), before);
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)words);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)words_u16);
    v32 both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    x->lo = _mm256_xor_si256(blend(x->lo, _mm256_shuffle_epi8(both, counts), x->empty),
                             _mm256_set1_epi8((char)0x80));
}

INLINE void keep_activities(struct stream *s, const struct above *above, struct states *x,
                            uint32_t t)
{
    uint32_t i = t % BAND;
    v32 halves = _mm256_permute2x128_si256(x->g, x->g, 1);
    halves = _mm256_and_si256(halves, row_load(above->masks[i < 30 ? 0 : i - 29]));
    x->above = _mm256_alignr_epi8(x->g, halves, 15);
    x->above_2 = _mm256_alignr_epi8(x->g, halves, 14);
    row_store(s->rows[t].lanes, x->g);
}

/* -- Streams -- */

static void open_above(const struct psti_pli_wave_band *front, struct above *above)
{
    uint8_t now = front->not_first[0], next = front[1].not_first[0];
    memset(above->masks, 255, sizeof above->masks);
    for (uint32_t i = 0; i < 3; i++) {
        above->masks[i][14] = i < 1 ? now : next; /* lane 30, which lane 0 reads as two rows up */
        above->masks[i][15] = i < 2 ? now : next; /* lane 31, which lanes 0 and 1 read */
    }
}

static struct band open_band(const struct psti_pli_wave_job *job,
                             const struct psti_pli_wave_band *bands, uint32_t k)
{
    struct band band = {.shape = psti_pli_wave_rows_shape(job, bands, k)};
    open_above(band.shape.front, &band.above);
    return band;
}

static enum formula formula_of_lanes(const struct psti_pli_wave_band *band)
{
    if (band->third[0] == 0)
        return LEFT;
    return band->doubled[0] != 0 ? BEFORE : ANY;
}
static enum formula formula_of(const struct psti_pli_wave_shape *shape)
{
    enum formula front = formula_of_lanes(shape->front), rear = formula_of_lanes(shape->front - 1);
    return front == rear ? front : ANY;
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
    s->two = _mm256_set1_epi8(2);
    s->four = _mm256_set1_epi8(4);
    s->eight = _mm256_set1_epi8(8);
    s->none = _mm256_set1_epi8(0x7f);
    s->near = both_halves(near);
    s->middle = both_halves(bucket + 16);
    s->far = both_halves(far);
    for (uint32_t i = 0; i < PSTI_PLI_N_TOKENS_8 - 1; i++)
        s->bounds[i] = _mm256_xor_si256(both_halves(bounds->of[i]), top);
    s->activities = both_halves(bounds->activities);
    s->width = _mm256_set1_epi8((char)job->unit->width);
    s->rows = m->tokens + WAVE_BEFORE;
    s->delay = BAND * head->bands_per_plane;
    memcpy(m->words_u8, head->words, head->n_words);
    memset(m->words_u8 + head->n_words, 0, 3 * WAVE_LANES);
    s->end = m->words_u8 + head->n_words;
    memset(m->tokens, 0, WAVE_BEFORE * sizeof m->tokens[0]);
    for (uint32_t l = 0; l < WAVE_LANES; l++) {
        hi[l] = (uint8_t)(head->states[l] >> 8);
        lo[l] = (uint8_t)head->states[l];
    }
    s->states = (struct states){
        .hi = row_load(hi), .lo = _mm256_xor_si256(row_load(lo), top), .words = m->words_u8};
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

/* Copies member by member. For a copy of the whole struct, compilers use an instruction that is
 * slow to start. */
INLINE void copy_states(struct states *to, const struct states *from)
{
    to->hi = from->hi;
    to->lo = from->lo;
    to->g = from->g;
    to->above = from->above;
    to->above_2 = from->above_2;
    to->left = from->left;
    to->far_up = from->far_up;
    to->far_up_2 = from->far_up_2;
    to->words = from->words;
}

/* Does steps t .. end - 1 of one unit, or of two units of one shape, each in the waits of the
 * other's chain. Stops when the words of either unit are used up. */
INLINE void run_band(struct stream *s, const struct band *band, uint32_t t, uint32_t end,
                     enum formula formula, bool whole, bool two)
{
    const struct psti_pli_wave_shape *shape = &band->shape;
    struct stream *s_1 = two ? s + 1 : s;
    struct states x, y;
    copy_states(&x, &s->states);
    copy_states(&y, &s_1->states);
    find_contexts(s, shape, &x, t, formula);
    if (two)
        find_contexts(s_1, shape, &y, t, formula);
    while (t < end && x.words <= s->end && y.words <= s_1->end) {
        find_tokens(s, &x);
        if (two)
            find_tokens(s_1, &y);
        advance(s, shape, &x, t, whole);
        if (two)
            advance(s_1, shape, &y, t, whole);
        keep_activities(s, &band->above, &x, t);
        if (two)
            keep_activities(s_1, &band->above, &y, t);
        t++;
        if (t < end)
            find_contexts(s, shape, &x, t, formula);
        if (two && t < end)
            find_contexts(s_1, shape, &y, t, formula);
        take_words(&x);
        if (two)
            take_words(&y);
    }
    copy_states(&s->states, &x);
    if (two)
        copy_states(&s_1->states, &y);
}

#define BAND_LOOP(name, formula, whole, two)                                                       \
    static void TARGET name(struct stream *s, const struct band *band, uint32_t t, uint32_t end)   \
    {                                                                                              \
        run_band(s, band, t, end, formula, whole, two);                                            \
    }
BAND_LOOP(one_left, LEFT, true, false)
BAND_LOOP(one_before, BEFORE, true, false)
BAND_LOOP(one_any, ANY, true, false)
BAND_LOOP(one_part_left, LEFT, false, false)
BAND_LOOP(one_part, ANY, false, false)
BAND_LOOP(two_left, LEFT, true, true)
BAND_LOOP(two_before, BEFORE, true, true)
BAND_LOOP(two_any, ANY, true, true)
BAND_LOOP(two_part_left, LEFT, false, true)
BAND_LOOP(two_part, ANY, false, true)

typedef void run_function(struct stream *s, const struct band *band, uint32_t t, uint32_t end);

static void TARGET run(struct stream *s, const struct psti_pli_wave_job *job, bool two)
{
    /* Indexed by [two units][all lanes active][formula]. Rare cases have no loop of their own. */
    static run_function *const loops[2][2][N_FORMULAS] = {
        {{one_part_left, one_part, one_part}, {one_left, one_before, one_any}},
        {{two_part_left, two_part, two_part}, {two_left, two_before, two_any}}};
    struct psti_pli_wave_band bands[WAVE_BANDS];
    uint32_t n_steps = job->head->n_token_steps;
    psti_pli_wave_rows_open_bands(job, bands);
    for (uint32_t k = 0, t = 0; t < n_steps; k++, t += BAND) {
        uint32_t end = t + BAND < n_steps ? t + BAND : n_steps;
        struct band band = open_band(job, bands, k);
        loops[two][band.shape.whole][formula_of(&band.shape)](s, &band, t, end);
    }
}

void TARGET psti_pli_wave_avx2_tokens_u8_two(struct psti_pli_wave_job jobs[2])
{
    struct stream s[2];
    open_stream(s, jobs);
    open_stream(s + 1, jobs + 1);
    run(s, jobs, true);
    close_stream(s, jobs);
    close_stream(s + 1, jobs + 1);
}

void TARGET psti_pli_wave_avx2_tokens_u8(struct psti_pli_wave_job *job)
{
    struct stream s;
    open_stream(&s, job);
    run(&s, job, false);
    close_stream(&s, job);
}
#endif
