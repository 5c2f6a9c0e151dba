/* neon.h - for files of NEON code: its intrinsics. Such files are `#if defined(PSTI_NEON)` whole.
 *
 * NEON is part of AArch64's base instruction set, so functions need no attributes. Tests compile
 * such files against SIMDe (PST_SIMDE: whoever includes the file has the intrinsics,
 * tests/simde/simde_neon.h), so that they are run on other machines too. Little-endian only. */
#ifndef PST_BASE_NEON_H
#define PST_BASE_NEON_H

#if defined(PST_SIMDE)
#define PSTI_NEON 1
#elif defined(__aarch64__)
#define PSTI_NEON 1
#include <arm_neon.h>
#endif

#define PSTI_NEON_INLINE static inline __attribute__((always_inline))

#endif
