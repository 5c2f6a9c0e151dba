/* pli_lz_neon_simde.c - units of mode lz with their NEON loops, compiled from the same sources
 * against SIMDe, under other names. What calls the loops of AVX2 elsewhere calls them here. */
#include "simde/simde_neon.h"

#define psti_pli_lz_decode psti_pli_lz_decode_neon_simde
#define psti_pli_lz_begin psti_pli_lz_begin_neon_simde
#define psti_lz_execute psti_lz_execute_neon_simde
#define psti_lz_decode_sequences psti_lz_decode_sequences_neon_simde
#define psti_lz_decode_symbols psti_lz_decode_symbols_neon_simde
#define psti_lz_decode_pixels psti_lz_decode_pixels_neon_simde
#define psti_lz_sequences_avx2 psti_lz_sequences_neon
#define psti_lz_symbols_avx2 psti_lz_symbols_neon
#define psti_lz_pixels_avx2 psti_lz_pixels_neon
#include "pli/decode/lz/pli_lz.c"
#include "pli/decode/lz/arm/pli_lz_copy_neon.c"
#include "pli/decode/lz/pli_lz_tokens.c"
#include "pli/decode/lz/arm/pli_lz_tokens_neon.c"
#include "pli/decode/arm/pli_refill_neon.c"

const char *psti_lz_execute(struct psti_lz_execution *run, uint32_t pixel_nbytes, uint32_t cpu)
{
    (void)cpu;
    return psti_lz_execute_neon(run, pixel_nbytes);
}
