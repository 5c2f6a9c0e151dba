/* augment_simde.c - the AVX-512 kernels, compiled from the same source against SIMDe, under another
 * name. */
#include "simde/simde_avx512.h"

#define psti_augment_ops_avx512 psti_augment_ops_simde
#include "augment/kernels/augment_kernels.h"

extern const struct psti_augment_ops psti_augment_ops_simde;

#include "augment/kernels/augment_kernels_avx512.c"
