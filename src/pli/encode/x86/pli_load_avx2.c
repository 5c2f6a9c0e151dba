/* pli_load_avx2.c - splits RGB of 8 bits into planes, and measures which transform suits, with
 * AVX2. The numbers are those of pli_load.c. Pure; any thread. */
#include "pli/encode/pli_load.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { NONE = -1 };

/* Loads bytes 16 k .. 16 k + 15 of pixels 0..15 into the low half, and the same bytes of pixels
 * 16..31 into the high half. */
INLINE __m256i load_two(const uint8_t *in, uint32_t k)
{
    const __m128i *low = (const __m128i *)(in + 16 * (size_t)k);
    const __m128i *high = (const __m128i *)(in + 48 + 16 * (size_t)k);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                   _mm_loadu_si128(high), 1);
}

#define BOTH(...) _mm256_broadcastsi128_si256(_mm_setr_epi8(__VA_ARGS__))

INLINE __m256i gather(const __m256i *in, __m256i of_0, __m256i of_1, __m256i of_2)
{
    return _mm256_or_si256(
        _mm256_or_si256(_mm256_shuffle_epi8(in[0], of_0), _mm256_shuffle_epi8(in[1], of_1)),
        _mm256_shuffle_epi8(in[2], of_2));
}

TARGET void psti_pli_split_green_u8_avx2(const uint8_t *in, uint32_t n, uint8_t *green,
                                         uint8_t *red, uint8_t *blue)
{
    (void)n;
    const __m256i none = _mm256_set1_epi8(NONE), half = _mm256_set1_epi8((char)128);
    const __m256i red_0 = BOTH(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i red_1 = BOTH(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1);
    const __m256i red_2 = BOTH(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13);
    const __m256i one = _mm256_set1_epi8(1);
    /* Green is one byte after red, and blue two bytes. A byte that this moves out of a register
     * goes to the next register. */
    const __m256i green_0 = BOTH(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i green_1 = BOTH(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1);
    const __m256i green_2 =
        _mm256_blendv_epi8(_mm256_add_epi8(red_2, one), none, _mm256_cmpeq_epi8(red_2, none));
    const __m256i blue_0 = BOTH(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i blue_1 = BOTH(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1);
    const __m256i blue_2 = BOTH(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15);
    for (uint32_t x = 0; x < 64; x += 32, in += 96) {
        const __m256i bytes[3] = {load_two(in, 0), load_two(in, 1), load_two(in, 2)};
        __m256i g = gather(bytes, green_0, green_1, green_2);
        __m256i shifted = _mm256_sub_epi8(half, g);
        __m256i r = _mm256_add_epi8(gather(bytes, red_0, red_1, red_2), shifted);
        __m256i b = _mm256_add_epi8(gather(bytes, blue_0, blue_1, blue_2), shifted);
        _mm256_storeu_si256((__m256i *)(green + x), g);
        _mm256_storeu_si256((__m256i *)(red + x), r);
        _mm256_storeu_si256((__m256i *)(blue + x), b);
    }
}

INLINE __m256i load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Returns 0xff in the bytes x for which (x + first) % 3 is not `but`. */
INLINE __m256i mask_but(uint32_t first, uint32_t but)
{
    _Alignas(32) uint8_t bytes[32];
    for (uint32_t x = 0; x < 32; x++)
        bytes[x] = (x + first) % 3 == but ? 0 : UINT8_MAX;
    return load(bytes);
}

static uint32_t change_of(uint32_t v)
{
    v &= UINT8_MAX;
    return v < 128 ? v : 256 - v;
}

/* Works on interleaved bytes. The change d of a byte is its difference to the same channel of the
 * pixel before. d of red less d of green, and d of green less d of blue, are differences of
 * neighbouring bytes. */
TARGET void psti_pli_add_changes_u8_avx2(const uint8_t *row, size_t n_pixels, uint64_t *plain,
                                         uint64_t *green)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i not_green[3], not_blue[3], sums[2] = {zero, zero};
    for (uint32_t k = 0; k < 3; k++) {
        not_green[k] = mask_but(32 * k, 1);
        not_blue[k] = mask_but(32 * k, 2);
    }
    size_t at = 3, end = 3 * n_pixels;
    for (; at + 97 <= end; at += 96)
        for (uint32_t k = 0; k < 3; k++) {
            const uint8_t *p = row + at + (size_t)32 * k;
            __m256i d = _mm256_sub_epi8(load(p), load(p - 3));
            __m256i next = _mm256_sub_epi8(load(p + 1), load(p - 2));
            __m256i own = _mm256_and_si256(_mm256_abs_epi8(d), not_green[k]);
            __m256i apart =
                _mm256_and_si256(_mm256_abs_epi8(_mm256_sub_epi8(d, next)), not_blue[k]);
            sums[0] = _mm256_add_epi64(sums[0], _mm256_sad_epu8(own, zero));
            sums[1] = _mm256_add_epi64(sums[1], _mm256_sad_epu8(apart, zero));
        }
    uint64_t parts[2][4];
    _mm256_storeu_si256((__m256i *)parts[0], sums[0]);
    _mm256_storeu_si256((__m256i *)parts[1], sums[1]);
    *plain += parts[0][0] + parts[0][1] + parts[0][2] + parts[0][3];
    *green += parts[1][0] + parts[1][1] + parts[1][2] + parts[1][3];
    for (; at < end; at += 3) {
        const uint8_t *p = row + at;
        uint32_t r = (uint32_t)p[0] - p[-3], g = (uint32_t)p[1] - p[-2], b = (uint32_t)p[2] - p[-1];
        *plain += change_of(r) + change_of(b);
        *green += change_of(r - g) + change_of(b - g);
    }
}
#endif
