/* pli_packed_rows_avx2.c - tries predictors on rows of 8-bit samples with AVX2.
 *
 * pli_packed_encode.h describes input and output; plain C gives the same numbers. Pure; any thread.
 * The widths of a row's 8 groups for all predictors, 40 numbers, are found together: a 64-bit lane
 * holds a group, and byte m of it belongs to predictor m. */
#include "pli/encode/packed/pli_packed_encode.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>
#include <string.h>

#define TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,lzcnt")))

enum { N = PSTI_PACKED_N_PREDICTORS, START = PSTI_PACKED_ROW_START };

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }

/* Returns the terms that the taps add to 32 predictions, modulo 2^8. */
INLINE __m256i tap_half(const int16_t *r0, const int16_t *r1, __m256i tap0, __m256i tap1)
{
    const __m256i half = _mm256_set1_epi16(16), low_byte = _mm256_set1_epi16(0xFF);
    __m256i t[2];
    for (int i = 0; i < 2; i++) {
        __m256i v = _mm256_mullo_epi16(load(r0 + 16 * i), tap0);
        v = _mm256_add_epi16(v, _mm256_mullo_epi16(load(r1 + 16 * i), tap1));
        v = _mm256_srai_epi16(_mm256_add_epi16(v, half), 5);
        t[i] = _mm256_and_si256(v, low_byte);
    }
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(t[0], t[1]), 0xD8);
}

/* Computes the residuals of columns x .. x + 31 of row y for all predictors. */
INLINE void predict_half(const struct psti_packed_block *block, uint32_t y, uint32_t x,
                         bool has_taps, __m256i out[N])
{
    const __m256i ones = _mm256_set1_epi8((char)0xFF);
    const uint8_t *at = block->samples->row_u8[y] + START + x;
    __m256i v = load(at), left = _mm256_sub_epi8(v, load(at - 1));
    if (y == 0) {
        for (int m = 0; m < N; m++)
            out[m] = left;
    } else {
        const uint8_t *above = block->samples->row_u8[y - 1] + START + x;
        __m256i u = load(above), ul = load(above - 1), ur = load(above + 1);
        /* `smooth` is smooth() of section 4.5 for columns x .. x + 31, `before` for columns x - 1
         * .. x + 30. */
        __m256i sides = _mm256_avg_epu8(_mm256_xor_si256(ul, ones), _mm256_xor_si256(ur, ones));
        __m256i smooth = _mm256_avg_epu8(_mm256_xor_si256(sides, ones), u);
        sides = _mm256_avg_epu8(_mm256_xor_si256(load(above - 2), ones), _mm256_xor_si256(u, ones));
        __m256i before = _mm256_avg_epu8(_mm256_xor_si256(sides, ones), ul);
        out[PSTI_PACKED_LEFT - 1] = left;
        out[PSTI_PACKED_UP - 1] = _mm256_sub_epi8(v, u);
        out[PSTI_PACKED_GRADIENT - 1] = _mm256_sub_epi8(left, _mm256_sub_epi8(u, ul));
        out[PSTI_PACKED_SMOOTH - 1] = _mm256_sub_epi8(v, smooth);
        out[PSTI_PACKED_SMOOTH_GRADIENT - 1] =
            _mm256_sub_epi8(left, _mm256_sub_epi8(smooth, before));
        if (x == 0) { /* column 0 has no left neighbour */
            const __m256i first = _mm256_setr_epi32(0xFF, 0, 0, 0, 0, 0, 0, 0);
            __m256i up = out[PSTI_PACKED_UP - 1], by_smooth = out[PSTI_PACKED_SMOOTH - 1];
            out[PSTI_PACKED_LEFT - 1] = _mm256_blendv_epi8(left, up, first);
            out[PSTI_PACKED_GRADIENT - 1] =
                _mm256_blendv_epi8(out[PSTI_PACKED_GRADIENT - 1], up, first);
            out[PSTI_PACKED_SMOOTH_GRADIENT - 1] =
                _mm256_blendv_epi8(out[PSTI_PACKED_SMOOTH_GRADIENT - 1], by_smooth, first);
        }
    }
    if (has_taps) {
        __m256i t = tap_half(block->r0->residuals[y] + x, block->r1->residuals[y] + x,
                             _mm256_set1_epi16(block->tap[0]), _mm256_set1_epi16(block->tap[1]));
        for (int m = 0; m < N; m++)
            out[m] = _mm256_sub_epi8(out[m], t);
    }
}

/* ORs the zigzag numbers of each group's residuals. The result is in byte 0 of the group's lane. */
INLINE __m256i any_of(__m256i residuals)
{
    __m256i v = _mm256_xor_si256(_mm256_add_epi8(residuals, residuals),
                                 _mm256_cmpgt_epi8(_mm256_setzero_si256(), residuals));
    v = _mm256_or_si256(v, _mm256_srli_epi64(v, 32));
    v = _mm256_or_si256(v, _mm256_srli_epi64(v, 16));
    return _mm256_or_si256(v, _mm256_srli_epi64(v, 8));
}

