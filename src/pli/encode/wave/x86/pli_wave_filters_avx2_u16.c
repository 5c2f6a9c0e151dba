/* pli_wave_filters_avx2_u16.c - estimated costs of the wave mode's filters for samples of 16 bits
 * with AVX2. The numbers are those of plain C.
 *
 * Neighbours are paired once. A filter then takes four vpmaddwd for 8 samples. 32768 is subtracted
 * from samples, which makes them signed. The coefficients of a filter and that of L sum to 32, so
 * sums are lower by 32 * 32768, and vpackssdw clamps them (as in the decoder). A vector of 16
 * samples is a row of a block. */
#include "pli/encode/wave/pli_wave_filters.h"
#include "pli/encode/wave/x86/pli_wave_lanes_avx2_u16.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum {
    EDGE = PSTI_WAVE_EDGE,
    LANES = PSTI_WAVE_BLOCK,
    N_BLOCKS = EDGE / LANES,
    N_PAIRS = 4 /* pairs: L and U, UL and UR, UU and LL, residuals of planes 0 and 1 */
};

/* 16 samples and their neighbours. Pairs are in the lane order of unpacking. */
struct neighbours {
    __m256i low[N_PAIRS], high[N_PAIRS];
    __m256i samples, med; /* `med` is MED's prediction */
};

INLINE __m256i load(const int16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE __m256i load_signed(const uint16_t *p)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)p), _mm256_set1_epi16(INT16_MIN));
}

INLINE void put_pair(struct neighbours *n, uint32_t i, __m256i a, __m256i b)
{
    n->low[i] = _mm256_unpacklo_epi16(a, b);
    n->high[i] = _mm256_unpackhi_epi16(a, b);
}

/* Finds the neighbours of row i from column x on. `g` and `r` begin at that row. */
INLINE void find_neighbours(const struct psti_wave_near_u16 *near, uint32_t i, uint32_t x,
                            const int16_t *g, const int16_t *r, struct neighbours *n)
{
    __m256i l = load_signed(near->l[i] + x), u = load_signed(near->u[i] + x);
    __m256i ul = load_signed(near->ul[i] + x);
    __m256i least = _mm256_min_epi16(l, u), most = _mm256_max_epi16(l, u);
    __m256i middle = _mm256_min_epi16(_mm256_max_epi16(ul, least), most);
    put_pair(n, 0, l, u);
    put_pair(n, 1, ul, load_signed(near->ur[i] + x));
    put_pair(n, 2, load_signed(near->uu[i] + x), load_signed(near->ll[i] + x));
    put_pair(n, 3, load(g + x), load(r + x));
    n->samples = load_signed(near->s[i] + x);
    n->med = _mm256_sub_epi16(_mm256_add_epi16(l, u), middle);
}

/* A filter's coefficients in all lanes. */
struct filter {
    __m256i k[N_PAIRS];
};

INLINE __m256i pair_of(int low, int high)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)low | (uint32_t)high << 16));
}

INLINE struct filter filter_of(const struct psti_wave_candidate *c)
{
    int own = 32 - c->k[0] - c->k[1] - c->k[2] - c->k[3] - c->k[4];
    return (struct filter){{pair_of(own, c->k[0]), pair_of(c->k[1], c->k[2]),
                            pair_of(c->k[3], c->k[4]), pair_of(c->a, c->b)}};
}

INLINE __m256i predict_eight(const __m256i *pairs, const struct filter *f, bool taps)
{
    __m256i x = _mm256_add_epi32(_mm256_madd_epi16(pairs[0], f->k[0]), _mm256_set1_epi32(16));
    __m256i y = _mm256_add_epi32(_mm256_madd_epi16(pairs[1], f->k[1]),
                                 _mm256_madd_epi16(pairs[2], f->k[2]));
    if (taps)
        x = _mm256_add_epi32(x, _mm256_madd_epi16(pairs[3], f->k[3]));
    return _mm256_srai_epi32(_mm256_add_epi32(x, y), 5);
}

