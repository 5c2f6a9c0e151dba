/* pli_jpeg_rows_avx512.c - turns rows of samples into rows of pixels with AVX-512 (VBMI, VNNI), 64
 * samples a step: pli_jpeg_rows_x86_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. The two vector ports bound the time of colour: 64 pixels take 55
 * operations, 9 of them permutations (docs/internals/cpu-decode.md has the results of mca). Tests
 * compile this file against SIMDe (base/machine/avx512.h). */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include "pli/decode/x86/pli_rgb_avx512.h"

#define TARGET PSTI_ICL_TARGET
#define INLINE PSTI_ICL_INLINE
#define VECTOR __m512i
#define OP(name) _mm512_##name
#define TABLE psti_pli_jpeg_rows_avx512

enum { STEP = 64 };

INLINE __m512i load(const uint8_t *p) { return _mm512_loadu_si512((const void *)p); }
INLINE void store(uint8_t *p, __m512i v) { _mm512_storeu_si512((void *)p, v); }
INLINE void store_parts(uint8_t *to, __m512i lo, __m512i hi)
{
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    store(to, _mm512_permutex2var_epi64(lo, first, hi));
    store(to + STEP, _mm512_permutex2var_epi64(lo, second, hi));
}
INLINE void store_rgb(uint8_t *to, __m512i r, __m512i g, __m512i b)
{
    psti_pli_store_rgb_avx512(to, r, g, b);
}

INLINE __m512i odd_bits(__m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi8(1), 0x28);
}
INLINE __m512i odd_bytes(__m512i even, __m512i odd)
{
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16((short)0xFF00), odd, even, 0xCA);
}
INLINE __m512i add_products(__m512i sums, __m512i a, __m512i b)
{
    return psti_avx512_add_products(sums, a, b);
}

#include "pli/decode/jpeg/x86/pli_jpeg_rows_x86_template.h"
#endif
