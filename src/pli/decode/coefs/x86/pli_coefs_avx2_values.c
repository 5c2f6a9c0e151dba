/* pli_coefs_avx2_values.c - the raw bits of a unit of coefficients with AVX2 and BMI2
 * (docs/format-pli.md, 8.2, 8.3, 8.5). It makes ends of blocks and coefficients from tokens and
 * bits.
 *
 * Bits of the same weight lie together in the raw string. A mask says which of 64 entries have such
 * a bit, and pdep moves the bits to the ones of the mask. Then masks are expanded to bytes. */
#include "pli/decode/coefs/x86/pli_coefs_avx2.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

enum { GROUP = PSTI_COEFS_SQUARE };

/* The 64 entries of a square or of a group, one byte each. */
struct group {
    v32 low, high;
};

/* Returns a mask of the tokens of the group that are greater than `than`. */
INLINE uint64_t above(struct group g, int than)
{
    v32 limit = COEFS_CONSTANT(numbers[than]);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(g.low, limit));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(g.high, limit));
    return low | (uint64_t)high << 32;
}

/* Moves the next raw bits to the ones of the mask `to`, in ascending order. Returns a mask of the
 * ones whose raw bit is 1. */
INLINE uint64_t hand_out(const struct psti_coefs_bits *bits, uint64_t *at, uint64_t to)
{
    uint64_t next = psti_pli_coefs_peek_at(bits, *at); /* `at` is passed on its own, so that it
                                                        * stays in a register */
    *at += (uint64_t)_mm_popcnt_u64(to);
    return _pdep_u64(next, to);
}

/* Returns 255 in the bytes whose bit is 1, else 0. Each half has lanes 0..7, 16..23, 8..15, 24..31,
 * which is the order that unpacking needs. */
INLINE struct group bytes_of(uint64_t mask)
{
    const v32 bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const v32 from_low =
        _mm256_setr_epi64x(0, 0x0202020202020202, 0x0101010101010101, 0x0303030303030303);
    const v32 from_high = _mm256_add_epi8(from_low, _mm256_set1_epi8(4));
    v32 all = _mm256_set1_epi64x((long long)mask);
    v32 low = _mm256_and_si256(_mm256_shuffle_epi8(all, from_low), bit);
    v32 high = _mm256_and_si256(_mm256_shuffle_epi8(all, from_high), bit);
    return (struct group){_mm256_cmpeq_epi8(low, bit), _mm256_cmpeq_epi8(high, bit)};
}

/* Brings entries from ascending order to the order of bytes_of(), or back. */
INLINE struct group for_unpacking(struct group g)
{
    return (struct group){_mm256_permute4x64_epi64(g.low, 0xd8),
                          _mm256_permute4x64_epi64(g.high, 0xd8)};
}

INLINE void add_bits(struct group *values, uint64_t mask, int weight)
{
    struct group b = bytes_of(mask);
    v32 w = _mm256_set1_epi8((char)weight);
    values->low = _mm256_add_epi8(values->low, _mm256_and_si256(b.low, w));
    values->high = _mm256_add_epi8(values->high, _mm256_and_si256(b.high, w));
}

/* Where the 64 coefficients of a group are stored in a plane. */
struct places {
    int16_t *to;                         /* if `moves` is NULL: the place of the first
                                          * coefficient */
    int16_t *plane;                      /* if `moves` is set: the plane; eight coefficients go to
                                          * plane + moves[i].to */
    const struct psti_coefs_move *moves; /* how kept coefficients are moved; NULL: all blocks are
                                          * kept */
};

/* Stores coefficients 16 i .. 16 i + 15, or only those of kept blocks. A store of eight may write
 * garbage after the kept values; the next store overwrites it. */
INLINE void put(const struct places *p, uint32_t i, v32 values)
{
    if (p->moves == NULL) {
        store(p->to + (size_t)16 * i, values);
        return;
    }
    const struct psti_coefs_move *m = p->moves + (size_t)2 * i;
    values = _mm256_shuffle_epi8(values, halves(_mm_load_si128((const __m128i *)m[0].indices),
                                                _mm_load_si128((const __m128i *)m[1].indices)));
    _mm_storeu_si128((__m128i *)(p->plane + m[0].to), _mm256_castsi256_si128(values));
    _mm_storeu_si128((__m128i *)(p->plane + m[1].to), _mm256_extracti128_si256(values, 1));
}

/* Stores 64 coefficients from values below 128. `negative` is 255 where the coefficient is
 * negative, else 0. */
INLINE void place(struct group v, struct group negative, const struct places *to)
{
    v32 low = _mm256_sub_epi8(_mm256_xor_si256(v.low, negative.low), negative.low);
    v32 high = _mm256_sub_epi8(_mm256_xor_si256(v.high, negative.high), negative.high);
    put(to, 0, _mm256_unpacklo_epi8(low, negative.low));
    put(to, 1, _mm256_unpackhi_epi8(low, negative.low));
    put(to, 2, _mm256_unpacklo_epi8(high, negative.high));
    put(to, 3, _mm256_unpackhi_epi8(high, negative.high));
}

