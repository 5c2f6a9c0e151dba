/* pli_levels.h - the decoder's CPU levels that run on this machine, for tests that hold each to
 * plain C: the processor's own, and AVX-512 and NEON as SIMDe emulates them. */
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

/* Fills `levels`, plain C first; returns their number. */
uint32_t pli_levels(struct pli_level levels[PLI_LEVELS_MAX]);

/* The emulated level that decodes several units at once, AVX-512; NULL where there is none. */
const struct psti_pli_kernels *pli_emulated_avx512(void);

#endif
