/* pli_coefs_simde.c - see pli_coefs_simde.h. */
#include "pli/coefs/pli_coefs_simde.h"

#include "pli/decode/coefs/x86/pli_coefs_avx512.c"