INLINE v32 large_value(v32 value, v32 sixty_fourths, v32 negative)
{
    value = _mm256_add_epi16(value, _mm256_slli_epi16(sixty_fourths, 6));
    return _mm256_sub_epi16(_mm256_xor_si256(value, negative), negative);
}

/* Stores 64 coefficients like place(), from values up to 255 plus 64 * `more`. */
INLINE void place_large(struct group v, struct group more, struct group negative,
                        const struct places *to)
{
    const v32 zero = _mm256_setzero_si256();
#define PLACE(part, unpack, i)                                                                     \
    put(to, i,                                                                                     \
        large_value(unpack(v.part, zero), unpack(more.part, zero),                                 \
                    unpack(negative.part, negative.part)))
    PLACE(low, _mm256_unpacklo_epi8, 0);
    PLACE(low, _mm256_unpackhi_epi8, 1);
    PLACE(high, _mm256_unpacklo_epi8, 2);
    PLACE(high, _mm256_unpackhi_epi8, 3);
#undef PLACE
}

/* Stores a group that has a token 7. Its class is its octave (8.5). Class c has the lowest value 33
 * plus the first c terms of 32, 64, ..., and c bits more than class 0, whose weights are the same
 * terms. */
INLINE uint64_t place_any(const struct psti_coefs_bits *bits, uint64_t at, struct group tokens,
                          struct group v, uint64_t signs, struct places to)
{
    enum { CLASSES = 6 };
    struct group more = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    uint64_t classes[CLASSES] = {above(tokens, 6)}; /* [c]: entries of class c or more */
    for (uint32_t c = 0; c + 1 < CLASSES && classes[c] != 0; c++)
        classes[c + 1] = hand_out(bits, &at, classes[c]);
    for (int b = 0; b < 4; b++)
        add_bits(&v, hand_out(bits, &at, above(tokens, 2 + b)), 1 << b);
    add_bits(&v, hand_out(bits, &at, classes[0]), 16);
    for (uint32_t c = 1; c < CLASSES && classes[c] != 0; c++) {
        uint64_t ones = hand_out(bits, &at, classes[c]);
        if (c == 1) {
            add_bits(&v, classes[c], 32);
            add_bits(&v, ones, 32);
        } else {
            add_bits(&more, classes[c], 1 << (c - 2));
            add_bits(&more, ones, 1 << (c - 2));
        }
    }
    place_large(v, more, bytes_of(signs), &to);
    return at;
}

/* -- Ends of blocks (8.2) -- */

void TARGET psti_pli_coefs_avx2_read_ends(struct psti_coefs_unit *unit)
{
    const struct psti_coefs_bits *bits = &unit->bits;
    const v32 lowest = both_halves(psti_jpeg_end_lowest), n_bits = both_halves(psti_jpeg_end_bits);
    uint64_t at = bits->at;
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        const uint8_t *classes = unit->classes[s];
        struct group c = {load(classes), load(classes + 32)};
        struct group n = {_mm256_shuffle_epi8(n_bits, c.low), _mm256_shuffle_epi8(n_bits, c.high)};
        struct group e = {_mm256_shuffle_epi8(lowest, c.low), _mm256_shuffle_epi8(lowest, c.high)};
        e = for_unpacking(e);
        uint64_t mask = above(n, 0);
        for (int b = 0; mask != 0; mask = above(n, ++b))
            add_bits(&e, hand_out(bits, &at, mask), 1 << b);
        e = for_unpacking(e);
        store(unit->ends[s], e.low);
        store(unit->ends[s] + 32, e.high);
    }
    unit->bits.at = at;
}

/* -- DC -- */

/* Returns the values of two rows of differences. `above_first` has the first value of the row above
 * in all entries, and is updated. */
INLINE v32 sum_up(v32 d, v32 *above_first)
{
    /* The first difference of each row, copied to all entries of the row. */
    v32 first = _mm256_shuffle_epi8(d, _mm256_set1_epi16(0x0100));
    d = _mm256_add_epi16(d, _mm256_slli_si256(d, 2));
    d = _mm256_add_epi16(d, _mm256_slli_si256(d, 4));
    d = _mm256_add_epi16(d, _mm256_slli_si256(d, 8));
    d = _mm256_add_epi16(d, *above_first);
    d = _mm256_add_epi16(d, _mm256_permute2x128_si256(first, first, 0x08));
    first = _mm256_add_epi16(first, _mm256_permute2x128_si256(first, first, 0x01));
    *above_first = _mm256_add_epi16(*above_first, first);
    return d;
}

