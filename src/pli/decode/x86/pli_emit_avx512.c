/* pli_emit_avx512.c - the row kernels of emission with AVX-512.
 *
 * pli_emit.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. A step makes 64 pixels (pli_emit_template.h). A last, shorter step
 * loads its pixels under a mask, but does not store under a mask, which is slow on Zen 4. Loads
 * and stores limit the speed: 64 pixels of three channels take only three permutations and six
 * blends. */
#include "pli/decode/pli_emit.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/decode/x86/pli_rgb_avx512.h"

#if defined(__x86_64__)
#define INLINE PSTI_ICL_INLINE
#define TARGET PSTI_ICL_TARGET

#define VECTOR __m512i

enum { STEP = 64 };

INLINE __m512i load(const uint8_t *p, uint32_t n)
{
    return n >= STEP ? _mm512_loadu_si512((const void *)p)
                     : _mm512_maskz_loadu_epi8((1ull << n) - 1, p);
}
INLINE void store(uint8_t *p, __m512i v) { _mm512_storeu_si512((void *)p, v); }
INLINE __m512i add(__m512i a, __m512i b) { return _mm512_add_epi8(a, b); }
INLINE __m512i less_128(__m512i v) { return _mm512_xor_si512(v, _mm512_set1_epi8(INT8_MIN)); }

INLINE void store_rgb(uint8_t *out, __m512i r, __m512i g, __m512i b)
{
    psti_pli_store_rgb_avx512(out, r, g, b);
}

/* Stores 64 RGBA pixels. Unpacking works within quarters of a vector, so each quarter first gets
 * the four pixels that every output vector takes from it. */
INLINE void store_rgba(uint8_t *out, __m512i r, __m512i g, __m512i b, __m512i a)
{
    const __m512i fours = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    r = _mm512_permutexvar_epi32(fours, r);
    g = _mm512_permutexvar_epi32(fours, g);
    b = _mm512_permutexvar_epi32(fours, b);
    a = _mm512_permutexvar_epi32(fours, a);
    __m512i rg0 = _mm512_unpacklo_epi8(r, g), rg1 = _mm512_unpackhi_epi8(r, g);
    __m512i ba0 = _mm512_unpacklo_epi8(b, a), ba1 = _mm512_unpackhi_epi8(b, a);
    store(out, _mm512_unpacklo_epi16(rg0, ba0));
    store(out + 64, _mm512_unpackhi_epi16(rg0, ba0));
    store(out + 128, _mm512_unpacklo_epi16(rg1, ba1));
    store(out + 192, _mm512_unpackhi_epi16(rg1, ba1));
}

#include "pli/decode/pli_emit_template.h"

TARGET static void green_rgb_u8_rows(const uint8_t *g, const uint8_t *r, const uint8_t *b,
                                     size_t row_step, uint32_t height, uint8_t *out,
                                     int64_t row_nbytes)
{
    /* Number of rows between a row's stores and the prefetch of its cache lines. Without prefetches
     * the stores would wait for each cache line. */
    enum { AHEAD = 4 };
    struct psti_pli_ahead ahead = {(uintptr_t)out + (uintptr_t)(AHEAD * row_nbytes),
                                   (uintptr_t)row_nbytes};
    for (uint32_t y = 0; y < height; y++, out += row_nbytes) {
        size_t at = y * row_step;
        psti_pli_ask(&ahead, 3 * STEP);
        step((const uint8_t *const[4]){g + at, r + at, b + at, NULL}, 0, STEP, 3, true, out);
    }
}

const struct psti_pli_emit_kernels psti_pli_emit_kernels_avx512 = {
    .green_rgb_u8 = green_rgb_u8,
    .green_rgb_u8_rows = green_rgb_u8_rows,
    .green_rgba_u8 = green_rgba_u8,
    .green_one_u8 = green_one_u8,
    .plain_rgb_u8 = plain_rgb_u8,
    .rgb_u16 = psti_pli_emit_rgb_u16_avx2,
};
#endif
