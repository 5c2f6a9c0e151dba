/* pli_kernels.c - the tables of the decoder's kernels by CPU level, and the one function that
 * chooses a level.
 *
 * If a level has no kernel of its own for an entry, its table names that of a lower level. The
 * AVX-512 level needs all of PSTI_CPU_AVX512_ICL. The tables are constant; any thread may use them.
 */
#include "pli/decode/pli_kernels.h"

#include "base/machine/cpu.h"

static const struct psti_pli_kernels kernels_c = {
    .emit = &psti_pli_emit_kernels_c,
    .packed_u8 = &psti_packed_kernels_c,
    .packed_u16 = &psti_packed_kernels_c,
    .wave = psti_pli_wave_decode_c,
    .n_wave_units_u8 = 1,
    .n_wave_units_u16 = 1,
    .lz = &psti_lz_kernels_c,
    .coefs = &psti_coefs_level_c,
    .jpeg_idct = psti_pli_jpeg_idct_c,
    .jpeg_idct_half = psti_pli_jpeg_idct_small,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_c,
    .jpeg_rows = &psti_pli_jpeg_rows_c,
};

#if defined(__x86_64__)
static const struct psti_pli_kernels kernels_avx2 = {
    .emit = &psti_pli_emit_kernels_avx2,
    .packed_u8 = &psti_packed_kernels_avx2,
    .packed_u16 = &psti_packed_kernels_avx2,
    .wave = psti_pli_wave_decode_avx2,
    .wave_some_u8 = psti_pli_wave_decode_some_avx2,
    .wave_some_u16 = psti_pli_wave_decode_some_avx2,
    .n_wave_units_u8 = 2,
    .n_wave_units_u16 = 2,
    .lz = &psti_lz_kernels_avx2,
    .coefs = &psti_coefs_level_avx2,
    .jpeg_idct = psti_pli_jpeg_idct_avx2,
    .jpeg_idct_half = psti_pli_jpeg_idct_avx2,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_avx2,
    .jpeg_rows = &psti_pli_jpeg_rows_avx2,
};

static const struct psti_pli_kernels kernels_avx512 = {
    .emit = &psti_pli_emit_kernels_avx512,
    .packed_u8 = &psti_packed_kernels_avx512,
    .packed_u16 = &psti_packed_kernels_avx2,
    .wave = psti_pli_wave_decode_avx512,
    .wave_some_u8 = psti_pli_wave_decode_some_avx512,
    .wave_some_u16 = psti_pli_wave_decode_some_avx2,
    .n_wave_units_u8 = PSTI_PLI_WAVE_MOST_UNITS,
    .n_wave_units_u16 = 2,
    .lz = &psti_lz_kernels_avx2,
    .coefs = &psti_coefs_level_avx512,
    .jpeg_idct = psti_pli_jpeg_idct_avx512,
    .jpeg_idct_half = psti_pli_jpeg_idct_avx512,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_avx2,
    .jpeg_rows = &psti_pli_jpeg_rows_avx512,
};
#elif defined(__aarch64__)
static const struct psti_pli_kernels kernels_neon = {
    .emit = &psti_pli_emit_kernels_neon,
    .packed_u8 = &psti_packed_kernels_neon,
    .packed_u16 = &psti_packed_kernels_c,
    .wave = psti_pli_wave_decode_neon,
    .n_wave_units_u8 = 1,
    .n_wave_units_u16 = 1,
    .lz = &psti_lz_kernels_neon,
    .coefs = &psti_coefs_level_neon,
    .jpeg_idct = psti_pli_jpeg_idct_neon,
    .jpeg_idct_half = psti_pli_jpeg_idct_neon,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_c,
    .jpeg_rows = &psti_pli_jpeg_rows_neon,
};
#endif

const struct psti_pli_kernels *psti_pli_kernels_of(uint32_t cpu)
{
#if defined(__x86_64__)
    if (cpu & PSTI_CPU_AVX512_ICL)
        return &kernels_avx512;
    if (cpu & PSTI_CPU_AVX2)
        return &kernels_avx2;
#elif defined(__aarch64__)
    if (cpu & PSTI_CPU_NEON)
        return &kernels_neon;
#endif
    (void)cpu;
    return &kernels_c;
}
