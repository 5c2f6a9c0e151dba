/* pli_coefs_simde.c - compiles a part of the emulated AVX-512 level (pli_coefs_simde.h). */
#include "pli/coefs/pli_coefs_simde.h"

#include "pli/decode/coefs/x86/pli_coefs_avx512.c"
