/* pli_jpeg_idct_avx512.c - turns coefficients into samples with AVX-512 (VBMI2, VNNI), 32 blocks at
 * once: pli_jpeg_idct_x86_template.h.
 *
 * pli_jpeg_int.h says what goes in and out. Plain C gives the same bytes. The functions are pure;
 * any thread may call them. If only a part of the unit is wanted, the list has only its blocks
 * (pli_coefs_avx512_values.c). VNNI adds products in the instruction that makes them. A full
 * transform of 8 x 32 values takes 76 operations of the two vector ports, which bound its time.
 * Tests compile this file against SIMDe (base/machine/avx512.h). */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include "base/machine/avx512.h"

#include <assert.h>

#define TARGET PSTI_ICL_TARGET
#define INLINE PSTI_ICL_INLINE
#define VECTOR __m512i
#define MASK __mmask32
#define OP(name) _mm512_##name

enum { LANES = 32 };

INLINE __m512i load(const void *from) { return _mm512_loadu_si512(from); }
INLINE void store(void *to, __m512i v) { _mm512_storeu_si512(to, v); }
INLINE __mmask32 above(__m512i a, __m512i b) { return _mm512_cmpgt_epi16_mask(a, b); }
INLINE __m512i choose(__mmask32 mask, __m512i no, __m512i yes)
{
    return _mm512_mask_mov_epi16(no, mask, yes);
}
INLINE uint32_t bits_of(__mmask32 mask) { return mask; }

INLINE __m512i pair(int a, int b)
{
    return _mm512_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)b << 16));
}
INLINE __m512i add_products(__m512i sums, __m512i pairs, __m512i factors)
{
    return psti_avx512_add_products(sums, pairs, factors);
}
INLINE __m512i plus_minus(__m512i sums, __m512i pairs, int a, int b, __m512i *minus)
{
    *minus = add_products(sums, pairs, pair(-a, -b));
    return add_products(sums, pairs, pair(a, b));
}

#include "pli/decode/jpeg/x86/pli_jpeg_idct_x86_template.h"

TARGET void psti_pli_jpeg_idct_avx512(const struct psti_pli_jpeg_blocks *blocks, void *work)
{
    const struct unit unit = open_unit(blocks);
    assert(blocks->all);
    all_blocks(&unit, work);
}
#endif
