/* pli_coefs_simde_values.c - see pli_coefs_simde.h. */
#include "pli/pli_coefs_simde.h"

#include "decode/pli_coefs_avx512_values.c"
