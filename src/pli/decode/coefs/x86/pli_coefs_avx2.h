/* pli_coefs_avx2.h - declarations inside the AVX2 level of the coefficient decoder
 * (docs/format-pli.md, section 8): its tables, and the states that its loops over tokens keep in
 * registers.
 *
 * In 16 bits a step's 32 lanes are two vectors: A has lanes 0..15, B the others. Unpacking and
 * packing make of them bytes in the order 0..7, 16..23, 8..15, 24..31. That order is called woven
 * here. Memory has lanes in ascending order unless a comment says woven. */
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
    COEFS_PAIRS = 6, /* pairs of distances D (8.4) */
    COEFS_AC_BOUNDS = PSTI_JPEG_N_AC_TOKENS - 1,
    COEFS_BOUNDS = PSTI_JPEG_N_ENDS - 1
};

/* The slots at which tokens begin, for several contexts: low bytes, then high bytes. Token t is at
 * [t - 1]; token 0 begins at 0. */
struct psti_coefs_avx2_tables {
    _Alignas(32) uint8_t rows[4][COEFS_AC_BOUNDS][2][8]; /* for AC, indexed by D: bounds of 8
                                                          * buckets */
    uint8_t pairs[COEFS_PAIRS][COEFS_AC_BOUNDS][2][16];  /* for AC: the rows of two values of D,
                                                          * side by side */
    uint8_t ends[2][COEFS_BOUNDS][2][16];                /* for classes of blocks' ends, indexed by
                                                          * side (1: chroma): bounds of 16
                                                          * contexts */
    uint8_t dc[2][COEFS_BOUNDS][2][16];                  /* for DC, indexed by side (1: chroma);
                                                          * 4096: there is no such token */
    /* Tables for the bucket of a sum (8.4) that is cut to 0..255. Their index i is the upper 4 bits
     * of the sum, with the highest inverted. The bucket is buckets[i], 1 more if the sum is above
     * limits[i], and 1 more again if it is above extra_limit. Limits are stored less 128. Only one
     * sixteenth of the range has two limits; the second of these is extra_limit. */
    uint8_t buckets[16], limits[16], extra_limit;
};
_Static_assert(sizeof(struct psti_coefs_avx2_tables) <= PSTI_COEFS_LEVEL_NBYTES, "memory");

struct psti_coefs_avx2_states {
    v32 high_a, low_a, high_b, low_b;
};

/* Constants in memory. If compilers knew their values, they would build these vectors again and
 * again. */
struct psti_coefs_avx2_constants {
    _Alignas(32) uint16_t slots[16], top[16], all_slots[16];
    uint8_t last_ac_token[32], low_4[32], bit_3[32], one[32];
    uint8_t numbers[PSTI_JPEG_N_DC_TOKENS][32]; /* [i]: 32 bytes of i */
};
extern const struct psti_coefs_avx2_constants psti_coefs_avx2_constants;
#define COEFS_CONSTANT(name) load(psti_coefs_avx2_constants.name)

/* 32 bytes of 0, then 32 bytes of 8. */
extern const uint8_t psti_coefs_avx2_ramp[64];
/* 32 bytes of 255, then 32 bytes of 0. */
extern const uint8_t psti_coefs_avx2_first_lanes[64];

void psti_pli_coefs_avx2_read_classes(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_ends(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_dc(struct psti_coefs_unit *unit);
void psti_pli_coefs_avx2_read_ac(struct psti_coefs_unit *unit, uint32_t first, uint32_t last);
void psti_pli_coefs_avx2_read_two(struct psti_coefs_unit *const units[2], const uint32_t last[2]);
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
/* Returns the bytes of `yes` where the mask has bit 7 set, else those of `no`. */
PSTI_COEFS_INLINE v32 pick(v32 no, v32 yes, v32 mask)
{
#if defined(__clang__)
    return _mm256_blendv_epi8(no, yes, mask);
#else /* If GCC knew what the instruction does, it would compare the mask with 0 once more. */
    v32 v;
    __asm__("vpblendvb %3, %2, %1, %0" : "=x"(v) : "x"(no), "xm"(yes), "x"(mask));
    return v;
#endif
}
/* Returns 255 in the bytes whose bit is 1, in ascending order, else 0. */
PSTI_COEFS_INLINE v32 bytes_of_32(uint32_t mask)
{
    const v32 bit = _mm256_set1_epi64x((long long)0x8040201008040201ull);
    const v32 from =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    v32 bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), from);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}