/* Makes the values of a square from its tokens and bits. */
INLINE void place_square(const struct psti_coefs_bits *bits, uint64_t *at, struct group t,
                         int16_t *values)
{
    const v32 lowest_low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 3, 5, 9, 17, 33, 65, (char)129, 1, 1, 1, 1, 0, 0));
    const v32 lowest_high =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 0, 0));
    struct group low = {_mm256_setzero_si256(), _mm256_setzero_si256()}, high = low;
    struct group negative = bytes_of(hand_out(bits, at, above(t, 0)));
    uint64_t mask = above(t, 2);
    for (int b = 0; mask != 0; mask = above(t, 2 + ++b))
        add_bits(b < 8 ? &low : &high, hand_out(bits, at, mask), 1 << (b & 7));
    t = for_unpacking(t);
    v32 sum = _mm256_setzero_si256();
#define PLACE(part, unpack, i)                                                                     \
    {                                                                                              \
        v32 v = unpack(_mm256_shuffle_epi8(lowest_low, t.part),                                    \
                       _mm256_shuffle_epi8(lowest_high, t.part));                                  \
        v = _mm256_add_epi16(v, unpack(low.part, high.part));                                      \
        v32 sign = unpack(negative.part, negative.part);                                           \
        v = _mm256_sub_epi16(_mm256_xor_si256(v, sign), sign);                                     \
        store(values + 16 * (i), sum_up(v, &sum));                                                 \
    }
    PLACE(low, _mm256_unpacklo_epi8, 0)
    PLACE(low, _mm256_unpackhi_epi8, 1)
    PLACE(high, _mm256_unpacklo_epi8, 2)
    PLACE(high, _mm256_unpackhi_epi8, 3)
#undef PLACE
}

void TARGET psti_pli_coefs_avx2_place_dc(struct psti_coefs_unit *unit)
{
    const struct psti_pli_coefs *out = unit->out;
    int16_t values[PSTI_JPEG_SQUARES_MAX * GROUP];
    uint64_t at = unit->bits.at;
    for (uint32_t s = 0; s < out->n_squares; s++) {
        const uint8_t *tokens = unit->dc_tokens[s];
        struct group t = {load(tokens), load(tokens + 32)};
        place_square(&unit->bits, &at, t, values + (size_t)GROUP * s);
    }
    unit->bits.at = at;
    int16_t *plane = unit->planes;
    uint32_t n = unit->kept ? unit->kept->n_k[0] : out->n;
    for (uint32_t i = 0; i < n; i++)
        plane[i] = values[unit->order[i]];
    memset(plane + n, 0, (psti_round_up(n, GROUP) - n) * sizeof *plane);
}

/* -- AC -- */

INLINE void place_planes(struct psti_coefs_unit *unit, uint32_t last, bool some)
{
    const struct psti_pli_coefs *out = unit->out;
    const struct psti_coefs_bits *bits = &unit->bits;
    const v32 lowest =
        _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)psti_jpeg_ac_lowest));
    uint64_t at = bits->at;
    for (uint32_t k = 1; k <= last; k++) {
        const uint8_t *tokens = unit->tokens + k * out->stride;
        int16_t *plane = unit->planes + k * out->stride;
        for (uint32_t base = 0; base < out->n_k[k]; base += GROUP) {
            struct group t = {load(tokens + base), load(tokens + base + 32)};
            uint64_t signs = hand_out(bits, &at, above(t, 0)), large = above(t, 2);
            struct group v = for_unpacking(t);
            const struct places to = {plane + base, plane,
                                      some ? unit->kept->moves + base / 8 : NULL};
            if (large == 0) {
                place(v, bytes_of(signs), &to);
                continue;
            }
            v.low = _mm256_shuffle_epi8(lowest, v.low);
            v.high = _mm256_shuffle_epi8(lowest, v.high);
            if (__builtin_expect(above(t, 6) != 0, 0)) {
                at = place_any(bits, at, t, v, signs, to);
                continue;
            }
            add_bits(&v, hand_out(bits, &at, large), 1);
            add_bits(&v, hand_out(bits, &at, above(t, 3)), 2);
            uint64_t larger = above(t, 4);
            if (larger != 0) {
                add_bits(&v, hand_out(bits, &at, larger), 4);
                add_bits(&v, hand_out(bits, &at, above(t, 5)), 8);
            }
            place(v, bytes_of(signs), &to);
        }
        if (some) /* clears the entries after the kept values, up to the next multiple of 64 or
                   * more */
            memset(plane + unit->kept->n_k[k], 0, GROUP * sizeof *plane);
    }
    unit->bits.at = at;
}

static void TARGET place_some(struct psti_coefs_unit *unit, uint32_t last)
{
    place_planes(unit, last, true);
}

void TARGET psti_pli_coefs_avx2_place_ac(struct psti_coefs_unit *unit, uint32_t last)
{
    if (unit->kept != NULL)
        place_some(unit, last);
    else
        place_planes(unit, last, false);
}
#endif
