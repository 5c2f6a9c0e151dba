/* pli_lz_neon_simde.c - the NEON kernels of mode lz, compiled from the same sources against SIMDe,
 * under another name. */
#include "simde/simde_neon.h"

#define psti_lz_kernels_neon psti_lz_kernels_neon_simde
#include "pli/decode/arm/pli_refill_neon.c"
#include "pli/decode/lz/arm/pli_lz_copy_neon.c"
#include "pli/decode/lz/arm/pli_lz_tokens_neon.c"
