/* pli_wave_neon_simde_tokens_u8.c - the NEON code that decodes tokens of 8-bit samples in the wave
 * decoder, compiled from the same source against SIMDe. */
#include "simde/simde_neon.h"

#include "pli/decode/wave/arm/pli_wave_neon_tokens_u8.c"
