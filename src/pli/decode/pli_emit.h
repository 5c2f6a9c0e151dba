/* pli_emit.h - the row kernels of emission, one table per CPU level. pli_emit.c does all other
 * cases in plain C.
 *
 * A row has n samples per plane, and rows do not overlap. A kernel may read each input row up to n
 * rounded up to 32 samples, which the planes' rows have. It writes exactly n pixels. */
#ifndef PST_PLI_EMIT_H
#define PST_PLI_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct psti_pli_emit_kernels {
    /* Converts planes G, R-G+128, B-G+128 to interleaved RGB; n <= 64. */
    void (*green_rgb_u8)(const uint8_t *g, const uint8_t *r, const uint8_t *b, uint8_t *out,
                         uint32_t n);
    /* Converts planes like green_rgb_u8, but `height` rows of 64 pixels, to load constants only
     * once. Input rows are `row_step` bytes apart, output rows `row_nbytes`. NULL if the level has
     * no such kernel. */
    void (*green_rgb_u8_rows)(const uint8_t *g, const uint8_t *r, const uint8_t *b, size_t row_step,
                              uint32_t height, uint8_t *out, int64_t row_nbytes);
    /* Converts planes like green_rgb_u8, with another plane A, to RGBA. */
    void (*green_rgba_u8)(const uint8_t *g, const uint8_t *r, const uint8_t *b, const uint8_t *a,
                          uint8_t *out, uint32_t n);
    /* Makes one contiguous channel from its plane p and green g: p + g - 128. */
    void (*green_one_u8)(const uint8_t *g, const uint8_t *p, uint8_t *out, uint32_t n);
    /* Interleaves three planes without changing the samples. */
    void (*plain_rgb_u8)(const uint8_t *c0, const uint8_t *c1, const uint8_t *c2, uint8_t *out,
                         uint32_t n);
    /* Makes interleaved RGB of 16 bits. The planes are G, R-G+32768, B-G+32768 if `green` is true,
     * else R, G, B. NULL if the level has no such kernel. */
    void (*rgb_u16)(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green,
                    uint8_t *out, uint32_t n);
};

extern const struct psti_pli_emit_kernels psti_pli_emit_kernels_c;
extern const struct psti_pli_emit_kernels psti_pli_emit_kernels_avx2, psti_pli_emit_kernels_avx512,
    psti_pli_emit_kernels_neon;
/* The `rgb_u16` functions of the levels AVX2 and AVX-512. */
void psti_pli_emit_rgb_u16_avx2(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, bool green,
                                uint8_t *out, uint32_t n);

#endif
