/* pli_coefs_avx512.h - declarations inside the AVX-512 level of the coefficient decoder
 * (docs/format-pli.md, section 8): its tables, and a step of its loops over tokens.
 *
 * The 32 states of a step are two vectors of 16 bits, the lower and the upper halves, in the order
 * of the lanes. There is a vector of 32 words for each bound between tokens. One look-up in it
 * serves all contexts. */
#ifndef PST_PLI_COEFS_AVX512_H
#define PST_PLI_COEFS_AVX512_H

#include "pli/decode/coefs/pli_coefs_int.h"

#if defined(__x86_64__)
#include "base/machine/avx512.h"

enum { COEFS_512_AC_BOUNDS = PSTI_JPEG_N_AC_TOKENS - 1, COEFS_512_BOUNDS = PSTI_JPEG_N_ENDS - 1 };

/* Tables of bounds: [t - 1][context] is the slot at which token t begins. Token 0 begins at 0. */
struct psti_coefs_avx512_tables {
    _Alignas(64) uint16_t ac[COEFS_512_AC_BOUNDS][32]; /* context: 8 * distance + bucket */
    uint16_t ends[COEFS_512_BOUNDS][32];               /* for classes of blocks' ends, indexed by 16
                                                        * * side + context */
    uint16_t dc[COEFS_512_BOUNDS][32];                 /* for DC, indexed like `ends`; 4096 for
                                                        * tokens that do not exist */
    /* Twice the bucket of size x (8.4), 0..127, stored at [x ^ 64]. */
    uint8_t buckets[128];
    uint8_t rows[64]; /* 16 * distance, indexed by end - k */
};
_Static_assert(sizeof(struct psti_coefs_avx512_tables) <= PSTI_COEFS_LEVEL_NBYTES, "memory");

