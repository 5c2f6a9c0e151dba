/* pli_kernels.h - the kernels of the decoder, one table per CPU level.
 *
 * psti_pli_kernels_of chooses a table once per call. The request and each unit carry a pointer to
 * it. No other file of the decoder asks which processor it runs on. All levels give the same
 * samples, pixels, statuses and errors. Plain C is the reference implementation, and tests compare
 * the other levels with it. Tests also put together tables of their own, from kernels that are
 * emulated. */
#ifndef PST_PLI_KERNELS_H
#define PST_PLI_KERNELS_H

#include "pli/decode/coefs/pli_coefs_int.h"
#include "pli/decode/jpeg/pli_jpeg_int.h"
#include "pli/decode/lz/pli_lz_tokens.h"
#include "pli/decode/packed/pli_packed.h"
#include "pli/decode/pli_emit.h"
#include "pli/decode/wave/pli_wave_int.h"

struct psti_pli_kernels {
    /* Converts the planes of a unit to rows of pixels: undoes the colour transform and interleaves.
     */
    const struct psti_pli_emit_kernels *emit;
    /* Kernels of mode packed, for samples of 8 bits and of 16 bits: they decode the widths of
     * groups and the samples of planes. */
    const struct psti_packed_kernels *packed_u8, *packed_u16;
    /* Mode wave: decodes the entropy-coded part of a unit to planes. */
    psti_pli_wave_kernel *wave;
    /* Kernels of mode wave that decode several units together: from 2 up to n_wave_units_u8 or
     * n_wave_units_u16, by the bit depth. NULL if that number is 1. */
    psti_pli_wave_kernel_some *wave_some_u8, *wave_some_u16;
    uint8_t n_wave_units_u8, n_wave_units_u16;
    /* Mode lz: decodes words to tokens and samples, and executes tokens to make pixels. */
    const struct psti_lz_kernels *lz;
    /* Content JPEG: decodes a unit's bytes to planes of coefficients. */
    const struct psti_coefs_level *coefs;
    /* Content JPEG: kernels that transform coefficients to blocks of 8x8 samples, and of 4x4
     * samples for images of half the size. Plain C makes smaller blocks
     * (psti_pli_jpeg_idct_small). */
    psti_pli_jpeg_idct *jpeg_idct, *jpeg_idct_half;
    /* Content JPEG: turns planes of coefficients into blocks of 64. */
    psti_pli_jpeg_to_blocks *jpeg_to_blocks;
    /* Content JPEG: upsamples rows of samples, and turns them into rows of pixels. */
    const struct psti_pli_jpeg_rows *jpeg_rows;
};

/* Returns the table of the highest level that `cpu` (PSTI_CPU_*) allows. */
const struct psti_pli_kernels *psti_pli_kernels_of(uint32_t cpu);

#endif
