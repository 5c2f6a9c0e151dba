/* pli_wave_simple_avx2_template.h - the simple predictors of a plane with AVX2, for samples of 8 or
 * 16 bits: residuals and their costs.
 *
 * A file includes this once, after definitions of TARGET, INLINE, load() and these:
 *
 *     SAMPLE, LANES                  a sample, and their number in a vector
 *     OP(name)                       the intrinsic `name` for samples of that width
 *     columns_of(x, width)           all ones in the lanes of columns x .. that the unit has
 *     store_residuals(to, v)         as numbers of 16 bits
 *     add_costs(sums, residuals, mask), sum_of(sums)
 */
#include <string.h>

enum { N_SIMPLE = 4, N_VECTORS = PSTI_WAVE_EDGE / LANES };

/* Computes predictions 1..4. */
INLINE void predict_simple(__m256i l, __m256i u, __m256i ul, __m256i *p)
{
    __m256i least = OP(min_epu)(l, u), most = OP(max_epu)(l, u);
    __m256i middle = OP(min_epu)(OP(max_epu)(ul, least), most);
    __m256i odd = _mm256_and_si256(_mm256_xor_si256(l, u), OP(set1_epi)(1));
    p[PSTI_PLI_PREDICT_LEFT - 1] = l;
    p[PSTI_PLI_PREDICT_UP - 1] = u;
    p[PSTI_PLI_PREDICT_AVERAGE - 1] = OP(sub_epi)(OP(avg_epu)(l, u), odd);
    p[PSTI_PLI_PREDICT_MED - 1] = OP(sub_epi)(OP(add_epi)(l, u), middle);
}

INLINE void try_rows(const struct psti_pli_source *source, uint32_t plane, uint32_t from,
                     struct psti_wave_work *work, uint64_t *prices)
{
    __m256i masks[N_VECTORS], sums[N_SIMPLE];
    /* Two rows, with space before them for the left neighbour of column 0. */
    _Alignas(32) SAMPLE rows[2][LANES + PSTI_WAVE_EDGE];
    for (uint32_t i = 0; i < N_VECTORS; i++)
        masks[i] = columns_of(i * LANES, source->width);
    for (uint32_t i = from; i < N_SIMPLE; i++)
        sums[i] = _mm256_setzero_si256();
    for (uint32_t y = 0; y < source->height; y++) {
        const SAMPLE *s = (const SAMPLE *)source->planes[plane] + (size_t)y * PSTI_WAVE_EDGE;
        SAMPLE *own = rows[y % 2] + LANES, *above = rows[(y + 1) % 2] + LANES;
        memcpy(own, s, PSTI_WAVE_EDGE * sizeof *s);
        own[-1] = y > 0 ? above[0] : s[0];
        if (y == 0) /* in row 0, U and UL are L */
            memcpy(above, own - 1, PSTI_WAVE_EDGE * sizeof *s);
        /* UL of column 0 is U. In row 0 it is the start sample. */
        above[-1] = above[0];
        for (uint32_t x = 0; x < PSTI_WAVE_EDGE; x += LANES) {
            __m256i predictions[N_SIMPLE], v = load(own + x), u = load(above + x);
            __m256i ul = y > 0 ? load(above + x - 1) : u;
            predict_simple(load(own + x - 1), u, ul, predictions);
            for (uint32_t i = from; i < N_SIMPLE; i++) {
                __m256i residuals = OP(sub_epi)(v, predictions[i]);
                store_residuals(work->trial[i] + (size_t)y * PSTI_WAVE_EDGE + x, residuals);
                sums[i] = add_costs(sums[i], residuals, masks[x / LANES]);
            }
        }
    }
    for (uint32_t i = from; i < N_SIMPLE; i++)
        prices[i] = sum_of(sums[i]);
}

static TARGET void try_simple_by_hand(const struct psti_pli_source *source, uint32_t plane,
                                      uint32_t from, struct psti_wave_work *work,
                                      uint64_t prices[4])
{
    if (from == 0)
        try_rows(source, plane, 0, work, prices);
    else
        try_rows(source, plane, PSTI_PLI_PREDICT_MED - 1, work, prices);
}
