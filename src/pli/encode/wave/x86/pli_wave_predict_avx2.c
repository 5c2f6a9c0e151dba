/* pli_wave_predict_avx2.c - the loops of pli_wave_predict.h for samples of 8 bits, compiled for
 * AVX2. The loops that every unit needs are written by hand. The numbers are those of plain C.
 *
 * The simple predictors stay within bytes. So does the estimated cost of a residual: where one of
 * its lines saturates, another is lower. */
#include "pli/encode/wave/pli_wave_encode_int.h"
#include "pli/encode/wave/pli_wave_filters.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { LANES = 32 };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* Returns 0xff in the columns x .. x + 31 that lie in the unit. */
INLINE __m256i columns_of(uint32_t x, uint32_t width)
{
    _Alignas(32) uint8_t mask[LANES];
    for (uint32_t i = 0; i < LANES; i++)
        mask[i] = x + i < width ? UINT8_MAX : 0;
    return load(mask);
}

/* Returns psti_pli_wave_price_u8() of bytes, in sums of 8. -128 counts as 128. */
INLINE __m256i prices_of(__m256i residuals, __m256i mask)
{
    __m256i m = _mm256_abs_epi8(residuals), twice = _mm256_adds_epu8(m, m);
    __m256i four = _mm256_adds_epu8(twice, twice), eight = _mm256_adds_epu8(four, four);
    __m256i half = _mm256_and_si256(_mm256_srli_epi16(m, 1), _mm256_set1_epi8(127));
    __m256i a = _mm256_adds_epu8(eight, eight);
    __m256i b = _mm256_adds_epu8(_mm256_adds_epu8(four, twice), _mm256_set1_epi8(13));
    __m256i c = _mm256_adds_epu8(twice, _mm256_set1_epi8(34));
    __m256i d = _mm256_adds_epu8(half, _mm256_set1_epi8(65));
    __m256i least = _mm256_min_epu8(_mm256_min_epu8(a, b), _mm256_min_epu8(c, d));
    return _mm256_sad_epu8(_mm256_and_si256(least, mask), _mm256_setzero_si256());
}

INLINE uint64_t sum_of(__m256i v)
{
    uint64_t parts[4];
    _mm256_storeu_si256((__m256i *)parts, v);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

static TARGET uint64_t price_plane_u8(const struct psti_pli_source *source,
                                      const int16_t *residuals)
{
    const __m256i masks[2] = {columns_of(0, source->width), columns_of(LANES, source->width)};
    __m256i sum = _mm256_setzero_si256();
    for (uint32_t y = 0; y < source->height; y++)
        for (uint32_t half = 0; half < 2; half++, residuals += LANES) {
            __m256i packed = _mm256_packs_epi16(load(residuals), load(residuals + 16));
            packed = _mm256_permute4x64_epi64(packed, 0xD8);
            sum = _mm256_add_epi64(sum, prices_of(packed, masks[half]));
        }
    return sum_of(sum);
}

/* Subtracts the terms of the taps, a * g + b * r, from 16 residuals. Returns the results modulo
 * 256. `r` is NULL if b is 0. vpmulhrsw by 1024 is (sum + 16) >> 5. */
INLINE __m256i add_taps_to(const int16_t *from, __m256i a, __m256i b, const int16_t *g,
                           const int16_t *r)
{
    __m256i tap = _mm256_mullo_epi16(load(g), a);
    if (r)
        tap = _mm256_add_epi16(tap, _mm256_mullo_epi16(load(r), b));
    tap = _mm256_mulhrs_epi16(tap, _mm256_set1_epi16(1024));
    return _mm256_and_si256(_mm256_sub_epi16(load(from), tap), _mm256_set1_epi16(255));
}

/* Returns the estimated cost of residuals after taps are added. `r` is NULL if b is 0. */
INLINE uint64_t price_taps(const struct psti_pli_source *source, const int16_t *from, int8_t a,
                           int8_t b, const int16_t *g, const int16_t *r)
{
    const __m256i va = _mm256_set1_epi16(a), vb = _mm256_set1_epi16(b);
    __m256i sum = _mm256_setzero_si256(), masks[2];
    for (uint32_t half = 0; half < 2; half++) /* the halves are in the byte order of vpackuswb */
        masks[half] = _mm256_permute4x64_epi64(columns_of(half * LANES, source->width), 0xD8);
    for (size_t i = 0; i < (size_t)source->height * PSTI_WAVE_EDGE; i += PSTI_WAVE_EDGE)
        for (size_t half = 0; half < 2; half++) {
            size_t at = i + half * LANES, next = at + LANES / 2;
            __m256i low = add_taps_to(from + at, va, vb, g + at, r ? r + at : NULL);
            __m256i high = add_taps_to(from + next, va, vb, g + next, r ? r + next : NULL);
            sum = _mm256_add_epi64(sum, prices_of(_mm256_packus_epi16(low, high), masks[half]));
        }
    return sum_of(sum);
}

static TARGET uint64_t price_taps_by_hand_u8(const struct psti_pli_source *source,
                                             const int16_t *from, int8_t a, int8_t b,
                                             const int16_t *g, const int16_t *r)
{
    return b == 0 ? price_taps(source, from, a, b, g, NULL) : price_taps(source, from, a, b, g, r);
}

INLINE void store_residuals(int16_t *to, __m256i v)
{
    __m256i low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v));
    _mm256_storeu_si256((__m256i *)to, low);
    _mm256_storeu_si256((__m256i *)(to + 16), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
}
INLINE __m256i add_costs(__m256i sum, __m256i residuals, __m256i mask)
{
    return _mm256_add_epi64(sum, prices_of(residuals, mask));
}
#define SAMPLE uint8_t
#define OP(name) _mm256_##name##8
#include "pli/encode/wave/x86/pli_wave_simple_avx2_template.h"

