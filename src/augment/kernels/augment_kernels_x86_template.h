/* augment_kernels_x86_template.h - the vector operations that augment_kernels_template.h needs, for
 * both AVX2 and AVX-512, and the sweep kernels.
 *
 * Four rows are filtered side by side, each in a 128-bit part of a vector, so weights are loaded
 * once for all four. A shuffle makes pairs of 16-bit samples (taps k and k + 1 of one channel). A
 * multiply-add multiplies them by their weights and adds them. The file of a CPU level includes
 * this file once, after it has defined TARGET, INLINE, FLOATS and N_FLOATS as in
 * augment_kernels_template.h, and these names:
 *
 *     VECTOR, OP(name)        a vector, and the intrinsic `name` of that width
 *     multiply_add(sums, a, b)   sums plus the products of 16-bit numbers, two for each sum
 *     load(from), store(to, v)              at any address
 *     in_all_parts(v)         the same 128 bits in all parts of a vector
 *     load_parts_16(rows, at), load_parts_8(rows, at)   16 or 8 bytes of as many rows as a vector
 *                             has parts
 *     store_parts(rows, at, v)              the parts of v
 *     widened(from)           N_FLOATS bytes as numbers of 32 bits
 *     widened_bytes(v)        the first N_FLOATS bytes of v as numbers of 32 bits
 *     bits_of(floats)         the same bits as integers
 *     low_halves(v)           of numbers of 32 bits
 *     store_halves(to, v, streams)          what low_halves() returned
 *     MASK, equal(a, b), chosen(mask, a, b), floored(a), bytes_of(from)   as in
 *                             augment_kernels_template.h */
enum { LANES = 4, N_PARTS = sizeof(VECTOR) / 16, N_VECTORS = LANES / N_PARTS };

#define Z ((char)-1) /* a shuffle index that gives 0 */

/* Horizontal pass
 * ------------------------------------------------------------------------------------- */

struct rows {
    VECTOR v[N_VECTORS];
};
struct sums {
    VECTOR v[N_VECTORS];
};

INLINE struct sums set_sums(int32_t value)
{
    struct sums sums;
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        sums.v[i] = OP(set1_epi32)(value);
    return sums;
}

INLINE struct rows load_16(const uint8_t *const *src, size_t at)
{
    struct rows bytes;
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        bytes.v[i] = load_parts_16(src + i * N_PARTS, at);
    return bytes;
}

INLINE struct rows load_8(const uint8_t *const *src, size_t at)
{
    struct rows bytes;
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        bytes.v[i] = load_parts_8(src + i * N_PARTS, at);
    return bytes;
}

/* Returns the samples of two pixels in pairs, as 16-bit numbers: pixels 0 and 1 for half 0, pixels
 * 2 and 3 for half 1. */
INLINE struct rows pairs_of(struct rows bytes, uint32_t half, uint32_t channels)
{
    const __m128i orders[2][2] = {
        {_mm_setr_epi8(0, Z, 3, Z, 1, Z, 4, Z, 2, Z, 5, Z, Z, Z, Z, Z),
         _mm_setr_epi8(6, Z, 9, Z, 7, Z, 10, Z, 8, Z, 11, Z, Z, Z, Z, Z)},
        {_mm_setr_epi8(0, Z, 4, Z, 1, Z, 5, Z, 2, Z, 6, Z, 3, Z, 7, Z),
         _mm_setr_epi8(8, Z, 12, Z, 9, Z, 13, Z, 10, Z, 14, Z, 11, Z, 15, Z)}};
    const VECTOR order = in_all_parts(orders[channels - 3][half]);
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        bytes.v[i] = OP(shuffle_epi8)(bytes.v[i], order);
    return bytes;
}

INLINE VECTOR weight_pair(const void *weights)
{
    return OP(set1_epi32)((int)psti_load_u32(weights));
}

INLINE struct sums add_pairs(struct sums sums, struct rows pairs, const void *weights)
{
    const VECTOR w = weight_pair(weights);
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        sums.v[i] = multiply_add(sums.v[i], pairs.v[i], w);
    return sums;
}

INLINE struct sums add_two_taps(struct sums sums, struct rows bytes, uint32_t half,
                                const int16_t *weights, uint32_t channels)
{
    return add_pairs(sums, pairs_of(bytes, half, channels), weights);
}

INLINE struct sums add_eight_taps(struct sums sums, const uint8_t *const *src, size_t at,
                                  const int16_t *weights)
{
    const VECTOR zero = OP(set1_epi32)(0);
    const VECTOR w = in_all_parts(_mm_loadu_si128((const __m128i *)(const void *)weights));
    struct rows bytes = load_8(src, at);
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++) {
        VECTOR samples = OP(unpacklo_epi8)(bytes.v[i], zero);
        sums.v[i] = multiply_add(sums.v[i], samples, w);
    }
    return sums;
}

INLINE VECTOR shifted_by(VECTOR v, uint32_t precision)
{
    return OP(sra_epi32)(v, _mm_cvtsi32_si128((int)precision));
}
INLINE struct sums shifted(struct sums sums, uint32_t precision)
{
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++)
        sums.v[i] = shifted_by(sums.v[i], precision);
    return sums;
}

