/* pli_coefs_simde.c - see pli_coefs_simde.h. */
#include "pli/pli_coefs_simde.h"

#include "decode/pli_coefs_avx512.c"
