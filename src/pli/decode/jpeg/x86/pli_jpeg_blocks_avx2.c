/* pli_jpeg_blocks_avx2.c - turns planes of coefficients into blocks with AVX2, 16 blocks at once.
 * pli_jpeg_blocks.c gives the same blocks. The functions are pure; any thread may call them. */
#include "pli/decode/jpeg/pli_jpeg_int.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { EDGE = 8 };
_Static_assert(PSTI_PLI_JPEG_GROUP == 2 * EDGE, "entries of a vector");

/* Writes coefficients k .. k + 7 of 16 blocks, from as many planes. Planes above `last` are not
 * read; their coefficients are 0. */
INLINE void turn(const int16_t *planes, size_t stride, uint32_t k, uint32_t last,
                 int16_t *const blocks[PSTI_PLI_JPEG_GROUP])
{
    __m256i r[EDGE], s[EDGE];
    for (uint32_t i = 0; i < EDGE; i++)
        r[i] = k + i <= last ? _mm256_loadu_si256((const __m256i *)(planes + (k + i) * stride))
                             : _mm256_setzero_si256();
    for (uint32_t i = 0; i < EDGE; i += 2) {
        s[i] = _mm256_unpacklo_epi16(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_epi16(r[i], r[i + 1]);
    }
    for (uint32_t i = 0; i < EDGE; i += 4)
        for (uint32_t j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_unpacklo_epi32(s[i + j], s[i + j + 2]);
            r[i + 2 * j + 1] = _mm256_unpackhi_epi32(s[i + j], s[i + j + 2]);
        }
    for (uint32_t i = 0; i < EDGE; i++) {
        __m256i two = i % 2 ? _mm256_unpackhi_epi64(r[i / 2], r[i / 2 + 4])
                            : _mm256_unpacklo_epi64(r[i / 2], r[i / 2 + 4]);
        _mm_storeu_si128((__m128i *)(blocks[i] + k), _mm256_castsi256_si128(two));
        _mm_storeu_si128((__m128i *)(blocks[i + EDGE] + k), _mm256_extracti128_si256(two, 1));
    }
}

TARGET void psti_pli_jpeg_to_blocks_avx2(const int16_t *planes, size_t stride, uint32_t last,
                                         int16_t *const blocks[PSTI_PLI_JPEG_GROUP])
{
    uint32_t k = 0;
    for (; k <= last; k += EDGE)
        turn(planes, stride, k, last, blocks);
    for (; k < 64; k += EDGE)
        for (uint32_t i = 0; i < PSTI_PLI_JPEG_GROUP; i++)
            _mm_storeu_si128((__m128i *)(blocks[i] + k), _mm_setzero_si128());
}
#else
/* C does not allow an empty file. */
typedef int psti_pli_jpeg_no_blocks_avx2;
#endif
