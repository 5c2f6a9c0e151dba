/* pli_wave_neon_simde_rebuild16.c - samples of 16 bits of the NEON level of the wave decoder,
 * compiled from the same source against SIMDe. */
#include "simde/simde_neon.h"

#include "decode/pli_wave_neon_rebuild16.c"
