/* pli_wave_avx2.h - declarations that the files of the wave decoder's AVX2 level share. */
#ifndef PST_PLI_WAVE_AVX2_H
#define PST_PLI_WAVE_AVX2_H

#include "pli/decode/wave/pli_wave_common.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define PSTI_WAVE_INLINE                                                                           \
    static inline __attribute__((always_inline, target("avx2,bmi,bmi2,popcnt")))

typedef __m256i v32; /* a row of 32 bytes */

/* Decode words to activities of 8 bits (pli_wave_avx2_tokens_u8.c), or to tokens of 16 bits
 * (pli_wave_avx2_tokens_u16.c). */
void psti_pli_wave_avx2_tokens_u8(struct psti_pli_wave_job *job);
void psti_pli_wave_avx2_tokens(struct psti_pli_wave_job *job);
/* Decode words like the functions above, for two units of one shape together. If the words of one
 * unit run out, the tokens of the other may be incomplete. */
void psti_pli_wave_avx2_tokens_u8_two(struct psti_pli_wave_job jobs[2]);
void psti_pli_wave_avx2_tokens_two(struct psti_pli_wave_job jobs[2]);
/* Turn residuals of 8 bits (pli_wave_avx2_rebuild_u8.c) or of 16 bits (pli_wave_avx2_rebuild_u16.c)
 * into lines of samples. */
void psti_pli_wave_avx2_rebuild(struct psti_pli_wave_job *job);
void psti_pli_wave_avx2_rebuild_u16(struct psti_pli_wave_job *job);
/* Converts tokens to residuals of 16 bits (pli_wave_avx2_raw_u16.c). Returns the number of bits
 * that this takes. If it is more than `n_bits`, no residuals were made. */
uint64_t psti_pli_wave_avx2_residuals_u16(struct psti_pli_wave_job *job, uint64_t n_bits);

PSTI_WAVE_INLINE v32 row_load(const void *at) { return _mm256_loadu_si256((const v32 *)at); }
PSTI_WAVE_INLINE void row_store(void *at, v32 v) { _mm256_storeu_si256((v32 *)at, v); }
PSTI_WAVE_INLINE v32 both_halves(const uint8_t *table)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)table));
}
/* Returns v rotated by one lane: lane l gets the value of lane l - 1, and lane 0 that of lane 31.
 */
PSTI_WAVE_INLINE v32 turn(v32 v)
{
    return _mm256_alignr_epi8(v, _mm256_permute2x128_si256(v, v, 1), 15);
}
PSTI_WAVE_INLINE v32 pick(v32 mask, v32 yes, v32 no)
{
    return _mm256_xor_si256(no, _mm256_and_si256(mask, _mm256_xor_si256(yes, no)));
}
/* Returns a mask of the lanes that have a sample in step t. `width` has the unit's width in all
 * lanes. */
PSTI_WAVE_INLINE v32 active_lanes(v32 width, const struct psti_pli_wave_shape *shape, uint32_t t)
{
    v32 x = _mm256_add_epi8(_mm256_set1_epi8((char)(t & 63)), row_load(psti_pli_wave_delay));
    x = _mm256_and_si256(x, _mm256_set1_epi8(63));
    v32 rows = pick(row_load(front_lanes(t)), row_load(shape->front->rows),
                    row_load(shape->front[-1].rows));
    return _mm256_and_si256(_mm256_cmpgt_epi8(width, x), rows);
}

#endif
#endif
