/* pli_jpeg_rows_neon_simde.c - the functions that make rows of pixels from rows of samples with
 * NEON, compiled from the same source against SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_pli_jpeg_rows_neon psti_pli_jpeg_rows_neon_simde
#include "pli/decode/jpeg/arm/pli_jpeg_rows_neon.c"
