/* pli_packed_format.h - numbers of PLI's packed mode (docs/format-pli.md, section 4), which decoder
 * and encoder use. */
#ifndef PST_PLI_PACKED_FORMAT_H
#define PST_PLI_PACKED_FORMAT_H

#include "pli/format/pli_head.h"

enum {
    PSTI_PACKED_EDGE = 64,
    PSTI_PACKED_ROW_GROUPS = 8, /* maximum number of groups of 8 samples in a row */
    PSTI_PACKED_MAX_TAP = 64
};

/* The predictors of planes (section 4.5); CONSTANT stands for a constant plane (section 4.2). */
enum psti_packed_predictor {
    PSTI_PACKED_CONSTANT = 0,
    PSTI_PACKED_LEFT = 1,
    PSTI_PACKED_UP = 2,
    PSTI_PACKED_GRADIENT = 3,
    PSTI_PACKED_SMOOTH = 4,
    PSTI_PACKED_SMOOTH_GRADIENT = 5
};

/* Returns the number of taps in the record of a plane that is not constant (section 4.2). */
static inline uint32_t psti_pli_packed_n_taps(uint8_t transform, uint32_t plane)
{
    return transform == PSTI_PLI_SUBTRACT_GREEN && plane < 3 ? plane : 0;
}

#endif
