/* pli_coefs_avx2_squares.c - the tokens of squares with AVX2: classes of ends, and DC
 * (docs/format-pli.md, 8.2 and 8.3).
 *
 * It takes words and states of a unit, and makes rows of 64 bytes. The functions are pure; any
 * thread may call them. Bounds of the 16 contexts are looked up as bytes, for 32 lanes at once. One
 * comparison finds the half of the 16 tokens that a slot is in; the rest is a search among 8, as
 * for AC. A unit has only some 50 of these steps, so they are not optimised further. */
#include "pli/decode/coefs/x86/pli_coefs_avx2.h"

#if defined(__x86_64__)

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

/* The state that is passed from step to step. */
struct stream {
    struct psti_coefs_avx2_states states;
    const uint8_t *words;
};

static void TARGET open_stream(const struct psti_coefs_unit *unit, struct stream *s)
{
    s->states = load_states(unit);
    s->words = unit->words.at;
}

static void TARGET close_stream(struct psti_coefs_unit *unit, const struct stream *s)
{
    store_states(unit, s->states);
    unit->words.at = s->words;
}

/* -- Steps -- */

struct half_step {
    struct psti_coefs_avx2_search search;
    v32 upper; /* -1: the token is one of the lower 8 */
};

INLINE struct half_step find(v32 slot, const v32 *bounds)
{
    struct half_step h;
    v32 part[7];
    v32 lower = _mm256_cmpgt_epi16(bounds[7], slot);
    v32 end = pick(_mm256_set1_epi16(PSTI_JPEG_PROB_SUM), bounds[7], lower);
    for (int i = 0; i < 7; i++)
        part[i] = pick(bounds[8 + i], bounds[i], lower);
    h.search = search(slot, part, _mm256_andnot_si256(lower, bounds[7]), end);
    h.upper = lower;
    return h;
}

/* Decodes the tokens of the lanes whose byte in `lanes` is 255. Returns 0 in other lanes. */
static v32 TARGET step(struct psti_coefs_unit *unit, struct stream *s,
                       const uint8_t (*table)[2][16], v32 contexts, v32 lanes)
{
    v32 bounds_a[COEFS_BOUNDS], bounds_b[COEFS_BOUNDS];
    contexts = weave(contexts);
    if (s->words > unit->words.limit)
        s->words = more_words(unit, s->words);
    for (uint32_t i = 0; i < COEFS_BOUNDS; i++) {
        v32 low = _mm256_shuffle_epi8(both_halves(table[i][0]), contexts);
        v32 high = _mm256_shuffle_epi8(both_halves(table[i][1]), contexts);
        bounds_a[i] = _mm256_unpacklo_epi8(low, high);
        bounds_b[i] = _mm256_unpackhi_epi8(low, high);
    }
    struct psti_coefs_avx2_states *x = &s->states;
    struct psti_coefs_avx2_parts parts_a = split(x->high_a, x->low_a);
    struct psti_coefs_avx2_parts parts_b = split(x->high_b, x->low_b);
    struct half_step a = find(parts_a.slot, bounds_a), b = find(parts_b.slot, bounds_b);
    v32 idle = weave(_mm256_cmpeq_epi8(lanes, _mm256_setzero_si256()));
    v32 empty_a = advance(&x->high_a, &x->low_a, parts_a, a.search.found,
                          _mm256_unpacklo_epi8(idle, idle), true);
    v32 empty_b = advance(&x->high_b, &x->low_b, parts_b, b.search.found,
                          _mm256_unpackhi_epi8(idle, idle), true);
    s->words = take_words(s->words, empty_a, lanes_of(empty_a), &x->low_a);
    s->words = take_words(s->words, empty_b, lanes_of(empty_b), &x->low_b);
    v32 token = _mm256_packs_epi16(a.upper, b.upper);
#define NEXT_BIT(part)                                                                             \
    token = _mm256_add_epi8(_mm256_add_epi8(token, token),                                         \
                            _mm256_packs_epi16(a.search.part, b.search.part))
    NEXT_BIT(half);
    NEXT_BIT(quarter);
    NEXT_BIT(eighth);
#undef NEXT_BIT
    token = weave(_mm256_add_epi8(token, _mm256_set1_epi8(COEFS_BOUNDS)));
    return _mm256_and_si256(token, lanes);
}

/* -- Classes of the ends of blocks -- */

/* The bytes of a square: rows 0..3, then rows 4..7. */
struct square {
    v32 low, high;
};

/* Moves the bytes of 32 lanes to the positions of their parity, 4 in a row. `places` lists them for
 * an even row and the odd row after it. Other positions are 0. */
INLINE struct square to_positions(v32 lanes, __m128i places)
{
    const v32 where = _mm256_broadcastsi128_si256(places);
    return (struct square){_mm256_shuffle_epi8(_mm256_permute4x64_epi64(lanes, 0x50), where),
                           _mm256_shuffle_epi8(_mm256_permute4x64_epi64(lanes, 0xfa), where)};
}

