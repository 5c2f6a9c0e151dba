/* pli_coefs_avx2.h - inside the AVX2 level of the coefficient decoder (docs/format-pli.md, section
 * 8): its tables, and the states that its loops over tokens keep in registers.
 *
 * In 16 bits a step's 32 lanes are two vectors: A has lanes 0..15, B the others. What unpacking and
 * packing make of them are bytes in the order 0..7, 16..23, 8..15, 24..31, which is called woven
 * here; memory has lanes in their order but where it says that they are woven. */
#ifndef PST_PLI_COEFS_AVX2_H
#define PST_PLI_COEFS_AVX2_H

#include "pli/decode/coefs/pli_coefs_int.h"
#include "pli/decode/x86/pli_spread_avx2.h"

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

/* Where tokens' slots begin, of several contexts: low bytes, then high bytes. Of token t at [t -
 * 1], as token 0 begins at 0. */
struct psti_coefs_avx2_tables {
    _Alignas(32) uint8_t rows[4][COEFS_AC_BOUNDS][2][8]; /* AC: [D], 8 buckets */
    uint8_t pairs[COEFS_PAIRS][COEFS_AC_BOUNDS][2][16];  /* two such rows */
    uint8_t ends[2][COEFS_BOUNDS][2][16];                /* [side], 16 contexts */
    uint8_t dc[2][COEFS_BOUNDS][2][16];                  /* 4096 for tokens that are none */
    /* Bucket of a sum (8.4), cut to 0..255, by its upper 4 bits, the highest turned over, if it is
     * not above a limit, which is 128 less. No two limits are in the same 16 but for one, which
     * comes on top, everywhere the same. */
    uint8_t buckets[16], limits[16], extra_limit;
    bool has_sure_tokens; /* AC: one has all slots of its context */
};
_Static_assert(sizeof(struct psti_coefs_avx2_tables) <= PSTI_COEFS_LEVEL_NBYTES, "memory");

struct psti_coefs_avx2_states {
    v32 high_a, low_a, high_b, low_b;
};

/* Vectors that compilers would make anew each time if they knew them. */
struct psti_coefs_avx2_constants {
    _Alignas(32) uint16_t slots[16], upper_bits[16], top[16], all_slots[16];
    uint8_t last_ac_token[32], low_4[32], bit_3[32], one[32];
};
extern const struct psti_coefs_avx2_constants psti_coefs_avx2_constants;
#define COEFS_CONSTANT(name) load(psti_coefs_avx2_constants.name)

/* 32 bytes of 0, 32 of 8 */
extern const uint8_t psti_coefs_avx2_ramp[64];
/* 32 bytes of 255, 32 of 0 */
extern const uint8_t psti_coefs_avx2_first_lanes[64];

