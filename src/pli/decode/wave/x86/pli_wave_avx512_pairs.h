/* pli_wave_avx512_pairs.h - from a row of activities and bits to pairs of residuals, inside the
 * AVX-512 level of the wave decoder.
 *
 * In: rows of activities, one after another, and the bits of the units with the low halves of their
 * states; out: residuals of the pairs' first samples and of their second ones. A row's R and S are
 * 64 bytes of each unit's bits at most. Each eight lanes take those bytes that hold theirs, and
 * each lane of them its bits: at most 57 for eight lanes, wherever they begin. Rows that have more
 * are rare and take each four lanes' apart. Those that have any S are not rare, but do something
 * else all the same: units have them in runs. */
#ifndef PST_PLI_WAVE_AVX512_PAIRS_H
#define PST_PLI_WAVE_AVX512_PAIRS_H

#include "pli/decode/wave/x86/pli_wave_avx512.h"

#if defined(__x86_64__)
/* All of them, so that loops hold them in registers. */
struct pair_constants {
    __m512i sizes_r, sizes_s;        /* of parts, by lower four bits of activities */
    __m512i masks_r, no_bits_s;      /* bits that R / 4 has, and that S lacks, likewise */
    __m512i least_square, any, more; /* activities; and what too many bits of eights are at least */
    /* Of all eights' sums, R's and then S's, which bytes sum up to what comes before the word's R
     * (in a unit's first word: to all of them) and before its S. */
    __m512i below_r, below_s;
    __m512i all;           /* which halves of words have a unit's sum, and the other's */
    __m512i seven;         /* words */
    __m512i ones, two;     /* bytes */
    __m512i bytes;         /* in each byte of a word, how many bits are a byte: 3 */
    __m512i ascending;     /* bytes of a word 0..7, + 64 of the second unit */
    __m512i quarter, half; /* products of bits by these shift bytes to the right */
    /* By lower four bits: the number of a token's first point, of which R / 4 are the lowest bits;
     * what leads from R / 4 to b less half of u. */
    __m512i points, offsets;
    __m512i points_a[2], points_b[2]; /* by number */
    __mmask8 not_first;               /* words of units; a constant would be made in each turn */
};

/* Bits of the units, and what follows them: as many as rows can want. */
struct pair_bits {
    const uint8_t *of[WAVE_UNITS];
};

/* Where bits of a part are: the bytes that each eight lanes look at, and each lane's in them. */
struct pair_place {
    __m512i bytes, bits;
};

/* A row whose bits have been found. `at`: how many are before it; of the second unit in the upper
 * half. */
struct pair_row {
    __m512i activities;
    struct pair_place first;
    uint64_t at;
    bool special; /* there is more to it: */
};
/* Some lanes have S, and so u; and some eight `many` bits: only a token that has S has 8. */
struct pair_special {
    __m512i u;
    bool many;
};

struct pair_residuals {
    __m512i x, y;
};

/* -- Places -- */

/* `begin`: words, where each eight's bits begin after the byte where the unit's do. */
INLINE struct pair_place pair_find(const struct pair_constants *c, __m512i begin, __m512i sizes)
{
    __m512i bytes = _mm512_multishift_epi64_epi8(c->bytes, begin);
    /* Sums of sizes below, as sums go from byte to byte in products. */
    __m512i shifted = _mm512_ternarylogic_epi64(begin, c->seven, _mm512_slli_epi64(sizes, 8), 0xEA);
    return (struct pair_place){_mm512_add_epi8(bytes, c->ascending),
                               _mm512_mullo_epi64(shifted, c->ones)};
}

INLINE const uint8_t *pair_bytes(const struct pair_bits *bits, uint64_t at, uint32_t u)
{
    return bits->of[u] + (u == 0 ? (uint32_t)at >> 3 : at >> 35);
}

