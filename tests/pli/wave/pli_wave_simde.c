/* pli_wave_simde.c - the AVX-512 level of the wave decoder, except its predictions, compiled from
 * the same source against SIMDe. */
#include "simde/simde_avx512.h"

#include "pli/wave/pli_wave_simde.h"

#include "pli/decode/wave/x86/pli_wave_avx512.c"
#include "pli/decode/wave/x86/pli_wave_avx512_plain.c"
#include "pli/decode/wave/x86/pli_wave_avx512_raw.c"
#include "pli/decode/wave/x86/pli_wave_avx512_tokens.c"
