/* decode_unfilter_neon_simde.c - the functions that undo PNG's filters with NEON, compiled from the
 * same source against SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_unfilter_ops_neon psti_unfilter_ops_neon_simde
#include "decode/png/decode_png_unfilter_neon.c"
