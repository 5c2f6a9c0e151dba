/* pli_wave_neon_simde_tokens_u8.c - tokens of 8 bits of the NEON level of the wave decoder,
 * compiled from the same source against SIMDe. */
#include "simde/simde_neon.h"

#include "pli/decode/wave/arm/pli_wave_neon_tokens_u8.c"
