/* pli_levels.h - the decoder's CPU levels that run on this machine, for tests that compare each
 * level with plain C. These are the processor's own level, and AVX-512 and NEON as SIMDe emulates
 * them. */
#ifndef PST_TESTS_PLI_LEVELS_H
#define PST_TESTS_PLI_LEVELS_H

#include "pli/decode/pli_decode_int.h"
#include "pli/decode/pli_kernels.h"

struct pli_level {
    const char *name;
    const struct psti_pli_kernels *kernels;
    bool is_emulated;
};
enum { PLI_LEVELS_MAX = 5 };

/* Fills `levels`, plain C first, and returns their number. */
uint32_t pli_levels(struct pli_level levels[PLI_LEVELS_MAX]);

/* Returns the kernels of emulated AVX-512, the level that decodes several units at once, or NULL if
 * there is no emulation. */
const struct psti_pli_kernels *pli_emulated_avx512(void);

#endif
