/* pli_coefs_simde.h - the AVX-512 level of the coefficient decoder, compiled from the same sources
 * against SIMDe, under other names: pli_coefs_simde*.c include this and one file each. */
#ifndef PST_TEST_PLI_COEFS_SIMDE_H
#define PST_TEST_PLI_COEFS_SIMDE_H

#include "simde/simde_avx512.h"

#define psti_coefs_level_avx512 psti_coefs_level_simde
#define psti_pli_coefs_avx512_read_classes psti_coefs_simde_read_classes
#define psti_pli_coefs_avx512_read_ends psti_coefs_simde_read_ends
#define psti_pli_coefs_avx512_read_dc psti_coefs_simde_read_dc
#define psti_pli_coefs_avx512_read_ac psti_coefs_simde_read_ac
#define psti_pli_coefs_avx512_read_two psti_coefs_simde_read_two
#define psti_pli_coefs_avx512_place_dc psti_coefs_simde_place_dc
#define psti_pli_coefs_avx512_place_ac psti_coefs_simde_place_ac

#endif
