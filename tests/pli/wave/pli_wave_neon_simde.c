/* pli_wave_neon_simde.c - the NEON level of the wave decoder, compiled from the same sources
 * against SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_pli_wave_decode_neon psti_pli_wave_decode_neon_simde
#include "pli/decode/wave/arm/pli_wave_neon.c"
#include "pli/decode/wave/arm/pli_wave_neon_raw_u8.c"
