/* pli_wave_avx512_plain.c - turns activities and raw bits into samples at once, with AVX-512, for
 * jobs whose planes are all MED without taps.
 *
 * It takes rows of activities, and the bits of the units with the low halves of their states after
 * them. The results are rows of samples by step, two for each row of activities. The functions are
 * pure; any thread may call them. These planes do not use residuals of other planes, so residuals
 * stay in registers. While samples wait for the samples to their left, the next row's bits are
 * located and taken.
 */
#include "pli/decode/wave/x86/pli_wave_avx512_pairs.h"

#if defined(__x86_64__)
/* The samples of the last step, and the samples of the last three steps rotated to the lane
 * below. */
struct plain_samples {
    __m512i own, above1, above2, above3;
};

/* Does one step of MED, using the left neighbour as late as possible. At column 0 the left
 * neighbour is the sample above; then the prediction is that sample, whatever UL is. In a plane's
 * first row the left neighbour is the prediction. */
INLINE __m512i plain_step(struct plain_samples *s, __m512i residual, uint32_t t, bool even,
                          __mmask64 first)
{
    __m512i left = s->own, above = s->above2;
    if (even)
        left = choose_bits(row_load(wave512_all_but(psti_pli_wave_front_lane(t))), left, above);
    __m512i middle = wave512_middle(left, above, s->above3);
    s->own = _mm512_sub_epi8(_mm512_add_epi8(_mm512_add_epi8(above, residual), left), middle);
    s->own = _mm512_mask_add_epi8(s->own, first, left, residual);
    s->above3 = s->above2;
    s->above2 = s->above1;
    s->above1 = turn(s->own);
    return s->own;
}

/* Returns the mask of lane 0 of both units if the band begins a plane, else 0. Also stores the
 * start sample above lane 0, for (0, 0). */
INLINE __mmask64 open_band(const struct psti_pli_wave512_job *job, uint32_t band,
                           struct plain_samples *s)
{
    const struct psti_pli_wave_head *head = job->heads[0];
    if (band >= head->n_bands || band % head->bands_per_plane != 0)
        return 0;
    uint32_t plane = band / head->bands_per_plane;
    uint16_t first = head->planes[plane].start, second = job->heads[1]->planes[plane].start;
    s->above2 = _mm512_mask_set1_epi8(s->above2, 1, (char)first);
    s->above2 = _mm512_mask_set1_epi8(s->above2, 1ull << WAVE_LANES, (char)second);
    return WAVE_BOTH(1);
}

bool psti_pli_wave512_is_plain(const struct psti_pli_wave512_job *job)
{
    for (uint32_t u = 0; u < job->n_units; u++)
        for (uint32_t i = 0; i < job->heads[u]->n_coded; i++) {
            const struct psti_pli_wave_plane *plane = job->heads[u]->planes + i;
            if (plane->predictor != PSTI_PLI_PREDICT_MED || plane->a != 0 || plane->b != 0)
                return false;
        }
    return true;
}

/* Makes the samples of a row while it locates the bits of the next row. (After the last row it
 * locates the last row's bits again.) */
TARGET void psti_pli_wave512_plain(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS])
{
    const uint8_t(*rows)[2 * WAVE_ROW] = (const uint8_t(*)[2 * WAVE_ROW]) job->memory->rows;
    uint8_t(*out)[WAVE_ROW] = job->memory->samples;
    const uint32_t n_rows = job->heads[0]->n_token_steps;
    const __m512i zero = _mm512_setzero_si512();
    struct pair_bits bits;
    struct pair_special special[2];
    struct plain_samples s = {zero, zero, zero, zero};
    __m512i at = zero;
    __mmask64 first = 0;
    const struct pair_constants c = psti_pli_wave512_open_pairs(job, &bits);
    struct pair_row row = pair_find_row(&c, rows[0], &bits, &at, special);
    for (uint32_t t = 0; t < n_rows; t++) {
        if (t % WAVE_LANES == 0)
            first = open_band(job, t / WAVE_LANES, &s);
        psti_pli_wave_ask(job->units, WAVE_UNITS, job->next, 2 * t);
        uint32_t u = t + 1 < n_rows ? t + 1 : t;
        struct pair_row next = pair_find_row(&c, rows[u], &bits, &at, special + ((t & 1) ^ 1));
        struct pair_residuals r = pair_take_row(&c, &bits, &row, special + (t & 1));
        row_store(out[2 * t], plain_step(&s, r.x, 2 * t, true, first));
        row_store(out[2 * t + 1], plain_step(&s, r.y, 2 * t + 1, false, first));
        row = next;
    }
    psti_pli_wave512_close_pairs(job, row.at, lacks);
}
#endif
