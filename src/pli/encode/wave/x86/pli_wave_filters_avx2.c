/* pli_wave_filters_avx2.c - estimated costs of the wave mode's filters with AVX2. The numbers are
 * those of plain C.
 *
 * Neighbours are paired once as bytes of 16-bit lanes. A filter then takes three or four vpmaddubsw
 * for 16 samples. For all filters of the format, the sum of the two products of a pair stays within
 * 16 bits; the decoder relies on that, too. Four filters at once share the loads of pairs.
 * Residuals of planes 0 and 1 are made unsigned by adding 128; a constant subtracts its effect
 * again, modulo 2^16. */
#include "pli/encode/wave/pli_wave_filters.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"

#if defined(__x86_64__)
#include "base/bits.h"

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum {
    EDGE = PSTI_WAVE_EDGE,
    LANES = 16, /* number of samples in a vector of 16-bit lanes */
    N_VECTORS = EDGE / LANES,
    N_PAIRS = 4,
    AT_ONCE = 4, /* filters that are estimated together */
    EXPONENT_BIAS = 127,
    FLOAT_FRACTION = 23
};

/* The kinds of filters, by the products that they need in addition to those of neighbours. */
enum kind { MED, NO_TAPS, ONE_TAP, TWO_TAPS };

/* A row of samples: its pairs of neighbours by vector, and the samples in the byte order of
 * vpackuswb. */
struct row {
    __m256i pairs[N_VECTORS][N_PAIRS];
    __m256i samples[N_VECTORS / 2];
};

