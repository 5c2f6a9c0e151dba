/* pli_wave_avx512_raw.c - raw bits of the wave decoder with AVX-512: turns activities into
 * residuals.
 *
 * It takes rows of activities, and the bits of the units with the low halves of their states after
 * them. The results are rows of residuals, two for each row of activities. The functions are pure;
 * any thread may call them. */
#include "pli/decode/wave/x86/pli_wave_avx512_pairs.h"

#if defined(__x86_64__)
#include <string.h>

enum {
    MOST_OF_EIGHT = 57, /* maximum number of bits that eight lanes can take at once */
    /* The number of the first point. With this start the numbers of a token's points differ only in
     * the lowest bits. */
    FIRST_POINT = 5
};

/* -- Constants -- */

/* Makes the constants that are indexed by the lower four bits of activities. */
TARGET static void make_parts(struct pair_constants *c)
{
    const __m512i zero = _mm512_setzero_si512();
    const __m512i r = same_16(psti_pli_wave_first_bits_of);
    const __m512i s = same_16(psti_pli_wave_second_bits_of);
    const __m512i bases = same_16(psti_pli_wave_bases_of);
    static const uint8_t ones[16] = {0, 1, 3, 7, 15, 31, 63, 127, 255};
    static const uint8_t ones_less_2[16] = {0, 0, 0, 1, 3, 7, 15, 31, 63};
    __mmask64 pairs = _mm512_test_epi8_mask(r, r), squares = _mm512_test_epi8_mask(s, s);
    c->sizes_r = r;
    c->sizes_s = s;
    c->masks_r = _mm512_shuffle_epi8(same_16(ones_less_2), r);
    c->no_bits_s = _mm512_xor_si512(_mm512_shuffle_epi8(same_16(ones), s), _mm512_set1_epi8(-1));
    c->points = _mm512_maskz_mov_epi8(pairs & ~squares,
                                      _mm512_add_epi8(bases, _mm512_set1_epi8(FIRST_POINT)));
    c->offsets = _mm512_mask_sub_epi8(zero, squares, zero, bases);
}

/* Makes the indices of sums of bits. The sum of each eight lanes is the lowest byte of its word,
 * and the byte above it is 0. `all` lists the places of a unit's four sums of R and of its four
 * sums of S. */
TARGET static void make_sums(struct pair_constants *c)
{
    const uint64_t zeros = 0x0101010101010101, second = 0x2020202020202020;
    uint64_t r[8], s[8];
    for (uint32_t w = 0; w < 8; w++) {
        uint64_t all = 0x5850484018100800 + (w < 4 ? 0 : second);
        uint64_t below = (1ull << 8 * (w & 3)) - 1, below_s = below << 32 | 0xffffffff;
        r[w] = (w & 3) == 0 ? all : (all & below) | (zeros & ~below);
        s[w] = (all & below_s) | (zeros & ~below_s);
    }
    c->below_r = row_load(r);
    c->below_s = row_load(s);
}

TARGET static void make_constants(struct pair_constants *c)
{
    const uint64_t bytes = 0x0706050403020100, second = bytes + 0x4040404040404040;
    make_parts(c);
    make_sums(c);
    c->least_square = _mm512_set1_epi8(PSTI_PLI_WAVE_SQUARE_ACTIVITY);
    c->any = _mm512_set1_epi8(PSTI_PLI_WAVE_ANY_ACTIVITY);
    c->more = _mm512_set1_epi8(MOST_OF_EIGHT + 1);
    c->all = _mm512_setr_epi32(0, 8, 0, 8, 0, 8, 0, 8, 8, 0, 8, 0, 8, 0, 8, 0);
    c->seven = _mm512_set1_epi64(7);
    c->ones = _mm512_set1_epi8(1);
    c->two = _mm512_set1_epi8(2);
    c->bytes = _mm512_set1_epi8(3);
    c->ascending =
        _mm512_setr_epi64((int64_t)bytes, (int64_t)bytes, (int64_t)bytes, (int64_t)bytes,
                          (int64_t)second, (int64_t)second, (int64_t)second, (int64_t)second);
    c->quarter = _mm512_set1_epi64(0x0408102040800000);
    c->half = _mm512_set1_epi64(0x0204081020408000);
    c->not_first = 0xEE;
    uint8_t a[64] = {0}, b[64] = {0};
    memcpy(a + FIRST_POINT, psti_pli_wave_points_a, 64 - FIRST_POINT);
    memcpy(b + FIRST_POINT, psti_pli_wave_points_b, 64 - FIRST_POINT);
    c->points_a[0] = row_load(a);
    c->points_a[1] = row_load(psti_pli_wave_points_a + 64 - FIRST_POINT);
    c->points_b[0] = row_load(b);
    c->points_b[1] = row_load(psti_pli_wave_points_b + 64 - FIRST_POINT);
}