/* Returns for each position the sum of its left and right neighbours. If a neighbour is outside the
 * square, the other one counts twice. */
INLINE v32 across(v32 rows, v32 first_column, v32 last_column)
{
    v32 left = _mm256_slli_epi64(rows, 8), right = _mm256_srli_epi64(rows, 8);
    v32 more =
        _mm256_or_si256(_mm256_and_si256(right, first_column), _mm256_and_si256(left, last_column));
    return _mm256_add_epi8(_mm256_add_epi8(left, right), more);
}

INLINE v32 context(v32 sum)
{
    sum = _mm256_srli_epi16(_mm256_add_epi8(sum, _mm256_set1_epi8(2)), 2);
    return _mm256_min_epu8(_mm256_and_si256(sum, _mm256_set1_epi8(63)),
                           _mm256_set1_epi8(PSTI_JPEG_ODD_CONTEXT_MAX));
}

/* Returns the contexts of odd blocks, from the classes of even ones. Positions without a block have
 * class 0. */
static v32 TARGET find_contexts(const struct psti_jpeg_square *q, struct square even)
{
    enum { ROW = 8 };
    /* Four rows of zeros before the square and four after it. */
    _Alignas(32) uint8_t rows[PSTI_COEFS_SQUARE + 8 * ROW] = {0};
    uint8_t *first = rows + 4 * ROW;
    store(first, even.low);
    store(first + 32, even.high);
    if (q->rows > 1) { /* a row outside the square is replaced by the opposite neighbour */
        psti_store_u64(first - ROW, psti_load_u64(first + ROW));
        psti_store_u64(first + ROW * q->rows, psti_load_u64(first + ROW * (q->rows - 2)));
    }
    const v32 first_column = _mm256_set1_epi64x(0xff);
    const v32 last_column = _mm256_set1_epi64x((long long)(0xffull << (8 * (q->columns - 1))));
    v32 low = _mm256_add_epi8(load(first - ROW), load(first + ROW));
    v32 high = _mm256_add_epi8(load(first + 32 - ROW), load(first + 32 + ROW));
    low = _mm256_add_epi8(low, across(even.low, first_column, last_column));
    high = _mm256_add_epi8(high, across(even.high, first_column, last_column));
    /* If the left and right neighbours (or those above and below) are outside, the other two count
     * twice. */
    if (q->rows == 1 || q->columns == 1) {
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
    const v32 odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(1, 3, 5, 7, 8, 10, 12, 14, -1, -1, -1, -1, -1, -1, -1, -1));
    low = _mm256_shuffle_epi8(context(low), odd);
    high = _mm256_shuffle_epi8(context(high), odd);
    return _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(low, high), 0xd8);
}

void TARGET psti_pli_coefs_avx2_read_classes(struct psti_coefs_unit *unit)
{
    const __m128i even_places =
        _mm_setr_epi8(0, -1, 1, -1, 2, -1, 3, -1, -1, 4, -1, 5, -1, 6, -1, 7);
    const __m128i odd_places =
        _mm_setr_epi8(-1, 0, -1, 1, -1, 2, -1, 3, 4, -1, 5, -1, 6, -1, 7, -1);
    struct stream s;
    open_stream(unit, &s);
    for (uint32_t i = 0; i < unit->out->n_squares; i++) {
        const struct psti_jpeg_square *q = unit->out->squares + i;
        const uint8_t(*table)[2][16] = coefs_tables(unit)->ends[q->side];
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        v32 lanes = bytes_of_32((uint32_t)_pext_u64(blocks, PSTI_JPEG_EVEN));
        v32 tokens = step(unit, &s, table, _mm256_set1_epi8(PSTI_JPEG_EVEN_CONTEXT), lanes);
        struct square even = to_positions(tokens, even_places);
        lanes = bytes_of_32((uint32_t)_pext_u64(blocks, ~PSTI_JPEG_EVEN));
        tokens = step(unit, &s, table, find_contexts(q, even), lanes);
        struct square odd = to_positions(tokens, odd_places);
        store(unit->classes[i], _mm256_or_si256(even.low, odd.low));
        store(unit->classes[i] + 32, _mm256_or_si256(even.high, odd.high));
    }
    close_stream(unit, &s);
}

/* -- DC -- */

void TARGET psti_pli_coefs_avx2_read_dc(struct psti_coefs_unit *unit)
{
    struct stream s;
    open_stream(unit, &s);
    for (uint32_t i = 0; i < unit->out->n_squares; i++) {
        const struct psti_jpeg_square *q = unit->out->squares + i;
        const uint8_t(*table)[2][16] = coefs_tables(unit)->dc[q->side];
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        for (uint32_t half = 0; half < PSTI_COEFS_SQUARE; half += PSTI_COEFS_LANES) {
            v32 lanes = bytes_of_32((uint32_t)(blocks >> half));
            v32 tokens = step(unit, &s, table, load(unit->classes[i] + half), lanes);
            store(unit->dc_tokens[i] + half, tokens);
        }
    }
    close_stream(unit, &s);
}
#endif