INLINE __m256i load(const int16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
/* Loads 16 bytes into lanes of 16 bits. */
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

INLINE void pair_vector(const struct psti_wave_near_u8 *n, uint32_t i, uint32_t x, const int16_t *g,
                        const int16_t *r, __m256i *pairs)
{
    pairs[0] = pair(widen(n->l[i] + x), widen(n->u[i] + x));
    pairs[1] = pair(widen(n->ul[i] + x), widen(n->ur[i] + x));
    pairs[2] = pair(widen(n->uu[i] + x), widen(n->ll[i] + x));
    pairs[3] = pair(offset(load(g + x)), offset(load(r + x)));
}

/* Makes the pairs and samples of a row. The filters of list 1 have one tap; 128 then stands in
 * place of the second residual. */
INLINE void pair_row(const struct psti_wave_near_u8 *n, uint32_t i, const int16_t *g,
                     const int16_t *r, bool one_tap, struct row *row)
{
    for (uint32_t v = 0; v < N_VECTORS; v++) {
        __m256i *pairs = row->pairs[v];
        pair_vector(n, i, v * LANES, g, r, pairs);
        if (one_tap)
            pairs[3] = pair(offset(load(g + (size_t)v * LANES)), _mm256_set1_epi16(128));
    }
    /* This is the order in which vpackuswb leaves the lanes of two vectors. */
    for (uint32_t v = 0; v < N_VECTORS / 2; v++)
        row->samples[v] = _mm256_permute4x64_epi64(
            _mm256_loadu_si256((const __m256i *)(n->s[i] + 2 * LANES * v)), 0xD8);
}

/* Clears the columns after the unit's width. Every prediction there then equals its sample. */
INLINE void cut_row(uint32_t width, struct row *row)
{
    const __m256i no_taps = _mm256_set1_epi16((int16_t)(128 * 257));
    __m256i keep[N_VECTORS];
    for (uint32_t v = 0; v < N_VECTORS; v++) {
        __m256i *pairs = row->pairs[v];
        keep[v] = psti_pli_wave_columns_u16(v * LANES, width);
        for (uint32_t i = 0; i < N_PAIRS - 1; i++)
            pairs[i] = _mm256_and_si256(pairs[i], keep[v]);
        pairs[3] = _mm256_blendv_epi8(no_taps, pairs[3], keep[v]);
    }
    for (uint32_t v = 0; v < N_VECTORS / 2; v++)
        row->samples[v] =
            _mm256_and_si256(row->samples[v], _mm256_packs_epi16(keep[2 * v], keep[2 * v + 1]));
}

/* A filter's coefficients in all lanes. */
struct filter {
    __m256i k[N_PAIRS], offset;
};

/* Spreads a filter from 8 bytes: the coefficient of L, the others, the taps. With ONE_TAP the other
 * half of the pair subtracts 128 times the tap, which the addition of 128 has added. */
INLINE struct filter spread(uint64_t bytes, enum kind kind)
{
    const uint64_t tap = bytes >> 48 & UINT8_MAX;
    struct filter f = {.k = {_mm256_set1_epi16((int16_t)bytes),
                             _mm256_set1_epi16((int16_t)(bytes >> 16)),
                             _mm256_set1_epi16((int16_t)(bytes >> 32))}};
    if (kind == ONE_TAP)
        f.k[3] = _mm256_set1_epi16((int16_t)(tap | (0 - tap) << 8));
    if (kind == TWO_TAPS) {
        f.k[3] = _mm256_set1_epi16((int16_t)(bytes >> 48));
        f.offset = _mm256_maddubs_epi16(_mm256_set1_epi8((char)128), f.k[3]);
        f.offset = _mm256_sub_epi16(_mm256_setzero_si256(), f.offset);
    }
    return f;
}

INLINE struct filter filter_of(const struct psti_pli_filter *c, enum kind kind)
{
    const uint8_t *bytes = (const uint8_t *)c; /* 7 bytes: k, a and b */
    int own = 32 - c->k[0] - c->k[1] - c->k[2] - c->k[3] - c->k[4];
    uint64_t others = psti_load_u32(bytes) | (uint64_t)psti_load_u32(bytes + 3) << 24;
    return spread((uint8_t)own | others << 8, kind);
}

/* Returns the predictions. vpmulhrsw by 1024 is (sum + 16) >> 5. */
INLINE __m256i predict(const __m256i *pairs, const struct filter *f, enum kind kind)
{
    __m256i x = _mm256_add_epi16(_mm256_maddubs_epi16(pairs[0], f->k[0]),
                                 _mm256_maddubs_epi16(pairs[1], f->k[1]));
    __m256i y = _mm256_maddubs_epi16(pairs[2], f->k[2]);
    if (kind != NO_TAPS)
        y = _mm256_add_epi16(y, _mm256_maddubs_epi16(pairs[3], f->k[3]));
    if (kind == TWO_TAPS)
        x = _mm256_add_epi16(x, f->offset);
    return _mm256_mulhrs_epi16(_mm256_add_epi16(x, y), _mm256_set1_epi16(1024));
}

INLINE __m256i predict_med(const __m256i *pairs)
{
    __m256i low = _mm256_set1_epi16(255), l = _mm256_and_si256(pairs[0], low);
    __m256i u = _mm256_srli_epi16(pairs[0], 8), ul = _mm256_and_si256(pairs[1], low);
    __m256i least = _mm256_min_epi16(l, u), most = _mm256_max_epi16(l, u);
    __m256i middle = _mm256_min_epi16(_mm256_max_epi16(ul, least), most);
    return _mm256_sub_epi16(_mm256_add_epi16(l, u), middle);
}

INLINE __m256i add_magnitudes(__m256i sums, __m256i samples, __m256i first, __m256i second)
{
    __m256i residuals = _mm256_sub_epi8(samples, _mm256_packus_epi16(first, second));
    return _mm256_add_epi32(sums,
                            _mm256_sad_epu8(_mm256_abs_epi8(residuals), _mm256_setzero_si256()));
}

/* Adds |residual| of half a row, as sums of 8 samples, under AT_ONCE filters (or under MED
 * alone). */
INLINE void add_half(const struct row *row, uint32_t half, const struct filter *f, enum kind kind,
                     __m256i *sums)
{
    const __m256i *pairs = row->pairs[2 * half], *next = row->pairs[2 * half + 1];
    __m256i first[AT_ONCE];
    if (kind == MED) {
        sums[0] =
            add_magnitudes(sums[0], row->samples[half], predict_med(pairs), predict_med(next));
        return;
    }
#pragma GCC unroll 4
    for (uint32_t k = 0; k < AT_ONCE; k++)
        first[k] = predict(pairs, &f[k], kind);
#pragma GCC unroll 4
    for (uint32_t k = 0; k < AT_ONCE; k++)
        sums[k] = add_magnitudes(sums[k], row->samples[half], first[k], predict(next, &f[k], kind));
}

/* Returns psti_pli_wave_patch_price() of the sums, plus a constant, the bias of the exponent. A
 * float holds the sums exactly, and its bits are the logarithm. */
INLINE __m256i patch_prices(__m256i sums)
{
    __m256i v = _mm256_add_epi32(sums, _mm256_set1_epi32(PSTI_WAVE_PATCH_BASE));
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(v)),
                             FLOAT_FRACTION - PSTI_WAVE_PATCH_SHIFT);
}

/* Returns the estimated costs of the four blocks from those of patches, which are in the order of
 * vpackuswb: first those of the lower half of columns. */
INLINE __m128i sum_prices(__m256i all, uint32_t n_rows)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    uint32_t bias = n_rows * (EXPONENT_BIAS << PSTI_WAVE_PATCH_SHIFT);
    return _mm_sub_epi32(_mm_shuffle_epi32(four, _MM_SHUFFLE(3, 1, 2, 0)),
                         _mm_set1_epi32((int)bias));
}

/* Estimates the costs of the blocks for each of AT_ONCE filters. Rows are loaded once for all of
 * them. */
