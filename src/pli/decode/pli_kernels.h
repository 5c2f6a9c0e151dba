/* pli_kernels.h - the kernels of the decoder, one table per CPU level.
 *
 * A table is chosen once per call (psti_pli_kernels_of) and carried in the request and in each
 * unit. No other file of the decoder asks which processor it runs on. All levels give the same
 * samples, pixels, statuses and errors: plain C is the reference implementation, and tests hold the
 * others to it. Tests also put tables together themselves, from kernels that are emulated. */
#ifndef PST_PLI_KERNELS_H
#define PST_PLI_KERNELS_H

#include "pli/decode/coefs/pli_coefs_int.h"
#include "pli/decode/jpeg/pli_jpeg_int.h"
#include "pli/decode/lz/pli_lz_tokens.h"
#include "pli/decode/packed/pli_packed.h"
#include "pli/decode/pli_emit.h"
#include "pli/decode/wave/pli_wave_int.h"

struct psti_pli_kernels {
    /* Planes of a unit -> rows of pixels: colour and layout. */
    const struct psti_pli_emit_kernels *emit;
    /* Mode packed: widths of groups, samples of planes; by the samples' bits. */
    const struct psti_packed_kernels *packed_u8, *packed_u16;
    /* Mode wave: the entropy-coded part of a unit -> planes. */
    psti_pli_wave_kernel *wave;
    /* Mode wave: several units at once, 2..n_wave_units_*, by the samples' bits; NULL where the
     * number is 1. */
    psti_pli_wave_kernel_some *wave_some_u8, *wave_some_u16;
    uint8_t n_wave_units_u8, n_wave_units_u16;
    /* Mode lz: words -> tokens and samples; tokens -> pixels. */
    const struct psti_lz_kernels *lz;
    /* Content JPEG: a unit's bytes -> planes of coefficients. */
    const struct psti_coefs_level *coefs;
    /* Content JPEG: coefficients -> blocks of 8x8 samples, and of 4x4 for images of half the
     * size. Smaller blocks are made in plain C (psti_pli_jpeg_idct_small). */
    psti_pli_jpeg_idct *jpeg_idct, *jpeg_idct_half;
    /* Content JPEG: planes of coefficients -> blocks of 64. */
    psti_pli_jpeg_to_blocks *jpeg_to_blocks;
    /* Content JPEG: rows of samples -> upsampled rows -> rows of pixels. */
    const struct psti_pli_jpeg_rows *jpeg_rows;
};

/* The table of the highest level that `cpu` (PSTI_CPU_*) allows. */
const struct psti_pli_kernels *psti_pli_kernels_of(uint32_t cpu);

#endif