/* Returns four vectors of sums as bytes, clamped to 0..255. */
INLINE VECTOR clamped(VECTOR a, VECTOR b, VECTOR c, VECTOR d)
{
    return OP(packus_epi16)(OP(packs_epi32)(a, b), OP(packs_epi32)(c, d));
}

INLINE void store_pixels(uint8_t *const *dst, size_t at, const struct sums sums[4],
                         uint32_t channels)
{
    const VECTOR compress =
        in_all_parts(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, Z, Z, Z, Z));
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++) {
        VECTOR v = clamped(sums[0].v[i], sums[1].v[i], sums[2].v[i], sums[3].v[i]);
        store_parts(dst + i * N_PARTS, at, channels == 3 ? OP(shuffle_epi8)(v, compress) : v);
    }
}

/* Returns a0 + a2, b0 + b2, a1 + a3, b1 + b3 for each 128-bit part. */
INLINE VECTOR add_across(VECTOR a, VECTOR b)
{
    return OP(add_epi32)(OP(unpacklo_epi32)(a, b), OP(unpackhi_epi32)(a, b));
}

INLINE void store_samples(uint8_t *const *dst, size_t at, const struct sums sums[4],
                          uint32_t precision)
{
    const VECTOR round = OP(set1_epi32)(1 << (precision - 1));
#pragma GCC unroll 2
    for (int i = 0; i < N_VECTORS; i++) {
        VECTOR a = add_across(sums[0].v[i], sums[1].v[i]);
        VECTOR b = add_across(sums[2].v[i], sums[3].v[i]);
        VECTOR v = OP(add_epi32)(OP(unpacklo_epi64)(a, b), OP(unpackhi_epi64)(a, b));
        v = shifted_by(OP(add_epi32)(v, round), precision);
        store_parts(dst + i * N_PARTS, at, clamped(v, v, v, v));
    }
}

/* The template of sweep kernels. It keeps the sums of three windows: of this output, the next one,
 * and the next but one. */
INLINE void sweep_pixels(uint8_t *const *dst, const uint8_t *const *src,
                         const struct psti_axis *axis, const struct psti_sweep *sweep,
                         uint32_t channels)
{
    const struct sums none = set_sums(1 << (axis->precision - 1));
    const uint8_t *const from[LANES] = {src[0], src[1], src[2], src[3]};
    uint8_t *const to[LANES] = {dst[0], dst[1], dst[2], dst[3]};
    const ptrdiff_t step = (sweep->falls ? -2 : 2) * (ptrdiff_t)channels;
    const uint32_t *words = sweep->words, end = sweep->end, precision = axis->precision;
    struct sums now = none, next = none;
    size_t at = (size_t)sweep->first * channels;
    for (uint32_t i = axis->safe_begin; i < end; i += 4) {
        struct sums sums[4];
#pragma GCC unroll 4
        for (uint32_t j = 0; j < 4; j++) {
            struct sums later = none;
            if (i + j < end) {
                struct rows pairs;
                uint32_t n = *words++;
                do {
                    pairs = pairs_of(load_16(from, at), 0, channels);
                    now = add_pairs(now, pairs, words);
                    next = add_pairs(next, pairs, words + 1);
                    words += 2;
                    at += (size_t)step;
                } while (--n > 0);
                later = add_pairs(later, pairs, words++);
            }
            sums[j] = shifted(now, precision);
            now = next;
            next = later;
        }
        store_pixels(to, (size_t)i * channels, sums, channels);
    }
}

TARGET static void sweep_x_3(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep)
{
    sweep_pixels(dst, src, axis, sweep, 3);
}

TARGET static void sweep_x_4(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep)
{
    sweep_pixels(dst, src, axis, sweep, 4);
}

#define SWEEPS sweep_x_3, sweep_x_4

/* Vertical pass
 * --------------------------------------------------------------------------------------- */

enum { COLUMNS = sizeof(VECTOR) };
struct columns {
    VECTOR v[4];
};

INLINE struct columns set_columns(int32_t value)
{
    const VECTOR v = OP(set1_epi32)(value);
    return (struct columns){{v, v, v, v}};
}

INLINE void add_two_rows(struct columns *sums, const uint8_t *a, const uint8_t *b,
                         const int16_t *weights)
{
    const VECTOR zero = OP(set1_epi32)(0), w = weight_pair(weights);
    const VECTOR va = load(a), vb = load(b);
    const VECTOR low = OP(unpacklo_epi8)(va, vb), high = OP(unpackhi_epi8)(va, vb);
    const VECTOR pairs[4] = {OP(unpacklo_epi8)(low, zero), OP(unpackhi_epi8)(low, zero),
                             OP(unpacklo_epi8)(high, zero), OP(unpackhi_epi8)(high, zero)};
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sums->v[i] = multiply_add(sums->v[i], pairs[i], w);
}

INLINE void store_columns(uint8_t *to, const struct columns *sums, uint32_t precision)
{
    store(to, clamped(shifted_by(sums->v[0], precision), shifted_by(sums->v[1], precision),
                      shifted_by(sums->v[2], precision), shifted_by(sums->v[3], precision)));
}