/* -- Units -- */

/* Returns the number of raw bytes to copy: samples use no more than the limit. */
static size_t raw_nbytes(const struct psti_pli_wave_head *head)
{
    return head->raw_nbytes < WAVE_MAX_RAW_NBYTES ? head->raw_nbytes : WAVE_MAX_RAW_NBYTES;
}

/* Copies a unit's raw bytes, followed by its states' low halves. Rows that take more bits get
 * whatever the memory contained before. */
static const uint8_t *open_bits(const struct psti_pli_wave512_job *job, uint32_t u)
{
    const struct psti_pli_wave_head *head = job->heads[u];
    uint8_t *bits = job->memory->bits[u];
    size_t n = raw_nbytes(head);
    memcpy(bits, head->raw, n);
    memcpy(bits + n, job->low[u], PSTI_PLI_WAVE_STATE_NBYTES_8);
    return bits;
}

TARGET __attribute__((noinline)) struct pair_constants psti_pli_wave512_open_pairs(
    const struct psti_pli_wave512_job *job, struct pair_bits *bits)
{
    struct pair_constants c;
    make_constants(&c);
    bits->of[0] = open_bits(job, 0);
    /* If there is no second unit, the first unit's bits are used for it, and its results are
     * ignored. */
    bits->of[1] = job->n_units > 1 ? open_bits(job, 1) : bits->of[0];
    return c;
}

void psti_pli_wave512_close_pairs(const struct psti_pli_wave512_job *job, uint64_t at,
                                  bool lacks[WAVE_UNITS])
{
    const uint64_t ends[WAVE_UNITS] = {(uint32_t)at, at >> 32};
    for (uint32_t u = 0; u < job->n_units; u++)
        lacks[u] = ends[u] > 8 * (raw_nbytes(job->heads[u]) + PSTI_PLI_WAVE_STATE_NBYTES_8);
}

/* Makes the residuals of a row while it locates the bits of the next row. (After the last row it
 * locates the last row's bits again.) */
TARGET void psti_pli_wave512_raw_bits(struct psti_pli_wave512_job *job, bool lacks[WAVE_UNITS])
{
    uint8_t(*rows)[2 * WAVE_ROW] = (uint8_t(*)[2 * WAVE_ROW]) job->memory->rows;
    uint32_t n_rows = job->heads[0]->n_token_steps;
    struct pair_bits bits;
    struct pair_special special[2];
    __m512i at = _mm512_setzero_si512();
    const struct pair_constants c = psti_pli_wave512_open_pairs(job, &bits);
    struct pair_row row = pair_find_row(&c, rows[0], &bits, &at, special);
    for (uint32_t t = 0; t < n_rows; t++) {
        uint32_t u = t + 1 < n_rows ? t + 1 : t;
        struct pair_row next = pair_find_row(&c, rows[u], &bits, &at, special + ((t & 1) ^ 1));
        struct pair_residuals r = pair_take_row(&c, &bits, &row, special + (t & 1));
        row_store(rows[t], r.x);
        row_store(rows[t] + WAVE_ROW, r.y);
        row = next;
    }
    psti_pli_wave512_close_pairs(job, row.at, lacks);
}
#endif
