/* pli_spread_avx2.h - gives words of rANS to the lanes that take them. The loops of waves and of
 * coefficients use it. */
#ifndef PST_PLI_SPREAD_AVX2_H
#define PST_PLI_SPREAD_AVX2_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* For each mask of 8 lanes, 16 byte indices that say which of the next words each lane takes. */
struct psti_pli_spread {
    _Alignas(64) uint8_t bytes[256][16];
};
extern const struct psti_pli_spread psti_pli_spread;

/* Returns the words for 8 lanes. The mask of lanes is in bits 4..11 of `lanes`. */
static inline __attribute__((always_inline, target("avx2"))) __m128i psti_pli_spread_words(
    const void *words, uint32_t lanes)
{
    const uint8_t *indices = (const uint8_t *)psti_pli_spread.bytes + (lanes & 0xff0);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)words),
                            _mm_load_si128((const __m128i *)(const void *)indices));
}
#endif

#endif
