/* pli_wave_neon_simde_rebuild.c - the NEON code that predicts 8-bit samples in the wave decoder,
 * compiled from the same source against SIMDe. */
#include "simde/simde_neon.h"

#include "pli/decode/wave/arm/pli_wave_neon_rebuild_u8.c"
