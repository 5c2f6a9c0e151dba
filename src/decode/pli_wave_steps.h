/* pli_wave_steps.h - 16-bit samples of a wave unit in plain C, step by step (docs/format-pli.md,
 * 5.3). */
#ifndef PST_DECODE_PLI_WAVE_STEPS_H
#define PST_DECODE_PLI_WAVE_STEPS_H

#include "decode/pli_wave_int.h"

enum { PSTI_PLI_WAVE_STEPS_PLANE = PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE }; /* samples */

/* Residuals (lane l's of step t at t * 32 + l) -> samples of the coded planes. Writes column x of
 * row y of plane c at c * PLANE + y * EDGE + x. */
void psti_pli_wave_steps(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                         const int16_t *residuals, uint16_t *samples);

#endif
