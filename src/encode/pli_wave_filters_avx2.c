/* pli_wave_filters_avx2.c - prices of the wave mode's filters with AVX2: the same numbers as plain
 * C.
 *
 * Neighbours are paired to bytes of 16-bit lanes once; a filter is then four vpmaddubsw for 16
 * samples, as all pairs of coefficients of the dictionary keep the sum of two products within 16
 * bits (the decoder counts on that too). Residuals of planes 0 and 1 are made unsigned by adding
 * 128, which the constant takes back modulo 2^16. */
#include "encode/pli_wave_filters.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum {
    EDGE = PSTI_WAVE_EDGE,
    LANES = 16, /* samples in a vector */
    N_VECTORS = EDGE / LANES,
    N_PAIRS = 4,
    EXPONENT_BIAS = 127,
    FLOAT_FRACTION = 23
};

/* Of one row: pairs of neighbours by vector, samples and masks as vpackuswb orders bytes. */
struct row {
    __m256i pairs[N_VECTORS][N_PAIRS];
    __m256i samples[N_VECTORS / 2];
};

INLINE __m256i load(const int16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
/* 16 bytes in lanes of 16 bits. */
INLINE __m256i widen(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
}
INLINE __m256i pair(__m256i low, __m256i high)
{
    return _mm256_or_si256(low, _mm256_slli_epi16(high, 8));
}
INLINE __m256i offset(__m256i residual)
{
    return _mm256_and_si256(_mm256_add_epi16(residual, _mm256_set1_epi16(128)),
                            _mm256_set1_epi16(255));
}

INLINE void pair_vector(const struct psti_wave_near_8 *n, uint32_t i, uint32_t x, const int16_t *g,
                        const int16_t *r, __m256i *pairs)
{
    pairs[0] = pair(widen(n->l[i] + x), widen(n->u[i] + x));
    pairs[1] = pair(widen(n->ul[i] + x), widen(n->ur[i] + x));
    pairs[2] = pair(widen(n->uu[i] + x), widen(n->ll[i] + x));
    pairs[3] = pair(offset(load(g + x)), offset(load(r + x)));
}

INLINE void pair_row(const struct psti_wave_near_8 *n, uint32_t i, const int16_t *g,
                     const int16_t *r, struct row *row)
{
    for (uint32_t v = 0; v < N_VECTORS; v++)
        pair_vector(n, i, v * LANES, g, r, row->pairs[v]);
    /* As vpackuswb puts two vectors' lanes. */
    for (uint32_t v = 0; v < N_VECTORS / 2; v++)
        row->samples[v] = _mm256_permute4x64_epi64(
            _mm256_loadu_si256((const __m256i *)(n->s[i] + 2 * LANES * v)), 0xD8);
}

/* A filter's coefficients in all lanes. */
struct filter {
    __m256i k[N_PAIRS], rounding;
};

INLINE __m256i pair_of(int low, int high)
{
    return _mm256_set1_epi16((int16_t)((low & 255) | (int)((unsigned)high << 8)));
}

INLINE struct filter filter_of(const struct psti_wave_candidate *c)
{
    int own = 32 - c->k[0] - c->k[1] - c->k[2] - c->k[3] - c->k[4];
    return (struct filter){{pair_of(own, c->k[0]), pair_of(c->k[1], c->k[2]),
                            pair_of(c->k[3], c->k[4]), pair_of(c->a, c->b)},
                           _mm256_set1_epi16((int16_t)(16 - 128 * (c->a + c->b)))};
}

INLINE __m256i predict(const __m256i *pairs, const struct filter *f)
{
    __m256i x = _mm256_add_epi16(_mm256_maddubs_epi16(pairs[0], f->k[0]),
                                 _mm256_maddubs_epi16(pairs[1], f->k[1]));
    __m256i y = _mm256_add_epi16(_mm256_maddubs_epi16(pairs[2], f->k[2]),
                                 _mm256_maddubs_epi16(pairs[3], f->k[3]));
    return _mm256_srai_epi16(_mm256_add_epi16(_mm256_add_epi16(x, y), f->rounding), 5);
}

INLINE __m256i predict_med(const __m256i *pairs)
{
    __m256i low = _mm256_set1_epi16(255), l = _mm256_and_si256(pairs[0], low);
    __m256i u = _mm256_srli_epi16(pairs[0], 8), ul = _mm256_and_si256(pairs[1], low);
    __m256i least = _mm256_min_epi16(l, u), most = _mm256_max_epi16(l, u);
    __m256i middle = _mm256_min_epi16(_mm256_max_epi16(ul, least), most);
    return _mm256_sub_epi16(_mm256_add_epi16(l, u), middle);
}

/* Sums of |residual| of 8 samples each, of half a row. */
INLINE __m256i half_sums(const struct row *row, uint32_t half, const struct filter *f, __m256i mask)
{
    const __m256i *first = row->pairs[2 * half], *second = row->pairs[2 * half + 1];
    __m256i p = f ? _mm256_packus_epi16(predict(first, f), predict(second, f))
                  : _mm256_packus_epi16(predict_med(first), predict_med(second));
    __m256i magnitudes = _mm256_abs_epi8(_mm256_sub_epi8(row->samples[half], p));
    return _mm256_sad_epu8(_mm256_and_si256(magnitudes, mask), _mm256_setzero_si256());
}

/* psti_wave_patch_price() of the sums in 64-bit lanes, plus a constant: the exponent's bias. A
 * float holds them exactly, and its bits are the logarithm. */
INLINE __m256i patch_prices(__m256i sums)
{
    __m256i v = _mm256_add_epi32(sums, _mm256_set1_epi64x(PSTI_WAVE_PATCH_BASE));
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(v)),
                             FLOAT_FRACTION - PSTI_WAVE_PATCH_SHIFT);
}

