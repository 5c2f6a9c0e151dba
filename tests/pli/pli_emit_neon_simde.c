/* pli_emit_neon_simde.c - the NEON kernels of emission, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_pli_emit_kernels_neon psti_pli_emit_kernels_neon_simde
#include "pli/decode/arm/pli_emit_neon.c"