/* Returns the bit lengths of bytes. */
INLINE __m256i lengths_of(__m256i v)
{
    const __m256i low =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4));
    const __m256i high =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8));
    const __m256i nibble = _mm256_set1_epi8(15);
    return _mm256_max_epu8(
        _mm256_shuffle_epi8(low, _mm256_and_si256(v, nibble)),
        _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble)));
}

/* Returns the widths of four groups. Byte m of each lane is the width with predictor m; bytes 5..7
 * are 0. */
INLINE __m256i widths_of(const __m256i residuals[N])
{
    const __m256i byte = _mm256_set1_epi64x(0xFF);
    __m256i v = _mm256_and_si256(any_of(residuals[0]), byte);
    v = _mm256_or_si256(v, _mm256_slli_epi64(_mm256_and_si256(any_of(residuals[1]), byte), 8));
    v = _mm256_or_si256(v, _mm256_slli_epi64(_mm256_and_si256(any_of(residuals[2]), byte), 16));
    v = _mm256_or_si256(v, _mm256_slli_epi64(_mm256_and_si256(any_of(residuals[3]), byte), 24));
    v = _mm256_or_si256(v, _mm256_slli_epi64(_mm256_and_si256(any_of(residuals[4]), byte), 32));
    return lengths_of(v);
}

/* Returns 8 w + |d| + (d ? 2 : 1) in each byte. */
INLINE __m256i costs_of(__m256i widths, __m256i above)
{
    const __m256i two = _mm256_set1_epi8(2);
    __m256i d = _mm256_abs_epi8(_mm256_sub_epi8(widths, above));
    __m256i equal = _mm256_cmpeq_epi8(widths, above);
    __m256i v = _mm256_add_epi8(_mm256_slli_epi16(widths, 3), d); /* widths are at most 8 */
    return _mm256_add_epi8(v, _mm256_add_epi8(two, equal));
}

/* Fills lane k with the width of the group above group `from` + k, repeated for each predictor.
 * Sets lane k of `exists` to all ones if the group exists. */
INLINE void spread_above(const struct psti_packed_block *block, uint32_t from, __m256i *above,
                         __m256i *exists)
{
    uint64_t widths[4], mask[4];
    for (uint32_t k = 0; k < 4; k++) {
        widths[k] = UINT64_C(0x0101010101) * block->above[from + k];
        mask[k] = from + k < block->groups ? UINT64_C(0xFFFFFFFFFF) : 0;
    }
    *above = load(widths);
    *exists = load(mask);
}

INLINE void try_rows(const struct psti_packed_block *block, bool has_taps, uint32_t *costs)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i above[2], exists[2], sums[2] = {zero, zero};
    spread_above(block, 0, &above[0], &exists[0]);
    spread_above(block, 4, &above[1], &exists[1]);
    for (uint32_t y = block->first; y < block->first + block->n_rows; y++)
        for (uint32_t half = 0; half < 2; half++) {
            __m256i residuals[N];
            predict_half(block, y, 32 * half, has_taps, residuals);
            __m256i widths = widths_of(residuals);
            __m256i cost = _mm256_and_si256(costs_of(widths, above[half]), exists[half]);
            above[half] = widths;
            sums[0] = _mm256_add_epi16(sums[0], _mm256_unpacklo_epi8(cost, zero));
            sums[1] = _mm256_add_epi16(sums[1], _mm256_unpackhi_epi8(cost, zero));
        }
    uint16_t all[2][16];
    memcpy(all, sums, sizeof all);
    for (int m = 0; m < N; m++)
        costs[m] = (uint32_t)all[0][m] + all[0][8 + m] + all[1][m] + all[1][8 + m];
}

TARGET static void try_all(const struct psti_packed_block *block, uint32_t costs[N])
{
    if (block->tap[0] || block->tap[1])
        try_rows(block, true, costs);
    else
        try_rows(block, false, costs);
}

TARGET static void code(const struct psti_packed_block *block, uint32_t m,
                        struct psti_packed_coded *out)
{
    bool has_taps = block->tap[0] || block->tap[1];
    for (uint32_t y = block->first; y < block->first + block->n_rows; y++)
        for (uint32_t half = 0; half < 2; half++) {
            __m256i residuals[N];
            predict_half(block, y, 32 * half, has_taps, residuals);
            __m256i v = residuals[m];
            int16_t *to = out->residuals[y] + (size_t)32 * half;
            _mm256_storeu_si256((void *)to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)));
            _mm256_storeu_si256((void *)(to + 16),
                                _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)));
            uint64_t widths[4];
            __m256i lengths = lengths_of(_mm256_and_si256(any_of(v), _mm256_set1_epi64x(0xFF)));
            _mm256_storeu_si256((void *)widths, lengths);
            for (uint32_t k = 0; k < 4; k++)
                out->widths[y][4 * half + k] = (uint8_t)widths[k];
        }
}

const struct psti_packed_rows psti_packed_rows_u8_avx2 = {.try_all = try_all, .code = code};
#endif
