/* pli_wave_predict.c - residuals of a plane under a prediction (docs/format-pli.md, 5.3) and their
 * estimated costs, in plain C.
 *
 * Neighbours are gathered once for 16 rows, and all predictions that are tried use them. The code
 * was written from the format's document and not from the decoder. It works in rows, where the
 * decoder works in diagonals. So each checks the other. */
#include "pli/encode/wave/pli_wave_encode_int.h"

#include <string.h>

#define TARGET
#define INLINE static inline

#define NAME(x) x##_8
#define NEAR struct psti_wave_near_8
#define LANE int16_t
#define SAMPLE uint8_t
#define SIGNED int8_t
#define BITS 8
#define PRODUCTS int32_t
#define price_lane psti_pli_wave_price_8
#include "pli/encode/wave/pli_wave_predict.h"

#define NAME(x) x##_16
#define NEAR struct psti_wave_near_16
#define LANE int32_t
#define SAMPLE uint16_t
#define SIGNED int16_t
#define BITS 16
#define PRODUCTS int64_t
#define price_lane psti_pli_wave_price_16
#include "pli/encode/wave/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows8_c = {gather_8,   find_residuals_8, find_block_8,
                                                 find_row_8, try_simple_8,     price_8,
                                                 add_taps_8, price_taps_8,     add_moments_8};
const struct psti_wave_rows psti_wave_rows16_c = {gather_16,   find_residuals_16, find_block_16,
                                                  find_row_16, try_simple_16,     price_16,
                                                  add_taps_16, price_taps_16,     add_moments_16};
