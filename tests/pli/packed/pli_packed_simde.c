/* pli_packed_simde.c - the AVX-512 kernels of mode packed, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_avx512.h"

#define psti_packed_kernels_avx512 psti_packed_kernels_simde
#include "pli/decode/packed/x86/pli_packed_avx512.c"
