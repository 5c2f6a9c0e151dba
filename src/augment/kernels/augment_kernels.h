/* augment_kernels.h - the inner loops of the module augment, one table per CPU level.
 *
 * All levels give the same bits: filters are sums of integers; the conversion to float is one
 * multiplication and one addition, never fused; colour operations round every result as plain C
 * does. Plain C is the reference implementation. */
#ifndef PST_AUGMENT_KERNELS_H
#define PST_AUGMENT_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scale and offset of a row repeat after this many elements. It is a multiple of every number of
 * channels, 1..4, and of the number of floats in every vector. */
#define PSTI_PATTERN 48
#define PSTI_MAX_LANES 4

/* The filters of one axis of a resize. Output i is (round + sum over k < taps[i] of weights[i *
 * stride + k] * source[start[i] + k]) >> precision, clamped, where round = 1 << (precision - 1). */
struct psti_axis {
    uint32_t n;         /* number of outputs */
    uint32_t stride;    /* weights stored for each output; those after its taps are zero */
    uint32_t precision; /* the weights of an output add up to 1 << precision */
    const uint32_t *start;
    const uint32_t *taps;        /* number of weights of each output, without the zeros */
    const int16_t *weights;      /* weights for 8-bit samples */
    const int32_t *wide_weights; /* weights for 16-bit samples */
    /* The range of safe outputs. Their windows lie within the source row, including all `stride`
     * taps and the further bytes that a vector load reads. */
    uint32_t safe_begin, safe_end;
};

/* The weights of an axis, ordered for a sweep kernel, which goes through the source once. It suits
 * an axis where each pixel lies in at most two windows: a triangle filter that shrinks with
 * antialias. Each pair of pixels is loaded and widened once for all windows that contain it. Pairs
 * begin at even pixels. They go upwards from pixel `first`, or downwards if `falls`.
 *
 * `words` holds a record for each output, from the axis's first safe output on. The first word of a
 * record is the number of its pairs, at least 1: the pairs after the last pair of the output
 * before, up to the last pair of its own window. Two words follow for each pair: two weights for
 * this output (an int16 in each half), then two weights for the next output. The last word holds
 * two weights for the next output but one, whose window may begin with the last of these pairs. */
struct psti_sweep {
    const uint32_t *words;
    uint32_t first;
    /* index after the last output of the sweep; psti_resize_x makes the other outputs */
    uint32_t end;
    bool falls;
};

/* The weights of an axis, ordered for a pick kernel, which gathers any bytes of one or two vectors.
 * `lanes` of the PSTI_PICK_LANES lanes of a vector are used. Lane d, counted over all vectors,
 * computes channel d % channels of output d / channels. In each step a lane takes the next two
 * pixels of its window and multiplies them by two weights. */
#define PSTI_PICK_LANES 16
struct psti_pick {
    /* the halves of each word: indices of the bytes of a lane's first two pixels, counted from byte
     * `at` of the source row */
    uint32_t index[PSTI_PICK_LANES];
    uint64_t at;
    uint64_t masks[2]; /* bit mask of the 128 bytes from `at` on that lie in the source row */
    uint64_t unused[5];
};
struct psti_picks {
    const struct psti_pick *vectors;
    const uint32_t *weights; /* [vector][step][lane]: two weights, an int16 in each half */
    uint32_t n, lanes, steps, precision;
    uint32_t step_nbytes; /* bytes of two pixels, by which the indices advance in a step */
    /* the windows of a vector need 128 bytes of the row; else 64 */
    bool two;
};

/* Makes all outputs of the horizontal pass for PSTI_MAX_LANES rows. Reads nothing outside of the
 * rows. May write up to 15 bytes after the last output. */
typedef void psti_pick_x(uint8_t *const *dst, const uint8_t *const *src,
                         const struct psti_picks *picks);

/* The weights of an axis, ordered for a quad kernel: like a pick kernel, but it gathers bytes from
 * 16 only. A vector has two quads of four lanes. All windows of a quad lie within 16 bytes of the
 * source row. */
#define PSTI_QUAD_LANES 8
struct psti_quads_vector {
    /* first and third byte of each word: indices of the bytes of a lane's first two pixels, counted
     * from byte `at` of its quad; the other bytes are 128 */
    uint32_t index[PSTI_QUAD_LANES];
    uint64_t at[2];
};
struct psti_quads {
    const struct psti_quads_vector *vectors;
    const uint32_t *weights; /* [vector][step][lane]: two weights, an int16 in each half */
    uint32_t n, steps, precision;
    uint32_t step_nbytes; /* bytes of two pixels, by which the indices advance in a step */
};

/* Makes all outputs of the horizontal pass for PSTI_MAX_LANES rows. Reads nothing outside of the
 * rows. May write up to 7 bytes after the last output. */
typedef void psti_quad_x(uint8_t *const *dst, const uint8_t *const *src,
                         const struct psti_quads *quads);

/* Makes outputs begin..end-1 of the horizontal pass for `lanes` rows at once. dst and src have a
 * pointer for each row. Source pixel p lies at src[(p - bias) * channels]. May write up to 16 bytes
 * after output `end - 1`. The next call overwrites these bytes with its outputs, so calls must go
 * from left to right. */
typedef void psti_resize_x(uint8_t *const *dst, const uint8_t *const *src,
                           const struct psti_axis *axis, uint32_t begin, uint32_t end,
                           uint32_t bias);

/* Makes outputs safe_begin..sweep->end-1 of the horizontal pass by a sweep. Reads nothing outside
 * the row if psti_axis_spec.sweeps was set when the safe outputs were found. */
typedef void (*psti_sweep_x)(uint8_t *const *dst, const uint8_t *const *src,
                             const struct psti_axis *axis, const struct psti_sweep *sweep);

