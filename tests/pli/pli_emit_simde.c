/* pli_emit_simde.c - the AVX-512 kernels of emission, compiled from the same source against SIMDe,
 * under another name. */
#include "simde/simde_avx512.h"

#define psti_pli_emit_kernels_avx512 psti_pli_emit_kernels_simde
#include "pli/decode/x86/pli_emit_avx512.c"