/* Returns 255 in the first n lanes, n <= 32. */
PSTI_COEFS_INLINE v32 first_lanes(uint32_t n) { return load(psti_coefs_avx2_first_lanes + 32 - n); }

/* -- States -- */

/* Brings the bytes of 32 lanes from ascending to woven order, or from woven to ascending order. */
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

/* The result of a search: the slot at which the token begins, and its number of slots. */
struct psti_coefs_avx2_found {
    v32 begin, freq;
};
/* A found token, and the half, quarter and eighth of the 8 tokens in which it lies. -1 means the
 * lower part. */
struct psti_coefs_avx2_search {
    struct psti_coefs_avx2_found found;
    v32 half, quarter, eighth;
};

/* Searches 8 tokens. The slots of the first begin at `begin`, those of the last end at `end`. */
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

/* The parts of the states x: bits 0..11, and the lower and the upper half of x >> 12. */
struct psti_coefs_avx2_parts {
    v32 slot, lower, upper;
};
PSTI_COEFS_INLINE struct psti_coefs_avx2_parts split(v32 high, v32 low)
{
    return (struct psti_coefs_avx2_parts){
        _mm256_and_si256(low, COEFS_CONSTANT(slots)),
        _mm256_or_si256(_mm256_slli_epi16(high, 4), _mm256_srli_epi16(low, 12)),
        _mm256_srli_epi16(high, 12),
    };
}

/* Computes x := freq * (x >> 12) + slot - begin, but loads no words. Returns a mask of the lanes
 * that need a word; their lower halves have been moved to the upper halves. With `partial`, lanes
 * in `idle` keep their states. */
PSTI_COEFS_INLINE v32 advance(v32 *high, v32 *low, struct psti_coefs_avx2_parts parts,
                              struct psti_coefs_avx2_found found, v32 idle, bool partial)
{
    const v32 top = COEFS_CONSTANT(top);
    /* Bit 15 is inverted, because signed comparisons then find the carries of unsigned sums. */
    v32 bias = _mm256_xor_si256(_mm256_sub_epi16(parts.slot, found.begin), top);
    v32 sum = _mm256_add_epi16(_mm256_mullo_epi16(found.freq, parts.lower), bias);
    v32 product = _mm256_add_epi16(_mm256_mulhi_epu16(found.freq, parts.lower),
                                   _mm256_mullo_epi16(found.freq, parts.upper));
    v32 carry = _mm256_cmpgt_epi16(bias, sum); /* -1 in lanes with a carry */
    v32 new_low = _mm256_xor_si256(sum, top);
    v32 new_high = _mm256_sub_epi16(product, carry);
    /* Finds the lanes in which the upper half of the product, with its carry, is 0. `carry` is 0,
     * or 65535 in lanes with a carry, and `product` is below 65535. So both are equal only if both
     * are 0. */
    v32 empty = _mm256_cmpeq_epi16(product, carry);
    if (partial) {
        new_high = pick(new_high, *high, idle);
        new_low = pick(new_low, *low, idle);
        empty = _mm256_andnot_si256(idle, empty);
    }
    *high = pick(new_high, new_low, empty);
    *low = new_low;
    return empty;
}

/* Returns the bits of 16 lanes: the first 8 from bit 0 on, the others from bit 16 on. */
PSTI_COEFS_INLINE uint32_t lanes_of(v32 empty)
{
    v32 bytes = _mm256_packs_epi16(empty, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

/* Loads words into the empty lower halves of 16 lanes. Returns the address of the next words. */
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

/* Returns the address of the words of the next step. */
PSTI_COEFS_INLINE const uint8_t *more_words(struct psti_coefs_unit *unit, const uint8_t *words)
{
    unit->words.at = words;
    psti_pli_coefs_more_words(&unit->words);
    return unit->words.at;
}

#endif
#endif
