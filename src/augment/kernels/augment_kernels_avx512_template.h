/* augment_kernels_avx512_template.h - the definitions that augment_kernels_x86_template.h needs,
 * for AVX-512.
 *
 * A CPU level includes this file once, after definitions of TARGET, INLINE and multiply_add(sums,
 * a, b), which adds to each 32-bit sum two products of 16-bit numbers. */
#define VECTOR __m512i
#define OP(name) _mm512_##name
#define FLOATS __m512

enum { N_FLOATS = 16 };

INLINE __m512i load(const void *p) { return _mm512_loadu_si512(p); }
INLINE void store(void *p, __m512i v) { _mm512_storeu_si512(p, v); }
INLINE __m512i in_all_parts(__m128i v) { return _mm512_broadcast_i32x4(v); }

INLINE __m512i four(__m128i a, __m128i b, __m128i c, __m128i d)
{
    __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(a), b, 1);
    __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(c), d, 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
INLINE __m512i load_parts_16(const uint8_t *const *rows, size_t at)
{
    return four(_mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at)),
                _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + at)),
                _mm_loadu_si128((const __m128i *)(const void *)(rows[2] + at)),
                _mm_loadu_si128((const __m128i *)(const void *)(rows[3] + at)));
}
INLINE __m512i load_parts_8(const uint8_t *const *rows, size_t at)
{
    return four(_mm_loadl_epi64((const __m128i *)(const void *)(rows[0] + at)),
                _mm_loadl_epi64((const __m128i *)(const void *)(rows[1] + at)),
                _mm_loadl_epi64((const __m128i *)(const void *)(rows[2] + at)),
                _mm_loadl_epi64((const __m128i *)(const void *)(rows[3] + at)));
}
INLINE void store_parts(uint8_t *const *rows, size_t at, __m512i v)
{
    _mm_storeu_si128((__m128i *)(void *)(rows[0] + at), _mm512_extracti32x4_epi32(v, 0));
    _mm_storeu_si128((__m128i *)(void *)(rows[1] + at), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128((__m128i *)(void *)(rows[2] + at), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128((__m128i *)(void *)(rows[3] + at), _mm512_extracti32x4_epi32(v, 3));
}

INLINE __m512i widened(const uint8_t *from)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
INLINE __m512i widened_bytes(__m128i v) { return _mm512_cvtepu8_epi32(v); }
INLINE __m512i bits_of(__m512 v) { return _mm512_castps_si512(v); }
INLINE __m256i low_halves(__m512i v) { return _mm512_cvtepi32_epi16(v); }
INLINE void store_halves(void *to, __m256i v, bool streams)
{
    if (streams)
        _mm256_stream_si256((__m256i *)to, v);
    else
        _mm256_storeu_si256((__m256i *)to, v);
}
INLINE void store_f16(void *to, __m512 v, bool streams)
{
    store_halves(to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT), streams);
}

#define MASK __mmask16
INLINE __mmask16 equal(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE __m512 chosen(__mmask16 mask, __m512 a, __m512 b)
{
    return _mm512_mask_blend_ps(mask, b, a);
}
INLINE __m512 floored(__m512 v) { return _mm512_roundscale_ps(v, 0x09 /* down */); }
INLINE __m128i bytes_of(const float *from)
{
    return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_loadu_ps(from)));
}
