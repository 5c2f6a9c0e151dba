/* pli_coefs_avx512_values.c - the raw bits of a unit of coefficients with AVX-512 and BMI2
 * (docs/format-pli.md, 8.2, 8.3, 8.5). It makes ends of blocks and coefficients from tokens and
 * bits.
 *
 * Bits of the same weight lie together in the raw string. A mask says which of 64 entries have such
 * a bit, and pdep moves the bits to the ones of the mask. The result is a mask, too: the weight is
 * added to its entries. A group of AC without large values has no branch that depends on its bits.
 * Some 45 scalar operations, and 10 moves between masks and registers, bound its time. */
#include "pli/decode/coefs/x86/pli_coefs_avx512.h"

#if defined(__x86_64__)
#include <string.h>

enum { GROUP = PSTI_COEFS_SQUARE, HALF = GROUP / 2 };

/* Moves the next raw bits to the ones of the mask `to`, in ascending order. Returns a mask of the
 * ones whose raw bit is 1. */
PSTI_ICL_INLINE uint64_t hand_out(const struct psti_coefs_bits *bits, uint64_t *at, uint64_t to)
{
    uint64_t next = psti_pli_coefs_peek_at(bits, *at); /* `at` is passed on its own, so that it
                                                        * stays in a register */
    *at += (uint64_t)_mm_popcnt_u64(to);
    return _pdep_u64(next, to);
}

/* Returns a mask of those of 64 bytes that are greater than `than`. */
PSTI_ICL_INLINE uint64_t above(__m512i bytes, int than)
{
    return _mm512_cmpgt_epi8_mask(bytes, _mm512_set1_epi8((char)than));
}

PSTI_ICL_INLINE __m512i add_to(__m512i bytes, uint64_t lanes, int weight)
{
    return _mm512_mask_add_epi8(bytes, lanes, bytes, _mm512_set1_epi8((char)weight));
}

PSTI_ICL_INLINE __m512i table_of_16(const uint8_t *bytes)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)bytes));
}

/* 64 values of 16 bits. */
struct words {
    __m512i low, high;
};

PSTI_ICL_INLINE struct words words_of(__m512i bytes)
{
    return (struct words){_mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)),
                          _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(bytes, 1))};
}

PSTI_ICL_INLINE void add_words(struct words *w, uint64_t lanes, int weight)
{
    const __m512i v = _mm512_set1_epi16((short)weight);
    w->low = _mm512_mask_add_epi16(w->low, (uint32_t)lanes, w->low, v);
    w->high = _mm512_mask_add_epi16(w->high, (uint32_t)(lanes >> HALF), w->high, v);
}

PSTI_ICL_INLINE void negate_words(struct words *w, uint64_t lanes)
{
    const __m512i zero = _mm512_setzero_si512();
    w->low = _mm512_mask_sub_epi16(w->low, (uint32_t)lanes, zero, w->low);
    w->high = _mm512_mask_sub_epi16(w->high, (uint32_t)(lanes >> HALF), zero, w->high);
}

/* -- Ends of blocks (8.2) -- */

PSTI_ICL_TARGET void psti_pli_coefs_avx512_read_ends(struct psti_coefs_unit *unit)
{
    const struct psti_coefs_bits *bits = &unit->bits;
    const __m512i lowest = table_of_16(psti_jpeg_end_lowest);
    const __m512i n_bits = table_of_16(psti_jpeg_end_bits);
    uint64_t at = bits->at;
    for (uint32_t s = 0; s < unit->out->n_squares; s++) {
        __m512i classes = load(unit->classes[s]);
        __m512i n = _mm512_shuffle_epi8(n_bits, classes), e = _mm512_shuffle_epi8(lowest, classes);
        uint64_t mask = above(n, 0);
        for (int b = 0; mask != 0; mask = above(n, ++b))
            e = add_to(e, hand_out(bits, &at, mask), 1 << b);
        store(unit->ends[s], e);
    }
    unit->bits.at = at;
}

/* -- DC -- */

/* Returns a vector in which all eight values of each 128-bit part are the part's first value. */
PSTI_ICL_INLINE __m512i first_of_rows(__m512i v)
{
    return _mm512_shuffle_epi8(v, _mm512_set1_epi16(0x0100));
}

/* Returns a vector in which each 128-bit part is the sum of the parts of v up to and including
 * it. */
