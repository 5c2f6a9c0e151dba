/* pli_wave_predict.c - residuals of a plane under a prediction (docs/format-pli.md, 5.3) and their
 * estimated costs, in plain C.
 *
 * Neighbours are gathered once for 16 rows, and all predictions that are tried use them. The code
 * was written from the format's document, not from the decoder, and works in rows, where the
 * decoder works in diagonals. So encoder and decoder check each other. */
#include "pli/encode/wave/pli_wave_encode_int.h"

#include <string.h>

#define TARGET
#define INLINE static inline

#define NAME(x) x##_u8
#define NEAR struct psti_wave_near_u8
#define LANE int16_t
#define SAMPLE uint8_t
#define SIGNED int8_t
#define BITS 8
#define PRODUCTS int32_t
#define price_lane psti_pli_wave_price_u8
#include "pli/encode/wave/pli_wave_predict.h"

#define NAME(x) x##_u16
#define NEAR struct psti_wave_near_u16
#define LANE int32_t
#define SAMPLE uint16_t
#define SIGNED int16_t
#define BITS 16
#define PRODUCTS int64_t
#define price_lane psti_pli_wave_price_u16
#include "pli/encode/wave/pli_wave_predict.h"

const struct psti_wave_rows psti_wave_rows_u8_c = {gather_u8,   find_residuals_u8, find_block_u8,
                                                   find_row_u8, try_simple_u8,     price_u8,
                                                   add_taps_u8, price_taps_u8,     add_moments_u8};
const struct psti_wave_rows psti_wave_rows_u16_c = {
    gather_u16, find_residuals_u16, find_block_u16, find_row_u16,   try_simple_u16,
    price_u16,  add_taps_u16,       price_taps_u16, add_moments_u16};