/* Order of samples
 * ------------------------------------------------------------------------------------ */

#define BYTES __m128i

INLINE __m128i load_bytes(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
INLINE void store_bytes(void *p, __m128i v) { _mm_storeu_si128((__m128i *)p, v); }
INLINE __m128i shuffled(__m128i v, __m128i order) { return _mm_shuffle_epi8(v, order); }

#if !defined(OWN_LOAD_PLANES)
/* Splits 16 pixels of three channels into planes. Each plane takes its bytes from all three
 * loads. */
INLINE void load_planes(const uint8_t *src, __m128i v[3])
{
    const __m128i a = load_bytes(src), b = load_bytes(src + 16), c = load_bytes(src + 32);
    const __m128i order[3][3] = {
        {_mm_setr_epi8(0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 1, 4, 7, 10, 13)},
        {_mm_setr_epi8(1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 2, 5, 8, 11, 14)},
        {_mm_setr_epi8(2, 5, 8, 11, 14, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, 1, 4, 7, 10, 13, Z, Z, Z, Z, Z, Z),
         _mm_setr_epi8(Z, Z, Z, Z, Z, Z, Z, Z, Z, Z, 0, 3, 6, 9, 12, 15)},
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++)
        v[i] = _mm_or_si128(
            _mm_or_si128(_mm_shuffle_epi8(a, order[i][0]), _mm_shuffle_epi8(b, order[i][1])),
            _mm_shuffle_epi8(c, order[i][2]));
}
#endif

/* Conversion
 * ------------------------------------------------------------------------------------------ */

INLINE FLOATS load_floats(const float *p) { return OP(loadu_ps)(p); }
INLINE FLOATS scaled(const uint8_t *src, FLOATS scale, FLOATS offset)
{
    return OP(add_ps)(OP(mul_ps)(OP(cvtepi32_ps)(widened(src)), scale), offset);
}
INLINE FLOATS scaled_part(__m128i v, size_t at, FLOATS scale, FLOATS offset)
{
    VECTOR numbers = widened_bytes(at == 0 ? v : _mm_bsrli_si128(v, 8));
    return OP(add_ps)(OP(mul_ps)(OP(cvtepi32_ps)(numbers), scale), offset);
}
INLINE void store_f32(void *to, FLOATS v, bool streams)
{
    if (streams)
        OP(stream_ps)(to, v);
    else
        OP(storeu_ps)(to, v);
}
INLINE void settle(void) { _mm_sfence(); }

/* Stores floats as bf16, rounded to nearest even: takes the upper half of bits + 0x7fff + (lowest
 * bit that is kept). */
INLINE void store_bf16(unsigned char *to, FLOATS floats, bool streams)
{
    VECTOR v = bits_of(floats), odd = OP(srli_epi32)(OP(slli_epi32)(v, 15), 31);
    v = OP(add_epi32)(v, OP(add_epi32)(OP(set1_epi32)(0x7fff), odd));
    store_halves(to, low_halves(OP(srli_epi32)(v, 16)), streams);
}

/* Colours
 * --------------------------------------------------------------------------------------------- */

INLINE FLOATS all(float value) { return OP(set1_ps)(value); }
INLINE FLOATS plus(FLOATS a, FLOATS b) { return OP(add_ps)(a, b); }
INLINE FLOATS minus(FLOATS a, FLOATS b) { return OP(sub_ps)(a, b); }
INLINE FLOATS times(FLOATS a, FLOATS b) { return OP(mul_ps)(a, b); }
INLINE FLOATS over(FLOATS a, FLOATS b) { return OP(div_ps)(a, b); }
INLINE FLOATS least(FLOATS a, FLOATS b) { return OP(min_ps)(a, b); }
INLINE FLOATS greatest(FLOATS a, FLOATS b) { return OP(max_ps)(a, b); }

INLINE void store_planes(uint8_t *to, const __m128i v[3])
{
    const __m128i order[3][3] = {
        {_mm_setr_epi8(0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z, 5),
         _mm_setr_epi8(Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z, Z),
         _mm_setr_epi8(Z, Z, 0, Z, Z, 1, Z, Z, 2, Z, Z, 3, Z, Z, 4, Z)},
        {_mm_setr_epi8(Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10, Z),
         _mm_setr_epi8(5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z, 10),
         _mm_setr_epi8(Z, 5, Z, Z, 6, Z, Z, 7, Z, Z, 8, Z, Z, 9, Z, Z)},
        {_mm_setr_epi8(Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z, Z),
         _mm_setr_epi8(Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15, Z),
         _mm_setr_epi8(10, Z, Z, 11, Z, Z, 12, Z, Z, 13, Z, Z, 14, Z, Z, 15)},
    };
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        __m128i bytes = _mm_or_si128(
            _mm_or_si128(_mm_shuffle_epi8(v[0], order[i][0]), _mm_shuffle_epi8(v[1], order[i][1])),
            _mm_shuffle_epi8(v[2], order[i][2]));
        store_bytes(to + 16 * i, bytes);
    }
}
