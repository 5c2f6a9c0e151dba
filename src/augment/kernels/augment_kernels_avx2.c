/* augment_kernels_avx2.c - the inner loops with AVX2 and F16C. It includes
 * augment_kernels_template.h and augment_kernels_x86_template.h.
 *
 * In and out: see augment_kernels.h. The bits are the same as those of plain C. Pure functions, any
 * thread. */
#include "augment/kernels/augment_kernels.h"

#if defined(__x86_64__)
#include "base/bits.h"

#include <immintrin.h>

#define NAME "avx2"
#define OPS psti_augment_ops_avx2
#define PICK_X NULL
#define QUAD_X quad_x
#define TARGET __attribute__((target("avx2,bmi,bmi2,f16c")))
#define INLINE static inline __attribute__((always_inline, target("avx2,bmi,bmi2,f16c")))
#define VECTOR __m256i
#define OP(name) _mm256_##name
#define FLOATS __m256

enum { N_FLOATS = 8 };

INLINE __m256i multiply_add(__m256i sums, __m256i a, __m256i b)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}
INLINE __m256i load(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE void store(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
INLINE __m256i in_all_parts(__m128i v) { return _mm256_broadcastsi128_si256(v); }

INLINE __m256i two(__m128i a, __m128i b)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
}
INLINE __m256i load_parts_16(const uint8_t *const *rows, size_t at)
{
    return two(_mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at)),
               _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + at)));
}
INLINE __m256i load_parts_8(const uint8_t *const *rows, size_t at)
{
    return two(_mm_loadl_epi64((const __m128i *)(const void *)(rows[0] + at)),
               _mm_loadl_epi64((const __m128i *)(const void *)(rows[1] + at)));
}
INLINE void store_parts(uint8_t *const *rows, size_t at, __m256i v)
{
    _mm_storeu_si128((__m128i *)(void *)(rows[0] + at), _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(void *)(rows[1] + at), _mm256_extracti128_si256(v, 1));
}

INLINE __m256i widened(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
INLINE __m256i widened_bytes(__m128i v) { return _mm256_cvtepu8_epi32(v); }
INLINE __m256i bits_of(__m256 v) { return _mm256_castps_si256(v); }
INLINE __m128i low_halves(__m256i v)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
INLINE void store_halves(void *to, __m128i v, bool streams)
{
    if (streams)
        _mm_stream_si128((__m128i *)to, v);
    else
        _mm_storeu_si128((__m128i *)to, v);
}
INLINE void store_f16(void *to, __m256 v, bool streams)
{
    store_halves(to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), streams);
}

#define MASK __m256
INLINE __m256 equal(__m256 a, __m256 b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
INLINE __m256 chosen(__m256 mask, __m256 a, __m256 b) { return _mm256_blendv_ps(b, a, mask); }
INLINE __m256 floored(__m256 v) { return _mm256_floor_ps(v); }
INLINE __m128i bytes_of(const float *from)
{
    __m128i low = low_halves(_mm256_cvttps_epi32(_mm256_loadu_ps(from)));
    __m128i high = low_halves(_mm256_cvttps_epi32(_mm256_loadu_ps(from + 8)));
    return _mm_packus_epi16(low, high);
}

#include "augment/kernels/augment_kernels_x86_template.h"

/* Outputs by quads
 * ------------------------------------------------------------------------------------ */

/* Stores the upper eight bytes of v. `to` may have any address. */
INLINE void store_high(uint8_t *to, __m128i v)
{
    _mm_storel_epi64((__m128i *)(void *)to, _mm_unpackhi_epi64(v, v));
}

/* Stores eight sums of each row as bytes, shifted and clamped to 0..255. */
INLINE void store_quads(uint8_t *const *rows, size_t at, const __m256i sums[4], uint32_t precision)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i v = clamped(shifted_by(sums[0], precision), shifted_by(sums[1], precision),
                        shifted_by(sums[2], precision), shifted_by(sums[3], precision));
    v = _mm256_permutevar8x32_epi32(v, order);
    const __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
    _mm_storel_epi64((__m128i *)(void *)(rows[0] + at), low);
    store_high(rows[1] + at, low);
    _mm_storel_epi64((__m128i *)(void *)(rows[2] + at), high);
    store_high(rows[3] + at, high);
}

/* The loop that computes quads. It is compiled separately for each usual number of steps. */
INLINE void quads(uint8_t *const *dst, const uint8_t *const *src, const struct psti_quads *quads,
                  uint32_t steps)
{
    const uint8_t *const from[LANES] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[LANES] = {dst[0], dst[1], dst[2], dst[3]};
    const struct psti_quads own = *quads;
    const __m256i round = _mm256_set1_epi32(1 << (own.precision - 1));
    const __m256i step = _mm256_set1_epi16((short)own.step_nbytes);
    const uint32_t *weights = own.weights;
    for (uint32_t v = 0; v < own.n; v++) {
        const struct psti_quads_vector *q = &own.vectors[v];
        const size_t at[2] = {q->at[0], q->at[1]};
        __m256i bytes[LANES], sums[LANES], index = load(q->index);
#pragma GCC unroll 4
        for (int r = 0; r < LANES; r++) {
            bytes[r] = two(load_bytes(from[r] + at[0]), load_bytes(from[r] + at[1]));
            sums[r] = round;
        }
#pragma GCC unroll 3
        for (uint32_t k = 0; k < steps; k++, weights += PSTI_QUAD_LANES) {
            const __m256i w = load(weights);
#pragma GCC unroll 4
            for (int r = 0; r < LANES; r++) {
                sums[r] = multiply_add(sums[r], _mm256_shuffle_epi8(bytes[r], index), w);
            }
            index = _mm256_add_epi16(index, step);
        }
        store_quads(to, (size_t)v * PSTI_QUAD_LANES, sums, own.precision);
    }
}

TARGET static void quad_x(uint8_t *const *dst, const uint8_t *const *src,
                          const struct psti_quads *q)
{
    if (q->steps == 1)
        quads(dst, src, q, 1);
    else if (q->steps == 2)
        quads(dst, src, q, 2);
    else
        quads(dst, src, q, q->steps);
}

#include "augment/kernels/augment_kernels_template.h"
#endif
