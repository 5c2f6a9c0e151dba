/* pli_packed_neon_simde.c - the NEON kernels of mode packed, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_packed_kernels_neon psti_packed_kernels_neon_simde
#include "pli/decode/packed/arm/pli_packed_neon.c"
