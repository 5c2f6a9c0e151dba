/* pli_jpeg_idct_simde.c - the inverse DCT with AVX-512, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_avx512.h"

#define psti_pli_jpeg_idct_avx512 psti_pli_jpeg_idct_simde
#include "pli/decode/jpeg/x86/pli_jpeg_idct_avx512.c"