/* The bits of each lane, and others above them. */
INLINE __m512i pair_deal(const uint8_t *first, const uint8_t *second, struct pair_place place)
{
    __m512i bytes = _mm512_permutex2var_epi8(row_load(first), place.bytes, row_load(second));
    return _mm512_multishift_epi64_epi8(place.bits, bytes);
}

/* The same where eights have many bits: the upper four lanes look at bytes of their own. */
TARGET __attribute__((noinline, unused)) static void pair_deal_many(const struct pair_bits *bits,
                                                                    uint64_t at,
                                                                    struct pair_place *place,
                                                                    __m512i *out)
{
    const __m512i fourth = _mm512_set_epi64(
        0x0c0c0c0c0c0c0c0c, 0x0404040404040404, 0x0c0c0c0c0c0c0c0c, 0x0404040404040404,
        0x0c0c0c0c0c0c0c0c, 0x0404040404040404, 0x0c0c0c0c0c0c0c0c, 0x0404040404040404);
    uint8_t bytes[WAVE_ROW];
    row_store(bytes, place->bytes);
    const uint8_t *first = pair_bytes(bits, at, 0) + bytes[0];
    const uint8_t *second = pair_bytes(bits, at, 1) + (bytes[WAVE_LANES] - 64);
    __m512i skipped = _mm512_mask_mov_epi8(_mm512_set1_epi8((char)(bytes[WAVE_LANES] - 64)),
                                           WAVE_FIRST_UNIT, _mm512_set1_epi8((char)bytes[0]));
    struct pair_place low = {_mm512_sub_epi8(place->bytes, skipped), place->bits};
    __m512i begin =
        _mm512_and_si512(_mm512_shuffle_epi8(low.bits, fourth), _mm512_set1_epi8((char)0xf8));
    struct pair_place high = {_mm512_add_epi8(low.bytes, _mm512_srli_epi64(begin, 3)),
                              _mm512_sub_epi8(low.bits, begin)};
    *out = _mm512_mask_mov_epi8(pair_deal(first, second, low), 0xf0f0f0f0f0f0f0f0,
                                pair_deal(first, second, high));
}

INLINE __m512i pair_take(const struct pair_bits *bits, uint64_t at, const struct pair_place *place,
                         bool many)
{
    if (many) {
        struct pair_place copy = *place;
        __m512i out;
        pair_deal_many(bits, at, &copy, &out);
        return out;
    }
    return pair_deal(pair_bytes(bits, at, 0), pair_bytes(bits, at, 1), *place);
}

/* -- Rows -- */

/* Takes S. Returns all eights' sums of its sizes. */
INLINE __m512i pair_find_special(const struct pair_constants *c, const struct pair_bits *bits,
                                 const struct pair_row *row, __m512i bit, __m512i eights,
                                 struct pair_special *special)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i no_bits = _mm512_shuffle_epi8(c->no_bits_s, row->activities);
    __m512i sizes = _mm512_shuffle_epi8(c->sizes_s, row->activities);
    __m512i eights_s = _mm512_sad_epu8(sizes, zero);
    __m512i below = _mm512_sad_epu8(_mm512_permutex2var_epi8(eights, c->below_s, eights_s), zero);
    struct pair_place place = pair_find(c, _mm512_add_epi64(below, bit), sizes);
    special->many = _mm512_cmpge_epu8_mask(_mm512_max_epu8(eights, eights_s), c->more) != 0;
    __m512i second = pair_take(bits, row->at, &place, special->many);
    special->u = _mm512_sub_epi8(_mm512_andnot_si512(no_bits, second), no_bits);
    return eights_s;
}

/* `at`: where the row's bits begin, and then the next row's; in each word of a unit, that of the
 * other unit in the upper half. */
