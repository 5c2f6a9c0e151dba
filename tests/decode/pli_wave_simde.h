/* pli_wave_simde.h - other names for the AVX-512 level of the wave decoder, where it is compiled
 * against SIMDe. */
#ifndef PST_TESTS_PLI_WAVE_SIMDE_H
#define PST_TESTS_PLI_WAVE_SIMDE_H

#define psti_pli_wave_decode_avx512 psti_pli_wave_decode_simde
#define psti_pli_wave_decode_some_avx512 psti_pli_wave_decode_some_simde
#define psti_pli_wave512_tokens psti_pli_wave512_tokens_simde
#define psti_pli_wave512_raw_bits psti_pli_wave512_raw_bits_simde
#define psti_pli_wave512_rebuild psti_pli_wave512_rebuild_simde

#endif
