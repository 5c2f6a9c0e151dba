/* augment_simde_icl.c - the kernels of AVX-512 of Ice Lake, compiled from the same source against
 * SIMDe, under another name. */
#include "simde/simde_avx512.h"

#define psti_augment_ops_icl psti_augment_ops_simde_icl
#include "augment/kernels/augment_kernels.h"

extern const struct psti_augment_ops psti_augment_ops_simde_icl;

#include "augment/kernels/augment_kernels_icl.c"
