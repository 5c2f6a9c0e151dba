/* pli_emit_avx512.c - the row kernels of emission with AVX-512 VBMI.
 *
 * In and out: see pli_emit.h; plain C gives the same bytes. Pure; any thread. 64 pixels a step; the
 * pixels of a last, shorter step are loaded under a mask and go through a buffer (stores under
 * masks are slow on Zen 4). 64 pixels of three channels are bound by their loads and stores: three
 * permutations, six blends. */
#include "pli/decode/pli_emit.h"
#include "pli/decode/pli_decode_int.h"
#include "pli/decode/x86/pli_rgb_avx512.h"

#if defined(__x86_64__)
#include <string.h>

#define INLINE PSTI_VBMI_INLINE
#define TARGET PSTI_VBMI_TARGET

enum { STEP = 64 };

INLINE __m512i load(const uint8_t *p, __mmask64 some) { return _mm512_maskz_loadu_epi8(some, p); }
INLINE void store(uint8_t *p, __m512i v) { _mm512_storeu_si512((void *)p, v); }

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
        psti_pli_store_rgb_avx512(out, v0, v1, v2);
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

TARGET static void green_rgb8_rows(const uint8_t *g, const uint8_t *r, const uint8_t *b,
                                   size_t row_step, uint32_t height, uint8_t *out,
                                   int64_t row_nbytes)
{
    enum { AHEAD = 4 }; /* rows, whose lines are asked for: stores wait for one after the other */
    struct psti_pli_ahead ahead = {(uintptr_t)out + (uintptr_t)(AHEAD * row_nbytes),
                                   (uintptr_t)row_nbytes};
    for (uint32_t y = 0; y < height; y++, out += row_nbytes) {
        size_t at = y * row_step;
        psti_pli_ask(&ahead, 3 * STEP);
        step((const uint8_t *const[4]){g + at, r + at, b + at, NULL}, 0, UINT64_MAX, 3, true, out);
    }
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
    .green_rgb8_rows = green_rgb8_rows,
    .green_rgba8 = green_rgba8,
    .green_one8 = green_one8,
    .plain_rgb8 = plain_rgb8,
    .rgb16 = psti_pli_emit_rgb16_avx2,
};
#endif