INLINE void price(const struct row *rows, uint32_t n_rows, const struct filter *f, enum kind kind,
                  __m128i *prices)
{
    const uint32_t n = kind == MED ? 1 : AT_ONCE;
    __m256i all[AT_ONCE];
#pragma GCC unroll 4
    for (uint32_t k = 0; k < n; k++)
        all[k] = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n_rows; i += 2) {
        __m256i low[AT_ONCE], high[AT_ONCE];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < n; k++)
            low[k] = high[k] = _mm256_setzero_si256();
        add_half(rows + i, 0, f, kind, low);
        add_half(rows + i + 1, 0, f, kind, low);
        add_half(rows + i, 1, f, kind, high);
        add_half(rows + i + 1, 1, f, kind, high);
#pragma GCC unroll 4
        for (uint32_t k = 0; k < n; k++)
            all[k] = _mm256_add_epi32(
                all[k], patch_prices(_mm256_or_si256(low[k], _mm256_slli_epi64(high[k], 32))));
    }
#pragma GCC unroll 4
    for (uint32_t k = 0; k < n; k++)
        prices[k] = sum_prices(all[k], n_rows);
}

/* For each block: the filter that had the lowest cost so far, and that cost. */
struct best {
    __m128i prices, numbers;
};

INLINE void compare(struct best *best, __m128i prices, uint32_t number)
{
    __m128i less = _mm_cmpgt_epi32(best->prices, prices);
    best->prices = _mm_min_epi32(best->prices, prices);
    best->numbers = _mm_blendv_epi8(best->numbers, _mm_set1_epi32((int)number), less);
}

INLINE void price_list(const struct row *rows, uint32_t n_rows,
                       const struct psti_wave_filter_query *q, enum kind kind,
                       struct psti_wave_filter_prices *prices)
{
    __m128i med;
    price(rows, n_rows, NULL, MED, &med);
    _mm_storeu_si128((__m128i *)prices->of[0], med);
    struct best best = {med, _mm_setzero_si128()};
    for (uint32_t first = 1; first < q->n_filters; first += AT_ONCE) {
        struct filter filters[AT_ONCE];
        __m128i now[AT_ONCE];
        uint32_t numbers[AT_ONCE];
        /* If fewer than AT_ONCE filters are left, the last filter fills the other places. */
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            numbers[k] = first + k < q->n_filters ? first + k : q->n_filters - 1;
            filters[k] = filter_of(&psti_pli_filters[q->list][numbers[k] - 1], kind);
        }
        price(rows, n_rows, filters, kind, now);
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            _mm_storeu_si128((__m128i *)prices->of[numbers[k]], now[k]);
            compare(&best, now[k], numbers[k]);
        }
    }
    _mm_storeu_si128((__m128i *)prices->best, best.numbers);
}

TARGET void psti_pli_wave_price_filters_avx2(const struct psti_wave_work *work,
                                             const struct psti_wave_filter_query *q,
                                             struct psti_wave_filter_prices *prices)
{
    const struct psti_wave_near_u8 *near = &work->near.of_u8;
    struct row rows[PSTI_WAVE_BLOCK];
    uint32_t n = 0;
    /* Rows come in pairs. If the last row has no partner, a row that costs nothing follows it. */
    for (uint32_t i = 0; i < q->n_rows; i += q->step)
        for (uint32_t y = i; y < i + 2; y++, n++) {
            size_t at = (size_t)(y < q->n_rows ? y : i) * EDGE;
            pair_row(near, y < q->n_rows ? y : i, q->g + at, q->r + at, q->list == 1, &rows[n]);
            if (q->width < EDGE || y >= q->n_rows)
                cut_row(y < q->n_rows ? q->width : 0, &rows[n]);
        }
    if (q->list == 0)
        price_list(rows, n, q, NO_TAPS, prices);
    else if (q->list == 1)
        price_list(rows, n, q, ONE_TAP, prices);
    else
        price_list(rows, n, q, TWO_TAPS, prices);
}

TARGET void psti_pli_wave_find_block_avx2(const struct psti_wave_work *work,
                                          const struct psti_wave_candidate *c, uint32_t n_rows,
                                          uint32_t x0, const int16_t *g, const int16_t *r,
                                          int16_t *out)
{
    const struct psti_wave_near_u8 *n = &work->near.of_u8;
    bool filtered = c->predictor == PSTI_PLI_PREDICT_FILTERS;
    struct psti_pli_filter own = {{c->k[0], c->k[1], c->k[2], c->k[3], c->k[4]}, c->a, c->b};
    struct filter f = filter_of(&own, TWO_TAPS);
    for (uint32_t i = 0; i < n_rows; i++) {
        size_t at = (size_t)i * EDGE;
        __m256i pairs[N_PAIRS], p;
        pair_vector(n, i, x0, g + at, r + at, pairs);
        p = filtered ? predict(pairs, &f, TWO_TAPS) : predict_med(pairs);
        p = _mm256_permute4x64_epi64(_mm256_packus_epi16(p, p), 0x08);
        __m128i s = _mm_loadu_si128((const __m128i *)(n->s[i] + x0));
        s = _mm_sub_epi8(s, _mm256_castsi256_si128(p));
        _mm256_storeu_si256((__m256i *)(out + at + x0), _mm256_cvtepi8_epi16(s));
    }
}
#endif
