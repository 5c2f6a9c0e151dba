/* pli_jpeg_idct_neon_simde.c - the inverse DCT with NEON, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_neon.h"

#include "pli/decode/jpeg/pli_jpeg_int.h"

psti_pli_jpeg_idct psti_pli_jpeg_idct_neon_simde;

#define psti_pli_jpeg_idct_neon psti_pli_jpeg_idct_neon_simde
#include "pli/decode/jpeg/arm/pli_jpeg_idct_neon.c"
