/* augment_kernels_icl.c - the inner loops with the AVX-512 of Ice Lake (VBMI, VNNI). The loops are
 * those of augment_kernels_avx512.c with Ice Lake's multiply-add, and a horizontal pass that picks
 * bytes.
 *
 * In and out: see augment_kernels.h. The bits are the same as those of plain C. Pure functions, any
 * thread. Tests compile this file against SIMDe (base/machine/avx512.h). */
#include "augment/kernels/augment_kernels.h"

#if defined(__x86_64__)
#include "base/machine/avx512.h"
#include "base/bits.h"

#define NAME "avx512 icl"
#define OPS psti_augment_ops_icl
#define PICK_X pick_x
#define QUAD_X NULL
#define TARGET PSTI_ICL_TARGET
#define INLINE PSTI_ICL_INLINE

INLINE __m512i multiply_add(__m512i sums, __m512i a, __m512i b)
{
    return psti_avx512_add_products(sums, a, b);
}

#include "augment/kernels/augment_kernels_avx512_template.h"

/* Splits 16 pixels of three channels into planes with one byte permutation (VBMI). */
#define OWN_LOAD_PLANES
INLINE void load_planes(const uint8_t *src, __m128i v[3])
{
    static const uint8_t numbers[64] = {0,  3,  6,  9,  12, 15, 18, 21, 24, 27, 30, 33,
                                        36, 39, 42, 45, 1,  4,  7,  10, 13, 16, 19, 22,
                                        25, 28, 31, 34, 37, 40, 43, 46, 2,  5,  8,  11,
                                        14, 17, 20, 23, 26, 29, 32, 35, 38, 41, 44, 47};
    const __m512i bytes = _mm512_maskz_loadu_epi8(0xffffffffffffULL, src);
    const __m512i planes = _mm512_permutexvar_epi8(_mm512_loadu_si512(numbers), bytes);
    v[0] = _mm512_castsi512_si128(planes);
    v[1] = _mm512_extracti32x4_epi32(planes, 1);
    v[2] = _mm512_extracti32x4_epi32(planes, 2);
}

#include "augment/kernels/augment_kernels_x86_template.h"

enum { ROWS = PSTI_MAX_LANES };
#define EVEN_BYTES 0x5555555555555555ULL

/* The bytes of each row that the outputs of a vector read: one or two vectors of 64 bytes. */
struct tables {
    __m512i a[ROWS], b[ROWS];
};

INLINE void load_tables(struct tables *t, const uint8_t *const *rows, const struct psti_pick *p,
                        bool two)
{
    const size_t at = p->at;
    if (p->masks[1] + 1 == 0) {
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            t->a[r] = _mm512_loadu_si512(rows[r] + at);
            t->b[r] = two ? _mm512_loadu_si512(rows[r] + at + 64) : t->a[r];
        }
        return;
    }
    const uint64_t mask_a = p->masks[0], mask_b = p->masks[1];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        t->a[r] = _mm512_maskz_loadu_epi8(mask_a, rows[r] + at);
        t->b[r] = two ? _mm512_maskz_loadu_epi8(mask_b, rows[r] + at + 64) : t->a[r];
    }
}

/* Adds two taps' products to 16 sums of each row. */
INLINE void add_step(__m512i sums[ROWS], const struct tables *t, __m512i index, __m512i w, bool two)
{
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
        __m512i pairs = two ? _mm512_maskz_permutex2var_epi8(EVEN_BYTES, t->a[r], index, t->b[r])
                            : _mm512_maskz_permutexvar_epi8(EVEN_BYTES, index, t->a[r]);
        sums[r] = multiply_add(sums[r], pairs, w);
    }
}

/* Stores 16 sums of each row as bytes, shifted and clamped to 0..255. */
INLINE void store_sums(uint8_t *const *rows, size_t at, const __m512i sums[ROWS],
                       uint32_t precision)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i v = clamped(shifted_by(sums[0], precision), shifted_by(sums[1], precision),
                        shifted_by(sums[2], precision), shifted_by(sums[3], precision));
    v = _mm512_permutexvar_epi32(order, v);
    store_parts(rows, at, v);
}

/* The loop that computes outputs by picks. It is compiled separately for windows within one and
 * within two vectors, and for the numbers of steps of the usual scales. */
INLINE void pick(uint8_t *const *dst, const uint8_t *const *src, const struct psti_picks *picks,
                 uint32_t steps, bool two)
{
    const uint8_t *const from[ROWS] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[ROWS] = {dst[0], dst[1], dst[2], dst[3]};
    const struct psti_picks own = *picks;
    const __m512i step = _mm512_set1_epi16((short)own.step_nbytes);
    const __m512i round = _mm512_set1_epi32(1 << (own.precision - 1));
    const uint32_t *weights = own.weights;
    for (uint32_t v = 0; v < own.n; v++) {
        const struct psti_pick *p = &own.vectors[v];
        __m512i sums[ROWS] = {round, round, round, round};
        __m512i index = _mm512_loadu_si512(p->index);
        struct tables t;
        load_tables(&t, from, p, two);
#pragma GCC unroll 3
        for (uint32_t k = 0; k < steps; k++, weights += PSTI_PICK_LANES) {
            add_step(sums, &t, index, _mm512_loadu_si512(weights), two);
            index = _mm512_add_epi16(index, step);
        }
        store_sums(to, (size_t)v * own.lanes, sums, own.precision);
    }
}

TARGET static void pick_x(uint8_t *const *dst, const uint8_t *const *src,
                          const struct psti_picks *picks)
{
    if (picks->two)
        pick(dst, src, picks, picks->steps, true);
    else if (picks->steps == 1)
        pick(dst, src, picks, 1, false);
    else if (picks->steps == 2)
        pick(dst, src, picks, 2, false);
    else if (picks->steps == 3)
        pick(dst, src, picks, 3, false);
    else
        pick(dst, src, picks, picks->steps, false);
}

#include "augment/kernels/augment_kernels_template.h"
#endif
