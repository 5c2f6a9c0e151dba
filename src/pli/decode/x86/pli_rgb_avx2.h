/* pli_rgb_avx2.h - interleaves three vectors of samples to pixels. The AVX2 kernels that end in
 * pixels share it. */
#ifndef PST_PLI_RGB_AVX2_H
#define PST_PLI_RGB_AVX2_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

/* Stores 32 pixels of three channels. One shuffle of each channel puts its bytes to their final
 * places in each of three vectors. Each output vector then takes every third byte of each
 * channel. */
__attribute__((always_inline, target("avx2"))) static inline void psti_pli_store_rgb(uint8_t *out,
                                                                                     __m256i r,
                                                                                     __m256i g,
                                                                                     __m256i b)
{
    const __m256i shuffle_r = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5));
    const __m256i shuffle_g = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10));
    const __m256i shuffle_b = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15));
    const __m256i second = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i third = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    r = _mm256_shuffle_epi8(r, shuffle_r);
    g = _mm256_shuffle_epi8(g, shuffle_g);
    b = _mm256_shuffle_epi8(b, shuffle_b);
    __m256i v0 = _mm256_blendv_epi8(_mm256_blendv_epi8(r, g, second), b, third);
    __m256i v1 = _mm256_blendv_epi8(_mm256_blendv_epi8(g, b, second), r, third);
    __m256i v2 = _mm256_blendv_epi8(_mm256_blendv_epi8(b, r, second), g, third);
    _mm256_storeu_si256((void *)out, _mm256_permute2x128_si256(v0, v1, 0x20));
    _mm256_storeu_si256((void *)(out + 32), _mm256_permute2x128_si256(v2, v0, 0x30));
    _mm256_storeu_si256((void *)(out + 64), _mm256_permute2x128_si256(v1, v2, 0x31));
}
#endif

#endif
