/* pli_wave_neon_simde_tokens8.c - tokens of 8 bits of the NEON level of the wave decoder, compiled
 * from the same source against SIMDe. */
#include "simde/simde_neon.h"

#include "decode/pli_wave_neon_tokens8.c"
