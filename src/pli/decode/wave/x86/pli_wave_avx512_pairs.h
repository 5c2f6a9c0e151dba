/* pli_wave_avx512_pairs.h - turns a row of activities and bits into pairs of residuals, inside the
 * AVX-512 level of the wave decoder.
 *
 * It takes rows of activities, one after another, and the bits of the units with the low halves
 * of their states after them. The results are the residuals of the pairs' first samples and of
 * their second samples. R and S stand for suffix1 and suffix2 (docs/format-pli.md, 5.4). A row's
 * R and S are at most 64 bytes of each unit's bits. Each eight lanes first take the bytes that
 * hold their bits, then each lane takes its bits of these bytes. This works if eight lanes have at
 * most 57 bits, at whatever bit they begin. Rows with more are rare; their upper four lanes take
 * bytes of their own. Rows with any S have a branch of their own. They are not rare, but units have
 * them in runs. */
#ifndef PST_PLI_WAVE_AVX512_PAIRS_H
#define PST_PLI_WAVE_AVX512_PAIRS_H

#include "pli/decode/wave/x86/pli_wave_avx512.h"

#if defined(__x86_64__)
/* All constants, in one struct, which loops can keep in registers. */
struct pair_constants {
    __m512i sizes_r, sizes_s; /* numbers of bits of R and of S, by the lower four bits of an
                               * activity */
    /* Indexed by the lower four bits of an activity: the bits that R / 4 can have, and the bits
     * that S cannot have. */
    __m512i masks_r, no_bits_s;
    /* least_square: activity of the first token that has S. any: activity of the token that stands
     * for any pair. more: the smallest number of bits that eight lanes cannot take at once. */
    __m512i least_square, any, more;
    /* Indices of bytes among the sums of bits of all eights of lanes: the sums of R, then those of
     * S. below_r picks the sums before the word's R; in a unit's first word it picks all sums.
     * below_s picks the sums before the word's S. */
    __m512i below_r, below_s;
    /* Indices of the halves of words that hold the total sum of the unit, and of the other unit. */
    __m512i all;
    __m512i seven;     /* 7 in each word */
    __m512i ones, two; /* bytes of 1, and bytes of 2 */
    __m512i bytes;     /* bytes of 3: the shift that turns a number of bits into a number of
                        * bytes */
    __m512i ascending; /* bytes 0..7 in each word, plus 64 in the second unit */
    /* Matrices: a product with them shifts bytes to the right by 2 bits or by 1 bit. */
    __m512i quarter, half;
    /* Indexed by the lower four bits of an activity. A token of triangles stands for the points
     * `points` + R / 4; R / 4 only sets lowest bits that are 0 in `points`. For a token of squares,
     * b is R / 4 + u / 2 + `offsets`. */
    __m512i points, offsets;
    __m512i points_a[2], points_b[2]; /* a and b of each point, by the point's number */
    /* The words that are not the first of a unit. As a mere constant, compilers would build this
     * mask again in each turn of a loop, so it is a member. */
    __mmask8 not_first;
};

/* The bits of the units. The memory after them holds as many bits as rows can take. */
struct pair_bits {
    const uint8_t *of[WAVE_UNITS];
};

/* Where the bits of a row lie. `bytes` has the indices of the 8 bytes that each group of eight
 * lanes reads. `bits` has the offset of each lane's bits in the 8 bytes of its group. */
struct pair_place {
    __m512i bytes, bits;
};

/* A row whose bits have been located. `at` is the number of bits before those of the row, of the
 * first unit in the lower half and of the second one in the upper half. */
struct pair_row {
    __m512i activities;
    struct pair_place first;
    uint64_t at;
    bool special; /* true if some lanes have S; struct pair_special then has more */
};
/* More about a row in which some lanes have S, and therefore u. `many` is true if a group of eight
 * lanes has more than 57 bits, which only tokens with S can cause. */
struct pair_special {
    __m512i u;
    bool many;
};

struct pair_residuals {
    __m512i x, y;
};

/* -- Places -- */

/* Locates the bits of all lanes. Each word of `begin` says where the bits of its eight lanes begin,
 * counted from the byte in which the unit's bits begin. */
INLINE struct pair_place pair_find(const struct pair_constants *c, __m512i begin, __m512i sizes)
{
    __m512i bytes = _mm512_multishift_epi64_epi8(c->bytes, begin);
    /* The product adds up the sizes of the lanes below, because its carries go from each byte to
     * the bytes above. */
    __m512i shifted = _mm512_ternarylogic_epi64(begin, c->seven, _mm512_slli_epi64(sizes, 8), 0xEA);
    return (struct pair_place){_mm512_add_epi8(bytes, c->ascending),
                               _mm512_mullo_epi64(shifted, c->ones)};
}

INLINE const uint8_t *pair_bytes(const struct pair_bits *bits, uint64_t at, uint32_t u)
{
    return bits->of[u] + (u == 0 ? (uint32_t)at >> 3 : at >> 35);
}

/* Returns the bits of each lane, with other bits above them. */
INLINE __m512i pair_deal(const uint8_t *first, const uint8_t *second, struct pair_place place)
{
    __m512i bytes = _mm512_permutex2var_epi8(row_load(first), place.bytes, row_load(second));
    return _mm512_multishift_epi64_epi8(place.bits, bytes);
}

/* Returns the bits of each lane like pair_deal(), also for groups of eight lanes that have more
 * than 57 bits: the upper four lanes of each group read bytes of their own. */
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

/* Takes S of all lanes. Returns the number of bits of S for each eight lanes. */
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

/* Locates the bits of a row. `at` is the bit at which they begin, and is moved to the beginning of
 * the next row. Each word of a unit has the other unit's number in its upper half. */
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

/* The points (a, b) of all lanes. The lowest two bits of `turns` say how often they are rotated. */
struct pair_points {
    __m512i a, b, turns;
};

/* Finds the points of tokens that have S. `p->turns` holds R, with arbitrary bits above it in other
 * lanes. */
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

/* Copies the units' bits. Returns the constants (pli_wave_avx512_raw.c). */
struct pair_constants psti_pli_wave512_open_pairs(const struct psti_pli_wave512_job *job,
                                                  struct pair_bits *bits);
/* Sets `lacks` for units with too few bits. `at` is the number of bits up to the end of the last
 * row. */
void psti_pli_wave512_close_pairs(const struct psti_pli_wave512_job *job, uint64_t at,
                                  bool lacks[WAVE_UNITS]);
#endif

#endif
