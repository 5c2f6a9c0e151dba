/* pli_coefs_avx2.h - inside the AVX2 level of the coefficient decoder (docs/format-pli.md, section
 * 8): its tables, and the states that its loops over tokens keep in registers.
 *
 * A step's 32 lanes stand in bytes in their order. In 16 bits they are two vectors: A has lanes
 * 0..7 and 16..23, B the others, which is what unpacking and packing bytes gives. */
#ifndef PST_DECODE_PLI_COEFS_AVX2_H
#define PST_DECODE_PLI_COEFS_AVX2_H

#include "decode/pli_coefs_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PSTI_COEFS_INLINE                                                                          \
    static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

typedef __m256i v32;

enum {
    COEFS_PAIRS = 6, /* of classes D */
    COEFS_AC_BOUNDS = PSTI_JPEG_N_AC_TOKENS - 1,
    COEFS_BOUNDS = PSTI_JPEG_N_ENDS - 1
};

/* Where tokens' slots begin: of token t at [t - 1], as token 0 begins at 0. */
struct psti_coefs_avx2_tables {
    _Alignas(32) uint16_t rows[4][COEFS_AC_BOUNDS][8];  /* AC: [D], 8 buckets */
    uint8_t pairs[COEFS_PAIRS][COEFS_AC_BOUNDS][2][16]; /* two such rows' low, then high bytes */
    uint8_t ends[2][COEFS_BOUNDS][2][16];               /* [side]: of 16 contexts, likewise */
    uint8_t dc[2][COEFS_BOUNDS][2][16];                 /* 4096 for tokens that are none */
    bool has_sure_tokens;                               /* AC: one has all slots of its context */
};
_Static_assert(sizeof(struct psti_coefs_avx2_tables) <= PSTI_COEFS_LEVEL_NBYTES, "memory");

struct psti_coefs_avx2_states {
    v32 high_a, low_a, high_b, low_b;
};

/* 32 bytes of 0, 32 of 8 */
extern const uint8_t psti_coefs_avx2_ramp[64];
/* 32 bytes of 255, 32 of 0 */
extern const uint8_t psti_coefs_avx2_first_lanes[64];
/* Which words 8 lanes take, of those at a pointer, by the mask of lanes: 16 byte indices. */
struct psti_coefs_avx2_spread {
    _Alignas(64) uint8_t bytes[256][16];
};
extern const struct psti_coefs_avx2_spread psti_coefs_avx2_spread;

void psti_coefs_avx2_read_classes(struct psti_coefs_unit *unit);
void psti_coefs_avx2_read_ends(struct psti_coefs_unit *unit);
void psti_coefs_avx2_sort(struct psti_coefs_unit *unit);
void psti_coefs_avx2_read_dc(struct psti_coefs_unit *unit);
void psti_coefs_avx2_read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
void psti_coefs_avx2_place_dc(struct psti_coefs_unit *unit);
void psti_coefs_avx2_place_ac(struct psti_coefs_unit *unit, uint32_t last);

PSTI_COEFS_INLINE const struct psti_coefs_avx2_tables *coefs_tables(
    const struct psti_coefs_unit *unit)
{
    return (const struct psti_coefs_avx2_tables *)(const void *)unit->tables->memory;
}

PSTI_COEFS_INLINE v32 load(const void *at) { return _mm256_loadu_si256((const v32 *)at); }
PSTI_COEFS_INLINE void store(void *at, v32 v) { _mm256_storeu_si256((v32 *)at, v); }
PSTI_COEFS_INLINE v32 both_halves(const void *at)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at));
}
PSTI_COEFS_INLINE v32 halves(__m128i low, __m128i high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
/* Bytes of `yes` where the mask has bit 7. */
PSTI_COEFS_INLINE v32 pick(v32 no, v32 yes, v32 mask)
{
#if defined(__clang__)
    return _mm256_blendv_epi8(no, yes, mask);
#else /* GCC compares the mask with 0 once more when it knows what is done here */
    v32 v;
    __asm__("vpblendvb %3, %2, %1, %0" : "=x"(v) : "x"(no), "xm"(yes), "x"(mask));
    return v;
#endif
}
/* 255 in the bytes of ones, in their order. */
PSTI_COEFS_INLINE v32 bytes_of_32(uint32_t mask)
{
    const v32 bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const v32 from =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    v32 bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), from);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}