INLINE __m256i filtered(const struct neighbours *n, const struct filter *f, bool taps)
{
    __m256i p = _mm256_packs_epi32(predict_eight(n->low, f, taps), predict_eight(n->high, f, taps));
    return _mm256_sub_epi16(n->samples, p);
}

/* Estimates the costs of the blocks with a filter (NULL: MED). A lane holds the sum of 16 biased
 * estimates, which is below 65536. */
INLINE __m128i price_filter(const struct neighbours (*rows)[N_BLOCKS], uint32_t n_rows,
                            const struct filter *f, bool taps, const __m256i *masks)
{
    uint32_t prices[N_BLOCKS];
    const __m256i bias = _mm256_set1_epi16((int16_t)(n_rows * PSTI_WAVE_PRICE_BIAS));
    for (uint32_t b = 0; b < N_BLOCKS; b++) {
        __m256i sums = _mm256_setzero_si256();
        for (uint32_t i = 0; i < n_rows; i++) {
            const struct neighbours *n = &rows[i][b];
            sums = _mm256_add_epi16(
                sums, psti_pli_wave_biased_prices_u16(f ? filtered(n, f, taps)
                                                        : _mm256_sub_epi16(n->samples, n->med)));
        }
        sums = _mm256_and_si256(_mm256_sub_epi16(sums, bias), masks[b]);
        prices[b] = psti_pli_wave_sum32(_mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
    }
    return _mm_loadu_si128((const __m128i *)prices);
}

TARGET void psti_pli_wave_price_filters_u16_avx2(const struct psti_wave_work *work,
                                                 const struct psti_wave_filter_query *q,
                                                 struct psti_wave_filter_prices *prices)
{
    struct neighbours rows[PSTI_WAVE_BLOCK][N_BLOCKS];
    __m256i masks[N_BLOCKS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < q->n_rows; i += q->step, n++)
        for (uint32_t b = 0; b < N_BLOCKS; b++)
            find_neighbours(&work->near.of_u16, i, b * LANES, q->g + (size_t)i * EDGE,
                            q->r + (size_t)i * EDGE, &rows[n][b]);
    for (uint32_t b = 0; b < N_BLOCKS; b++)
        masks[b] = psti_pli_wave_columns_u16(b * LANES, q->width);
    const struct neighbours(*from)[N_BLOCKS] = (const struct neighbours(*)[N_BLOCKS])rows;
    __m128i best = price_filter(from, n, NULL, false, masks), numbers = _mm_setzero_si128();
    _mm_storeu_si128((__m128i *)prices->of[0], best);
    for (uint32_t number = 1; number < q->n_filters; number++) {
        struct psti_wave_candidate c = psti_pli_wave_filter(q->list, number);
        struct filter f = filter_of(&c);
        __m128i now = q->list > 0 ? price_filter(from, n, &f, true, masks)
                                  : price_filter(from, n, &f, false, masks);
        _mm_storeu_si128((__m128i *)prices->of[number], now);
        numbers = _mm_blendv_epi8(numbers, _mm_set1_epi32((int)number), _mm_cmpgt_epi32(best, now));
        best = _mm_min_epi32(best, now);
    }
    _mm_storeu_si128((__m128i *)prices->best, numbers);
}

TARGET void psti_pli_wave_find_block_u16_avx2(const struct psti_wave_work *work,
                                              const struct psti_wave_candidate *c, uint32_t n_rows,
                                              uint32_t x0, const int16_t *g, const int16_t *r,
                                              int16_t *out)
{
    bool is_filter = c->predictor == PSTI_PLI_PREDICT_FILTERS;
    struct filter f = filter_of(c);
    for (uint32_t i = 0; i < n_rows; i++) {
        struct neighbours n;
        size_t at = (size_t)i * EDGE;
        find_neighbours(&work->near.of_u16, i, x0, g + at, r + at, &n);
        __m256i v = is_filter ? filtered(&n, &f, true) : _mm256_sub_epi16(n.samples, n.med);
        _mm256_storeu_si256((__m256i *)(out + at + x0), v);
    }
}
#endif