/* Prices of four blocks; patches stand in lanes as vpackuswb leaves them. */
INLINE void price_filter(const struct row *rows, uint32_t n_rows, const struct filter *f,
                         const __m256i *masks, uint32_t *prices)
{
    uint32_t n = (n_rows + 1) / 2;
    for (uint32_t half = 0; half < 2; half++) {
        __m256i all = _mm256_setzero_si256();
        for (uint32_t i = 0; i < n_rows; i += 2) {
            __m256i sums = half_sums(rows + i, half, f, masks[half]);
            if (i + 1 < n_rows)
                sums = _mm256_add_epi64(sums, half_sums(rows + i + 1, half, f, masks[half]));
            all = _mm256_add_epi64(all, patch_prices(sums));
        }
        __m128i two = _mm_add_epi64(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        uint32_t bias = 2 * n * (EXPONENT_BIAS << PSTI_WAVE_PATCH_SHIFT);
        prices[2 * half] = (uint32_t)_mm_cvtsi128_si32(two) - bias;
        prices[2 * half + 1] = (uint32_t)_mm_extract_epi32(two, 2) - bias;
    }
}

INLINE __m256i mask_16(uint32_t x, uint32_t width)
{
    __m256i columns = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    columns = _mm256_add_epi16(columns, _mm256_set1_epi16((int16_t)x));
    return _mm256_srli_epi16(_mm256_cmpgt_epi16(_mm256_set1_epi16((int16_t)width), columns), 8);
}

TARGET void psti_wave_price_filters_avx2(const struct psti_wave_work *work,
                                         const struct psti_wave_filter_query *q,
                                         struct psti_wave_filter_prices *prices)
{
    struct row rows[PSTI_WAVE_BLOCK];
    __m256i masks[2];
    uint32_t n = 0;
    for (uint32_t half = 0; half < 2; half++)
        masks[half] =
            _mm256_packus_epi16(mask_16(half * 32, q->width), mask_16(half * 32 + LANES, q->width));
    /* Rows come two by two; only the last may stand alone. */
    for (uint32_t i = 0; i < q->n_rows; i += q->step)
        for (uint32_t y = i; y < i + 2 && y < q->n_rows; y++)
            pair_row(&work->near.of_8, y, q->g + (size_t)y * EDGE, q->r + (size_t)y * EDGE,
                     &rows[n++]);
    memset(prices, 0, sizeof *prices);
    price_filter(rows, n, NULL, masks, prices->of[0]);
    for (uint32_t number = 1; number < q->n_filters; number++) {
        struct psti_wave_candidate c = psti_wave_filter(q->list, number);
        struct filter f = filter_of(&c);
        price_filter(rows, n, &f, masks, prices->of[number]);
    }
}

TARGET void psti_wave_find_block_avx2(const struct psti_wave_work *work,
                                      const struct psti_wave_candidate *c, uint32_t n_rows,
                                      uint32_t x0, const int16_t *g, const int16_t *r, int16_t *out)
{
    const struct psti_wave_near_8 *n = &work->near.of_8;
    bool filtered = c->predictor == PSTI_PLI_PREDICT_FILTERS;
    struct filter f = filter_of(c);
    for (uint32_t i = 0; i < n_rows; i++) {
        size_t at = (size_t)i * EDGE;
        __m256i pairs[N_PAIRS], p;
        pair_vector(n, i, x0, g + at, r + at, pairs);
        p = filtered ? predict(pairs, &f) : predict_med(pairs);
        p = _mm256_permute4x64_epi64(_mm256_packus_epi16(p, p), 0x08);
        __m128i s = _mm_loadu_si128((const __m128i *)(n->s[i] + x0));
        s = _mm_sub_epi8(s, _mm256_castsi256_si128(p));
        _mm256_storeu_si256((__m256i *)(out + at + x0), _mm256_cvtepi8_epi16(s));
    }
}
#else
/* An empty file is none in C. */
typedef int psti_wave_no_filters_avx2;
#endif
