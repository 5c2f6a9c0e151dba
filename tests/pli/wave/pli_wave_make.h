/* pli_wave_make.h - makes valid wave units with any residuals, written from docs/format-pli.md,
 * section 5, alone. The code is slow and simple: it works with pixel coordinates, not with lanes
 * like the decoders. */
#ifndef PST_TESTS_PLI_WAVE_MAKE_H
#define PST_TESTS_PLI_WAVE_MAKE_H

#include "pli/format/pli_wave_format.h"

struct pli_wave_recipe {
    uint32_t height, width, channels, bits, transform;
    struct {
        uint8_t predictor; /* number of the predictor in the format (section 5.2) */
        uint16_t start;
        int8_t a, b;
        uint8_t filters[PSTI_PLI_WAVE_N_BLOCKS];
    } planes[4];
    uint32_t spread; /* approximate largest residual */
    uint32_t zeros;  /* number of residuals, out of 256, that are 0 */
    /* some residuals are -B/2, the largest magnitude, or exceed it and wrap modulo B */
    bool extremes;
};

struct pli_wave_freqs {
    uint16_t f[PSTI_PLI_N_CONTEXTS][PSTI_PLI_N_TOKENS];
};

uint32_t pli_wave_random(uint64_t *seed);

enum { PLI_WAVE_MAX_NBYTES = 128 * 1024 };
/* Makes a unit without its mode byte and returns its length. */
size_t pli_wave_make(const struct pli_wave_recipe *recipe, const struct pli_wave_freqs *freqs,
                     uint64_t *seed, uint8_t *out /* has PLI_WAVE_MAX_NBYTES bytes */);

#endif