INLINE __m256i add_products(__m256i sum, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

INLINE int64_t sum_32(__m256i v)
{
    int32_t parts[8], sum = 0;
    _mm256_storeu_si256((__m256i *)parts, v);
    for (uint32_t i = 0; i < 8; i++)
        sum += parts[i];
    return sum;
}

/* A plane has 4096 products of 14 bits and a sign, whose sum fits in 32 bits. */
static TARGET void add_moments_by_hand_u8(const struct psti_pli_source *source, const int16_t *g,
                                          const int16_t *r, const int16_t *s,
                                          struct psti_wave_moments *m)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i gg = zero, gr = zero, rr = zero, gs = zero, rs = zero;
    _Alignas(32) int16_t mask[PSTI_WAVE_EDGE];
    for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x++)
        mask[x] = x < source->width ? -1 : 0;
    for (size_t i = 0; i < (size_t)source->height * PSTI_WAVE_EDGE; i += 16) {
        __m256i use = load(mask + i % PSTI_WAVE_EDGE);
        __m256i vg = _mm256_and_si256(load(g + i), use), vr = _mm256_and_si256(load(r + i), use);
        __m256i vs = load(s + i);
        gg = add_products(gg, vg, vg);
        gr = add_products(gr, vg, vr);
        rr = add_products(rr, vr, vr);
        gs = add_products(gs, vg, vs);
        rs = add_products(rs, vr, vs);
    }
    *m = (struct psti_wave_moments){m->gg + sum_32(gg), m->gr + sum_32(gr), m->rr + sum_32(rr),
                                    m->gs + sum_32(gs), m->rs + sum_32(rs)};
}

#define NAME(x) x##_u8
#define NEAR struct psti_wave_near_u8
#define LANE int16_t
#define SIGNED int8_t
#define BITS 8
#define PRODUCTS int32_t
#define price_lane psti_pli_wave_price_u8
#define PSTI_WAVE_BY_HAND /* the loops above replace the template's loops */
#include "pli/encode/wave/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows_u8_avx2 = {
    gather_u8,   find_residuals_u8,     psti_pli_wave_find_block_avx2,
    find_row_u8, try_simple_by_hand,    price_plane_u8,
    add_taps_u8, price_taps_by_hand_u8, add_moments_by_hand_u8};
#endif
