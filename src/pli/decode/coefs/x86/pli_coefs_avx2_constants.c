/* pli_coefs_avx2_constants.c - the constants of the coefficient decoder's AVX2 level. They are read
 * from memory, because compilers would build them again and again. */
#include "pli/decode/coefs/x86/pli_coefs_avx2.h"

#if defined(__x86_64__)
#define EIGHT(v) v, v, v, v, v, v, v, v
const uint8_t psti_coefs_avx2_ramp[64] = {EIGHT(0), EIGHT(0), EIGHT(0), EIGHT(0),
                                          EIGHT(8), EIGHT(8), EIGHT(8), EIGHT(8)};
const uint8_t psti_coefs_avx2_first_lanes[64] = {EIGHT(255), EIGHT(255), EIGHT(255), EIGHT(255),
                                                 EIGHT(0),   EIGHT(0),   EIGHT(0),   EIGHT(0)};

#define SIXTEEN(v) EIGHT(v), EIGHT(v)
#define THIRTY_TWO(v)                                                                              \
    {                                                                                              \
        EIGHT(v), EIGHT(v), EIGHT(v), EIGHT(v)                                                     \
    }
const struct psti_coefs_avx2_constants psti_coefs_avx2_constants = {
    .slots = {SIXTEEN(PSTI_JPEG_PROB_SUM - 1)},
    .top = {SIXTEEN(0x8000)},
    .all_slots = {SIXTEEN(PSTI_JPEG_PROB_SUM)},
    .last_ac_token = THIRTY_TWO(PSTI_JPEG_N_AC_TOKENS - 1),
    .low_4 = THIRTY_TWO(15),
    .bit_3 = THIRTY_TWO(8),
    .one = THIRTY_TWO(1),
    .numbers = {THIRTY_TWO(0), THIRTY_TWO(1), THIRTY_TWO(2), THIRTY_TWO(3), THIRTY_TWO(4),
                THIRTY_TWO(5), THIRTY_TWO(6), THIRTY_TWO(7), THIRTY_TWO(8), THIRTY_TWO(9),
                THIRTY_TWO(10), THIRTY_TWO(11), THIRTY_TWO(12), THIRTY_TWO(13)},
};
#endif
