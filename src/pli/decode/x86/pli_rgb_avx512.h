/* pli_rgb_avx512.h - interleaves 64 pixels of three channels, with AVX-512. */
#ifndef PST_PLI_RGB_AVX512_H
#define PST_PLI_RGB_AVX512_H

#include "base/machine/avx512.h"

#if defined(__x86_64__)
#include <stddef.h>
#include <stdint.h>

/* psti_pli_thirds[c][p] says which byte of channel c goes to byte p of an output vector. One
 * permutation serves all three output vectors: byte i belongs to place 3 i + c of 192, and 3 i mod
 * 64 differs for each i. */
static const _Alignas(64) uint8_t psti_pli_thirds[3][64] = {
    {0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49, 28, 7,
     50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35, 14, 57,
     36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63, 42, 21},
    {21, 0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49, 28,
     7,  50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35, 14,
     57, 36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63, 42},
    {42, 21, 0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49,
     28, 7,  50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35,
     14, 57, 36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63}};

/* Makes the three vectors of 64 interleaved pixels. */
PSTI_ICL_INLINE void psti_pli_make_rgb_avx512(__m512i r, __m512i g, __m512i b, __m512i v[3])
{
    /* Masks of every third byte, beginning with byte 1 or with byte 2. */
    const uint64_t from_1 = 0x2492492492492492, from_2 = 0x4924924924924924;
    r = _mm512_permutexvar_epi8(_mm512_loadu_si512(psti_pli_thirds[0]), r);
    g = _mm512_permutexvar_epi8(_mm512_loadu_si512(psti_pli_thirds[1]), g);
    b = _mm512_permutexvar_epi8(_mm512_loadu_si512(psti_pli_thirds[2]), b);
    /* 64 is 1 modulo 3, so each of the three vectors begins with another channel. */
    v[0] = _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(r, from_1, g), from_2, b);
    v[1] = _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(g, from_1, b), from_2, r);
    v[2] = _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(b, from_1, r), from_2, g);
}

PSTI_ICL_INLINE void psti_pli_store_rgb_avx512(uint8_t *out, __m512i r, __m512i g, __m512i b)
{
    __m512i v[3];
    psti_pli_make_rgb_avx512(r, g, b, v);
    for (uint32_t i = 0; i < 3; i++)
        _mm512_storeu_si512(out + (size_t)64 * i, v[i]);
}

/* Stores the first n of 64 pixels, n at least 22. The last vector stored ends where the pixels end.
 * `bytes` holds 0, 1, .. 63. */
PSTI_ICL_INLINE void psti_pli_store_some_rgb_avx512(uint8_t *out, __m512i r, __m512i g, __m512i b,
                                                    uint32_t n, __m512i bytes)
{
    const uint32_t last = 3 * n - 64; /* at least 2 */
    __m512i v[3];
    psti_pli_make_rgb_avx512(r, g, b, v);
    __m512i from = _mm512_add_epi8(bytes, _mm512_set1_epi8((char)(last & 63)));
    _mm512_storeu_si512(out, v[0]);
    if (last >= 64)
        _mm512_storeu_si512(out + 64, v[1]);
    __m512i low = last >= 64 ? v[1] : v[0], high = last >= 64 ? v[2] : v[1];
    _mm512_storeu_si512(out + last, _mm512_permutex2var_epi8(low, from, high));
}
#endif

#endif
