/* pli_emit.h - the row kernels of emission, per CPU level; pli_emit.c does what they leave out in
 * plain C. n samples a row; rows do not overlap. Kernels may read n
 * rounded up to 32 samples of each input row (the planes' rows have them), but write n pixels
 * exactly. */
#ifndef PST_PLI_EMIT_H
#define PST_PLI_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_pli_emit_kernels {
    /* Planes G, R-G+128, B-G+128 -> RGB interleaved; n <= 64. */
    void (*green_rgb8)(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                       uint32_t n);
    /* The same for `height` rows of 64, input rows `row_step` and output rows `row_nbytes` apart:
     * constants are loaded once. NULL: there is no such kernel. */
    void (*green_rgb8_rows)(const uint8_t *g, const uint8_t *r, const uint8_t *b, size_t row_step,
                            uint32_t height, uint8_t *out, int64_t row_nbytes);
    /* The same as green_rgb8 with A -> RGBA. */
    void (*green_rgba8)(const uint8_t *g, const uint8_t *r, const uint8_t *b, const uint8_t *a,
                        uint8_t *out, uint32_t n);
    /* One plane of a pair: p + g - 128, contiguous. */
    void (*green_one8)(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n);
    /* Three planes interleaved as they are. */
    void (*plain_rgb8)(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                       uint32_t n);
    /* Of 16 bits, planes G, R-G+32768, B-G+32768 (`green`) or R, G, B -> RGB interleaved. NULL:
     * there is no such kernel. */
    void (*rgb16)(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green, uint8_t *out,
                  uint32_t n);
};

extern const struct psti_pli_emit_kernels psti_pli_emit_kernels_c;
extern const struct psti_pli_emit_kernels psti_pli_emit_kernels_avx2, psti_pli_emit_kernels_avx512,
    psti_pli_emit_kernels_neon;
/* `rgb16` of AVX2 and of AVX-512. */
void psti_pli_emit_rgb16_avx2(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green,
                              uint8_t *out, uint32_t n);

#endif