void psti_pli_coefs_avx512_read_classes(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx512_read_ends(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx512_read_dc(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx512_read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
void psti_pli_coefs_avx512_read_two(struct psti_coefs_unit *const units[2], const uint32_t last[2]);
void psti_pli_coefs_avx512_place_dc(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx512_place_ac(struct psti_coefs_unit *unit, uint32_t last);

PSTI_ICL_INLINE const struct psti_coefs_avx512_tables *coefs_tables(
    const struct psti_coefs_unit *unit)
{
    return (const struct psti_coefs_avx512_tables *)(const void *)unit->tables->memory;
}

PSTI_ICL_INLINE __m512i load(const void *at) { return _mm512_loadu_si512(at); }
PSTI_ICL_INLINE void store(void *at, __m512i v) { _mm512_storeu_si512(at, v); }

/* These functions prevent optimisations that lengthen a chain of dependent instructions. `apart`
 * and `mask_apart` hide a value from gcc, which would merge a selection into its operands, or two
 * tests into one that waits for both. clang does neither with masks. But for `&` clang would move
 * masks to general registers and back; mask_without works in mask registers. And clang would expand
 * a mask to words to subtract them; minus_one() does not. */
PSTI_ICL_INLINE __m512i apart(__m512i v)
{
#if !defined(PST_SIMDE)
    __asm__("" : "+v"(v));
#endif
    return v;
}
PSTI_ICL_INLINE __mmask32 mask_apart(__mmask32 mask)
{
#if !defined(PST_SIMDE) && !defined(__clang__)
    __asm__("" : "+k"(mask));
#endif
    return mask;
}
/* Returns `mask & ~others`. */
PSTI_ICL_INLINE __mmask32 mask_without(__mmask32 mask, __mmask32 others)
{
#if !defined(PST_SIMDE)
    __asm__("kandnd %1, %2, %0" : "=k"(mask) : "k"(mask), "k"(others));
    return mask;
#else
    return mask & ~others;
#endif
}
PSTI_ICL_INLINE __m512i minus_one(void)
{
#if defined(__clang__)
    return apart(_mm512_set1_epi16(-1));
#else
    return _mm512_set1_epi16(-1);
#endif
}

/* -- States -- */

struct psti_coefs_avx512_states {
    __m512i low, high;
};

PSTI_ICL_INLINE struct psti_coefs_avx512_states load_states(const struct psti_coefs_unit *unit)
{
    __m512i a = load(unit->states), b = load(unit->states + 16);
    const __m512i even =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
    return (struct psti_coefs_avx512_states){_mm512_permutex2var_epi16(a, even, b),
                                             _mm512_permutex2var_epi16(a, odd, b)};
}

PSTI_ICL_INLINE void store_states(struct psti_coefs_unit *unit, struct psti_coefs_avx512_states s)
{
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    store(unit->states, _mm512_permutex2var_epi16(s.low, first, s.high));
    store(unit->states + 16, _mm512_permutex2var_epi16(s.low, second, s.high));
}

PSTI_ICL_INLINE __m512i slots_of(struct psti_coefs_avx512_states s)
{
    return _mm512_and_si512(s.low, _mm512_set1_epi16(PSTI_JPEG_PROB_SUM - 1));
}

/* Computes x := freq * (x >> 12) + bias, and takes a word if that is below 2^16. Returns the
 * address of the next words. 64 bytes are readable at `words`. */
PSTI_ICL_INLINE const uint8_t *advance(struct psti_coefs_avx512_states *s, __m512i freq,
                                       __m512i bias, const uint8_t *words)
{
    __m512i lower = _mm512_shldi_epi16(s->high, s->low, 4); /* lower half of x >> 12 */
    __m512i upper = _mm512_srli_epi16(s->high, 12);
    __m512i low = _mm512_add_epi16(_mm512_mullo_epi16(freq, lower), bias);
    __m512i high =
        _mm512_add_epi16(_mm512_mulhi_epu16(freq, lower), _mm512_mullo_epi16(freq, upper));
    __mmask32 carry = mask_apart(_mm512_cmplt_epu16_mask(low, bias));
    __mmask32 takers = mask_without(_mm512_testn_epi16_mask(high, high), carry);
    high = _mm512_mask_sub_epi16(high, carry, high, minus_one());
    s->high = _mm512_mask_mov_epi16(high, takers, low);
    s->low = _mm512_mask_expand_epi16(low, takers, apart(load(words)));
    return words + 2 * (size_t)(uint32_t)__builtin_popcount(takers);
}

/* -- Tokens -- */

PSTI_ICL_INLINE __m512i choose(uint32_t lanes, __m512i no, __m512i yes)
{
    return _mm512_mask_mov_epi16(no, lanes, yes);
}

/* The result of a search: the slots at which the token begins and ends, and masks of the lanes
 * whose token is at least 2, at least 4, at least 6, or odd. */
struct psti_coefs_avx512_found {
    __m512i begin, end;
    uint32_t from_2, from_4, from_6, odd;
};

/* Searches 8 tokens. The first begins at `begin`, token t at b[t], and the last ends at `end`.
 * Three comparisons at once find a quarter of the tokens, and then one finds the token. */
PSTI_ICL_INLINE struct psti_coefs_avx512_found search(__m512i slot, const __m512i b[8],
                                                      __m512i begin, __m512i end)
{
    struct psti_coefs_avx512_found f;
    f.from_2 = _mm512_cmple_epu16_mask(b[2], slot);
    f.from_4 = _mm512_cmple_epu16_mask(b[4], slot);
    f.from_6 = _mm512_cmple_epu16_mask(b[6], slot);
    __m512i middle = choose(f.from_4, choose(f.from_2, b[1], b[3]), choose(f.from_6, b[5], b[7]));
    begin = choose(f.from_4, choose(f.from_2, begin, b[2]), choose(f.from_6, b[4], b[6]));
    end = choose(f.from_4, choose(f.from_2, b[2], b[4]), choose(f.from_6, b[6], end));
    f.odd = _mm512_cmple_epu16_mask(middle, slot);
    f.begin = choose(f.odd, begin, middle);
    f.end = choose(f.odd, middle, end);
    return f;
}

/* Adds the number of the token to `token`. */
PSTI_ICL_INLINE __m256i add_number(__m256i token, const struct psti_coefs_avx512_found *f)
{
    const __m256i two = _mm256_set1_epi8(2);
    token = _mm256_mask_add_epi8(token, f->from_2, token, two);
    token = _mm256_mask_add_epi8(token, f->from_4, token, two);
    token = _mm256_mask_add_epi8(token, f->from_6, token, two);
    return _mm256_mask_sub_epi8(token, f->odd, token, _mm256_set1_epi8(-1));
}

/* Returns the address of the words of the next step. */
PSTI_ICL_INLINE const uint8_t *more_words(struct psti_coefs_unit *unit, const uint8_t *words)
{
    unit->words.at = words;
    psti_pli_coefs_more_words(&unit->words);
    return unit->words.at;
}

#endif
#endif
