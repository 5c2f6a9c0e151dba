/* pli_wave_steps.h - samples of a wave unit in plain C, step by step (docs/format-pli.md, 5.3). */
#ifndef PST_PLI_WAVE_STEPS_H
#define PST_PLI_WAVE_STEPS_H

#include "pli/decode/wave/pli_wave_int.h"

enum {
    PSTI_PLI_WAVE_STEPS_PLANE = PSTI_PLI_WAVE_EDGE * PSTI_PLI_WAVE_EDGE, /* samples of 16 bits */
    /* Samples of 8 bits of a lane, by step; steps come in eights. */
    PSTI_PLI_WAVE_LINE = (PSTI_PLI_WAVE_MAX_STEPS + 7) / 8 * 8
};

/* 16 bits. Residuals (lane l's of step t at t * 32 + l) -> samples of the coded planes. Writes
 * column x of row y of plane c at c * PLANE + y * EDGE + x. */
void psti_pli_wave_steps(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                         const int16_t *residuals, uint16_t *samples);
/* 8 bits. Residuals ([t][lane]) -> samples of the coded planes
 * (lane l's of step t at l * LINE + t). */
void psti_pli_wave_steps_8(const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head,
                           uint8_t (*residuals)[PSTI_PLI_LANES], uint8_t *lines);

/* What both have in common. */

/* Which lanes are at edges in one step. A lane is told by where 32 numbers begin in a row of 96 of
 * which only the 33rd is set, so that it alone is. */
struct psti_pli_wave_edges {
    uint32_t column0, column1, last, row0, row1;
    int32_t start; /* sample that stands above lane 0 at (0, 0) of a plane; else -1 */
};
static inline struct psti_pli_wave_edges psti_pli_wave_find_edges(
    const struct psti_pli_unit *unit, const struct psti_pli_wave_head *head, uint32_t t)
{
    enum { NONE = 2 * PSTI_PLI_LANES, LANE_0 = PSTI_PLI_LANES };
    uint32_t bands = head->bands_per_plane, last = unit->width - 1;
    uint32_t front = LANE_0 - psti_pli_wave_front_lane(t);
    const struct psti_pli_wave_plane *plane = psti_pli_wave_plane_of(head, t >> 6);
    return (struct psti_pli_wave_edges){
        .column0 = t & 1 ? NONE : front,
        .column1 = t & 1 ? front : NONE,
        .last = (t - last) & 1 ? NONE : LANE_0 - (((t - last) & 63) >> 1),
        .row0 = ((t >> 6) & (bands - 1)) == 0 ? LANE_0 : NONE,
        .row1 = (((t - 2) >> 6) & (bands - 1)) == 0 ? LANE_0 - 1 : NONE,
        .start = plane && (t & (PSTI_PLI_WAVE_EDGE * bands - 1)) == 0 ? plane->start : -1,
    };
}

/* Coefficients of each lane's filter; 0 or -1: its prediction is MED. */
struct psti_pli_wave_lanes {
    _Alignas(64) int16_t k[7][PSTI_PLI_LANES], is_med[PSTI_PLI_LANES];
};
/* Renews those of lanes that enter a block in step t. */
void psti_pli_wave_update_lanes(const struct psti_pli_unit *unit,
                                const struct psti_pli_wave_head *head, uint32_t t,
                                struct psti_pli_wave_lanes *lanes);

#endif
