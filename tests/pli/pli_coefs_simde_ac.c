/* pli_coefs_simde_ac.c - see pli_coefs_simde.h. */
#include "pli/pli_coefs_simde.h"

#include "decode/pli_coefs_avx512_ac.c"
