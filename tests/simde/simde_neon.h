/* simde_neon.h - NEON by emulation: SIMDe turns each intrinsic into what this machine has. What
 * SIMDe 0.7 lacks or has wrong is written out here.
 *
 * A test's file includes this, gives the functions of a file of kernels other names by macros, and
 * includes that file; pst_simde() in its CMakeLists.txt compiles it. */
#ifndef PST_TESTS_SIMDE_NEON_H
#define PST_TESTS_SIMDE_NEON_H

#define PST_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>

#endif
