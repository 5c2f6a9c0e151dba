/* format_pli_wave.h - tokens, contexts, tables and filters of PLI's wave mode (docs/format-pli.md,
 * section 5). Pure: used by decoder and encoder alike. */
#ifndef PST_FORMAT_FORMAT_PLI_WAVE_H
#define PST_FORMAT_FORMAT_PLI_WAVE_H

#include "format/format_pli.h"

enum {
    PSTI_PLI_LANES = 32,
    PSTI_PLI_N_CONTEXTS = 16,
    PSTI_PLI_N_TOKENS = 47,
    PSTI_PLI_PROB_BITS = 10,
    PSTI_PLI_PROB_SUM = 1 << PSTI_PLI_PROB_BITS,
    PSTI_PLI_N_FILTERS = 32, /* besides number 0, MED */
    PSTI_PLI_DIRECT = 24,    /* tokens below are magnitudes */
    PSTI_PLI_MAGNITUDE_CLAMP = 31
};

enum psti_pli_predictor {
    PSTI_PLI_PREDICT_CONSTANT = 0,
    PSTI_PLI_PREDICT_LEFT = 1,
    PSTI_PLI_PREDICT_UP = 2,
    PSTI_PLI_PREDICT_AVERAGE = 3,
    PSTI_PLI_PREDICT_MED = 4,
    PSTI_PLI_PREDICT_FILTERS = 8
};

/* Trained constants (format_pli_model.c). */
extern const uint8_t psti_pli_wave_bucket[256]; /* E -> context */
extern const uint16_t psti_pli_wave_freqs[PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS]; /* sum 1024 */
struct psti_pli_filter {
    int8_t k[5]; /* U, UL, UR, UU, LL, each minus L; in 1/32 */
    int8_t a, b; /* residuals of planes 0 and 1; 0 for earlier planes */
};
extern const struct psti_pli_filter psti_pli_filters[3][PSTI_PLI_N_FILTERS]; /* [min(plane,2)] */

#endif
