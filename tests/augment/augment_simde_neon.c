/* augment_simde_neon.c - the NEON kernels, compiled from the same source against SIMDe, under
 * another name. */
#include "simde/simde_neon.h"

#define psti_augment_ops_neon psti_augment_ops_simde_neon
#include "augment/kernels/augment_kernels_neon.c"
