/* pli_jpeg_rows_simde.c - the functions that make rows of pixels from rows of samples with AVX-512,
 * compiled from the same source against SIMDe, under another name. */
#include "simde/simde_avx512.h"

#define psti_pli_jpeg_rows_avx512 psti_pli_jpeg_rows_simde
#include "pli/decode/jpeg/x86/pli_jpeg_rows_avx512.c"
