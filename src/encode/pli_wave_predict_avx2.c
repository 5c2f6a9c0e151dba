/* pli_wave_predict_avx2.c - the loops of pli_wave_predict.h for 8-bit samples, compiled for AVX2:
 * the same numbers as plain C. */
#include "encode/pli_wave_encode_int.h"

#if defined(__x86_64__)
#include <string.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

#define NAME(x) x##_8
#define NEAR struct psti_wave_near_8
#define LANE int16_t
#define SAMPLE uint8_t
#define SIGNED int8_t
#define BITS 8
#define price_lane psti_wave_price_8
#include "encode/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows8_avx2 = {gather_8,     find_residuals_8, find_row_8,
                                                    add_prices_8, try_prices_8,     add_taps_8};
#else
/* An empty file is none in C. */
typedef int psti_wave_no_avx2;
#endif
