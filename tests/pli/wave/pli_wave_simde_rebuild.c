/* pli_wave_simde_rebuild.c - the predictions of the AVX-512 level of the wave decoder, compiled
 * from the same source against SIMDe. */
#include "simde/simde_avx512.h"

#include "pli/wave/pli_wave_simde.h"

#include "pli/decode/wave/x86/pli_wave_avx512_rebuild.c"