INLINE struct pair_row pair_find_row(const struct pair_constants *c, const uint8_t *activities,
                                     const struct pair_bits *bits, __m512i *at,
                                     struct pair_special *special)
{
    const __m512i zero = _mm512_setzero_si512();
    struct pair_row row;
    row.activities = row_load(activities);
    row.at = (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(*at));
    __m512i sizes = _mm512_shuffle_epi8(c->sizes_r, row.activities);
    __m512i eights = _mm512_sad_epu8(sizes, zero), eights_s = zero;
    __m512i bit = _mm512_and_si512(*at, c->seven);
    row.special = _mm512_cmpge_epu8_mask(row.activities, c->least_square) != 0;
    if (row.special)
        eights_s = pair_find_special(c, bits, &row, bit, eights, special);
    __m512i below = _mm512_sad_epu8(_mm512_permutex2var_epi8(eights, c->below_r, eights_s), zero);
    row.first = pair_find(c, _mm512_mask_add_epi64(bit, c->not_first, bit, below), sizes);
    *at = _mm512_add_epi32(*at, _mm512_permutexvar_epi32(c->all, below));
    return row;
}

/* Points, and how often they are to be turned: lower two bits. */
struct pair_points {
    __m512i a, b, turns;
};

/* Those of tokens that have S; `turns`: R, and in other lanes anything above it. */
INLINE void pair_find_squares(const struct pair_constants *c, __m512i activities, __m512i number,
                              __m512i u, struct pair_points *p)
{
    __mmask64 squares = _mm512_cmpge_epu8_mask(activities, c->least_square);
    __mmask64 any = _mm512_cmpeq_epi8_mask(activities, c->any);
    __m512i b = _mm512_add_epi8(number, _mm512_shuffle_epi8(c->offsets, activities));
    b = _mm512_add_epi8(b, _mm512_gf2p8affine_epi64_epi8(u, c->half, 0));
    p->a = _mm512_mask_sub_epi8(p->a, squares, u, b);
    p->b = _mm512_mask_mov_epi8(p->b, squares, b);
    p->a = _mm512_mask_mov_epi8(p->a, any, p->turns);
    p->b = _mm512_mask_mov_epi8(p->b, any, u);
    p->turns = _mm512_mask_mov_epi8(p->turns, any, _mm512_setzero_si512());
}

INLINE struct pair_residuals pair_take_row(const struct pair_constants *c,
                                           const struct pair_bits *bits, const struct pair_row *row,
                                           const struct pair_special *special)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i first = pair_take(bits, row->at, &row->first, row->special && special->many);
    __m512i number = _mm512_ternarylogic_epi64(_mm512_gf2p8affine_epi64_epi8(first, c->quarter, 0),
                                               _mm512_shuffle_epi8(c->masks_r, row->activities),
                                               _mm512_shuffle_epi8(c->points, row->activities),
                                               0xEA); /* a & b | c */
    struct pair_points p = {_mm512_permutex2var_epi8(c->points_a[0], number, c->points_a[1]),
                            _mm512_permutex2var_epi8(c->points_b[0], number, c->points_b[1]),
                            first};
    if (row->special)
        pair_find_squares(c, row->activities, number, special->u, &p);
    __mmask64 once = _mm512_test_epi8_mask(p.turns, c->ones);
    __mmask64 twice = _mm512_test_epi8_mask(p.turns, c->two);
    p.a = _mm512_mask_sub_epi8(p.a, twice, zero, p.a);
    p.b = _mm512_mask_sub_epi8(p.b, twice, zero, p.b);
    return (struct pair_residuals){_mm512_mask_sub_epi8(p.a, once, zero, p.b),
                                   _mm512_mask_mov_epi8(p.b, once, p.a)};
}

/* -- Jobs -- */

/* pli_wave_avx512_raw.c */
struct pair_constants psti_pli_wave512_open_pairs(const struct psti_pli_wave512_job *job,
                                                  struct pair_bits *bits);
/* `at`: bits before what follows the last row. */
void psti_pli_wave512_close_pairs(const struct psti_pli_wave512_job *job, uint64_t at,
                                  bool lacks[WAVE_UNITS]);
#endif

#endif
