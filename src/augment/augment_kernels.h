/* augment_kernels.h - the inner loops of this room, one table per CPU level.
 *
 * All levels give the same bits: filters are sums of integers, and the conversion to float is one
 * multiplication and one addition, never fused. Plain C is the judge. */
#ifndef PST_AUGMENT_KERNELS_H
#define PST_AUGMENT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scale and offset of a row repeat after this many elements: a multiple of 1..4 channels and of
 * every vector. */
#define PSTI_PATTERN 48
#define PSTI_MAX_LANES 4

/* Filters of one axis: output i is (round + sum over k < taps of weights[i * stride + k] *
 * source[start[i] + k])
 * >> precision, clamped. */
struct psti_axis {
    uint32_t n;         /* outputs */
    uint32_t stride;    /* weights per output; those beyond the output's own taps are zero */
    uint32_t precision; /* weights add up to 1 << precision */
    const uint32_t *start;
    const uint32_t *taps;          /* of each output, without the zeros */
    const int16_t *weights;        /* 8-bit samples */
    const int32_t *wide_weights;   /* 16-bit samples */
    uint32_t safe_begin, safe_end; /* outputs whose windows (all `stride` taps, and the bytes that a
                                      vector load takes beyond them) lie within the source row */
};

/* The weights of an axis in the order of the source, where each pixel lies in two windows at most
 * (those of a triangle that shrinks without aliasing): the source is gone through once, and a pair
 * of pixels made ready once for all its windows. Pairs begin at even pixels; they go upwards from
 * pixel `first`, or downwards. For each output, from the axis's first safe one on, there is a word
 * with the number of its pairs, one at least: those behind the last of the output before, up to the
 * last of its own window; then for each of these two words: two weights for this output (an int16
 * in each half) and two for the next; then a word for the next but one, which may begin with the
 * last of these pairs. */
struct psti_sweep {
    const uint32_t *words;
    uint32_t first;
    uint32_t end; /* output; others that are safe are left to resize_x */
    bool falls;
};

/* Horizontal pass over `lanes` rows at once (dst and src: one pointer each): outputs begin..end-1,
 * source pixel p lies at src[(p - bias) * channels]. May write up to 16 bytes behind the last
 * output, and up to 16 bytes behind output `end - 1` where a later call writes again: calls go
 * upwards. */
typedef void psti_resize_x(uint8_t *const *dst, const uint8_t *const *src,
                           const struct psti_axis *axis, uint32_t begin, uint32_t end,
                           uint32_t bias);

/* The same for outputs safe_begin..sweep->end-1. Reads nothing outside the row if the safe outputs
 * were found with room for a sweep. */
typedef void (*psti_sweep_x)(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep);

/* HWC row -> planes. Writes and reads nothing outside. */
typedef void psti_split(uint8_t *const *planes, const uint8_t *src, uint32_t width);

struct psti_augment_ops {
    const char *name;
    uint32_t lanes[5];          /* rows that resize_x takes at once, by channels */
    psti_resize_x *resize_x[5]; /* by channels, 1..4 */
    psti_sweep_x sweep_x[5];    /* NULL: resize_x is as fast */
    /* Vertical pass: n bytes of `taps` rows (even; weights[taps] i16). Reads and writes up to 63
     * bytes more. */
    void (*resize_y)(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                     uint32_t taps, uint32_t precision, size_t n);
    /* Mirrors `width` pixels. May write up to 16 bytes behind the row, reads nothing outside. By
     * channels. */
    void (*reverse[5])(uint8_t *dst, const uint8_t *src, uint32_t width);
    psti_split *split[5]; /* by channels, 2..4 */
    /* out[i] = src[i] * scale[i % PSTI_PATTERN] + offset[i % PSTI_PATTERN]. Nothing outside. `dst`
     * at any address. */
    void (*to_f32)(void *dst, const uint8_t *src, size_t n, const float *scale,
                   const float *offset);
    void (*to_f16)(void *dst, const uint8_t *src, size_t n, const float *scale,
                   const float *offset);
    void (*to_bf16)(void *dst, const uint8_t *src, size_t n, const float *scale,
                    const float *offset);
};

/* The best table for a CPU with these features (PSTI_CPU_...). */
const struct psti_augment_ops *psti_augment_ops_for(uint32_t features);

extern const struct psti_augment_ops psti_augment_ops_c, psti_augment_ops_avx2,
    psti_augment_ops_avx512, psti_augment_ops_neon;
/* Plain C loops, of which other levels use those for channel counts they have no vectors for. */
psti_resize_x psti_augment_resize_x_1_c, psti_augment_resize_x_2_c, psti_augment_resize_x_3_c,
    psti_augment_resize_x_4_c;
psti_split psti_augment_split_1_c, psti_augment_split_2_c, psti_augment_split_3_c,
    psti_augment_split_4_c;

/* Round to nearest even, as VCVTPS2PH does. */
uint16_t psti_augment_f16_from_f32(float value);
uint16_t psti_augment_bf16_from_f32(float value);

#endif