/* Splits an HWC row into planes. Reads and writes nothing outside of the row and planes. */
typedef void psti_split(uint8_t *const *planes, const uint8_t *src, uint32_t width);

/* Splits an HWC row of three channels and at least 16 pixels into planes, and converts it: pixel x
 * of plane c is src[3 x + c] * scale[c][0] + offset[c][0]. scale[c] and offset[c] hold the same
 * number PSTI_PATTERN times. Planes may begin at any address. Reads and writes nothing outside of
 * row and planes. With `streams` it uses non-temporal stores for planes at multiples of 64 bytes;
 * settle() must then run before other threads read the planes. */
typedef void psti_planes(unsigned char *const *planes, const uint8_t *src, uint32_t width,
                         const float (*scale)[PSTI_PATTERN], const float (*offset)[PSTI_PATTERN],
                         bool streams);

/* Pixels with float colours: a plane each for red, green and blue. The floats hold integers from 0
 * to `most`, which is 255 or 65535. */
#define PSTI_COLORS 256
struct psti_colors {
    _Alignas(64) float v[3][PSTI_COLORS];
};

/* Loops over the first n pixels. Loops that change colours may also change up to 15 pixels after
 * them, which must hold integers in the range. augment_color.c describes the operations. */
struct psti_color_ops {
    /* Convert n pixels between 8-bit RGB and planes of floats from 0 to 255. In the RGB memory they
     * read and write only these n pixels. */
    void (*load)(struct psti_colors *to, const uint8_t *from, uint32_t n);
    void (*store)(uint8_t *to, const struct psti_colors *from, uint32_t n);
    /* Sets each number of a plane to factor * number + other, clamped and truncated. */
    void (*blend)(float *plane, uint32_t n, float factor, float other, float most);
    void (*saturate)(struct psti_colors *colors, uint32_t n, float factor, float most);
    /* shifts the hue */
    void (*turn)(struct psti_colors *colors, uint32_t n, float shift, float most);
    /* Returns the sum of luma over the pixels. */
    uint64_t (*luma)(const struct psti_colors *colors, uint32_t n);
};

struct psti_augment_ops {
    const char *name;
    uint32_t lanes[5];          /* [channels]: number of rows that resize_x processes at once */
    psti_resize_x *resize_x[5]; /* [channels], 1..4 */
    psti_sweep_x sweep_x[5]; /* [channels]; NULL: there is no sweep, because resize_x is as fast */
    psti_pick_x *pick_x;        /* for any number of channels; NULL: this CPU level has none */
    psti_quad_x *quad_x;        /* for any number of channels; NULL: this CPU level has none */
    /* The vertical pass: makes n bytes from `taps` rows, with weights[taps]. `taps` is even. Reads
     * up to 63 bytes after the n bytes of each row. Writes n bytes. */
    void (*resize_y)(uint8_t *dst, const uint8_t *const *rows, const int16_t *weights,
                     uint32_t taps, uint32_t precision, size_t n);
    /* [channels]: mirrors a row of `width` pixels. May write up to 16 bytes after the row. Reads
     * nothing outside of the row. */
    void (*reverse[5])(uint8_t *dst, const uint8_t *src, uint32_t width);
    psti_split *split[5]; /* [channels], 2..4 */
    /* NULL: rows are split first, then each plane is converted */
    psti_planes *planes_f32, *planes_f16, *planes_bf16;
    void (*settle)(void); /* NULL if `planes` are NULL */
    /* Sets dst[i] = src[i] * scale[i % PSTI_PATTERN] + offset[i % PSTI_PATTERN] for i < n. Reads
     * and writes nothing else. `dst` may have any address. */
    void (*to_f32)(void *dst, const uint8_t *src, size_t n, const float *scale,
                   const float *offset);
    void (*to_f16)(void *dst, const uint8_t *src, size_t n, const float *scale,
                   const float *offset);
    void (*to_bf16)(void *dst, const uint8_t *src, size_t n, const float *scale,
                    const float *offset);
    struct psti_color_ops colors;
};

/* Returns the fastest table for a CPU with these features (PSTI_CPU_...). */
const struct psti_augment_ops *psti_augment_ops_for(uint32_t features);

extern const struct psti_augment_ops psti_augment_ops_c, psti_augment_ops_avx2,
    psti_augment_ops_avx512, psti_augment_ops_icl, psti_augment_ops_neon;
/* The loops in plain C. Other CPU levels use these where they have no vector code for a number of
 * channels. */
psti_resize_x psti_augment_resize_x_1_c, psti_augment_resize_x_2_c, psti_augment_resize_x_3_c,
    psti_augment_resize_x_4_c;
psti_split psti_augment_split_1_c, psti_augment_split_2_c, psti_augment_split_3_c,
    psti_augment_split_4_c;
void psti_augment_colors_load_c(struct psti_colors *to, const uint8_t *from, uint32_t n);
void psti_augment_colors_store_c(uint8_t *to, const struct psti_colors *from, uint32_t n);
void psti_augment_colors_blend_c(float *plane, uint32_t n, float factor, float other, float most);
void psti_augment_colors_saturate_c(struct psti_colors *colors, uint32_t n, float factor,
                                    float most);
void psti_augment_colors_turn_c(struct psti_colors *colors, uint32_t n, float shift, float most);
uint64_t psti_augment_colors_luma_c(const struct psti_colors *colors, uint32_t n);

/* Convert a float to f16 or bf16, rounded to nearest even, like the instruction VCVTPS2PH. */
uint16_t psti_augment_f16_from_f32(float value);
uint16_t psti_augment_bf16_from_f32(float value);

#endif
