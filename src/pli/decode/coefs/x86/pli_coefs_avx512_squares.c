/* pli_coefs_avx512_squares.c - the tokens of squares with AVX-512: classes of ends, and DC
 * (docs/format-pli.md, 8.2 and 8.3).
 *
 * It takes words and states of a unit, and makes rows of 64 bytes. The functions are pure; any
 * thread may call them. One table has the contexts of both sides. One comparison finds the half of
 * the 16 tokens that a slot is in; the rest is a search among 8, as for AC. A unit has only some 50
 * of these steps, so they are not optimised further. */
#include "pli/decode/coefs/x86/pli_coefs_avx512.h"

#if defined(__x86_64__)

enum { LANES = PSTI_COEFS_LANES };

/* The state that is passed from step to step. */
struct stream {
    struct psti_coefs_avx512_states states;
    const uint8_t *words;
};

/* Decodes the tokens of the lanes whose bits are set. Returns 0 in other lanes. `contexts` has 32
 * bytes of 16 * side + context. */
PSTI_ICL_TARGET static __m256i step(struct psti_coefs_unit *unit, struct stream *s,
                                    const uint16_t (*table)[LANES], __m256i contexts,
                                    uint32_t lanes)
{
    const __m512i all = _mm512_set1_epi16(PSTI_JPEG_PROB_SUM);
    __m512i index = _mm512_cvtepu8_epi16(contexts), slot = slots_of(s->states), b[8];
    if (s->words > unit->words.limit)
        s->words = more_words(unit, s->words);
    __m512i middle = _mm512_permutexvar_epi16(index, load(table[7]));
    uint32_t from_8 = _mm512_cmple_epu16_mask(middle, slot);
    for (int i = 1; i < 8; i++)
        b[i] = choose(from_8, _mm512_permutexvar_epi16(index, load(table[i - 1])),
                      _mm512_permutexvar_epi16(index, load(table[i + 7])));
    struct psti_coefs_avx512_found f = search(
        slot, b, choose(from_8, _mm512_setzero_si512(), middle), choose(from_8, middle, all));
    __m512i freq = choose(lanes, all, _mm512_sub_epi16(f.end, f.begin));
    __m512i bias = choose(lanes, slot, _mm512_sub_epi16(slot, f.begin));
    s->words = advance(&s->states, freq, bias, s->words);
    __m256i token =
        add_number(_mm256_maskz_mov_epi8(from_8, _mm256_set1_epi8(PSTI_JPEG_N_ENDS / 2)), &f);
    return _mm256_maskz_mov_epi8(lanes, token);
}

/* -- Classes of the ends of blocks -- */

/* Returns for each position the sum of its left and right neighbours. If a neighbour is outside the
 * square, the other one counts twice. */
PSTI_ICL_INLINE __m512i across(const struct psti_jpeg_square *q, __m512i classes)
{
    const __m512i first = _mm512_set1_epi64(0xff);
    const __m512i last = _mm512_set1_epi64((long long)(UINT64_C(0xff) << (8 * (q->columns - 1))));
    __m512i left = _mm512_slli_epi64(classes, 8), right = _mm512_srli_epi64(classes, 8);
    __m512i more = _mm512_or_si512(_mm512_and_si512(right, first), _mm512_and_si512(left, last));
    return _mm512_add_epi8(_mm512_add_epi8(left, right), more);
}

/* Returns for each position the sum of its neighbours above and below. If a neighbour is outside
 * the square, the other one counts twice. */
PSTI_ICL_INLINE __m512i along(const struct psti_jpeg_square *q, __m512i classes)
{
    _Alignas(64) uint64_t above[8] = {1, 0, 1, 2, 3, 4, 5, 6}, below[8] = {1, 2, 3, 4, 5, 6, 7, 7};
    if (q->rows == 1)
        return _mm512_setzero_si512();
    below[q->rows - 1] = q->rows - 2u;
    return _mm512_add_epi8(_mm512_permutexvar_epi64(load(above), classes),
                           _mm512_permutexvar_epi64(load(below), classes));
}

/* Returns the contexts of all blocks, from the classes of even ones. Positions without a block have
 * class 0. */
PSTI_ICL_INLINE __m512i find_contexts(const struct psti_jpeg_square *q, __m512i even)
{
    __m512i sum = _mm512_add_epi8(across(q, even), along(q, even));
    if (q->rows == 1 || q->columns == 1) /* the neighbours in the only row or column count twice */
        sum = _mm512_add_epi8(sum, sum);
    sum = _mm512_srli_epi16(_mm512_add_epi8(sum, _mm512_set1_epi8(2)), 2);
    return _mm512_min_epu8(_mm512_and_si512(sum, _mm512_set1_epi8(63)),
                           _mm512_set1_epi8(PSTI_JPEG_ODD_CONTEXT_MAX));
}

PSTI_ICL_TARGET void psti_pli_coefs_avx512_read_classes(struct psti_coefs_unit *unit)
{
    struct stream s = {load_states(unit), unit->words.at};
    const uint16_t(*table)[LANES] = coefs_tables(unit)->ends;
    for (uint32_t i = 0; i < unit->out->n_squares; i++) {
        const struct psti_jpeg_square *q = unit->out->squares + i;
        const char side = (char)(q->side ? PSTI_JPEG_N_ENDS : 0);
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        __m256i tokens = step(unit, &s, table, _mm256_set1_epi8(side + PSTI_JPEG_EVEN_CONTEXT),
                              (uint32_t)_pext_u64(blocks, PSTI_JPEG_EVEN));
        __m512i even = psti_avx512_expand_bytes(PSTI_JPEG_EVEN, _mm512_castsi256_si512(tokens));
        __m512i contexts = psti_avx512_compress_bytes(~PSTI_JPEG_EVEN, find_contexts(q, even));
        tokens = step(unit, &s, table,
                      _mm256_add_epi8(_mm512_castsi512_si256(contexts), _mm256_set1_epi8(side)),
                      (uint32_t)_pext_u64(blocks, ~PSTI_JPEG_EVEN));
        __m512i odd = psti_avx512_expand_bytes(~PSTI_JPEG_EVEN, _mm512_castsi256_si512(tokens));
        store(unit->classes[i], _mm512_or_si512(even, odd));
    }
    unit->words.at = s.words;
    store_states(unit, s.states);
}

/* -- DC -- */

PSTI_ICL_TARGET void psti_pli_coefs_avx512_read_dc(struct psti_coefs_unit *unit)
{
    struct stream s = {load_states(unit), unit->words.at};
    const uint16_t(*table)[LANES] = coefs_tables(unit)->dc;
    for (uint32_t i = 0; i < unit->out->n_squares; i++) {
        const struct psti_jpeg_square *q = unit->out->squares + i;
        const __m256i side = _mm256_set1_epi8((char)(q->side ? PSTI_JPEG_N_ENDS : 0));
        uint64_t blocks = psti_pli_jpeg_blocks(q);
        for (uint32_t half = 0; half < PSTI_COEFS_SQUARE; half += LANES) {
            __m256i contexts = _mm256_loadu_si256((const void *)(unit->classes[i] + half));
            contexts = _mm256_add_epi8(contexts, side);
            __m256i tokens = step(unit, &s, table, contexts, (uint32_t)(blocks >> half));
            _mm256_storeu_si256((void *)(unit->dc_tokens[i] + half), tokens);
        }
    }
    unit->words.at = s.words;
    store_states(unit, s.states);
}
#endif
