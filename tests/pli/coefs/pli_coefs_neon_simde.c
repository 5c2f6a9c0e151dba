/* pli_coefs_neon_simde.c - the NEON level of the coefficient decoder, compiled from the same source
 * against SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_coefs_level_neon psti_coefs_level_neon_simde
#include "pli/decode/coefs/arm/pli_coefs_neon.c"
