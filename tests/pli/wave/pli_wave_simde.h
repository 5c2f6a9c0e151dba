/* pli_wave_simde.h - renames the functions of the wave decoder's AVX-512 level, so that it can be
 * compiled a second time, against SIMDe. */
#ifndef PST_TESTS_PLI_WAVE_SIMDE_H
#define PST_TESTS_PLI_WAVE_SIMDE_H

#define psti_pli_wave_decode_avx512 psti_pli_wave_decode_simde
#define psti_pli_wave_decode_some_avx512 psti_pli_wave_decode_some_simde
#define psti_pli_wave512_tokens psti_pli_wave512_tokens_simde
#define psti_pli_wave512_raw_bits psti_pli_wave512_raw_bits_simde
#define psti_pli_wave512_open_pairs psti_pli_wave512_open_pairs_simde
#define psti_pli_wave512_close_pairs psti_pli_wave512_close_pairs_simde
#define psti_pli_wave512_is_plain psti_pli_wave512_is_plain_simde
#define psti_pli_wave512_plain psti_pli_wave512_plain_simde
#define psti_pli_wave512_rebuild psti_pli_wave512_rebuild_simde

#endif
