/* pli_levels.c - holds the tables of emulated kernels and finds the CPU levels that this machine
 * can run. The emulated AVX-512 level uses AVX2 kernels where the real one does, so it needs a
 * processor with AVX2. */
#include "pli/pli_levels.h"

#include "base/machine/cpu.h"

#if defined(PST_HAVE_SIMDE)
extern const struct psti_pli_emit_kernels psti_pli_emit_kernels_simde,
    psti_pli_emit_kernels_neon_simde;
extern const struct psti_packed_kernels psti_packed_kernels_simde, psti_packed_kernels_neon_simde;
psti_pli_wave_kernel psti_pli_wave_decode_simde, psti_pli_wave_decode_neon_simde;
psti_pli_wave_kernel_some psti_pli_wave_decode_some_simde;
extern const struct psti_lz_kernels psti_lz_kernels_neon_simde;
extern const struct psti_coefs_level psti_coefs_level_simde, psti_coefs_level_neon_simde;
psti_pli_jpeg_idct psti_pli_jpeg_idct_simde, psti_pli_jpeg_idct_neon_simde;
extern const struct psti_pli_jpeg_rows psti_pli_jpeg_rows_simde, psti_pli_jpeg_rows_neon_simde;

static const struct psti_pli_kernels kernels_avx512 = {
    .emit = &psti_pli_emit_kernels_simde,
    .packed_u8 = &psti_packed_kernels_simde,
    .packed_u16 = &psti_packed_kernels_avx2,
    .wave = psti_pli_wave_decode_simde,
    .wave_some_u8 = psti_pli_wave_decode_some_simde,
    .wave_some_u16 = psti_pli_wave_decode_some_avx2,
    .n_wave_units_u8 = PSTI_PLI_WAVE_MOST_UNITS,
    .n_wave_units_u16 = 2,
    .lz = &psti_lz_kernels_avx2,
    .coefs = &psti_coefs_level_simde,
    .jpeg_idct = psti_pli_jpeg_idct_simde,
    .jpeg_idct_half = psti_pli_jpeg_idct_simde,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_avx2,
    .jpeg_rows = &psti_pli_jpeg_rows_simde,
};

static const struct psti_pli_kernels kernels_neon = {
    .emit = &psti_pli_emit_kernels_neon_simde,
    .packed_u8 = &psti_packed_kernels_neon_simde,
    .packed_u16 = &psti_packed_kernels_c,
    .wave = psti_pli_wave_decode_neon_simde,
    .n_wave_units_u8 = 1,
    .n_wave_units_u16 = 1,
    .lz = &psti_lz_kernels_neon_simde,
    .coefs = &psti_coefs_level_neon_simde,
    .jpeg_idct = psti_pli_jpeg_idct_neon_simde,
    .jpeg_idct_half = psti_pli_jpeg_idct_neon_simde,
    .jpeg_to_blocks = psti_pli_jpeg_to_blocks_c,
    .jpeg_rows = &psti_pli_jpeg_rows_neon_simde,
};
#endif

const struct psti_pli_kernels *pli_emulated_avx512(void)
{
#if defined(PST_HAVE_SIMDE)
    if (psti_cpu_detected() & PSTI_CPU_AVX2)
        return &kernels_avx512;
#endif
    return NULL;
}

uint32_t pli_levels(struct pli_level levels[PLI_LEVELS_MAX])
{
    static const struct {
        const char *name;
        uint32_t cpu;
    } own[] = {{"avx2", PSTI_CPU_AVX2}, {"avx512", PSTI_CPU_AVX512_ICL}, {"neon", PSTI_CPU_NEON}};
    uint32_t n = 0;
    levels[n++] = (struct pli_level){"c", psti_pli_kernels_of(0), false};
    for (uint32_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (psti_cpu_detected() & own[i].cpu)
            levels[n++] = (struct pli_level){own[i].name, psti_pli_kernels_of(own[i].cpu), false};
    if (pli_emulated_avx512())
        levels[n++] = (struct pli_level){"avx512, emulated", pli_emulated_avx512(), true};
#if defined(PST_HAVE_SIMDE)
    levels[n++] = (struct pli_level){"neon, emulated", &kernels_neon, true};
#endif
    return n;
}