PSTI_ICL_INLINE __m512i sum_rows(__m512i v)
{
    const __m512i zero = _mm512_setzero_si512();
    v = _mm512_add_epi16(v, _mm512_alignr_epi64(v, zero, 6));
    return _mm512_add_epi16(v, _mm512_alignr_epi64(v, zero, 4));
}

PSTI_ICL_INLINE __m512i sum_across(__m512i d)
{
    d = _mm512_add_epi16(d, _mm512_bslli_epi128(d, 2));
    d = _mm512_add_epi16(d, _mm512_bslli_epi128(d, 4));
    return _mm512_add_epi16(d, _mm512_bslli_epi128(d, 8));
}

/* Replaces the differences of a square by values. A difference is to the value at the left, in the
 * first column to the value above. */
PSTI_ICL_INLINE void sum_up(struct words *w)
{
    const __m512i last = _mm512_set_epi64(7, 6, 7, 6, 7, 6, 7, 6);
    __m512i low = sum_rows(first_of_rows(w->low)), high = sum_rows(first_of_rows(w->high));
    high = _mm512_add_epi16(high, _mm512_permutexvar_epi64(last, low));
    w->low =
        _mm512_add_epi16(sum_across(w->low), _mm512_alignr_epi64(low, _mm512_setzero_si512(), 6));
    w->high = _mm512_add_epi16(sum_across(w->high), _mm512_alignr_epi64(high, low, 6));
}

/* Makes the values of a square from its tokens and bits. */
PSTI_ICL_INLINE void place_square(const struct psti_coefs_bits *bits, uint64_t *at, __m512i tokens,
                                  int16_t *values)
{
    const __m512i lowest =
        _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2049, 1025, 513, 257,
                         129, 65, 33, 17, 9, 5, 3, 2, 1, 0);
    struct words w = words_of(tokens);
    w.low = _mm512_permutexvar_epi16(w.low, lowest);
    w.high = _mm512_permutexvar_epi16(w.high, lowest);
    uint64_t negative = hand_out(bits, at, above(tokens, 0)), mask = above(tokens, 2);
    for (int b = 0; mask != 0; mask = above(tokens, 2 + ++b))
        add_words(&w, hand_out(bits, at, mask), 1 << b);
    negate_words(&w, negative);
    sum_up(&w);
    store(values, w.low);
    store(values + HALF, w.high);
}

PSTI_ICL_TARGET void psti_pli_coefs_avx512_place_dc(struct psti_coefs_unit *unit)
{
    const struct psti_pli_coefs *out = unit->out;
    int16_t values[PSTI_JPEG_SQUARES_MAX * GROUP];
    uint64_t at = unit->bits.at;
    for (uint32_t s = 0; s < out->n_squares; s++)
        place_square(&unit->bits, &at, load(unit->dc_tokens[s]), values + (size_t)GROUP * s);
    unit->bits.at = at;
    int16_t *plane = unit->planes;
    uint32_t n = unit->kept ? unit->kept->n_k[0] : out->n;
    for (uint32_t i = 0; i < n; i++)
        plane[i] = values[unit->order[i]];
    memset(plane + n, 0, (psti_round_up(n, GROUP) - n) * sizeof *plane);
}

/* -- AC -- */

/* Adds up the magnitudes of a group that has a token 7. `lowest` are the lowest magnitudes of the
 * tokens. The class of a token 7 is its octave (8.5). Class c has the lowest value 33 plus the
 * first c terms of 32, 64, ..., and c bits more than class 0, whose weights are the same terms.
 * Magnitudes of class 0 fit bytes. */
PSTI_ICL_INLINE uint64_t add_any(const struct psti_coefs_bits *bits, uint64_t at, __m512i tokens,
                                 __m512i lowest, struct words *w)
{
    enum { CLASSES = 6 };
    uint64_t classes[CLASSES] = {above(tokens, 6)}; /* [c]: entries of class c or more */
    for (uint32_t c = 0; c + 1 < CLASSES && classes[c] != 0; c++)
        classes[c + 1] = hand_out(bits, &at, classes[c]);
#pragma GCC unroll 5
    for (int b = 0; b < 5; b++)
        lowest = add_to(lowest, hand_out(bits, &at, above(tokens, 2 + b)), 1 << b);
    *w = words_of(lowest);
    for (uint32_t c = 1; c < CLASSES && classes[c] != 0; c++) {
        add_words(w, classes[c], 16 << c);
        add_words(w, hand_out(bits, &at, classes[c]), 16 << c);
    }
    return at;
}

/* The kinds of bits of a group without token 7: signs, then the bits of weights 1, 2, 4 and 8. */
enum { KINDS = 5 };

