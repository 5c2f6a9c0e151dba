/* pli_coefs_simde_squares.c - compiles the squares of the emulated AVX-512 level
 * (pli_coefs_simde.h). */
#include "pli/coefs/pli_coefs_simde.h"

#include "pli/decode/coefs/x86/pli_coefs_avx512_squares.c"
