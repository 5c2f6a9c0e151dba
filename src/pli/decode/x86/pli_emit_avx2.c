/* pli_emit_avx2.c - the row kernels of emission with AVX2.
 *
 * pli_emit.h says what goes in and out. Plain C gives the same bytes. The functions are pure; any
 * thread may call them. A step makes 32 pixels of 8 bits (pli_emit_template.h), or 16 of 16 bits.
 */
#include "pli/decode/pli_emit.h"

#include "pli/decode/x86/pli_rgb_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#define VECTOR __m256i

enum { STEP = 32 };

/* Loads all 32 bytes, even if n is less. */
INLINE __m256i load(const uint8_t *p, uint32_t n)
{
    (void)n;
    return _mm256_loadu_si256((const void *)p);
}
INLINE void store(uint8_t *p, __m256i v) { _mm256_storeu_si256((void *)p, v); }
INLINE __m256i add(__m256i a, __m256i b) { return _mm256_add_epi8(a, b); }
INLINE __m256i less_128(__m256i v) { return _mm256_xor_si256(v, _mm256_set1_epi8(INT8_MIN)); }

INLINE void store_rgb(uint8_t *out, __m256i r, __m256i g, __m256i b)
{
    psti_pli_store_rgb(out, r, g, b);
}
INLINE void store_rgba(uint8_t *out, __m256i r, __m256i g, __m256i b, __m256i a)
{
    __m256i rg0 = _mm256_unpacklo_epi8(r, g), rg1 = _mm256_unpackhi_epi8(r, g);
    __m256i ba0 = _mm256_unpacklo_epi8(b, a), ba1 = _mm256_unpackhi_epi8(b, a);
    __m256i v0 = _mm256_unpacklo_epi16(rg0, ba0), v1 = _mm256_unpackhi_epi16(rg0, ba0);
    __m256i v2 = _mm256_unpacklo_epi16(rg1, ba1), v3 = _mm256_unpackhi_epi16(rg1, ba1);
    store(out, _mm256_permute2x128_si256(v0, v1, 0x20));
    store(out + 32, _mm256_permute2x128_si256(v2, v3, 0x20));
    store(out + 64, _mm256_permute2x128_si256(v0, v1, 0x31));
    store(out + 96, _mm256_permute2x128_si256(v2, v3, 0x31));
}

#include "pli/decode/pli_emit_template.h"

/* Stores 16 pixels of 16 bits as three vectors. Each half has 8 pixels. Within a half, sample i of
 * channel c goes to place 3 i + c. */
INLINE void store_rgb_u16(uint8_t *out, __m256i r, __m256i g, __m256i b)
{
#define BOTH(...) _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__))
    const __m256i r0 = BOTH(0, 1, -1, -1, -1, -1, 2, 3, -1, -1, -1, -1, 4, 5, -1, -1);
    const __m256i g0 = BOTH(-1, -1, 0, 1, -1, -1, -1, -1, 2, 3, -1, -1, -1, -1, 4, 5);
    const __m256i b0 = BOTH(-1, -1, -1, -1, 0, 1, -1, -1, -1, -1, 2, 3, -1, -1, -1, -1);
    const __m256i r1 = BOTH(-1, -1, 6, 7, -1, -1, -1, -1, 8, 9, -1, -1, -1, -1, 10, 11);
    const __m256i g1 = BOTH(-1, -1, -1, -1, 6, 7, -1, -1, -1, -1, 8, 9, -1, -1, -1, -1);
    const __m256i b1 = BOTH(4, 5, -1, -1, -1, -1, 6, 7, -1, -1, -1, -1, 8, 9, -1, -1);
    const __m256i r2 = BOTH(-1, -1, -1, -1, 12, 13, -1, -1, -1, -1, 14, 15, -1, -1, -1, -1);
    const __m256i g2 = BOTH(10, 11, -1, -1, -1, -1, 12, 13, -1, -1, -1, -1, 14, 15, -1, -1);
    const __m256i b2 = BOTH(-1, -1, 10, 11, -1, -1, -1, -1, 12, 13, -1, -1, -1, -1, 14, 15);
#undef BOTH
    __m256i v0 = _mm256_or_si256(_mm256_shuffle_epi8(r, r0), _mm256_shuffle_epi8(g, g0));
    __m256i v1 = _mm256_or_si256(_mm256_shuffle_epi8(r, r1), _mm256_shuffle_epi8(g, g1));
    __m256i v2 = _mm256_or_si256(_mm256_shuffle_epi8(r, r2), _mm256_shuffle_epi8(g, g2));
    v0 = _mm256_or_si256(v0, _mm256_shuffle_epi8(b, b0));
    v1 = _mm256_or_si256(v1, _mm256_shuffle_epi8(b, b1));
    v2 = _mm256_or_si256(v2, _mm256_shuffle_epi8(b, b2));
    store(out, _mm256_permute2x128_si256(v0, v1, 0x20));
    store(out + 32, _mm256_permute2x128_si256(v2, v0, 0x30));
    store(out + 64, _mm256_permute2x128_si256(v1, v2, 0x31));
}

INLINE void step_rgb_u16(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green,
                         uint8_t *out)
{
    __m256i v0 = load(p0, STEP), v1 = load(p1, STEP), v2 = load(p2, STEP);
    if (green) {
        __m256i offset = _mm256_xor_si256(v0, _mm256_set1_epi16(INT16_MIN)); /* g - 32768 */
        store_rgb_u16(out, _mm256_add_epi16(v1, offset), v0, _mm256_add_epi16(v2, offset));
    } else {
        store_rgb_u16(out, v0, v1, v2);
    }
}

TARGET void psti_pli_emit_rgb_u16_avx2(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2,
                                       bool green, uint8_t *out, uint32_t n)
{
    enum { PIXELS = 16 };
    size_t x = 0;
    for (; x + PIXELS <= n; x += PIXELS)
        step_rgb_u16(p0 + 2 * x, p1 + 2 * x, p2 + 2 * x, green, out + 6 * x);
    if (x < n) {
        uint8_t last[PIXELS * 6];
        step_rgb_u16(p0 + 2 * x, p1 + 2 * x, p2 + 2 * x, green, last);
        memcpy(out + 6 * x, last, 6 * (n - x));
    }
}

const struct psti_pli_emit_kernels psti_pli_emit_kernels_avx2 = {
    .green_rgb_u8 = green_rgb_u8,
    .green_rgba_u8 = green_rgba_u8,
    .green_one_u8 = green_one_u8,
    .plain_rgb_u8 = plain_rgb_u8,
    .rgb_u16 = psti_pli_emit_rgb_u16_avx2,
};
#endif