/* 255 in the first n lanes, n <= 32. */
PSTI_COEFS_INLINE v32 first_lanes(uint32_t n) { return load(psti_coefs_avx2_first_lanes + 32 - n); }

/* -- States -- */

PSTI_COEFS_INLINE struct psti_coefs_avx2_states load_states(const struct psti_coefs_unit *unit)
{
    const v32 low = _mm256_set1_epi32(0xffff);
    v32 x[4];
    for (int i = 0; i < 4; i++) /* lanes 0..7 and 16..23, and so on */
        x[i] = load(unit->states + 8 * i);
    v32 a0 = x[0], a1 = x[2], b0 = x[1], b1 = x[3];
    struct psti_coefs_avx2_states s;
#define ORDER(v) _mm256_permute4x64_epi64(v, 0xd8)
    s.low_a = ORDER(_mm256_packus_epi32(_mm256_and_si256(a0, low), _mm256_and_si256(a1, low)));
    s.low_b = ORDER(_mm256_packus_epi32(_mm256_and_si256(b0, low), _mm256_and_si256(b1, low)));
    s.high_a = ORDER(_mm256_packus_epi32(_mm256_srli_epi32(a0, 16), _mm256_srli_epi32(a1, 16)));
    s.high_b = ORDER(_mm256_packus_epi32(_mm256_srli_epi32(b0, 16), _mm256_srli_epi32(b1, 16)));
    return s;
}

PSTI_COEFS_INLINE void store_states(struct psti_coefs_unit *unit, struct psti_coefs_avx2_states s)
{
    v32 low_a = ORDER(s.low_a), low_b = ORDER(s.low_b);
    v32 high_a = ORDER(s.high_a), high_b = ORDER(s.high_b);
#undef ORDER
    store(unit->states, _mm256_unpacklo_epi16(low_a, high_a));
    store(unit->states + 8, _mm256_unpacklo_epi16(low_b, high_b));
    store(unit->states + 16, _mm256_unpackhi_epi16(low_a, high_a));
    store(unit->states + 24, _mm256_unpackhi_epi16(low_b, high_b));
}

/* What a search finds: where the token's slots begin, and how many there are. */
struct psti_coefs_avx2_found {
    v32 begin, freq;
};
/* And which half, quarter and eighth of 8 tokens it is in. -1: the lower one. */
struct psti_coefs_avx2_search {
    struct psti_coefs_avx2_found found;
    v32 half, quarter, eighth;
};

/* Among 8 tokens, of which the first begins at `begin`, and the last ends at `end`. */
PSTI_COEFS_INLINE struct psti_coefs_avx2_search search(v32 slot, const v32 bounds[7], v32 begin,
                                                       v32 end)
{
    struct psti_coefs_avx2_search s;
    s.half = _mm256_cmpgt_epi16(bounds[3], slot);
    begin = pick(bounds[3], begin, s.half);
    end = pick(end, bounds[3], s.half);
    v32 low = pick(bounds[4], bounds[0], s.half), high = pick(bounds[6], bounds[2], s.half);
    v32 bound = pick(bounds[5], bounds[1], s.half);
    s.quarter = _mm256_cmpgt_epi16(bound, slot);
    v32 last = pick(high, low, s.quarter);
    begin = pick(bound, begin, s.quarter);
    end = pick(end, bound, s.quarter);
    s.eighth = _mm256_cmpgt_epi16(last, slot);
    begin = pick(last, begin, s.eighth);
    end = pick(end, last, s.eighth);
    s.found = (struct psti_coefs_avx2_found){begin, _mm256_sub_epi16(end, begin)};
    return s;
}

