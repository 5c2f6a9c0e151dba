/* images_colors_avx2.c - converts RGB to BGR with AVX2, five pixels at a time. Its result is that
 * of plain C. Pure; any thread. */
#include "images/images_colors.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { AT_ONCE = 5 };

__attribute__((target("avx2"))) void psti_images_swap_avx2(const uint8_t *from, uint8_t *to,
                                                           size_t n)
{
    /* The 16th byte is copied unchanged; it belongs to the next five pixels. */
    const __m128i order = _mm_setr_epi8(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15);
    size_t i = 0;
    for (; i + AT_ONCE < n; i += AT_ONCE) {
        __m128i pixels = _mm_loadu_si128((const __m128i *)(const void *)(from + 3 * i));
        _mm_storeu_si128((__m128i *)(void *)(to + 3 * i), _mm_shuffle_epi8(pixels, order));
    }
    psti_images_swap_c(from + 3 * i, to + 3 * i, n - i);
}
#else
typedef int psti_images_colors_avx2_is_for_x86;
#endif
