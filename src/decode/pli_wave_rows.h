/* pli_wave_rows.h - 8-bit samples of a wave unit in plain C, row by row (docs/format-pli.md, 5.3).
 */
#ifndef PST_DECODE_PLI_WAVE_ROWS_H
#define PST_DECODE_PLI_WAVE_ROWS_H

#include "decode/pli_wave_int.h"

enum {
    /* Residuals of a lane, by step; steps come in eights. */
    PSTI_PLI_WAVE_LINE = (PSTI_PLI_WAVE_MAX_STEPS + 7) / 8 * 8,
    /* A row of samples, with room for what stands left and right of it. */
    PSTI_PLI_WAVE_ROW_BEFORE = 8,
    PSTI_PLI_WAVE_ROW = PSTI_PLI_WAVE_ROW_BEFORE + PSTI_PLI_WAVE_EDGE + 8,
    PSTI_PLI_WAVE_ROWS_PLANE = PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_ROW
};

/* Residuals (lane l's of step t at l * LINE + t) -> samples of the coded planes. Writes column x of
 * row y of plane c at (c * EDGE + y) * ROW + ROW_BEFORE + x. */
void psti_pli_wave_rows(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                        const int8_t *residuals, uint8_t *samples);

#endif