/* x := freq * (x >> 12) + slot - begin, without the word that may follow; returns the lanes that
 * need one: their lower halves are 0. Frequencies of 4096 count as 0, and lanes in `idle` keep
 * their states, if `partial`. */
PSTI_COEFS_INLINE v32 advance(v32 *high, v32 *low, v32 slot, struct psti_coefs_avx2_found found,
                              v32 idle, bool partial)
{
    const v32 top = _mm256_set1_epi16((short)0x8000);
    v32 freq = _mm256_slli_epi16(found.freq, 4);
    v32 upper_bits = _mm256_and_si256(*low, _mm256_set1_epi16((short)0xf000));
    /* Bit 15 is turned over: signed comparisons find the carry of unsigned sums. */
    v32 bias = _mm256_xor_si256(_mm256_sub_epi16(slot, found.begin), top);
    v32 small = _mm256_add_epi16(_mm256_mulhi_epu16(freq, upper_bits), bias);
    v32 sum = _mm256_add_epi16(_mm256_mullo_epi16(freq, *high), small);
    v32 product = _mm256_mulhi_epu16(freq, *high);
    v32 carry = _mm256_cmpgt_epi16(small, sum); /* -1 */
    v32 new_low = _mm256_xor_si256(sum, top);
    v32 new_high = _mm256_sub_epi16(product, carry);
    v32 empty = _mm256_cmpeq_epi16(product, carry); /* the product is less than 65535 */
    if (partial) {
        idle = _mm256_or_si256(idle, _mm256_cmpeq_epi16(freq, _mm256_setzero_si256()));
        new_high = pick(new_high, *high, idle);
        new_low = pick(new_low, *low, idle);
        empty = _mm256_andnot_si256(idle, empty);
    }
    *high = _mm256_or_si256(new_high, _mm256_and_si256(new_low, empty));
    *low = _mm256_andnot_si256(empty, new_low);
    return empty;
}

/* `lanes`: from bit 4 on. */
PSTI_COEFS_INLINE __m128i spread_words(const uint8_t *words, uint32_t lanes)
{
    const uint8_t *indices = (const uint8_t *)psti_coefs_avx2_spread.bytes + (lanes & 0xff0);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)words),
                            _mm_load_si128((const __m128i *)(const void *)indices));
}

/* Lower halves of the lanes that are empty; returns where the next words are. */
PSTI_COEFS_INLINE const uint8_t *take_words(const uint8_t *words, v32 empty_a, v32 empty_b,
                                            v32 *low_a, v32 *low_b)
{
    uint32_t lanes = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(empty_a, empty_b));
    const uint8_t *words_1 = words + 2 * _mm_popcnt_u32(lanes & 0xff);
    const uint8_t *words_2 = words + 2 * _mm_popcnt_u32(lanes & 0xffff);
    const uint8_t *words_3 = words + 2 * _mm_popcnt_u32(lanes & 0xffffff);
    __m128i new_0 = spread_words(words, lanes << 4), new_2 = spread_words(words_2, lanes >> 12);
    __m128i new_1 = spread_words(words_1, lanes >> 4), new_3 = spread_words(words_3, lanes >> 20);
    *low_a = _mm256_or_si256(*low_a, halves(new_0, new_2));
    *low_b = _mm256_or_si256(*low_b, halves(new_1, new_3));
    return words + 2 * _mm_popcnt_u32(lanes);
}

/* Where the words of the next step are. */
PSTI_COEFS_INLINE const uint8_t *more_words(struct psti_coefs_unit *unit, const uint8_t *words)
{
    unit->words.at = words;
    psti_coefs_more_words(&unit->words);
    return unit->words.at;
}

#endif
#endif