void psti_pli_coefs_avx2_read_classes(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_ends(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_dc(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
void psti_pli_coefs_avx2_place_dc(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_place_ac(struct psti_coefs_unit *unit, uint32_t last);

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

/* Bytes of 32 lanes in their order -> woven, or back. */
PSTI_COEFS_INLINE v32 weave(v32 v) { return _mm256_permute4x64_epi64(v, 0xd8); }

PSTI_COEFS_INLINE struct psti_coefs_avx2_states load_states(const struct psti_coefs_unit *unit)
{
    const v32 low = _mm256_set1_epi32(0xffff);
    v32 x0 = load(unit->states), x1 = load(unit->states + 8);
    v32 x2 = load(unit->states + 16), x3 = load(unit->states + 24);
    struct psti_coefs_avx2_states s;
    s.low_a = weave(_mm256_packus_epi32(_mm256_and_si256(x0, low), _mm256_and_si256(x1, low)));
    s.low_b = weave(_mm256_packus_epi32(_mm256_and_si256(x2, low), _mm256_and_si256(x3, low)));
    s.high_a = weave(_mm256_packus_epi32(_mm256_srli_epi32(x0, 16), _mm256_srli_epi32(x1, 16)));
    s.high_b = weave(_mm256_packus_epi32(_mm256_srli_epi32(x2, 16), _mm256_srli_epi32(x3, 16)));
    return s;
}

PSTI_COEFS_INLINE void store_states(struct psti_coefs_unit *unit, struct psti_coefs_avx2_states s)
{
    v32 low_a = weave(s.low_a), low_b = weave(s.low_b);
    v32 high_a = weave(s.high_a), high_b = weave(s.high_b);
    store(unit->states, _mm256_unpacklo_epi16(low_a, high_a));
    store(unit->states + 8, _mm256_unpackhi_epi16(low_a, high_a));
    store(unit->states + 16, _mm256_unpacklo_epi16(low_b, high_b));
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

/* What a step makes of the lower halves first. */
struct psti_coefs_avx2_parts {
    v32 slot, upper; /* bits 0..11; bits 12..15, where they are */
};
PSTI_COEFS_INLINE struct psti_coefs_avx2_parts split(v32 low)
{
    return (struct psti_coefs_avx2_parts){
        _mm256_and_si256(low, COEFS_CONSTANT(slots)),
        _mm256_and_si256(low, COEFS_CONSTANT(upper_bits)),
    };
}

/* x := freq * (x >> 12) + slot - begin, without the word that may follow; returns the lanes that
 * need one: their lower halves have become the higher ones. Frequencies of 4096 count as 0, and
 * lanes in `idle` keep their states, if `partial`. */
PSTI_COEFS_INLINE v32 advance(v32 *high, v32 *low, struct psti_coefs_avx2_parts parts,
                              struct psti_coefs_avx2_found found, v32 idle, bool partial)
{
    const v32 top = COEFS_CONSTANT(top);
    v32 freq = _mm256_slli_epi16(found.freq, 4);
    /* Bit 15 is turned over: signed comparisons find the carry of unsigned sums. */
    v32 bias = _mm256_xor_si256(_mm256_sub_epi16(parts.slot, found.begin), top);
    v32 small = _mm256_add_epi16(_mm256_mulhi_epu16(freq, parts.upper), bias);
    v32 sum = _mm256_add_epi16(_mm256_mullo_epi16(freq, *high), small);
    v32 product = _mm256_mulhi_epu16(freq, *high);
    v32 carry = _mm256_cmpgt_epi16(small, sum); /* -1 */
    v32 new_low = _mm256_xor_si256(sum, top);
    v32 new_high = _mm256_sub_epi16(product, carry);
    v32 empty = _mm256_cmpeq_epi16(product, carry); /* the product is less than 65535 */
    if (partial) {
        idle = _mm256_or_si256(idle, _mm256_cmpeq_epi16(freq, _mm256_setzero_si256()));
        new_high = pick(new_high, *high, idle);
        new_low = pick(new_low, _mm256_or_si256(parts.slot, parts.upper), idle);
        empty = _mm256_andnot_si256(idle, empty);
    }
    *high = pick(new_high, new_low, empty);
    *low = new_low;
    return empty;
}

/* 16 lanes: the first 8 from bit 0 on, the others from bit 16 on. */
PSTI_COEFS_INLINE uint32_t lanes_of(v32 empty)
{
    v32 bytes = _mm256_packs_epi16(empty, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

/* Lower halves of those of 16 lanes that are empty; returns where the next words are. */
PSTI_COEFS_INLINE const uint8_t *take_words(const uint8_t *words, v32 empty, uint32_t lanes,
                                            v32 *low)
{
    const uint8_t *words_1 = words + 2 * _mm_popcnt_u32(lanes & 0xff);
    *low = pick(*low,
                halves(psti_pli_spread_words(words, lanes << 4),
                       psti_pli_spread_words(words_1, lanes >> 12)),
                empty);
    return words + 2 * _mm_popcnt_u32(lanes);
}

/* Where the words of the next step are. */
PSTI_COEFS_INLINE const uint8_t *more_words(struct psti_coefs_unit *unit, const uint8_t *words)
{
    unit->words.at = words;
    psti_pli_coefs_more_words(&unit->words);
    return unit->words.at;
}

#endif
#endif
