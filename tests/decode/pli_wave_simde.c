/* pli_wave_simde.c - the AVX-512 level of the wave decoder but for its predictions, compiled from
 * the same source against SIMDe. */
#include "simde/simde_avx512.h"

#include "decode/pli_wave_simde.h"

#include "decode/pli_wave_avx512.c"
#include "decode/pli_wave_avx512_plain.c"
#include "decode/pli_wave_avx512_raw.c"
#include "decode/pli_wave_avx512_tokens.c"
