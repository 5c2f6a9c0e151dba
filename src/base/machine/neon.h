/* neon.h - includes the intrinsics of NEON. A file that uses them is enclosed in `#if
 * defined(PSTI_NEON)`.
 *
 * NEON is part of AArch64's base instruction set, so functions need no attributes. Little-endian
 * only. Tests also compile such files against SIMDe, to run them on other machines. They define
 * PST_SIMDE and include the intrinsics first (tests/simde/simde_neon.h). */
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
