/* pli_wave_neon_simde.c - the NEON level of the wave decoder, compiled from the same sources
 * against SIMDe, under another name. */
#include "simde/simde_neon.h"

#define psti_pli_wave_decode_neon psti_pli_wave_decode_neon_simde
#include "decode/pli_refill_neon.c"
#include "decode/pli_wave_neon.c"
#include "decode/pli_wave_neon_raw.c"
#include "decode/pli_wave_neon_raw16.c"
#include "decode/pli_wave_neon_tokens.c"
