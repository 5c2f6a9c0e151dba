/* pli_emit_avx512.c - the row kernels of emission with AVX-512 VBMI.
 *
 * In and out: see pli_emit.h; plain C gives the same bytes. Pure; any thread. 64 pixels a step; the
 * pixels of a last, shorter step are loaded under a mask and go through a buffer (stores under
 * masks are slow on Zen 4). 64 pixels of three channels are bound by their loads and stores: three
 * permutations, six blends. */
#include "decode/pli_emit.h"

#include "base/avx512.h"

#if defined(__x86_64__)
#include <string.h>

#define INLINE PSTI_VBMI_INLINE
#define TARGET PSTI_VBMI_TARGET

enum { STEP = 64 };

INLINE __m512i load(const uint8_t *p, __mmask64 some) { return _mm512_maskz_loadu_epi8(some, p); }
INLINE void store(uint8_t *p, __m512i v) { _mm512_storeu_si512((void *)p, v); }

/* Where byte p of an output vector is found in channel 0, 1, 2, turned as all three need it: byte i
 * belongs to place 3 i + c of 192, and 3 i mod 64 is another one for each i. */
static const _Alignas(64) uint8_t thirds[3][64] = {
    {0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49, 28, 7,
     50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35, 14, 57,
     36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63, 42, 21},
    {21, 0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49, 28,
     7,  50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35, 14,
     57, 36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63, 42},
    {42, 21, 0,  43, 22, 1,  44, 23, 2,  45, 24, 3,  46, 25, 4,  47, 26, 5,  48, 27, 6,  49,
     28, 7,  50, 29, 8,  51, 30, 9,  52, 31, 10, 53, 32, 11, 54, 33, 12, 55, 34, 13, 56, 35,
     14, 57, 36, 15, 58, 37, 16, 59, 38, 17, 60, 39, 18, 61, 40, 19, 62, 41, 20, 63}};

/* Every third byte, from byte 1 or 2 on. */
#define FROM_1 0x2492492492492492ull
#define FROM_2 0x4924924924924924ull

INLINE void store_rgb(uint8_t *out, __m512i r, __m512i g, __m512i b)
{
    r = _mm512_permutexvar_epi8(_mm512_loadu_si512(thirds[0]), r);
    g = _mm512_permutexvar_epi8(_mm512_loadu_si512(thirds[1]), g);
    b = _mm512_permutexvar_epi8(_mm512_loadu_si512(thirds[2]), b);
    /* 64 is 1 modulo 3: each vector begins with another channel. */
    store(out, _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(r, FROM_1, g), FROM_2, b));
    store(out + 64, _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(g, FROM_1, b), FROM_2, r));
    store(out + 128, _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(b, FROM_1, r), FROM_2, g));
}

/* Unpacking works within quarters: each gets four pixels of every output vector. */
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

/* Pixels x .. x + 63 of a row of `n_channels`, of which 3 may be colours after green. */
INLINE void step(const uint8_t *const planes[4], uint32_t x, __mmask64 some, uint32_t n_channels,
                 bool green, uint8_t *out)
{
    __m512i v0 = load(planes[0] + x, some), v1 = load(planes[1] + x, some);
    __m512i v2 = load(planes[2] + x, some);
    if (green) {
        __m512i g = v0, offset = _mm512_xor_si512(g, _mm512_set1_epi8((char)0x80)); /* g - 128 */
        v0 = _mm512_add_epi8(v1, offset);
        v1 = g;
        v2 = _mm512_add_epi8(v2, offset);
    }
    if (n_channels == 3)
        store_rgb(out, v0, v1, v2);
    else
        store_rgba(out, v0, v1, v2, load(planes[3] + x, some));
}

static inline uint64_t first_lanes(uint32_t n) { return (1ull << n) - 1; }

INLINE void row(const uint8_t *const planes[4], uint32_t n, uint32_t n_channels, bool green,
                uint8_t *out)
{
    uint32_t x = 0;
    for (; x + STEP <= n; x += STEP)
        step(planes, x, UINT64_MAX, n_channels, green, out + (size_t)x * n_channels);
    if (x < n) {
        uint8_t last[STEP * 4];
        step(planes, x, first_lanes(n - x), n_channels, green, last);
        memcpy(out + (size_t)x * n_channels, last, (size_t)(n - x) * n_channels);
    }
}

TARGET static void green_rgb8(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                              uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, NULL}, n, 3, true, out);
}

TARGET static void green_rgba8(const uint8_t *g, const uint8_t *r, const uint8_t *b,
                               const uint8_t *a, uint8_t *out, uint32_t n)
{
    row((const uint8_t *const[4]){g, r, b, a}, n, 4, true, out);
}

TARGET static void plain_rgb8(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                              uint32_t n)
{
    row((const uint8_t *const[4]){c0, c1, c2, NULL}, n, 3, false, out);
}

TARGET static void green_one8(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n)
{
    const __m512i half = _mm512_set1_epi8((char)0x80);
    for (uint32_t x = 0; x < n; x += STEP) {
        __mmask64 some = n - x < STEP ? first_lanes(n - x) : UINT64_MAX;
        __m512i v = _mm512_add_epi8(load(p + x, some), _mm512_xor_si512(load(g + x, some), half));
        uint8_t last[STEP];
        if (n - x >= STEP) {
            store(out + x, v);
            continue;
        }
        store(last, v);
        memcpy(out + x, last, n - x);
    }
}

const struct psti_pli_emit_kernels psti_pli_emit_kernels_avx512 = {
    .green_rgb8 = green_rgb8,
    .green_rgba8 = green_rgba8,
    .green_one8 = green_one8,
    .plain_rgb8 = plain_rgb8,
    .rgb16 = psti_pli_emit_rgb16_avx2,
};
#endif