/* Moves the next bits of each kind to the ones of to[kind], in ascending order. Returns the number
 * of bits taken. Mostly these are at most 64; then one load of the string is enough. */
PSTI_ICL_INLINE uint64_t hand_out_all(const struct psti_coefs_bits *bits, uint64_t at,
                                      const uint64_t to[KINDS], uint64_t got[KINDS])
{
    uint64_t next = psti_pli_coefs_peek_at(bits, at), before[KINDS], sum = 0;
#pragma GCC unroll 5
    for (int i = 0; i < KINDS; i++) {
        before[i] = sum;
        sum += (uint64_t)_mm_popcnt_u64(to[i]);
    }
    got[0] = _pdep_u64(next, to[0]);
    if (sum > 64) {
#pragma GCC unroll 4
        for (int i = 1; i < KINDS; i++) /* in a loop of its own, so that no load waits for another
                                         * load */
            got[i] = _pdep_u64(psti_pli_coefs_peek_at(bits, at + before[i]), to[i]);
    } else {
#pragma GCC unroll 4
        for (int i = 1; i < KINDS; i++) /* if before[i] is 64, to[i] is 0 */
            got[i] = _pdep_u64(next >> (before[i] & 63), to[i]);
    }
    return sum;
}

/* Stores the 64 values of a group. If `some` is true, it stores only those with a bit in `lanes`,
 * without gaps; zeros follow them. */
PSTI_ICL_INLINE void put_words(int16_t *to, struct words w, uint64_t lanes, bool some)
{
    if (some) {
        w.low = psti_avx512_compress_words((uint32_t)lanes, w.low);
        w.high = psti_avx512_compress_words((uint32_t)(lanes >> HALF), w.high);
    }
    store(to, w.low);
    store(to + (some ? __builtin_popcount((uint32_t)lanes) : HALF), w.high);
}
PSTI_ICL_INLINE void put_bytes(int16_t *to, __m512i v, uint64_t lanes, bool some)
{
    if (some)
        v = psti_avx512_compress_bytes(lanes, v);
    store(to, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(v)));
    store(to + HALF, _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(v, 1)));
}

PSTI_ICL_INLINE void place_planes(struct psti_coefs_unit *unit, uint32_t last, bool some)
{
    const struct psti_pli_coefs *out = unit->out;
    const struct psti_coefs_bits *bits = &unit->bits;
    const __m512i zero = _mm512_setzero_si512();
    const __m512i lowest = _mm512_set1_epi64((long long)psti_load_u64(psti_jpeg_ac_lowest));
    uint64_t at = bits->at;
    for (uint32_t k = 1; k <= last; k++) {
        const uint8_t *tokens = unit->tokens + k * out->stride;
        int16_t *plane = unit->planes + k * out->stride;
        uint32_t n = out->n_k[k];
        for (uint32_t base = 0; base < n; base += GROUP) {
            __m512i t = load(tokens + base), v = _mm512_shuffle_epi8(lowest, t);
            uint64_t lanes = some ? unit->kept->lanes[base / GROUP] : UINT64_MAX;
            int16_t *values = plane + (some ? unit->kept->before[base / GROUP] : base);
            if (__builtin_expect(above(t, 6) != 0, 0)) {
                uint64_t signs = hand_out(bits, &at, above(t, 0));
                struct words w;
                at = add_any(bits, at, t, v, &w);
                negate_words(&w, signs);
                put_words(values, w, lanes, some);
                continue;
            }
            const uint64_t to[KINDS] = {above(t, 0), above(t, 2), above(t, 3), above(t, 4),
                                        above(t, 5)};
            uint64_t got[KINDS];
            at += hand_out_all(bits, at, to, got);
#pragma GCC unroll 4
            for (int i = 1; i < KINDS; i++)
                v = add_to(v, got[i], 1 << (i - 1));
            v = _mm512_mask_sub_epi8(v, got[0], zero, v);
            put_bytes(values, v, lanes, some);
        }
        if (some) /* clears the entries after the kept values, up to the next multiple of 64 or
                   * more */
            memset(plane + unit->kept->n_k[k], 0, GROUP * sizeof *plane);
    }
    unit->bits.at = at;
}

PSTI_ICL_TARGET void psti_pli_coefs_avx512_place_ac(struct psti_coefs_unit *unit, uint32_t last)
{
    if (unit->kept != NULL)
        place_planes(unit, last, true);
    else
        place_planes(unit, last, false);
}
#endif
